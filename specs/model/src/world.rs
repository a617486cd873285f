//! The state of the whole system, its steps, and what must hold in every state.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use stateright::{Model, Property};

use crate::coordinator::Coordinator;
use crate::message::{Body, Cut, Generation, Members, Message, Record, To, WORKERS};
use crate::program::{KEYS, Outcome, Verdict};
use crate::scenario::{Planted, Protocol};
use crate::worker::{Phase, Stage, Worker};

/// The log. An append becomes durable at some later step; who appends in an old generation is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    /// What every later generation begins with.
    pub durable: Vec<Record>,
    /// Appended, in order, and lost if a new generation comes first.
    pub in_flight: VecDeque<Record>,
}

/// Everything. Nodes are shared between states until they change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// One per generation. `None`: it has moved on to a later one. A lost coordinator that lives
    /// on unheard keeps its place.
    pub coordinators: Vec<Option<Arc<Coordinator>>>,
    /// The workers, members or excluded.
    pub workers: [Arc<Worker>; WORKERS],
    /// Messages in flight; any may arrive next.
    pub network: BTreeSet<Arc<Message>>,
    pub log: Arc<Log>,
    /// Per request: what its client was told.
    pub replies: Vec<Option<Outcome>>,
    /// How many more crashes there may be.
    pub crashes: u8,
    /// An epoch ended that is not the serial execution it claims to be.
    pub unserializable: bool,
    /// A client was told something else than before.
    pub contradicted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A message arrives.
    Deliver(Arc<Message>),
    /// A generation's coordinator begins an epoch with these new requests.
    Open(Generation, Vec<usize>),
    /// The log's oldest append becomes durable or is refused.
    Persist,
    /// A worker runs one of its epoch's transactions again, under locks.
    RunAgain(usize, usize),
    /// A worker sends the replies that wait for nothing any more.
    Reply(usize),
    /// A client whose worker was lost asks again, and is told what the log says.
    AskAgain(usize),
    /// A worker is taken for dead: a new generation without it. It may live on.
    LoseWorker(usize),
    /// The coordinator is taken for dead: another one begins a new generation. It may live on.
    LoseCoordinator,
}

/// Committed effects and outcomes are those of a serial execution in the claimed order.
pub const SERIAL: &str = "every epoch is serial in its claimed order";
/// Nobody is told two different things.
pub const REPLIES: &str = "no reply is ever contradicted";
/// Nothing is shown that a crash can take back.
pub const LOOKS: &str = "a look shows what the durable log comes to";
/// Participants agree.
pub const ALL_OR_NOTHING: &str = "participants apply or drop together";
/// The root decides before anybody lets go.
pub const LOCKS: &str = "no lock is released before all have run again";
/// Nothing runs twice.
pub const ONCE: &str = "no request is in the log twice";
/// Short of the end, something can go on without another crash.
pub const GOES_ON: &str = "nothing gets stuck";
/// The end is reached.
pub const ENDS: &str = "every transaction ends";
/// A transaction commits before a lower TID.
pub const REORDERS: &str = "something commits early";
/// A transaction drifts.
pub const DRIFTS: &str = "something drifts";
/// A transaction commits in the fallback.
pub const FALLS_BACK: &str = "something commits in the fallback";
/// A transaction aborts and its client is told.
pub const ABORTS: &str = "something aborts";
/// A result arrives when its epoch is over.
pub const LATE: &str = "a result is late";
/// A record is refused because its coordinator was lost or has moved on.
pub const LOSES_CUT: &str = "a cut is lost";

impl World {
    /// The latest generation's coordinator.
    pub fn latest(&self) -> &Coordinator {
        self.coordinators.last().and_then(Option::as_deref).expect("the latest generation has a coordinator")
    }

    /// Whether all is done: clients answered, nothing under way in the latest generation.
    pub fn ended(&self) -> bool {
        let latest = self.latest();
        let under_way = |message: &Arc<Message>| message.generation == latest.generation;
        self.replies.iter().all(Option::is_some)
            && latest.is_idle()
            && latest.carried.is_empty()
            && self.log.in_flight.is_empty()
            && !self.network.iter().any(under_way)
    }

    fn deliver(&mut self, protocol: &Protocol, message: &Message, out: &mut Vec<Message>) -> bool {
        match message.to {
            To::Worker(worker) => Arc::make_mut(&mut self.workers[worker]).receive(protocol, message, out),
            To::Coordinator => {
                let mut at = message.generation as usize;
                if self.coordinators[at].is_none() && protocol.planted(Planted::OldMessages) {
                    at = self.coordinators.len() - 1;
                }
                let coordinator = self.coordinators[at].as_mut().map(Arc::make_mut);
                let Some(coordinator) = coordinator else { return false };
                let finished = coordinator.records.len();
                let taken = coordinator.receive(protocol, message, out);
                self.unserializable |= taken == Some(false);
                if coordinator.records.len() > finished {
                    Arc::make_mut(&mut self.log).in_flight.extend(coordinator.records.last().cloned());
                }
                taken.is_some()
            }
        }
    }

