//! The coordinator's state machine: begins rounds, writes the log, and is the barrier between the
//! phases (Styx §4.1, §6).
//!
//! A round is an epoch, or carries read-only requests only; which, shows when all sequencers have
//! said what they add. Execution does not wait for that, nor for the record to be durable.

mod io;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use io::{Action, Config, Input};

use super::EpochSummary;
use super::outbox::Outbox;
use crate::abort::{Abort, Code};
use crate::cluster::placement::Placement;
use crate::commit::validate::Bits;
use crate::ids::{Epoch, Round, SequencerCounter, Tid, Timestamp, WorkerId};
use crate::mutants::{Bug, planted};
use crate::sequence::catalog::{Catalog, Control};
use crate::sequence::record::{Chain, EpochRecord, Sequence};
use crate::sequence::route::sequencer_of;
use crate::sequence::transaction::Request;
use crate::snapshot::SnapshotHeader;
use crate::state::StateHash;
use crate::wire::fault::{PeerFault, why};
use crate::wire::message::{Begin, Counts, Finished, GraphEnd, Message, Node, Replayed};

/// The machine of the coordinator. `W` names whoever waits for a deployment.
#[derive(Debug)]
pub struct Coordinator<W> {
    config: Config,
    placement: Arc<Placement>,
    /// The placement that the generation began with; whether the log has been told.
    initial: Arc<Placement>,
    placed: bool,
    catalog: Catalog,
    controls: VecDeque<(Control, W)>,
    /// Somebody has something to do.
    woken: bool,
    round: Round,
    current: Option<Box<CurrentRound>>,
    /// The last epoch that ended.
    epoch: Epoch,
    chain: Chain,
    time: Timestamp,
    /// Where all sequencers' counters stand.
    counter: SequencerCounter,
    /// No TID of the log is higher. Not what the counter says: another membership's may stand above.
    highest: Tid,
    /// Transactions that were moved to the next epoch.
    carried: Vec<Tid>,
    /// A snapshot is to be taken at the end of the round.
    snapshot: bool,
    draining: bool,
    outbox: Outbox<Action<W>>,
}

/// What the coordinator waits for in a round. Execution begins with the round, so it may be over when
/// the cut is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// What all sequencers add.
    Cut,
    /// The end of all call graphs.
    Execute,
    /// The conflicts that workers see.
    Validate,
    /// The end of the round: commits, and the fallback.
    Finish,
}

/// A round under way.
#[derive(Debug)]
struct CurrentRound {
    begin: Begin,
    shares: BTreeMap<WorkerId, Vec<Arc<Request>>>,
    /// Whether it is known what all sequencers add.
    cut: bool,
    /// The record, if that is anything.
    record: Option<Arc<EpochRecord>>,
    executed: usize,
    ends: Vec<GraphEnd>,
    judged: usize,
    bits: BTreeMap<Tid, Bits>,
    finished: usize,
    hash: StateHash,
    carried: Vec<Tid>,
    counts: Counts,
}

impl<W> Coordinator<W> {
    /// The coordinator of the workers in `placement`, with an empty log.
    pub fn new(config: Config, placement: Arc<Placement>) -> Self {
        Coordinator {
            initial: placement.clone(),
            placed: false,
            placement,
            catalog: Catalog::default(),
            controls: VecDeque::new(),
            woken: false,
            round: Round(0),
            current: None,
            epoch: Epoch(0),
            chain: Chain::default(),
            time: Timestamp(0),
            counter: SequencerCounter(0),
            highest: Tid(0),
            carried: Vec::new(),
            snapshot: false,
            draining: false,
            outbox: Outbox::default(),
            config,
        }
    }

    /// Begins where a snapshot was taken, instead of with an empty log. `carried` are the
    /// transactions that were carried there, in TID order.
    pub fn restore(&mut self, frame: &SnapshotHeader, carried: Vec<Tid>) {
        (self.epoch, self.chain) = (frame.epoch, frame.chain);
        self.catalog = Catalog::restored(&frame.catalog);
        (self.highest, self.carried) = (frame.highest, carried);
        self.time = frame.time;
        self.counter = SequencerCounter::past(frame.highest, self.placement.workers());
    }

