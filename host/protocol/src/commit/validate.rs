//! The lock-free commit phase: who commits on the state of the epoch's start.
//!
//! Per key the lowest TID wins (Styx §6.1). With reordering a transaction commits iff it has no
//! WAW and not both RAW and WAR dependencies (Aria, deterministic reordering). A transaction that
//! writes nothing, a logic abort included, reads the state of the epoch's start and precedes all
//! writers: it can always commit, and its reads stand in nobody's way. An abort that read what a
//! lower TID wrote is tried again all the same: who asked for it first put things right, then
//! relied on them, would be surprised.

use styx_planted::{Bug, planted};

use super::ranges::{NOBODY, WrittenKeys};
use crate::execute::attempt::Footprint;
use crate::ids::Tid;
use crate::modes::Modes;
use crate::state::entity::{Entity, EntityMap};

/// What a transaction came to on the state of the epoch's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Kind {
    /// It wrote.
    Wrote,
    /// It wrote nothing.
    ReadOnly,
    /// It ended without effect.
    Aborted,
}

/// A transaction as one worker knows it: what it did to the entities there.
#[derive(Clone, Copy, Debug)]
pub struct Ranked<'a> {
    /// Its rank.
    pub tid: Tid,
    /// What it came to, on all workers together.
    pub kind: Kind,
    /// It asked for snapshot isolation only: its reads are not validated.
    pub snapshot: bool,
    /// What it did here.
    pub footprint: &'a Footprint,
}

/// Dependencies of a transaction on lower TIDs. Those of the workers that it touched are ORed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Bits {
    /// It writes what a lower TID writes.
    pub waw: bool,
    /// It reads what a lower TID writes.
    pub raw: bool,
    /// It writes what a lower TID reads.
    pub war: bool,
    /// The long transaction that keeps it from writing what it wrote.
    pub holder: Option<Tid>,
}

impl Bits {
    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self == Bits::default()
    }

    /// Whether a transaction of this kind can have them.
    pub fn fit(self, kind: Kind) -> bool {
        match kind {
            Kind::Wrote => true,
            Kind::Aborted => !(self.waw || self.war),
            Kind::ReadOnly => self.is_empty(),
        }
    }

    /// Adds those of another worker.
    pub fn merge(&mut self, other: Bits) {
        self.waw |= other.waw;
        self.raw |= other.raw;
        self.war |= other.war;
        if !planted(Bug::LongHolderUntold) {
            self.holder = self.holder.max(other.holder);
        }
    }
}

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

/// Judges a transaction by its dependencies on all workers.
pub fn verdict(kind: Kind, bits: Bits, modes: Modes) -> Verdict {
    debug_assert!(bits.fit(kind), "who writes nothing depends by what it reads, or precedes all writers");
    match (kind, bits.waw, bits.raw, bits.war) {
        (Kind::ReadOnly, ..) | (Kind::Aborted, _, false, _) => Verdict::ReadOnly,
        (Kind::Aborted, _, true, _) => Verdict::Conflict,
        (Kind::Wrote, true, _, _) | (Kind::Wrote, _, true, true) => Verdict::Conflict,
        (Kind::Wrote, false, false, true) if planted(Bug::WarConflicts) => Verdict::Conflict,
        (Kind::Wrote, false, true, false) if modes.reordering => Verdict::CommitEarly,
        (Kind::Wrote, false, true, false) => Verdict::Conflict,
        (Kind::Wrote, false, false, _) => Verdict::Commit,
    }
}

#[derive(Clone, Copy)]
struct Reservation {
    writer: Tid,
    reader: Tid,
}

