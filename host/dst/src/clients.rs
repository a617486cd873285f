//! Clients: some requests in flight each, retries under the same key, receipts and later questions.

use std::sync::Arc;

use styx_driver::client::Failure;
use styx_driver::wire::AdminQuery;
use styx_protocol::abort::Code;
use styx_protocol::control::{Activation, Control};
use styx_protocol::deployment::Digest;
use styx_protocol::ids::{OperatorId, RequestId, Timestamp};
use styx_protocol::origin::Origin;
use styx_protocol::quarantine::Subject;
use styx_protocol::replies::Reply;
use styx_protocol::token::{Grant, Token};
use styx_protocol::transaction::Request;

use crate::check::history::{Attempt, Kind, TrackedRequest, refused};
use crate::environment::Environment;
use crate::event::{Event, Message, Response};
use crate::records::{Content, Record};
use crate::toy::{self, Lists};

/// The longest that a client waits for an answer, unless its plan has it wait longer.
const PATIENCE_MAX: u64 = 30_000_000;

/// One request at a time of a client.
#[derive(Debug, Default)]
struct Slot {
    /// The attempt whose answer it waits for.
    current: Option<usize>,
    /// Its next request, and how it will be sent.
    todo: Option<(usize, Kind)>,
    /// Attempts at this request that have failed.
    tries: u32,
    /// Times that it was refused, or served by nobody, one after the other.
    refusals: u32,
    /// It has nothing left to ask.
    finished: bool,
}

/// All clients, and the administrator.
#[derive(Debug)]
pub struct Clients {
    slots: Vec<Slot>,
    left: u64,
    /// Requests whose key is known, for later.
    keyed: Vec<usize>,
    next_id: u128,
    next_deployment: u64,
    /// Records that are still to be sent, and those that were, by their places in the history.
    to_send: u64,
    sent: Vec<(usize, usize)>,
    /// Requests that come from records, by partition of their topic.
    records: [Vec<usize>; 2],
    answers: u64,
    /// Programs whose histories others can judge, if these are wanted.
    lists: Option<Lists>,
}

impl Clients {
    /// Clients that are about to start; the last slots are the administrator's.
    pub fn new(environment: &mut Environment) -> Self {
        let count = environment.plan.slots;
        for slot in 0..count {
            environment.after(0, Event::Wake(slot));
        }
        let lists = environment.plan.workload.map(|_| Lists::new(&mut environment.random));
        let slots = (0..count).map(|_| Slot::default()).collect();
        let mut clients = Clients {
            slots,
            left: environment.plan.requests,
            keyed: Vec::new(),
            next_id: 0,
            next_deployment: 0,
            to_send: environment.plan.records.map_or(0, |records| records.count),
            sent: Vec::new(),
            records: Default::default(),
            answers: 0,
            lists,
        };
        if environment.plan.records.is_some() {
            environment.after(0, Event::Produce);
            environment.after(0, Event::ReviewGroup);
        }
        clients.deploy(environment);
        clients
    }

    /// Whether no further requests will be made.
    pub fn are_spent(&self) -> bool {
        self.left == 0 && self.to_send == 0
    }

    /// Whether everybody has had the last answer.
    pub fn are_done(&self) -> bool {
        self.to_send == 0 && self.slots.iter().all(|slot| slot.finished)
    }

