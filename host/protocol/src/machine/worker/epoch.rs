//! A worker's part of a round, from its cut to its end.

use std::sync::Arc;

use super::fall_back::FallingBack;
use super::{Action, Batch, ClientResponse, Executed, Slot, Worker};
use crate::cluster::placement::Placement;
use crate::cluster::worker_set::WorkerSet;
use crate::commit::replies::Reply;
use crate::commit::validate::{Bits, Kind, Ranked, Verdict, dependencies, verdict};
use crate::execute::attempt::Execution;
use crate::execute::task::{GraphId, Started};
use crate::ids::{Epoch, Round, Tid, Timestamp, WorkerId};
use crate::machine::worker::graphs::{Ground, Part};
use crate::machine::{EpochSummary, Rank};
use crate::mutants::{Bug, planted};
use crate::sequence::catalog::{Consistency, Control};
use crate::sequence::transaction::{Request, Transaction};
use crate::state::State;
use crate::state::entity::Value;
use crate::wire::fault::why;
use crate::wire::message::{Begin, Finished, GraphEnd, Mail, Message, Node};

#[derive(Debug)]
pub(super) enum Phase<W> {
    Idle,
    Running(Box<Running<W>>),
}

/// The round under way.
#[derive(Debug)]
pub(super) struct Running<W> {
    round: Round,
    epoch: Epoch,
    /// What answers to queries rest on.
    query_base: Epoch,
    pub slots: Vec<Slot<W>>,
    /// Of each slot, what it did on the state of the epoch's start; the part that is here.
    executions: Vec<Option<Execution>>,
    queries: Vec<(Transaction, W)>,
    answers: Vec<Option<Execution>>,
    /// Roots handed out to be executed.
    started: usize,
    /// Whether some are out.
    out: bool,
    /// Roots that wait for other workers.
    open: usize,
    /// Graphs of several workers that are rooted here.
    ends: Vec<GraphEnd>,
    stage: Stage,
    pub summary: EpochSummary,
}

#[derive(Debug)]
enum Stage {
    Execute,
    /// All that is rooted here is complete.
    Executed,
    /// All graphs are complete: who commits is being decided.
    Settled(Settled),
    FallBack(FallingBack),
}

/// What this worker knows when all graphs are complete.
#[derive(Debug)]
struct Settled {
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

/// A transaction that conflicts.
#[derive(Debug)]
pub(super) struct Conflicting {
    /// Where it stands in the round, if it is rooted here.
    pub index: Option<usize>,
    pub transaction: Transaction,
    pub root: WorkerId,
    pub execution: Execution,
    /// If others take part in it.
    pub end: Option<GraphEnd>,
}

/// Marks the graphs of queries.
const QUERY: u64 = 1 << 63;

impl<W> Running<W> {
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn roots(&self) -> usize {
        self.slots.len() + self.queries.len()
    }
}

impl<W> Worker<W> {
    /// A round begins: cuts, sequences, executes.
    pub(super) fn begin(&mut self, begin: Begin, actions: &mut Vec<Action<W>>) {
        if !self.is_idle() || begin.round <= self.round {
            return self.fault(Node::Coordinator, "Begin", why::ANOTHER_ROUND, actions);
        }
        let Begin { round, epoch, time, counter, before, controls, replay } = begin;
        (self.time, self.chain, self.woke) = (time, before, false);
        for control in &controls {
            self.control(control);
        }
        debug_assert!(
            replay.is_none() || !controls.iter().any(|control| matches!(control, Control::Place(_))),
            "a replay keeps the placement of its own generation"
        );
        let query_base = if controls.iter().any(Control::is_deployment) { epoch } else { self.epoch };
        self.sequencer.level(counter);
        let replayed = replay.is_some();
        let admitted = match replay {
            Some(replay) => replay.into_iter().map(|replayed| self.replayed(replayed.tid, replayed.request)).collect(),
            None => self.cut(epoch, actions),
        };
        if !replayed {
            let requests = admitted.iter().map(|slot| slot.transaction.request.clone()).collect();
            self.send(Node::Coordinator, Message::Share { round, requests }, actions);
        }
        // Rescheduled transactions keep their TIDs, which are lower than all new ones.
        let mut slots = std::mem::take(&mut self.carried);
        if replayed && planted(Bug::CarriedForgotten) {
            slots.clear();
        }
        for slot in &mut slots {
            if planted(Bug::TidsReassigned) {
                slot.transaction.tid = self.sequencer.assign();
            }
        }
        slots.extend(admitted);
        let queries: Vec<(Transaction, W)> = if replayed { Vec::new() } else { self.take_queries(time) };
        let summary = EpochSummary { epoch, time, ..EpochSummary::default() };
        let running = Running {
            round,
            epoch,
            query_base,
            executions: slots.iter().map(|_| None).collect(),
            answers: queries.iter().map(|_| None).collect(),
            slots,
            queries,
            started: 0,
            out: false,
            open: 0,
            ends: Vec::new(),
            stage: Stage::Execute,
            summary,
        };
        if self.is_one_of_several() {
            let ground = self.ground();
            self.graphs.begin(round, false, ground);
        }
        self.phase = Phase::Running(Box::new(running));
        self.replay_buffered(actions);
        self.go_on(actions);
    }

