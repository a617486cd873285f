//! Judges the log and what comes of it, epoch by epoch: TIDs, the claimed serial order against the
//! oracle, state, hashes, and what the reply table must hold.
//!
//! After a crash a new judge sees the whole log again; it must see what the one before it saw.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::entity::{Entity, Layout, Value};
use styx_protocol::ids::{Epoch, OperatorId, Tid, Timestamp};
use styx_protocol::machine::{Config, EpochSummary, Machine, Rank};
use styx_protocol::record::{Chain, EpochRecord};
use styx_protocol::state::State;
use styx_protocol::transaction::Request;

use super::oracle::{Oracle, Touch};
use super::remembered::Remembered;
use super::{Checked, Failure, ensure};

/// What a transaction came to.
pub type Outcome = Result<Value, Abort>;

/// A transaction of the log.
#[derive(Debug)]
pub struct Sequenced {
    /// What is asked.
    pub request: Arc<Request>,
    /// The logged time of its first epoch.
    pub time: Timestamp,
    /// Its first epoch.
    pub epoch: Epoch,
    /// Its end.
    pub end: Option<End>,
    /// What it touched, if histories are kept.
    pub touched: Vec<Touch>,
}

/// The end of a transaction.
#[derive(Debug)]
pub struct End {
    /// The epoch.
    pub epoch: Epoch,
    /// Its place in the epoch's claimed order, from 1.
    pub rank: usize,
    /// What it came to.
    pub outcome: Outcome,
}

/// What an epoch came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The claimed order.
    pub order: Vec<Tid>,
    /// The hash chain.
    pub chain: Chain,
}

/// One reading of the log.
#[derive(Debug)]
pub struct Judge {
    layout: Layout,
    oracle: Oracle,
    /// Replies that must be remembered.
    pub remembered: Remembered,
    /// All transactions.
    pub sequenced: BTreeMap<Tid, Sequenced>,
    /// Epochs that have ended.
    pub ended: Vec<Ended>,
    /// Ids of all deployments in the log, and their epochs.
    pub deployments: Vec<(String, Epoch)>,
    /// The epoch under way.
    record: Option<Arc<EpochRecord>>,
    live: Vec<Tid>,
    carried: Vec<Tid>,
    counter: u64,
    chain: Chain,
    time: Timestamp,
    /// What executions of the epoch came to, as the threads said.
    outcomes: BTreeMap<Tid, Outcome>,
}

impl Judge {
    /// Nothing has happened. With `notes`, what transactions touch is kept.
    pub fn new(config: &Config, notes: bool) -> Self {
        Judge {
            layout: config.layout,
            oracle: Oracle::new(config.layout.seed, notes),
            remembered: Remembered::new(config.retention),
            sequenced: BTreeMap::new(),
            ended: Vec::new(),
            deployments: Vec::new(),
            record: None,
            live: Vec::new(),
            carried: Vec::new(),
            counter: 0,
            chain: Chain::default(),
            time: Timestamp(0),
            outcomes: BTreeMap::new(),
        }
    }