    /// What is deployed.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }
    /// The last epoch that ended, and the state hash chain after it.
    pub fn position(&self) -> (Epoch, Chain) {
        (self.epoch, self.chain)
    }
    /// Whether no round is under way.
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }
    /// What the round under way waits for, if there is one.
    pub fn stage(&self) -> Option<Stage> {
        let (round, all) = (self.current.as_deref()?, self.workers());
        Some(match round {
            CurrentRound { cut: false, .. } => Stage::Cut,
            CurrentRound { executed, .. } if *executed < all => Stage::Execute,
            CurrentRound { judged, .. } if *judged < all => Stage::Validate,
            _ => Stage::Finish,
        })
    }
    /// Whether a round would find anything to do.
    pub fn has_work(&self) -> bool {
        self.woken || !self.controls.is_empty() || !self.carried.is_empty()
    }
    /// Takes one input; pushes what is to be done.
    ///
    /// # Panics
    /// When the driver breaks the protocol, or replay meets another state than the log was written on.
    pub fn step(&mut self, input: Input<W>, actions: &mut Vec<Action<W>>) {
        match input {
            Input::Control { control, waiter } => match self.check(&control) {
                Ok(()) => self.controls.push_back((control, waiter)),
                Err(abort) => actions.push(Action::Controlled { waiter, result: Err(abort) }),
            },
            Input::Tick { now } => {
                if self.is_idle() && self.has_work() {
                    self.begin(now, actions);
                }
            }
            Input::Replay(record) => self.replay(record, actions),
            Input::Durable(epoch) => {
                actions.extend(self.outbox.release(epoch));
                self.tell_all(&Message::Durable(epoch), actions);
            }
            Input::Snapshot => {
                self.snapshot = true;
                if self.is_idle() {
                    self.snapshot(actions);
                }
            }
            Input::Drain => self.drain(actions),
            Input::Message { from, message } => self.on_message(from, message, actions),
        }
    }

    /// From now on no worker cuts anything new.
    fn drain(&mut self, actions: &mut Vec<Action<W>>) {
        self.draining = true;
        self.tell_all(&Message::Drain, actions);
    }

    /// Whether the generation was told to drain, and nothing is under way any more.
    pub fn is_drained(&self) -> bool {
        self.draining && self.is_idle() && !self.has_work()
    }

    /// Whether a change can be sequenced, and if not, why.
    fn check(&self, control: &Control) -> Result<(), Abort> {
        let Control::Place(next) = control else { return self.catalog.check(control) };
        let now = &self.placement;
        let follows = next.version() == now.version().next() && next.workers() == now.workers();
        if follows && next.owners() == now.owners() {
            return Ok(());
        }
        let why = if follows {
            "partitions cannot change their owner within a generation".to_owned()
        } else {
            format!("placement {} does not follow on placement {}", next.version(), now.version())
        };
        Err(Abort::new(Code::BadArguments, why))
    }

    fn apply(&mut self, control: &Control) {
        match control {
            Control::Place(placement) => self.placement = Arc::new(placement.clone()),
            control => drop(self.catalog.apply(control)),
        }
    }

    fn workers(&self) -> usize {
        usize::from(self.placement.workers())
    }

    fn tell_all(&self, message: &Message, actions: &mut Vec<Action<W>>) {
        let workers = (0..self.placement.workers()).map(WorkerId);
        actions.extend(workers.map(|to| Action::Send { to, message: message.clone() }));
    }

    /// The next message that workers get is that of the next round, so all note the same.
    fn snapshot(&mut self, actions: &mut Vec<Action<W>>) {
        self.snapshot = false;
        self.tell_all(&Message::Snapshot, actions);
        actions.push(Action::Snapshot(Box::new(SnapshotHeader {
            generation: self.config.generation,
            epoch: self.epoch,
            chain: self.chain,
            time: self.time,
            highest: self.highest,
            catalog: self.catalog.image(),
        })));
    }

    fn begin(&mut self, now: Timestamp, actions: &mut Vec<Action<W>>) {
        self.woken = false;
        let epoch = Epoch(self.epoch.0 + 1);
        // Logged time never runs backwards, whatever the clock does.
        let time = if planted(Bug::TimeBackwards) { now } else { self.time.max(now) };
        let (controls, waiters): (Vec<_>, Vec<_>) = self.controls.drain(..).unzip();
        for (control, waiter) in controls.iter().zip(waiters) {
            // Checked on arrival; an earlier change of the same epoch may have overtaken it.
            let result = self.check(control);
            if result.is_ok() {
                self.apply(control);
            }
            actions.extend(self.outbox.hold(epoch, Action::Controlled { waiter, result }));
        }
        let begin = self.next(epoch, time, controls);
        self.tell_all(&Message::Begin(begin.clone()), actions);
        self.current = Some(Box::new(CurrentRound::new(begin)));
    }

    fn next(&mut self, epoch: Epoch, time: Timestamp, controls: Vec<Control>) -> Begin {
        self.round.0 += 1;
        Begin { round: self.round, epoch, time, counter: self.counter, before: self.chain, controls, replay: None }
    }

    /// Does again what a record of the log says was done.
    fn replay(&mut self, record: Arc<EpochRecord>, actions: &mut Vec<Action<W>>) {
        assert!(self.is_idle(), "records are replayed one after the other");
        assert_eq!(record.epoch.0, self.epoch.0 + 1, "the log's epochs are contiguous");
        assert_eq!(
            record.before, self.chain,
            "state diverged from the log before epoch {}: the log was written by another engine, or a function is not deterministic",
            record.epoch
        );
        assert_eq!(
            record.carried, self.carried,
            "rescheduled transactions diverged from the log in epoch {}",
            record.epoch
        );
        let workers = self.placement.workers();
        if record.sequencers == workers {
            assert_eq!(record.counter, self.counter, "TIDs diverged from the log in epoch {}", record.epoch);
        }
        // Whatever placement the epoch was first run on: this generation has its own members.
        let controls: Vec<Control> =
            record.controls.iter().filter(|control| !matches!(control, Control::Place(_))).cloned().collect();
        for control in &controls {
            self.catalog.apply(control);
        }
        let begin = self.next(record.epoch, record.time, controls);
        let mut rooted: Vec<Vec<Replayed>> = vec![Vec::new(); self.workers()];
        let mut transactions: Vec<_> = record.transactions().collect();
        transactions.sort_unstable_by_key(|(tid, _)| *tid);
        for (tid, request) in transactions {
            let worker = sequencer_of(request, &self.config.layout, &self.catalog, &self.placement);
            rooted[usize::from(worker.0)].push(Replayed { tid, request: request.clone() });
        }
        for (worker, replayed) in rooted.into_iter().enumerate() {
            let to = WorkerId(worker as u16);
            let begin = Begin { replay: Some(replayed), ..begin.clone() };
            actions.push(Action::Send { to, message: Message::Begin(begin) });
        }
        let mut round = CurrentRound::new(begin);
        // Under another membership, counters go on where no TID has been.
        self.highest = self.highest.max(record.highest());
        self.counter = self.counter.max(SequencerCounter::past(self.highest, workers));
        (round.cut, round.record) = (true, Some(record));
        self.current = Some(Box::new(round));
    }

    fn on_message(&mut self, worker: WorkerId, message: Message, actions: &mut Vec<Action<W>>) {
        let all = self.workers();
        let round = match (&message, self.current.as_mut()) {
            (Message::WorkAvailable, _) => return self.woken = true,
            (_, Some(round)) => round,
            (_, None) => return fault(worker, &message, why::NO_ROUND, actions),
        };
        let of = match &message {
            Message::Share { round, .. } | Message::Executed { round, .. } | Message::Bits { round, .. } => *round,
            Message::Finished(finished) => finished.round,
            _ => return fault(worker, &message, why::NOT_FOR_THIS, actions),
        };
        if of != round.begin.round {
            return fault(worker, &message, why::ANOTHER_ROUND, actions);
        }
        if let Some(why) = round.refuses(worker, &message, all) {
            return fault(worker, &message, why, actions);
        }
        match message {
            Message::Share { requests, .. } => {
                round.shares.insert(worker, requests);
                if round.shares.len() == all {
                    self.gathered(actions);
                }
                self.settle(actions);
            }
            Message::Executed { ends, .. } => {
                round.executed += 1;
                round.ends.extend(ends);
                self.settle(actions);
            }
            Message::Bits { round: number, bits } => {
                round.judged += 1;
                for (tid, bits) in bits {
                    if planted(Bug::BitsNotMerged) {
                        round.bits.entry(tid).or_insert(bits);
                    } else {
                        round.bits.entry(tid).or_default().merge(bits);
                    }
                }
                if round.judged == all {
                    let bits = std::mem::take(&mut round.bits).into_iter().collect();
                    self.tell_all(&Message::Decide { round: number, bits }, actions);
                }
            }
            Message::Finished(finished) => self.finished(worker, finished, actions),
            _ => unreachable!("every other sort was refused above"),
        }
    }

    /// All sequencers have said what they add: the cut.
    fn gathered(&mut self, actions: &mut Vec<Action<W>>) {
        let round = self.current.as_mut().expect("a round is under way");
        let mut sequences: Vec<Sequence> =
            std::mem::take(&mut round.shares).into_values().map(|requests| Sequence { requests }).collect();
        let logged = !(round.begin.controls.is_empty() && self.carried.is_empty())
            || sequences.iter().any(|sequence| !sequence.requests.is_empty());
        round.cut = true;
        if !logged {
            return;
        }
        if planted(Bug::RecordIncomplete) {
            sequences.iter_mut().for_each(|sequence| drop(sequence.requests.pop()));
        }
        let carried = self.carried.clone();
        let mut controls = std::mem::take(&mut round.begin.controls);
        if !std::mem::replace(&mut self.placed, true) {
            // All members know it from the beginning of the generation; the log is told with its first
            // epoch, so that a generation which does nothing writes nothing.
            controls.insert(0, Control::Place((*self.initial).clone()));
        }
        let record = Arc::new(EpochRecord {
            epoch: round.begin.epoch,
            generation: self.config.generation,
            engine: self.config.engine,
            time: round.begin.time,
            sequencers: self.placement.workers(),
            counter: self.counter,
            carried,
            before: self.chain,
            controls,
            sequences,
        });
        if !planted(Bug::NotLevelled) {
            self.counter = record.counter_after();
        }
        self.highest = self.highest.max(record.highest());
        actions.push(Action::Append(record.clone()));
        round.record = Some(record);
    }

    /// If every graph is complete and the cut is known: on to validation.
    fn settle(&mut self, actions: &mut Vec<Action<W>>) {
        let all = self.workers();
        let round = self.current.as_mut().expect("a round is under way");
        if round.executed < all || !round.cut {
            return;
        }
        round.ends.sort_unstable_by_key(|end| end.tid);
        let (number, logged) = (round.begin.round, round.record.is_some());
        let ends = std::mem::take(&mut round.ends);
        self.tell_all(&Message::Settle { round: number, logged, ends }, actions);
    }

    fn finished(&mut self, worker: WorkerId, finished: Finished, actions: &mut Vec<Action<W>>) {
        let expected = self.catalog.hash();
        if finished.deployment != expected {
            actions.push(Action::Expel { worker, expected, found: finished.deployment });
        }
        let all = self.workers();
        let round = self.current.as_mut().expect("a round is under way");
        round.finished += 1;
        round.hash = StateHash(round.hash.0.wrapping_add(finished.hash.0));
        round.carried.extend(finished.carried);
        round.counts.add(finished.counts);
        self.woken |= finished.more;
        if round.finished < all {
            return;
        }
        let round = self.current.take().expect("a round is under way");
        if round.record.is_some() {
            (self.epoch, self.time) = (round.begin.epoch, round.begin.time);
            self.chain = self.chain.after(self.epoch, round.hash);
            self.carried = round.carried;
            self.carried.sort_unstable();
        }
        let (epoch, time, chain, counts) = (self.epoch, round.begin.time, self.chain, round.counts);
        actions.push(Action::Finished(EpochSummary { epoch, time, chain, counts, ..EpochSummary::default() }));
        if self.snapshot {
            self.snapshot(actions);
        }
    }
}

