//! The fallback on one worker (Styx §6.2, §6.3): conflicting transactions run again, under locks
//! granted in TID order.
//!
//! What shares no lock with a transaction of several workers runs in components, each on one
//! thread ([`crate::fallback`]). The rest runs as its locks are granted, and releases them only when
//! the root knows that every worker has kept to what it had locked.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::epoch::{Conflicting, take_execution};
use super::{Action, FallbackBatch, Worker};
use crate::cluster::worker_set::WorkerSet;
use crate::execute::attempt::{Execution, Mode};
use crate::execute::task::GraphId;
use crate::fallback::locks::Locks;
use crate::fallback::{ComponentOutcome, Member, components};
use crate::mutants::{Bug, planted};
use crate::wire::message::Decision;

/// See the module.
#[derive(Debug)]
pub(super) struct FallingBack {
    /// Whether components are out.
    components: bool,
    locks: Locks,
    /// Those that wait for locks, in TID order.
    graphs: Vec<LockedGraph>,
    /// Those whose end is not decided.
    undecided: usize,
    /// What became of those rooted here, in the order of the round.
    ended: BTreeMap<usize, Box<Execution>>,
}

#[derive(Debug)]
struct LockedGraph {
    graph: GraphId,
    index: Option<usize>,
    /// Who took part in its first execution.
    workers: WorkerSet,
    decided: bool,
}

impl FallingBack {
    /// Where a graph stands among those that wait for locks.
    fn member(&self, graph: GraphId) -> usize {
        self.graphs.binary_search_by_key(&graph, |locked| locked.graph).expect("it waits for locks, or did")
    }
}

impl<W> Worker<W> {
    /// Conflicting transactions, in TID order, run again.
    pub(super) fn fall_back(&mut self, conflicting: Vec<Conflicting>, actions: &mut Vec<Action<W>>) {
        let mut known: Vec<Option<Conflicting>> = Vec::with_capacity(conflicting.len());
        let mut members = Vec::with_capacity(conflicting.len());
        for (at, mut conflicting) in conflicting.into_iter().enumerate() {
            let cached = Arc::new(std::mem::take(&mut conflicting.execution));
            let (transaction, shared) = (conflicting.transaction.clone(), conflicting.end.is_some());
            members.push(Member { index: at, shared, transaction, cached });
            known.push(Some(conflicting));
        }
        let (shared, alone): (Vec<_>, Vec<_>) =
            components(members).into_iter().partition(|component| component.iter().any(|member| member.shared));
        let mut open: Vec<Member> = shared.into_iter().flatten().collect();
        open.sort_unstable_by_key(|member| member.transaction.tid);
        let footprints: Vec<_> = open.iter().map(|member| &member.cached.footprint).collect();
        let locks = Locks::new(&footprints);
        let mut graphs = Vec::with_capacity(open.len());
        let mut locked = Vec::with_capacity(open.len());
        for member in open {
            let conflicting = known[member.index].take().expect("each is in one component");
            let graph = GraphId(member.transaction.tid.0);
            let (mode, workers) = match conflicting.end {
                Some(end) => {
                    let cached = self.config.modes.caching && end.cacheable;
                    (Mode { cached, strict: !cached, ..Mode::default() }, end.workers)
                }
                None => (Mode { strict: true, ..Mode::default() }, WorkerSet::only(self.view.me)),
            };
            let (index, root) = (conflicting.index, conflicting.root);
            graphs.push(LockedGraph { graph, index, workers: workers.clone(), decided: false });
            locked.push((graph, member.transaction, root, mode, workers, member.cached));
        }
        // What a component's members are called is where they stand in the round.
        let alone: Arc<[Vec<Member>]> = alone
            .into_iter()
            .map(|component| {
                let in_round = |member: Member| {
                    let index = known[member.index].take().and_then(|conflicting| conflicting.index);
                    Member { index: index.expect("what nobody shares is rooted here"), ..member }
                };
                component.into_iter().map(in_round).collect()
            })
            .collect();
        let free = locks.free();
        let falling_back = FallingBack {
            components: !alone.is_empty(),
            locks,
            undecided: graphs.len(),
            graphs,
            ended: BTreeMap::new(),
        };
        let round = self.enter_fallback(falling_back);
        if !alone.is_empty() {
            let (state, catalog) = (self.state.clone(), self.catalog.clone());
            actions.push(Action::FallBack(FallbackBatch { components: alone, state, catalog }));
        }
        if self.is_one_of_several() {
            let ground = self.ground();
            self.graphs.begin(round, true, ground);
            for (graph, transaction, root, mode, workers, cached) in locked {
                self.graphs.lock(graph, transaction, root, mode, workers, cached);
            }
            self.replay_buffered(actions);
            self.grant(free);
        }
        self.go_on(actions);
    }

