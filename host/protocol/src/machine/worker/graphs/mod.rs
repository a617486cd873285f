//! Call graphs that several workers share, as one of them sees them.
//!
//! Each worker keeps a [`Part`] of a graph: the attempt with what happened here, functions that
//! wait, work that has come. One task of a part runs at a time. The root's worker learns by ack
//! shares (Styx §5.3) when the graph is complete, and what became of it by the reports that travel
//! with them. What ran in parallel and might have ended otherwise in a serial run is run again,
//! strictly, on the same state: so the outcome does not depend on where entities live.
//!
//! Nothing here waits with a bound that could deadlock: where there is no room for another
//! suspended instance, the graph is refused, completes, and is run again in a reserve.

mod agenda;
mod budget;
mod fragment;
mod mails;
mod part;
mod parts;
mod scheduler;
pub(super) mod scrutiny;

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_planted::{Bug, planted};

use self::fragment::Origin;
use self::part::Job;
pub(crate) use self::part::Part;
use self::scheduler::Scheduler;
use super::ground::Ground;
use super::phase::Phase;
use crate::cluster::worker_set::WorkerSet;
use crate::commit::share::{Share, Shares};
use crate::execute::attempt::{
    Attempt, Execution, Finding, Footprint, LogLine, Mode, Operation, Overlay, RemoteResponse, ThinVec,
};
use crate::execute::task::{GraphId, Progress, Task, TaskKind, TaskProgress};
use crate::ids::{Round, Tid, WorkerId};
use crate::sequence::transaction::Transaction;
use crate::state::Write;
use crate::state::entity::Value;
use crate::wire::fault::why;
use crate::wire::mail::{Decision, Ending, Header, Mail, Order, OrderReply};

/// A graph of the fallback, which waits for its locks.
pub(crate) struct Locked {
    pub graph: GraphId,
    pub transaction: Transaction,
    pub root: WorkerId,
    pub mode: Mode,
    /// Who took part in its first execution.
    pub participants: WorkerSet,
    /// What that did here.
    pub cached: Arc<Execution>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Graphs {
    me: WorkerId,
    scheduler: Scheduler,
    decisions: Vec<Decision>,
}

impl Graphs {
    /// None yet; at most `suspended_max` functions may wait at a time.
    pub fn new(me: WorkerId, suspended_max: usize) -> Self {
        Graphs { me, scheduler: Scheduler::new(me, suspended_max), decisions: Vec::new() }
    }

    /// A phase begins, on some state.
    pub fn begin(&mut self, phase: Phase, ground: Ground) {
        self.scheduler.mails.begin(phase);
        self.scheduler.begin(ground);
    }

    /// The round is over here. Others may still fall back, and meet what took no part.
    pub fn rest(&mut self, round: Round) {
        self.scheduler.mails.begin(Phase { round, fallback: true });
    }

    /// The phase is over: lets go of the state, and gives the parts away, the lowest graph first.
    #[allow(clippy::vec_box, reason = "they are boxed already, and large")]
    pub fn end(&mut self) -> Vec<Box<Part>> {
        self.scheduler.end();
        self.scheduler.parts.take()
    }

    /// In the fallback: what was decided, once the phase is over.
    pub fn take_decided(&mut self) -> Overlay {
        self.scheduler.take_decided()
    }

    /// Whether nothing runs or waits.
    pub fn is_quiet(&self) -> bool {
        self.scheduler.is_quiet()
    }

    /// Functions that wait or run.
    pub fn under_way(&self) -> usize {
        self.scheduler.under_way()
    }

    /// Tasks for the execution threads.
    pub fn take_tasks(&mut self) -> Vec<Task> {
        self.scheduler.take_tasks()
    }

    /// Mail for other workers.
    pub fn take_mails(&mut self) -> BTreeMap<WorkerId, Mail> {
        self.scheduler.mails.take()
    }

    /// Graphs rooted here that have come to their end.
    pub fn take_concluded(&mut self) -> Vec<GraphId> {
        self.scheduler.take_concluded()
    }

    /// In the fallback: what other workers have decided on the graphs rooted there.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// Takes a graph that is complete.
    pub fn close(&mut self, graph: GraphId) -> Box<Part> {
        let part = self.scheduler.parts.remove(graph).expect("what is complete is known");
        self.scheduler.start_reserved();
        part
    }

    /// In the fallback: a write is decided.
    pub fn apply(&mut self, write: Write) {
        self.scheduler.apply(write);
    }

    /// Tasks have come back from the execution threads.
    pub fn advanced(&mut self, advanced: Vec<TaskProgress>) {
        self.scheduler.advanced(advanced);
    }