    /// Some client sends a record.
    pub fn produce(&mut self, environment: &mut Environment) {
        let Some(plan) = environment.plan.records else { return };
        if self.to_send == 0 {
            return;
        }
        self.to_send -= 1;
        let repeats = !self.sent.is_empty() && environment.random.chance(plan.repeated);
        let what = if environment.random.chance(plan.nonsense) {
            let request = self.request(environment.operators, true, false, environment);
            let of = environment.random.chance(700).then(|| self.ask(request, environment));
            Content::Nonsense(of)
        } else if repeats {
            let (of, operator) = environment.random.pick(&self.sent);
            Content::Request(of, operator)
        } else {
            let query = environment.random.chance(100);
            let operators = environment.operators;
            let request = self.request(operators, true, query, environment);
            let operator = usize::from(environment.random.chance(500));
            let of = self.ask(request, environment);
            self.sent.push((of, operator));
            Content::Request(of, operator)
        };
        let is_long = environment.random.chance(plan.long);
        if environment.brokers.partitions() < plan.partitions_max && environment.random.chance(30) {
            environment.brokers.grow();
        }
        let partition = environment.random.below(environment.brokers.partitions() as u64) as usize;
        let place = environment.brokers.append(partition, Record { what, is_long });
        let now = environment.queue.now();
        environment.trace.event(now, [30, partition as u64, place.offset as u64], || format!("{place:?} is {what:?}"));
        let delay = environment.random.between(plan.pause.0, plan.pause.1);
        environment.after(delay, Event::Produce);
    }

    /// Replies and receipts that clients were given.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Attempts that wait for an answer.
    pub fn waiting(&self) -> Vec<usize> {
        self.slots.iter().filter_map(|slot| slot.current).collect()
    }

    /// What is left to be asked, for people.
    pub fn unfinished(&self) -> String {
        let unfinished = self.slots.iter().enumerate().filter(|(_, slot)| !slot.finished);
        let mut all: Vec<String> = unfinished.map(|(at, slot)| format!("{at}: {slot:?}")).collect();
        all.truncate(5);
        all.join("; ")
    }

    /// The node that a slot speaks to: mostly the same gateway.
    fn node(slot: usize, message: &Message, environment: &mut Environment) -> usize {
        let cluster = &environment.plan.cluster;
        if cluster.workers == 0 {
            return 0;
        }
        let first = 1 + cluster.workers + usize::from(cluster.foreign_engine);
        let gateways = cluster.gateways;
        match message {
            Message::Control(_) => coordinator(environment),
            Message::Look(_) if environment.random.chance(200) => coordinator(environment),
            _ if environment.random.chance(50) => first + environment.random.below(gateways as u64) as usize,
            _ => first + slot % gateways,
        }
    }

    /// A slot may go on.
    pub fn wake(&mut self, at: usize, environment: &mut Environment) {
        let operators = environment.operators;
        let slot = &mut self.slots[at];
        if slot.current.is_some() || slot.finished {
            return;
        }
        let todo = match slot.todo.take() {
            Some(todo) => Some(todo),
            None if at >= environment.plan.slots || self.left == 0 => None,
            None => {
                self.left -= 1;
                Some(self.choose(operators, environment))
            }
        };
        match todo {
            Some((of, kind)) => self.submit(at, of, kind, environment),
            None => self.slots[at].finished = true,
        }
    }

    /// Chooses the next request.
    fn choose(&mut self, operators: [OperatorId; 2], environment: &mut Environment) -> (usize, Kind) {
        if environment.plan.looks > 0 && environment.random.chance(environment.plan.looks) {
            // It is not a request of anybody's, and is told from those by its kind.
            let request = self.request(operators, false, true, environment);
            return (self.ask(request, environment), Kind::Look);
        }
        let choice = environment.random.weighted(&environment.plan.mix);
        let earlier = match self.keyed.len() as u64 {
            0 => None,
            // Mostly a recent one: it may still be under way.
            len if environment.random.chance(600) => Some((len - 1 - environment.random.below(len.min(8))) as usize),
            len => Some(environment.random.below(len) as usize),
        };
        let earlier = earlier.map(|at| self.keyed[at]);
        let again = |random: &mut crate::random::Random| random.pick(&[Kind::Update, Kind::Update, Kind::Send]);
        match (choice, earlier) {
            (4, Some(of)) => (of, again(&mut environment.random)),
            // A record has its id to itself.
            (5, Some(of)) if environment.history.requests[of].request.origin.is_none() => {
                let mut other = self.request(operators, true, false, environment);
                other.id = environment.history.requests[of].request.id;
                (self.ask(other, environment), again(&mut environment.random))
            }
            (6, Some(of)) => (of, Kind::Await),
            (choice, _) => {
                let (retained, query) = (matches!(choice, 1 | 2), choice == 3);
                let mut request = self.request(operators, retained, query, environment);
                if retained && environment.random.chance(300) {
                    request.origin = Some(Box::new(self.record(environment)));
                }
                let of = self.ask(request, environment);
                let kind = match choice {
                    2 => Kind::Send,
                    3 => Kind::Query,
                    _ => Kind::Update,
                };
                if retained {
                    self.keyed.push(of);
                }
                (of, kind)
            }
        }
    }