fn fault<W>(worker: WorkerId, message: &Message, why: &'static str, actions: &mut Vec<Action<W>>) {
    actions.push(Action::Fault(PeerFault { from: Node::Worker(worker), what: message.name(), why }));
}

impl CurrentRound {
    fn new(begin: Begin) -> Self {
        CurrentRound {
            begin,
            shares: BTreeMap::new(),
            record: None,
            cut: false,
            executed: 0,
            ends: Vec::new(),
            judged: 0,
            bits: BTreeMap::new(),
            finished: 0,
            hash: StateHash::default(),
            carried: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Why a message of this round cannot be applied now, if it cannot.
    fn refuses(&self, worker: WorkerId, message: &Message, all: usize) -> Option<&'static str> {
        let (fits, once) = match message {
            Message::Share { .. } => (!self.cut, !self.shares.contains_key(&worker)),
            Message::Executed { .. } => (self.executed < all, true),
            Message::Bits { .. } => (self.executed == all && self.cut, self.judged < all),
            Message::Finished(_) => (self.executed == all && self.cut, self.finished < all),
            _ => (false, true),
        };
        match (fits, once) {
            (false, _) => Some(why::ANOTHER_PHASE),
            (true, false) => Some(why::TWICE),
            (true, true) => None,
        }
    }
}
