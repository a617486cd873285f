//! The last stage of a round, the fallback (Styx §6.2, §6.3): conflicting transactions run again, under
//! locks granted in TID order.
//!
//! What shares no lock with a transaction of several workers runs in components, each on one
//! thread ([`crate::fallback`]). The rest runs as its locks are granted, and releases them only when
//! the root knows that every worker has kept to what it had locked.

use std::sync::Arc;

use styx_planted::{Bug, planted};

use super::super::Action;
use super::super::graphs::{Graphs, Locked};
use super::roots::Roots;
use super::{show, take_execution};
use crate::cluster::worker_set::WorkerSet;
use crate::execute::attempt::{Execution, Finding, Mode};
use crate::execute::task::GraphId;
use crate::fallback::locks::Locks;
use crate::fallback::{ComponentOutcome, Member, components};
use crate::ids::WorkerId;
use crate::modes::Modes;
use crate::sequence::transaction::Transaction;
use crate::wire::mail::{Decision, Ending};
use crate::wire::message::GraphEnd;

/// A transaction that conflicts.
#[derive(Debug)]
pub(super) struct Conflicting {
    /// Where it stands in the round, if it is rooted here.
    pub at: Option<usize>,
    pub transaction: Transaction,
    pub root: WorkerId,
    pub execution: Arc<Execution>,
    /// If others take part in it.
    pub end: Option<GraphEnd>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct FallingBack {
    /// Whether components are out.
    out: bool,
    locks: Locks,
    /// Those that wait for locks, in TID order.
    graphs: Vec<LockedGraph>,
    /// Those whose end is not decided.
    undecided: usize,
    /// Where those that are rooted here stand in the round, in TID order.
    rooted: Vec<usize>,
}

#[derive(Debug)]
struct LockedGraph {
    graph: GraphId,
    at: Option<usize>,
    /// Who took part in its first execution.
    workers: WorkerSet,
    decided: bool,
}

/// What the fallback begins with.
pub(super) struct Start {
    pub falling_back: FallingBack,
    /// Components that nobody shares: their members are called what they stand at in the round.
    pub components: Arc<[Vec<Member>]>,
    /// The others, in TID order.
    pub locked: Vec<Locked>,
}

impl FallingBack {
    /// Conflicting transactions, in TID order, are to run again.
    pub fn start(conflicting: Vec<Conflicting>, me: WorkerId, modes: Modes) -> Start {
        let rooted = conflicting.iter().filter_map(|conflicting| conflicting.at).collect();
        let (mut members, mut known) = (Vec::with_capacity(conflicting.len()), Vec::with_capacity(conflicting.len()));
        for (index, Conflicting { at, transaction, root, execution, end }) in conflicting.into_iter().enumerate() {
            members.push(Member { index, shared: end.is_some(), transaction, cached: execution });
            known.push((at, root, end));
        }
        let (shared, mut alone): (Vec<_>, Vec<_>) =
            components(members).into_iter().partition(|component| component.iter().any(|member| member.shared));
        for member in alone.iter_mut().flatten() {
            member.index = known[member.index].0.expect("what nobody shares is rooted here");
        }
        let mut open: Vec<Member> = shared.into_iter().flatten().collect();
        open.sort_unstable_by_key(|member| member.transaction.tid);
        let footprints: Vec<_> = open.iter().map(|member| &member.cached.footprint).collect();
        let locks = Locks::new(&footprints);
        let (mut graphs, mut locked) = (Vec::with_capacity(open.len()), Vec::with_capacity(open.len()));
        for Member { index, transaction, cached, .. } in open {
            let (at, root, end) = &mut known[index];
            let graph = GraphId(transaction.tid.0);
            let (mode, workers) = match end.take() {
                Some(end) => {
                    let cached = modes.caching && end.cacheable;
                    (if cached { Mode::Cached } else { Mode::STRICT }, end.workers)
                }
                None => (Mode::STRICT, WorkerSet::only(me)),
            };
            graphs.push(LockedGraph { graph, at: *at, workers: workers.clone(), decided: false });
            locked.push(Locked { graph, transaction, root: *root, mode, participants: workers, cached });
        }
        let falling_back = FallingBack { out: !alone.is_empty(), locks, undecided: graphs.len(), graphs, rooted };
        Start { falling_back, components: alone.into(), locked }
    }

