//! Rounds of a worker, from a cut to the round's end: what is executed, who commits, what falls back.
//!
//! | part | decides |
//! |---|---|
//! | [`current`] | the round under way, in which stage it is, and how a transaction ends |
//! | [`roots`] | what is rooted here, and what each did |
//! | [`executing`] | which roots are handed out, and when all are complete |
//! | [`settled`] | what depends on what |
//! | [`falling_back`] | who holds locks, and when everything is decided |
//! | [`early`] | what came too early from other workers |

mod current;
mod early;
mod executing;
mod falling_back;
mod roots;
mod settled;

use std::collections::BTreeMap;

use styx_planted::{Bug, planted};

use self::current::{CurrentRound, Stage};
pub(super) use self::current::{Cut, Ended};
use self::early::EarlyMail;
use self::executing::Answered;
use self::falling_back::{FallingBack, Start};
use self::settled::{Settled, kind_of};
use super::egress::Egress;
use super::graphs::{Graphs, Part, header_of, scrutiny};
use super::ground::Ground;
use super::long::{ExecutedLong, Longs, Runner};
use super::phase::Phase;
use super::{Action, Config, Executed, FallbackBatch};
use crate::cluster::worker_set::WorkerSet;
use crate::commit::validate::Bits;
use crate::execute::attempt::{Access, Execution, Footprint, LogLine, ThinVec};
use crate::execute::task::{GraphId, RunId, Started, TaskProgress};
use crate::fallback::ComponentOutcome;
use crate::ids::{Epoch, RequestId, Round, Tid, WorkerId};
use crate::modes::Modes;
use crate::sequence::origin::Origin;
use crate::state::entity::Value;
use crate::wire::fault::why;
use crate::wire::mail::{Header, Join, JoinWrite, Joined, Mail};
use crate::wire::message::{GraphEnd, Message, Node};

/// See the module.
#[derive(Debug)]
pub(super) struct Rounds<W> {
    modes: Modes,
    claim_order: bool,
    suspended_max: usize,
    step_max: usize,
    piece_bytes: usize,
    /// The last one that ended here.
    last: Round,
    current: Option<Box<CurrentRound<W>>>,
    graphs: Graphs,
    early: EarlyMail,
    /// Queries that begin to run when all has executed: all workers keep what they are to read.
    begun: Vec<RunId>,
    /// What other workers' long transactions write, of which not all is here.
    join_writes: BTreeMap<Runner, Vec<JoinWrite>>,
    /// Records that the last epoch has executed.
    marked: Vec<(RequestId, Origin)>,
}

/// What a step of a round works on beside the round.
pub(super) struct Scope<'a, W> {
    pub ground: &'a mut Ground,
    pub egress: &'a mut Egress<W>,
    pub actions: &'a mut Vec<Action<W>>,
}

/// Why a peer's message is not applied.
type Refusal = Result<(), &'static str>;