    pub(super) fn is_one_of_several(&self) -> bool {
        self.view.placement.workers() > 1
    }

    /// What the graphs of a phase rest on: the placement of the epoch under way among it.
    pub(super) fn ground(&self) -> Ground {
        Ground { view: self.view.clone(), state: self.state.clone(), catalog: self.catalog.clone() }
    }

    fn control(&mut self, control: &Control) {
        if let Control::Place(placement) = control {
            self.place(placement);
            return;
        }
        let live = self.catalog.clone();
        let composite = |id| live.operator(id).is_some_and(|operator| operator.composite);
        for operator in Arc::make_mut(&mut self.catalog).apply(control) {
            exclusive(&mut self.state).remove_operator(composite(operator), operator);
        }
    }

    /// A placement takes effect: all that routes or executes from here on goes by it.
    fn place(&mut self, placement: &Placement) {
        let before = &self.view.placement;
        assert_eq!(placement.version(), before.version().next(), "placements follow on each other");
        assert_eq!(placement.owners(), before.owners(), "partitions change their owner only with their state");
        self.view.placement = Arc::new(placement.clone());
    }

    fn replayed(&mut self, tid: Tid, request: Arc<Request>) -> Slot<W> {
        if request.retained && !planted(Bug::KeysForgotten) {
            self.replies.begin(request.id, request.body_hash());
        }
        let transaction = Transaction { tid, time: self.time, request, query: false };
        Slot { transaction, waiter: None, receipt: false }
    }

    /// Takes what the epoch has room for, and gives it TIDs.
    fn cut(&mut self, epoch: Epoch, actions: &mut Vec<Action<W>>) -> Vec<Slot<W>> {
        let mut admitted = self.take_admitted();
        for slot in &mut admitted {
            slot.transaction.tid = self.sequencer.assign();
            slot.transaction.time = self.time;
            let request = &slot.transaction.request;
            if request.retained {
                let body = self.admitted_bodies.remove(&request.id).expect("it was admitted");
                self.replies.begin(request.id, body);
                for waiter in self.receipts.remove(&request.id).unwrap_or_default() {
                    let accepted = ClientResponse::Accepted { waiter, id: request.id };
                    actions.extend(self.outbox.hold(epoch, accepted).map(Action::Respond));
                }
            }
            if slot.receipt
                && let Some(waiter) = slot.waiter.take()
            {
                let accepted = ClientResponse::Accepted { waiter, id: request.id };
                actions.extend(self.outbox.hold(epoch, accepted).map(Action::Respond));
            }
        }
        admitted
    }

