//! Migration: a placement that is to come, as soon as the owners to be have what is to be theirs.

use std::collections::BTreeMap;

use styx_planted::{Bug, planted};

use super::Coordinator;
use super::io::Action;
use crate::abort::{Abort, Code};
use crate::cluster::placement::Placement;
use crate::cluster::worker_set::WorkerSet;
use crate::ids::{Epoch, PartitionId, PlacementVersion, WorkerId};
use crate::wire::fault::why;
use crate::wire::message::Message;
use crate::wire::moving::MovingMode;

/// See the module. `W` names whoever waits for it.
#[derive(Debug)]
pub(super) struct Migration<W> {
    pub next: Placement,
    pub waiter: Option<W>,
    pub mode: MovingMode,
    stage: Stage,
    /// New owners that do not have all of their partitions yet; or workers that have not dealt out all of theirs.
    incomplete: WorkerSet,
    /// It makes another number of partitions, and moves none.
    pub repartitions: bool,
}

#[derive(Debug)]
enum Stage {
    /// These have more to copy.
    Copying(WorkerSet),
    /// All is copied.
    Copied,
    /// The next epoch begins with it.
    Due,
    /// It took effect with this epoch.
    Placed(Epoch),
    /// That epoch is durable.
    Durable,
}

/// How far a migration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationStage {
    /// Some have more to copy.
    Copying,
    /// All is copied, and the placement is about to change.
    Flipping,
    /// The placement has changed with an epoch, which is about to be durable.
    Placed,
    /// The placement has changed, and something is still with the former owners.
    Arriving,
}

impl<W> Migration<W> {
    pub fn stage(&self) -> MigrationStage {
        match self.stage {
            Stage::Copying(_) => MigrationStage::Copying,
            Stage::Copied | Stage::Due => MigrationStage::Flipping,
            Stage::Placed(_) | Stage::Durable if self.is_arriving() => MigrationStage::Arriving,
            Stage::Placed(_) | Stage::Durable => MigrationStage::Placed,
        }
    }

    /// A change from one placement to another; and which worker is to have which of its partitions copied to whom.
    pub fn new(
        now: &Placement,
        next: Placement,
        mode: MovingMode,
        waiter: Option<W>,
    ) -> (Self, BTreeMap<WorkerId, Vec<(PartitionId, WorkerId)>>) {
        let mut moves: BTreeMap<WorkerId, Vec<_>> = BTreeMap::new();
        for id in (0..now.partitions()).map(|id| PartitionId(id as u16)) {
            if now.owner(id) != next.owner(id) {
                moves.entry(now.owner(id)).or_default().push((id, next.owner(id)));
            }
        }
        let mut copying = WorkerSet::default();
        moves.keys().for_each(|from| copying.merge(&WorkerSet::only(*from)));
        let mut incomplete = WorkerSet::default();
        if mode == MovingMode::Immediate {
            moves.values().flatten().for_each(|(_, to)| incomplete.merge(&WorkerSet::only(*to)));
        }
        (Migration { next, waiter, mode, stage: Stage::Copying(copying), incomplete, repartitions: false }, moves)
    }

    /// A change of the number of partitions, of which each worker deals out its own.
    pub fn repartition(next: Placement, waiter: Option<W>) -> Self {
        let mut incomplete = WorkerSet::default();
        (0..next.workers()).for_each(|worker| incomplete.merge(&WorkerSet::only(WorkerId(worker))));
        let (mode, stage) = (MovingMode::Immediate, Stage::Copied);
        Migration { next, waiter, mode, stage, incomplete, repartitions: true }
    }

    /// A worker has copied all that is to leave it; says whether it was the last one.
    ///
    /// # Errors
    /// Nothing was to leave it, or it had.
    pub fn copied(&mut self, from: WorkerId) -> Result<bool, ()> {
        let Stage::Copying(copying) = &mut self.stage else { return Err(()) };
        if !copying.contains(from) {
            return Err(());
        }
        copying.remove(from);
        let all = copying.is_empty();
        if all {
            self.stage = Stage::Copied;
        }
        Ok(all)
    }

