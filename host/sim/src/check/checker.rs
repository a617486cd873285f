//! Checker of the log and its outcomes, epoch by epoch: TIDs, the claimed serial order against the oracle, the contents
//! of the reply tables.
//!
//! An epoch is checked once, when it first ends. Whenever it is replayed - after a crash, under another membership, on
//! other threads - it must come to the same, reply by reply.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::catalog::{Catalog, Control};
use styx_protocol::entity::{Layout, Value};
use styx_protocol::ids::{Epoch, RequestId, SequencerCounter, Tid, Timestamp};
use styx_protocol::machine::{Config, EpochSummary, Rank};
use styx_protocol::placement::Placement;
use styx_protocol::record::{Chain, EpochRecord};
use styx_protocol::snapshot::SnapshotHeader;
use styx_protocol::transaction::Request;

use super::expected_replies::ExpectedReplies;
use super::oracle::{Oracle, Touch};
use super::snapshot::{Expectation, Snapshots};
use super::{Checked, Failure, ensure};

/// Outcome of a transaction.
pub type Outcome = Result<Value, Abort>;

/// A transaction of the log.
#[derive(Debug)]
pub struct Sequenced {
    /// The request.
    pub request: Arc<Request>,
    /// The logged time of its first epoch.
    pub time: Timestamp,
    /// Its first epoch.
    pub epoch: Epoch,
    /// Its end.
    pub end: Option<End>,
    /// Entities that it accessed, if histories are kept.
    pub touched: Vec<Touch>,
}

/// The end of a transaction.
#[derive(Debug)]
pub struct End {
    /// The epoch.
    pub epoch: Epoch,
    /// Its place in the epoch's claimed order, from 1.
    pub rank: usize,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Claimed result of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The claimed order.
    pub order: Vec<Rank>,
    /// The outcome of each transaction.
    pub outcomes: BTreeMap<Tid, Outcome>,
    /// Number of transactions that were moved to the next epoch.
    pub rescheduled: usize,
    /// The hash chain.
    pub chain: Chain,
}

impl Ended {
    /// Puts together the workers' summaries and the coordinator's chain.
    pub fn of(workers: impl IntoIterator<Item = EpochSummary>, chain: Chain) -> Self {
        let mut ended = Ended { chain, ..Ended::default() };
        for summary in workers {
            ended.order.extend(summary.order);
            ended.outcomes.extend(summary.outcomes);
            ended.rescheduled += summary.counts.rescheduled as usize;
        }
        ended.order.sort_unstable();
        ended
    }
}

/// The log as far as it is known, and everything that must follow from it.
#[derive(Debug)]
pub struct Checker {
    config: Config,
    /// Serial execution of all epochs that have ended.
    pub oracle: Oracle,
    /// Replies that must be remembered.
    pub remembered: ExpectedReplies,
    /// All transactions.
    pub sequenced: BTreeMap<Tid, Sequenced>,
    /// The transactions of each request.
    pub by_id: BTreeMap<RequestId, Vec<Tid>>,
    /// All records, that of the epoch under way included.
    pub records: Vec<Arc<EpochRecord>>,
    /// Epochs that have ended.
    pub ended: Vec<Ended>,
    /// Ids of all deployments in the log, and their epochs.
    pub deployments: Vec<(String, Epoch)>,
    /// Transactions of the epoch under way.
    live: Vec<Tid>,
    carried: Vec<Tid>,
    /// TIDs up to this one may have been given.
    highest: u64,
    /// Snapshots that were begun and written.
    pub(super) snapshots: Snapshots,
    /// Somebody else judges what transactions come to.
    lenient: bool,
    time: Timestamp,
}

