//! The round under way: its roots, and the stage that it is in. What is only valid in a stage lies in it.

use std::sync::Arc;

use styx_planted::{Bug, planted};

use super::super::egress::Egress;
use super::super::ground::Ground;
use super::super::ingress::Slot;
use super::super::long::ExecutedLong;
use super::super::{Action, ClientResponse};
use super::executing::Executing;
use super::falling_back::{Conflicting, FallingBack};
use super::roots::Roots;
use super::settled::{Foreign, Judged, Settled};
use super::show;
use crate::commit::replies::Reply;
use crate::commit::validate::{Bits, Kind, Verdict};
use crate::commit::watermark;
use crate::execute::task::RunId;
use crate::ids::{Epoch, RequestId, Round, Tid, Timestamp};
use crate::machine::{EpochSummary, Rank};
use crate::modes::Modes;
use crate::sequence::origin::Origin;
use crate::sequence::transaction::Request;
use crate::state::entity::Value;
use crate::wire::message::Message;

/// A worker's part of what a round begins with.
#[derive(Debug)]
pub(in super::super) struct Cut<W> {
    pub round: Round,
    pub epoch: Epoch,
    pub time: Timestamp,
    /// Transactions that are rooted here, in TID order.
    pub slots: Vec<Slot<W>>,
    pub queries: Vec<Slot<W>>,
    /// Long transactions that are rooted here, with what they did, in TID order.
    pub executed: Vec<ExecutedLong<W>>,
    /// Queries that begin to run beside the epochs.
    pub begun: Vec<RunId>,
    /// What answers to queries rest on.
    pub query_base: Epoch,
    /// Who used more fuel than this is noted; everybody is, if none.
    pub fuel_noted_above: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct CurrentRound<W> {
    pub round: Round,
    epoch: Epoch,
    time: Timestamp,
    query_base: Epoch,
    pub roots: Roots<W>,
    pub stage: Stage<W>,
    /// Long transactions that are rooted here, until the others are executed.
    pub executed: Vec<ExecutedLong<W>>,
    /// Transactions that move to the next epoch.
    rescheduled: Vec<Slot<W>>,
    /// Those that need more than an epoch has for them, queries among them.
    postponed: Vec<Slot<W>>,
    /// Those that need what has not arrived here, queries among them.
    lacking: Vec<Slot<W>>,
    /// Those that wait for the end of a long transaction.
    held: Vec<(Tid, Slot<W>)>,
    /// What requests used that is to be noted.
    fuel: Vec<(Arc<Request>, u64)>,
    fuel_noted_above: Option<u64>,
    /// Requests that ended, and the records that they came from.
    records: Vec<(RequestId, Origin)>,
    summary: EpochSummary,
    /// Whether the summary says in which order transactions are claimed to have run.
    claim_order: bool,
}

#[derive(Debug)]
pub(super) enum Stage<W> {
    Execute(Executing<W>),
    /// All that is rooted here is complete, and the coordinator knows.
    Executed {
        queries: Roots<W>,
    },
    /// All graphs are complete: who commits is being decided.
    Settled(Settled),
    /// Who has no conflict commits: these wait until all of that is in the state, in TID order.
    Committed(Vec<Conflicting>),
    FallBack(FallingBack),
    /// Nothing more is to be done.
    Over {
        /// Whether it was an epoch.
        logged: bool,
    },
}

/// A round that is over here.
#[derive(Debug)]
pub(in super::super) struct Ended<W> {
    pub round: Round,
    /// The epoch that it was, if it was logged.
    pub epoch: Option<Epoch>,
    pub summary: EpochSummary,
    /// Transactions that move to the next epoch.
    pub rescheduled: Vec<Slot<W>>,
    /// Those that need more than an epoch has for them, queries among them.
    pub postponed: Vec<Slot<W>>,
    /// Those that need what has not arrived here, queries among them.
    pub lacking: Vec<Slot<W>>,
    /// Those that wait for the end of a long transaction.
    pub held: Vec<(Tid, Slot<W>)>,
    /// What requests used that is to be noted.
    pub fuel: Vec<(Arc<Request>, u64)>,
}

impl<W> CurrentRound<W> {
    pub fn new(cut: Cut<W>, claim_order: bool) -> Self {
        let Cut { round, epoch, time, slots, queries, executed, begun: _, query_base, fuel_noted_above } = cut;
        CurrentRound {
            round,
            epoch,
            time,
            query_base,
            roots: Roots::new(slots),
            stage: Stage::Execute(Executing::new(Roots::new(queries))),
            executed,
            rescheduled: Vec::new(),
            postponed: Vec::new(),
            lacking: Vec::new(),
            held: Vec::new(),
            fuel: Vec::new(),
            fuel_noted_above,
            records: Vec::new(),
            summary: EpochSummary { epoch, time, ..EpochSummary::default() },
            claim_order,
        }
    }