    fn request(
        &mut self,
        operators: [OperatorId; 2],
        retained: bool,
        query: bool,
        environment: &mut Environment,
    ) -> Request {
        let Environment { random, plan, .. } = environment;
        // Ids come in no order, as hashes of keys do.
        self.next_id += 1;
        let id = RequestId(u128::from(random.number()) << 64 | self.next_id);
        let pure = if query { !random.chance(30) } else { random.chance(80) };
        let snapshot = plan.snapshots > 0 && random.chance(plan.snapshots);
        let read_only = query || random.chance(20);
        let function = if read_only { 1 } else { 2 * usize::from(snapshot) };
        let shape = &plan.shape;
        let code = match (&mut self.lists, plan.workload) {
            (Some(lists), Some(workload)) => lists.program(random, workload, pure || read_only),
            _ => shape.program(random, pure),
        };
        Request {
            id,
            operator: random.pick(&operators),
            function: toy::FUNCTIONS[function].into(),
            key: toy::keys::name(u64::from(shape.key(random))).into(),
            args: toy::args(random.below(4) as u8, shape.keys, &code).into(),
            retained,
            origin: None,
        }
    }

    /// The next record of a topic. Those before it that have been told their end are answered.
    fn record(&mut self, environment: &mut Environment) -> Origin {
        let requests = &environment.history.requests;
        let partition = environment.random.below(self.records.len() as u64) as usize;
        let records = &mut self.records[partition];
        let answered = |of: &&usize| requests[**of].told.iter().any(|(_, reply)| !refused(reply));
        let answered = records.iter().take_while(answered).count() as u64;
        records.push(requests.len());
        Origin { topic: 1, partition: partition as u32, offset: records.len() as u64 - 1, answered }
    }

    fn ask(&mut self, request: Request, environment: &mut Environment) -> usize {
        let submitted = environment.queue.now();
        let tracked = TrackedRequest { request: Arc::new(request), submitted, told: Vec::new(), accepted: None };
        environment.poison.may_be(environment.plan.poison, &tracked.request, &mut environment.random);
        environment.history.requests.push(tracked);
        environment.history.requests.len() - 1
    }

    fn submit(&mut self, slot: usize, of: usize, kind: Kind, environment: &mut Environment) {
        let attempt = environment.history.attempts.len();
        let request = || environment.history.requests[of].request.clone();
        let message = match kind {
            Kind::Update => Message::Submit(request(), false),
            Kind::Send => Message::Submit(request(), true),
            Kind::Query => Message::Query(request()),
            Kind::Await => Message::Await(request().id),
            Kind::Control => Message::Control(environment.history.controls[of].0.clone()),
            Kind::Look => Message::Look(look(&request(), &mut environment.random)),
        };
        let node = Clients::node(slot, &message, environment);
        let known = match kind {
            Kind::Await => environment.history.is_known(of, &environment.checker, environment.durable),
            _ => None,
        };
        let query = match &message {
            Message::Look(query) => Some((query.clone(), environment.history.told)),
            _ => None,
        };
        environment.history.attempts.push(Attempt { kind, of, query, node, slot, answered: false, lost: false, known });
        let now = environment.queue.now();
        environment.trace.event(now, [9, attempt as u64, kind as u64, of as u64], || match &message {
            Message::Submit(request, _) | Message::Query(request) => format!(
                "{attempt}: slot {slot} to n{node} {kind:?} {} operator {} {} {}: {}",
                request.id,
                request.operator,
                request.function,
                request.key,
                toy::show(&request.args[2..])
            ),
            other => format!("{attempt}: slot {slot} to n{node} {kind:?} {other:?}"),
        });
        self.slots[slot].current = Some(attempt);
        let Environment { random, plan, queue, .. } = environment;
        if !environment.calm && random.chance(plan.loss) {
            environment.figures.lost += 1;
            environment.history.attempts[attempt].lost = true;
        } else {
            let delay = random.between(plan.network.0, plan.network.1);
            queue.after(random, delay, Event::Message(node, attempt, message));
        }
        let patience = random.between(plan.timeout.0, plan.timeout.1) << self.slots[slot].tries.min(4);
        let patience = patience.min(PATIENCE_MAX.max(plan.timeout.1));
        queue.after(random, patience, Event::Timeout(attempt));
    }