    /// As many admitted requests as an epoch takes beside the rescheduled ones.
    fn take_admitted(&mut self) -> Vec<Slot<W>> {
        let room = self.config.epoch_size_max.saturating_sub(self.carried.len()).max(1);
        let mut bytes = 0usize;
        let fits = self.admitted.iter().take(room).take_while(|slot| {
            let before = bytes;
            bytes += slot.transaction.request.args.len() + slot.transaction.request.key.len();
            before == 0 || bytes <= self.config.epoch_bytes_max
        });
        let count = fits.count();
        self.admitted.drain(..count).collect()
    }

    fn take_queries(&mut self, time: Timestamp) -> Vec<(Transaction, W)> {
        let as_transaction = |(request, waiter): (Request, W)| {
            (Transaction { tid: Tid(0), time, request: Arc::new(request), query: true }, waiter)
        };
        self.queries.drain(..).map(as_transaction).collect()
    }

    fn running(&mut self) -> &mut Running<W> {
        match &mut self.phase {
            Phase::Running(running) => running,
            Phase::Idle => panic!("something arrived for a round, and none is under way"),
        }
    }

    /// The round and the phase of it that this worker is in: whether it falls back, or is over.
    fn here(&self) -> (Round, bool) {
        match &self.phase {
            Phase::Idle => (self.round, true),
            Phase::Running(running) => (running.round, matches!(running.stage, Stage::FallBack(_))),
        }
    }

    /// Mail between workers: now, if its phase is here; later, if it is not.
    pub(super) fn mail(&mut self, from: WorkerId, mail: Mail, actions: &mut Vec<Action<W>>) {
        match (mail.round, mail.fallback).cmp(&self.here()) {
            std::cmp::Ordering::Greater if self.is_next((mail.round, mail.fallback)) => self.early.push((from, mail)),
            std::cmp::Ordering::Greater => self.fault(Node::Worker(from), "Graphs", why::TOO_EARLY, actions),
            std::cmp::Ordering::Equal => {
                self.receive(from, mail, actions);
                self.go_on(actions);
            }
            // Nobody waits for the results of calls that were re-invoked: their graph may be decided before
            // they arrive, if whoever issued the call has failed before it.
            std::cmp::Ordering::Less if mail.has_only_results() => {}
            std::cmp::Ordering::Less => self.fault(Node::Worker(from), "Graphs", why::PHASE_OVER, actions),
        }
    }

    fn receive(&mut self, from: WorkerId, mail: Mail, actions: &mut Vec<Action<W>>) {
        if let Err(why) = self.graphs.receive(from, mail) {
            self.fault(Node::Worker(from), "Graphs", why, actions);
        }
    }

    /// Whether a phase is the next one after that which this worker is in: others are at most one ahead.
    fn is_next(&self, (round, fallback): (Round, bool)) -> bool {
        match self.here() {
            (here, false) => (round, fallback) == (here, true),
            (here, true) => (round, fallback) == (Round(here.0 + 1), false),
        }
    }

    /// Takes the mail of the phase that has just begun.
    pub(super) fn replay_buffered(&mut self, actions: &mut Vec<Action<W>>) {
        let here = self.here();
        for (from, mail) in std::mem::take(&mut self.early) {
            if (mail.round, mail.fallback) == here {
                self.receive(from, mail, actions);
            } else {
                self.early.push((from, mail));
            }
        }
    }

    fn send_mails(&mut self, actions: &mut Vec<Action<W>>) {
        for (to, mail) in self.graphs.take_mails() {
            self.send(Node::Worker(to), Message::Graphs(mail), actions);
        }
    }

    /// Does what has become possible.
    pub(super) fn go_on(&mut self, actions: &mut Vec<Action<W>>) {
        let falling_back =
            matches!(&self.phase, Phase::Running(running) if matches!(running.stage, Stage::FallBack(_)));
        if falling_back {
            self.fall_on(actions)
        } else {
            self.execute_on(actions)
        }
        self.send_mails(actions);
        let tasks = self.graphs.take_pieces();
        if !tasks.is_empty() {
            actions.push(Action::RunTasks(tasks));
        }
    }