    pub fn is_falling_back(&self) -> bool {
        matches!(self.stage, Stage::FallBack(_))
    }

    pub fn is_undecided(&self) -> bool {
        matches!(self.stage, Stage::Execute(_) | Stage::Executed { .. })
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// So many more of its roots needed other workers.
    pub fn count_shared(&mut self, roots: usize) {
        self.summary.shared += roots;
    }

    /// If all that is rooted here is complete, and was not before: what the coordinator is to know of it.
    pub fn complete(&mut self) -> Option<Message> {
        let Stage::Execute(executing) = &mut self.stage else { return None };
        let (queries, ends, logged) = executing.complete(&self.roots)?;
        if !self.executed.is_empty() {
            let executed = std::mem::take(&mut self.executed).into_iter();
            self.roots.join(executed.map(|long| (long.slot, long.execution)).collect());
        }
        self.stage = Stage::Executed { queries };
        Some(Message::Executed { round: self.round, ends, queries: logged })
    }

    /// Forgets replies that need not be remembered at the time of this round.
    pub fn forget_replies(&self, egress: &mut Egress<W>) {
        egress.trim(self.time);
    }

    /// Answers the queries of this round.
    pub fn answer(
        &mut self,
        mut queries: Roots<W>,
        ground: &mut Ground,
        egress: &mut Egress<W>,
        actions: &mut Vec<Action<W>>,
    ) {
        let epoch = self.query_base;
        let base = if planted(Bug::QueryAtOnce) { Epoch(0) } else { epoch };
        for at in 0..queries.len() {
            let (slot, execution) = queries.get_mut(at);
            if execution.postponed {
                let later = if execution.lacks { &mut self.lacking } else { &mut self.postponed };
                later.push(slot.take());
                continue;
            }
            self.summary.counts.queries += 1;
            ground.count(execution);
            let outcome = std::mem::replace(&mut execution.outcome, Ok(Value::default()));
            let reply = Reply { id: slot.transaction.request.id, tid: slot.transaction.tid, epoch, outcome };
            let waiter = slot.waiter.take().expect("somebody waits for a query");
            if self.fuel_noted_above.is_none_or(|above| execution.fuel > above) {
                self.fuel.push((slot.transaction.request.clone(), execution.fuel));
            }
            // Why it failed is among them.
            show(reply.tid, std::mem::take(&mut execution.logs), actions);
            egress.hold(base, ClientResponse::Reply { waiter, reply });
        }
    }

    /// Commits who has no conflict, as all workers see it; gives the others, in TID order.
    pub fn commit(
        &mut self,
        settled: Settled,
        merged: &[(Tid, Bits)],
        modes: Modes,
        ground: &mut Ground,
        egress: &mut Egress<W>,
        actions: &mut Vec<Action<W>>,
    ) -> Vec<Conflicting> {
        egress.reserve(self.epoch, self.roots.len());
        let mut conflicting = Vec::with_capacity(settled.conflicts(modes));
        let mut at = 0;
        settled.judge(merged, modes, |judged, foreign| {
            let Judged { tid, kind, verdict, holder, end } = judged;
            let conflicts = verdict == Verdict::Conflict;
            if at < self.roots.len() && self.roots.transaction(at).tid == tid {
                let execution = self.roots.execution(at);
                ground.count(execution);
                if execution.postponed || (conflicts && execution.long) {
                    self.postpone(at);
                } else if let Some(holder) = holder {
                    self.summary.counts.rescheduled += 1;
                    self.held.push((holder, self.roots.get_mut(at).0.take()));
                } else if conflicts {
                    let (slot, execution) = self.roots.get_mut(at);
                    if planted(Bug::LinesOfEveryAttempt) {
                        show(tid, execution.logs.clone(), actions);
                    }
                    let (transaction, root, end) = (slot.transaction.clone(), ground.me(), end.cloned());
                    let execution = Arc::new(std::mem::take(execution));
                    conflicting.push(Conflicting { at: Some(at), transaction, root, execution, end });
                } else {
                    self.committed(at, verdict, ground, egress, actions);
                }
                at += 1;
                return;
            }
            let Foreign { transaction, root, execution } = foreign.next();
            ground.count(&execution);
            if holder.is_some() || (conflicts && end.is_some_and(|end| end.long)) {
                // Its root moves it to a later epoch.
            } else if conflicts {
                let (execution, end) = (Arc::new(execution), end.cloned());
                conflicting.push(Conflicting { at: None, transaction, root, execution, end });
            } else {
                if kind != Kind::Aborted {
                    ground.write(execution.writes());
                }
                show(tid, execution.logs, actions);
            }
        });
        self.summary.order.sort_unstable();
        conflicting
    }

    /// A transaction ends in the lock-free phase.
    fn committed(
        &mut self,
        at: usize,
        verdict: Verdict,
        ground: &mut Ground,
        egress: &mut Egress<W>,
        actions: &mut Vec<Action<W>>,
    ) {
        if self.claim_order {
            let tid = self.roots.transaction(at).tid;
            self.summary.order.push(match verdict {
                Verdict::ReadOnly => Rank::ReadOnly(tid),
                Verdict::CommitEarly => Rank::Early(tid),
                Verdict::Commit | Verdict::Conflict => Rank::Commit(tid),
            });
        }
        let execution = self.roots.execution(at);
        ground.write(execution.writes());
        self.summary.counts.committed += u64::from(execution.outcome.is_ok());
        self.end(at, false, ground.is_shared(), egress, actions);
    }

    /// A transaction ends in the fallback, or moves to the next epoch.
    pub fn fell_back(&mut self, at: usize, shared: bool, egress: &mut Egress<W>, actions: &mut Vec<Action<W>>) {
        let execution = self.roots.execution(at);
        if execution.drifted {
            return self.reschedule(at);
        }
        if execution.postponed {
            return self.postpone(at);
        }
        self.summary.counts.fell_back += u64::from(execution.outcome.is_ok());
        if self.claim_order {
            self.summary.order.push(Rank::FellBack(self.roots.transaction(at).tid));
        }
        self.end(at, true, shared, egress, actions);
    }

    /// A transaction moves to the next epoch.
    pub fn reschedule(&mut self, at: usize) {
        self.summary.counts.rescheduled += 1;
        self.rescheduled.push(self.roots.get_mut(at).0.take());
    }

    /// A transaction needs more than an epoch has for it or what has not arrived here, or it was long and conflicts.
    fn postpone(&mut self, at: usize) {
        self.summary.counts.rescheduled += 1;
        let (slot, execution) = self.roots.get_mut(at);
        let later = if execution.lacks { &mut self.lacking } else { &mut self.postponed };
        later.push(slot.take());
    }

    fn end(&mut self, at: usize, fell_back: bool, shared: bool, egress: &mut Egress<W>, actions: &mut Vec<Action<W>>) {
        let epoch = self.epoch;
        let (slot, execution) = self.roots.get_mut(at);
        let outcome = std::mem::replace(&mut execution.outcome, Ok(Value::default()));
        self.summary.counts.aborted += u64::from(outcome.is_err());
        self.summary.counts.fuel += execution.fuel;
        // What ran beside the epochs cost this one nothing.
        if !execution.long && self.fuel_noted_above.is_none_or(|above| execution.fuel > above) {
            self.fuel.push((slot.transaction.request.clone(), execution.fuel));
        }
        let (tid, request) = (slot.transaction.tid, &slot.transaction.request);
        if self.claim_order {
            self.summary.outcomes.push((tid, outcome.clone()));
        }
        let reply = Reply { id: request.id, tid, epoch, outcome };
        if request.retained {
            egress.end(&reply, fell_back, self.time);
            self.records.extend(request.origin.as_deref().map(|origin| (request.id, *origin)));
        }
        show(tid, std::mem::take(&mut execution.logs), actions);
        if let Some(waiter) = slot.waiter.take() {
            let epoch = if shared && planted(Bug::DurableAssumed) { Epoch(0) } else { epoch };
            egress.hold(epoch, ClientResponse::Reply { waiter, reply });
        }
    }

    /// Requests that ended, and the records that they came from.
    pub fn records(&self) -> &[(RequestId, Origin)] {
        &self.records
    }

    /// Keeps in mind which records were executed: with the last of an epoch's writes, which may be applied in steps.
    /// Gives them.
    pub fn mark_records(&mut self, ground: &mut Ground) -> Vec<(RequestId, Origin)> {
        let records = std::mem::take(&mut self.records);
        if !records.is_empty() {
            let writes = watermark::writes(ground.state(), &records);
            ground.write(writes.into_iter());
        }
        records
    }

    /// If nothing more of it is to be done.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over { .. })
    }

    pub fn into_ended(self) -> Ended<W> {
        let epoch = matches!(self.stage, Stage::Over { logged: true }).then_some(self.epoch);
        let CurrentRound { round, summary, rescheduled, postponed, lacking, held, fuel, .. } = self;
        Ended { round, epoch, summary, rescheduled, postponed, lacking, held, fuel }
    }

    /// What holds between steps.
    pub fn invariants(&self) -> Result<(), &'static str> {
        if !self.roots.is_sorted() {
            return Err("transactions of a round stand in TID order");
        }
        match &self.stage {
            Stage::Execute(executing) => executing.invariants(&self.roots),
            Stage::FallBack(falling_back) => falling_back.invariants(),
            Stage::Executed { .. } | Stage::Settled(_) | Stage::Committed(_) => Ok(()),
            Stage::Over { .. } => Err("a round that is over is not under way"),
        }
    }
}
