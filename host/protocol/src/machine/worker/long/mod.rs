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

mod crowd;
mod readings;
mod reads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use self::crowd::Crowd;
use self::readings::Readings;
pub(crate) use self::reads::{Reads, Runner};
use super::Action;
use super::ground::Ground;
use super::ingress::Slot;
use crate::abort::{Abort, Code};
use crate::cluster::worker_set::WorkerSet;
use crate::execute::attempt::{Execution, Operation};
use crate::execute::task::{LongTask, RunId};
use crate::ids::{Epoch, Tid, WorkerId};
use crate::sequence::catalog::Catalog;
use crate::sequence::transaction::Request;
use crate::wire::fault::why;
use crate::wire::long::{LongAsk, LongMail};
use crate::wire::message::{Message, Node};

/// Times that a long transaction is begun again before it holds others back.
const RESTARTS_MAX: u32 = 2;

/// Most transactions that lack one entity after the other and are executed anew in an epoch.
const LACKING_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Longs<W> {
    /// Most that run at a time.
    running_max: usize,
    last_run: RunId,
    /// In the order in which they are to begin.
    waiting: VecDeque<Long<W>>,
    running: BTreeMap<RunId, Long<W>>,
    readings: Readings,
    /// Those that have ended and wait for an epoch, with the run that counts.
    ended: Vec<(RunId, Long<W>, Execution)>,
    /// Those that end with the next epoch, whatever they would have done.
    withdrawn: Vec<(Slot<W>, Execution)>,
    /// Transactions that wait for the end of a long one.
    held: Vec<Held<W>>,
    /// Transactions that lack one entity after the other of those that are on their way here.
    lacking: BTreeMap<Tid, Slot<W>>,
    /// Those of them that wait no more.
    released: Vec<Slot<W>>,
    /// Runs of which nobody wants to know any more.
    abandoned: Vec<RunId>,
    /// How often those were begun again that take part in the epoch under way.
    restarts: BTreeMap<Tid, u32>,
    withdrawing: bool,
    crowd: Crowd,
}

#[derive(Debug)]
struct Long<W> {
    slot: Slot<W>,
    /// Times that it was begun again.
    restarts: u32,
}

/// A transaction that waits for the end of a long one.
#[derive(Debug)]
struct Held<W> {
    holder: Tid,
    slot: Slot<W>,
    /// If it is long itself: times that it was begun again.
    restarts: Option<u32>,
}

/// What the next epoch takes.
pub(super) struct Ready<W> {
    /// Transactions to be executed, in TID order.
    pub slots: Vec<Slot<W>>,
    /// Transactions with what they did, in TID order.
    pub executed: Vec<ExecutedLong<W>>,
    /// Queries that begin with the round.
    pub queries: Vec<RunId>,
}

