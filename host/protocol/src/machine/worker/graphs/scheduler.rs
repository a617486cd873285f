//! Scheduler of graphs: makes tasks of the jobs that come for their parts, as far as there is room, and
//! sends on what comes of them. One task of a part runs at a time.
//!
//! Nothing here waits with a bound that could deadlock: where there is no room for another
//! suspended instance, the graph is refused, completes, and is run again in a reserve.

use std::collections::VecDeque;

use super::super::ground::Ground;
use super::budget::{Budget, Entry};
use super::fragment::{Fragment, Origin};
use super::mails::Mails;
use super::part::{Job, Part, Root};
use super::parts::Parts;
use crate::abort::{Abort, Code};
use crate::commit::share::{Share, Shares};
use crate::execute::attempt::{
    Attempt, Finding, Mode, Operation, Overlay, RemoteRequests, RemoteResponse, Report, Target, Usage,
};
use crate::execute::task::{AttemptSeed, AttemptSource, GraphId, Progress, Task, TaskKind, TaskProgress};
use crate::ids::WorkerId;
use crate::state::Write;
use crate::state::entity::Value;
use crate::wire::fault::why;
use crate::wire::mail::{Ack, CachedResult, Header, Order, OrderReply, Question};

#[derive(Debug)]
pub(super) struct Scheduler {
    me: WorkerId,
    pub parts: Parts,
    pub mails: Mails,
    ground: Option<Ground>,
    /// In the fallback: writes that are decided and not yet applied.
    decided: Overlay,
    budget: Budget,
    /// Graphs with work that waits for room.
    waiting: VecDeque<GraphId>,
    tasks: Vec<Task>,
    concluded: Vec<GraphId>,
}

impl Scheduler {
    pub fn new(me: WorkerId, suspended_max: usize) -> Self {
        Scheduler {
            me,
            parts: Parts::default(),
            mails: Mails::default(),
            ground: None,
            decided: Overlay::default(),
            budget: Budget::new(suspended_max),
            waiting: VecDeque::new(),
            tasks: Vec::new(),
            concluded: Vec::new(),
        }
    }

    pub fn begin(&mut self, ground: Ground) {
        debug_assert!(self.parts.is_empty() && self.is_quiet(), "the phase before is over");
        self.ground = Some(ground);
    }

    /// Lets go of the state, once nothing runs.
    pub fn end(&mut self) {
        assert!(self.is_quiet(), "nothing runs when a phase ends");
        self.ground = None;
    }

    pub fn is_quiet(&self) -> bool {
        // What a task is for runs from when the task was made.
        self.budget.is_quiet()
    }

    /// What graphs run on; none between phases.
    pub fn ground(&self) -> Option<&Ground> {
        self.ground.as_ref()
    }

    pub fn under_way(&self) -> usize {
        self.budget.under_way()
    }

    pub fn take_tasks(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    pub fn take_concluded(&mut self) -> Vec<GraphId> {
        std::mem::take(&mut self.concluded)
    }

    pub fn take_decided(&mut self) -> Overlay {
        std::mem::take(&mut self.decided)
    }

    /// In the fallback: a write is decided.
    pub fn apply(&mut self, write: Write) {
        self.decided.apply(write);
    }

    pub fn part(&mut self, graph: GraphId) -> &mut Part {
        self.parts.get_mut(graph).expect("a graph that something happens to is known")
    }

    // What comes.

    /// The part of a graph at an attempt that a peer speaks of.
    pub fn attempted(&mut self, graph: GraphId, number: u32) -> Result<&mut Part, &'static str> {
        let part = self.parts.get_mut(graph).ok_or(why::UNKNOWN_GRAPH)?;
        if part.header.number == number { Ok(part) } else { Err(why::ANOTHER_ATTEMPT) }
    }