/// Finds the dependencies among the transactions of an epoch on one worker, given in TID order.
pub fn dependencies(ranked: &[Ranked<'_>]) -> Vec<Bits> {
    debug_assert!(ranked.is_sorted_by(|a, b| a.tid < b.tid), "each transaction once, in TID order");
    let of_writers = || ranked.iter().filter(|ranked| ranked.kind == Kind::Wrote);

    let accesses = of_writers().map(|ranked| ranked.footprint.accesses.len()).sum();
    let mut reservations: EntityMap<Reservation, &Entity> = EntityMap::with_capacity(accesses);
    // Where each access of each writer stands in the table, so that it is looked up once.
    let mut places = Vec::with_capacity(accesses);
    for Ranked { tid, snapshot, footprint, .. } in of_writers() {
        for (entity, access) in footprint.accesses.iter() {
            let place = reservations.place(&entity, || Reservation { writer: NOBODY, reader: NOBODY });
            places.push(place);
            let reservation = reservations.at_mut(place);
            if access.is_write() {
                reservation.writer = reservation.writer.min(*tid);
            }
            if access.is_read() && !snapshot {
                reservation.reader = reservation.reader.min(*tid);
            }
        }
    }
    let mut ranges = WrittenKeys::default();
    if ranked.iter().any(|ranked| !ranked.footprint.ranges.is_empty()) {
        let written = reservations.iter().filter(|(_, reservation)| reservation.writer != NOBODY);
        let written = written.map(|(entity, reservation)| (entity.operator(), entity.key(), reservation.writer));
        let reads = of_writers().filter(|ranked| !ranked.snapshot);
        let reads = reads.flat_map(|ranked| ranked.footprint.ranges.iter().map(|read| (read, ranked.tid)));
        ranges = WrittenKeys::new(written.collect(), reads);
    }

    let mut places = places.into_iter();
    let mut of_writer = |&Ranked { tid, snapshot, footprint, .. }: &Ranked<'_>| {
        let mut bits = Bits::default();
        for (entity, access) in footprint.accesses.iter() {
            let reservation = reservations.at(places.next().expect("every access is reserved"));
            if access.is_write() {
                bits.waw |= reservation.writer < tid && !(snapshot && planted(Bug::SnapshotsOverwrite));
                bits.war |= reservation.reader < tid;
                bits.war |= ranges.reader(entity.operator(), entity.key()) < tid;
            }
            if access.is_read() && !snapshot {
                bits.raw |= reservation.writer < tid;
            }
        }
        if !planted(Bug::SkipRangeReads) && !snapshot {
            bits.raw |= footprint.ranges.iter().any(|read| ranges.writer(read) < tid);
        }
        bits.raw &= !planted(Bug::IgnoreRaw);
        bits
    };
    let of_aborted = |&Ranked { tid, snapshot, footprint, .. }: &Ranked<'_>| {
        let mut read = footprint.accesses.iter().filter(|(_, access)| access.is_read());
        let stale = read.any(|(entity, _)| reservations.get(entity).is_some_and(|entry| entry.writer < tid))
            || footprint.ranges.iter().any(|read| ranges.writer(read) < tid);
        Bits { raw: stale && !snapshot, ..Bits::default() }
    };
    let bits: Vec<Bits> = ranked
        .iter()
        .map(|ranked| match ranked.kind {
            Kind::Wrote => of_writer(ranked),
            Kind::Aborted => of_aborted(ranked),
            Kind::ReadOnly => Bits::default(),
        })
        .collect();
    debug_assert!(bits.first().is_none_or(|lowest| lowest.is_empty()), "the lowest TID depends on nobody");
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wrote_nothing_depends_on_nothing_that_it_would_have_written() {
        let bits = |waw, raw, war| Bits { waw, raw, war, holder: None };
        let fits = |bits: Bits| [Kind::Wrote, Kind::Aborted, Kind::ReadOnly].map(|kind| bits.fit(kind));
        assert_eq!(fits(bits(false, false, false)), [true, true, true]);
        assert_eq!(fits(bits(false, true, false)), [true, true, false]);
        assert_eq!(fits(bits(true, false, false)), [true, false, false]);
        assert_eq!(fits(bits(false, false, true)), [true, false, false]);
        assert_eq!(fits(bits(true, true, true)), [true, false, false]);
    }
}
