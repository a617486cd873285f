//! Long transactions: those that need more fuel than an epoch has for one transaction.
//!
//! An epoch is a barrier, so its longest transaction is everybody's latency. Who uses up its slice takes no part in
//! the epoch and begins again beside the epochs, on a thread of its own. What it reads is asked of the worker, which
//! keeps in mind what it was: a write of a later epoch to something that it has read begins it again. So whenever an
//! epoch ends, all that it has read is committed; and when it has ended, it takes part in the next epoch with what it
//! did, as if it had been executed on that epoch's start, under its own, low TID. It never enters the fallback, where
//! its whole length would stand in the barrier.
//!
//! Whoever was begun again [`RESTARTS_MAX`] times holds younger transactions back that would write what it has read.
//! Only younger ones, so no two hold each other, and the oldest ends.
//!
//! A long query reads what was committed when it began: former values are kept for it, and it holds nobody.
//!
//! Nothing here is in the log but that the transaction is carried. Whoever recovers runs it anew.

mod reads;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub(crate) use self::reads::Reads;
use super::Action;
use super::ground::Ground;
use super::ingress::Slot;
use crate::abort::{Abort, Code};
use crate::execute::attempt::{Execution, Operation, RemoteResponse};
use crate::execute::task::{LongTask, RunId};
use crate::ids::{Epoch, Tid};

/// Times that a long transaction is begun again before it holds others back.
const RESTARTS_MAX: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct Longs<W> {
    /// Most that run at a time.
    running_max: usize,
    last_run: RunId,
    /// In the order in which they are to begin.
    waiting: VecDeque<Long<W>>,
    running: BTreeMap<RunId, Long<W>>,
    /// What runs want to read.
    asked: Vec<(RunId, Operation)>,
    /// Those that have ended and wait for an epoch, with the run that counts.
    ended: Vec<(RunId, Long<W>, Execution)>,
    /// Those that end with the next epoch, whatever they would have done.
    withdrawn: Vec<(Slot<W>, Execution)>,
    /// Transactions that wait for the end of a long one.
    held: Vec<(Tid, Slot<W>)>,
    /// Those of them that wait no more.
    released: Vec<Slot<W>>,
    /// Runs of which nobody wants to know any more.
    abandoned: Vec<RunId>,
    withdrawing: bool,
}

#[derive(Debug)]
struct Long<W> {
    slot: Slot<W>,
    /// Times that it was begun again.
    restarts: u32,
}

/// What the next epoch takes.
pub(super) struct Ready<W> {
    /// Transactions to be executed, in TID order.
    pub slots: Vec<Slot<W>>,
    /// Transactions with what they did.
    pub executed: Vec<(Slot<W>, Execution)>,
}

/// A query that has ended, and the epoch on which its answer rests.
pub(super) struct EndedQuery<W> {
    pub slot: Slot<W>,
    pub epoch: Epoch,
    pub execution: Execution,
}

impl<W> Longs<W> {
    pub fn new(running_max: usize) -> Self {
        Longs {
            running_max,
            last_run: RunId(0),
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            asked: Vec::new(),
            ended: Vec::new(),
            withdrawn: Vec::new(),
            held: Vec::new(),
            released: Vec::new(),
            abandoned: Vec::new(),
            withdrawing: false,
        }
    }

    /// A transaction or query needs more than its slice.
    pub fn postpone(&mut self, slot: Slot<W>) {
        let long = Long { slot, restarts: 0 };
        if self.withdrawing {
            self.withdraw_one(long);
        } else {
            self.waiting.push_back(long);
        }
    }

    /// A transaction would write what the long one `holder` has read.
    pub fn hold(&mut self, holder: Tid, slot: Slot<W>) {
        self.held.push((holder, slot));
    }

    /// Transactions of the log that are here, queries not among them.
    pub fn transactions(&self) -> impl Iterator<Item = &Slot<W>> {
        let longs = self.waiting.iter().chain(self.running.values()).chain(self.ended.iter().map(|(_, long, _)| long));
        let longs = longs.map(|long| &long.slot).filter(|slot| !slot.transaction.query);
        let held = self.held.iter().map(|(_, slot)| slot).chain(&self.released);
        longs.chain(held).chain(self.withdrawn.iter().map(|(slot, _)| slot))
    }

    /// Whether an epoch would find something to do.
    pub fn has_ready(&self) -> bool {
        !(self.ended.is_empty() && self.released.is_empty() && self.withdrawn.is_empty())
    }

    /// A run reads.
    pub fn ask(&mut self, run: RunId, operation: Operation) {
        self.asked.push((run, operation));
    }

    /// Answers what was asked.
    pub fn answer(&mut self, ground: &mut Ground, actions: &mut Vec<Action<W>>) {
        for (run, operation) in self.asked.drain(..) {
            let over = || RemoteResponse::Failed(Abort::new(Code::Aborted, "the run does not count any more"));
            let answer = ground.read_for(run, operation).unwrap_or_else(over);
            actions.push(Action::LongRead { run, answer });
        }
    }