    pub fn ack(&mut self, from: WorkerId, ack: Ack) -> Result<(), &'static str> {
        let part = self.attempted(ack.graph, ack.number)?;
        let fits = ack.share.is_none_or(|share| part.admits(share));
        let root = part.root.as_mut().ok_or(why::NOT_ROOTED)?;
        match (ack.share, part.header.mode) {
            (Some(share), Mode::Parallel) if fits => root.gathered.add(share),
            (None, Mode::Cached) if root.missing.contains(from) => root.missing.remove(from),
            _ => return Err(why::SHARES),
        }
        part.report.merge(ack.report);
        self.conclude_if_complete(ack.graph);
        Ok(())
    }

    /// Another worker's function is over for which one here may wait.
    pub fn cached_result(&mut self, result: CachedResult) {
        let Some(part) = self.parts.get_mut(result.graph) else { return };
        if part.header.number == result.number && part.has_agenda() && result.answer.may_end_call() {
            part.agenda().keep(result.place, result.answer);
            self.run(result.graph);
        }
    }

    /// Tasks have come back from the execution threads.
    pub fn advanced(&mut self, advanced: Vec<TaskProgress>) {
        for TaskProgress { graph, attempt, progress } in advanced {
            self.budget.came_back();
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

    // What goes on.

    /// Gives a part a new attempt, if it may run.
    pub fn renew(&mut self, graph: GraphId) {
        let ground = self.ground.as_ref().expect("graphs run inside a phase");
        let part = self.parts.get_mut(graph).expect("a graph that something happens to is known");
        if !part.granted {
            return;
        }
        let Some(cached) = &part.cached else {
            part.fresh = true;
            return;
        };
        let attempt = ground.view().attempt(&part.transaction, ground.state(), ground.catalog(), part.header.mode);
        let overlay = self.decided.covered_by(&ground.state().layout(), ground.catalog(), &cached.footprint);
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
    pub fn take_on(&mut self, graph: GraphId, job: Job) {
        let part = self.part(graph);
        if part.is_here() && part.jobs.is_empty() && !part.has_agenda() {
            if !self.work(graph, job) {
                return;
            }
        } else {
            part.jobs.push_back(job);
        }
        self.run(graph);
    }

    /// Does what can be done for a graph.
    pub fn run(&mut self, graph: GraphId) {
        loop {
            let Some(part) = self.parts.get_mut(graph) else { return };
            if !part.is_here() {
                return;
            }
            if part.has_agenda() && part.jobs.is_empty() {
                match part.next_on_agenda() {
                    Some(job) => part.jobs.push_back(job),
                    None => return self.agenda_done(graph),
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
                self.conclude_if_complete(graph);
            }
            Job::Start { fragment, task } => match self.budget.enter(part.header.mode.is_reserved()) {
                Entry::Free => self.send_out(graph, fragment, task),
                Entry::Later => {
                    part.jobs.push_front(Job::Start { fragment, task });
                    self.waiting.push_back(graph);
                    return false;
                }
                Entry::Refused => {
                    part.report.add(Finding::Refused);
                    self.attempt(graph);
                    let abort = Abort::new(Code::Overloaded, "too many functions wait; the transaction runs again");
                    self.progressed(graph, fragment, Progress::Done(Err(abort)));
                }
            },
            Job::Resume { fragment } => {
                self.budget.resume();
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
    pub fn progressed(&mut self, graph: GraphId, fragment: u32, progress: Progress) {
        let part = self.part(graph);
        let mode = part.header.mode;
        let outgoing = part.attempt.as_mut().expect("it is back").take_outgoing();
        match progress {
            Progress::Suspended(parked, ask) => {
                part.fragment(fragment).parked = Some(parked);
                self.budget.park();
                for (to, target) in outgoing {
                    let share = self.part(graph).fragment(fragment).shares.halve();
                    self.call_async(graph, to, target, share, Report::default());
                }
                if mode.is_cached() {
                    self.part(graph).agenda().block(fragment, ask)
                } else {
                    self.ask(graph, fragment, ask)
                }
            }
            Progress::Done(result) if mode.is_cached() => self.entry_done(graph, fragment, result),
            Progress::Done(result) => {
                let outgoing = if result.is_ok() { outgoing } else { Vec::new() };
                self.done(graph, fragment, result, outgoing);
            }
        }
    }

    fn ask(&mut self, graph: GraphId, fragment: u32, ask: RemoteRequests) {
        let part = self.part(graph);
        let header = part.header;
        let calls = ask.operations.iter().any(|(_, asked)| matches!(asked.operation, Operation::Call(_)));
        part.fragment(fragment).expect_answers(ask.operations.len(), calls);
        for (index, (to, asked)) in ask.operations.into_iter().enumerate() {
            let takes_share = matches!(asked.operation, Operation::Call(_)) && !header.mode.is_strict();
            let share = takes_share.then(|| self.part(graph).fragment(fragment).shares.halve());
            let question = Some(Question { fragment, index: index as u32 });
            let order = Order { header, asked, question, share, report: Report::default() };
            self.mails.to(to).orders.push(order);
        }
    }

    /// A function that came from the root or another worker is over, with what it called here.
    fn done(&mut self, graph: GraphId, fragment: u32, result: Result<Value, Abort>, outgoing: Vec<(WorkerId, Target)>) {
        let part = self.part(graph);
        let Fragment { origin, mut shares, .. } = part.remove_fragment(fragment);
        let used = part.attempt.as_ref().expect("it is back").used();
        let strict = part.header.mode.is_strict();
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
                self.conclude_if_complete(graph);
            }
        }
    }

    /// A function of the agenda is over.
    fn entry_done(&mut self, graph: GraphId, fragment: u32, result: Result<Value, Abort>) {
        let part = self.part(graph);
        part.remove_fragment(fragment);
        let entry = part.agenda().end(fragment);
        let number = part.header.number;
        match entry.issuer {
            None => part.root.as_mut().expect("the root has no issuer").result = Some(result),
            Some(issuer) => {
                let (place, answer) = (entry.target.place, RemoteResponse::called(result));
                self.mails.to(issuer).results.push(CachedResult { graph, number, place, answer });
            }
        }
    }

    /// All of the agenda is done: the root is told, once.
    fn agenda_done(&mut self, graph: GraphId) {
        let part = self.part(graph);
        if part.agenda().tell() {
            let report = part.take_report();
            self.acknowledge(graph, None, report);
        }
    }

    fn call_async(&mut self, graph: GraphId, to: WorkerId, target: Target, share: Share, report: Report) {
        let header = self.part(graph).header;
        let asked = target.asked();
        self.mails.to(to).orders.push(Order { header, asked, question: None, share: Some(share), report });
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one message")]
    fn answer(
        &mut self,
        graph: GraphId,
        to: WorkerId,
        question: Question,
        answer: RemoteResponse,
        share: Option<Share>,
        used: Usage,
        report: Report,
    ) {
        let number = self.part(graph).header.number;
        self.mails.to(to).replies.push(OrderReply { graph, number, question, answer, share, used, report });
    }

    /// Gives a share back to the root.
    fn acknowledge(&mut self, graph: GraphId, share: Option<Share>, report: Report) {
        let Header { root, number, .. } = self.part(graph).header;
        let ack = Ack { graph, number, share, report };
        if root == self.me {
            self.ack(root, ack).expect("this worker's own share comes back to it");
        } else {
            self.mails.to(root).acks.push(ack);
        }
    }

    /// If all of a graph is over: whether that counts, or it is run again.
    fn conclude_if_complete(&mut self, graph: GraphId) {
        let part = self.part(graph);
        if !part.is_complete() {
            return;
        }
        part.report = part.take_report();
        match part.again() {
            Some(mode) if mode.is_reserved() => self.budget.line_up(graph, mode),
            Some(mode) => return self.run_again(graph, mode),
            None => {
                self.budget.release(graph);
                self.concluded.push(graph);
            }
        }
        self.start_reserved();
    }

    /// Lets the next graph run in the reserve, if it may. In Execute one does at a time. In the
    /// fallback they wait for each other's locks: there it is the lowest that is rooted here, since
    /// the lowest of all can always run.
    pub fn start_reserved(&mut self) {
        let Some(next) = self.budget.next_in_line() else { return };
        let may = if self.mails.phase().fallback {
            self.parts.lowest(|part| part.root.is_some()) == Some(next)
        } else {
            self.budget.is_reserve_free()
        };
        if may && let Some((graph, mode)) = self.budget.reserve() {
            self.run_again(graph, mode);
        }
    }

    /// Runs a graph that is rooted here once more, on the same state.
    fn run_again(&mut self, graph: GraphId, mode: Mode) {
        let part = self.part(graph);
        let header = Header { number: part.header.number + 1, mode, ..part.header };
        part.restart(header);
        part.root = Some(Root::default());
        debug_assert!(mode.is_strict(), "there is one thread of control, which needs no shares");
        let fragment = part.add_fragment(Origin::Root, Shares::default());
        part.jobs.push_back(Job::Start { fragment, task: TaskKind::Root });
        self.renew(graph);
        self.run(graph);
    }
}

/// What the attempt of a part is made of.
fn fresh(ground: Option<&Ground>, part: &Part) -> AttemptSeed {
    let ground = ground.expect("graphs run inside a phase");
    AttemptSeed {
        view: ground.view().clone(),
        transaction: part.transaction.clone(),
        state: ground.state().clone(),
        catalog: ground.catalog().clone(),
        mode: part.header.mode,
        used: Default::default(),
        drifted: false,
    }
}
