//! Locks of the fallback on one worker, granted in TID order (Styx §6.2).
//!
//! What will be locked is known: the RW sets of the first executions. So there is no lock manager
//! that anybody asks, only the order of those who want a key: who is free may run, and frees
//! others when its end is decided. Everybody waits for lower TIDs only, on every worker alike; so
//! nothing deadlocks.

use std::collections::BTreeMap;

use crate::attempt::Footprint;
use crate::entity::Key;
use crate::ids::OperatorId;
use crate::mutants::{Bug, planted};

/// Who waits for whom. Transactions are named by their position in TID order.
#[derive(Debug)]
pub struct Locks {
    /// How many earlier holders each still waits for.
    blocked: Vec<usize>,
    /// Who waits for each.
    dependents: Vec<Vec<usize>>,
}

impl Locks {
    /// Locks for RW sets in TID order.
    pub fn new(footprints: &[&Footprint]) -> Self {
        // A key that nobody writes makes nobody wait.
        let mut queues: BTreeMap<(OperatorId, Key), Vec<(usize, bool)>> = BTreeMap::new();
        for (entity, _) in footprints.iter().flat_map(|footprint| {
            footprint.accesses.iter().filter(|(_, access)| access.is_write())
        }) {
            queues.entry((entity.operator(), entity.key().clone())).or_default();
        }
        for (member, footprint) in footprints.iter().enumerate() {
            for (entity, access) in footprint.accesses.iter() {
                if planted(Bug::LocksIgnoreReaders) && !access.is_write() {
                    continue;
                }
                if let Some(queue) = queues.get_mut(&(entity.operator(), entity.key().clone())) {
                    queue.push((member, access.is_write()));
                }
            }
            for read in footprint.ranges.iter().filter(|_| !planted(Bug::LocksIgnoreRanges)) {
                let of_operator = (read.operator, Key::from(""))..(OperatorId(read.operator.0 + 1), Key::from(""));
                for (_, queue) in queues.range_mut(of_operator).filter(|((_, key), _)| read.range.contains(key)) {
                    if queue.last().is_none_or(|(last, _)| *last != member) {
                        queue.push((member, false));
                    }
                }
            }
        }
        let mut locks = Locks { blocked: vec![0; footprints.len()], dependents: vec![Vec::new(); footprints.len()] };
        for queue in queues.values() {
            let (mut writer, mut readers) = (None, Vec::new());
            for &(member, writes) in queue {
                if let Some(writer) = writer {
                    locks.wait(member, writer);
                }
                if writes {
                    readers.drain(..).for_each(|reader| locks.wait(member, reader));
                    writer = Some(member);
                } else {
                    readers.push(member);
                }
            }
        }
        locks
    }

    fn wait(&mut self, member: usize, holder: usize) {
        self.blocked[member] += 1;
        self.dependents[holder].push(member);
    }

    /// Who holds all of its locks from the start.
    pub fn free(&self) -> Vec<usize> {
        (0..self.blocked.len()).filter(|member| self.blocked[*member] == 0).collect()
    }

    /// Whether a transaction holds all of its locks.
    pub fn is_free(&self, member: usize) -> bool {
        self.blocked[member] == 0
    }

    /// Releases the locks of a transaction; tells who holds all of its own now.
    pub fn release(&mut self, member: usize) -> Vec<usize> {
        let mut freed = Vec::new();
        for dependent in std::mem::take(&mut self.dependents[member]) {
            self.blocked[dependent] -= 1;
            if self.blocked[dependent] == 0 {
                freed.push(dependent);
            }
        }
        freed
    }
}
