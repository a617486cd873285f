//! Migration: a placement that is to come, as soon as the owners to be have what is to be theirs.

use std::collections::BTreeMap;

use crate::cluster::placement::Placement;
use crate::cluster::worker_set::WorkerSet;
use crate::ids::{Epoch, PartitionId, WorkerId};
use crate::wire::message::MovingMode;

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
