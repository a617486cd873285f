//! A worker process: the protocol's [`Worker`] machine with threads and a network around it.
//!
//! One driver thread owns the machine and does what it says. A generation begins with an invitation
//! of the coordinator: whatever the machine knew is dropped, and the log is replayed into a new one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, Sender, unbounded};
use styx_engine::{EXECUTION_STACK_BYTES, Engine};
use styx_protocol::catalog::{Catalog, Digest};
use styx_protocol::ids::{Epoch, RequestId, WorkerId};
use styx_protocol::machine::message::{Mail, Message, Node};
use styx_protocol::machine::{Action, Config, EpochSummary, Input, Worker};
use styx_protocol::membership::{Beat, Build, Doubt, Member};
use styx_protocol::modes::Modes;
use styx_protocol::piece::Seat;
use styx_protocol::replies::Retention;
use styx_protocol::route::memory_of;
use tokio::sync::oneshot;

use super::COORDINATOR;
use super::envelope::{Answer, Ask, Bytes, Envelope, Inquiry, Invite, Question, Reply, Told};
use super::inquiry::Sight;
use crate::components::ComponentStore;
use crate::transport::{Hello, Incoming, Network, NodeId, NodeKind, Options, same_build};
use crate::worker::crew::{Crew, Part};
use crate::worker::gathering::Gathering;
use crate::worker::{Handle, Stats, Waiter, fatal, fatal_on_panic, now};

/// How a worker process runs.
#[derive(Clone, Debug)]
pub struct WorkerNodeOptions {
    /// Its id; kept for all lives of the process.
    pub node: NodeId,
    /// Its name, for people.
    pub name: String,
    /// The connections; where others reach it.
    pub network: Options,
    /// Where the coordinator is.
    pub coordinator: String,
    /// Threads that execute transactions, besides the driver, which runs what is too small to hand over.
    pub threads: usize,
    /// Which parts of the protocol are on.
    pub modes: Modes,
    /// Most transactions of an epoch.
    pub epoch_size_max: usize,
    /// Most requests that may wait for an epoch.
    pub backlog_max: usize,
    /// Functions that may wait for other workers at a time.
    pub suspended_max: usize,
    /// How long replies are remembered.
    pub retention: Retention,
}

/// Between two heartbeats.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(50);

/// A member that was not reachable for so long is reported to the coordinator.
const SILENT: Duration = Duration::from_millis(1500);

/// Bytes of arguments in one worker's part of a record.
const EPOCH_BYTES_MAX: usize = 16 << 20;

/// Parts of graphs taken from a mail at a time: what they need stays in the processor's caches.
const MAIL_PIECE: usize = 64;

/// Parts of graphs that wait for others to travel with.
const MAIL_MAX: usize = 512;

/// Messages taken before what they made possible is done.
const BURST_MAX: usize = 1024;

/// What the driver is told.
enum Event {
    Incoming(Incoming),
    Part(Part),
    Loaded(Digest, Result<(), String>),
    Stop,
}

/// A running worker process.
pub struct WorkerNode {
    handle: Handle,
    events: Sender<Event>,
    thread: Option<JoinHandle<()>>,
    address: Option<SocketAddr>,
    stats: Arc<Stats>,
    network: Arc<Network>,
}

