//! The second stage of a round: all graphs of all workers are complete, and what depends on what is known
//! here. Who commits is known when the workers of shared graphs have told each other.

use super::super::graphs::Part;
use super::super::ground::Ground;
use super::roots::Roots;
use super::take_execution;
use crate::commit::validate::{Bits, Kind, Ranked, Verdict, dependencies, verdict};
use crate::execute::attempt::Execution;
use crate::ids::{Tid, WorkerId};
use crate::modes::Modes;
use crate::sequence::transaction::Transaction;
use crate::wire::message::GraphEnd;

/// See the module.
#[derive(Debug)]
pub(super) struct Settled {
    /// Graphs of several workers, in TID order.
    ends: Vec<GraphEnd>,
    /// Parts of graphs that are rooted elsewhere, in TID order.
    foreign: Vec<Foreign>,
    /// Dependencies as seen here, of all in TID order.
    bits: Vec<(Tid, Kind, Bits)>,
}

/// A part of a transaction that is rooted elsewhere.
#[derive(Debug)]
pub(super) struct Foreign {
    pub transaction: Transaction,
    pub root: WorkerId,
    pub execution: Execution,
}

/// What became of a transaction that has something here.
pub(super) struct Judged<'a> {
    pub tid: Tid,
    pub kind: Kind,
    pub verdict: Verdict,
    /// The long transaction that keeps it from writing what it wrote.
    pub holder: Option<Tid>,
    /// If others take part in it.
    pub end: Option<&'a GraphEnd>,
}

impl Settled {
    /// Finds the dependencies among what is rooted here and `parts` of what is rooted elsewhere.
    #[allow(clippy::vec_box, reason = "they are boxed already, and large")]
    pub fn new<W>(ends: Vec<GraphEnd>, parts: Vec<Box<Part>>, roots: &Roots<W>, ground: &Ground) -> Self {
        let foreign = foreign(&ends, parts, ground.me());
        let mut ranked: Vec<Ranked<'_>> = Vec::with_capacity(roots.len() + foreign.len());
        let mut walk = Walk::new(&ends, |end| end.tid);
        for (transaction, execution) in roots.iter() {
            let tid = transaction.tid;
            let kind = walk.find(tid).map_or_else(|| kind_of(execution), |end| end.kind);
            let snapshot = ground.reads_snapshot(transaction);
            ranked.push(Ranked { tid, kind, snapshot, footprint: &execution.footprint });
        }
        let mut walk = Walk::new(&ends, |end| end.tid);
        for Foreign { transaction, execution, .. } in &foreign {
            let end = walk.find(transaction.tid).expect("it was found before");
            let (tid, kind, snapshot) = (end.tid, end.kind, end.snapshot);
            ranked.push(Ranked { tid, kind, snapshot, footprint: &execution.footprint });
        }
        if !foreign.is_empty() {
            ranked.sort_unstable_by_key(|ranked| ranked.tid);
        }
        let mut bits = dependencies(&ranked);
        if !ground.reads().is_empty() {
            for (ranked, bits) in ranked.iter().zip(&mut bits).filter(|(ranked, _)| ranked.kind == Kind::Wrote) {
                bits.holder = ground.reads().holder(ranked.tid, ranked.footprint);
            }
        }
        let bits = ranked.iter().zip(bits).map(|(ranked, bits)| (ranked.tid, ranked.kind, bits)).collect();
        Settled { ends, foreign, bits }
    }

    /// Whether no graph has several workers.
    pub fn is_alone(&self) -> bool {
        self.ends.is_empty()
    }

    /// Dependencies of graphs of several workers, as seen here.
    pub fn shared(&self) -> Vec<(Tid, Bits)> {
        let mut walk = Walk::new(&self.ends, |end| end.tid);
        let shared = self.bits.iter().filter(|(tid, _, bits)| !bits.is_empty() && walk.find(*tid).is_some());
        shared.map(|(tid, _, bits)| (*tid, *bits)).collect()
    }

    /// Whether these can be the dependencies that all workers have seen together.
    pub fn admits(&self, merged: &[(Tid, Bits)]) -> bool {
        let mut walk = Walk::new(&self.ends, |end| end.tid);
        merged.iter().all(|(tid, bits)| walk.find(*tid).is_some_and(|end| bits.fit(end.kind)))
    }

    /// How many conflict, as far as is known here.
    pub fn conflicts(&self, modes: Modes) -> usize {
        let conflicts = |(_, kind, bits): &&(Tid, Kind, Bits)| verdict(*kind, *bits, modes) == Verdict::Conflict;
        self.bits.iter().filter(conflicts).count()
    }

    /// Judges all that have something here, in TID order, by what all workers have seen; gives the parts of
    /// what is rooted elsewhere, in the same order.
    pub fn judge(self, merged: &[(Tid, Bits)], modes: Modes, mut judged: impl FnMut(Judged<'_>, &mut Parts)) {
        let Settled { ends, foreign, bits } = self;
        let (mut ends, mut merged) = (Walk::new(&ends, |end| end.tid), Walk::new(merged, |(tid, _)| *tid));
        let mut foreign = Parts(foreign.into_iter());
        for (tid, kind, own) in bits {
            let end = ends.find(tid);
            let bits = match end {
                Some(_) => merged.find(tid).map_or_else(Bits::default, |(_, bits)| *bits),
                None => own,
            };
            judged(Judged { tid, kind, verdict: verdict(kind, bits, modes), holder: bits.holder, end }, &mut foreign);
        }
    }
}

/// Parts of what is rooted elsewhere, in TID order.
pub(super) struct Parts(std::vec::IntoIter<Foreign>);

impl Parts {
    /// The part of the next one that is not rooted here.
    pub fn next(&mut self) -> Foreign {
        self.0.next().expect("what is judged here is rooted here, or has a part here")
    }
}

/// What counts of parts of graphs that are rooted elsewhere.
#[allow(clippy::vec_box, reason = "they are boxed already, and large")]
fn foreign(ends: &[GraphEnd], parts: Vec<Box<Part>>, me: WorkerId) -> Vec<Foreign> {
    let mut walk = Walk::new(ends, |end| end.tid);
    let mut foreign = Vec::with_capacity(parts.len());
    for mut part in parts {
        let Some(end) = walk.find(Tid(part.header.graph.0)) else { continue };
        if end.number == part.header.number && end.workers.contains(me) && part.attempt.is_some() {
            let execution = take_execution(&mut part);
            let Part { transaction, header, .. } = *part;
            foreign.push(Foreign { transaction, root: header.root, execution });
        }
    }
    foreign
}

/// Looks in a list in TID order for one TID after the other, ascending.
struct Walk<'a, T> {
    rest: &'a [T],
    tid: fn(&T) -> Tid,
}

impl<'a, T> Walk<'a, T> {
    fn new(list: &'a [T], tid: fn(&T) -> Tid) -> Self {
        Walk { rest: list, tid }
    }

    fn find(&mut self, tid: Tid) -> Option<&'a T> {
        while let [first, rest @ ..] = self.rest
            && (self.tid)(first) < tid
        {
            self.rest = rest;
        }
        self.rest.first().filter(|first| (self.tid)(first) == tid)
    }
}

pub(super) fn kind_of(execution: &Execution) -> Kind {
    match &execution.outcome {
        Err(_) => Kind::Aborted,
        Ok(_) if !execution.effects.is_empty() => Kind::Wrote,
        Ok(_) if execution.footprint.accesses.iter().any(|(_, access)| access.is_write()) => Kind::Wrote,
        Ok(_) => Kind::ReadOnly,
    }
}
