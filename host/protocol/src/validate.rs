//! The lock-free commit phase: who commits on the state of the epoch's start.
//!
//! Per key the lowest TID wins (Styx §6.1). With reordering a transaction commits iff it has no
//! WAW and not both RAW and WAR dependencies (Aria, deterministic reordering). A transaction that
//! writes nothing, a logic abort included, reads the state of the epoch's start and precedes all
//! writers: it can always commit, and its reads stand in nobody's way. An abort that read what a
//! lower TID wrote is tried again all the same: who asked for it first put things right, then
//! relied on them, would be surprised.

use std::collections::BTreeMap;

use crate::attempt::Execution;
use crate::entity::{Entity, EntityMap, Key};
use crate::ids::{OperatorId, Tid};
use crate::mutants::{Bug, planted};
use crate::range::RangeRead;

/// What becomes of a transaction after the lock-free phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Commits before all writers: it wrote nothing.
    ReadOnly,
    /// Commits; reads something that a lower TID wrote, so it goes before that.
    CommitEarly,
    /// Commits in TID order.
    Commit,
    /// Conflicts: goes to the fallback.
    Conflict,
}

#[derive(Clone, Copy)]
struct Reservation {
    writer: Tid,
    reader: Tid,
}

const NOBODY: Tid = Tid(u64::MAX);

/// Judges the executions of an epoch, given in TID order.
pub fn validate(executions: &[(Tid, &Execution)], reordering: bool) -> Vec<Verdict> {
    debug_assert!(executions.is_sorted_by_key(|(tid, _)| *tid));
    let writes = |execution: &Execution| {
        execution.outcome.is_ok() && execution.footprint.accesses.iter().any(|(_, access)| access.is_write())
    };
    let writers: Vec<bool> = executions.iter().map(|(_, execution)| writes(execution)).collect();
    let of_writers = || executions.iter().zip(&writers).filter(|(_, writes)| **writes).map(|(item, _)| item);

    let mut reservations: EntityMap<Reservation, &Entity> = EntityMap::default();
    let mut ranges = RangeReservations::default();
    // Where each access of each writer stands in the table, so that it is looked up once.
    let mut places = Vec::new();
    for (tid, execution) in of_writers() {
        for (entity, access) in execution.footprint.accesses.iter() {
            let place = reservations.place(&entity, || Reservation { writer: NOBODY, reader: NOBODY });
            places.push(place);
            let reservation = reservations.at_mut(place);
            if access.is_write() {
                reservation.writer = reservation.writer.min(*tid);
            }
            if access.is_read() {
                reservation.reader = reservation.reader.min(*tid);
            }
        }
        for read in &execution.footprint.ranges {
            ranges.read(read, *tid);
        }
    }
    let scans = executions.iter().any(|(_, execution)| !execution.footprint.ranges.is_empty());
    if scans {
        for (entity, reservation) in reservations.iter().filter(|(_, reservation)| reservation.writer != NOBODY) {
            ranges.wrote(entity.operator(), entity.key().clone(), reservation.writer);
        }
    }

    let mut places = places.into_iter();
    let mut judge = |tid: Tid, execution: &Execution| {
        let (mut waw, mut raw, mut war) = (false, false, false);
        for (entity, access) in execution.footprint.accesses.iter() {
            let reservation = reservations.at(places.next().expect("every access is reserved"));
            if access.is_write() {
                waw |= reservation.writer < tid;
                war |= reservation.reader < tid;
                war |= !planted(Bug::SkipRangeReaders) && ranges.reader(entity.operator(), entity.key()) < tid;
            }
            if access.is_read() {
                raw |= reservation.writer < tid;
            }
        }
        if !planted(Bug::SkipRangeReads) {
            raw |= execution.footprint.ranges.iter().any(|read| ranges.writer(read) < tid);
        }
        waw &= !planted(Bug::IgnoreWaw);
        raw &= !planted(Bug::IgnoreRaw);
        war &= !planted(Bug::IgnoreWar);
        match (waw, raw, war) {
            (true, _, _) | (_, true, true) => Verdict::Conflict,
            (false, true, false) if reordering => Verdict::CommitEarly,
            (false, true, false) => Verdict::Conflict,
            (false, false, _) => Verdict::Commit,
        }
    };
    let stale = |tid: Tid, execution: &Execution| {
        let footprint = &execution.footprint;
        let mut read = footprint.accesses.iter().filter(|(_, access)| access.is_read());
        read.any(|(entity, _)| reservations.get(entity).is_some_and(|reservation| reservation.writer < tid))
            || footprint.ranges.iter().any(|read| ranges.writer(read) < tid)
    };
    executions
        .iter()
        .zip(&writers)
        .map(|((tid, execution), writes)| match writes {
            true => judge(*tid, execution),
            false if execution.outcome.is_err() && stale(*tid, execution) => Verdict::Conflict,
            false => Verdict::ReadOnly,
        })
        .collect()
}

/// Reservations of ranges rather than of the keys found in them: no phantoms.
#[derive(Default)]
struct RangeReservations<'a> {
    reads: Vec<(&'a RangeRead, Tid)>,
    writes: BTreeMap<(OperatorId, Key), Tid>,
}

impl<'a> RangeReservations<'a> {
    fn read(&mut self, read: &'a RangeRead, tid: Tid) {
        // TIDs arrive in ascending order, so the first reader of a range is the lowest.
        if !self.reads.iter().any(|(known, _)| *known == read) {
            self.reads.push((read, tid));
        }
    }

    fn wrote(&mut self, operator: OperatorId, key: Key, tid: Tid) {
        self.writes.insert((operator, key), tid);
    }

    /// The lowest reader of a range that holds a key.
    fn reader(&self, operator: OperatorId, key: &str) -> Tid {
        let holding = self.reads.iter().filter(|(read, _)| read.operator == operator && read.range.contains(key));
        holding.map(|(_, tid)| *tid).min().unwrap_or(NOBODY)
    }

    /// The lowest writer inside a range.
    fn writer(&self, read: &RangeRead) -> Tid {
        let all_of_operator = (read.operator, Key::from(""))..(OperatorId(read.operator.0 + 1), Key::from(""));
        let inside = self.writes.range(all_of_operator).filter(|((_, key), _)| read.range.contains(key));
        inside.map(|(_, tid)| *tid).min().unwrap_or(NOBODY)
    }
}