    // Execute.

    /// A root that needs others, or did.
    pub fn open(&mut self, graph: GraphId, transaction: Transaction, attempt: Box<Attempt>, progress: Progress) {
        let mode = attempt.mode();
        let mut part = Part::rooted(graph, transaction, self.me, mode);
        let fragment = part.add_fragment(Origin::Root, Shares::of(Share::WHOLE));
        part.attempt = Some(attempt);
        self.scheduler.parts.insert(graph, part);
        self.scheduler.progressed(graph, fragment, progress);
    }

    // The fallback.

    /// Makes a graph known whose part here must keep to what it did first. It waits for its locks.
    pub fn lock(&mut self, locked: Locked) {
        let Locked { graph, transaction, root, mode, participants, cached } = locked;
        let mut part = if root == self.me {
            Part::rooted(graph, transaction, root, mode)
        } else {
            Part::foreign(graph, transaction, root, mode)
        };
        part.granted = false;
        if mode.is_cached() {
            part.plan(&cached);
            if let Some(root) = &mut part.root {
                root.missing = participants;
            }
        } else if part.root.is_some() {
            let fragment = part.add_fragment(Origin::Root, Shares::default());
            part.jobs.push_back(Job::Start { fragment, task: TaskKind::Root });
        }
        part.cached = Some(cached);
        self.scheduler.parts.insert(graph, part);
    }

    /// A graph has its locks here.
    pub fn grant(&mut self, graph: GraphId) {
        self.scheduler.part(graph).granted = true;
        self.scheduler.renew(graph);
        self.scheduler.run(graph);
    }

    /// Applies what a graph did here, and forgets it; gives what its guests logged.
    pub fn decide(&mut self, graph: GraphId, number: u32, ending: Ending) -> Option<(Tid, ThinVec<LogLine>)> {
        let part = self.scheduler.parts.remove(graph).expect("what is decided took part here");
        assert!(part.is_idle(), "a graph is decided when nothing of it runs");
        let mut attempt = part.attempt.filter(|_| part.header.number == number)?;
        let execution = attempt.take_execution(Ok(Value::default()));
        if ending == Ending::Commits {
            execution.writes().for_each(|write| self.scheduler.apply(write));
        }
        (ending != Ending::Moves).then_some((part.transaction.tid, execution.logs))
    }

    /// Tells the other workers that took part what becomes of a graph.
    pub fn announce(&mut self, workers: &WorkerSet, decision: Decision) {
        let me = self.me;
        for worker in workers.iter().filter(|worker| *worker != me) {
            self.scheduler.mails.to(worker).decisions.push(decision);
        }
    }

    /// Mail for another worker, to be added to.
    pub fn mail(&mut self, worker: WorkerId) -> &mut Mail {
        self.scheduler.mails.to(worker)
    }

    /// The part of a long transaction that is rooted elsewhere: what it did here.
    ///
    /// # Errors
    /// It is known.
    pub fn insert_executed(&mut self, header: Header, footprint: Footprint) -> Result<(), &'static str> {
        let Some(ground) = self.scheduler.ground() else { return Err(why::ANOTHER_PHASE) };
        if self.scheduler.parts.get(header.graph).is_some() {
            return Err(why::TWICE);
        }
        let transaction = transaction_of(&header);
        let mut attempt = ground.view().attempt(&transaction, ground.state(), ground.catalog(), header.mode);
        attempt.set_footprint(footprint);
        let mut part = Part::foreign(header.graph, transaction, header.root, header.mode);
        part.header = header;
        part.attempt = Some(Box::new(attempt));
        self.scheduler.parts.insert(header.graph, part);
        Ok(())
    }

    // What comes in.

