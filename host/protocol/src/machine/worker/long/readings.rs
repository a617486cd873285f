//! Readings: what runs want to read, here or from other workers, and what these have answered.

use std::collections::BTreeMap;

use super::super::Action;
use super::super::ground::Ground;
use super::reads::Runner;
use crate::abort::{Abort, Code};
use crate::cluster::worker_set::WorkerSet;
use crate::execute::attempt::{Entry, Operation, RemoteResponse, Scan};
use crate::execute::task::RunId;
use crate::ids::{Tid, WorkerId};
use crate::wire::long::{LongAnswer, LongAsk, LongMail};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Readings {
    asked: Vec<(WorkerId, LongAsk)>,
    /// Of runs that are rooted here: what waits for other workers.
    waits: BTreeMap<RunId, Wait>,
    /// Of the same: other workers that were asked.
    workers: BTreeMap<RunId, WorkerSet>,
    mails: BTreeMap<WorkerId, LongMail>,
}

#[derive(Debug)]
struct Wait {
    scan: Option<Scan>,
    /// Workers that have not answered.
    missing: usize,
    answer: RemoteResponse,
}

impl Wait {
    fn take(&mut self, answer: RemoteResponse) {
        self.missing -= 1;
        match (&mut self.answer, answer) {
            (RemoteResponse::Failed(_), _) => {}
            (RemoteResponse::Entries(found), RemoteResponse::Entries(more)) => found.extend(more),
            (known, answer) => *known = answer,
        }
    }

    /// What all have found, as one would have.
    fn finish(mut self) -> RemoteResponse {
        if let (Some(scan), RemoteResponse::Entries(found)) = (&self.scan, &mut self.answer) {
            found.sort_unstable_by(|Entry(a, _), Entry(b, _)| if scan.reverse { b.cmp(a) } else { a.cmp(b) });
            // A partition may have changed its owner between two answers: the run does not count then, and goes on.
            found.dedup_by(|Entry(a, _), Entry(b, _)| a == b);
            found.truncate(scan.limit as usize);
        }
        self.answer
    }
}

/// Whether what is asked for is of a partition that there is: another process may have named it.
fn exists(operation: &Operation, ground: &Ground) -> bool {
    let placement = &ground.view().placement;
    match operation {
        Operation::Get(entity) => placement.owner_of(entity.partition()).is_some(),
        Operation::Scan(scan) => scan.partition.is_none_or(|partition| placement.owner_of(partition).is_some()),
        _ => false,
    }
}

fn over() -> RemoteResponse {
    RemoteResponse::Failed(Abort::new(Code::Aborted, "the run does not count any more"))
}

impl Readings {
    /// A run of a worker reads.
    pub fn ask(&mut self, root: WorkerId, ask: LongAsk) {
        self.asked.push((root, ask));
    }

    /// Answers what was asked, or asks others.
    pub fn answer<W>(&mut self, ground: &mut Ground, actions: &mut Vec<Action<W>>) {
        for (root, ask) in std::mem::take(&mut self.asked) {
            let id = Runner { root, run: ask.run };
            if root != ground.me() && !ground.reads_mut().known(id) && ask.tid != Tid(0) {
                ground.reads_mut().begin_update(id, ask.tid, ask.holds);
            }
            // What is not here yet is waited for, unless nobody does.
            if ground.reads().is_current(id) && exists(&ask.operation, ground) && !ground.has(&ask.operation) {
                self.asked.push((root, ask));
                continue;
            }
            if root == ground.me() {
                self.read(id, ask, ground, actions);
                continue;
            }
            let answer = exists(&ask.operation, ground).then(|| ground.read_for(id, ask.operation));
            let answer = answer.flatten().unwrap_or_else(over);
            self.mail(root).answers.push(LongAnswer { run: ask.run, answer });
        }
    }