    /// The last epoch that ended.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.ended.len() as u64)
    }

    /// The epoch that a transaction ended in; if it has not yet ended, the one under way.
    pub fn ends_in(&self, tid: Tid) -> Option<Epoch> {
        let sequenced = self.sequenced.get(&tid)?;
        match (&sequenced.end, &self.record) {
            (Some(end), _) => Some(end.epoch),
            (None, Some(record)) if self.live.contains(&tid) => Some(record.epoch),
            _ => None,
        }
    }

    /// What answers to queries rest on: the last epoch, or the one under way if it deploys something.
    pub fn query_base(&self) -> Epoch {
        match &self.record {
            Some(record) if !record.controls.is_empty() => record.epoch,
            _ => self.epoch(),
        }
    }

    /// An epoch is cut.
    ///
    /// # Errors
    /// The record is not what follows.
    pub fn cut(&mut self, record: &Arc<EpochRecord>) -> Checked {
        let log = "log";
        ensure(self.record.is_none(), log, || format!("epoch {} is cut inside another", record.epoch))?;
        ensure(record.epoch.0 == self.epoch().0 + 1, log, || format!("epoch {} after {}", record.epoch, self.epoch()))?;
        ensure(record.time >= self.time, log, || {
            format!("logged time runs backwards in epoch {}: {} after {}", record.epoch, record.time, self.time)
        })?;
        ensure(record.before == self.chain, log, || format!("epoch {} names another hash chain", record.epoch))?;
        ensure(record.counter == self.counter, log, || {
            format!("epoch {} starts at counter {}, not {}", record.epoch, record.counter, self.counter)
        })?;
        ensure(record.carried == self.carried, log, || {
            format!("epoch {} carries {:?}, not {:?}", record.epoch, record.carried, self.carried)
        })?;
        self.time = record.time;
        self.remembered.trim(record.time);
        for control in &record.controls {
            if let styx_protocol::catalog::Control::Deploy(deployment) = control {
                self.deployments.push((deployment.id.clone(), record.epoch));
            }
            self.oracle.control(control);
        }
        self.live = std::mem::take(&mut self.carried);
        let mut transactions: Vec<_> = record.transactions().collect();
        transactions.sort_unstable_by_key(|(tid, _)| *tid);
        for (tid, request) in transactions {
            if request.retained && !self.remembered.begin(request.id) {
                let twice = self.sequenced.iter().filter(|(_, known)| known.request.id == request.id);
                let twice: Vec<Tid> = twice.map(|(tid, _)| *tid).collect();
                let message = format!("request {} is sequenced again as {tid} after {twice:?}", request.id);
                return Err(Failure::new("applied twice", message).about(&twice));
            }
            let (time, epoch) = (record.time, record.epoch);
            let known = Sequenced { request: request.clone(), time, epoch, end: None, touched: Vec::new() };
            self.sequenced.insert(tid, known);
            self.live.push(tid);
        }
        self.counter = record.counter_after();
        self.record = Some(record.clone());
        Ok(())
    }

    /// An attempt of the epoch under way came to this.
    pub fn executed(&mut self, tid: Tid, outcome: &Outcome) {
        self.outcomes.insert(tid, outcome.clone());
    }

    /// What a query must come to that is executed now.
    ///
    /// # Errors
    /// The function aborts.
    pub fn query(&mut self, time: Timestamp, request: &Request) -> Result<u64, Abort> {
        self.oracle.transaction(Tid(0), time.0, true, request)
    }

    /// The epoch under way has ended.
    ///
    /// # Errors
    /// Its outcome is not that of the serial order that it claims.
    pub fn finished(&mut self, summary: &EpochSummary) -> Checked {
        let Some(record) = self.record.take() else {
            return ensure(summary.order.is_empty(), "log", || "an epoch without a record ran transactions".into());
        };
        let order: Vec<Tid> = summary.order.iter().map(|rank| rank.tid()).collect();
        let mut open: BTreeMap<Tid, ()> = self.live.iter().map(|tid| (*tid, ())).collect();
        if let Some(lowest) = self.live.first() {
            ensure(order.contains(lowest), "progress", || {
                format!("the lowest TID {lowest} does not end in epoch {}", record.epoch)
            })?;
        }
        for (at, tid) in order.iter().enumerate() {
            ensure(open.remove(tid).is_some(), "applied twice", || {
                format!("transaction {tid} ends in epoch {} and is not open", record.epoch)
            })?;
            self.end(*tid, at + 1, &record)?;
        }
        self.remember(summary);
        ensure(open.len() == summary.rescheduled, "log", || {
            format!(
                "epoch {} reschedules {} transactions and leaves {} open",
                record.epoch,
                summary.rescheduled,
                open.len()
            )
        })?;
        self.carried = open.into_keys().collect();
        self.chain = summary.chain;
        self.ended.push(Ended { order, chain: summary.chain });
        self.outcomes.clear();
        Ok(())
    }

    /// Runs a transaction where it claims to stand.
    fn end(&mut self, tid: Tid, rank: usize, record: &EpochRecord) -> Checked {
        let sequenced = self.sequenced.get_mut(&tid).expect("open transactions are sequenced");
        let expected = self.oracle.transaction(tid, sequenced.time.0, false, &sequenced.request);
        if let Some(touched) = &self.oracle.touched {
            sequenced.touched.clone_from(touched);
        }
        let outcome = self.outcomes.remove(&tid).ok_or_else(|| {
            Failure::new("serial order", format!("transaction {tid} ended and was not executed")).about(&[tid])
        })?;
        if !same(&expected, &outcome) {
            let message = format!(
                "transaction {tid} in epoch {} came to {:x?}; in the claimed order it comes to {expected:x?}",
                record.epoch,
                outcome
                    .as_ref()
                    .map(|value| value.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
            );
            return Err(Failure::new("serial order", message).about(&[tid]));
        }
        sequenced.end = Some(End { epoch: record.epoch, rank, outcome });
        Ok(())
    }

    /// Ended requests with a key, in the order in which their replies are kept: by TID, the
    /// lock-free phase first.
    fn remember(&mut self, summary: &EpochSummary) {
        let mut order: Vec<(bool, Tid)> =
            summary.order.iter().map(|rank| (matches!(rank, Rank::FellBack(_)), rank.tid())).collect();
        order.sort_unstable();
        for (_, tid) in order {
            let Sequenced { request, end: Some(end), .. } = &self.sequenced[&tid] else { continue };
            if request.retained {
                let bytes = end.outcome.as_ref().map_or_else(|abort| abort.message.len(), |value| value.len());
                self.remembered.end(request.id, self.time, bytes);
            }
        }
    }

    /// Compares a machine that has just ended an epoch with what it must be.
    ///
    /// # Errors
    /// It differs.
    pub fn compare<W>(&self, machine: &Machine<W>, thoroughly: bool) -> Checked {
        let (epoch, chain) = machine.position();
        ensure((epoch, chain) == (self.epoch(), self.chain), "state hash", || {
            format!("the machine stands at epoch {epoch} with {chain}, its log at {} with {}", self.epoch(), self.chain)
        })?;
        ensure(machine.remembered() == self.remembered.len(), "reply table", || {
            format!(
                "{} replies are remembered after epoch {epoch}, not {}",
                machine.remembered(),
                self.remembered.len()
            )
        })?;
        let state = machine.state();
        let before = self.ended.len().checked_sub(2).map_or(Chain::default(), |at| self.ended[at].chain);
        ensure(self.ended.is_empty() || chain == before.after(epoch, state.hash()), "state hash", || {
            format!("the chain after epoch {epoch} does not follow from the one before")
        })?;
        ensure(state.len() == self.oracle.len(), "state", || {
            format!("{} entities after epoch {epoch}, not {}", state.len(), self.oracle.len())
        })?;
        if !thoroughly {
            return Ok(());
        }
        let mut copy = State::new(self.layout);
        for (operator, entities) in &self.oracle.state {
            for (key, value) in entities {
                // Where an entity lives depends on whether its keys are composite.
                let entity = [false, true]
                    .map(|composite| Entity::new(&self.layout, OperatorId(*operator), composite, (*key).into()))
                    .into_iter()
                    .find(|entity| state.get(entity).is_some_and(|found| found[..] == value.to_le_bytes()));
                let Some(entity) = entity else {
                    let involved = self.touching(*operator, key);
                    let message = format!("operator {operator} key {key} is not {value:#x} after epoch {epoch}");
                    return Err(Failure::new("state", message).about(&involved));
                };
                copy.apply((entity, Some(value.to_le_bytes().into())));
            }
        }
        ensure(copy.hash() == state.hash(), "state hash", || {
            format!("the state after epoch {epoch} is right and its hash is not")
        })
    }

    /// The last transactions that wrote an entity, where histories are kept.
    fn touching(&self, operator: u32, key: &str) -> Vec<Tid> {
        let touches = |known: &Sequenced| {
            known.touched.iter().any(|touch| touch.operator == operator && touch.key == key && touch.wrote.is_some())
        };
        self.sequenced.iter().rev().filter(|(_, known)| touches(known)).map(|(tid, _)| *tid).take(3).collect()
    }
}

/// Whether an outcome is the expected one. What the host says of a refused call is its own affair;
/// what a function says when it aborts is not.
pub fn same(expected: &Result<u64, Abort>, outcome: &Outcome) -> bool {
    match (expected, outcome) {
        (Ok(expected), Ok(value)) => value[..] == expected.to_le_bytes(),
        (Err(expected), Err(abort)) => {
            expected.code == abort.code && (abort.code != Code::Aborted || expected.message == abort.message)
        }
        _ => false,
    }
}