    fn execute_on(&mut self, actions: &mut Vec<Action<W>>) {
        for graph in self.graphs.take_concluded() {
            self.concluded(graph);
        }
        let several = self.is_one_of_several();
        // As many as may wait, less what others need here. A few at a time stay in the caches.
        let most = if several { (self.config.suspended_max / 4).max(1) } else { usize::MAX };
        let under_way = self.graphs.under_way();
        let Phase::Running(running) = &mut self.phase else { return };
        if !matches!(running.stage, Stage::Execute) || running.out {
            return;
        }
        let total = running.roots();
        if running.started < total {
            if under_way > most / 2 {
                return; // Those that wait do not wait for these.
            }
            let range = running.started..total.min(running.started.saturating_add(most - under_way));
            let slots = running.slots.len();
            let transactions = range.start.min(slots)..range.end.min(slots);
            let queries = range.start.max(slots) - slots..range.end.max(slots) - slots;
            running.started = range.end;
            running.out = true;
            actions.push(Action::Execute(Batch {
                transactions: running.slots[transactions].iter().map(|slot| slot.transaction.clone()).collect(),
                queries: running.queries[queries].iter().map(|(transaction, _)| transaction.clone()).collect(),
                state: self.state.clone(),
                catalog: self.catalog.clone(),
                view: several.then(|| self.view.clone()),
            }));
            return;
        }
        if running.open == 0 {
            running.stage = Stage::Executed;
            let (round, ends) = (running.round, std::mem::take(&mut running.ends));
            self.send(Node::Coordinator, Message::Executed { round, ends }, actions);
        }
    }

    /// A batch was executed.
    pub(super) fn executed(&mut self, executed: Executed, actions: &mut Vec<Action<W>>) {
        let me = self.view.me;
        let running = match &mut self.phase {
            Phase::Running(running) => running,
            Phase::Idle => panic!("executions arrived and no round is under way"),
        };
        running.out = false;
        let first = running.started - executed.transactions.len() - executed.queries.len();
        for (at, started) in executed.transactions.into_iter().chain(executed.queries).enumerate() {
            let at = first + at;
            let (transaction, graph, place) = match at.checked_sub(running.slots.len()) {
                None => {
                    let transaction = &running.slots[at].transaction;
                    (transaction, GraphId(transaction.tid.0), &mut running.executions[at])
                }
                Some(query) => {
                    let graph = GraphId(QUERY | u64::from(me.0) << 40 | query as u64);
                    (&running.queries[query].0, graph, &mut running.answers[query])
                }
            };
            match started {
                Started::Local(execution) => *place = Some(execution),
                Started::Distributed(attempt, progress) => {
                    running.open += 1;
                    running.summary.shared += 1;
                    self.graphs.open(graph, transaction.clone(), attempt, progress);
                }
            }
        }
        self.go_on(actions);
    }

    /// A graph that is rooted here is complete.
    fn concluded(&mut self, graph: GraphId) {
        let snapshot_reads = self.snapshot_reads();
        let mut part = self.graphs.close(graph);
        let end = part.end(snapshot_reads(&part.transaction));
        let me = self.view.me;
        let running = self.running();
        running.open -= 1;
        let execution = take_execution(&mut part);
        if graph.0 & QUERY != 0 {
            running.answers[(graph.0 & 0xFF_FFFF_FFFF) as usize] = Some(execution);
            return;
        }
        let at = running.slots.binary_search_by_key(&end.tid, |slot| slot.transaction.tid);
        running.executions[at.expect("it is rooted here")] = Some(execution);
        if end.workers != WorkerSet::only(me) {
            running.ends.push(end);
        }
    }