    /// An answer arrives, whether or not somebody still waits for it.
    pub fn answered(&mut self, attempt: usize, answer: Response, environment: &mut Environment) {
        let now = environment.queue.now();
        let &Attempt { kind, of, slot, .. } = &environment.history.attempts[attempt];
        match &answer {
            Response::Reply(reply) => {
                self.answers += 1;
                environment.history.told = environment.history.told.max(reply.epoch);
                environment.history.requests[of].told.push((now, reply.clone()));
            }
            Response::Accepted => {
                self.answers += 1;
                environment.history.requests[of].accepted.get_or_insert(now);
            }
            Response::Controlled(Ok(())) => environment.history.controls[of].1 = true,
            Response::Seen(_) => self.answers += 1,
            Response::Controlled(Err(_)) | Response::Unknown | Response::Broken | Response::Failed(_) => {}
        }
        if self.slots[slot].current != Some(attempt) {
            return;
        }
        self.slots[slot].current = None;
        // As clients must: who is refused again and again asks less and less often.
        let refused = match &answer {
            Response::Reply(reply) => overloaded(reply),
            Response::Failed(failure) => {
                matches!(failure, Failure::Unavailable | Failure::DiskFull | Failure::LogStalled)
            }
            _ => false,
        };
        let refusals = if refused { (self.slots[slot].refusals + 1).min(7) } else { 0 };
        self.slots[slot].refusals = refusals;
        let (todo, delay) = match answer {
            Response::Reply(_) if refused => (Some((of, kind)), environment.random.between(500, 10_000 << refusals)),
            Response::Accepted if environment.random.chance(700) => (Some((of, Kind::Await)), 0),
            Response::Broken => return self.retry(slot, of, kind, environment),
            // Nothing has happened: anything may be asked again.
            Response::Failed(_) if refused => (Some((of, kind)), environment.random.between(0, 15_000 << refusals)),
            Response::Controlled(Err(abort)) if abort.code == Code::Overloaded => {
                (Some((of, kind)), environment.random.between(0, 300_000))
            }
            Response::Failed(Failure::OutcomeUnknown) => return self.retry(slot, of, kind, environment),
            _ => (None, 0),
        };
        self.slots[slot].todo = todo;
        self.slots[slot].tries = 0;
        let think = environment.plan.think;
        let delay = delay + environment.random.between(think.0, think.1);
        environment.queue.after(&mut environment.random, delay, Event::Wake(slot));
    }

    /// Faults have stopped: nobody is patient any more who waits for what was lost.
    pub fn calm(&mut self, environment: &mut Environment) {
        for attempt in self.waiting() {
            if environment.history.attempts[attempt].lost {
                let delay = environment.random.between(0, CALM_PATIENCE);
                environment.after(delay, Event::Timeout(attempt));
            }
        }
    }

    /// A client's patience ends. Without faults, nobody need lose it.
    pub fn timed_out(&mut self, attempt: usize, environment: &mut Environment) {
        let &Attempt { kind, of, slot, lost, .. } = &environment.history.attempts[attempt];
        // A look that nobody answers in time is given up, by a gateway too.
        if self.slots[slot].current == Some(attempt) && (lost || !environment.calm || kind == Kind::Look) {
            self.slots[slot].current = None;
            self.retry(slot, of, kind, environment);
        }
    }