impl<W> Rounds<W> {
    pub fn new(config: &Config, me: WorkerId) -> Self {
        Rounds {
            modes: config.modes,
            claim_order: config.claim_order,
            suspended_max: config.suspended_max,
            step_max: config.step_max,
            piece_bytes: config.piece_bytes,
            last: Round(0),
            current: None,
            graphs: Graphs::new(me, config.suspended_max),
            early: EarlyMail::default(),
            begun: Vec::new(),
            join_writes: BTreeMap::new(),
            marked: Vec::new(),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// Whether a round is under way, of whose transactions none is committed or held back.
    pub fn is_undecided(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.is_undecided())
    }

    /// The last round that ended here.
    pub fn last(&self) -> Round {
        self.last
    }

    /// The epoch of the round under way.
    pub fn epoch(&self) -> Option<Epoch> {
        self.current.as_ref().map(|current| current.epoch())
    }

    /// Records that the epoch under way has executed, or the last one, of which perhaps no watermark tells yet.
    pub fn unmarked(&self) -> &[(RequestId, Origin)] {
        self.current.as_ref().map_or(&self.marked, |current| current.records())
    }

    /// A round begins with its cut.
    pub fn begin(&mut self, mut cut: Cut<W>, scope: &mut Scope<'_, W>) {
        debug_assert!(self.is_idle() && cut.round > self.last, "one round after the other");
        if scope.ground.is_shared() {
            self.graphs.begin(Phase { round: cut.round, fallback: false }, scope.ground.lend());
        }
        let begun = std::mem::take(&mut cut.begun);
        self.current = Some(Box::new(CurrentRound::new(cut, self.claim_order)));
        self.join(begun, scope.ground);
        self.receive_early(scope);
        self.go_on(scope);
    }

    /// Asks other workers to let long transactions take part, and to keep what queries are to read.
    fn join(&mut self, begun: Vec<RunId>, ground: &Ground) {
        let current = self.current.as_mut().expect("a round is under way");
        let Stage::Execute(executing) = &mut current.stage else { return };
        let me = ground.me();
        let executed = if ground.is_shared() { &mut current.executed[..] } else { &mut [] };
        for long in executed {
            let ExecutedLong { slot, execution, run, workers } = long;
            let kind = kind_of(execution);
            let mut writes = take_remote(execution, ground);
            let mut others = workers.clone();
            writes.keys().for_each(|worker| others.merge(&WorkerSet::only(*worker)));
            if others.is_empty() {
                continue;
            }
            let header = header_of(&slot.transaction, me);
            for worker in others.iter() {
                let writes = writes.remove(&worker).unwrap_or_default();
                let joins = Join::in_pieces(header, *run, writes, self.step_max, self.piece_bytes);
                self.graphs.mail(worker).joins.extend(joins);
            }
            let mut all = others.clone();
            all.merge(&WorkerSet::only(me));
            let snapshot = ground.reads_snapshot(&slot.transaction);
            let tid = slot.transaction.tid;
            let end = GraphEnd { tid, number: 1, kind, snapshot, long: true, cacheable: false, workers: all };
            executing.join(*run, others, Some(end));
        }
        for run in begun {
            let others = ground.others();
            others.iter().for_each(|worker| self.graphs.mail(worker).joins.push(Join::of_query(run, me)));
            if others.is_empty() {
                self.begun.push(run);
            } else {
                executing.join(run, others, None);
            }
        }
    }

    /// Another worker's long transaction takes part, if all that it has read here still counts; or its query begins.
    fn receive_join(&mut self, from: WorkerId, join: Join, ground: &mut Ground) -> Refusal {
        let Join { header, run, mut writes, last } = join;
        let id = Runner { root: from, run };
        if header.query {
            ground.reads_mut().begin_query(id, Epoch(0));
            self.graphs.mail(from).joined.push(Joined { run, current: true });
            return Ok(());
        }
        scrutiny::join(&header, from)?;
        if self.current.as_ref().is_some_and(|current| current.roots.contains(header.tid)) {
            return Err(why::ROOTED_HERE);
        }
        if writes.iter().any(|JoinWrite(entity, _)| !ground.owns(entity.partition())) {
            return Err(why::NO_WRITES);
        }
        if !last {
            self.join_writes.entry(id).or_default().append(&mut writes);
            return Ok(());
        }
        let writes = match self.join_writes.remove(&id) {
            None => writes,
            Some(mut first) => {
                first.append(&mut writes);
                first
            }
        };
        let footprint = ground.reads_mut().join(id);
        let footprint = footprint.or_else(|| planted(Bug::LongJoinsUnchecked).then(Footprint::default));
        self.graphs.mail(from).joined.push(Joined { run, current: footprint.is_some() });
        if let Some(mut footprint) = footprint {
            for JoinWrite(entity, value) in writes {
                let place = footprint.accesses.place(&entity, Access::default);
                footprint.accesses.at_mut(place).set_write(value);
            }
            self.graphs.insert_executed(header, footprint)?;
        }
        Ok(())
    }

    /// A round is over that was not begun here: its changes were applied.
    pub fn skip(&mut self, round: Round, ground: &Ground) {
        debug_assert!(self.is_idle() && round > self.last, "one round after the other");
        self.last = round;
        if ground.is_shared() {
            self.graphs.rest(round);
        }
    }

    // What comes in.

    /// Mail of another worker: now, if its phase is here; later, if it is not.
    ///
    /// # Errors
    /// It cannot be applied; some of it may have been.
    pub fn mail(&mut self, from: WorkerId, mail: Mail, scope: &mut Scope<'_, W>) -> Refusal {
        let (phase, here) = (Phase::of(&mail), self.here());
        match phase.cmp(&here) {
            std::cmp::Ordering::Greater if phase == here.next() => self.early.keep(from, mail),
            std::cmp::Ordering::Greater => return Err(why::TOO_EARLY),
            std::cmp::Ordering::Equal => {
                let received = self.receive(from, mail, scope.ground);
                self.go_on(scope);
                return received;
            }
            // Nobody waits for the results of calls that were re-invoked: their graph may be decided before
            // they arrive, if whoever issued the call has failed before it.
            std::cmp::Ordering::Less if mail.has_only_results() => {}
            std::cmp::Ordering::Less => return Err(why::PHASE_OVER),
        }
        Ok(())
    }

    fn receive(&mut self, from: WorkerId, mut mail: Mail, ground: &mut Ground) -> Refusal {
        let (joins, joined) = (std::mem::take(&mut mail.joins), std::mem::take(&mut mail.joined));
        let rooted = |tid| self.current.as_ref().is_some_and(|current| current.roots.contains(tid));
        self.graphs.receive(from, mail, &rooted)?;
        for join in joins {
            self.receive_join(from, join, ground)?;
        }
        for joined in joined {
            let Some(current) = self.current.as_mut() else { return Err(why::NO_ROUND) };
            let Stage::Execute(executing) = &mut current.stage else { return Err(why::ANOTHER_PHASE) };
            match executing.joined(from, joined)? {
                Answered::Waits => {}
                Answered::Begins(run) => self.begun.push(run),
                Answered::Stale(tid) => {
                    let long = current.executed.iter_mut().find(|long| long.slot.transaction.tid == tid);
                    let long = long.expect("what asks to take part is executed");
                    long.execution = Execution { postponed: true, long: true, ..Execution::default() };
                }
            }
        }
        Ok(())
    }

    /// The phase that this worker is in; between rounds the one before the next round.
    fn here(&self) -> Phase {
        match &self.current {
            None => Phase { round: self.last, fallback: true },
            Some(current) => Phase { round: current.round, fallback: current.is_falling_back() },
        }
    }

    /// Takes the mail of the phase that has just begun.
    fn receive_early(&mut self, scope: &mut Scope<'_, W>) {
        for (from, mail) in self.early.take(self.here()) {
            if let Err(why) = self.receive(from, mail, scope.ground) {
                scope.actions.push(Action::fault(Node::Worker(from), "Graphs", why));
            }
        }
    }

    /// A batch was executed.
    pub fn executed(&mut self, mut executed: Executed, scope: &mut Scope<'_, W>) {
        let current = self.current.as_mut().expect("what was executed belongs to a round");
        let Stage::Execute(executing) = &mut current.stage else { panic!("what was executed is not complete before") };
        if !scope.ground.fetching().is_empty() {
            let from = current.roots.started();
            for (at, started) in executed.transactions.iter_mut().enumerate() {
                if let Some(entity) = started.take_lacking() {
                    scope.ground.lacked(current.roots.transaction(from + at).tid, entity);
                }
            }
            for entity in executed.queries.iter_mut().filter_map(Started::take_lacking) {
                scope.ground.lacked(Tid(0), entity);
            }
        }
        let opened = executing.executed(executed, &mut current.roots, scope.ground.me(), &mut self.graphs);
        current.count_shared(opened);
        self.go_on(scope);
    }

    /// Tasks have come back from the execution threads.
    pub fn advanced(&mut self, advanced: Vec<TaskProgress>, scope: &mut Scope<'_, W>) {
        if !scope.ground.fetching().is_empty() {
            for attempt in advanced.iter().map(|one| &one.attempt) {
                if let Some(entity) = attempt.lacking() {
                    scope.ground.lacked(attempt.tid(), entity.clone());
                }
            }
        }
        self.graphs.advanced(advanced);
        self.go_on(scope);
    }

    /// Components have run.
    pub fn fell_back(&mut self, outcomes: Vec<ComponentOutcome>, scope: &mut Scope<'_, W>) {
        let current = self.current.as_mut().expect("components belong to a round");
        let Stage::FallBack(falling_back) = &mut current.stage else { panic!("components belong to a fallback") };
        falling_back.components_done(outcomes, &mut current.roots, &mut self.graphs);
        self.go_on(scope);
    }

    /// All graphs of all workers are complete.
    ///
    /// # Errors
    /// This worker waits for something else.
    pub fn settle(
        &mut self,
        round: Round,
        logged: bool,
        ends: Vec<GraphEnd>,
        counted: &[(GraphId, u32)],
        longs: &Longs<W>,
        scope: &mut Scope<'_, W>,
    ) -> Refusal {
        let Some(current) = self.current.as_mut().filter(|current| current.round == round) else {
            return Err(why::ANOTHER_ROUND);
        };
        if !ends.is_sorted_by(|a, b| a.tid < b.tid) || !counted.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(why::DISORDER);
        }
        let workers = scope.ground.view().placement.workers();
        if !ends.iter().all(|end| end.workers.is_within(workers)) {
            return Err(why::OTHER_WORKERS);
        }
        let quiet = self.graphs.is_quiet() && (logged || ends.is_empty() && current.roots.len() == 0);
        let Stage::Executed { queries } = &mut current.stage else { return Err(why::ANOTHER_PHASE) };
        if !quiet {
            return Err(why::ANOTHER_PHASE);
        }
        let queries = std::mem::take(queries);
        std::mem::take(&mut self.begun).into_iter().for_each(|run| longs.begin_query(run, scope.ground, scope.actions));
        let mut parts = if scope.ground.is_shared() { self.graphs.end() } else { Vec::new() };
        // Their graphs are the highest.
        let of_queries = parts.split_off(parts.partition_point(|part| !part.header.query));
        show_counted(of_queries, counted, scope.actions);
        let settled = Settled::new(ends, parts, &current.roots, scope.ground);
        if logged {
            current.forget_replies(scope.egress);
        }
        current.answer(queries, scope.ground, scope.egress, scope.actions);
        if !logged {
            // Nothing was executed but queries.
            scope.egress.has_not_been(current.epoch());
            current.stage = Stage::Over { logged };
        }
        scope.egress.respond(scope.actions);
        if logged && settled.is_alone() {
            self.commit(settled, &[], scope);
        } else if logged {
            let message = Message::Bits { round, bits: settled.shared() };
            scope.actions.push(Action::Send { to: Node::Coordinator, message });
            current.stage = Stage::Settled(settled);
        }
        Ok(())
    }

