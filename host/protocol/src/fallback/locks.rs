//! Locks of the fallback on one worker, granted in TID order (Styx §6.2).
//!
//! What will be locked is known: the RW sets of the first executions. So there is no lock manager
//! that anybody asks, only the order of those who want a key: who is free may run, and frees
//! others when its end is decided. Everybody waits for lower TIDs only, on every worker alike; so
//! nothing deadlocks.

use styx_planted::{Bug, planted};

use super::writers::Writers;
use crate::execute::attempt::Footprint;
use crate::state::entity::{Entity, EntityMap};

/// What one transaction wants of a key.
#[derive(Clone, Copy)]
struct Claim {
    member: usize,
    writes: bool,
}

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
        let mut queues: EntityMap<Vec<Claim>, &Entity> = EntityMap::default();
        for (entity, _) in
            footprints.iter().flat_map(|footprint| footprint.accesses.iter().filter(|(_, access)| access.is_write()))
        {
            queues.place(&entity, Vec::new);
        }
        for (member, footprint) in footprints.iter().enumerate() {
            for (entity, access) in footprint.accesses.iter() {
                if let Some(place) = queues.find(entity) {
                    queues.at_mut(place).push(Claim { member, writes: access.is_write() });
                }
            }
        }
        let mut locks = Locks { blocked: vec![0; footprints.len()], dependents: vec![Vec::new(); footprints.len()] };
        for (_, queue) in queues.iter() {
            debug_assert!(queue.is_sorted_by(|a, b| a.member < b.member), "one claim each, in TID order");
            let (mut writer, mut readers) = (None, Vec::new());
            for &Claim { member, writes } in queue {
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
        if !planted(Bug::LocksIgnoreRanges) {
            locks.wait_for_ranges(footprints);
        }
        locks.check();
        locks
    }

    /// Whoever read a range waits for all lower ones that wrote inside it, and all higher ones that did wait for it.
    fn wait_for_ranges(&mut self, footprints: &[&Footprint]) {
        if footprints.iter().all(|footprint| footprint.ranges.is_empty()) {
            return;
        }
        let writers = Writers::new(footprints.iter().copied());
        // Who has been found last to have to do with each: one wait for all ranges of a transaction.
        let mut found = vec![usize::MAX; footprints.len()];
        for (member, footprint) in footprints.iter().enumerate() {
            found[member] = member;
            for read in &footprint.ranges {
                writers.inside(read, |writer| {
                    if std::mem::replace(&mut found[writer], member) != member {
                        self.wait(member.max(writer), member.min(writer));
                    }
                });
            }
        }
    }

    fn wait(&mut self, member: usize, holder: usize) {
        debug_assert!(holder < member, "everybody waits for lower TIDs only");
        self.blocked[member] += 1;
        self.dependents[holder].push(member);
    }

    /// How many waits there are.
    pub(super) fn waits(&self) -> usize {
        self.dependents.iter().map(Vec::len).sum()
    }

    /// Every wait is known at both of its ends.
    fn check(&self) {
        debug_assert_eq!(self.blocked.iter().sum::<usize>(), self.waits(), "who is blocked is somebody's dependent");
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
        debug_assert!(self.is_free(member) || planted(Bug::LocksEarly), "who is blocked holds nothing to release");
        let mut freed = Vec::new();
        for dependent in std::mem::take(&mut self.dependents[member]) {
            self.blocked[dependent] -= 1;
            if self.blocked[dependent] == 0 {
                freed.push(dependent);
            }
        }
        self.check();
        freed
    }
}
