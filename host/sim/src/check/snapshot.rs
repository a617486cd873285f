//! Snapshots: each must hold all that was true when it was taken and nothing that came later; and so
//! must every process that begins with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_protocol::attempt::Payload;
use styx_protocol::entity::{Entity, Layout};
use styx_protocol::ids::{OperatorId, RequestId, Tid};
use styx_protocol::replies::Kept;
use styx_protocol::snapshot::{RestoredState, SnapshotHeader};
use styx_protocol::state::State;

use super::checker::Checker;
use super::expected_replies::ExpectedReplies;
use super::oracle::Entities;
use super::{Checked, Failure, ensure};
use crate::store::{Manifest, Store};

/// Expected contents of a snapshot, noted when it was taken.
#[derive(Debug)]
pub struct Expectation {
    /// The coordinator's part.
    pub frame: SnapshotHeader,
    /// The oracle's entities.
    pub entities: Entities,
    /// Transactions that were moved to the next epoch.
    pub carried: Vec<Tid>,
    /// Replies that all workers remembered.
    pub remembered: ExpectedReplies,
}

/// Snapshots, as somebody sees them who sees everything.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// The last that was begun.
    begun: Option<Expectation>,
    /// Expectations of the snapshots that were written, by number. One may be there under several.
    written: BTreeMap<u64, Arc<Expectation>>,
}

impl Snapshots {
    pub(super) fn note(&mut self, expectation: Expectation) {
        self.begun = Some(expectation);
    }

    /// Expected contents of a snapshot.
    pub(super) fn written(&self, number: u64) -> &Expectation {
        &self.written[&number]
    }
}

impl Checker {
    /// A snapshot exists from now on.
    ///
    /// # Errors
    /// It does not hold what was true when it was taken.
    pub fn snapshot(&mut self, manifest: &Manifest, store: &Store) -> Checked {
        let Manifest { number, frame, .. } = manifest;
        let begun = self.snapshots.begun.take().filter(|expectation| expectation.frame == *frame);
        let Some(expectation) = begun else {
            let message = format!("snapshot {number} is of epoch {}, and was not begun there", frame.epoch);
            return Err(Failure::new("snapshot", message));
        };
        let durable = self.ended.get(frame.epoch.0 as usize - 1).is_some_and(|ended| ended.chain == frame.chain);
        ensure(durable || self.is_lenient(), "snapshot", || {
            format!("snapshot {number} is of epoch {}, which the log does not have", frame.epoch)
        })?;
        ensure(store.is_whole(manifest), "snapshot", || format!("parts of snapshot {number} are not in the store"))?;
        if !self.is_lenient() {
            let restored = store.load(manifest, |_| true)?;
            self.carried_in(&restored, &expectation)?;
            let layout = self.layout();
            let RestoredState { frame, partitions, replies, .. } = restored;
            let mut state = State::new(layout);
            partitions.into_iter().for_each(|(id, partition)| state.restore(id, partition));
            let whole = holds(&state, &expectation.entities);
            ensure(whole == Ok(expectation.entities.values().map(BTreeMap::len).sum()), "snapshot", || {
                format!("the state in the snapshot of epoch {} is not what it was: {whole:?}", frame.epoch)
            })?;
            self.replies_in(replies, &expectation)?;
        }
        self.snapshots.written.insert(*number, Arc::new(expectation));
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

    fn replies_in(&self, replies: Vec<Kept>, expectation: &Expectation) -> Checked {
        let epoch = expectation.frame.epoch;
        let mut replies: BTreeMap<RequestId, Kept> = replies.into_iter().map(|kept| (kept.id, kept)).collect();
        // Their ends before are not remembered once they are sequenced again.
        expectation.carried.iter().for_each(|tid| drop(replies.remove(&self.sequenced[tid].request.id)));
        let expected = expectation.remembered.ended();
        let ids: Vec<RequestId> = replies.keys().copied().collect();
        ensure(ids.iter().eq(expected.keys()), "snapshot", || {
            format!("the snapshot of epoch {epoch} remembers {ids:?}, not {:?}", expected.keys().collect::<Vec<_>>())
        })?;
        for (kept, (time, tid, _)) in replies.into_values().zip(expected.into_values()) {
            let known = &self.sequenced[&tid];
            let end = known.end.as_ref().map(|end| (end.epoch, end.outcome.clone().map(Payload)));
            let right = (kept.tid, kept.ended, kept.body) == (tid, time, known.request.body_hash())
                && end.as_ref() == Some(&(kept.epoch, kept.outcome.clone()));
            ensure(right, "snapshot", || format!("the snapshot of epoch {epoch} remembers {kept:?}, which is {end:?}"))
                .map_err(|failure| failure.about(&[tid]))?;
        }
        Ok(())
    }

    /// A snapshot is there once more, under another number.
    pub fn taken_over(&mut self, from: u64, to: u64) {
        if let Some(expectation) = self.snapshots.written.get(&from) {
            self.snapshots.written.insert(to, expectation.clone());
        }
    }

    /// Somebody begins with a snapshot, and holds this state.
    ///
    /// # Errors
    /// It holds something that was not there.
    pub fn restored(&self, number: u64, state: &State) -> Checked {
        if self.is_lenient() {
            return Ok(());
        }
        let expectation = self.snapshots.written(number);
        let found = holds(state, &expectation.entities);
        ensure(found == Ok(state.len()), "restored state", || {
            let (epoch, len) = (expectation.frame.epoch, state.len());
            format!("of {len} entities that were restored from the snapshot of epoch {epoch}, {found:?} were there")
        })
    }
}

/// Number of these entities that a state holds; or the one that it holds with another value.
fn holds(state: &State, entities: &Entities) -> Result<usize, (u32, &'static str)> {
    let layout: Layout = state.layout();
    let mut found = 0;
    for (operator, entities) in entities {
        for (key, value) in entities {
            // Where an entity lives depends on whether its keys are composite.
            let get =
                |composite| state.get(&Entity::new(&layout, OperatorId(*operator), composite, (*key).into())).cloned();
            match get(false).or_else(|| get(true)) {
                Some(held) if held[..] == value.to_le_bytes() => found += 1,
                Some(_) => return Err((*operator, key)),
                None => {}
            }
        }
    }
    Ok(found)
}
