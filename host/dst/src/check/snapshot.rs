//! Snapshots: each must hold all that was true when it was taken and nothing that came later; and so
//! must every process that begins with it.

use std::collections::BTreeMap;

use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Payload;
use styx_protocol::ids::{Epoch, PartitionId, RequestId, Tid, Timestamp};
use styx_protocol::record::Chain;
use styx_protocol::replies::Kept;
use styx_protocol::snapshot::RestoredState;
use styx_protocol::state::State;

use super::checker::Checker;
use super::expected_replies::ExpectedReplies;
use super::{Checked, Failure, ensure};

/// Expected contents of a snapshot, noted when it was taken.
#[derive(Debug)]
pub struct Expectation {
    chain: Chain,
    time: Timestamp,
    highest: Tid,
    catalog: Catalog,
    /// The oracle's entities, by the number of partitions in which somebody may begin with them.
    states: BTreeMap<u32, State>,
    /// Transactions that were moved to the next epoch.
    carried: Vec<Tid>,
    /// Replies that all workers remembered.
    pub(super) remembered: ExpectedReplies,
    /// It was put.
    exists: bool,
}

/// Snapshots, as somebody sees them who sees everything: what each must hold, by epoch.
#[derive(Debug, Default)]
pub struct Snapshots(BTreeMap<Epoch, Expectation>);

impl Snapshots {
    /// Expected contents of the snapshot of an epoch.
    pub(super) fn of(&self, epoch: Epoch) -> Option<&Expectation> {
        self.0.get(&epoch)
    }

    /// Forgets what was lost before it was durable.
    pub(super) fn forget_after(&mut self, epoch: Epoch) {
        self.0.retain(|of, _| *of <= epoch);
    }
}

impl Checker {
    /// A snapshot is taken of the state of now.
    pub fn expectation(&mut self, epoch: Epoch) -> Checked {
        ensure(epoch == self.epoch() && self.is_between_epochs(), "snapshot", || {
            format!("a snapshot of epoch {epoch} is taken after epoch {}", self.epoch())
        })?;
        if self.snapshots.of(epoch).is_some() {
            return Ok(());
        }
        let expectation = Expectation {
            chain: self.chain(),
            time: self.time(),
            highest: self.highest(),
            catalog: self.catalog.clone(),
            states: self.layouts().map(|layout| (layout.partitions, self.oracle.as_state(layout))).collect(),
            carried: self.carried().to_vec(),
            remembered: self.remembered.clone(),
            exists: false,
        };
        self.snapshots.0.insert(epoch, expectation);
        Ok(())
    }

    /// Whether a snapshot of an epoch exists, or did.
    pub fn knows_snapshot(&self, epoch: Epoch) -> bool {
        self.snapshots.of(epoch).is_some_and(|expectation| expectation.exists)
    }

    /// A snapshot exists from now on, of which this is the whole content.
    ///
    /// # Errors
    /// It does not hold what was true when it was taken.
    pub fn snapshot(&mut self, restored: RestoredState) -> Checked {
        let epoch = restored.frame.epoch;
        let Some(expectation) = self.snapshots.of(epoch) else {
            return Err(Failure::new("snapshot", format!("a snapshot is of epoch {epoch}, and was not begun there")));
        };
        if !self.is_lenient() {
            let frame = &restored.frame;
            let known = (expectation.chain, expectation.time, expectation.highest);
            ensure((frame.chain, frame.time, frame.highest) == known, "snapshot", || {
                format!("the snapshot of epoch {epoch} says {frame:?}, and {known:?} was true")
            })?;
            ensure(frame.catalog == expectation.catalog.image(), "snapshot", || {
                format!("the snapshot of epoch {epoch} has something else deployed than the log")
            })?;
            self.carried_in(&restored, expectation)?;
            self.restored(&restored, restored.laid_in, &|_| true)?;
            self.replies_in(restored.replies.into_kept(), epoch, expectation)?;
        }
        if let Some(expectation) = self.snapshots.0.get_mut(&epoch) {
            expectation.exists = true;
        }
        Ok(())
    }

    fn carried_in(&self, restored: &RestoredState, expectation: &Expectation) -> Checked {
        let RestoredState { frame, carried, .. } = restored;
        let tids: Vec<Tid> = carried.iter().map(|carried| carried.tid).collect();
        ensure(tids == expectation.carried, "snapshot", || {
            format!("the snapshot of epoch {} carries {tids:?}, not {:?}", frame.epoch, expectation.carried)
        })?;
        let known = carried.iter().find(|carried| {
            let known = &self.sequenced[&carried.tid];
            (known.time, &known.request) != (carried.time, &carried.request)
        });
        ensure(known.is_none(), "snapshot", || {
            format!("the snapshot of epoch {} carries something else: {known:?}", frame.epoch)
        })
    }

    fn replies_in(&self, replies: Vec<Kept>, epoch: Epoch, expectation: &Expectation) -> Checked {
        let mut replies: BTreeMap<RequestId, Kept> = replies.into_iter().map(|kept| (kept.id, kept)).collect();
        // Their ends before are not remembered once they are sequenced again.
        for tid in &expectation.carried {
            replies.remove(&self.sequenced[tid].request.id);
        }
        let expected = expectation.remembered.ended();
        let ids: Vec<RequestId> = replies.keys().copied().collect();
        ensure(ids.iter().eq(expected.keys()), "snapshot", || {
            format!("the snapshot of epoch {epoch} remembers {ids:?}, not {:?}", expected.keys().collect::<Vec<_>>())
        })?;
        for (kept, ended) in replies.into_values().zip(expected.into_values()) {
            let tid = ended.tid;
            let known = &self.sequenced[&tid];
            let end = known.end.as_ref().map(|end| (end.epoch, end.outcome.clone().map(Payload)));
            let right = (kept.tid, kept.ended, kept.body) == (tid, ended.time, known.request.body_hash())
                && end.as_ref() == Some(&(kept.epoch, kept.outcome.clone()));
            ensure(right, "snapshot", || format!("the snapshot of epoch {epoch} remembers {kept:?}, which is {end:?}"))
                .map_err(|failure| failure.about(&[tid]))?;
        }
        Ok(())
    }

    /// Somebody begins with a snapshot, and has read the partitions that are its own, of so many.
    ///
    /// # Errors
    /// It holds something that was not there, or lacks something that was.
    pub fn restored(&self, restored: &RestoredState, partitions: u32, owns: &dyn Fn(PartitionId) -> bool) -> Checked {
        if self.is_lenient() {
            return Ok(());
        }
        let epoch = restored.frame.epoch;
        let Some(expectation) = self.snapshots.of(epoch) else {
            return ensure(epoch == Epoch(0), "restored state", || format!("nobody took a snapshot of epoch {epoch}"));
        };
        let found: BTreeMap<PartitionId, _> = restored.partitions.iter().map(|(id, held)| (*id, held.hash())).collect();
        let Some(state) = expectation.states.get(&partitions) else {
            return Err(Failure::new("restored state", format!("there are {partitions} partitions")));
        };
        for (id, expected) in (0..).map(PartitionId).zip(state.partitions()) {
            if !owns(id) {
                continue;
            }
            let found = found.get(&id).copied().unwrap_or_default();
            ensure(found == expected.hash(), "restored state", || {
                format!("partition {id} of the snapshot of epoch {epoch} is not what it was")
            })?;
        }
        Ok(())
    }
}
