//! An epoch from its cut to its end.

use std::sync::Arc;

use super::{Action, Batch, EpochSummary, Executed, FallbackBatch, Machine, Slot};
use crate::attempt::Execution;
use crate::fallback::{ComponentOutcome, Member, components};
use crate::ids::{Epoch, Tid, Timestamp};
use crate::mutants::{Bug, planted};
use crate::record::EpochRecord;
use crate::replies::Reply;
use crate::state::State;
use crate::transaction::{Request, Transaction};
use crate::validate::{Verdict, validate};

#[derive(Debug)]
pub(super) enum Phase<W> {
    Idle,
    Running(Box<Running<W>>),
}

/// The epoch under way.
#[derive(Debug)]
pub(super) struct Running<W> {
    pub(super) epoch: Epoch,
    /// Whether it has a record: an epoch of queries alone has none.
    logged: bool,
    /// What answers to queries rest on.
    query_base: Epoch,
    slots: Vec<Slot<W>>,
    queries: Vec<(Transaction, W)>,
    summary: EpochSummary,
}

impl<W> Machine<W> {
    /// Closes an epoch and starts it.
    pub(super) fn cut(&mut self, now: Timestamp, actions: &mut Vec<Action<W>>) {
        let logged = !(self.admitted.is_empty() && self.controls.is_empty() && self.carried.is_empty());
        if !logged {
            let queries = std::mem::take(&mut self.queries);
            self.execute(self.epoch, false, self.epoch, Vec::new(), queries.into(), actions);
            return;
        }
        let epoch = Epoch(self.epoch.0 + 1);
        // Logged time never runs backwards, whatever the clock does.
        self.time = if planted(Bug::TimeBackwards) { now } else { self.time.max(now) };
        let admitted = self.take_admitted();
        let (controls, control_waiters): (Vec<_>, Vec<_>) = self.controls.drain(..).unzip();
        let query_base = if controls.is_empty() { self.epoch } else { epoch };
        let recorded = admitted.len().saturating_sub(usize::from(planted(Bug::RecordIncomplete)));
        let record = Arc::new(EpochRecord {
            epoch,
            generation: self.config.generation,
            engine: self.config.engine,
            time: self.time,
            first: self.sequencer.peek(),
            carried: self.carried.iter().map(|slot| slot.transaction.tid).collect(),
            before: self.chain,
            controls,
            requests: admitted[..recorded].iter().map(|slot| slot.transaction.request.clone()).collect(),
        });
        actions.push(Action::Append(record.clone()));
        for (control, waiter) in record.controls.iter().zip(control_waiters) {
            // Checked on arrival; an earlier change of the same epoch may have overtaken it.
            let result = self.catalog.check(control);
            self.control(control);
            if let Some(waiter) = waiter {
                self.outbox.hold(epoch, Action::Controlled { waiter, result }, actions);
            }
        }
        let queries = std::mem::take(&mut self.queries);
        self.start(&record, admitted, queries.into(), query_base, actions);
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
        let taken = self.admitted.drain(..count).collect();
        if planted(Bug::OverflowDropped) {
            self.admitted.pop_front();
        }
        taken
    }

    /// Does again what a record of the log says was done.
    pub(super) fn replay(&mut self, record: Arc<EpochRecord>, actions: &mut Vec<Action<W>>) {
        assert!(self.is_idle(), "records are replayed one after the other");
        assert_eq!(record.epoch.0, self.epoch.0 + 1, "the log's epochs are contiguous");
        assert_eq!(
            record.before, self.chain,
            "state diverged from the log before epoch {}: the log was written by another engine, or a function is not deterministic",
            record.epoch
        );
        assert_eq!(record.first, self.sequencer.peek(), "TIDs diverged from the log in epoch {}", record.epoch);
        let carried: Vec<Tid> = self.carried.iter().map(|slot| slot.transaction.tid).collect();
        assert_eq!(record.carried, carried, "rescheduled transactions diverged from the log in epoch {}", record.epoch);
        self.time = if planted(Bug::ReplayTime) { Timestamp(record.time.0 + 1) } else { record.time };
        if planted(Bug::CarriedForgotten) {
            self.carried.clear();
        }
        for control in &record.controls {
            self.control(control);
        }
        let slots = record.requests.iter().map(|request| Slot {
            transaction: Transaction { tid: Tid(0), time: Timestamp(0), request: request.clone(), query: false },
            waiter: None,
            receipt: false,
        });
        let admitted = slots.collect();
        self.start(&record, admitted, Vec::new(), record.epoch, actions);
    }

    fn control(&mut self, control: &crate::catalog::Control) {
        let live = self.catalog.clone();
        let composite = |id| live.operator(id).is_some_and(|operator| operator.composite);
        for operator in Arc::make_mut(&mut self.catalog).apply(control) {
            if !planted(Bug::RemovedStateKept) {
                exclusive(&mut self.state).remove_operator(composite(operator), operator);
            }
        }
    }

