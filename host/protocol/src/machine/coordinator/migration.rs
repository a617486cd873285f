//! Migration: a placement that is to come, as soon as the owners to be have what is to be theirs.

use std::collections::BTreeMap;

use crate::cluster::placement::Placement;
use crate::cluster::worker_set::WorkerSet;
use crate::ids::{Epoch, PartitionId, WorkerId};

/// See the module. `W` names whoever waits for it.
#[derive(Debug)]
pub(super) struct Migration<W> {
    pub next: Placement,
    pub waiter: Option<W>,
    stage: Stage,
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
}

impl<W> Migration<W> {
    pub fn stage(&self) -> MigrationStage {
        match self.stage {
            Stage::Copying(_) => MigrationStage::Copying,
            Stage::Copied | Stage::Due => MigrationStage::Flipping,
            Stage::Placed(_) => MigrationStage::Placed,
        }
    }

    /// A change from one placement to another; and which worker is to have which of its partitions copied to whom.
    pub fn new(
        now: &Placement,
        next: Placement,
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
        (Migration { next, waiter, stage: Stage::Copying(copying) }, moves)
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

    /// Whether it took effect with this epoch or one before.
    pub fn is_placed_by(&self, epoch: Epoch) -> bool {
        matches!(self.stage, Stage::Placed(placed) if placed <= epoch)
    }
}
