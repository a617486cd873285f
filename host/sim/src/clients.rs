//! Clients: some requests in flight each, retries under the same key, receipts and later questions.

use std::sync::Arc;

use styx_protocol::abort::Code;
use styx_protocol::catalog::{Activation, Control};
use styx_protocol::ids::{OperatorId, RequestId};
use styx_protocol::replies::Reply;
use styx_protocol::route::{memory_of, sequencer_of};
use styx_protocol::transaction::Request;

use crate::check::testimony::{Asked, Attempt, Kind, refused};
use crate::node::{Answer, Message, Outside};
use crate::toy::{self, Lists};
use crate::world::Event;

/// What one slot of a client is doing.
#[derive(Debug, Default)]
struct Slot {
    /// The attempt whose answer it waits for.
    current: Option<usize>,
    /// What it will ask next: what for, and how.
    todo: Option<(usize, Kind)>,
    /// How often it has asked for this in vain.
    tries: u32,
    /// Times that it was refused for too much that waits, one after the other.
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
    answers: u64,
    /// Programs whose histories others can judge, if these are wanted.
    lists: Option<Lists>,
}

impl Clients {
    /// Clients that are about to start; the last slots are the administrator's.
    pub fn new(outside: &mut Outside) -> Self {
        let count = outside.plan.slots;
        for slot in 0..count {
            outside.queue.after(&mut outside.random, 0, Event::Wake(slot));
        }
        let lists = outside.plan.workload.map(|_| Lists::new(&mut outside.random));
        let slots = (0..count).map(|_| Slot::default()).collect();
        let mut clients = Clients {
            slots,
            left: outside.plan.requests,
            keyed: Vec::new(),
            next_id: 0,
            next_deployment: 0,
            answers: 0,
            lists,
        };
        clients.deploy(outside);
        clients
    }

    /// Whether no further requests will be made.
    pub fn are_spent(&self) -> bool {
        self.left == 0
    }

    /// Whether everybody has had the last answer.
    pub fn are_done(&self) -> bool {
        self.slots.iter().all(|slot| slot.finished)
    }

    /// Replies and receipts that clients were given.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Attempts that wait for an answer.
    pub fn waiting(&self) -> Vec<usize> {
        self.slots.iter().filter_map(|slot| slot.current).collect()
    }

    /// The node that a slot speaks to, as its gateway believes.
    fn node(&self, slot: usize, message: &Message, outside: &mut Outside) -> usize {
        if outside.plan.cluster.workers == 0 {
            return 0;
        }
        if matches!(message, Message::Control(_)) {
            return outside.gateways.coordinator;
        }
        let view = outside.gateways.views[slot % outside.gateways.views.len()];
        let Some(generation) = view.and_then(|view| outside.generations.get(&view)) else {
            return outside.random.between(1, outside.plan.cluster.workers as u64) as usize;
        };
        let placement = &generation.placement;
        if outside.plan.cluster.misdirected > 0 && outside.random.chance(outside.plan.cluster.misdirected) {
            let any = outside.random.below(generation.members.len() as u64);
            return generation.members[any as usize];
        }
        let worker = match message {
            Message::Submit(request, _) | Message::Query(request) => {
                sequencer_of(request, &outside.plan.config.layout, &outside.gateways.catalog, placement)
            }
            Message::Await(id) => memory_of(*id, placement),
            Message::Control(_) => unreachable!("just seen"),
        };
        generation.members[usize::from(worker.0)]
    }

    /// A slot may go on.
    pub fn wake(&mut self, at: usize, outside: &mut Outside) {
        let operators = outside.gateways.operators;
        let slot = &mut self.slots[at];
        if slot.current.is_some() || slot.finished {
            return;
        }
        let todo = match slot.todo.take() {
            Some(todo) => Some(todo),
            None if at >= outside.plan.slots || self.left == 0 => None,
            None => {
                self.left -= 1;
                Some(self.choose(operators, outside))
            }
        };
        match todo {
            Some((of, kind)) => self.submit(at, of, kind, outside),
            None => self.slots[at].finished = true,
        }
    }