    /// Mail from another worker; `rooted` tells which transactions of the round are rooted here.
    ///
    /// # Errors
    /// Some of it cannot be applied; nothing of that, nor of what follows it, was.
    pub fn receive(&mut self, from: WorkerId, mail: Mail, rooted: &dyn Fn(Tid) -> bool) -> Result<(), &'static str> {
        for order in mail.orders {
            self.order(from, order, rooted)?;
        }
        for reply in mail.replies {
            self.reply(reply)?;
        }
        for ack in mail.acks {
            scrutiny::report(&ack.report, self.scheduler.ground())?;
            self.scheduler.ack(from, ack)?;
        }
        for result in mail.results {
            self.scheduler.cached_result(result);
        }
        for decision in mail.decisions {
            let part = self.scheduler.parts.get(decision.graph).ok_or(why::UNKNOWN_GRAPH)?;
            if !self.scheduler.mails.phase().fallback || !part.is_told() {
                return Err(why::ANOTHER_PHASE);
            }
            if part.header.root != from || self.decisions.iter().any(|known| known.graph == decision.graph) {
                return Err(why::NOT_ROOTED);
            }
            self.decisions.push(decision);
        }
        Ok(())
    }

    fn order(&mut self, from: WorkerId, order: Order, rooted: &dyn Fn(Tid) -> bool) -> Result<(), &'static str> {
        if let Some(ground) = self.scheduler.ground() {
            scrutiny::order(&order, ground)?;
        }
        let Order { header, asked, question, share, report } = order;
        let graph = header.graph;
        let Some(known) = self.scheduler.parts.get(graph) else {
            if self.scheduler.mails.phase().fallback {
                // It took no part before: whatever it does here is drift. Of what is read, the one who asks says so, who
                // looks at its bounds first.
                let question = question.ok_or(why::NOBODY_WAITS)?;
                let is_read = matches!(asked.operation, Operation::Get(_));
                let reply = OrderReply {
                    graph,
                    number: header.number,
                    question,
                    answer: RemoteResponse::Noted,
                    share: None,
                    used: asked.used,
                    report: if is_read { report } else { report.with(Finding::Drifted) },
                };
                self.scheduler.mails.to(from).replies.push(reply);
                return Ok(());
            }
            if self.scheduler.ground().is_none() {
                return Err(why::ANOTHER_PHASE);
            }
            if header.root == self.me || (!header.query && rooted(header.tid)) {
                return Err(why::ROOTED_HERE);
            }
            let mut part = Part::foreign(graph, transaction_of(&header), header.root, header.mode);
            part.header = header;
            self.scheduler.parts.insert(graph, part);
            self.scheduler.renew(graph);
            return self.take_order(from, Order { header, asked, question, share, report });
        };
        scrutiny::follows(&header, share, known)?;
        if known.header.number < header.number {
            self.scheduler.part(graph).restart(header);
            self.scheduler.renew(graph);
        }
        self.take_order(from, Order { header, asked, question, share, report })
    }

    /// Takes an order for the attempt that is known.
    fn take_order(&mut self, from: WorkerId, order: Order) -> Result<(), &'static str> {
        let Order { header: Header { graph, .. }, asked, question, share, report } = order;
        let part = self.scheduler.part(graph);
        part.drifted |= report.has(Finding::Drifted);
        part.report.merge(report);
        let job = match asked.operation {
            Operation::Call(target) => {
                let origin = match question {
                    Some(question) => Origin::Awaited(from, question),
                    None => Origin::Async,
                };
                let fragment = part.add_fragment(origin, share.map_or_else(Shares::default, Shares::of));
                part.fragment(fragment).used = asked.used;
                Job::Start { fragment, task: TaskKind::Call { target, issuer: from } }
            }
            _ => Job::Serve { from, question: question.ok_or(why::NOBODY_WAITS)?, asked },
        };
        self.scheduler.take_on(graph, job);
        Ok(())
    }

    fn reply(&mut self, reply: OrderReply) -> Result<(), &'static str> {
        let OrderReply { graph, number, question, answer, share, used, report } = reply;
        scrutiny::report(&report, self.scheduler.ground())?;
        let part = self.scheduler.attempted(graph, number)?;
        let index = question.index as usize;
        if !part.find_fragment(question.fragment).is_some_and(|fragment| fragment.awaits(index, &answer)) {
            return Err(why::NOT_ASKED);
        }
        if share.is_some_and(|share| part.header.mode != Mode::Parallel || !part.admits(share)) {
            return Err(why::SHARES);
        }
        part.drifted |= report.has(Finding::Drifted) && !planted(Bug::DriftAtRootOnly);
        part.report.merge(report);
        let fragment = part.fragment(question.fragment);
        if let Some(share) = share {
            fragment.shares.add(share);
        }
        fragment.used = used;
        if fragment.answered(index, answer) {
            self.scheduler.take_on(graph, Job::Resume { fragment: question.fragment });
        }
        Ok(())
    }
}

/// What other workers must know of a long transaction.
pub(super) fn header_of(transaction: &Transaction, root: WorkerId) -> Header {
    Part::foreign(GraphId(transaction.tid.0), transaction.clone(), root, Mode::STRICT).header
}

fn transaction_of(header: &Header) -> Transaction {
    let request = crate::sequence::transaction::Request {
        id: header.request,
        operator: header.operator,
        function: Arc::default(),
        key: Arc::default(),
        args: Value::default(),
        retained: false,
        origin: None,
    };
    Transaction { tid: header.tid, time: header.time, request: Arc::new(request), query: header.query }
}