    fn reply(&mut self, protocol: &Protocol, worker: usize) -> bool {
        let durable = &self.log.durable;
        let may_go = |(cut, ..): &mut (Cut, usize, Outcome)| {
            durable.iter().any(|record| record.cut == *cut)
                || protocol.planted(Planted::ReplyEarly)
                || protocol.planted(Planted::ReplyByEpoch) && durable.len() > cut.epoch as usize
        };
        let going: Vec<_> = Arc::make_mut(&mut self.workers[worker]).outbox.extract_if(.., may_go).collect();
        for (_, request, outcome) in &going {
            self.contradicted |= self.replies[*request].is_some_and(|told| told != *outcome);
            self.replies[*request] = Some(*outcome);
        }
        !going.is_empty()
    }

    /// The end of a request that the log says, if nobody else is about to tell its client.
    fn recalled(&self, request: usize) -> Option<Outcome> {
        let generation = self.latest().generation;
        let about_to = |worker: &Arc<Worker>| {
            worker.generation == generation && worker.outbox.iter().any(|(_, known, _)| *known == request)
        };
        if self.replies[request].is_some() || self.workers.iter().any(about_to) {
            return None;
        }
        let mut ends = self.log.durable.iter().flat_map(|record| &record.ends);
        ends.find(|(ended, _)| *ended == request).map(|(_, outcome)| *outcome)
    }

    fn new_generation(&mut self, protocol: &Protocol, members: Members) {
        let generation = self.coordinators.len() as Generation;
        self.crashes -= 1;
        let coordinator = Coordinator::new(generation, members, &self.log.durable, protocol.scenario.initial);
        self.coordinators.push(Some(Arc::new(coordinator)));
    }

    /// Forgets what can make no difference any more, so that fewer states need to be looked at.
    fn tidy(&mut self, protocol: &Protocol) {
        // Told once more, a client learns nothing.
        let replies = &self.replies;
        let is_news = |(_, request, outcome): &(_, usize, _)| replies[*request] != Some(*outcome);
        for worker in self.workers.iter_mut().filter(|worker| !worker.outbox.iter().all(is_news)) {
            Arc::make_mut(worker).outbox.retain(is_news);
        }
        // A message whose generation its recipient has left is dropped, whenever it arrives.
        let (workers, coordinators) = (&self.workers, &self.coordinators);
        let can_matter = |message: &Arc<Message>| match message.to {
            To::Worker(worker) => message.generation >= workers[worker].generation,
            To::Coordinator => coordinators[message.generation as usize].is_some(),
        };
        if !protocol.planted(Planted::OldMessages) {
            self.network.retain(can_matter);
        }
    }

    /// Pairs of workers in the same epoch of the same generation.
    fn peers(&self) -> impl Iterator<Item = (&Worker, &Worker)> {
        let workers = || self.workers.iter().map(Arc::as_ref);
        let pairs = workers().flat_map(move |one| workers().map(move |other| (one, other)));
        let number = |worker: &Worker| worker.epoch.as_ref().map(|epoch| epoch.number);
        pairs.filter(move |(one, other)| one.generation == other.generation && number(one) == number(other))
    }

    /// Whether whatever a worker might show now is what the log comes to.
    fn looks_right(&self, protocol: &Protocol) -> bool {
        let right = |worker: &Worker| {
            let Some(cut) = worker.shows(protocol) else { return true };
            let is_durable = self.log.durable.iter().any(|record| record.cut == cut)
                || protocol.planted(Planted::LookEarly)
                || protocol.planted(Planted::LookByEpoch) && self.log.durable.len() > cut.epoch as usize;
            let state = self.log.durable.get(cut.epoch as usize).map(|record| record.values);
            let own = |key: &usize| worker.members.owner(*key) == worker.id;
            !is_durable || state.is_some_and(|state| (0..KEYS).filter(own).all(|key| state[key] == worker.values[key]))
        };
        self.workers.iter().all(|worker| right(worker))
    }

    fn is_all_or_nothing(&self) -> bool {
        let differ = |pair: (&Stage, &Stage)| pair == (&Stage::Applied, &Stage::Dropped);
        !self.peers().any(|(one, other)| one.stages().iter().zip(other.stages()).any(differ))
    }

    fn keeps_locks(&self, protocol: &Protocol) -> bool {
        let too_early = |one: &Worker, other: &Worker| {
            let (Some(epoch), Some(others)) = (&one.epoch, &other.epoch) else { return false };
            (0..epoch.stages.len()).filter(|at| one.released(*at)).any(|at| {
                let execution = protocol.transaction(epoch.batch[at].1).execute(&epoch.start);
                let takes_part = execution.parts.iter().any(|part| other.members.owner(part.key) == other.id);
                takes_part
                    && (others.phase < Phase::FallingBack
                        || matches!(others.stages[at], Stage::Waiting | Stage::Running))
            })
        };
        !self.peers().any(|(one, other)| too_early(one, other))
    }

    fn logs_once(&self) -> bool {
        let requests = || self.log.durable.iter().flat_map(|record| &record.requests).map(|(_, request)| request);
        requests().count() == requests().collect::<BTreeSet<_>>().len()
    }

