//! The round under way: what the coordinator has heard of it, and what it waits for.
//!
//! Execution begins with the round, so it may be over when the cut is known.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_planted::{Bug, planted};

use crate::cluster::worker_set::WorkerSet;
use crate::commit::validate::{Bits, Kind};
use crate::execute::task::GraphId;
use crate::ids::{Epoch, Round, Tid, Timestamp, WorkerId};
use crate::sequence::budget::RecordBudget;
use crate::sequence::control::Control;
use crate::sequence::outcome::EpochChanges;
use crate::sequence::record::{Chain, EpochRecord, Sequence};
use crate::sequence::transaction::Request;
use crate::state::StateHash;
use crate::wire::fault::why;
use crate::wire::message::{Begin, Counts, Finished, GraphEnd, QueryEnd};

/// What the coordinator waits for in a round.
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

#[derive(Debug)]
pub(super) struct CurrentRound {
    begin: Begin,
    workers: usize,
    cut: Cut,
    barrier: Barrier,
}

/// What all sequencers add.
#[derive(Debug)]
enum Cut {
    Gathering(Gathering),
    /// The record without its outcome; none if nothing is logged.
    Known(Option<Arc<EpochRecord>>),
    /// A record of the log; with the chain that it must come to, if that is known.
    Logged(Option<Chain>),
}

/// What sequencers have said so far.
#[derive(Debug, Default)]
struct Gathering {
    requests: BTreeMap<WorkerId, Vec<Arc<Request>>>,
    /// Transactions of earlier epochs that it takes.
    carried: Vec<Tid>,
}

/// What all sequencers have said.
#[derive(Debug)]
pub(super) struct Gathered {
    pub sequences: Vec<Sequence>,
    /// Transactions of earlier epochs that it takes, in TID order.
    pub carried: Vec<Tid>,
}

/// What all workers are to say next, and what those say that have.
#[derive(Debug)]
enum Barrier {
    /// Every graph that is rooted at the worker is complete; those of several workers, and queries of which others than their
    /// roots have lines to show.
    Execute { heard: WorkerSet, ends: BTreeMap<Tid, GraphEnd>, queries: BTreeMap<GraphId, QueryEnd> },
    /// Dependencies, of all graphs of several workers.
    Validate { heard: WorkerSet, bits: BTreeMap<Tid, Dependencies> },
    /// The end of the round.
    Finish { heard: WorkerSet, outcome: Outcome },
}

/// What each worker is told, by its number.
type EachWorker<T> = Vec<Vec<T>>;

/// What a worker is told when every graph is complete.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    pub ends: Vec<GraphEnd>,
    /// Queries of which it has lines to show, and the attempts that count.
    pub queries: Vec<(GraphId, u32)>,
}

/// Of a graph of several workers: what it came to, who took part, and what it depends on.
#[derive(Debug)]
struct Dependencies {
    kind: Kind,
    workers: WorkerSet,
    bits: Bits,
}

/// What a round came to on all workers.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub hash: StateHash,
    pub changes: EpochChanges,
    /// Transactions that move to the next epoch.
    pub carried: Vec<Tid>,
    pub counts: Counts,
}

/// What a round that is over has to do with the log.
#[derive(Debug)]
pub(super) enum Logged {
    Nothing,
    /// Its record, without its outcome, is not there yet.
    New(EpochRecord),
    /// Its record is there, with the chain that it comes to, unless that is not known.
    Before(Option<Chain>),
}

impl CurrentRound {
    /// A round of so many workers.
    pub fn new(begin: Begin, workers: usize) -> Self {
        let (ends, queries) = (BTreeMap::new(), BTreeMap::new());
        let barrier = Barrier::Execute { heard: WorkerSet::default(), ends, queries };
        CurrentRound { begin, workers, cut: Cut::Gathering(Gathering::default()), barrier }
    }

    /// A round whose cut the log knows, and that is executed again.
    pub fn replay(begin: Begin, workers: usize) -> Self {
        CurrentRound { cut: Cut::Logged(None), ..CurrentRound::new(begin, workers) }
    }

    /// A round that the log knows all of: its changes are applied, and come to `chain`.
    pub fn apply(begin: Begin, workers: usize, chain: Chain) -> Self {
        let barrier = Barrier::Finish { heard: WorkerSet::default(), outcome: Outcome::default() };
        CurrentRound { cut: Cut::Logged(Some(chain)), barrier, ..CurrentRound::new(begin, workers) }
    }

    pub fn number(&self) -> Round {
        self.begin.round
    }

    pub fn epoch(&self) -> Epoch {
        self.begin.epoch
    }

    pub fn time(&self) -> Timestamp {
        self.begin.time
    }

    /// Whether it is known to be an epoch.
    pub fn is_logged(&self) -> bool {
        matches!(self.cut, Cut::Known(Some(_)) | Cut::Logged(_))
    }