    /// What to ask next.
    fn choose(&mut self, operators: [OperatorId; 2], outside: &mut Outside) -> (usize, Kind) {
        let choice = outside.random.weighted(&outside.plan.mix);
        let earlier = match self.keyed.len() as u64 {
            0 => None,
            // Mostly a recent one: it may still be under way.
            len if outside.random.chance(600) => Some((len - 1 - outside.random.below(len.min(8))) as usize),
            len => Some(outside.random.below(len) as usize),
        };
        let earlier = earlier.map(|at| self.keyed[at]);
        let again = |random: &mut crate::random::Random| random.pick(&[Kind::Update, Kind::Update, Kind::Send]);
        match (choice, earlier) {
            (4, Some(of)) => (of, again(&mut outside.random)),
            (5, Some(of)) => {
                let mut other = self.request(operators, true, false, outside);
                other.id = outside.testimony.asked[of].request.id;
                (self.ask(other, outside), again(&mut outside.random))
            }
            (6, Some(of)) => (of, Kind::Await),
            (choice, _) => {
                let (retained, query) = (matches!(choice, 1 | 2), choice == 3);
                let request = self.request(operators, retained, query, outside);
                let of = self.ask(request, outside);
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

    fn request(&mut self, operators: [OperatorId; 2], retained: bool, query: bool, outside: &mut Outside) -> Request {
        let Outside { random, plan, .. } = outside;
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
        }
    }

    fn ask(&mut self, request: Request, outside: &mut Outside) -> usize {
        let submitted = outside.queue.now();
        let asked = Asked { request: Arc::new(request), submitted, told: Vec::new(), accepted: None };
        outside.testimony.asked.push(asked);
        outside.testimony.asked.len() - 1
    }

    fn submit(&mut self, slot: usize, of: usize, kind: Kind, outside: &mut Outside) {
        let attempt = outside.testimony.attempts.len();
        let request = || outside.testimony.asked[of].request.clone();
        let message = match kind {
            Kind::Update => Message::Submit(request(), false),
            Kind::Send => Message::Submit(request(), true),
            Kind::Query => Message::Query(request()),
            Kind::Await => Message::Await(request().id),
            Kind::Control => Message::Control(outside.testimony.controls[of].0.clone()),
        };
        let node = self.node(slot, &message, outside);
        outside.testimony.attempts.push(Attempt { kind, of, node, slot, answered: false, lost: false });
        let now = outside.queue.now();
        outside.trace.event(now, [9, attempt as u64, kind as u64, of as u64], || match &message {
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
        let Outside { random, plan, queue, .. } = outside;
        if !outside.calm && random.chance(plan.loss) {
            outside.figures.lost += 1;
            outside.testimony.attempts[attempt].lost = true;
        } else {
            let delay = random.between(plan.network.0, plan.network.1);
            queue.after(random, delay, Event::Message(node, attempt, message));
        }
        let patience = random.between(plan.timeout.0, plan.timeout.1) << self.slots[slot].tries.min(4);
        queue.after(random, patience, Event::Timeout(attempt));
    }

    /// An answer arrives, whether or not somebody still waits for it.
    pub fn answered(&mut self, attempt: usize, answer: Answer, outside: &mut Outside) {
        let now = outside.queue.now();
        let &Attempt { kind, of, slot, .. } = &outside.testimony.attempts[attempt];
        match &answer {
            Answer::Reply(reply) => {
                self.answers += 1;
                outside.testimony.asked[of].told.push((now, reply.clone()));
            }
            Answer::Accepted => {
                self.answers += 1;
                outside.testimony.asked[of].accepted.get_or_insert(now);
            }
            Answer::Controlled => outside.testimony.controls[of].1 = true,
            Answer::Unknown | Answer::Broken | Answer::Returned => {}
        }
        if self.slots[slot].current != Some(attempt) {
            return;
        }
        self.slots[slot].current = None;
        // As clients must: who is refused again and again asks less and less often.
        let refused = matches!(&answer, Answer::Reply(reply) if overloaded(reply));
        let refusals = if refused { (self.slots[slot].refusals + 1).min(7) } else { 0 };
        self.slots[slot].refusals = refusals;
        let (todo, delay) = match answer {
            Answer::Reply(_) if refused => (Some((of, kind)), outside.random.between(500, 5_000 << refusals)),
            Answer::Accepted if outside.random.chance(700) => (Some((of, Kind::Await)), 0),
            Answer::Broken => return self.retry(slot, of, kind, outside),
            // Nothing has happened: anything may be asked again.
            Answer::Returned => (Some((of, kind)), outside.random.between(0, 3_000)),
            _ => (None, 0),
        };
        self.slots[slot].todo = todo;
        self.slots[slot].tries = 0;
        let think = outside.plan.think;
        let delay = delay + outside.random.between(think.0, think.1);
        outside.queue.after(&mut outside.random, delay, Event::Wake(slot));
    }

    /// A client's patience ends. Without faults, nobody need lose it.
    pub fn timed_out(&mut self, attempt: usize, outside: &mut Outside) {
        let &Attempt { kind, of, slot, lost, .. } = &outside.testimony.attempts[attempt];
        if self.slots[slot].current == Some(attempt) && (lost || !outside.calm) {
            self.slots[slot].current = None;
            self.retry(slot, of, kind, outside);
        }
    }

    /// What may safely be asked again is; the rest is given up, its outcome unknown.
    fn retry(&mut self, slot: usize, of: usize, kind: Kind, outside: &mut Outside) {
        let safe = match kind {
            Kind::Update => outside.testimony.asked[of].request.retained,
            Kind::Send | Kind::Await | Kind::Control => true,
            Kind::Query => false,
        };
        self.slots[slot].todo = safe.then_some((of, kind));
        self.slots[slot].tries += 1;
        let delay = outside.random.between(0, 5_000 << self.slots[slot].tries.min(6));
        outside.queue.after(&mut outside.random, delay, Event::Wake(slot));
    }

    /// The administrator deploys a new version.
    pub fn deploy(&mut self, outside: &mut Outside) {
        self.next_deployment += 1;
        self.control(Control::Deploy(toy::deployment(self.next_deployment)), outside);
    }

    /// The administrator changes something.
    pub fn administer(&mut self, outside: &mut Outside) {
        match outside.random.below(10) {
            0..6 => self.deploy(outside),
            6..9 => {
                let deployment = format!("dp_{}", outside.random.between(1, self.next_deployment));
                self.control(Control::Activate(Activation { app: toy::APP.into(), deployment }), outside);
            }
            _ => {
                self.control(Control::Remove(toy::APP.into()), outside);
                let delay = outside.random.between(0, 6_000);
                outside.queue.after(&mut outside.random, delay, Event::Deploy);
            }
        }
    }

    fn control(&mut self, control: Control, outside: &mut Outside) {
        outside.testimony.controls.push((control, false));
        let todo = Some((outside.testimony.controls.len() - 1, Kind::Control));
        self.slots.push(Slot { todo, ..Slot::default() });
        outside.queue.after(&mut outside.random, 0, Event::Wake(self.slots.len() - 1));
    }
}

fn overloaded(reply: &Reply) -> bool {
    refused(reply) && matches!(&reply.outcome, Err(abort) if abort.code == Code::Overloaded)
}