    fn grant(&mut self, members: Vec<usize>) {
        let mut granted = members;
        while let Some(member) = granted.pop() {
            let locked = &self.falling_back().graphs[member];
            if locked.decided {
                // Its second run had nothing to do here.
                granted.extend(self.falling_back().locks.release(member));
            } else {
                let graph = locked.graph;
                self.graphs.grant(graph);
                if planted(Bug::LocksEarly) {
                    granted.extend(self.falling_back().locks.release(member));
                }
            }
        }
    }

    /// Components have run.
    pub(super) fn fell_back(&mut self, outcomes: Vec<ComponentOutcome>, actions: &mut Vec<Action<W>>) {
        self.falling_back().components = false;
        for outcome in outcomes {
            for write in outcome.writes {
                self.graphs.apply(write);
            }
            let ended = outcome.executions.into_iter().map(|(index, execution)| (index, Box::new(execution)));
            self.falling_back().ended.extend(ended);
        }
        self.go_on(actions);
    }

    /// Does what has become possible in the fallback.
    pub(super) fn fall_on(&mut self, actions: &mut Vec<Action<W>>) {
        loop {
            let concluded = self.graphs.take_concluded();
            let decisions = self.graphs.take_decisions();
            if concluded.is_empty() && decisions.is_empty() {
                break;
            }
            for graph in concluded {
                self.conclude(graph);
            }
            for Decision { graph, number, commits } in decisions {
                if let Some((tid, lines)) = self.graphs.decide(graph, number, commits) {
                    actions.push(Action::Logs { tid, lines });
                }
                self.released(graph);
            }
        }
        let falling_back = self.falling_back();
        if !falling_back.components && falling_back.undecided == 0 {
            let ended = std::mem::take(&mut falling_back.ended);
            if self.is_one_of_several() {
                let left = self.graphs.end();
                assert!(left.is_empty(), "every graph of the fallback is decided");
            }
            let writes = self.graphs.take_decided().into_writes();
            let state = self.exclusive_state();
            writes.into_iter().for_each(|write| state.apply(write));
            // They ended in any order; what follows from them is told in TID order.
            for (index, execution) in ended {
                if execution.drifted {
                    self.reschedule(index);
                } else {
                    self.end_fallen(index, *execution, actions);
                }
            }
            self.finish(true, actions);
        }
    }

    /// All workers have confirmed what they did of a graph that is rooted here.
    fn conclude(&mut self, graph: GraphId) {
        let mut part = self.graphs.close(graph);
        let number = part.header.number;
        let mut execution = take_execution(&mut part);
        execution.drifted |= part.report.drifted && !planted(Bug::DriftAtRootOnly);
        let commits = execution.outcome.is_ok() && !execution.drifted;
        if commits {
            execution.writes().for_each(|write| self.graphs.apply(write));
        }
        let falling_back = self.falling_back();
        let locked = &falling_back.graphs[falling_back.member(graph)];
        let (workers, index) = (locked.workers.clone(), locked.index.expect("it is rooted here"));
        falling_back.ended.insert(index, Box::new(execution));
        self.graphs.announce(workers, Decision { graph, number, commits });
        self.released(graph);
    }

    /// The end of a graph is decided: its locks are released, and who waited for them may run.
    fn released(&mut self, graph: GraphId) {
        let falling_back = self.falling_back();
        let member = falling_back.member(graph);
        let decided = std::mem::replace(&mut falling_back.graphs[member].decided, true);
        falling_back.undecided -= usize::from(!decided);
        if falling_back.locks.is_free(member) {
            let freed = falling_back.locks.release(member);
            self.grant(freed);
        }
    }
}