    /// Assigns TIDs and has the epoch executed.
    fn start(
        &mut self,
        record: &EpochRecord,
        mut admitted: Vec<Slot<W>>,
        queries: Vec<(Request, W)>,
        query_base: Epoch,
        actions: &mut Vec<Action<W>>,
    ) {
        self.replies.trim(record.time);
        for slot in &mut admitted {
            slot.transaction.tid = self.sequencer.assign();
            slot.transaction.time = if planted(Bug::ReplayTime) { self.time } else { record.time };
            let request = &slot.transaction.request;
            if request.retained {
                let admitted = self.admitted_bodies.remove(&request.id);
                let forgotten = planted(Bug::KeysForgotten) && admitted.is_none();
                if !forgotten && !planted(Bug::KeysNotNoted) {
                    self.replies.begin(request.id, admitted.unwrap_or_else(|| request.body_hash()));
                }
                for waiter in self.receipts.remove(&request.id).unwrap_or_default() {
                    self.outbox.hold(record.epoch, Action::Accepted { waiter, id: request.id }, actions);
                }
            }
            if slot.receipt
                && let Some(waiter) = slot.waiter.take()
            {
                let epoch = if planted(Bug::ReceiptAtOnce) { Epoch(0) } else { record.epoch };
                self.outbox.hold(epoch, Action::Accepted { waiter, id: request.id }, actions);
            }
        }
        // Rescheduled transactions keep their TIDs, which are lower than all new ones.
        let mut slots = std::mem::take(&mut self.carried);
        for slot in &mut slots {
            if planted(Bug::TidsReassigned) {
                slot.transaction.tid = self.sequencer.assign();
            }
            if planted(Bug::TimeRenewed) {
                slot.transaction.time = record.time;
            }
        }
        slots.append(&mut admitted);
        self.execute(record.epoch, true, query_base, slots, queries, actions);
    }

    fn execute(
        &mut self,
        epoch: Epoch,
        logged: bool,
        query_base: Epoch,
        slots: Vec<Slot<W>>,
        queries: Vec<(Request, W)>,
        actions: &mut Vec<Action<W>>,
    ) {
        let time = self.time;
        let as_transaction = |(request, waiter): (Request, W)| {
            (Transaction { tid: Tid(0), time, request: Arc::new(request), query: true }, waiter)
        };
        let queries: Vec<(Transaction, W)> = queries.into_iter().map(as_transaction).collect();
        actions.push(Action::Execute(Batch {
            transactions: slots.iter().map(|slot| slot.transaction.clone()).collect(),
            queries: queries.iter().map(|(transaction, _)| transaction.clone()).collect(),
            state: self.state.clone(),
            catalog: self.catalog.clone(),
        }));
        let summary = EpochSummary { epoch, time, ..EpochSummary::default() };
        self.phase = Phase::Running(Box::new(Running { epoch, logged, query_base, slots, queries, summary }));
    }

    /// Validates and commits; what conflicts goes to the fallback.
    pub(super) fn executed(&mut self, executed: Executed, actions: &mut Vec<Action<W>>) {
        let Phase::Running(mut running) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            panic!("executions arrived and no epoch is under way");
        };
        assert_eq!(
            (running.slots.len(), running.queries.len()),
            (executed.transactions.len(), executed.queries.len()),
            "every transaction of the epoch is executed"
        );

        running.summary.queries = executed.queries.len();
        for ((transaction, waiter), execution) in running.queries.drain(..).zip(executed.queries) {
            let reply = Reply {
                id: transaction.request.id,
                tid: transaction.tid,
                epoch: running.query_base,
                outcome: execution.outcome,
            };
            let base = if planted(Bug::QueryAtOnce) { Epoch(0) } else { running.query_base };
            self.outbox.hold(base, Action::Reply { waiter, reply }, actions);
        }

