//! Checker of the log and its outcomes, epoch by epoch: TIDs, the claimed serial order against the oracle, the contents
//! of the reply tables.
//!
//! An epoch is checked once, when it first ends. Whenever it is replayed - after a crash, under another membership, on
//! other threads - it must come to the same, reply by reply.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::budget::RecordBudget;
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, RequestId, SequencerCounter, Tid, Timestamp};
use styx_protocol::machine::{Config, Rank};
use styx_protocol::placement::Placement;
use styx_protocol::quarantine::Quarantine;
use styx_protocol::record::{Chain, EpochRecord};
use styx_protocol::transaction::Request;

use super::conflicts::Conflicts;
use super::expected_replies::ExpectedReplies;
use super::lines::Lines;
use super::looks::{Look, Looks};
use super::oracle::{Footprint, Oracle};
use super::snapshot::Snapshots;
use super::waits::Waits;
use super::{Checked, Failure, ensure};

pub use styx_sim::check::ended::{End, Ended, Outcome, Sequenced, again, same, show};

/// The log as far as it is known, and everything that must follow from it.
#[derive(Debug)]
pub struct Checker {
    config: Config,
    repartitions: Vec<u32>,
    /// Serial execution of all epochs that have ended.
    pub oracle: Oracle,
    /// Replies that must be remembered.
    pub remembered: ExpectedReplies,
    pub sequenced: BTreeMap<Tid, Sequenced>,
    /// The transactions of each request.
    pub by_id: BTreeMap<RequestId, Vec<Tid>>,
    /// All records, that of the epoch under way included.
    pub records: Vec<Arc<EpochRecord>>,
    /// Epochs that have ended.
    pub ended: Vec<Ended>,
    /// Ids of all deployments in the log, and their epochs.
    pub deployments: Vec<(String, Epoch)>,
    /// What is deployed.
    pub(super) catalog: Catalog,
    /// Transactions of the epoch under way.
    live: Vec<Tid>,
    carried: Vec<Tid>,
    /// Log lines of guests.
    pub lines: Lines,
    /// How long transactions wait.
    pub waits: Waits,
    /// Some transactions run beside the epochs.
    has_long: bool,
    /// Of long transactions: how often they were begun.
    long: BTreeMap<Tid, Begins>,
    /// TIDs up to this one may have been given.
    highest: u64,
    /// Snapshots that were begun and written.
    pub(super) snapshots: Snapshots,
    looks: Looks,
    /// Somebody else judges what transactions come to.
    lenient: bool,
    time: Timestamp,
    /// Epochs that may have released something, and what was in quarantine still.
    released: BTreeMap<Epoch, Quarantine>,
}

impl Checker {
    /// Nothing has happened; there may be these numbers of partitions. With `notes`, what transactions touch is kept.
    pub fn new(config: &Config, repartitions: &[u32], placement: Arc<Placement>, notes: bool) -> Self {
        let mut oracle = Oracle::new(config.layout.seed, notes);
        oracle.changed = Some(Vec::new());
        Checker {
            oracle,
            remembered: ExpectedReplies::new(config.retention, config.layout, placement),
            config: *config,
            repartitions: repartitions.to_vec(),
            sequenced: BTreeMap::new(),
            by_id: BTreeMap::new(),
            records: Vec::new(),
            ended: Vec::new(),
            deployments: Vec::new(),
            catalog: Catalog::default(),
            live: Vec::new(),
            carried: Vec::new(),
            lines: Lines::default(),
            waits: Waits::default(),
            has_long: config.long_max > 0,
            long: BTreeMap::new(),
            highest: 0,
            snapshots: Snapshots::default(),
            looks: Looks::default(),
            lenient: false,
            time: Timestamp(0),
            released: BTreeMap::new(),
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

    /// Layouts of keys over partitions that there may be.
    pub fn layouts(&self) -> impl Iterator<Item = Layout> + '_ {
        self.repartitions.iter().map(|partitions| Layout { partitions: *partitions, ..self.config.layout })
    }

    /// Weight of the heaviest request that is not refused.
    pub fn request_max(&self) -> usize {
        RecordBudget::new(self.config.record_bytes_max).request_max()
    }

    /// The last epoch that ended.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.ended.len() as u64)
    }

    /// The hash chain after it.
    pub fn chain(&self) -> Chain {
        self.ended.last().map_or(Chain::default(), |ended| ended.chain)
    }

    /// Whether no epoch is under way.
    pub fn is_between_epochs(&self) -> bool {
        self.current().is_none()
    }