    /// The dependencies of all workers are known.
    ///
    /// # Errors
    /// This worker waits for something else.
    pub fn decide(&mut self, round: Round, bits: &[(Tid, Bits)], scope: &mut Scope<'_, W>) -> Refusal {
        let Some(current) = self.current.as_mut().filter(|current| current.round == round) else {
            return Err(why::ANOTHER_ROUND);
        };
        if !bits.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(why::DISORDER);
        }
        match std::mem::replace(&mut current.stage, Stage::Over { logged: true }) {
            Stage::Settled(settled) if settled.admits(bits) => self.commit(settled, bits, scope),
            stage => {
                let settled = matches!(stage, Stage::Settled(_));
                current.stage = stage;
                return Err(if settled { why::NO_BITS } else { why::ANOTHER_PHASE });
            }
        }
        Ok(())
    }

    // What goes on.

    fn commit(&mut self, settled: Settled, merged: &[(Tid, Bits)], scope: &mut Scope<'_, W>) {
        let current = self.current.as_mut().expect("a round is under way");
        let Scope { ground, egress, actions } = scope;
        let conflicting = current.commit(settled, merged, self.modes, ground, egress, actions);
        egress.respond(actions);
        current.stage = Stage::Over { logged: true };
        if conflicting.is_empty() {
            return;
        }
        if self.modes.fallback {
            current.stage = Stage::Committed(conflicting);
            self.go_on(scope);
        } else {
            conflicting.iter().filter_map(|conflicting| conflicting.at).for_each(|at| current.reschedule(at));
        }
    }

    /// Who conflicts falls back, once all that has committed is in the state.
    fn fall_back(&mut self, scope: &mut Scope<'_, W>) {
        let Some(current) = &mut self.current else { return };
        let Stage::Committed(conflicting) = &mut current.stage else { return };
        let conflicting = std::mem::take(conflicting);
        let Start { falling_back, components, locked } = FallingBack::start(conflicting, scope.ground.me(), self.modes);
        let round = current.round;
        current.stage = Stage::FallBack(falling_back);
        if !components.is_empty() {
            let (state, catalog) = (scope.ground.state().clone(), scope.ground.catalog().clone());
            scope.actions.push(Action::FallBack(FallbackBatch { components, state, catalog }));
        }
        if scope.ground.is_shared() {
            self.graphs.begin(Phase { round, fallback: true }, scope.ground.lend());
            locked.into_iter().for_each(|locked| self.graphs.lock(locked));
            self.receive_early(scope);
            if let Some(Stage::FallBack(falling_back)) = self.current.as_mut().map(|current| &mut current.stage) {
                falling_back.grant_free(&mut self.graphs);
            }
        }
        self.go_on(scope);
    }

    /// Does what has become possible.
    pub fn go_on(&mut self, scope: &mut Scope<'_, W>) {
        let mut over = false;
        if let Some(current) = &mut self.current {
            match &mut current.stage {
                Stage::Execute(_) => self.execute_on(scope),
                Stage::Committed(_) if !scope.ground.is_changing() => return self.fall_back(scope),
                Stage::FallBack(falling_back) => {
                    falling_back.go_on(&mut current.roots, &mut self.graphs, scope.actions);
                    over = falling_back.is_over();
                }
                Stage::Executed { .. } | Stage::Settled(_) | Stage::Committed(_) | Stage::Over { .. } => {}
            }
        }
        if over {
            self.end_fallback(scope);
        }
        self.send_mails(scope);
        let tasks = self.graphs.take_tasks();
        if !tasks.is_empty() {
            scope.actions.push(Action::RunTasks(tasks));
        }
    }

    fn execute_on(&mut self, scope: &mut Scope<'_, W>) {
        let Some(current) = &mut self.current else { return };
        let Stage::Execute(executing) = &mut current.stage else { return };
        for graph in self.graphs.take_concluded() {
            executing.concluded(self.graphs.close(graph), &mut current.roots, scope.ground);
        }
        // As many as may wait, less what others need here. A few at a time stay in the caches.
        let most = if scope.ground.is_shared() { (self.suspended_max / 4).max(1) } else { usize::MAX };
        if let Some(batch) = executing.next_batch(&current.roots, scope.ground, self.graphs.under_way(), most) {
            scope.actions.push(Action::Execute(batch));
        } else if let Some(message) = current.complete() {
            scope.actions.push(Action::Send { to: Node::Coordinator, message });
        }
    }

    /// Everything of the fallback is decided: its writes are applied. They ended in any order; what follows
    /// from them is told in TID order.
    fn end_fallback(&mut self, scope: &mut Scope<'_, W>) {
        let Some(current) = &mut self.current else { return };
        let Stage::FallBack(falling_back) = std::mem::replace(&mut current.stage, Stage::Over { logged: true }) else {
            return;
        };
        let shared = scope.ground.is_shared();
        if shared {
            let left = self.graphs.end();
            assert!(left.is_empty(), "every graph of the fallback is decided");
        }
        scope.ground.write(self.graphs.take_decided().into_writes().into_iter());
        if planted(Bug::FallbackUnlogged) && !scope.ground.is_changing() {
            scope.ground.take_written();
        }
        for at in falling_back.end() {
            current.fell_back(at, shared, scope.egress, scope.actions);
        }
        scope.egress.respond(scope.actions);
    }

    fn send_mails(&mut self, scope: &mut Scope<'_, W>) {
        let mails = self.graphs.take_mails().into_iter();
        let send = |(to, mail)| Action::Send { to: Node::Worker(to), message: Message::Graphs(mail) };
        scope.actions.extend(mails.map(send));
    }

    /// Ends the round, if nothing more of it is to be done.
    pub fn take_ended(&mut self, scope: &mut Scope<'_, W>) -> Option<Ended<W>> {
        let mut current = self.current.take_if(|current| current.is_over())?;
        self.last = current.round;
        self.join_writes.clear();
        self.marked = current.mark_records(scope.ground);
        if scope.ground.is_shared() {
            self.graphs.rest(current.round);
            self.receive_early(scope);
            self.send_mails(scope);
        }
        Some(current.into_ended())
    }

    /// What holds between steps.
    pub fn invariants(&self) -> Result<(), &'static str> {
        self.early.invariants(self.here())?;
        match &self.current {
            Some(current) if current.round <= self.last => Err("rounds follow on each other"),
            Some(current) => current.invariants(),
            None => Ok(()),
        }
    }
}

