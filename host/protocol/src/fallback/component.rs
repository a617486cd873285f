//! The lock-based commit phase (Styx §6.2): conflicting transactions run again, under locks
//! granted in TID order, and commit unless they leave their cached RW set or call graph.
//!
//! Locks in TID order mean: a transaction waits exactly for the lower TIDs that it conflicts with.
//! So the conflict graph falls into components that share no lock. Each runs in TID order on one
//! thread, every member seeing its predecessors' writes in an overlay; components run in
//! parallel. No lock table is needed, no thread waits, and the outcome is the one that granting
//! locks in TID order gives.

use std::sync::Arc;

use styx_planted::{Bug, planted};

use super::writers::Writers;
use crate::commit::ranges::first_from;
use crate::execute::attempt::{Execution, Overlay};
use crate::execute::executor::Executor;
use crate::sequence::catalog::Catalog;
use crate::sequence::transaction::Transaction;
use crate::state::entity::{Entity, EntityMap};
use crate::state::{State, Write};

/// A transaction that conflicted, with what its first execution did.
#[derive(Clone, Debug)]
pub struct Member {
    /// Where it stands in the epoch.
    pub index: usize,
    /// Whether other workers take part in it.
    pub shared: bool,
    pub transaction: Transaction,
    /// Its first execution: its locks and its call graph.
    pub cached: Arc<Execution>,
}

/// What a component's run gave.
#[derive(Debug)]
pub struct ComponentOutcome {
    /// Per member: where it stands in the epoch, and its second execution.
    pub executions: Vec<(usize, Execution)>,
    /// The component's writes, one per entity.
    pub writes: Vec<Write>,
}

/// Runs one component's members in TID order.
pub fn run_component(
    executor: &mut impl Executor,
    members: &[Member],
    state: &Arc<State>,
    catalog: &Arc<Catalog>,
) -> ComponentOutcome {
    debug_assert!(in_tid_order(members));
    let mut overlay = Box::new(Overlay::default());
    let mut executions = Vec::with_capacity(members.len());
    for member in members {
        let execution;
        (execution, overlay) = executor.fall_back(&member.transaction, state, catalog, overlay, &member.cached);
        if !execution.drifted {
            execution.writes().for_each(|write| overlay.apply(write));
        }
        executions.push((member.index, execution));
    }
    ComponentOutcome { executions, writes: overlay.into_writes() }
}

/// Splits conflicting transactions, given in TID order, into components that share no lock.
/// Members stay in TID order; components come in the order of their lowest TID.
pub fn components(members: Vec<Member>) -> Vec<Vec<Member>> {
    debug_assert!(in_tid_order(&members));
    let mut groups = Groups((0..members.len()).collect());
    // A key that nobody writes connects nobody. For one that somebody writes: its first user.
    let mut written: EntityMap<usize, &Entity> = EntityMap::default();
    for (at, member) in members.iter().enumerate() {
        for (entity, access) in member.cached.footprint.accesses.iter() {
            if access.is_write() {
                let first = *written.entry(&entity, || at);
                groups.join(first, at);
            }
        }
    }
    for (at, member) in members.iter().enumerate() {
        for (entity, access) in member.cached.footprint.accesses.iter() {
            if !access.is_write()
                && !planted(Bug::ComponentsIgnoreReaders)
                && let Some(&first) = written.get(entity)
            {
                groups.join(first, at);
            }
        }
    }
    drop(written);
    join_ranges(&members, &mut groups);
    let mut split: Vec<Vec<Member>> = Vec::new();
    let mut place: Vec<Option<usize>> = vec![None; members.len()];
    for (at, member) in members.into_iter().enumerate() {
        let group = groups.find(at);
        let component = *place[group].get_or_insert_with(|| {
            split.push(Vec::new());
            split.len() - 1
        });
        split[component].push(member);
    }
    debug_assert!(split.iter().all(|component| in_tid_order(component)));
    debug_assert!(share_no_lock(&split) || planted(Bug::ComponentsIgnoreReaders));
    split
}

/// Joins whoever read a range with all who wrote inside it. Those stand side by side, and are joined once.
fn join_ranges(members: &[Member], groups: &mut Groups) {
    let footprints = || members.iter().map(|member| &member.cached.footprint);
    if footprints().all(|footprint| footprint.ranges.is_empty()) {
        return;
    }
    let writers = Writers::new(footprints());
    let mut next: Vec<usize> = (0..=writers.len()).collect();
    for (at, footprint) in footprints().enumerate() {
        for held in footprint.ranges.iter().map(|read| writers.held_by(read)).filter(|held| !held.is_empty()) {
            groups.join(writers.at(held.start), at);
            let mut place = first_from(&mut next, held.start);
            while place + 1 < held.end {
                groups.join(writers.at(place), writers.at(place + 1));
                next[place] = place + 1;
                place = first_from(&mut next, place);
            }
        }
    }
}

fn in_tid_order(members: &[Member]) -> bool {
    members.is_sorted_by(|a, b| a.transaction.tid < b.transaction.tid)
}

/// Whether no component writes what another one reads or writes.
fn share_no_lock(components: &[Vec<Member>]) -> bool {
    let all = || components.iter().enumerate().flat_map(|(at, members)| members.iter().map(move |member| (at, member)));
    let mut writer: EntityMap<usize, &Entity> = EntityMap::default();
    for (at, member) in all() {
        for (entity, _) in member.cached.footprint.accesses.iter().filter(|(_, access)| access.is_write()) {
            if *writer.entry(&entity, || at) != at {
                return false;
            }
        }
    }
    let of: Vec<usize> = all().map(|(at, _)| at).collect();
    let writers = Writers::new(all().map(|(_, member)| &member.cached.footprint));
    // How many places, from the first on, lie behind a change from one component to another.
    let mut changes = vec![0; writers.len()];
    for place in 1..writers.len() {
        changes[place] = changes[place - 1] + usize::from(of[writers.at(place)] != of[writers.at(place - 1)]);
    }
    all().all(|(at, member)| {
        let footprint = &member.cached.footprint;
        let mut held = footprint.ranges.iter().map(|read| writers.held_by(read)).filter(|held| !held.is_empty());
        footprint.accesses.iter().all(|(entity, _)| writer.get(entity).is_none_or(|of| *of == at))
            && held.all(|held| of[writers.at(held.start)] == at && changes[held.start] == changes[held.end - 1])
    })
}

/// Union-find with path halving; the lower index leads.
struct Groups(Vec<usize>);

impl Groups {
    fn find(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b);
    }
}