    /// The logged time.
    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    /// The highest TID that may have been given.
    pub(super) fn highest(&self) -> Tid {
        Tid(self.highest)
    }

    /// Transactions that are moved to the next epoch.
    pub fn carried(&self) -> &[Tid] {
        &self.carried
    }

    /// Whether some transactions take part in no epoch before they have run beside others.
    fn has_long(&self) -> bool {
        self.has_long
    }

    /// A process that is alone, or a generation, begins, and runs its long transactions anew.
    pub fn begins_again(&mut self) {
        self.long.clear();
    }

    /// A run of a long transaction begins.
    ///
    /// # Errors
    /// It was begun again more often than others had a right to overtake it: whoever is older, whoever came before it
    /// held others back, and deployments. Each older one may write what it has read, and be in its way when it has ended.
    pub fn long_begins(&mut self, tid: Tid) -> Checked {
        // A worker may be ahead of what is known of the epoch.
        let older = self.carried.iter().chain(&self.live).filter(|other| **other < tid).count();
        let begins = self.long.entry(tid).or_default();
        begins.older = begins.older.max(older);
        begins.count += 1;
        // Workers know of other owners, and begin anew, before the record that says so is appended.
        let is_once_more = begins.count > LONG_BEGINS + 2 * begins.older + begins.deployments;
        if is_once_more && std::mem::replace(&mut begins.is_ahead, true) {
            return Err(starved(tid));
        }
        Ok(())
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
        self.rewind(end)
    }

    /// Forgets epochs behind the first so many.
    fn rewind(&mut self, end: usize) -> Checked {
        // What was lost was told to nobody; it has not happened.
        let notes = self.oracle.touched.is_some();
        let mut checker = Checker::new(&self.config, &self.repartitions, self.remembered.placement().clone(), notes);
        (checker.lenient, checker.snapshots) = (self.lenient, std::mem::take(&mut self.snapshots));
        checker.looks = self.looks.reset();
        checker.snapshots.forget_after(Epoch(end as u64));
        for (at, record) in self.records[..end].iter().enumerate() {
            checker.take(record, false)?;
            if let Some(ended) = self.ended.get(at) {
                checker.finished(Some(record.epoch), ended.clone())?;
            }
        }
        *self = checker;
        Ok(())
    }

    /// Another membership, which begins with the snapshot of an epoch or with nothing: what its workers must remember.
    pub fn placed(&mut self, placement: Arc<Placement>, from: Epoch) {
        let retention = self.config.retention;
        let expectation = self.snapshots.of(from);
        let first = expectation.map_or(0, |_| from.0 as usize);
        self.remembered = match expectation {
            Some(expectation) => ExpectedReplies::restored(retention, placement, &expectation.remembered),
            None => ExpectedReplies::new(retention, self.config.layout, placement),
        };
        for at in first..self.records.len() {
            self.remember_release(self.records[at].epoch);
            self.remember_cut(at);
            if at < self.ended.len() {
                self.remember_ends(at);
            }
        }
    }

    /// Partitions have other owners, who begin the long transactions of them anew.
    pub fn moves(&mut self, placement: Arc<Placement>) {
        self.long.clear();
        self.remembered = ExpectedReplies::restored(self.config.retention, placement, &self.remembered);
    }