    fn some_worker(&self, does: impl Fn(&Worker) -> bool) -> bool {
        self.workers.iter().any(|worker| does(worker))
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let initial = self.scenario.initial;
        vec![World {
            coordinators: vec![Some(Arc::new(Coordinator::new(0, Members::ALL, &[], initial)))],
            workers: std::array::from_fn(|id| Arc::new(Worker::new(id, 0, Members::ALL, &initial))),
            network: BTreeSet::new(),
            log: Arc::default(),
            replies: vec![None; self.scenario.transactions.len()],
            crashes: self.scenario.crashes,
            unserializable: false,
            contradicted: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend(world.network.iter().cloned().map(Step::Deliver));
        for coordinator in world.coordinators.iter().flatten() {
            let openings = coordinator.openings(self).into_iter();
            steps.extend(openings.map(|requests| Step::Open(coordinator.generation, requests)));
        }
        if !world.log.in_flight.is_empty() {
            steps.push(Step::Persist);
        }
        for worker in &world.workers {
            steps.extend(worker.granted(self).into_iter().map(|at| Step::RunAgain(worker.id, at)));
            if !worker.outbox.is_empty() {
                steps.push(Step::Reply(worker.id));
            }
        }
        let requests = 0..world.replies.len();
        steps.extend(requests.filter(|request| world.recalled(*request).is_some()).map(Step::AskAgain));
        if world.crashes > 0 {
            let members = world.latest().members;
            if members.iter().count() > 1 {
                steps.extend(members.iter().map(Step::LoseWorker));
            }
            steps.push(Step::LoseCoordinator);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        let mut out = Vec::new();
        match step {
            Step::Deliver(message) => {
                next.network.remove(&message);
                next.deliver(self, &message, &mut out).then_some(())?;
            }
            Step::Open(generation, requests) => {
                let coordinator = Arc::make_mut(next.coordinators[generation as usize].as_mut()?);
                coordinator.open(&requests, &mut out);
            }
            Step::Persist => {
                let latest = next.latest().generation;
                let log = Arc::make_mut(&mut next.log);
                let record = log.in_flight.pop_front()?;
                if record.cut.generation == latest || self.planted(Planted::OldAppends) {
                    log.durable.push(record);
                }
            }
            Step::RunAgain(worker, at) => Arc::make_mut(&mut next.workers[worker]).run_again(self, at, &mut out),
            Step::Reply(worker) => next.reply(self, worker).then_some(())?,
            Step::AskAgain(request) => next.replies[request] = Some(next.recalled(request)?),
            Step::LoseWorker(worker) => {
                let members = next.latest().members.without(worker);
                *next.coordinators.last_mut()? = None;
                next.new_generation(self, members);
            }
            Step::LoseCoordinator => {
                let members = next.latest().members;
                next.new_generation(self, members);
            }
        }
        next.network.extend(out.into_iter().map(Arc::new));
        next.tidy(self);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(SERIAL, |_, world: &World| !world.unserializable),
            Property::always(REPLIES, |_, world: &World| !world.contradicted),
            Property::always(LOOKS, |protocol, world: &World| world.looks_right(protocol)),
            Property::always(ALL_OR_NOTHING, |_, world: &World| world.is_all_or_nothing()),
            Property::always(LOCKS, |protocol, world: &World| world.keeps_locks(protocol)),
            Property::always(ONCE, |_, world: &World| world.logs_once()),
            Property::always(GOES_ON, |protocol: &Protocol, world: &World| {
                let mut steps = Vec::new();
                protocol.actions(world, &mut steps);
                steps.retain(|step| !matches!(step, Step::LoseWorker(_) | Step::LoseCoordinator));
                world.ended() || steps.into_iter().any(|step| protocol.next_state(world, step).is_some())
            }),
            // Only states without a next one count: whatever crashes come, it ends.
            Property::eventually(ENDS, |protocol, world: &World| {
                world.ended() && protocol.next_states(world).is_empty()
            }),
        ];
        let coverage: [Property<Self>; 6] = [
            Property::sometimes(REORDERS, |_, world: &World| {
                world.some_worker(|worker| worker.verdicts().contains(&Verdict::Early))
            }),
            Property::sometimes(DRIFTS, |_, world: &World| !world.latest().carried.is_empty()),
            Property::sometimes(FALLS_BACK, |_, world: &World| {
                world.some_worker(|worker| worker.stages().contains(&Stage::Applied))
            }),
            Property::sometimes(ABORTS, |_, world: &World| {
                world.replies.iter().flatten().any(|outcome| outcome.aborted)
            }),
            Property::sometimes(LATE, |_, world: &World| {
                world.network.iter().any(|message| match (&message.body, message.to) {
                    (Body::Returned(..), To::Worker(worker)) => world.workers[worker].is_past(message.epoch),
                    _ => false,
                })
            }),
            Property::sometimes(LOSES_CUT, |_, world: &World| {
                let latest = world.latest().generation;
                world.log.in_flight.iter().any(|record| record.cut.generation != latest)
            }),
        ];
        properties.extend(coverage.into_iter().filter(|property| self.scenario.covers.contains(&property.name)));
        properties
    }
}