/// Takes what a long transaction did to entities of other workers.
fn take_remote(execution: &mut Execution, ground: &Ground) -> BTreeMap<WorkerId, Vec<JoinWrite>> {
    let mut writes: BTreeMap<WorkerId, Vec<JoinWrite>> = BTreeMap::new();
    let committed = execution.outcome.is_ok();
    for (entity, access) in std::mem::take(&mut execution.footprint.accesses).into_entries() {
        let owner = ground.view().placement.owner(entity.partition());
        if owner == ground.me() {
            execution.footprint.accesses.add(entity, access);
        } else if let Some(value) = access.write().filter(|_| committed) {
            let write = JoinWrite(entity, value.cloned());
            writes.entry(owner).or_default().push(write);
        }
    }
    writes
}

/// Shows what functions have logged, if they have.
fn show<W>(tid: Tid, lines: ThinVec<LogLine>, actions: &mut Vec<Action<W>>) {
    if !lines.is_empty() {
        actions.push(Action::Logs { tid, lines: lines.into() });
    }
}

/// Shows what functions have logged in parts of queries, if it is the attempt that counted.
#[allow(clippy::vec_box, reason = "they are boxed already, and large")]
fn show_counted<W>(parts: Vec<Box<Part>>, counted: &[(GraphId, u32)], actions: &mut Vec<Action<W>>) {
    for mut part in parts {
        let Header { graph, number, .. } = part.header;
        if part.attempt.is_some() && counted.binary_search(&(graph, number)).is_ok() {
            show(part.transaction.tid, take_execution(&mut part).logs, actions);
        }
    }
}

/// What a part of a graph did here; at the root with its outcome.
fn take_execution(part: &mut Part) -> Execution {
    let outcome = part.root.take().and_then(|root| root.result).unwrap_or_else(|| Ok(Value::default()));
    part.attempt.as_mut().expect("nothing of it runs").take_execution(outcome)
}
