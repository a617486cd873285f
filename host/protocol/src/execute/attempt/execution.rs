//! Executions: what an attempt did, built up while it runs and taken as a whole when it has ended.

use std::num::NonZero;

use styx_planted::{Bug, planted};

use super::{CachedCall, CallRecord, Footprint, LogLine, ThinVec};
use crate::abort::{Abort, Code};
use crate::execute::effect::Effect;
use crate::state::Write;
use crate::state::entity::{Entity, Value};
use crate::state::range::RangeRead;

/// What one attempt did: outcome, RW set and call graph.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The result, or why there is none; an abort without a reason until the attempt has ended.
    pub outcome: Result<Value, Abort>,
    /// Entities read and written, and ranges read.
    pub footprint: Footprint,
    /// Calls in the order in which they were issued, the root first.
    pub calls: Vec<CallRecord>,
    /// What scans of functions here have observed.
    pub scans: ThinVec<ScanRecord>,
    /// Among several workers: the calls that came here, in the order in which they began.
    pub entered: ThinVec<CachedCall>,
    /// Log lines of the guests.
    pub logs: ThinVec<LogLine>,
    /// Work left behind, if it commits, in the order of its keys within each function.
    pub effects: ThinVec<Effect>,
    /// Fuel used.
    pub fuel: u64,
    /// In the fallback: the attempt left its cached RW set or call graph, and means nothing.
    pub drifted: bool,
    /// It needs more fuel than an epoch has for one transaction, and means nothing: it is to run beside the epochs. Or it
    /// needs what has not arrived here of a partition.
    pub postponed: bool,
    /// It is postponed because of one entity that has not arrived, which its footprint names until
    /// [`Execution::take_lacking`].
    pub lacks: bool,
    /// It ran beside the epochs.
    pub long: bool,
}

/// A scan as it was made: compared with the same one of another attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRecord {
    /// Place of the function that scanned.
    pub place: u64,
    /// Number of the scan among those of the function, from 1.
    pub number: u32,
    /// What it has observed.
    pub read: RangeRead,
}

/// Where a call stands in the execution that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// Among the calls issued here.
    Issued(u32),
    /// Among the calls that came from another worker.
    Entered(u32),
}

/// How many calls the function of a call had issued when it returned, if it did so here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Returned(Option<NonZero<u32>>);

impl Returned {
    /// It returned, having issued so many.
    pub fn after(issued: u32) -> Self {
        Returned(NonZero::new(issued + 1))
    }
}

impl Default for Execution {
    fn default() -> Self {
        Execution {
            // Not a value: even an empty one is shared, and counted, between all threads.
            outcome: Err(Abort { code: Code::Aborted, message: String::new(), app_code: None }),
            footprint: Footprint::default(),
            calls: Vec::new(),
            scans: ThinVec::default(),
            entered: ThinVec::default(),
            logs: ThinVec::default(),
            effects: ThinVec::default(),
            fuel: 0,
            drifted: false,
            postponed: false,
            lacks: false,
            long: false,
        }
    }
}

impl Execution {
    /// The writes to apply if this attempt commits; none for a logic abort.
    pub fn writes(&self) -> impl Iterator<Item = Write> + '_ {
        let committed = self.outcome.is_ok() || planted(Bug::AbortedApplied);
        let entities = self.footprint.accesses.iter().filter_map(move |(entity, access)| match access.write() {
            Some(value) if committed => Some((entity.clone(), value.cloned())),
            _ => None,
        });
        entities.chain(self.effects.iter().filter(move |_| committed).map(Effect::write))
    }

    /// The entity that it lacks, once.
    pub fn take_lacking(&mut self) -> Option<Entity> {
        if !self.lacks {
            return None;
        }
        let footprint = std::mem::take(&mut self.footprint);
        footprint.accesses.iter().next().map(|(entity, _)| entity.clone())
    }

    /// Whether another attempt issued the same calls in the same order.
    pub fn issued_same_calls(&self, other: &Execution) -> bool {
        self.calls.len() == other.calls.len() && self.calls.iter().zip(&other.calls).all(|(a, b)| a.is_same_call(b))
    }

    /// Adds a call that is issued here.
    pub(super) fn issue(&mut self, call: CallRecord) -> Recorded {
        if self.calls.capacity() == 0 {
            self.calls.reserve_exact(2); // As many as most transactions make.
        }
        self.calls.push(call);
        Recorded::Issued(self.calls.len() as u32 - 1)
    }

    /// Adds a call that has come here.
    pub(super) fn enter(&mut self, call: CachedCall) -> Recorded {
        self.entered.push(call);
        Recorded::Entered(self.entered.len() as u32 - 1)
    }

    /// Notes that the function of a call has returned, having issued so many.
    pub(super) fn returned(&mut self, call: Recorded, issued: u32) {
        let returned = match call {
            Recorded::Issued(at) => &mut self.calls[at as usize].returned,
            Recorded::Entered(at) => &mut self.entered[at as usize].returned,
        };
        debug_assert_eq!(*returned, Returned::default(), "a function returns once");
        *returned = Returned::after(issued);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_small() {
        assert_eq!(size_of::<Execution>(), 152, "one is kept for each transaction of an epoch, and moved often");
        assert_eq!(size_of::<CallRecord>(), 64);
    }
}
