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
mod part;
mod parts;
mod room;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::abort::{Abort, Code};
use crate::cluster::worker_set::WorkerSet;
use crate::commit::share::{Share, Shares};
use crate::execute::attempt::{
    Attempt, Execution, LogLine, Mode, Operation, Overlay, RemoteRequests, RemoteResponse, Report, Target,
};
use crate::execute::task::{AttemptSeed, AttemptSource, GraphId, LocalView, Progress, Task, TaskKind, TaskProgress};
use crate::ids::{Round, Tid, WorkerId};
use crate::mutants::{Bug, planted};
use crate::sequence::catalog::Catalog;
use crate::sequence::transaction::Transaction;
use crate::state::entity::Value;
use crate::state::{State, Write};
use crate::wire::fault::why;
use crate::wire::message::{Ack, Decision, Header, Mail, Order, OrderReply, Question};
pub(crate) use part::Part;
use part::{Fragment, Job, Origin, Root};
use parts::Parts;
use room::Room;

/// Base of all attempts in one phase of a round.
#[derive(Debug)]
pub(crate) struct Ground {
    /// This worker, and the placement of the epoch under way.
    pub view: LocalView,
    pub state: Arc<State>,
    pub catalog: Arc<Catalog>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Graphs {
    me: WorkerId,
    parts: Parts,
    round: Round,
    fallback: bool,
    ground: Option<Ground>,
    /// In the fallback: writes that are decided and not yet applied.
    decided: Overlay,
    room: Room,
    /// Graphs with work that waits for room.
    waiting: VecDeque<GraphId>,
    tasks: Vec<Task>,
    mails: BTreeMap<WorkerId, Mail>,
    concluded: Vec<GraphId>,
    decisions: Vec<Decision>,
}

impl Graphs {
    /// None yet; at most `suspended_max` functions may wait at a time.
    pub fn new(me: WorkerId, suspended_max: usize) -> Self {
        Graphs {
            me,
            parts: Parts::default(),
            round: Round(0),
            fallback: false,
            ground: None,
            decided: Overlay::default(),
            room: Room::new(suspended_max),
            waiting: VecDeque::new(),
            tasks: Vec::new(),
            mails: BTreeMap::new(),
            concluded: Vec::new(),
            decisions: Vec::new(),
        }
    }

    /// A phase begins, on some state.
    pub fn begin(&mut self, round: Round, fallback: bool, ground: Ground) {
        debug_assert!(self.parts.is_empty() && self.room.is_quiet(), "the phase before is over");
        (self.round, self.fallback) = (round, fallback);
        self.ground = Some(ground);
    }

    /// The round is over here. Others may still fall back, and meet what took no part.
    pub fn rest(&mut self, round: Round) {
        (self.round, self.fallback) = (round, true);
    }

    /// The phase is over: lets go of the state, and gives the parts away, the lowest graph first.
    #[allow(clippy::vec_box, reason = "they are boxed already, and large")]
    pub fn end(&mut self) -> Vec<Box<Part>> {
        assert!(self.room.is_quiet() && self.tasks.is_empty(), "nothing runs when a phase ends");
        self.ground = None;
        self.parts.take()
    }

    /// In the fallback: what was decided, once the phase is over.
    pub fn take_decided(&mut self) -> Overlay {
        std::mem::take(&mut self.decided)
    }

    /// Functions that wait or run.
    pub fn under_way(&self) -> usize {
        self.room.under_way()
    }

