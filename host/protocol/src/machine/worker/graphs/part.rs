//! What one worker knows of a graph.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::agenda::Agenda;
use crate::abort::Abort;
use crate::cluster::worker_set::WorkerSet;
use crate::commit::share::Shares;
use crate::commit::validate::Kind;
use crate::execute::attempt::{Attempt, Execution, Mode, RemoteRequest, RemoteResponse, Report, Usage};
use crate::execute::task::{GraphId, SuspendedId, TaskKind};
use crate::ids::WorkerId;
use crate::sequence::transaction::Transaction;
use crate::state::entity::Value;
use crate::wire::message::{GraphEnd, Header, Question};

/// See the module.
#[derive(Debug)]
pub(crate) struct Part {
    pub header: Header,
    pub transaction: Transaction,
    /// Away while a task runs; absent before its locks are granted, and while it is `fresh`.
    pub attempt: Option<Box<Attempt>>,
    /// Nothing has happened here, and it may: the first task makes the attempt.
    pub(super) fresh: bool,
    /// What has happened and was not yet told to the root; at the root: all that is known.
    pub report: Report,
    /// Whether the graph is known to have left its cached RW set or call graph.
    pub drifted: bool,
    /// In the fallback: what its first execution did here.
    pub cached: Option<Arc<Execution>>,
    /// In the fallback: whether its locks are held here.
    pub granted: bool,
    pub root: Option<Root>,
    pub(super) running: Option<u32>,
    pub(super) jobs: VecDeque<Job>,
    /// Few at a time.
    fragments: SmallVec<[(u32, Fragment); 1]>,
    next_fragment: u32,
    pub(super) agenda: Option<Box<Agenda>>,
}

/// What only the root's worker knows.
#[derive(Debug, Default)]
pub(crate) struct Root {
    /// Ack shares that came back.
    pub gathered: Shares,
    /// Workers that have not yet re-invoked their part.
    pub missing: WorkerSet,
    /// What the root function returned.
    pub result: Option<Result<Value, Abort>>,
}

/// A function that was started here from elsewhere, or the root.
#[derive(Debug)]
pub(super) struct Fragment {
    pub origin: Origin,
    pub shares: Shares,
    /// In strict mode: what the transaction has used when it goes on.
    pub used: Usage,
    pub parked: Option<SuspendedId>,
    answers: Vec<Option<RemoteResponse>>,
}

/// Who started a function.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    Root,
    Async,
    Awaited(WorkerId, Question),
}

/// Work that has come for a graph.
#[derive(Debug)]
pub(super) enum Job {
    /// Start a function.
    Start { fragment: u32, task: TaskKind },
    /// Continue one.
    Resume { fragment: u32 },
    /// Touch state for a function elsewhere.
    Serve { from: WorkerId, question: Question, asked: RemoteRequest },
    /// Nothing can be done now.
    Wait,
}

impl Part {
    /// How a graph that is rooted here ended; with `snapshot`, its reads are not validated.
    pub fn end(&self, snapshot: bool) -> GraphEnd {
        let root = self.root.as_ref().expect("it is rooted here");
        let failed = !matches!(root.result, Some(Ok(_)));
        let kind = match (failed, self.report.wrote) {
            (true, _) => Kind::Aborted,
            (false, true) => Kind::Wrote,
            (false, false) => Kind::ReadOnly,
        };
        GraphEnd {
            tid: self.transaction.tid,
            number: self.header.number,
            kind,
            cacheable: !self.report.reached,
            snapshot,
            workers: self.report.workers.clone(),
        }
    }

    /// A graph that is rooted on this worker.
    pub fn rooted(graph: GraphId, transaction: Transaction, me: WorkerId, mode: Mode) -> Self {
        let mut part = Part::foreign(graph, transaction, me, mode);
        part.root = Some(Root::default());
        part
    }

    /// A graph that is rooted elsewhere.
    pub fn foreign(graph: GraphId, transaction: Transaction, root: WorkerId, mode: Mode) -> Self {
        let header = Header {
            graph,
            number: 1,
            mode,
            root,
            tid: transaction.tid,
            time: transaction.time,
            request: transaction.request.id,
            operator: transaction.request.operator,
            query: transaction.query,
        };
        Part {
            header,
            transaction,
            attempt: None,
            fresh: false,
            report: Report::default(),
            drifted: false,
            cached: None,
            granted: true,
            root: None,
            running: None,
            jobs: VecDeque::new(),
            fragments: SmallVec::new(),
            next_fragment: 0,
            agenda: None,
        }
    }

    /// Whether nothing of it runs or waits here.
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.jobs.is_empty() && self.fragments.is_empty()
    }

    /// Whether something of it may run now.
    pub(super) fn is_here(&self) -> bool {
        self.fresh || self.attempt.is_some()
    }

    /// Forgets an attempt that does not count.
    pub(super) fn restart(&mut self, header: Header) {
        assert!(self.is_idle(), "an attempt begins when nothing of the one before runs");
        self.header = header;
        (self.attempt, self.fresh) = (None, false);
        self.report = Report::default();
        self.drifted = false;
        self.agenda = None;
    }

    pub(super) fn add_fragment(&mut self, origin: Origin, shares: Shares) -> u32 {
        self.next_fragment += 1;
        let fragment = Fragment { origin, shares, used: Usage::default(), parked: None, answers: Vec::new() };
        self.fragments.push((self.next_fragment, fragment));
        self.next_fragment
    }

    pub(super) fn find_fragment(&self, fragment: u32) -> Option<&Fragment> {
        self.fragments.iter().find(|(known, _)| *known == fragment).map(|(_, fragment)| fragment)
    }

    pub(super) fn fragment(&mut self, fragment: u32) -> &mut Fragment {
        let found = self.fragments.iter_mut().find(|(known, _)| *known == fragment);
        &mut found.expect("a function that something happens to is known").1
    }

    pub(super) fn remove_fragment(&mut self, fragment: u32) -> Fragment {
        let at = self.fragments.iter().position(|(known, _)| *known == fragment);
        self.fragments.swap_remove(at.expect("it ran")).1
    }

    /// Takes what has happened here, to be told.
    pub(super) fn take_report(&mut self) -> Report {
        let mut report = std::mem::take(&mut self.report);
        if let Some(attempt) = &mut self.attempt {
            report.merge(attempt.take_report());
        }
        report
    }
}

impl Fragment {
    pub(super) fn expect_answers(&mut self, count: usize) {
        self.answers = vec![None; count];
    }

    /// Whether an answer is still to come.
    pub(super) fn awaits(&self, index: usize) -> bool {
        self.answers.get(index).is_some_and(Option::is_none)
    }

    /// One answer has come; whether it was the last.
    pub(super) fn answered(&mut self, index: usize, answer: RemoteResponse) -> bool {
        let answers = &mut self.answers;
        assert!(answers[index].replace(answer).is_none(), "a question is answered once");
        answers.iter().all(Option::is_some)
    }

    pub(super) fn take_answers(&mut self) -> Vec<RemoteResponse> {
        std::mem::take(&mut self.answers).into_iter().map(|answer| answer.expect("all are there")).collect()
    }
}