    /// The next epoch is to begin with it, if all is copied.
    pub fn fall_due(&mut self) {
        if matches!(self.stage, Stage::Copied) {
            self.stage = Stage::Due;
        }
    }

    /// Whether all is copied, and it waits for a snapshot.
    pub fn is_copied(&self) -> bool {
        matches!(self.stage, Stage::Copied)
    }

    pub fn is_due(&self) -> bool {
        matches!(self.stage, Stage::Due)
    }

    pub fn place(&mut self, epoch: Epoch) {
        self.stage = Stage::Placed(epoch);
    }

    /// Whether it can still be that it does not happen.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Copying(_) | Stage::Copied)
    }

    /// A new owner has all of its partitions.
    ///
    /// # Errors
    /// It had, or gets none.
    pub fn complete(&mut self, worker: WorkerId) -> Result<(), ()> {
        if !self.has_placed() || !self.incomplete.contains(worker) {
            return Err(());
        }
        self.incomplete.remove(worker);
        Ok(())
    }

    /// Whether owners have changed.
    fn has_placed(&self) -> bool {
        matches!(self.stage, Stage::Placed(_) | Stage::Durable)
    }

    /// Whether owners have changed, and something is still with the former ones.
    pub fn is_arriving(&self) -> bool {
        self.has_placed() && !self.incomplete.is_empty()
    }

    /// All up to this epoch is durable.
    pub fn durable(&mut self, epoch: Epoch) {
        if matches!(self.stage, Stage::Placed(placed) if placed <= epoch) {
            self.stage = Stage::Durable;
        }
    }

    /// Whether it is durable, and all is where it is to be.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Durable) && self.incomplete.is_empty()
    }
}

impl<W> Coordinator<W> {
    /// Why partitions cannot go to these owners now, if they cannot.
    pub fn refuses_migration(&self, owners: &[WorkerId]) -> Option<&'static str> {
        if let Some(why) = self.refuses_end() {
            Some(why)
        } else if owners.len() != self.placement.owners().len() {
            Some("every partition has an owner, and there are not more")
        } else if owners.iter().any(|owner| owner.0 >= self.placement.workers()) {
            Some("an owner is no member of the cluster")
        } else if owners == self.placement.owners() {
            Some("every partition is where it is to be")
        } else {
            None
        }
    }

    /// Has partitions copied to other owners.
    pub(super) fn migrate(
        &mut self,
        owners: Vec<WorkerId>,
        mode: MovingMode,
        waiter: Option<W>,
        actions: &mut Vec<Action<W>>,
    ) {
        if let Some(why) = self.refuses_migration(&owners) {
            return actions.extend(waiter.map(|waiter| refused(waiter, why)));
        }
        let next = self.placement.next_after(self.announced, owners);
        let version = next.version();
        self.announced = version;
        let (migration, moves) = Migration::new(&self.placement, next, mode, waiter);
        self.migration = Some(migration);
        let migrate = |(to, moves)| Action::Send { to, message: Message::Migrate { version, mode, moves } };
        actions.extend(moves.into_iter().map(migrate));
    }

    /// There is to be another number of partitions.
    pub(super) fn repartition(&mut self, partitions: u32, waiter: Option<W>, actions: &mut Vec<Action<W>>) {
        if let Some(why) = self.refuses_repartition(partitions) {
            return actions.extend(waiter.map(|waiter| refused(waiter, why)));
        }
        let next = self.placement.repartitioned(self.announced, partitions).expect("that was refused");
        self.announced = next.version();
        let mut migration = Migration::repartition(next, waiter);
        if !self.config.snapshots {
            migration.fall_due();
        }
        self.migration = Some(migration);
    }

    /// Why there cannot be so many partitions now, if there cannot.
    pub fn refuses_repartition(&self, partitions: u32) -> Option<String> {
        if let Some(why) = self.refuses_end() {
            return Some(why.to_owned());
        }
        let in_place = || self.placement.repartitioned(self.announced, partitions).is_some();
        match self.layout.repartitioned(partitions) {
            Err(why) => Some(why),
            Ok(_) if in_place() => None,
            Ok(_) => Some(format!(
                "some of {partitions} partitions would be made of what several workers have: take a multiple of {}, or mode \
                 stop-and-restart",
                self.layout.partitions
            )),
        }
    }

    /// Whether what is here is laid out as a snapshot would say.
    pub(super) fn may_snapshot(&self) -> bool {
        !self.migration.as_ref().is_some_and(|migration| migration.repartitions && migration.is_arriving())
    }

    /// A new owner has all of its partitions.
    pub(super) fn complete(
        &mut self,
        from: WorkerId,
        version: PlacementVersion,
        actions: &mut Vec<Action<W>>,
    ) -> Result<(), &'static str> {
        let migration = self.migration.as_mut().filter(|migration| migration.next.version() == version);
        migration.ok_or(why::NOT_ASKED)?.complete(from).map_err(|()| why::NOT_ASKED)?;
        self.end_migration(actions);
        if self.snapshot && self.is_idle() && self.may_snapshot() {
            self.snapshot(actions);
        }
        Ok(())
    }

    /// The migration under way is over, if all is durable, and where it is to be.
    pub(super) fn end_migration(&mut self, actions: &mut Vec<Action<W>>) {
        let Some(migration) = self.migration.take_if(|migration| migration.is_over()) else { return };
        actions.extend(migration.waiter.map(|waiter| Action::Controlled { waiter, result: Ok(()) }));
    }

    pub(super) fn cancel_migration(&mut self, actions: &mut Vec<Action<W>>) {
        let Some(migration) = self.migration.take_if(|migration| migration.is_open()) else { return };
        self.tell_all(&Message::CancelMigration(migration.next.version()), actions);
        if let Some(waiter) = migration.waiter {
            let result = Err(Abort::new(Code::Aborted, "the migration was cancelled: every partition is where it was"));
            actions.push(Action::Controlled { waiter, result });
        }
    }

    /// Others have all that is to leave a worker.
    pub(super) fn copied(&mut self, from: WorkerId, version: PlacementVersion) -> Result<(), &'static str> {
        // One that was given up, and perhaps another one since.
        let Some(migration) = self.migration.as_mut().filter(|migration| migration.next.version() == version) else {
            return Ok(());
        };
        let all = migration.copied(from).map_err(|()| why::NOT_ASKED)?;
        if all && (!self.config.snapshots || planted(Bug::MigrationBetweenSnapshots)) {
            migration.fall_due();
        }
        Ok(())
    }
}