    /// All graphs of all workers are complete.
    pub(super) fn settle(&mut self, round: Round, logged: bool, ends: Vec<GraphEnd>, actions: &mut Vec<Action<W>>) {
        match &self.phase {
            Phase::Running(running) if running.round == round && matches!(running.stage, Stage::Executed) => {}
            _ => return self.fault(Node::Coordinator, "Settle", why::ANOTHER_PHASE, actions),
        }
        let parts = if self.is_one_of_several() { self.graphs.end() } else { Vec::new() };
        let (me, time, snapshot_reads) = (self.view.me, self.time, self.snapshot_reads());
        let running = self.running();
        let mut foreign = Vec::with_capacity(parts.len());
        let mut walk = Walk::new(&ends, |end| end.tid);
        for mut part in parts {
            let Some(end) = walk.find(Tid(part.header.graph.0)) else { continue };
            let current = end.number == part.header.number && end.workers.contains(me);
            if current {
                let execution = take_execution(&mut part);
                let Part { transaction, header, .. } = *part;
                foreign.push(Foreign { transaction, root: header.root, execution });
            }
        }
        let mut ranked: Vec<Ranked<'_>> = Vec::with_capacity(running.slots.len() + foreign.len());
        let mut walk = Walk::new(&ends, |end| end.tid);
        for (slot, execution) in running.slots.iter().zip(&running.executions) {
            let execution = execution.as_ref().expect("every root is complete");
            let tid = slot.transaction.tid;
            let kind = walk.find(tid).map_or_else(|| kind_of(execution), |end| end.kind);
            let snapshot = snapshot_reads(&slot.transaction);
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
        let bits = dependencies(&ranked);
        let bits: Vec<(Tid, Kind, Bits)> =
            ranked.iter().zip(bits).map(|(ranked, bits)| (ranked.tid, ranked.kind, bits)).collect();
        let mut walk = Walk::new(&ends, |end| end.tid);
        let shared: Vec<(Tid, Bits)> = bits
            .iter()
            .filter(|(tid, _, bits)| !bits.is_empty() && walk.find(*tid).is_some())
            .map(|(tid, _, bits)| (*tid, *bits))
            .collect();
        let alone = ends.is_empty();
        running.stage = Stage::Settled(Settled { ends, foreign, bits });
        if logged {
            self.replies.trim(time);
        }
        self.answer_queries(actions);
        if !logged {
            // Nothing was executed but queries.
            return self.finish(false, actions);
        }
        if alone {
            self.commit(&[], actions)
        } else {
            self.send(Node::Coordinator, Message::Bits { round, bits: shared }, actions)
        }
    }

    fn snapshot_reads(&self) -> impl Fn(&Transaction) -> bool + use<W> {
        let catalog = self.catalog.clone();
        move |transaction| {
            let request = &transaction.request;
            catalog.operator(request.operator).is_some_and(|operator| {
                let function = operator.function_index(&request.function);
                function.is_some_and(|at| operator.function(at).consistency == Consistency::Snapshot)
            })
        }
    }

    fn answer_queries(&mut self, actions: &mut Vec<Action<W>>) {
        let Phase::Running(running) = &mut self.phase else { return };
        running.summary.counts.queries = running.queries.len() as u64;
        let base = if planted(Bug::QueryAtOnce) { Epoch(0) } else { running.query_base };
        for ((transaction, waiter), execution) in running.queries.drain(..).zip(running.answers.drain(..)) {
            let outcome = execution.expect("every query is answered").outcome;
            let reply = Reply { id: transaction.request.id, tid: transaction.tid, epoch: running.query_base, outcome };
            let response = ClientResponse::Reply { waiter, reply };
            actions.extend(self.outbox.hold(base, response).map(Action::Respond));
        }
    }

    /// The dependencies of all workers are known.
    pub(super) fn decide(&mut self, round: Round, bits: Vec<(Tid, Bits)>, actions: &mut Vec<Action<W>>) {
        match &self.phase {
            Phase::Running(running) if running.round == round && matches!(running.stage, Stage::Settled(_)) => {
                self.commit(&bits, actions);
            }
            _ => self.fault(Node::Coordinator, "Decide", why::ANOTHER_PHASE, actions),
        }
    }

    /// Commits who has no conflict; the others fall back.
    fn commit(&mut self, merged: &[(Tid, Bits)], actions: &mut Vec<Action<W>>) {
        let Phase::Running(mut running) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            panic!("a round commits while it is under way");
        };
        let Stage::Settled(settled) = std::mem::replace(&mut running.stage, Stage::Executed) else {
            panic!("a round commits when all of its graphs are complete");
        };
        let Settled { ends, foreign, bits } = settled;
        // As far as is known here: what they did is large, and would be moved as the list grows.
        let modes = self.config.modes;
        let conflicts = bits.iter().filter(|(_, kind, own)| verdict(*kind, *own, modes) == Verdict::Conflict).count();
        let (mut ends, mut merged) = (Walk::new(&ends, |end| end.tid), Walk::new(merged, |(tid, _)| *tid));
        let mut foreign = foreign.into_iter();
        let mut conflicting = Vec::with_capacity(conflicts);
        let mut slots = (0..running.slots.len()).peekable();
        for (tid, kind, own) in bits {
            let end = ends.find(tid);
            let bits = match end {
                Some(_) => merged.find(tid).map_or_else(Bits::default, |(_, bits)| *bits),
                None => own,
            };
            let verdict = verdict(kind, bits, modes);
            let index = slots.next_if(|at| running.slots[*at].transaction.tid == tid);
            if let Some(index) = index {
                let execution = running.executions[index].take().expect("every root is complete");
                let transaction = running.slots[index].transaction.clone();
                if verdict == Verdict::Conflict {
                    let (root, end) = (self.view.me, end.cloned());
                    conflicting.push(Conflicting { index: Some(index), transaction, root, execution, end });
                    continue;
                }
                if self.config.claim_order {
                    running.summary.order.push(match verdict {
                        Verdict::ReadOnly => Rank::ReadOnly(tid),
                        Verdict::CommitEarly => Rank::Early(tid),
                        Verdict::Commit | Verdict::Conflict => Rank::Commit(tid),
                    });
                }
                let state = exclusive(&mut self.state);
                execution.writes().for_each(|write| state.apply(write));
                running.summary.counts.committed += u64::from(execution.outcome.is_ok());
                self.end(&mut running, index, execution, actions);
            } else {
                let Foreign { transaction, root, execution } = foreign.next().expect("it is here");
                if verdict == Verdict::Conflict {
                    conflicting.push(Conflicting { index: None, transaction, root, execution, end: end.cloned() });
                } else if kind != Kind::Aborted {
                    let state = exclusive(&mut self.state);
                    execution.writes().for_each(|write| state.apply(write));
                    if !execution.logs.is_empty() {
                        actions.push(Action::Logs { tid, lines: execution.logs.into() });
                    }
                }
            }
        }
        running.summary.order.sort_unstable();
        self.phase = Phase::Running(running);
        if conflicting.is_empty() {
            self.finish(true, actions);
        } else if self.config.modes.fallback {
            self.fall_back(conflicting, actions);
        } else {
            for index in conflicting.into_iter().filter_map(|conflicting| conflicting.index) {
                self.reschedule(index);
            }
            self.finish(true, actions);
        }
    }

