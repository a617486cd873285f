//! The round under way: what the coordinator has heard of it, and what it waits for.
//!
//! Execution begins with the round, so it may be over when the cut is known.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_planted::{Bug, planted};

use crate::cluster::worker_set::WorkerSet;
use crate::commit::validate::Bits;
use crate::ids::{Epoch, Round, Tid, Timestamp, WorkerId};
use crate::sequence::budget::RecordBudget;
use crate::sequence::catalog::Control;
use crate::sequence::record::{EpochRecord, Sequence};
use crate::sequence::transaction::Request;
use crate::state::StateHash;
use crate::wire::fault::why;
use crate::wire::message::{Begin, Counts, Finished, GraphEnd};

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

/// See the module.
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
    Gathering(BTreeMap<WorkerId, Vec<Arc<Request>>>),
    /// The record; none if nothing is logged.
    Known(Option<Arc<EpochRecord>>),
}

/// What all workers are to say next, and what those say that have.
#[derive(Debug)]
enum Barrier {
    /// Every graph that is rooted at the worker is complete; those of several workers.
    Execute { heard: WorkerSet, ends: Vec<GraphEnd> },
    /// Dependencies.
    Validate { heard: WorkerSet, bits: BTreeMap<Tid, Bits> },
    /// The end of the round.
    Finish { heard: WorkerSet, outcome: Outcome },
}

/// What a round came to on all workers.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub hash: StateHash,
    /// Transactions that move to the next epoch.
    pub carried: Vec<Tid>,
    pub counts: Counts,
}

impl CurrentRound {
    /// A round of so many workers.
    pub fn new(begin: Begin, workers: usize) -> Self {
        let barrier = Barrier::Execute { heard: WorkerSet::default(), ends: Vec::new() };
        CurrentRound { begin, workers, cut: Cut::Gathering(BTreeMap::new()), barrier }
    }

    /// A round whose cut the log knows.
    pub fn replay(begin: Begin, workers: usize, record: Arc<EpochRecord>) -> Self {
        CurrentRound { cut: Cut::Known(Some(record)), ..CurrentRound::new(begin, workers) }
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
        matches!(self.cut, Cut::Known(Some(_)))
    }

    pub fn stage(&self) -> Stage {
        match (&self.cut, &self.barrier) {
            (Cut::Gathering(_), _) => Stage::Cut,
            (_, Barrier::Execute { .. }) => Stage::Execute,
            (_, Barrier::Validate { .. }) => Stage::Validate,
            (_, Barrier::Finish { .. }) => Stage::Finish,
        }
    }

    /// A sequencer says what it adds; gives all of it when all have.
    ///
    /// # Errors
    /// It has said so, adds more than it may, or what it adds is known from the log.
    pub fn share(
        &mut self,
        worker: WorkerId,
        requests: Vec<Arc<Request>>,
    ) -> Result<Option<Vec<Sequence>>, &'static str> {
        let Cut::Gathering(shares) = &mut self.cut else { return Err(why::ANOTHER_PHASE) };
        if shares.contains_key(&worker) {
            return Err(why::TWICE);
        }
        let most = RecordBudget::share(self.begin.room as usize, self.workers, self.begin.round, worker);
        if requests.iter().map(|request| request.weight()).sum::<usize>() > most {
            return Err(why::TOO_MUCH);
        }
        shares.insert(worker, requests);
        if shares.len() < self.workers {
            return Ok(None);
        }
        Ok(Some(std::mem::take(shares).into_values().map(|requests| Sequence { requests }).collect()))
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
    /// It has said so, or a graph has workers that there are not, or not this one.
    pub fn executed(&mut self, worker: WorkerId, new: Vec<GraphEnd>) -> Result<(), &'static str> {
        let Barrier::Execute { heard, ends } = &mut self.barrier else { return Err(why::ANOTHER_PHASE) };
        let fits = |end: &GraphEnd| {
            end.workers.contains(worker) && end.workers.iter().all(|worker| usize::from(worker.0) < self.workers)
        };
        if !new.iter().all(fits) {
            return Err(why::OTHER_WORKERS);
        }
        hear(heard, worker)?;
        ends.extend(new);
        Ok(())
    }

    /// When every graph is complete and the cut is known, once: the graphs of several workers, in TID order.
    pub fn settle(&mut self) -> Option<Vec<GraphEnd>> {
        let Barrier::Execute { heard, ends } = &mut self.barrier else { return None };
        if heard.len() < self.workers || matches!(self.cut, Cut::Gathering(_)) {
            return None;
        }
        let mut ends = std::mem::take(ends);
        ends.sort_unstable_by_key(|end| end.tid);
        let heard = WorkerSet::default();
        // Nothing is validated together where every worker knows all of its transactions.
        self.barrier = if self.is_logged() && !ends.is_empty() {
            Barrier::Validate { heard, bits: BTreeMap::new() }
        } else {
            Barrier::Finish { heard, outcome: Outcome::default() }
        };
        Some(ends)
    }

    /// A worker says what dependencies it sees; gives those of all workers, in TID order, when all have.
    ///
    /// # Errors
    /// It has said so, or is not asked.
    pub fn bits(&mut self, worker: WorkerId, new: Vec<(Tid, Bits)>) -> Result<Option<Vec<(Tid, Bits)>>, &'static str> {
        let Barrier::Validate { heard, bits } = &mut self.barrier else { return Err(why::ANOTHER_PHASE) };
        hear(heard, worker)?;
        for (tid, new) in new {
            if planted(Bug::BitsNotMerged) {
                bits.entry(tid).or_insert(new);
            } else {
                bits.entry(tid).or_default().merge(new);
            }
        }
        if heard.len() < self.workers {
            return Ok(None);
        }
        let bits = std::mem::take(bits).into_iter().collect();
        self.barrier = Barrier::Finish { heard: WorkerSet::default(), outcome: Outcome::default() };
        Ok(Some(bits))
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
        Ok(Some(std::mem::take(outcome)))
    }

    /// What holds between steps.
    pub fn invariants(&self) -> Result<(), &'static str> {
        let (Barrier::Execute { heard, .. } | Barrier::Validate { heard, .. } | Barrier::Finish { heard, .. }) =
            &self.barrier;
        let all_executed = matches!(self.barrier, Barrier::Execute { .. }) && heard.len() == self.workers;
        match &self.cut {
            Cut::Gathering(shares) if shares.len() >= self.workers => Err("the cut is known when all shares are"),
            Cut::Gathering(_) if !matches!(self.barrier, Barrier::Execute { .. }) => {
                Err("nothing is settled before the cut is known")
            }
            Cut::Known(_) if all_executed => Err("what is executed and cut is settled"),
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