    /// A run has ended; gives a query with its answer.
    pub fn ended(&mut self, run: RunId, execution: Execution, ground: &mut Ground) -> Option<EndedQuery<W>> {
        if let Some(at) = self.abandoned.iter().position(|abandoned| *abandoned == run) {
            self.abandoned.swap_remove(at);
            return None;
        }
        let mut long = self.running.remove(&run).expect("a run that has ended was begun");
        if !ground.reads().is_current(run) {
            ground.reads_mut().end(run);
            long.restarts += 1;
            self.waiting.push_front(long);
            return None;
        }
        if long.slot.transaction.query {
            let epoch = ground.reads_mut().end(run).0.expect("queries read what an epoch has left behind");
            return Some(EndedQuery { slot: long.slot, epoch, execution });
        }
        self.ended.push((run, long, Execution { long: true, ..execution }));
        None
    }

    /// What an epoch takes that begins now.
    pub fn take_ready(&mut self, ground: &mut Ground) -> Ready<W> {
        let mut executed = std::mem::take(&mut self.withdrawn);
        for (run, mut long, execution) in std::mem::take(&mut self.ended) {
            if ground.reads_mut().end(run).1 {
                executed.push((long.slot, execution));
            } else {
                long.restarts += 1;
                self.waiting.push_front(long);
            }
        }
        let ended = |holder: &Tid| executed.iter().any(|(slot, _)| slot.transaction.tid == *holder);
        let (released, held) = std::mem::take(&mut self.held).into_iter().partition(|(holder, _)| ended(holder));
        self.held = held;
        let released: Vec<(Tid, Slot<W>)> = released;
        let mut slots = std::mem::take(&mut self.released);
        slots.extend(released.into_iter().map(|(_, slot)| slot));
        slots.sort_unstable_by_key(|slot| slot.transaction.tid);
        executed.sort_unstable_by_key(|(slot, _)| slot.transaction.tid);
        Ready { slots, executed }
    }

    /// A deployment takes effect: nothing that was executed before it counts.
    pub fn redeploy(&mut self, ground: &mut Ground) {
        ground.reads_mut().break_all();
    }

    /// Begins as many as may run, between two rounds. Apps take turns: whose fewest run.
    pub fn start(&mut self, epoch: Epoch, ground: &mut Ground, actions: &mut Vec<Action<W>>) {
        while !self.withdrawing
            && self.running.len() + self.abandoned.len() < self.running_max
            && let Some(long) = self.next(ground)
        {
            self.last_run.0 += 1;
            let (run, transaction) = (self.last_run, long.slot.transaction.clone());
            if transaction.query {
                ground.reads_mut().begin_query(run, epoch);
            } else {
                ground.reads_mut().begin_update(run, transaction.tid, long.restarts >= RESTARTS_MAX);
            }
            let (layout, catalog) = (ground.state().layout(), ground.catalog().clone());
            actions.push(Action::StartLong(LongTask { run, transaction, layout, catalog }));
            self.running.insert(run, long);
        }
    }

    fn next(&mut self, ground: &Ground) -> Option<Long<W>> {
        let app = |long: &Long<W>| {
            let operator = ground.catalog().operator(long.slot.transaction.request.operator);
            operator.map(|operator| operator.app.clone())
        };
        let running: Vec<Option<Arc<str>>> = self.running.values().map(app).collect();
        let share = |long: &Long<W>| {
            let own = app(long);
            running.iter().filter(|app| **app == own).count()
        };
        let next = (0..self.waiting.len()).min_by_key(|at| share(&self.waiting[*at]))?;
        self.waiting.remove(next)
    }

    /// The generation is to end, and nobody would hear of the end of what has no key: it ends without effect. The others
    /// stay, for whoever comes next.
    pub fn withdraw(&mut self, ground: &mut Ground) -> Vec<W> {
        self.withdrawing = true;
        self.released.extend(self.held.drain(..).map(|(_, slot)| slot));
        let running = std::mem::take(&mut self.running);
        for (run, long) in running {
            ground.reads_mut().end(run);
            self.abandoned.push(run);
            self.waiting.push_back(long);
        }
        let mut queries = Vec::new();
        for long in std::mem::take(&mut self.waiting) {
            if long.slot.transaction.query {
                queries.extend(long.slot.waiter);
            } else {
                self.withdraw_one(long);
            }
        }
        queries
    }

    fn withdraw_one(&mut self, long: Long<W>) {
        let Long { slot, restarts } = long;
        if slot.transaction.request.retained || slot.waiter.is_none() {
            self.waiting.push_back(Long { slot, restarts });
            return;
        }
        let why = "the call was long, and its server stops: nothing has happened, call again";
        let outcome = Err(Abort::new(Code::Interrupted, why));
        self.withdrawn.push((slot, Execution { outcome, long: true, ..Execution::default() }));
    }

    /// Whether nothing is here, nor under way.
    pub fn is_empty(&self) -> bool {
        self.transactions().next().is_none() && self.running.is_empty() && self.waiting.is_empty()
    }

    /// What holds between steps.
    pub fn invariants(&self) -> Result<(), &'static str> {
        if self.running.len() + self.abandoned.len() > self.running_max {
            return Err("no more long transactions run than may");
        }
        Ok(())
    }
}