    pub(super) fn falling_back(&mut self) -> &mut FallingBack {
        match &mut self.running().stage {
            Stage::FallBack(falling_back) => falling_back,
            _ => panic!("the fallback went on, and is not under way"),
        }
    }

    pub(super) fn enter_fallback(&mut self, falling_back: FallingBack) -> Round {
        let running = self.running();
        running.stage = Stage::FallBack(falling_back);
        running.round
    }

    pub(super) fn reschedule(&mut self, index: usize) {
        let running = self.running();
        running.summary.counts.rescheduled += 1;
        let slot = &mut running.slots[index];
        let slot = Slot { transaction: slot.transaction.clone(), waiter: slot.waiter.take(), receipt: false };
        self.carried.push(slot);
    }

    /// A transaction of the fallback has ended.
    pub(super) fn end_fallen(&mut self, index: usize, execution: Execution, actions: &mut Vec<Action<W>>) {
        let Phase::Running(mut running) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            panic!("a transaction ended outside of a round");
        };
        running.summary.counts.fell_back += u64::from(execution.outcome.is_ok());
        if self.config.claim_order {
            running.summary.order.push(Rank::FellBack(running.slots[index].transaction.tid));
        }
        self.end(&mut running, index, execution, actions);
        self.phase = Phase::Running(running);
    }