impl Checker {
    /// Nothing has happened. With `notes`, what transactions touch is kept.
    pub fn new(config: &Config, placement: Arc<Placement>, notes: bool) -> Self {
        Checker {
            oracle: Oracle::new(config.layout.seed, notes),
            remembered: ExpectedReplies::new(config.retention, placement),
            config: *config,
            sequenced: BTreeMap::new(),
            by_id: BTreeMap::new(),
            records: Vec::new(),
            ended: Vec::new(),
            deployments: Vec::new(),
            live: Vec::new(),
            carried: Vec::new(),
            highest: 0,
            snapshots: Snapshots::default(),
            lenient: false,
            time: Timestamp(0),
        }
    }

    /// Leaves it to somebody else to judge what transactions come to.
    pub fn be_lenient(&mut self) {
        self.lenient = true;
    }

    /// Whether somebody else judges what transactions come to.
    pub fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Layout of keys over partitions.
    pub fn layout(&self) -> Layout {
        self.config.layout
    }

    /// The last epoch that ended.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.ended.len() as u64)
    }

    /// The hash chain after it.
    pub fn chain(&self) -> Chain {
        self.ended.last().map_or(Chain::default(), |ended| ended.chain)
    }

    /// The record of the epoch under way.
    fn current(&self) -> Option<&Arc<EpochRecord>> {
        self.records.get(self.ended.len())
    }

    /// The epoch that a transaction ended in; if it has not yet ended, the one under way.
    pub fn ends_in(&self, tid: Tid) -> Option<Epoch> {
        let sequenced = self.sequenced.get(&tid)?;
        match (&sequenced.end, self.current()) {
            (Some(end), _) => Some(end.epoch),
            (None, Some(record)) if self.live.contains(&tid) => Some(record.epoch),
            _ => None,
        }
    }

    /// The epoch that answers to queries rest on: the last one, or the one under way if it deploys something.
    pub fn query_base(&self) -> Epoch {
        match self.current() {
            Some(record) if record.controls.iter().any(Control::is_deployment) => record.epoch,
            _ => self.epoch(),
        }
    }

    /// The log was opened and read: behind the epochs that are trimmed, it is a beginning of what was appended.
    ///
    /// # Errors
    /// It is not.
    pub fn opened(&mut self, log: &[Arc<EpochRecord>], trimmed: Epoch) -> Checked {
        let first = trimmed.0 as usize;
        for (at, record) in (first..).zip(log) {
            ensure(self.records.get(at) == Some(record), "log", || {
                format!("the log holds {record:?}; appended was {:?}", self.records.get(at))
            })?;
        }
        let end = first + log.len();
        if end == self.records.len() {
            return Ok(());
        }
        ensure(end < self.records.len(), "log", || format!("the log is trimmed up to epoch {trimmed}"))?;
        // What was lost was told to nobody; it has not happened.
        let notes = self.oracle.touched.is_some();
        let mut checker = Checker::new(&self.config, self.remembered.placement().clone(), notes);
        (checker.lenient, checker.snapshots) = (self.lenient, std::mem::take(&mut self.snapshots));
        for (at, record) in self.records[..end].iter().enumerate() {
            checker.take(record, false)?;
            if let Some(ended) = self.ended.get(at) {
                checker.finished(Some(record.epoch), ended.clone())?;
            }
        }
        *self = checker;
        Ok(())
    }

    /// Another membership, which begins with a snapshot or with nothing: what its workers must remember.
    pub fn placed(&mut self, placement: Arc<Placement>, snapshot: Option<u64>) {
        let retention = self.config.retention;
        let expectation = snapshot.map(|number| self.snapshots.written(number));
        let first = expectation.map_or(0, |expectation| expectation.frame.epoch.0 as usize);
        self.remembered = match expectation {
            Some(expectation) => ExpectedReplies::restored(retention, placement, &expectation.remembered),
            None => ExpectedReplies::new(retention, placement),
        };
        for at in first..self.records.len() {
            self.remember_cut(at);
            if at < self.ended.len() {
                self.remember_ends(at);
            }
        }
    }

    /// An epoch is cut, for the first time or in a replay.
    ///
    /// # Errors
    /// The record is not what follows, or not what it was.
    pub fn cut(&mut self, record: &Arc<EpochRecord>) -> Checked {
        let log = "log";
        let at = (record.epoch.0 as usize).wrapping_sub(1);
        if let Some(known) = self.records.get(at) {
            return ensure(known == record, log, || format!("epoch {} is {record:?}, and was {known:?}", at + 1));
        }
        self.take(record, true)
    }

    /// Another epoch begins; under the membership that was asked to remember requests, if `fresh`.
    fn take(&mut self, record: &Arc<EpochRecord>, fresh: bool) -> Checked {
        let log = "log";
        let at = self.records.len();
        ensure(self.current().is_none(), log, || format!("epoch {} is cut inside another", record.epoch))?;
        ensure(record.epoch.0 == at as u64 + 1, log, || format!("epoch {} after {}", record.epoch, self.epoch()))?;
        ensure(record.time >= self.time, log, || {
            format!("logged time runs backwards in epoch {}: {} after {}", record.epoch, record.time, self.time)
        })?;
        ensure(record.before == self.chain(), log, || format!("epoch {} names another hash chain", record.epoch))?;
        // Sequencers are level: their counters stand where no TID has been, and no higher.
        let level = self.highest.div_ceil(u64::from(record.sequencers));
        ensure(record.counter == SequencerCounter(level), log, || {
            format!("epoch {} starts at counter {}, not {level}", record.epoch, record.counter)
        })?;
        ensure(record.carried == self.carried, log, || {
            format!("epoch {} carries {:?}, not {:?}", record.epoch, record.carried, self.carried)
        })?;
        self.time = record.time;
        for control in &record.controls {
            if let Control::Deploy(deployment) = control {
                self.deployments.push((deployment.id.clone(), record.epoch));
            }
            self.oracle.control(control);
        }
        self.live = std::mem::take(&mut self.carried);
        let mut transactions: Vec<_> = record.transactions().collect();
        transactions.sort_unstable_by_key(|(tid, _)| *tid);
        let mut again = Vec::new();
        for (tid, request) in transactions {
            let tids = self.by_id.entry(request.id).or_default();
            if fresh && request.retained && self.remembered.contains(request.id) {
                let message = format!("request {} is sequenced again as {tid} after {tids:?}", request.id);
                return Err(Failure::new("applied twice", message).about(tids));
            }
            tids.push(tid);
            let (time, epoch) = (record.time, record.epoch);
            let known = Sequenced { request: request.clone(), time, epoch, end: None, touched: Vec::new() };
            ensure(self.sequenced.insert(tid, known).is_none(), log, || format!("TID {tid} is given twice"))?;
            self.live.push(tid);
            if request.retained && again.contains(&request.id) {
                let message = format!("request {} is twice in epoch {}", request.id, record.epoch);
                return Err(Failure::new("applied twice", message).about(&[tid]));
            }
            again.push(request.id);
        }
        ensure(self.live.is_sorted(), log, || format!("new TIDs of epoch {} are not the highest", record.epoch))?;
        self.highest = self.highest.max(record.highest().0);
        self.records.push(record.clone());
        self.remember_cut(at);
        let live = self.live.iter().map(|tid| &*self.sequenced[tid].request);
        self.oracle.start_epoch(live);
        Ok(())
    }

    /// Expected outcome of a query that is executed now.
    ///
    /// # Errors
    /// The function aborts.
    pub fn query(&mut self, time: Timestamp, request: &Request) -> Result<u64, Abort> {
        self.oracle.transaction(Tid(0), time.0, true, request)
    }

    /// An epoch has ended, for the first time or in a replay; or a round that is none.
    ///
    /// # Errors
    /// Its outcome is not that of the serial order that it claims, or not what it was.
    pub fn finished(&mut self, epoch: Option<Epoch>, ended: Ended) -> Checked {
        let Some(epoch) = epoch else {
            return ensure(ended.order.is_empty(), "log", || "a round without a record ran transactions".into());
        };
        if let Some(first) = self.ended.get(epoch.0 as usize - 1) {
            return if self.lenient { Ok(()) } else { again(epoch, first, &ended) };
        }
        let at = self.ended.len();
        let Some(record) = self.current().filter(|record| record.epoch == epoch).cloned() else {
            return Err(Failure::new("log", format!("epoch {epoch} ends and was not cut")));
        };
        let mut open: BTreeMap<Tid, ()> = self.live.iter().map(|tid| (*tid, ())).collect();
        if let Some(lowest) = self.live.first() {
            ensure(ended.outcomes.contains_key(lowest), "progress", || {
                format!("the lowest TID {lowest} does not end in epoch {epoch}")
            })?;
        }
        for (at, rank) in ended.order.iter().enumerate() {
            let tid = rank.tid();
            ensure(open.remove(&tid).is_some(), "applied twice", || {
                format!("transaction {tid} ends in epoch {epoch} and is not open")
            })
            .map_err(|failure| failure.about(&[tid]))?;
            let Some(outcome) = ended.outcomes.get(&tid) else {
                let message = format!("transaction {tid} ended and came to nothing");
                return Err(Failure::new("serial order", message).about(&[tid]));
            };
            self.end(*rank, at + 1, &record, outcome)?;
        }
        ensure(open.len() == ended.rescheduled, "log", || {
            format!("epoch {epoch} reschedules {} transactions and leaves {} open", ended.rescheduled, open.len())
        })?;
        self.carried = open.into_keys().collect();
        self.ended.push(ended);
        self.remember_ends(at);
        Ok(())
    }

    /// Runs a transaction where it claims to stand.
    fn end(&mut self, rank: Rank, at: usize, record: &EpochRecord, outcome: &Outcome) -> Checked {
        let tid = rank.tid();
        let sequenced = self.sequenced.get_mut(&tid).expect("open transactions are sequenced");
        let (time, request) = (sequenced.time.0, &sequenced.request);
        let expected = match rank {
            Rank::FellBack(_) => self.oracle.transaction(tid, time, false, request),
            _ => self.oracle.lock_free(tid, time, request),
        };
        if let Some((first, second)) = self.oracle.overwritten.filter(|_| !self.lenient) {
            let message = format!("transactions {first} and {second} overwrite each other in epoch {}", record.epoch);
            return Err(Failure::new("lost update", message).about(&[first, second]));
        }
        if let Some(touched) = &self.oracle.touched {
            sequenced.touched.clone_from(touched);
        }
        if !same(&expected, outcome) && !self.lenient {
            let message = format!(
                "transaction {tid} in epoch {} came to {}; in the claimed order ({rank:?}) it comes to {expected:x?}",
                record.epoch,
                show(outcome)
            );
            return Err(Failure::new("serial order", message).about(&[tid]));
        }
        sequenced.end = Some(End { epoch: record.epoch, rank: at, outcome: outcome.clone() });
        Ok(())
    }

    fn remember_cut(&mut self, at: usize) {
        let record = &self.records[at];
        for (_, request) in record.transactions().filter(|(_, request)| request.retained) {
            self.remembered.begin(request.id);
        }
        self.remembered.trim(record.time);
    }

    /// Ended requests with a key, in the order in which their replies are kept: by TID, the
    /// lock-free phase first.
    fn remember_ends(&mut self, at: usize) {
        let mut order: Vec<(bool, Tid)> =
            self.ended[at].order.iter().map(|rank| (matches!(rank, Rank::FellBack(_)), rank.tid())).collect();
        order.sort_unstable();
        for (_, tid) in order {
            let Sequenced { request, end: Some(end), .. } = &self.sequenced[&tid] else { continue };
            if request.retained {
                let bytes = end.outcome.as_ref().map_or_else(|abort| abort.message.len(), |value| value.len());
                self.remembered.end(request.id, tid, self.records[at].time, bytes);
            }
        }
    }

    /// A snapshot is taken of the state of now.
    ///
    /// # Errors
    /// The coordinator's part of it is not what the log says.
    pub fn expectation(&mut self, frame: &SnapshotHeader) -> Checked {
        let snapshot = "snapshot";
        ensure(frame.epoch == self.epoch() && self.current().is_none(), snapshot, || {
            format!("a snapshot of epoch {} is taken after epoch {}", frame.epoch, self.epoch())
        })?;
        ensure(frame.chain == self.chain() || self.lenient, snapshot, || {
            format!("the snapshot of epoch {} names another hash chain", frame.epoch)
        })?;
        ensure((frame.time, frame.highest) == (self.time, Tid(self.highest)), snapshot, || {
            let (time, highest) = (self.time, self.highest);
            format!(
                "the snapshot of epoch {} is of time {} and TID {}, not {time} and {highest}",
                frame.epoch, frame.time, frame.highest
            )
        })?;
        let mut catalog = Catalog::default();
        self.records.iter().flat_map(|record| &record.controls).for_each(|control| drop(catalog.apply(control)));
        ensure(frame.catalog == catalog.image(), snapshot, || {
            format!("the snapshot of epoch {} has something else deployed than the log", frame.epoch)
        })?;
        self.snapshots.note(Expectation {
            frame: frame.clone(),
            entities: self.oracle.state.clone(),
            carried: self.carried.clone(),
            remembered: self.remembered.clone(),
        });
        Ok(())
    }

    /// The last transactions that wrote an entity, where histories are kept.
    pub fn touching(&self, operator: u32, key: &str) -> Vec<Tid> {
        let touches = |known: &Sequenced| {
            known.touched.iter().any(|touch| touch.operator == operator && touch.key == key && touch.wrote.is_some())
        };
        self.sequenced.iter().rev().filter(|(_, known)| touches(known)).map(|(tid, _)| *tid).take(3).collect()
    }
}