        let ranked: Vec<(Tid, &Execution)> = running
            .slots
            .iter()
            .zip(&executed.transactions)
            .map(|(slot, execution)| (slot.transaction.tid, execution))
            .collect();
        let verdicts = validate(&ranked, self.config.reordering);
        if self.config.claim_order {
            running.summary.order = claimed_order(&ranked, &verdicts);
        }
        let mut members = Vec::new();
        for (index, (execution, verdict)) in executed.transactions.into_iter().zip(verdicts).enumerate() {
            match verdict {
                Verdict::Conflict => {
                    if planted(Bug::ConflictsApplied) {
                        execution.writes().for_each(|write| exclusive(&mut self.state).apply(write));
                    }
                    let transaction = running.slots[index].transaction.clone();
                    members.push(Member { index, transaction, cached: Arc::new(execution) });
                }
                _ => {
                    let state = exclusive(&mut self.state);
                    execution.writes().for_each(|write| state.apply(write));
                    running.summary.committed += usize::from(execution.outcome.is_ok());
                    self.end(&mut running, index, execution, actions);
                }
            }
        }
        if members.is_empty() {
            self.finish(*running, actions);
        } else if self.config.fallback {
            actions.push(Action::FallBack(FallbackBatch {
                components: components(members).into(),
                state: self.state.clone(),
                catalog: self.catalog.clone(),
            }));
            self.phase = Phase::Running(running);
        } else {
            for member in members {
                self.reschedule(&mut running, member.index);
            }
            self.finish(*running, actions);
        }
    }

    /// Commits what kept to its cached RW set and call graph; the rest moves to the next epoch.
    pub(super) fn fell_back(&mut self, outcomes: Vec<ComponentOutcome>, actions: &mut Vec<Action<W>>) {
        let Phase::Running(mut running) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            panic!("the fallback ended and no epoch is under way");
        };
        let mut executions = Vec::new();
        for outcome in outcomes {
            let state = exclusive(&mut self.state);
            outcome.writes.into_iter().for_each(|write| state.apply(write));
            executions.extend(outcome.executions);
        }
        // Components ran in any order; what follows from them is told in TID order.
        executions.sort_unstable_by_key(|(index, _)| *index);
        for (index, execution) in executions {
            if execution.drifted && !planted(Bug::DriftCommitted) {
                self.reschedule(&mut running, index);
                continue;
            }
            running.summary.fell_back += usize::from(execution.outcome.is_ok());
            if self.config.claim_order {
                running.summary.order.push(running.slots[index].transaction.tid);
            }
            self.end(&mut running, index, execution, actions);
        }
        self.finish(*running, actions);
    }

    fn reschedule(&mut self, running: &mut Running<W>, index: usize) {
        running.summary.rescheduled += 1;
        let slot = &mut running.slots[index];
        self.carried.push(Slot { transaction: slot.transaction.clone(), waiter: slot.waiter.take(), receipt: false });
    }

    fn end(&mut self, running: &mut Running<W>, index: usize, execution: Execution, actions: &mut Vec<Action<W>>) {
        running.summary.aborted += usize::from(execution.outcome.is_err());
        running.summary.fuel += execution.fuel;
        let slot = &mut running.slots[index];
        let request = &slot.transaction.request;
        let reply =
            Reply { id: request.id, tid: slot.transaction.tid, epoch: running.epoch, outcome: execution.outcome };
        if request.retained {
            self.replies.end(&reply, self.time);
            for waiter in self.waiting.remove(&reply.id).unwrap_or_default() {
                self.outbox.hold(running.epoch, Action::Reply { waiter, reply: reply.clone() }, actions);
            }
        }
        if !execution.logs.is_empty() {
            actions.push(Action::Logs { tid: reply.tid, lines: execution.logs });
        }
        let neighbour = if planted(Bug::RepliesSwapped) { (index + 1) % running.slots.len() } else { index };
        if let Some(waiter) = running.slots[neighbour].waiter.take() {
            self.outbox.hold(running.epoch, Action::Reply { waiter, reply }, actions);
        }
    }

    fn finish(&mut self, running: Running<W>, actions: &mut Vec<Action<W>>) {
        if running.logged {
            self.epoch = running.epoch;
            self.chain = self.chain.after(self.epoch, self.state.hash());
            // One sequencer is always level with itself; a cluster's coordinator sends the highest counter.
            self.sequencer.level(self.sequencer.counter());
        }
        actions.push(Action::Finished(EpochSummary { chain: self.chain, ..running.summary }));
    }
}

/// The state, while nobody reads it.
fn exclusive(state: &mut Arc<State>) -> &mut State {
    Arc::get_mut(state).expect("no execution keeps the state beyond its batch")
}

/// The serial order that the lock-free phase is equal to: those that wrote nothing; then those
/// that read what a lower TID wrote, highest first; then the others by TID. (Of two committed
/// transactions, the one that reads what the other writes must precede it. One that reads what a
/// lower TID writes writes nothing that a lower TID reads, so only higher TIDs must precede it.)
fn claimed_order(ranked: &[(Tid, &Execution)], verdicts: &[Verdict]) -> Vec<Tid> {
    let of = |wanted: Verdict| {
        ranked.iter().zip(verdicts).filter(move |(_, verdict)| **verdict == wanted).map(|((tid, _), _)| *tid)
    };
    let mut early: Vec<Tid> = of(Verdict::CommitEarly).collect();
    if !planted(Bug::EarlyByTid) {
        early.reverse();
    }
    of(Verdict::ReadOnly).chain(early).chain(of(Verdict::Commit)).collect()
}