    fn read<W>(&mut self, id: Runner, ask: LongAsk, ground: &mut Ground, actions: &mut Vec<Action<W>>) {
        let run = id.run;
        if !ground.reads().is_current(id) {
            return actions.push(Action::LongRead { run, answer: over() });
        }
        let placement = &ground.view().placement;
        let owners: Vec<WorkerId> = match &ask.operation {
            Operation::Get(entity) => vec![placement.owner(entity.partition())],
            Operation::Scan(Scan { partition: Some(partition), .. }) => vec![placement.owner(*partition)],
            _ => (0..placement.workers()).map(WorkerId).collect(),
        };
        let mut answer = match &ask.operation {
            Operation::Scan(_) => RemoteResponse::Entries(Vec::new()),
            _ => RemoteResponse::Noted,
        };
        if owners.contains(&id.root) {
            answer = ground.read_for(id, ask.operation.clone()).unwrap_or_else(over);
        }
        let others: Vec<WorkerId> = owners.into_iter().filter(|owner| *owner != id.root).collect();
        if others.is_empty() {
            return actions.push(Action::LongRead { run, answer });
        }
        let scan = if let Operation::Scan(scan) = &ask.operation { Some(scan.clone()) } else { None };
        self.waits.insert(run, Wait { scan, missing: others.len(), answer });
        for other in others {
            self.workers.entry(run).or_default().merge(&WorkerSet::only(other));
            self.mail(other).asks.push(ask.clone());
        }
    }

    /// Whether an answer is of the sort that was asked for, if anybody waits for it still.
    pub fn awaits(&self, LongAnswer { run, answer }: &LongAnswer) -> bool {
        self.waits.get(run).is_none_or(|wait| match answer {
            RemoteResponse::Failed(_) => true,
            RemoteResponse::Entries(_) => wait.scan.is_some(),
            RemoteResponse::Value(_) => wait.scan.is_none(),
            _ => false,
        })
    }

    /// Another worker has answered.
    pub fn answered<W>(&mut self, LongAnswer { run, answer }: LongAnswer, actions: &mut Vec<Action<W>>) {
        // Whoever has been given up does not wait.
        let Some(wait) = self.waits.get_mut(&run) else { return };
        wait.take(answer);
        if wait.missing == 0
            && let Some(wait) = self.waits.remove(&run)
        {
            actions.push(Action::LongRead { run, answer: wait.finish() });
        }
    }

    /// Runs that have asked other workers.
    pub fn runs(&self) -> impl Iterator<Item = RunId> {
        self.workers.keys().copied()
    }

    /// Other workers that a run has asked; they are told nothing more of it.
    pub fn take_workers(&mut self, run: RunId) -> WorkerSet {
        self.workers.remove(&run).unwrap_or_default()
    }

    /// All workers know of a run.
    pub fn note_all(&mut self, run: RunId, workers: WorkerSet) {
        self.workers.insert(run, workers);
    }

    /// A run is over, and does not take part in an epoch.
    pub fn over(&mut self, run: RunId) {
        for worker in self.take_workers(run).iter() {
            self.mail(worker).over.push(run);
        }
    }

    pub fn mail(&mut self, to: WorkerId) -> &mut LongMail {
        self.mails.entry(to).or_default()
    }

    pub fn take_mails(&mut self) -> BTreeMap<WorkerId, LongMail> {
        std::mem::take(&mut self.mails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::OperatorId;
    use crate::state::range::KeyRange;

    #[test]
    fn an_answer_of_another_sort_than_was_asked_for_is_not_awaited() {
        let mut readings = Readings::default();
        let run = RunId(1);
        let awaited = |readings: &Readings| {
            let failed = RemoteResponse::Failed(Abort::new(Code::Aborted, ""));
            let answers =
                [failed, RemoteResponse::Value(None), RemoteResponse::Entries(Vec::new()), RemoteResponse::Noted];
            answers.map(|answer| readings.awaits(&LongAnswer { run, answer }))
        };
        assert_eq!(awaited(&readings), [true; 4], "nobody waits, and nobody is harmed");
        readings.waits.insert(run, Wait { scan: None, missing: 1, answer: RemoteResponse::Noted });
        assert_eq!(awaited(&readings), [true, true, false, false]);
        let range = KeyRange::all();
        let scan = Scan { operator: OperatorId(1), range, partition: None, limit: 1, reverse: false };
        readings.waits.insert(run, Wait { scan: Some(scan), missing: 1, answer: RemoteResponse::Noted });
        assert_eq!(awaited(&readings), [true, false, true, false]);
    }
}