impl WorkerNode {
    /// Starts the process's worker on the current runtime; it becomes a member when the
    /// coordinator invites it.
    ///
    /// # Errors
    /// The address cannot be listened on, or threads cannot be started.
    pub async fn start(
        options: WorkerNodeOptions,
        engine: Arc<Engine>,
        components: ComponentStore,
    ) -> anyhow::Result<WorkerNode> {
        let (events, inbox) = unbounded();
        let incoming = events.clone();
        let hello = Hello::new(NodeKind::Worker, options.node, options.name.clone(), engine.engine_hash());
        let network = Network::start(hello, options.network.clone(), same_build, move |message| {
            drop(incoming.send(Event::Incoming(message)));
        });
        let network = Arc::new(network.await?);
        network.connect(COORDINATOR, options.coordinator.clone());
        let stats = Arc::new(Stats::default());
        let parts = events.clone();
        // Never on the driver's thread alone: it must say hello while a batch runs.
        let threads = options.threads.max(1);
        let crew = Crew::start(threads, EXECUTION_STACK_BYTES, &|| engine.executor(), move |part| {
            drop(parts.send(Event::Part(part)));
        })?;
        let address = network.address();
        let (messages, requests) = unbounded();
        let handle = Handle::new(messages, options.backlog_max, stats.clone());
        let driver = Driver {
            handle: handle.clone(),
            requests,
            member: Member::new(now().0, build(&engine)),
            gathering: Gathering::new(engine.executor(), crew),
            address: address.map(|address| address.to_string()).unwrap_or_default(),
            options,
            engine,
            components,
            network: network.clone(),
            inbox,
            events: events.clone(),
            stats: stats.clone(),
            serving: None,
            postponed: VecDeque::new(),
            loading: BTreeSet::new(),
            said_hello: Instant::now() - HEARTBEAT,
            lost: BTreeMap::new(),
            actions: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("styx-driver".into())
            .stack_size(EXECUTION_STACK_BYTES)
            .spawn(move || fatal_on_panic("driver", move || driver.serve()))?;
        Ok(WorkerNode { handle, events, thread: Some(thread), address, stats, network })
    }

    /// Where other nodes reach it.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// A handle for clients in this very process. Their requests are sequenced here; one with a key
    /// must be this worker's to remember.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Counters of the worker.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// The connections.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Ends the driver and the connections. What was under way is somebody else's from now on.
    pub fn stop(mut self) {
        drop(self.events.send(Event::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// What this program runs, as the membership compares it.
pub(super) fn build(engine: &Engine) -> Build {
    Build { version: env!("CARGO_PKG_VERSION").into(), engine: engine.engine_hash() }
}

/// Whoever waits for an answer.
#[derive(Debug)]
enum Asker {
    /// A gateway, and its ticket.
    Remote(NodeId, u64),
    /// A client in this process.
    Local(Waiter),
}

/// What waits for the coordinator to show that the generation was the current one.
enum Doubtful {
    Unknown(Asker),
    Look(Looker, Answer),
}

/// Whoever waits for a look.
enum Looker {
    Remote(NodeId, u64),
    Local(oneshot::Sender<Answer>),
}

/// A membership.
struct Serving {
    invite: Invite,
    machine: Worker<Asker>,
    workers: BTreeMap<NodeId, WorkerId>,
    /// Messages that wait until the components of a deployment are ready.
    stalled: VecDeque<(Node, Message)>,
    missing: BTreeSet<Digest>,
    tells: BTreeMap<NodeId, Vec<Told>>,
    /// Mail to other workers that leaves with what else this burst brings.
    mails: BTreeMap<NodeId, Mail>,
    durable: Epoch,
    /// Whether the log has been replayed. Before, a request might be one that is still to come again.
    live: bool,
    /// Looks at an epoch that is not yet durable.
    looks: VecDeque<(Epoch, Looker, Answer)>,
    /// Questions whose answer is that nothing is known: held until the coordinator shows that this
    /// generation was still the current one when they came. What was looked up after them waits
    /// behind them.
    doubts: VecDeque<(Doubt, Doubtful)>,
    started: Instant,
}

impl Serving {
    fn remembers(&self, id: RequestId) -> bool {
        memory_of(id, &self.invite.placement) == self.invite.me
    }

    fn tell(&mut self, looker: Looker, answer: Answer) {
        match looker {
            Looker::Remote(node, ticket) => self.tells.entry(node).or_default().push(Told { ticket, answer }),
            Looker::Local(to) => drop(to.send(answer)),
        }
    }

    /// Looks at the machine; the answer is given once all that it tells is durable.
    fn look(&mut self, looker: Looker, inquiry: &Inquiry) {
        let (machine, seat) = (&self.machine, self.machine.seat());
        let seen = machine.position().0;
        let sight = Sight {
            worker: seat.me,
            owns: &|partition| seat.placement.owner(partition) == seat.me,
            state: machine.state(),
            catalog: machine.catalog(),
            epoch: seen,
            waiting: machine.backlog(),
            remembered: machine.remembered(),
        };
        let answer = sight.answer(inquiry);
        match seen <= self.durable {
            true if self.doubts.is_empty() => self.tell(looker, answer),
            true => self.doubts.push_back((Doubt::default(), Doubtful::Look(looker, answer))),
            false => self.looks.push_back((seen, looker, answer)),
        }
    }
}

struct Driver {
    handle: Handle,
    requests: Receiver<crate::worker::Message>,
    options: WorkerNodeOptions,
    engine: Arc<Engine>,
    components: ComponentStore,
    network: Arc<Network>,
    member: Member,
    address: String,
    gathering: Gathering<styx_engine::Executor>,
    inbox: Receiver<Event>,
    events: Sender<Event>,
    stats: Arc<Stats>,
    serving: Option<Box<Serving>>,
    /// Events that came while parts of an earlier generation were awaited.
    postponed: VecDeque<Event>,
    loading: BTreeSet<Digest>,
    said_hello: Instant,
    lost: BTreeMap<NodeId, Instant>,
    /// Empty between steps; its memory is used again.
    actions: Vec<Action<Asker>>,
}

impl Driver {
    fn serve(mut self) {
        loop {
            self.greet();
            if self.postponed.is_empty() {
                let patience = HEARTBEAT.saturating_sub(self.said_hello.elapsed());
                let mut select = Select::new();
                select.recv(&self.inbox);
                select.recv(&self.requests);
                if select.ready_timeout(patience).is_err() {
                    continue;
                }
            }
            for _ in 0..BURST_MAX {
                self.greet();
                let event = self.postponed.pop_front().or_else(|| self.inbox.try_recv().ok());
                let request = self.requests.try_recv().ok();
                if event.is_none() && request.is_none() {
                    break;
                }
                match event {
                    Some(Event::Stop) => return,
                    Some(event) => self.take(event),
                    None => {}
                }
                request.into_iter().for_each(|request| self.local(request));
            }
            self.tell();
        }
    }

    /// Says hello when it is time.
    fn greet(&mut self) {
        if self.said_hello.elapsed() < HEARTBEAT {
            return;
        }
        self.said_hello = Instant::now();
        let silent = match &self.serving {
            Some(serving) => {
                let long = self.lost.iter().filter(|(_, since)| since.elapsed() > SILENT);
                long.filter_map(|(node, _)| serving.workers.get(node).copied()).collect()
            }
            None => Vec::new(),
        };
        self.control(COORDINATOR, &Envelope::Hello { hello: self.member.hello(silent), address: self.address.clone() });
    }

    fn control(&self, to: NodeId, envelope: &Envelope) {
        // Who cannot be reached will be told again, or is no longer there.
        drop(self.network.send_control(to, envelope.encode()));
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Incoming(Incoming::Message { peer, generation, body }) => self.message(peer, generation, &body),
            Event::Incoming(Incoming::Control { peer, body, .. }) => match Envelope::decode(&body) {
                Ok(envelope) => self.envelope(peer, envelope),
                Err(error) => tracing::warn!(node = peer.0, "a message that cannot be read was dropped: {error}"),
            },
            Event::Incoming(Incoming::Connected { peer, .. }) => drop(self.lost.remove(&peer)),
            Event::Incoming(Incoming::Lost { peer, why }) => {
                tracing::info!(node = peer.0, "connection lost: {why}");
                self.lost.entry(peer).or_insert_with(Instant::now);
            }
            Event::Incoming(Incoming::Broken { peer, generation, why }) => {
                tracing::warn!(node = peer.0, generation, "messages are lost: {why}");
                self.lost.insert(peer, Instant::now() - SILENT);
            }
            Event::Incoming(Incoming::Refused { peer, reason, message }) => {
                tracing::error!(node = peer.0, reason, "refused: {message}");
            }
            Event::Part(part) => {
                if let Some(input) = self.gathering.take(part) {
                    self.step(input);
                }
            }
            Event::Loaded(digest, result) => self.loaded(digest, result),
            Event::Stop => unreachable!("taken by the loop"),
        }
    }

    fn envelope(&mut self, peer: NodeId, envelope: Envelope) {
        match envelope {
            Envelope::Beat(beat) if peer == COORDINATOR => {
                if self.member.beat(beat) {
                    self.leave();
                }
                self.settle_doubts(beat);
            }
            Envelope::Refused(why) => tracing::error!("the coordinator refuses this worker: {why}"),
            Envelope::Invite(invite) if peer == COORDINATOR => {
                if self.member.invited(invite.generation, invite.life) {
                    self.join(invite);
                }
            }
            Envelope::Ready(digest) => self.make_ready(digest),
            Envelope::Component(digest, bytes) => match bytes {
                Some(bytes) if ComponentStore::digest(&bytes) == digest => match self.components.put(&bytes) {
                    Ok(_) => self.load(digest),
                    Err(error) => self.loaded(digest, Err(format!("cannot keep component {digest}: {error}"))),
                },
                _ => self.loaded(digest, Err(format!("the coordinator has no component {digest}"))),
            },
            Envelope::Ask(asks) => asks.into_iter().for_each(|ask| self.ask(peer, ask)),
            other => tracing::warn!(node = peer.0, "a message that is not for a worker was dropped: {other:?}"),
        }
    }

    /// A beat has come: what this worker does not know, nobody knows, if the beat shows that no other
    /// generation has begun since it was asked.
    fn settle_doubts(&mut self, beat: Beat) {
        let Some(serving) = &mut self.serving else { return };
        let generation = serving.invite.generation;
        let over: Vec<bool> = serving.doubts.iter_mut().map(|(doubt, _)| doubt.hear(beat, generation)).collect();
        // In the order in which they came: a look must not show what an earlier question was told is unknown.
        for _ in over.into_iter().take_while(|over| *over) {
            let Some(serving) = &mut self.serving else { return };
            match serving.doubts.pop_front() {
                None => return,
                Some((_, Doubtful::Look(looker, answer))) => serving.tell(looker, answer),
                Some((_, Doubtful::Unknown(asker))) => {
                    self.answer(asker, Answer::Unknown, || crate::worker::Answer::Unknown);
                }
            }
        }
    }

    /// Everything of the generation is dropped.
    fn leave(&mut self) {
        if self.serving.take().is_none() {
            return;
        }
        self.handle.show_catalog(Arc::default());
        tracing::info!("the generation is over");
        while self.gathering.is_owed() {
            match self.inbox.recv() {
                Ok(Event::Part(part)) => self.gathering.discard(part),
                Ok(event) => self.postponed.push_back(event),
                Err(_) => return,
            }
        }
        self.gathering.forget();
    }

    fn join(&mut self, invite: Invite) {
        self.leave();
        tracing::info!(generation = invite.generation, worker = invite.me.0, workers = invite.members.len(), "joined");
        self.network.set_generation(invite.generation);
        self.lost.clear();
        let config = Config {
            layout: invite.layout,
            modes: self.options.modes,
            epoch_size_max: self.options.epoch_size_max,
            epoch_bytes_max: EPOCH_BYTES_MAX,
            backlog_max: self.options.backlog_max,
            suspended_max: self.options.suspended_max,
            retention: self.options.retention,
            engine: self.engine.engine_hash(),
            generation: invite.generation,
            snapshots: false,
            claim_order: false,
        };
        let seat = Seat { me: invite.me, placement: Arc::new(invite.placement.clone()) };
        let nodes = invite.members.iter().enumerate();
        let workers = nodes.map(|(worker, (node, _))| (NodeId(*node), WorkerId(worker as u16))).collect();
        for (worker, (node, address)) in invite.members.iter().enumerate() {
            if worker != usize::from(invite.me.0) {
                self.network.connect(NodeId(*node), address.clone());
            }
        }
        let generation = invite.generation;
        self.serving = Some(Box::new(Serving {
            invite,
            machine: Worker::new(config, seat),
            workers,
            stalled: VecDeque::new(),
            missing: BTreeSet::new(),
            tells: BTreeMap::new(),
            mails: BTreeMap::new(),
            durable: Epoch(0),
            live: false,
            looks: VecDeque::new(),
            doubts: VecDeque::new(),
            started: Instant::now(),
        }));
        self.control(COORDINATOR, &Envelope::Joined { generation });
    }

    fn message(&mut self, peer: NodeId, generation: u64, body: &[u8]) {
        let Some(serving) = self.serving.as_ref().filter(|serving| serving.invite.generation == generation) else {
            return; // Of a generation that is over.
        };
        let from = match serving.workers.get(&peer) {
            Some(worker) => Node::Worker(*worker),
            None if peer == COORDINATOR => Node::Coordinator,
            None => return,
        };
        match Message::decode(body) {
            Ok(message) => self.hear(from, message),
            Err(error) => fatal(&format!("node {peer} sent a message that cannot be read: {error}")),
        }
    }

    /// Hears a message of the protocol, unless it has to wait for components.
    fn hear(&mut self, from: Node, message: Message) {
        let Some(serving) = self.serving.as_mut() else { return };
        if !serving.stalled.is_empty() {
            return serving.stalled.push_back((from, message));
        }
        if let Message::Begin(begin) = &message {
            serving.started = Instant::now();
            if !begin.controls.is_empty() {
                let mut catalog = (**serving.machine.catalog()).clone();
                begin.controls.iter().for_each(|control| drop(catalog.apply(control)));
                let missing = missing(&self.engine, &catalog);
                if !missing.is_empty() {
                    serving.missing = missing.clone();
                    serving.stalled.push_back((from, message));
                    missing.into_iter().for_each(|digest| self.make_ready(digest));
                    return;
                }
            }
        }
        if let Message::Durable(epoch) = &message {
            (serving.durable, serving.live) = (*epoch, true);
            while serving.looks.front().is_some_and(|(seen, ..)| seen <= epoch) {
                if let Some((_, looker, answer)) = serving.looks.pop_front() {
                    serving.tell(looker, answer);
                }
            }
        }
        match message {
            Message::Graphs(mail) => {
                for mail in mail.split(MAIL_PIECE) {
                    self.step(Input::Message { from, message: Message::Graphs(mail) });
                }
            }
            message => self.step(Input::Message { from, message }),
        }
    }

    // Components.

    fn make_ready(&mut self, digest: Digest) {
        if self.engine.is_loaded(digest) {
            return self.loaded(digest, Ok(()));
        }
        if !self.loading.insert(digest) {
            return;
        }
        match self.components.contains(digest) {
            true => self.load(digest),
            false => self.control(COORDINATOR, &Envelope::Want(digest)),
        }
    }

    /// Compiles a component, which takes a while, beside everything else.
    fn load(&self, digest: Digest) {
        let (engine, path, events) = (self.engine.clone(), self.components.path(digest), self.events.clone());
        let load = move || {
            let result = engine.load(digest, &path).map_err(|error| error.to_string());
            drop(events.send(Event::Loaded(digest, result)));
        };
        if let Err(error) = std::thread::Builder::new().name("styx-load".into()).spawn(load) {
            fatal(&format!("cannot start a thread: {error}"));
        }
    }

    fn loaded(&mut self, digest: Digest, result: Result<(), String>) {
        self.loading.remove(&digest);
        self.control(COORDINATOR, &Envelope::Readied(digest, result.clone()));
        let Some(serving) = self.serving.as_mut() else { return };
        if !serving.missing.contains(&digest) {
            return;
        }
        if let Err(error) = result {
            // It runs on others, or ran once: this worker is not fit.
            fatal(&format!("a deployed component cannot be loaded: {error}"));
        }
        serving.missing.remove(&digest);
        if serving.missing.is_empty() {
            for (from, message) in std::mem::take(&mut serving.stalled) {
                self.hear(from, message);
            }
        }
    }

    // Clients' questions.

    fn ask(&mut self, node: NodeId, Ask { ticket, generation, question }: Ask) {
        let waiter = Asker::Remote(node, ticket);
        let current = self.serving.as_mut().filter(|serving| serving.live && serving.invite.generation == generation);
        let Some(serving) = current else {
            return self.control(node, &Envelope::Told(vec![Told { ticket, answer: Answer::Moved }]));
        };
        let input = match question {
            Question::Submit(request, _) if request.retained && !serving.remembers(request.id) => None,
            Question::Await(id) if !serving.remembers(id) => None,
            Question::Submit(request, receipt) => Some(Input::Submit { request, waiter, receipt }),
            Question::Query(request) => Some(Input::Query { request: Arc::unwrap_or_clone(request), waiter }),
            Question::Await(id) => Some(Input::Await { id, waiter }),
            Question::Inquire(inquiry) => return serving.look(Looker::Remote(node, ticket), &inquiry),
        };
        match input {
            Some(input) => self.step(input),
            None => serving.tell(Looker::Remote(node, ticket), Answer::Moved),
        }
    }

    /// Takes what a client in this process asks for.
    fn local(&mut self, message: crate::worker::Message) {
        match message {
            crate::worker::Message::Request(input) => {
                self.handle.taken();
                self.step_local(input);
            }
            crate::worker::Message::Input(input) => self.step_local(input),
            crate::worker::Message::Inquire(inquiry, to) => {
                // Outside of a generation nobody can say; the asker sees the channel close.
                if let Some(serving) = &mut self.serving {
                    serving.look(Looker::Local(to), &inquiry);
                }
            }
            _ => {}
        }
    }

    fn step_local(&mut self, input: Input<Waiter>) {
        // Outside of a live generation the waiter is dropped, and its channel closes.
        if !self.serving.as_ref().is_some_and(|serving| serving.live) {
            return;
        }
        match input {
            Input::Submit { request, waiter, receipt } => {
                self.step(Input::Submit { request, waiter: Asker::Local(waiter), receipt });
            }
            Input::Query { request, waiter } => self.step(Input::Query { request, waiter: Asker::Local(waiter) }),
            Input::Await { id, waiter } => self.step(Input::Await { id, waiter: Asker::Local(waiter) }),
            _ => {}
        }
    }

    fn answer(&mut self, asker: Asker, remote: Answer, local: impl FnOnce() -> crate::worker::Answer) {
        match asker {
            Asker::Local(waiter) => waiter.answer(local()),
            Asker::Remote(node, ticket) => {
                if let Some(serving) = &mut self.serving {
                    serving.tell(Looker::Remote(node, ticket), remote);
                }
            }
        }
    }

    /// Sends mail and answers that have come together.
    fn tell(&mut self) {
        let Some(serving) = &mut self.serving else { return };
        for (node, mail) in std::mem::take(&mut serving.mails) {
            self.send(node, &Message::Graphs(mail));
        }
        let Some(serving) = &mut self.serving else { return };
        for (node, tells) in std::mem::take(&mut serving.tells) {
            drop(self.network.send_control(node, Envelope::Told(tells).encode()));
        }
    }

    // The machine.

    fn step(&mut self, input: Input<Asker>) {
        let mut next = Some(input);
        // What follows, if a step has several consequences at once.
        let mut inputs = VecDeque::new();
        let mut actions = std::mem::take(&mut self.actions);
        while let Some(input) = next {
            let Some(serving) = self.serving.as_mut() else { break };
            serving.machine.step(input, &mut actions);
            for action in actions.drain(..) {
                inputs.extend(self.perform(action));
            }
            next = inputs.pop_front();
        }
        self.actions = actions;
    }

    /// Does what the machine says; what was done at once is its next input.
    fn perform(&mut self, action: Action<Asker>) -> Option<Input<Asker>> {
        match action {
            Action::Send { to, message } => {
                let serving = self.serving.as_ref()?;
                let node = match to {
                    Node::Coordinator => COORDINATOR,
                    Node::Worker(worker) => NodeId(serving.invite.members[usize::from(worker.0)].0),
                };
                match message {
                    Message::Graphs(mail) => self.post(node, mail),
                    message => self.send(node, &message),
                }
                None
            }
            Action::Execute(batch) => self.gathering.execute(batch),
            Action::Advance(pieces) => self.gathering.advance(pieces),
            Action::FallBack(batch) => self.gathering.fall_back(batch),
            Action::Reply { waiter: Asker::Local(waiter), reply } => {
                waiter.answer(crate::worker::Answer::Reply(reply));
                None
            }
            Action::Reply { waiter: Asker::Remote(node, ticket), reply } => {
                let outcome = reply.outcome.map(Bytes);
                let reply = Reply { id: reply.id, tid: reply.tid, epoch: reply.epoch, outcome };
                self.serving.as_mut()?.tell(Looker::Remote(node, ticket), Answer::Reply(reply));
                None
            }
            Action::Accepted { waiter, id } => {
                self.answer(waiter, Answer::Accepted(id), || crate::worker::Answer::Accepted(id));
                None
            }
            Action::Unknown { waiter } => {
                self.serving.as_mut()?.doubts.push_back((Doubt::default(), Doubtful::Unknown(waiter)));
                None
            }
            Action::Logs { tid, lines } => {
                let catalog = self.serving.as_ref()?.machine.catalog().clone();
                lines.iter().for_each(|line| crate::worker::show(&catalog, tid, line));
                None
            }
            Action::Finished(summary) => {
                self.finished(&summary);
                None
            }
            Action::Snapshot(_) | Action::Part(_) | Action::Changes { .. } => {
                unreachable!("no snapshot was asked for")
            }
            Action::Append(_) | Action::Controlled { .. } | Action::Expel { .. } => {
                unreachable!("this is the coordinator's")
            }
        }
    }

    /// Keeps mail until the burst is over, unless there is much.
    fn post(&mut self, node: NodeId, mail: Mail) {
        let Some(serving) = self.serving.as_mut() else { return };
        let held = serving.mails.entry(node).or_insert_with(|| Mail {
            round: mail.round,
            fallback: mail.fallback,
            ..Mail::default()
        });
        let next = held.append(mail);
        if next.is_none() && held.len() < MAIL_MAX {
            return;
        }
        let full = match next {
            Some(next) => std::mem::replace(held, next),
            None => serving.mails.remove(&node).expect("just seen"),
        };
        self.send(node, &Message::Graphs(full));
    }

    fn send(&mut self, node: NodeId, message: &Message) {
        if let Err(error) = self.network.send(node, message.encode()) {
            tracing::warn!(node = node.0, "a message cannot be sent: {error}");
            self.lost.insert(node, Instant::now() - SILENT);
        }
    }

    fn finished(&mut self, summary: &EpochSummary) {
        let Some(serving) = &self.serving else { return };
        if self.handle.catalog().version() != serving.machine.catalog().version() {
            self.handle.show_catalog(serving.machine.catalog().clone());
        }
        self.stats.finished(summary, serving.started.elapsed().as_micros() as u64);
        self.stats.entities.store(serving.machine.state().len() as u64, Ordering::Relaxed);
        self.stats.state_bytes.store(serving.machine.state().bytes(), Ordering::Relaxed);
    }
}

/// Components that a catalog names and that are not ready.
pub(super) fn missing(engine: &Engine, catalog: &Catalog) -> BTreeSet<Digest> {
    let named = catalog.operators().map(|operator| operator.component);
    named.filter(|digest| !engine.is_loaded(*digest)).collect()
}