/// A long transaction with what it did.
#[derive(Debug)]
pub(super) struct ExecutedLong<W> {
    pub slot: Slot<W>,
    pub execution: Execution,
    pub run: RunId,
    /// Other workers that it has asked.
    pub workers: WorkerSet,
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
            readings: Readings::default(),
            ended: Vec::new(),
            withdrawn: Vec::new(),
            held: Vec::new(),
            lacking: BTreeMap::new(),
            released: Vec::new(),
            abandoned: Vec::new(),
            restarts: BTreeMap::new(),
            withdrawing: false,
            crowd: Crowd::default(),
        }
    }

    /// A transaction or query needs more than its slice; gives the client of a query that does not begin any more.
    pub fn postpone(&mut self, slot: Slot<W>) -> Option<W> {
        // One that comes back has met an older one in its epoch.
        let restarts = self.restarts.remove(&slot.transaction.tid).map_or(0, |restarts| restarts + 1);
        let long = Long { slot, restarts };
        if self.withdrawing {
            return self.withdraw_one(long);
        }
        self.waiting.push_back(long);
        None
    }

    /// A transaction would write what the long one `holder` has read.
    pub fn hold(&mut self, holder: Tid, slot: Slot<W>) {
        let restarts = self.restarts.remove(&slot.transaction.tid);
        self.held.push(Held { holder, slot, restarts });
    }

    /// A transaction has lacked one entity after the other, which are on their way here: it is executed anew when there is
    /// room for it.
    pub fn lack(&mut self, slot: Slot<W>) {
        self.lacking.insert(slot.transaction.tid, slot);
    }

    /// Transactions of the log that are here, queries not among them.
    pub fn transactions(&self) -> impl Iterator<Item = &Slot<W>> {
        let longs = self.waiting.iter().chain(self.running.values()).chain(self.ended.iter().map(|(_, long, _)| long));
        let longs = longs.map(|long| &long.slot).filter(|slot| !slot.transaction.query);
        let held = self.held.iter().map(|held| &held.slot).chain(self.lacking.values()).chain(&self.released);
        longs.chain(held).chain(self.withdrawn.iter().map(|(slot, _)| slot))
    }

    /// Whether so many of an app wait that no more of its functions are taken that use much.
    pub fn are_too_many(&mut self, app: &str, catalog: &Catalog) -> bool {
        let (waiting, held) = (&self.waiting, &self.held);
        let requests = waiting.iter().map(|long| &long.slot).chain(held.iter().map(|held| &held.slot));
        let requests = requests.map(|slot| &*slot.transaction.request);
        self.crowd.count(waiting.len() + held.len(), requests, catalog);
        self.crowd.is_full(app)
    }

    /// Whether an epoch would find something to do.
    pub fn has_ready(&self) -> bool {
        !(self.ended.is_empty() && self.released.is_empty() && self.withdrawn.is_empty())
            || (self.may_start() && self.waiting.iter().any(|long| long.slot.transaction.query))
    }

    /// Whether another run may begin.
    fn may_start(&self) -> bool {
        !self.withdrawing && self.running.len() + self.abandoned.len() < self.running_max
    }

    /// A run reads.
    pub fn ask(&mut self, run: RunId, operation: Operation, me: WorkerId) {
        let long = self.running.get(&run);
        let (tid, restarts) = long.map_or((Tid(0), 0), |long| (long.slot.transaction.tid, long.restarts));
        self.readings.ask(me, LongAsk { run, tid, holds: restarts >= RESTARTS_MAX, operation });
    }

    /// Answers what was asked.
    pub fn answer(&mut self, ground: &mut Ground, actions: &mut Vec<Action<W>>) {
        self.readings.answer(ground, actions);
    }

    /// Another worker tells something.
    ///
    /// # Errors
    /// An answer is of another sort than what was asked for.
    pub fn receive(
        &mut self,
        from: WorkerId,
        mail: LongMail,
        ground: &mut Ground,
        actions: &mut Vec<Action<W>>,
    ) -> Result<(), &'static str> {
        if !mail.answers.iter().all(|answer| self.readings.awaits(answer)) {
            return Err(why::NOT_ASKED);
        }
        let me = ground.me();
        mail.asks.into_iter().for_each(|ask| self.readings.ask(from, ask));
        mail.answers.into_iter().for_each(|answer| self.readings.answered(answer, actions));
        mail.broken.into_iter().for_each(|run| ground.reads_mut().break_one(Runner { root: me, run }));
        mail.over.into_iter().for_each(|run| ground.reads_mut().forget(Runner { root: from, run }));
        mail.released.into_iter().for_each(|holder| self.release(holder));
        Ok(())
    }

    /// Tells other workers what there is to tell.
    pub fn tell(&mut self, ground: &mut Ground, actions: &mut Vec<Action<W>>) {
        let me = ground.me();
        for Runner { root, run } in ground.reads_mut().take_broken(me) {
            self.readings.mail(root).broken.push(run);
        }
        let mails = self.readings.take_mails().into_iter();
        actions.extend(mails.map(|(to, mail)| Action::Send { to: Node::Worker(to), message: Message::Long(mail) }));
    }

    fn release(&mut self, holder: Tid) {
        for Held { slot, restarts, .. } in self.held.extract_if(.., |held| held.holder == holder) {
            match restarts {
                None => self.released.push(slot),
                Some(restarts) => self.waiting.push_back(Long { slot, restarts }),
            }
        }
    }

    /// A run has ended; gives a query with its answer.
    pub fn ended(&mut self, run: RunId, execution: Execution, ground: &mut Ground) -> Option<EndedQuery<W>> {
        if let Some(at) = self.abandoned.iter().position(|abandoned| *abandoned == run) {
            self.abandoned.swap_remove(at);
            return None;
        }
        let id = Runner { root: ground.me(), run };
        let mut long = self.running.remove(&run).expect("a run that has ended was begun");
        if !ground.reads().is_current(id) {
            self.is_over(run, ground);
            long.restarts += 1;
            self.waiting.push_front(long);
            return None;
        }
        if long.slot.transaction.query {
            let epoch = ground.reads_mut().end(id).0.expect("queries read what an epoch has left behind");
            self.readings.over(run);
            return Some(EndedQuery { slot: long.slot, epoch, execution });
        }
        self.ended.push((run, long, Execution { long: true, ..execution }));
        None
    }

    /// What an epoch takes that begins now, on what `base` has left behind.
    pub fn take_ready(&mut self, base: Epoch, ground: &mut Ground) -> Ready<W> {
        let none = |(slot, execution)| ExecutedLong { slot, execution, run: RunId(0), workers: WorkerSet::default() };
        let mut executed: Vec<_> = std::mem::take(&mut self.withdrawn).into_iter().map(none).collect();
        for (run, mut long, execution) in std::mem::take(&mut self.ended) {
            let id = Runner { root: ground.me(), run };
            if ground.reads_mut().end(id).1 {
                self.restarts.insert(long.slot.transaction.tid, long.restarts);
                let workers = self.readings.take_workers(run);
                executed.push(ExecutedLong { slot: long.slot, execution, run, workers });
            } else {
                self.readings.over(run);
                long.restarts += 1;
                self.waiting.push_front(long);
            }
        }
        let mut slots = std::mem::take(&mut self.released);
        slots.sort_unstable_by_key(|slot| slot.transaction.tid);
        executed.sort_unstable_by_key(|long| long.slot.transaction.tid);
        let mut queries = Vec::new();
        while self.may_start()
            && let Some(long) = self.next(true, ground)
        {
            let (run, me) = (self.next_run(), ground.me());
            ground.reads_mut().begin_query(Runner { root: me, run }, base);
            self.readings.note_all(run, ground.others());
            self.running.insert(run, long);
            queries.push(run);
        }
        Ready { slots, executed, queries }
    }

    /// All workers keep what a query is to read.
    pub fn begin_query(&self, run: RunId, ground: &Ground, actions: &mut Vec<Action<W>>) {
        // It may have been given up.
        if let Some(long) = self.running.get(&run) {
            actions.push(Action::StartLong(task(run, long, ground)));
        }
    }

    /// The epoch is over that took some: those that it has not given back have ended.
    pub fn epoch_over(&mut self, ground: &Ground) {
        // The oldest ends: what it lacks comes first.
        while self.released.len() < LACKING_MAX
            && let Some((_, slot)) = self.lacking.pop_first()
        {
            self.released.push(slot);
        }
        for (tid, restarts) in std::mem::take(&mut self.restarts) {
            self.release(tid);
            if restarts >= RESTARTS_MAX {
                ground.others().iter().for_each(|worker| self.readings.mail(worker).released.push(tid));
            }
        }
    }

    fn next_run(&mut self) -> RunId {
        self.last_run.0 += 1;
        self.last_run
    }

    /// A deployment or another placement takes effect: nothing that was executed before it counts, and nobody holds
    /// anybody back.
    pub fn begin_all_again(&mut self, ground: &mut Ground) {
        ground.reads_mut().break_all();
        let holders: BTreeSet<Tid> = self.held.iter().map(|held| held.holder).collect();
        holders.into_iter().for_each(|holder| self.release(holder));
    }

    /// Takes those transactions that go to another worker, which begins them again.
    pub fn depart(&mut self, departs: impl Fn(&Request) -> bool, ground: &mut Ground) -> Vec<Slot<W>> {
        let departs = |slot: &Slot<W>| !slot.transaction.query && departs(&slot.transaction.request);
        let running: Vec<RunId> =
            self.running.iter().filter(|(_, long)| departs(&long.slot)).map(|(run, _)| *run).collect();
        let mut departing = Vec::new();
        for run in running {
            departing.extend(self.running.remove(&run).map(|long| long.slot));
            self.is_over(run, ground);
            self.abandoned.push(run);
        }
        let ended: Vec<_> = self.ended.extract_if(.., |(_, long, _)| departs(&long.slot)).collect();
        for (run, long, _) in ended {
            departing.push(long.slot);
            self.is_over(run, ground);
        }
        let (leaving, staying) = std::mem::take(&mut self.waiting).into_iter().partition(|long| departs(&long.slot));
        self.waiting = staying;
        departing.extend::<Vec<_>>(VecDeque::into_iter(leaving).map(|long: Long<W>| long.slot).collect());
        departing.extend(self.held.extract_if(.., |held| departs(&held.slot)).map(|held| held.slot));
        departing.extend(self.lacking.extract_if(.., |_, slot| departs(slot)).map(|(_, slot)| slot));
        departing.extend(self.released.extract_if(.., |slot| departs(slot)));
        departing
    }

    /// Begins as many as may run, between two rounds. Apps take turns: whose fewest run.
    pub fn start(&mut self, ground: &mut Ground, actions: &mut Vec<Action<W>>) {
        while self.may_start()
            && let Some(long) = self.next(false, ground)
        {
            let run = self.next_run();
            let id = Runner { root: ground.me(), run };
            ground.reads_mut().begin_update(id, long.slot.transaction.tid, long.restarts >= RESTARTS_MAX);
            actions.push(Action::StartLong(task(run, &long, ground)));
            self.running.insert(run, long);
        }
    }

    /// Of those that wait, queries or not, one of the app of which the fewest run.
    fn next(&mut self, query: bool, ground: &Ground) -> Option<Long<W>> {
        let app = |long: &Long<W>| {
            let operator = ground.catalog().operator(long.slot.transaction.request.operator);
            operator.map(|operator| operator.app.clone())
        };
        let running: Vec<Option<Arc<str>>> = self.running.values().map(app).collect();
        let share = |long: &Long<W>| {
            let own = app(long);
            running.iter().filter(|app| **app == own).count()
        };
        // A query begins with a round: all workers must know from when on they keep what it reads.
        let here = |at: &usize| self.waiting[*at].slot.transaction.query == query;
        let next = (0..self.waiting.len()).filter(here).min_by_key(|at| share(&self.waiting[*at]))?;
        self.waiting.remove(next)
    }

    /// The generation is to end, and nobody would hear of the end of what has no key: it ends without effect. The others
    /// stay, for whoever comes next.
    pub fn withdraw(&mut self, ground: &mut Ground) -> Vec<W> {
        self.withdrawing = true;
        self.released.extend(self.held.drain(..).map(|held| held.slot));
        self.released.extend(std::mem::take(&mut self.lacking).into_values());
        for (run, long) in std::mem::take(&mut self.running) {
            self.is_over(run, ground);
            self.abandoned.push(run);
            self.waiting.push_back(long);
        }
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().filter_map(|long| self.withdraw_one(long)).collect()
    }

    /// A run does not count any more: nobody keeps in mind what it has read.
    fn is_over(&mut self, run: RunId, ground: &mut Ground) {
        let root = ground.me();
        ground.reads_mut().end(Runner { root, run });
        self.readings.over(run);
    }

    fn withdraw_one(&mut self, long: Long<W>) -> Option<W> {
        let Long { slot, restarts } = long;
        if slot.transaction.query {
            return slot.waiter;
        }
        if slot.transaction.request.retained || slot.waiter.is_none() {
            self.waiting.push_back(Long { slot, restarts });
            return None;
        }
        let why = "the call was long, and its server stops: nothing has happened, call again";
        let outcome = Err(Abort::new(Code::Interrupted, why));
        self.withdrawn.push((slot, Execution { outcome, long: true, ..Execution::default() }));
        None
    }

    /// Whether nothing is here, nor under way.
    pub fn is_empty(&self) -> bool {
        self.transactions().next().is_none() && self.running.is_empty() && self.waiting.is_empty()
    }

    /// What holds between steps.
    pub fn invariants(&self, ground: &Ground) -> Result<(), &'static str> {
        if self.running.len() + self.abandoned.len() > self.running_max {
            return Err("no more long transactions run than may");
        }
        let counts = |run| self.running.contains_key(&run) || self.ended.iter().any(|(ended, ..)| *ended == run);
        if !ground.reads().rooted(ground.me()).chain(self.readings.runs()).all(counts) {
            return Err("what a run has read is kept in mind as long as the run counts");
        }
        Ok(())
    }
}

fn task<W>(run: RunId, long: &Long<W>, ground: &Ground) -> LongTask {
    let (transaction, catalog) = (long.slot.transaction.clone(), ground.catalog().clone());
    LongTask { run, transaction, layout: ground.state().layout(), catalog }
}
