//! Placements of generations: whoever is still there keeps its partitions, what others had goes to somebody, and to nobody
//! who was emptied as long as anybody else is there.

use std::collections::BTreeSet;

use styx_driver::coordinator::MigrationId;
use styx_protocol::ids::{Epoch, PartitionId};
use styx_protocol::placement::Placement;

use super::{Checked, Failure, ensure};
use crate::event::Life;

/// Who had what from some moment on, by node.
#[derive(Clone, Debug)]
struct Known {
    leader: Life,
    members: Vec<usize>,
    owners: Vec<usize>,
    emptied: BTreeSet<usize>,
    /// The epoch whose record says so, if one does.
    logged: Option<Epoch>,
    /// The generation has served with it.
    live: bool,
}

#[derive(Debug, Default)]
pub struct Placements {
    /// The newest is the last. A coordinator that is started anew knows what was durable.
    known: Vec<Known>,
    /// Somebody wants other owners in the next generation that goes live.
    wanted: bool,
    /// The newest migration that was found to be done.
    done: Option<MigrationId>,
}

impl Known {
    fn of(leader: Life, members: &[usize], placement: &Placement) -> Known {
        let owner = |id| members[usize::from(placement.owner(PartitionId(id as u16)).0)];
        let owners = (0..placement.partitions()).map(owner).collect();
        Known { leader, members: members.to_vec(), owners, emptied: BTreeSet::new(), logged: None, live: false }
    }

    /// The same, of so many partitions.
    fn owners_in(&self, partitions: usize) -> impl Iterator<Item = &usize> {
        (0..partitions).map(move |at| &self.owners[at * self.owners.len() / partitions])
    }

    /// Why a generation cannot begin so that goes on from here.
    fn breaks(&self, next: &Known) -> Option<String> {
        let others = next.members.iter().any(|member| !self.emptied.contains(member));
        // In another number of partitions, each stays where most of it was.
        for (partition, (before, after)) in self.owners_in(next.owners.len()).zip(&next.owners).enumerate() {
            if next.members.contains(before) && before != after {
                return Some(format!(
                    "partition {partition} was node {before}'s, which is still there, and is {after}'s"
                ));
            }
            if before != after && others && self.emptied.contains(after) {
                return Some(format!("partition {partition} goes to node {after}, which was emptied"));
            }
        }
        None
    }
}

impl Placements {
    /// A migration is wanted for which everything stops.
    pub fn wanted(&mut self) {
        self.wanted = true;
    }

    /// A generation is live, and what was wanted of it done. One that ends before leaves it to the next.
    pub fn live(&mut self) {
        if let Some(last) = self.known.last_mut() {
            last.live = true;
        }
        self.wanted = false;
    }

    /// A generation begins. The log is durable up to an epoch.
    pub fn begins(&mut self, leader: Life, members: &[usize], placement: &Placement, durable: Epoch) -> Checked {
        let mut next = Known::of(leader, members, placement);
        let newest = self.known.iter().rposition(|known| known.logged.is_some_and(|epoch| epoch <= durable));
        self.known.drain(..newest.unwrap_or(0));
        let is_same = self.known.last().is_some_and(|last| last.leader == leader);
        let broken: Vec<Option<String>> = self.known.iter().map(|known| known.breaks(&next)).collect();
        let fits = broken.iter().rposition(Option::is_none);
        // Before anything was logged nobody knows anything.
        let knows = is_same || newest.is_some();
        ensure(!knows || self.wanted || fits.is_some(), "placement", || {
            broken.iter().flatten().next_back().cloned().unwrap_or_default()
        })?;
        // Who had partitions, is still there and has none has given them away, in a migration for which everything stopped:
        // as the log or a live generation had them, whatever one in between was about to begin with.
        let stood = self.known.iter().rev().find(|known| known.live || known.logged.is_some());
        let last = fits.map(|at| &self.known[at]).or(stood.filter(|_| self.wanted));
        if let Some(last) = last.filter(|_| knows) {
            let had = |node: &usize| last.owners_in(next.owners.len()).any(|owner| owner == node);
            let emptied = |node: &usize| !next.owners.contains(node) && (had(node) || last.emptied.contains(node));
            next.emptied = members.iter().copied().filter(emptied).collect();
        }
        self.known.push(next);
        Ok(())
    }

    /// Partitions have other owners from an epoch on; or the log is told of who has had them.
    pub fn logged(&mut self, placement: &Placement, epoch: Epoch) {
        let Some(last) = self.known.last() else { return };
        let mut next = Known { logged: Some(epoch), ..Known::of(last.leader, &last.members, placement) };
        let has = |known: &Known, node: &usize| known.owners.contains(node);
        let emptied = |node: &usize| !has(&next, node) && (has(last, node) || last.emptied.contains(node));
        next.emptied = last.members.iter().copied().filter(emptied).collect();
        self.known.push(next);
    }

    /// A migration is said to be done: whoever leads next begins with it, also if nothing happens any more. It is said again
    /// when an owner tells later what it has copied, in whichever generation that is.
    pub fn done(&mut self, leader: Life, migration: MigrationId, durable: Epoch) -> Checked {
        if self.known.last().is_none_or(|last| last.leader != leader) || self.done.replace(migration) == Some(migration)
        {
            return Ok(());
        }
        // What has been logged since the generation under way began.
        let mut logged = self.known.iter().rev().map_while(|known| known.logged);
        ensure(logged.any(|epoch| epoch <= durable), "placement", || {
            format!("{leader} says that a migration is done, which no record up to epoch {durable} says")
        })
    }

    /// Partitions are to be spread among these.
    pub fn shares(&self, nodes: &[usize]) -> Checked {
        let Some(last) = self.known.last() else { return Ok(()) };
        match nodes.iter().find(|node| last.emptied.contains(*node)) {
            Some(node) => Err(Failure::new("placement", format!("node {node} is to have a share, and was emptied"))),
            None => Ok(()),
        }
    }
}