    /// Tasks for the execution threads.
    pub fn take_pieces(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    /// Mail for other workers.
    pub fn take_mails(&mut self) -> BTreeMap<WorkerId, Mail> {
        std::mem::take(&mut self.mails)
    }

    /// Graphs rooted here that have come to their end.
    pub fn take_concluded(&mut self) -> Vec<GraphId> {
        std::mem::take(&mut self.concluded)
    }

    /// In the fallback: what other workers have decided on the graphs rooted there.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// Takes a graph that is complete.
    pub fn close(&mut self, graph: GraphId) -> Box<Part> {
        let part = self.parts.remove(graph).expect("what is complete is known");
        self.start_reserved();
        part
    }

    /// In the fallback: a write is decided.
    pub fn apply(&mut self, write: Write) {
        self.decided.apply(write);
    }

    fn part(&mut self, graph: GraphId) -> &mut Part {
        self.parts.get_mut(graph).expect("a graph that something happens to is known")
    }

    // Execute.

    /// A root that needs others, or did.
    pub fn open(&mut self, graph: GraphId, transaction: Transaction, attempt: Box<Attempt>, progress: Progress) {
        let mode = attempt.mode();
        let mut part = Part::rooted(graph, transaction, self.me, mode);
        let fragment = part.add_fragment(Origin::Root, Shares::of(Share::WHOLE));
        part.attempt = Some(attempt);
        self.parts.insert(graph, part);
        self.progressed(graph, fragment, progress);
        self.run(graph);
    }

    // The fallback.

    /// Makes a graph known whose part here must keep to `cached`. It waits for its locks.
    pub fn lock(
        &mut self,
        graph: GraphId,
        transaction: Transaction,
        root: WorkerId,
        mode: Mode,
        participants: WorkerSet,
        cached: Arc<Execution>,
    ) {
        let mut part = if root == self.me {
            Part::rooted(graph, transaction, root, mode)
        } else {
            Part::foreign(graph, transaction, root, mode)
        };
        part.granted = false;
        if mode.cached {
            part.plan(&cached);
            if let Some(root) = &mut part.root {
                root.missing = participants;
            }
        } else if part.root.is_some() {
            let fragment = part.add_fragment(Origin::Root, Shares::default());
            part.jobs.push_back(Job::Start { fragment, task: TaskKind::Root });
        }
        part.cached = Some(cached);
        self.parts.insert(graph, part);
    }

    /// A graph has its locks here.
    pub fn grant(&mut self, graph: GraphId) {
        self.part(graph).granted = true;
        self.renew(graph);
        self.run(graph);
    }

    /// Applies what a graph did here, and forgets it; gives what its guests logged.
    pub fn decide(&mut self, graph: GraphId, number: u32, commits: bool) -> Option<(Tid, Vec<LogLine>)> {
        let part = self.parts.remove(graph).expect("what is decided took part here");
        assert!(part.is_idle(), "a graph is decided when nothing of it runs");
        let mut attempt = part.attempt.filter(|_| part.header.number == number)?;
        let execution = attempt.take_execution(Ok(Value::default()));
        if !commits {
            return None;
        }
        for write in execution.writes() {
            self.decided.apply(write);
        }
        (!execution.logs.is_empty()).then(|| (part.transaction.tid, execution.logs.into()))
    }

    /// Tells the other workers that took part what becomes of a graph.
    pub fn announce(&mut self, workers: WorkerSet, decision: Decision) {
        let me = self.me;
        for worker in workers.iter().filter(|worker| *worker != me) {
            self.mail(worker).decisions.push(decision);
        }
    }

    // What comes in.

    /// Mail from another worker.
    ///
    /// # Errors
    /// Some of it cannot be applied; nothing of that, nor of what follows it, was.
    pub fn receive(&mut self, from: WorkerId, mail: Mail) -> Result<(), &'static str> {
        for order in mail.orders {
            self.order(from, order)?;
        }
        for reply in mail.replies {
            self.reply(reply)?;
        }
        for ack in mail.acks {
            self.ack(from, ack)?;
        }
        for result in mail.results {
            self.cached_result(result);
        }
        for decision in mail.decisions {
            let part = self.parts.get(decision.graph).ok_or(why::UNKNOWN_GRAPH)?;
            if !self.fallback || !part.is_idle() {
                return Err(why::ANOTHER_PHASE);
            }
            self.decisions.push(decision);
        }
        Ok(())
    }

    /// The part of a graph at an attempt that a peer speaks of.
    fn attempted(&mut self, graph: GraphId, number: u32) -> Result<&mut Part, &'static str> {
        let part = self.parts.get_mut(graph).ok_or(why::UNKNOWN_GRAPH)?;
        if part.header.number == number { Ok(part) } else { Err(why::ANOTHER_ATTEMPT) }
    }