    /// Whether a record is in the log.
    pub fn knows(&self, record: &Arc<EpochRecord>) -> bool {
        self.records.get((record.epoch.0 as usize).wrapping_sub(1)) == Some(record)
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

    /// Whether this is the record of the epoch under way, or would be but for its outcome.
    pub fn is_cut(&self, record: &EpochRecord) -> bool {
        self.current().is_some_and(|cut| is_same_cut(cut, record))
    }

    /// The epoch under way has ended, and its record says what it came to.
    pub fn appends(&mut self, record: &Arc<EpochRecord>) -> Checked {
        ensure(self.is_cut(record) && record.outcome.is_some(), "log", || {
            format!("{record:?} is appended, and {:?} was cut", self.current())
        })?;
        let at = self.ended.len();
        self.records[at] = record.clone();
        Ok(())
    }

    /// The epoch under way will not end: it has not happened.
    ///
    /// # Errors
    /// The epochs before it are not what they were.
    pub fn abandon(&mut self) -> Checked {
        match self.current() {
            Some(cut) if cut.outcome.is_none() => self.rewind(self.ended.len()),
            _ => Ok(()),
        }
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
        let taken = &record.carried;
        let takes = taken.is_sorted() && taken.iter().all(|tid| self.carried.binary_search(tid).is_ok());
        ensure(takes && (self.has_long() || *taken == self.carried), log, || {
            format!("epoch {} takes {taken:?} of {:?}", record.epoch, self.carried)
        })?;
        self.time = record.time;
        for (tid, begins) in &mut self.long {
            if record.controls.is_empty() && begins.is_ahead {
                return Err(starved(*tid));
            }
            begins.deployments += usize::from(!record.controls.is_empty());
            begins.is_ahead = false;
        }
        let was_aside = !self.catalog.quarantine().is_empty();
        for control in &record.controls {
            if let Some(deployment) = control.deployment() {
                self.deployments.push((deployment.id.clone(), record.epoch));
            }
            self.oracle.control(control);
            // One that is refused changes nothing.
            let _ = self.catalog.apply(control);
        }
        if was_aside && record.controls.iter().any(Control::may_release) {
            self.released.insert(record.epoch, self.catalog.quarantine().clone());
            // Among its requests may be repetitions, which came when it had begun.
            self.remember_release(record.epoch);
        }
        self.carried.retain(|tid| taken.binary_search(tid).is_err());
        self.live = taken.clone();
        let mut transactions: Vec<_> = record.transactions().collect();
        transactions.sort_unstable_by_key(|(tid, _)| *tid);
        let mut again = Vec::new();
        for (tid, request) in transactions {
            let tids = self.by_id.entry(request.id).or_default();
            if fresh && request.retained && self.remembered.contains(request.id) {
                let message = format!("request {} is sequenced again as {tid} after {tids:?}", request.id);
                return Err(Failure::new("applied twice", message).about(tids));
            }
            let read_before = |tid: &Tid| {
                record_of(request).is_some() && record_of(&self.sequenced[tid].request) == record_of(request)
            };
            if tids.iter().any(read_before) {
                let message =
                    format!("the record of request {} is sequenced again as {tid} after {tids:?}", request.id);
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

    /// Somebody is shown the state.
    pub fn shown(&mut self, look: Look) -> Checked {
        if self.lenient { Ok(()) } else { self.looks.shown(look) }
    }

    /// Expected outcome of a query that is executed now.
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
            return ensure(self.lenient || first.chain == ended.chain, "replay", || {
                format!("the chain after epoch {epoch} was {}, and is {} in a replay", first.chain, ended.chain)
            });
        }
        let at = self.ended.len();
        let Some(record) = self.current().filter(|record| record.epoch == epoch).cloned() else {
            return Err(Failure::new("log", format!("epoch {epoch} ends and was not cut")));
        };
        self.check_conflicts(&ended)?;
        let mut open: BTreeMap<Tid, ()> = self.live.iter().map(|tid| (*tid, ())).collect();
        if let Some(lowest) = self.live.first().filter(|_| !self.has_long()) {
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
        self.carried.extend(open.into_keys());
        self.carried.sort_unstable();
        if !self.has_long() {
            self.waits.ended(epoch, &self.live, &self.carried)?;
        }
        let logged = record.outcome.as_ref().map(|outcome| outcome.chain);
        ensure(logged == Some(ended.chain), "log", || {
            format!("the record of epoch {epoch} says {logged:?}; it came to {}", ended.chain)
        })?;
        self.ended.push(ended);
        self.remember_ends(at);
        let changed = self.oracle.changed.as_mut().map(std::mem::take).unwrap_or_default();
        if self.lenient { Ok(()) } else { self.looks.ended(epoch, changed, &self.oracle.state) }
    }

    /// Checks that those were moved behind the others that conflict, on the state of the epoch's start.
    fn check_conflicts(&mut self, ended: &Ended) -> Checked {
        if self.lenient || (self.has_long() && ended.rescheduled > 0) {
            return Ok(());
        }
        if ended.rescheduled == 0 && !ended.order.iter().any(|rank| matches!(rank, Rank::FellBack(_))) {
            return Ok(());
        }
        let footprint = |tid: &Tid| {
            let known = &self.sequenced[tid];
            (*tid, self.oracle.footprint(*tid, known.time.0, &known.request))
        };
        let ran = |tid: &&Tid| !ended.outcomes.get(*tid).is_some_and(is_interrupted);
        let transactions: Vec<_> = self.live.iter().filter(ran).map(footprint).collect();
        // Each owner answers a scan of a long transaction with as much as the whole may return, and keeps all of that in
        // mind as read, though less of it is used.
        let is_wide = |(tid, footprint): &(Tid, Footprint)| self.long.contains_key(tid) && !footprint.ranges.is_empty();
        let wide = transactions.iter().any(is_wide);
        Conflicts::among(&transactions, self.config.modes.reordering).check(&transactions, ended, wide)
    }

    /// Runs a transaction where it claims to stand.
    fn end(&mut self, rank: Rank, at: usize, record: &EpochRecord, outcome: &Outcome) -> Checked {
        let tid = rank.tid();
        let sequenced = self.sequenced.get_mut(&tid).expect("open transactions are sequenced");
        let (time, request) = (sequenced.time.0, &sequenced.request);
        if is_interrupted(outcome) {
            sequenced.end = Some(End { epoch: record.epoch, rank: at, outcome: outcome.clone() });
            return Ok(());
        }
        let expected = match rank {
            Rank::FellBack(_) => self.oracle.transaction(tid, time, false, request),
            _ => self.oracle.lock_free(tid, time, request),
        };
        if let Some((first, second)) = self.oracle.overwritten.filter(|_| !self.lenient) {
            let message = format!("transactions {first} and {second} overwrite each other in epoch {}", record.epoch);
            return Err(Failure::new("lost update", message).about(&[first, second]));
        }
        self.lines.expect(tid, self.oracle.said);
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
        if let Some(origin) = &request.origin {
            self.oracle.records.executed(self.config.layout, request.id, origin);
        }
        sequenced.end = Some(End { epoch: record.epoch, rank: at, outcome: outcome.clone() });
        Ok(())
    }

    fn remember_release(&mut self, epoch: Epoch) {
        if let Some(quarantine) = self.released.get(&epoch) {
            self.remembered.release(quarantine);
        }
    }

    fn remember_cut(&mut self, at: usize) {
        let record = &self.records[at];
        for (_, request) in record.transactions().filter(|(_, request)| request.retained) {
            self.remembered.begin(request.id);
        }
        self.remembered.trim(record.time);
    }

    /// Ended requests with a key, in the order in which their replies are forgotten: by TID.
    fn remember_ends(&mut self, at: usize) {
        let mut order: Vec<Tid> = self.ended[at].order.iter().map(|rank| rank.tid()).collect();
        order.sort_unstable();
        for tid in order {
            let Sequenced { request, end: Some(end), .. } = &self.sequenced[&tid] else { continue };
            if request.retained {
                let EpochRecord { epoch, time, .. } = *self.records[at];
                self.remembered.end(request.id, epoch, tid, time, &end.outcome);
            }
        }
    }

    /// The last transactions that wrote an entity, where histories are kept.
    pub fn touching(&self, operator: u32, key: &str) -> Vec<Tid> {
        let touches = |known: &Sequenced| {
            known.touched.iter().any(|touch| touch.operator == operator && touch.key == key && touch.wrote.is_some())
        };
        self.sequenced.iter().rev().filter(|(_, known)| touches(known)).map(|(tid, _)| *tid).take(3).collect()
    }
}

/// Whether a transaction has ended without having run.
fn is_interrupted(outcome: &Outcome) -> bool {
    matches!(outcome, Err(abort) if abort.code == Code::Interrupted)
}

/// How often a long transaction was begun, and what for.
#[derive(Debug, Default)]
struct Begins {
    count: usize,
    /// The most transactions before it that had not ended.
    older: usize,
    /// Records of the log that deploy something or change owners.
    deployments: usize,
    /// It was begun once more than that allows, unless the next record is one more of these.
    is_ahead: bool,
}

fn starved(tid: Tid) -> Failure {
    let message = format!("long transaction {tid} is begun again and again: younger ones overtake it");
    Failure::new("starved", message).about(&[tid])
}

/// How often a long transaction is begun at most, but for what older ones write and for deployments.
const LONG_BEGINS: usize = 3;

/// Place of the record that a request comes from.
pub fn record_of(request: &Request) -> Option<(u128, u32, u64)> {
    request.origin.as_ref().map(|origin| (origin.topic, origin.partition, origin.offset))
}

/// Whether two records are the same but for what they came to.
fn is_same_cut(a: &EpochRecord, b: &EpochRecord) -> bool {
    let cut = |record: &EpochRecord| (record.epoch, record.generation, record.counter, record.sequences.clone());
    cut(a) == cut(b) && a.controls == b.controls && a.carried == b.carried && a.before == b.before
}
