//! What one worker knows of a graph.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;
use styx_planted::{Bug, planted};

use super::agenda::{Agenda, Next};
use super::fragment::{Fragment, Origin};
use crate::abort::Abort;
use crate::cluster::worker_set::WorkerSet;
use crate::commit::share::{Share, Shares};
use crate::commit::validate::Kind;
use crate::execute::attempt::{Attempt, Execution, Finding, Mode, RemoteRequest, Report};
use crate::execute::task::{GraphId, TaskKind};
use crate::ids::WorkerId;
use crate::sequence::transaction::Transaction;
use crate::state::entity::Value;
use crate::wire::mail::{Header, Question};
use crate::wire::message::GraphEnd;

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
    agenda: Option<Box<Agenda>>,
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
        let kind = match (failed, self.report.has(Finding::Wrote)) {
            (true, _) => Kind::Aborted,
            (false, true) => Kind::Wrote,
            (false, false) => Kind::ReadOnly,
        };
        GraphEnd {
            tid: self.transaction.tid,
            number: self.header.number,
            kind,
            cacheable: !self.report.has(Finding::Reached),
            snapshot,
            long: false,
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

    /// How a complete graph must be run again, if what it came to does not count.
    pub(super) fn again(&self) -> Option<Mode> {
        let (report, mode) = (&self.report, self.header.mode);
        if report.has(Finding::Postponed) {
            return None;
        }
        let attempt = self.attempt.as_ref().expect("it is idle");
        let overtaken = report.has(Finding::Overtaken) && !planted(Bug::OvertakenIgnored);
        let failed_beside_others =
            report.has(Finding::Doomed) && report.has(Finding::Branched) && !planted(Bug::FirstFailureCounts);
        let unsure = overtaken
            || failed_beside_others
            || (attempt.is_over(&report.usage) && !planted(Bug::LimitsPerWorker))
            || (mode.is_cached() && (report.has(Finding::Doomed) || report.has(Finding::Reached)));
        if report.has(Finding::Refused) {
            Some(mode.in_reserve())
        } else if report.has(Finding::Suspect) && !mode.is_fresh() && !planted(Bug::UnconfirmedCounted) {
            Some(mode.in_fresh_instances())
        } else {
            (!mode.is_strict() && unsure).then_some(Mode::STRICT)
        }
    }

    /// Whether it is rooted here, and all of the graph is over.
    pub(super) fn is_complete(&self) -> bool {
        let Some(root) = &self.root else { return false };
        let all_back = if self.header.mode.is_cached() {
            root.missing.is_empty()
        } else {
            root.gathered.is_whole() && root.result.is_some()
        };
        all_back && self.is_idle()
    }

    /// Whether a share that comes here can be one: with all that are here it is no more than the whole.
    pub(super) fn admits(&self, share: Share) -> bool {
        let mut sum = self.root.as_ref().map_or_else(Shares::default, |root| root.gathered.clone());
        let held = self.fragments.iter().flat_map(|(_, fragment)| fragment.shares.clone().take());
        held.chain([share]).all(|share| sum.admit(share))
    }

    /// Whether what becomes of it may be decided elsewhere: all that is to be done here is done, and the root knows.
    pub(super) fn is_told(&self) -> bool {
        self.root.is_none() && self.is_idle() && self.agenda.as_ref().is_none_or(|agenda| agenda.is_told())
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
        self.fragments.push((self.next_fragment, Fragment::new(origin, shares)));
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
            // Of a transaction, whoever took part hears how it ended.
            if self.header.query && self.root.is_none() && !attempt.so_far().logs.is_empty() {
                report.add(Finding::Logged);
            }
        }
        report
    }

    // Re-invocation from the cache.

    /// Puts what the first execution had to run here on the agenda.
    pub(super) fn plan(&mut self, cached: &Execution) {
        self.agenda = Some(Box::new(Agenda::new(&cached.entered)));
    }

    pub(super) fn has_agenda(&self) -> bool {
        self.agenda.is_some()
    }

    pub(super) fn agenda(&mut self) -> &mut Agenda {
        self.agenda.as_mut().expect("there is an agenda")
    }

    /// What can be done next of the agenda; `None` when all is done.
    pub(super) fn next_on_agenda(&mut self) -> Option<Job> {
        match self.agenda().next() {
            Next::Wait => Some(Job::Wait),
            Next::Done => None,
            Next::Resume { fragment, answer } => {
                let waiting = self.fragment(fragment);
                waiting.expect_answers(1, true);
                waiting.answered(0, answer);
                Some(Job::Resume { fragment })
            }
            Next::Start(entry) => {
                let task = match entry.issuer {
                    None => TaskKind::Root,
                    Some(issuer) => TaskKind::Call { target: entry.target.clone(), issuer },
                };
                let fragment = self.add_fragment(Origin::Async, Shares::default());
                self.agenda().started(fragment, entry);
                Some(Job::Start { fragment, task })
            }
        }
    }
}
