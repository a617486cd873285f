//! Conflict graph of an epoch: who conflicts is moved behind the others, and nobody else.
//!
//! Drawn from what each transaction does to the state of the epoch's start, as the oracle sees it, ranges included. Edges
//! lead to lower TIDs that write, whether these commit or not: one that conflicts itself stands in the way of others all
//! the same. Who writes nothing, a logic abort included, stands in nobody's way; whose reads are of a snapshot conflicts
//! by its writes alone, and its reads stand in nobody's way either.

use std::collections::BTreeMap;

use styx_protocol::ids::Tid;
use styx_protocol::machine::Rank;

use super::checker::Ended;
use super::oracle::{Footprint, RangeRead};
use super::{Checked, Failure};

/// The lowest TID that has done something to an entity.
type Lowest = BTreeMap<(u32, &'static str), Tid>;

#[derive(Debug, Default)]
pub struct Conflicts<'a> {
    writers: Lowest,
    readers: Lowest,
    ranges: Vec<(Tid, &'a RangeRead)>,
    reordering: bool,
}

impl<'a> Conflicts<'a> {
    /// Those among transactions in TID order.
    pub fn among(transactions: &'a [(Tid, Footprint)], reordering: bool) -> Self {
        let mut conflicts = Conflicts { reordering, ..Conflicts::default() };
        for (tid, footprint) in transactions.iter().filter(|(_, footprint)| footprint.has_written()) {
            footprint.writes.iter().for_each(|key| _ = conflicts.writers.entry(*key).or_insert(*tid));
            if !footprint.snapshot {
                footprint.reads.iter().for_each(|key| _ = conflicts.readers.entry(*key).or_insert(*tid));
                conflicts.ranges.extend(footprint.ranges.iter().map(|range| (*tid, range)));
            }
        }
        conflicts
    }

    /// Whether one of them conflicts with those before it.
    pub fn has(&self, tid: Tid, footprint: &Footprint) -> bool {
        let lower = |lowest: &Lowest, key: &(u32, &'static str)| lowest.get(key).is_some_and(|other| *other < tid);
        let in_range = |range: &RangeRead| {
            let of_operator = self.writers.range((range.operator, "")..(range.operator + 1, ""));
            of_operator.filter(|(_, writer)| **writer < tid).any(|((_, key), _)| range.contains(key))
        };
        let raw = !footprint.snapshot
            && (footprint.reads.iter().any(|key| lower(&self.writers, key)) || footprint.ranges.iter().any(in_range));
        if !footprint.has_written() {
            return footprint.aborted && raw;
        }
        let waw = footprint.writes.iter().any(|key| lower(&self.writers, key));
        let read = |(operator, key): &(u32, &'static str)| {
            let mut before = self.ranges.iter().filter(|(reader, range)| *reader < tid && range.operator == *operator);
            lower(&self.readers, &(*operator, key)) || before.any(|(_, range)| range.contains(key))
        };
        waw || raw && (!self.reordering || footprint.writes.iter().any(read))
    }

    /// Checks that an epoch has moved those behind the others that conflict, and, unless `wide`, nobody else.
    ///
    /// # Errors
    /// It has moved somebody else, or not all of them.
    pub fn check(&self, transactions: &[(Tid, Footprint)], ended: &Ended, wide: bool) -> Checked {
        let at_once = |rank: &&Rank| !matches!(rank, Rank::FellBack(_));
        let at_once: Vec<Tid> = ended.order.iter().filter(at_once).map(|rank| rank.tid()).collect();
        let wrong = |(tid, footprint): &&(Tid, Footprint)| {
            let (is_at_once, conflicts) = (at_once.contains(tid), self.has(*tid, footprint));
            is_at_once == conflicts && (conflicts || !wide)
        };
        transactions.iter().find(wrong).map_or(Ok(()), |(tid, footprint)| {
            let (is, said) =
                if self.has(*tid, footprint) { ("conflicts", "none") } else { ("is in no conflict", "one") };
            let before: Vec<_> = transactions.iter().filter(|(other, _)| other < tid).collect();
            let message = format!(
                "transaction {tid} {is} and was taken for {said} that does: {footprint:?}; before it were {before:?}"
            );
            Err(Failure::new("conflicts", message).about(&[*tid]))
        })
    }
}