    /// Sends the request again if that is safe; otherwise gives it up, its outcome unknown.
    fn retry(&mut self, slot: usize, of: usize, kind: Kind, environment: &mut Environment) {
        let safe = match kind {
            Kind::Update => environment.history.requests[of].request.retained,
            Kind::Send | Kind::Await | Kind::Control => true,
            Kind::Query | Kind::Look => false,
        };
        self.slots[slot].todo = safe.then_some((of, kind));
        self.slots[slot].tries += 1;
        let delay = environment.random.between(0, 20_000 << self.slots[slot].tries.min(6));
        environment.queue.after(&mut environment.random, delay, Event::Wake(slot));
    }

    /// The administrator deploys a new version.
    pub fn deploy(&mut self, environment: &mut Environment) {
        self.next_deployment += 1;
        self.control(Control::Rekey(toy::rekeyed(self.next_deployment)), environment);
    }

    /// The administrator deploys a version whose operators have their keys the other way about.
    pub fn rekey(&mut self, environment: &mut Environment) {
        self.next_deployment += 2 - (self.next_deployment % 3);
        self.deploy(environment);
    }

    /// The administrator has something executed again that was set aside.
    pub fn release(&mut self, subject: Subject, environment: &mut Environment) {
        environment.poison.mend(&subject);
        self.control(Control::Release(subject), environment);
    }

    /// The administrator changes something.
    pub fn administer(&mut self, environment: &mut Environment) {
        if environment.plan.poison.is_some() && environment.random.chance(200) {
            let quarantined = environment.poison.set_aside(toy::APP);
            let delay = environment.random.between(0, 200_000);
            environment.after(delay, Event::Release(quarantined.subject.clone()));
            return self.control(Control::Quarantine(quarantined), environment);
        }
        match environment.random.below(12) {
            0..6 => self.deploy(environment),
            10 => {
                let token = token(environment.random.below(TOKENS));
                self.control(Control::Issue(token), environment);
            }
            11 => {
                let id = token(environment.random.below(TOKENS)).id;
                self.control(Control::Revoke(id), environment);
            }
            6..=8 => {
                let deployment = format!("dp_{}", environment.random.between(1, self.next_deployment));
                self.control(Control::RekeyTo(Activation { app: toy::APP.into(), deployment }), environment);
            }
            _ => {
                self.control(Control::Remove(toy::APP.into()), environment);
                let delay = environment.random.between(0, 6_000);
                environment.queue.after(&mut environment.random, delay, Event::Deploy);
            }
        }
    }

    fn control(&mut self, control: Control, environment: &mut Environment) {
        environment.history.controls.push((control, false));
        let todo = Some((environment.history.controls.len() - 1, Kind::Control));
        self.slots.push(Slot { todo, ..Slot::default() });
        environment.queue.after(&mut environment.random, 0, Event::Wake(self.slots.len() - 1));
    }
}

/// How long a client still waits for what was lost once faults have stopped, in microseconds.
const CALM_PATIENCE: u64 = 500_000;

/// Tokens that there can be.
const TOKENS: u64 = 4;

fn token(number: u64) -> Token {
    Token {
        id: format!("tk_{number}"),
        name: "a client".into(),
        digest: Digest([number as u8; 32]),
        grant: Grant::all(),
        created: Timestamp(0),
        expires: None,
    }
}

/// Some coordinator: one that stands by says so.
fn coordinator(environment: &mut Environment) -> usize {
    let all: Vec<usize> = environment.plan.coordinators().collect();
    environment.random.pick(&all)
}

fn overloaded(reply: &Reply) -> bool {
    refused(reply) && matches!(&reply.outcome, Err(abort) if abort.code == Code::Overloaded)
}

/// A look at the entity that a request is for, or at those beside it.
fn look(request: &Request, random: &mut crate::random::Random) -> AdminQuery {
    let operator = request.operator.0;
    match random.below(4) {
        0 => AdminQuery::Workers,
        1 => AdminQuery::Scan { operator, prefix: String::new(), after: None, limit: 20, bytes: 1 << 20 },
        _ => AdminQuery::Get { operator, key: request.key.to_string() },
    }
}