/// An epoch that has ended before ends again.
///
/// # Errors
/// It ends otherwise.
pub fn again(epoch: Epoch, first: &Ended, now: &Ended) -> Checked {
    if first == now {
        return Ok(());
    }
    let differs = first.outcomes.iter().find(|(tid, outcome)| now.outcomes.get(tid) != Some(outcome));
    let message = match differs {
        Some((tid, outcome)) => format!(
            "transaction {tid} in epoch {epoch} came to {}, and in a replay to {}",
            show(outcome),
            now.outcomes.get(tid).map_or("nothing".into(), show)
        ),
        None if first.order != now.order => {
            format!("epoch {epoch} claimed {:?}, and in a replay {:?}", first.order, now.order)
        }
        None if first.chain != now.chain => {
            format!("the chain after epoch {epoch} is {}, and in a replay {}", first.chain, now.chain)
        }
        None => format!("epoch {epoch} came to {first:?}, and in a replay to {now:?}"),
    };
    let tids: Vec<Tid> = differs.map(|(tid, _)| *tid).into_iter().collect();
    Err(Failure::new("replay", message).about(&tids))
}

/// An outcome for people.
pub fn show(outcome: &Outcome) -> String {
    match outcome {
        Ok(value) => format!("{:x}", value.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))),
        Err(abort) => format!("{abort:?}"),
    }
}

/// Whether an outcome is the expected one. Messages of the host about refused calls are not compared;
/// what a function says when it aborts is not.
pub fn same(expected: &Result<u64, Abort>, outcome: &Outcome) -> bool {
    match (expected, outcome) {
        (Ok(expected), Ok(value)) => value[..8] == expected.to_le_bytes(),
        (Err(expected), Err(abort)) => {
            expected.code == abort.code && (abort.code != Code::Aborted || expected.message == abort.message)
        }
        _ => false,
    }
}