    fn end(&mut self, running: &mut Running<W>, index: usize, execution: Execution, actions: &mut Vec<Action<W>>) {
        running.summary.counts.aborted += u64::from(execution.outcome.is_err());
        running.summary.counts.fuel += execution.fuel;
        let slot = &mut running.slots[index];
        if self.config.claim_order {
            running.summary.outcomes.push((slot.transaction.tid, execution.outcome.clone()));
        }
        let request = &slot.transaction.request;
        let reply =
            Reply { id: request.id, tid: slot.transaction.tid, epoch: running.epoch, outcome: execution.outcome };
        if request.retained {
            self.replies.end(&reply, self.time);
            for waiter in self.waiting.remove(&reply.id).unwrap_or_default() {
                let response = ClientResponse::Reply { waiter, reply: reply.clone() };
                actions.extend(self.outbox.hold(running.epoch, response).map(Action::Respond));
            }
        }
        if !execution.logs.is_empty() {
            actions.push(Action::Logs { tid: reply.tid, lines: execution.logs.into() });
        }
        if let Some(waiter) = running.slots[index].waiter.take() {
            let several = self.view.placement.workers() > 1;
            let epoch = if several && planted(Bug::DurableAssumed) { Epoch(0) } else { running.epoch };
            let response = ClientResponse::Reply { waiter, reply };
            actions.extend(self.outbox.hold(epoch, response).map(Action::Respond));
        }
    }

    pub(super) fn finish(&mut self, logged: bool, actions: &mut Vec<Action<W>>) {
        let Phase::Running(running) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            panic!("a round ends once");
        };
        self.round = running.round;
        if self.is_one_of_several() {
            self.send_mails(actions);
            self.graphs.rest(running.round);
            self.replay_buffered(actions);
            self.send_mails(actions);
        }
        if logged {
            self.epoch = running.epoch;
        }
        let more = self.has_work();
        self.woke = more;
        let finished = Finished {
            round: running.round,
            hash: self.state.hash(),
            deployment: self.catalog.hash(),
            carried: self.carried.iter().map(|slot| slot.transaction.tid).collect(),
            more,
            counts: running.summary.counts,
        };
        let summary = EpochSummary { epoch: self.epoch, ..running.summary };
        actions.push(Action::Finished(summary));
        self.send(Node::Coordinator, Message::Finished(finished), actions);
    }

    pub(super) fn exclusive_state(&mut self) -> &mut State {
        exclusive(&mut self.state)
    }
}

/// What a part of a graph did here; at the root with its outcome.
pub(super) fn take_execution(part: &mut Part) -> Execution {
    let outcome = part.root.take().and_then(|root| root.result).unwrap_or_else(|| Ok(Value::default()));
    part.attempt.as_mut().expect("nothing of it runs").take_execution(outcome)
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

fn kind_of(execution: &Execution) -> Kind {
    match &execution.outcome {
        Err(_) => Kind::Aborted,
        Ok(_) if !execution.effects.is_empty() => Kind::Wrote,
        Ok(_) if execution.footprint.accesses.iter().any(|(_, access)| access.is_write()) => Kind::Wrote,
        Ok(_) => Kind::ReadOnly,
    }
}

/// The state, while nobody reads it.
fn exclusive(state: &mut Arc<State>) -> &mut State {
    Arc::get_mut(state).expect("no execution keeps the state beyond its batch")
}