fn refused<W>(waiter: W, why: impl Into<String>) -> Action<W> {
    Action::Controlled { waiter, result: Err(Abort::new(Code::BadArguments, why)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_mode_immediate_is_over_when_each_new_owner_has_said_once_that_it_has_all() {
        let now = Placement::round_robin(6, 3);
        let mut owners = now.owners().to_vec();
        (owners[0], owners[3]) = (WorkerId(1), WorkerId(2));
        let (mut migration, moves) = Migration::new(&now, now.next(owners), MovingMode::Immediate, Some("waiter"));
        let moved = vec![(PartitionId(0), WorkerId(1)), (PartitionId(3), WorkerId(2))];
        assert_eq!(moves, BTreeMap::from([(WorkerId(0), moved)]));
        assert_eq!(migration.copied(WorkerId(1)), Err(()), "nothing leaves it");
        assert_eq!(migration.copied(WorkerId(0)), Ok(true));
        assert_eq!(migration.copied(WorkerId(0)), Err(()), "it has said so");
        assert!(migration.is_copied() && migration.is_open() && !migration.is_due());
        migration.fall_due();
        assert!(migration.is_due() && !migration.is_open() && !migration.is_arriving());
        assert_eq!(migration.complete(WorkerId(1)), Err(()), "owners have not changed");
        migration.place(Epoch(5));
        assert_eq!(migration.complete(WorkerId(0)), Err(()), "it gets nothing");
        assert_eq!(migration.complete(WorkerId(1)), Ok(()));
        assert_eq!(migration.complete(WorkerId(1)), Err(()), "it has all");
        migration.durable(Epoch(4));
        assert_eq!((migration.stage(), migration.is_over()), (MigrationStage::Arriving, false));
        migration.durable(Epoch(5));
        assert!(!migration.is_over());
        assert_eq!(migration.complete(WorkerId(2)), Ok(()));
        assert!(migration.is_over());
    }
}