    /// Whoever holds all of its locks from the start may run.
    pub fn grant_free(&mut self, graphs: &mut Graphs) {
        self.grant(self.locks.free(), graphs);
    }

    fn grant(&mut self, members: Vec<usize>, graphs: &mut Graphs) {
        let mut granted = members;
        while let Some(member) = granted.pop() {
            let locked = &self.graphs[member];
            if locked.decided {
                // Its second run had nothing to do here.
                granted.extend(self.locks.release(member));
            } else {
                graphs.grant(locked.graph);
                if planted(Bug::LocksEarly) {
                    granted.extend(self.locks.release(member));
                }
            }
        }
    }

    /// Components have run.
    pub fn components_done<W>(&mut self, outcomes: Vec<ComponentOutcome>, roots: &mut Roots<W>, graphs: &mut Graphs) {
        assert!(std::mem::replace(&mut self.out, false), "components come back once");
        for outcome in outcomes {
            outcome.writes.into_iter().for_each(|write| graphs.apply(write));
            for (at, execution) in outcome.executions {
                roots.set(at, execution);
            }
        }
    }

    /// Does what has become possible.
    pub fn go_on<W>(&mut self, roots: &mut Roots<W>, graphs: &mut Graphs, actions: &mut Vec<Action<W>>) {
        loop {
            let (concluded, decisions) = (graphs.take_concluded(), graphs.take_decisions());
            if concluded.is_empty() && decisions.is_empty() {
                return;
            }
            for graph in concluded {
                self.conclude(graph, roots, graphs);
            }
            for Decision { graph, number, ending } in decisions {
                if let Some((tid, lines)) = graphs.decide(graph, number, ending) {
                    show(tid, lines, actions);
                }
                self.released(graph, graphs);
            }
        }
    }

    /// All workers have confirmed what they did of a graph that is rooted here.
    fn conclude<W>(&mut self, graph: GraphId, roots: &mut Roots<W>, graphs: &mut Graphs) {
        let mut part = graphs.close(graph);
        let number = part.header.number;
        let mut execution = take_execution(&mut part);
        execution.drifted |= part.report.has(Finding::Drifted) && !planted(Bug::DriftAtRootOnly);
        execution.postponed |= part.report.has(Finding::Postponed);
        execution.lacks |= part.report.has(Finding::Lacks);
        let ending = match &execution.outcome {
            _ if execution.drifted || execution.postponed => Ending::Moves,
            Ok(_) => Ending::Commits,
            Err(_) => Ending::Aborts,
        };
        if ending == Ending::Commits {
            execution.writes().for_each(|write| graphs.apply(write));
        }
        let locked = &self.graphs[self.member(graph)];
        roots.set(locked.at.expect("it is rooted here"), execution);
        graphs.announce(&locked.workers, Decision { graph, number, ending });
        self.released(graph, graphs);
    }

    /// The end of a graph is decided: its locks are released, and who waited for them may run.
    fn released(&mut self, graph: GraphId, graphs: &mut Graphs) {
        let member = self.member(graph);
        let decided = std::mem::replace(&mut self.graphs[member].decided, true);
        self.undecided -= usize::from(!decided);
        if self.locks.is_free(member) {
            let freed = self.locks.release(member);
            self.grant(freed, graphs);
        }
    }

    /// Where a graph stands among those that wait for locks.
    fn member(&self, graph: GraphId) -> usize {
        self.graphs.binary_search_by_key(&graph, |locked| locked.graph).expect("it waits for locks, or did")
    }

    pub fn is_over(&self) -> bool {
        !self.out && self.undecided == 0
    }

    /// Where those that are rooted here stand in the round, in TID order, once it is over.
    pub fn end(self) -> Vec<usize> {
        debug_assert!(self.is_over());
        self.rooted
    }

    /// What holds between steps.
    pub fn invariants(&self) -> Result<(), &'static str> {
        if !self.graphs.is_sorted_by(|a, b| a.graph < b.graph) || !self.rooted.is_sorted_by(|a, b| a < b) {
            return Err("what falls back stands in TID order");
        }
        if self.undecided != self.graphs.iter().filter(|locked| !locked.decided).count() {
            return Err("those whose end is not decided are counted");
        }
        Ok(())
    }
}