    /// Tasks have come back from the execution threads.
    pub fn advanced(&mut self, advanced: Vec<TaskProgress>) {
        for TaskProgress { graph, attempt, progress } in advanced {
            self.room.came_back();
            let part = self.part(graph);
            part.attempt = Some(attempt);
            let fragment = part.running.take().expect("what comes back was running");
            self.progressed(graph, fragment, progress);
            self.run(graph);
        }
        for graph in std::mem::take(&mut self.waiting) {
            self.run(graph);
        }
    }

    fn order(&mut self, from: WorkerId, order: Order) -> Result<(), &'static str> {
        let Order { header, asked, question, share, report } = order;
        let graph = header.graph;
        let is_call = matches!(asked.operation, Operation::Call(_));
        if question.is_none() && !is_call {
            return Err(why::NOBODY_WAITS);
        }
        let known = self.parts.get(graph).map(|part| (part.header.number, part.is_idle()));
        let Some((known, idle)) = known else {
            if self.fallback {
                // It took no part before: whatever it does here is drift.
                let question = question.ok_or(why::NOBODY_WAITS)?;
                let report = Report { drifted: true, ..report };
                let reply = OrderReply {
                    graph,
                    number: header.number,
                    question,
                    answer: RemoteResponse::Noted,
                    share: None,
                    used: asked.used,
                    report,
                };
                self.mail(from).replies.push(reply);
                return Ok(());
            }
            if self.ground.is_none() {
                return Err(why::ANOTHER_PHASE);
            }
            let mut part = Part::foreign(graph, transaction_of(&header), header.root, header.mode);
            part.header = header;
            self.parts.insert(graph, part);
            self.renew(graph);
            return self.take_order(from, Order { header, asked, question, share, report });
        };
        match known.cmp(&header.number) {
            std::cmp::Ordering::Greater => return Err(why::ANOTHER_ATTEMPT),
            std::cmp::Ordering::Less if !idle => return Err(why::ANOTHER_ATTEMPT),
            std::cmp::Ordering::Less => {
                self.part(graph).restart(header);
                self.renew(graph);
            }
            std::cmp::Ordering::Equal => {}
        }
        self.take_order(from, Order { header, asked, question, share, report })
    }

    /// Takes an order for the attempt that is known.
    fn take_order(&mut self, from: WorkerId, order: Order) -> Result<(), &'static str> {
        let Order { header: Header { graph, .. }, asked, question, share, report } = order;
        let part = self.part(graph);
        part.drifted |= report.drifted;
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
        self.take_on(graph, job);
        Ok(())
    }

    fn reply(&mut self, reply: OrderReply) -> Result<(), &'static str> {
        let OrderReply { graph, number, question, answer, share, used, report } = reply;
        let part = self.attempted(graph, number)?;
        let index = question.index as usize;
        if !part.find_fragment(question.fragment).is_some_and(|fragment| fragment.awaits(index)) {
            return Err(why::NOT_ASKED);
        }
        part.drifted |= report.drifted && !planted(Bug::DriftAtRootOnly);
        part.report.merge(report);
        let fragment = part.fragment(question.fragment);
        if let Some(share) = share {
            fragment.shares.add(share);
        }
        fragment.used = used;
        if fragment.answered(index, answer) {
            self.take_on(graph, Job::Resume { fragment: question.fragment });
        }
        Ok(())
    }

    fn ack(&mut self, from: WorkerId, ack: Ack) -> Result<(), &'static str> {
        let part = self.attempted(ack.graph, ack.number)?;
        let root = part.root.as_mut().ok_or(why::NOT_ROOTED)?;
        part.report.merge(ack.report);
        match ack.share {
            Some(share) => root.gathered.add(share),
            None => root.missing.remove(from),
        }
        self.conclude_if_complete(ack.graph);
        Ok(())
    }

    // What goes on.

    /// Gives a part a new attempt, if it may run.
    fn renew(&mut self, graph: GraphId) {
        let ground = self.ground.as_ref().expect("graphs run inside a phase");
        let part = self.parts.get_mut(graph).expect("a graph that something happens to is known");
        if !part.granted {
            return;
        }
        let Some(cached) = &part.cached else {
            part.fresh = true;
            return;
        };
        let attempt = ground.view.attempt(&part.transaction, &ground.state, &ground.catalog, part.header.mode);
        let overlay = self.decided.covered_by(&ground.state.layout(), &ground.catalog, &cached.footprint);
        part.attempt = Some(Box::new(attempt.fall_back(Box::new(overlay), cached.clone())));
    }

    /// The attempt of a part at which nothing runs; made, if nothing has happened here.
    fn attempt(&mut self, graph: GraphId) -> &mut Attempt {
        let part = self.parts.get_mut(graph).expect("a graph that something happens to is known");
        if std::mem::take(&mut part.fresh) {
            part.attempt = Some(fresh(self.ground.as_ref(), part).into_attempt());
        }
        part.attempt.as_mut().expect("what works here is here")
    }

    /// Does what can be done for a graph that there is one more job for.
    fn take_on(&mut self, graph: GraphId, job: Job) {
        let part = self.part(graph);
        if part.is_here() && part.jobs.is_empty() && part.agenda.is_none() {
            if !self.work(graph, job) {
                return;
            }
        } else {
            part.jobs.push_back(job);
        }
        self.run(graph);
    }

    /// Does what can be done for a graph.
    fn run(&mut self, graph: GraphId) {
        loop {
            let Some(part) = self.parts.get_mut(graph) else { return };
            if !part.is_here() {
                return;
            }
            if part.agenda.is_some() && part.jobs.is_empty() {
                match part.next_on_agenda() {
                    Some(job) => part.jobs.push_back(job),
                    None => return self.agenda_done(graph),
                }
                if part.jobs.is_empty() {
                    return;
                }
            }
            let Some(job) = part.jobs.pop_front() else { return };
            if !self.work(graph, job) {
                return;
            }
        }
    }

    /// Does a job; whether the next one may follow.
    fn work(&mut self, graph: GraphId, job: Job) -> bool {
        let part = self.parts.get_mut(graph).expect("who has a job is known");
        match job {
            Job::Wait => return false,
            Job::Serve { from, question, asked } => {
                let drifted = part.drifted;
                let attempt = self.attempt(graph);
                attempt.resume(asked.used, drifted);
                let answer = attempt.serve(asked);
                let (used, report) = (attempt.used(), self.part(graph).take_report());
                self.answer(graph, from, question, answer, None, used, report);
            }
            Job::Start { fragment, task } => match self.room.enter(part.header.mode.reserved) {
                room::Entry::Free => self.send_out(graph, fragment, task),
                room::Entry::Later => {
                    part.jobs.push_front(Job::Start { fragment, task });
                    self.waiting.push_back(graph);
                    return false;
                }
                room::Entry::Refused => {
                    part.report.refused = true;
                    self.attempt(graph);
                    let abort = Abort::new(Code::Overloaded, "too many functions wait; the transaction runs again");
                    self.progressed(graph, fragment, Progress::Done(Err(abort)));
                }
            },
            Job::Resume { fragment } => {
                self.room.resume();
                let waiting = part.fragment(fragment);
                let parked = waiting.parked.take().expect("what waits is parked");
                let answers = waiting.take_answers();
                self.send_out(graph, fragment, TaskKind::Resume { parked, answers });
            }
        }
        true
    }

    fn send_out(&mut self, graph: GraphId, fragment: u32, task: TaskKind) {
        let part = self.parts.get_mut(graph).expect("a graph that something happens to is known");
        let first = matches!(task, TaskKind::Root);
        let (used, drifted) = if first { Default::default() } else { (part.fragment(fragment).used, part.drifted) };
        part.running = Some(fragment);
        let attempt = match part.attempt.take() {
            Some(mut attempt) => {
                if !first {
                    attempt.resume(used, drifted);
                }
                AttemptSource::Existing(attempt)
            }
            None => {
                assert!(std::mem::take(&mut part.fresh), "one task at a time");
                AttemptSource::New(AttemptSeed { used, drifted, ..fresh(self.ground.as_ref(), part) })
            }
        };
        self.tasks.push(Task { graph, attempt, kind: task });
    }

    /// A task has come as far as it goes.
    fn progressed(&mut self, graph: GraphId, fragment: u32, progress: Progress) {
        let part = self.part(graph);
        let mode = part.header.mode;
        let outgoing = part.attempt.as_mut().expect("it is back").take_outgoing();
        match progress {
            Progress::Suspended(parked, ask) => {
                part.fragment(fragment).parked = Some(parked);
                self.room.park();
                for (to, target) in outgoing {
                    let share = self.part(graph).fragment(fragment).shares.halve();
                    self.call_async(graph, to, target, share, Report::default());
                }
                if mode.cached { self.part(graph).await_cached(fragment, ask) } else { self.ask(graph, fragment, ask) }
            }
            Progress::Done(result) if mode.cached => self.entry_done(graph, fragment, result),
            Progress::Done(result) => {
                let outgoing = if result.is_ok() { outgoing } else { Vec::new() };
                self.done(graph, fragment, result, outgoing);
            }
        }
    }

    fn ask(&mut self, graph: GraphId, fragment: u32, ask: RemoteRequests) {
        let part = self.part(graph);
        let header = part.header;
        part.fragment(fragment).expect_answers(ask.operations.len());
        for (index, (to, asked)) in ask.operations.into_iter().enumerate() {
            let takes_share = matches!(asked.operation, Operation::Call(_)) && !header.mode.strict;
            let share = takes_share.then(|| self.part(graph).fragment(fragment).shares.halve());
            let question = Some(Question { fragment, index: index as u32 });
            let order = Order { header, asked, question, share, report: Report::default() };
            self.mail(to).orders.push(order);
        }
    }

    /// A function that came from the root or another worker is over, with what it called here.
    fn done(&mut self, graph: GraphId, fragment: u32, result: Result<Value, Abort>, outgoing: Vec<(WorkerId, Target)>) {
        let part = self.part(graph);
        let Fragment { origin, mut shares, .. } = part.remove_fragment(fragment);
        let used = part.attempt.as_ref().expect("it is back").used();
        let strict = part.header.mode.strict;
        let mut left = shares.take();
        // What this part has done goes to the root with whatever goes there, by whatever way.
        let mut report = match origin {
            Origin::Root => Report::default(),
            _ => part.take_report(),
        };
        if !outgoing.is_empty() {
            let share = left.next().expect("who runs holds a share");
            let parts = outgoing.len();
            for ((to, target), share) in outgoing.into_iter().zip(share.split(parts)) {
                self.call_async(graph, to, target, share, std::mem::take(&mut report));
            }
        }
        match origin {
            Origin::Root => {
                let root = self.part(graph).root.as_mut().expect("it is rooted here");
                root.result = Some(result);
                left.for_each(|share| root.gathered.add(share));
                if strict {
                    root.gathered = Shares::of(Share::WHOLE);
                }
                self.conclude_if_complete(graph);
            }
            Origin::Async => {
                for share in left {
                    self.acknowledge(graph, Some(share), std::mem::take(&mut report));
                }
            }
            Origin::Awaited(from, question) => {
                let share = left.next();
                for share in left {
                    self.acknowledge(graph, Some(share), Report::default());
                }
                let answer = RemoteResponse::called(result);
                self.answer(graph, from, question, answer, share, used, report);
            }
        }
    }

    fn call_async(&mut self, graph: GraphId, to: WorkerId, target: Target, share: Share, report: Report) {
        let header = self.part(graph).header;
        let asked = target.asked();
        self.mail(to).orders.push(Order { header, asked, question: None, share: Some(share), report });
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one message")]
    fn answer(
        &mut self,
        graph: GraphId,
        to: WorkerId,
        question: Question,
        answer: RemoteResponse,
        share: Option<Share>,
        used: crate::execute::attempt::Usage,
        report: Report,
    ) {
        let number = self.part(graph).header.number;
        self.mail(to).replies.push(OrderReply { graph, number, question, answer, share, used, report });
    }

    /// Gives a share back to the root.
    fn acknowledge(&mut self, graph: GraphId, share: Option<Share>, report: Report) {
        let Header { root, number, .. } = self.part(graph).header;
        let ack = Ack { graph, number, share, report };
        if root == self.me {
            self.ack(root, ack).expect("this worker's own share comes back to it");
        } else {
            self.mail(root).acks.push(ack);
        }
    }

    fn mail(&mut self, to: WorkerId) -> &mut Mail {
        let (round, fallback) = (self.round, self.fallback);
        self.mails.entry(to).or_insert_with(|| Mail { round, fallback, ..Mail::default() })
    }

    /// If all of a graph is over: whether that counts, or it is run again.
    fn conclude_if_complete(&mut self, graph: GraphId) {
        let part = self.part(graph);
        let mode = part.header.mode;
        let root = part.root.as_ref().expect("it is rooted here");
        let complete =
            if mode.cached { root.missing.is_empty() } else { root.gathered.is_whole() && root.result.is_some() };
        if !complete {
            return;
        }
        assert!(part.is_idle(), "a graph is complete when nothing of it runs");
        let own = part.take_report();
        part.report = own;
        let report = &part.report;
        let attempt = part.attempt.as_ref().expect("it is idle");
        let overtaken = report.overtaken && !planted(Bug::OvertakenIgnored);
        let failed_beside_others = report.doomed && report.branched && !planted(Bug::FirstFailureCounts);
        let unsure = overtaken
            || failed_beside_others
            || (attempt.is_over(&report.usage) && !planted(Bug::LimitsPerWorker))
            || (mode.cached && (report.doomed || report.reached));
        let again = match () {
            () if report.refused => Mode { strict: true, cached: false, reserved: true, ..mode },
            () if report.suspect && !mode.fresh && !planted(Bug::UnconfirmedCounted) => {
                Mode { strict: true, cached: false, fresh: true, ..mode }
            }
            () if !mode.strict && unsure => Mode { strict: true, cached: false, ..mode },
            () => {
                self.room.release(graph);
                self.concluded.push(graph);
                return self.start_reserved();
            }
        };
        if again.reserved {
            self.room.line_up(graph, again);
            self.start_reserved();
        } else {
            self.run_again(graph, again)
        }
    }

    /// Lets the next graph run in the reserve, if it may. In Execute one does at a time. In the
    /// fallback they wait for each other's locks: there it is the lowest that is rooted here, since
    /// the lowest of all can always run.
    fn start_reserved(&mut self) {
        let Some(next) = self.room.next_in_line() else { return };
        let may = if self.fallback {
            self.parts.lowest(|part| part.root.is_some()) == Some(next)
        } else {
            self.room.is_reserve_free()
        };
        if may && let Some((graph, mode)) = self.room.reserve() {
            self.run_again(graph, mode);
        }
    }

    /// Runs a graph that is rooted here once more, on the same state.
    fn run_again(&mut self, graph: GraphId, mode: Mode) {
        let part = self.part(graph);
        let header = Header { number: part.header.number + 1, mode, ..part.header };
        part.restart(header);
        part.root = Some(Root::default());
        let shares = if mode.strict { Shares::default() } else { Shares::of(Share::WHOLE) };
        let fragment = part.add_fragment(Origin::Root, shares);
        part.jobs.push_back(Job::Start { fragment, task: TaskKind::Root });
        self.renew(graph);
        self.run(graph);
    }
}

/// What the attempt of a part is made of.
fn fresh(ground: Option<&Ground>, part: &Part) -> AttemptSeed {
    let ground = ground.expect("graphs run inside a phase");
    AttemptSeed {
        view: ground.view.clone(),
        transaction: part.transaction.clone(),
        state: ground.state.clone(),
        catalog: ground.catalog.clone(),
        mode: part.header.mode,
        used: Default::default(),
        drifted: false,
    }
}

fn transaction_of(header: &Header) -> Transaction {
    let request = crate::sequence::transaction::Request {
        id: header.request,
        operator: header.operator,
        function: Arc::default(),
        key: Arc::default(),
        args: Value::default(),
        retained: false,
    };
    Transaction { tid: header.tid, time: header.time, request: Arc::new(request), query: header.query }
}