    /// What is new in it, without what it comes to, if it is known to be an epoch and is not one of the log.
    pub fn record(&self) -> Option<&Arc<EpochRecord>> {
        if let Cut::Known(record) = &self.cut { record.as_ref() } else { None }
    }

    pub fn stage(&self) -> Stage {
        match (&self.cut, &self.barrier) {
            (Cut::Gathering(_), _) => Stage::Cut,
            (_, Barrier::Execute { .. }) => Stage::Execute,
            (_, Barrier::Validate { .. }) => Stage::Validate,
            (_, Barrier::Finish { .. }) => Stage::Finish,
        }
    }

    /// A sequencer says what it adds, and what of earlier epochs it takes; gives all of it when all have.
    ///
    /// # Errors
    /// It has said so, adds more than it may, or what it adds is known from the log.
    pub fn share(
        &mut self,
        worker: WorkerId,
        requests: Vec<Arc<Request>>,
        carried: Vec<Tid>,
    ) -> Result<Option<Gathered>, &'static str> {
        let Cut::Gathering(gathering) = &mut self.cut else { return Err(why::ANOTHER_PHASE) };
        if gathering.requests.contains_key(&worker) {
            return Err(why::TWICE);
        }
        let most = RecordBudget::share(self.begin.room as usize, self.workers, self.begin.round, worker);
        if requests.iter().map(|request| request.weight()).sum::<usize>() > most {
            return Err(why::TOO_MUCH);
        }
        gathering.requests.insert(worker, requests);
        gathering.carried.extend(carried);
        if gathering.requests.len() < self.workers {
            return Ok(None);
        }
        let Gathering { requests, mut carried } = std::mem::take(gathering);
        carried.sort_unstable();
        let sequences = requests.into_values().map(|requests| Sequence { requests }).collect();
        Ok(Some(Gathered { sequences, carried }))
    }

    /// What is left of it when it is over.
    pub fn into_record(self) -> Logged {
        match self.cut {
            Cut::Known(Some(record)) => Logged::New(Arc::unwrap_or_clone(record)),
            Cut::Logged(chain) => Logged::Before(chain),
            Cut::Known(None) | Cut::Gathering(_) => Logged::Nothing,
        }
    }

    /// The changes that the record is to hold.
    pub fn take_controls(&mut self) -> Vec<Control> {
        std::mem::take(&mut self.begin.controls)
    }

    pub fn has_controls(&self) -> bool {
        !self.begin.controls.is_empty()
    }

    /// The cut is known.
    pub fn set_cut(&mut self, record: Option<Arc<EpochRecord>>) {
        self.cut = Cut::Known(record);
    }

    /// Everything that is rooted at a worker is complete.
    ///
    /// # Errors
    /// It has said so, or a graph has workers that there are not, or not this one, or a query is not its own.
    pub fn executed(
        &mut self,
        worker: WorkerId,
        new: Vec<GraphEnd>,
        new_queries: Vec<QueryEnd>,
    ) -> Result<(), &'static str> {
        let Barrier::Execute { heard, ends, queries } = &mut self.barrier else { return Err(why::ANOTHER_PHASE) };
        let fits = |end: &GraphEnd| end.workers.is_within(self.workers as u16) && end.workers.contains(worker);
        let is_within = |end: &QueryEnd| end.workers.is_within(self.workers as u16);
        if !new.iter().all(fits) || !new_queries.iter().all(is_within) {
            return Err(why::OTHER_WORKERS);
        }
        let is_own = |place| GraphId::of_query(worker, place);
        if !new_queries.iter().all(|end| end.graph.query_place().map(is_own) == Some(end.graph)) {
            return Err(why::ANOTHER_GRAPH);
        }
        hear(heard, worker)?;
        ends.extend(new.into_iter().map(|end| (end.tid, end)));
        queries.extend(new_queries.into_iter().map(|mut end| {
            // It shows its own without being told.
            end.workers.remove(worker);
            (end.graph, end)
        }));
        Ok(())
    }

    /// When every graph is complete and the cut is known, once: for each worker the graphs of several workers that it took part
    /// in, in TID order. Who took part in none of those that there are is told of one, and so that there are any.
    pub fn settle(&mut self) -> Option<Vec<Ends>> {
        let Barrier::Execute { heard, ends, queries } = &mut self.barrier else { return None };
        if heard.len() < self.workers || matches!(self.cut, Cut::Gathering(_)) {
            return None;
        }
        let ends: Vec<GraphEnd> = std::mem::take(ends).into_values().collect();
        let queries = std::mem::take(queries);
        let heard = WorkerSet::default();
        // Nothing is validated together where every worker knows all of its transactions.
        self.barrier = if self.is_logged() && !ends.is_empty() {
            let none = |GraphEnd { tid, kind, workers, .. }: &GraphEnd| {
                (*tid, Dependencies { kind: *kind, workers: workers.clone(), bits: Bits::default() })
            };
            Barrier::Validate { heard, bits: ends.iter().map(none).collect() }
        } else {
            Barrier::Finish { heard, outcome: Outcome::default() }
        };
        let mut each = vec![Ends::default(); self.workers];
        for end in &ends {
            end.workers.iter().for_each(|worker| each[usize::from(worker.0)].ends.push(end.clone()));
        }
        for none in each.iter_mut().filter(|told| told.ends.is_empty()) {
            none.ends.extend(ends.first().cloned());
        }
        for QueryEnd { graph, number, workers } in queries.into_values() {
            workers.iter().for_each(|worker| each[usize::from(worker.0)].queries.push((graph, number)));
        }
        Some(each)
    }

    /// A worker says what dependencies it sees; when all have, gives each those of all workers, in TID order, of graphs that it
    /// took part in.
    ///
    /// # Errors
    /// It has said so, or is not asked, or not of these.
    pub fn bits(
        &mut self,
        worker: WorkerId,
        new: Vec<(Tid, Bits)>,
    ) -> Result<Option<EachWorker<(Tid, Bits)>>, &'static str> {
        let Barrier::Validate { heard, bits } = &mut self.barrier else { return Err(why::ANOTHER_PHASE) };
        let fits = |known: &Dependencies, new: &Bits| known.workers.contains(worker) && new.fit(known.kind);
        if !new.iter().all(|(tid, new)| bits.get(tid).is_some_and(|known| fits(known, new))) {
            return Err(why::NO_BITS);
        }
        hear(heard, worker)?;
        for (tid, new) in new {
            let Some(Dependencies { bits, .. }) = bits.get_mut(&tid) else { continue };
            if planted(Bug::BitsNotMerged) && !bits.is_empty() {
                continue;
            }
            bits.merge(new);
        }
        if heard.len() < self.workers {
            return Ok(None);
        }
        let mut each = vec![Vec::new(); self.workers];
        let all = std::mem::take(bits).into_iter().filter(|(_, known)| !known.bits.is_empty());
        for (tid, Dependencies { workers, bits, .. }) in all {
            workers.iter().for_each(|worker| each[usize::from(worker.0)].push((tid, bits)));
        }
        self.barrier = Barrier::Finish { heard: WorkerSet::default(), outcome: Outcome::default() };
        Ok(Some(each))
    }

    /// A worker says what the epoch changed there, or some of it.
    ///
    /// # Errors
    /// It has said all, or its part cannot be over yet.
    pub fn changed(&mut self, worker: WorkerId, changes: EpochChanges) -> Result<(), &'static str> {
        let Barrier::Finish { heard, outcome } = &mut self.barrier else { return Err(why::ANOTHER_PHASE) };
        if heard.contains(worker) {
            return Err(why::TWICE);
        }
        if planted(Bug::ChangesOfOneWorker) {
            outcome.changes = EpochChanges::default();
        }
        outcome.changes.append(changes);
        Ok(())
    }

    /// The round is over at a worker; gives what it came to when it is at all.
    ///
    /// # Errors
    /// It has said so, or cannot be over yet.
    pub fn finished(&mut self, worker: WorkerId, finished: Finished) -> Result<Option<Outcome>, &'static str> {
        let Barrier::Finish { heard, outcome } = &mut self.barrier else { return Err(why::ANOTHER_PHASE) };
        hear(heard, worker)?;
        outcome.hash = StateHash(outcome.hash.0.wrapping_add(finished.hash.0));
        outcome.carried.extend(finished.carried);
        outcome.counts.add(finished.counts);
        if heard.len() < self.workers {
            return Ok(None);
        }
        outcome.carried.sort_unstable();
        outcome.changes.sort();
        Ok(Some(std::mem::take(outcome)))
    }

    /// What holds between steps.
    pub fn invariants(&self) -> Result<(), &'static str> {
        let (Barrier::Execute { heard, .. } | Barrier::Validate { heard, .. } | Barrier::Finish { heard, .. }) =
            &self.barrier;
        let all_executed = matches!(self.barrier, Barrier::Execute { .. }) && heard.len() == self.workers;
        match &self.cut {
            Cut::Gathering(gathering) if gathering.requests.len() >= self.workers => {
                Err("the cut is known when all shares are")
            }
            Cut::Gathering(_) if !matches!(self.barrier, Barrier::Execute { .. }) => {
                Err("nothing is settled before the cut is known")
            }
            Cut::Known(_) | Cut::Logged(_) if all_executed => Err("what is executed and cut is settled"),
            _ if heard.iter().any(|worker| usize::from(worker.0) >= self.workers) => Err("only members are heard"),
            _ => Ok(()),
        }
    }
}

/// Notes that a worker has said something that each says once.
fn hear(heard: &mut WorkerSet, worker: WorkerId) -> Result<(), &'static str> {
    if heard.contains(worker) {
        return Err(why::TWICE);
    }
    heard.merge(&WorkerSet::only(worker));
    Ok(())
}
