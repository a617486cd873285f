//! The coordinator process: the protocol's [`Coordinator`] machine with the log, the membership and
//! a network around it.
//!
//! One driver thread owns both machines. A generation begins when the membership says so: its number
//! becomes durable, its members are invited, the log is replayed through them, and then it is live.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use styx_engine::Engine;
use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::Placement;
use styx_protocol::catalog::{Catalog, Control, Digest};
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, WorkerId};
use styx_protocol::machine::message::{Message, Node};
use styx_protocol::machine::{Action, Config, Coordinator, Input};
use styx_protocol::membership::{self, Membership, Patience, Seated};
use styx_protocol::modes::Modes;
use styx_protocol::record::EpochRecord;
use styx_protocol::replies::Retention;

use super::COORDINATOR;
use super::archive::{self, Archive, Archived};
use super::envelope::{self, Answer as Told, Envelope, Inquiry, Invite, Overview, Question, View};
use super::relay::Relay;
use super::worker::build;
use crate::components::ComponentStore;
use crate::transport::{Hello, Incoming, Network, NodeId, NodeKind, Options, same_build};
use crate::worker::{self, Answer, Handle, Stats, Waiter, fatal_on_panic, genesis, now};
use styx_storage::log::Log;

/// How a coordinator process runs.
#[derive(Clone, Debug)]
pub struct CoordinatorNodeOptions {
    /// Its name, for people.
    pub name: String,
    /// The connections; where others reach it.
    pub network: Options,
    /// Workers to wait for at the first start.
    pub workers: usize,
    /// Partitions, if the log is new.
    pub partitions: u16,
    /// How long an epoch may fill while earlier ones are not yet durable.
    pub epoch_max_wait: Duration,
    /// Most requests that may wait.
    pub backlog_max: usize,
    /// When a worker is taken for lost, and how long newcomers are looked at.
    pub patience: Patience,
    /// Where its admin endpoints are, for gateways to tell.
    pub admin: Option<String>,
}

/// The patience that suits a local network.
pub const PATIENCE: Patience = Patience { silent_us: 1_000_000, settle_us: 500_000 };

/// Between two looks at the membership.
const TICK: Duration = Duration::from_millis(20);

/// Epochs that may wait for one fsync before further ones are held back to fill.
const UNSYNCED_MAX: u64 = 2;

/// How long workers may take to make a component ready.
const READY_MAX: Duration = Duration::from_secs(300);

/// Events taken before what they made possible is done.
const BURST_MAX: usize = 1024;

enum Event {
    Incoming(Incoming),
    Archived(Archived),
}

/// A running coordinator process.
pub struct CoordinatorNode {
    handle: Handle,
    inbox: Sender<worker::Message>,
    thread: Option<JoinHandle<()>>,
    address: Option<SocketAddr>,
    network: Arc<Network>,
}

impl CoordinatorNode {
    /// Starts the coordinator on the current runtime, from what its log says.
    ///
    /// # Errors
    /// The log cannot be read, or the address cannot be listened on.
    pub async fn start(
        options: CoordinatorNodeOptions,
        mut log: Box<dyn Log>,
        engine: Arc<Engine>,
        components: ComponentStore,
    ) -> anyhow::Result<CoordinatorNode> {
        let layout = genesis(log.as_mut(), options.partitions)?.layout;
        let generation = archive::generation(log.as_mut())?;
        let (events, incoming) = unbounded();
        let (inbox, messages) = unbounded();
        let hello = Hello::new(NodeKind::Coordinator, COORDINATOR, options.name.clone(), engine.engine_hash());
        let heard = events.clone();
        let admit = |mine: &Hello, yours: &Hello| match yours.kind {
            // A gateway executes nothing.
            NodeKind::Gateway => Ok(()),
            _ => same_build(mine, yours),
        };
        let network = Network::start(hello, options.network.clone(), admit, move |message| {
            drop(heard.send(Event::Incoming(message)));
        });
        let network = Arc::new(network.await?);
        let archive = Archive::start(log, move |archived| drop(events.send(Event::Archived(archived))))?;
        let handle = Handle::new(inbox.clone(), options.backlog_max, Arc::new(Stats::default()));
        let started = Instant::now();
        let driver = Driver {
            membership: Membership::new(build(&engine), options.patience, generation, options.workers, 1),
            started,
            addresses: BTreeMap::new(),
            relay: Relay::new(network.clone(), handle.clone(), options.backlog_max),
            archive,
            layout,
            engine,
            components,
            network: network.clone(),
            handle: handle.clone(),
            messages,
            incoming,
            office: None,
            controls: Vec::new(),
            gateways: BTreeMap::new(),
            deploying: VecDeque::new(),
            announcing: VecDeque::new(),
            ticked: Instant::now(),
            stopping: false,
            options,
        };
        let address = network.address();
        let thread = std::thread::Builder::new()
            .name("styx-driver".into())
            .spawn(move || fatal_on_panic("driver", move || driver.serve()))?;
        Ok(CoordinatorNode { handle, inbox, thread: Some(thread), address, network })
    }

    /// A handle for the admin endpoints: deployments, and looks at the cluster.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Where other nodes reach it.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The connections.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Makes durable what was cut, and ends.
    pub fn stop(mut self) {
        drop(self.inbox.send(worker::Message::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A generation that runs.
struct Office {
    generation: u64,
    machine: Coordinator<Waiter>,
    members: Vec<Seated<NodeId>>,
    placement: Arc<Placement>,
    joined: BTreeSet<NodeId>,
    /// The log, while it is replayed.
    replay: Option<Receiver<Arc<EpochRecord>>>,
    live: bool,
    durable: Epoch,
    waiting_since: Option<Instant>,
}

impl Office {
    fn node(&self, worker: WorkerId) -> NodeId {
        self.members[usize::from(worker.0)].place
    }

    fn worker(&self, node: NodeId) -> Option<WorkerId> {
        self.members.iter().position(|member| member.place == node).map(|at| WorkerId(at as u16))
    }
}

/// A gateway that wants to be told of changes.
struct Watching {
    /// How many deployments it knows.
    known: usize,
    /// When it was last heard of.
    heard: Instant,
}

/// A gateway that was not heard of for so long is gone: they are new ones each time they start.
const GATEWAY_GONE: Duration = Duration::from_secs(30);

/// A gateway that was not heard of for so long is not waited for.
const GATEWAY_SLOW: Duration = Duration::from_secs(3);

/// How long a deployment that is durable waits for gateways to know of it.
const ANNOUNCE_MAX: Duration = Duration::from_secs(1);

/// A deployment that is durable, and who waits for it.
struct Announcing {
    /// Gateways that know so many deployments know of it.
    known: usize,
    since: Instant,
    waiter: Waiter,
    result: Result<(), Abort>,
}

/// A deployment whose components are being made ready everywhere.
struct Deploying {
    control: Control,
    waiter: Waiter,
    missing: BTreeSet<(NodeId, Digest)>,
    since: Instant,
}

struct Driver {
    options: CoordinatorNodeOptions,
    layout: Layout,
    engine: Arc<Engine>,
    components: ComponentStore,
    network: Arc<Network>,
    archive: Archive,
    membership: Membership<NodeId>,
    started: Instant,
    addresses: BTreeMap<NodeId, String>,
    handle: Handle,
    relay: Relay,
    messages: Receiver<worker::Message>,
    incoming: Receiver<Event>,
    office: Option<Box<Office>>,
    /// Deployments that have taken effect in this generation, replayed ones included.
    controls: Vec<Control>,
    gateways: BTreeMap<NodeId, Watching>,
    deploying: VecDeque<Deploying>,
    announcing: VecDeque<Announcing>,
    ticked: Instant,
    stopping: bool,
}

impl Driver {
    fn serve(mut self) {
        loop {
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                self.member(membership::Input::Tick);
                self.relay.tick(Instant::now());
                self.expire();
            }
            self.go_on();
            let idle = self.office.as_ref().is_none_or(|office| {
                !office.live || (office.machine.is_idle() && office.durable >= office.machine.position().0)
            });
            if self.stopping && idle {
                return;
            }
            let patience = self.patience().unwrap_or(TICK).min(TICK);
            let mut select = crossbeam_channel::Select::new();
            let (of_messages, of_incoming) = (select.recv(&self.messages), select.recv(&self.incoming));
            if let Ok(ready) = select.ready_timeout(patience) {
                debug_assert!(ready == of_messages || ready == of_incoming);
            }
            for _ in 0..BURST_MAX {
                let event = self.incoming.try_recv().ok();
                let message = self.messages.try_recv().ok();
                if event.is_none() && message.is_none() {
                    break;
                }
                event.into_iter().for_each(|event| self.take(event));
                message.into_iter().for_each(|message| self.serve_one(message));
            }
            self.relay.flush();
        }
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64 + 1
    }

    fn control(&self, to: NodeId, envelope: &Envelope) {
        // Who cannot be reached will be told again, or is no longer there.
        drop(self.network.send_control(to, envelope.encode()));
    }

    /// Takes what this process's endpoints ask for.
    fn serve_one(&mut self, message: worker::Message) {
        match message {
            worker::Message::Input(Input::Control { control, waiter }) => self.deploy(control, waiter),
            worker::Message::Inquire(Inquiry::Cluster, to) => drop(to.send(Told::Cluster(self.overview()))),
            worker::Message::Stop => self.stopping = true,
            other => self.relay.take(other),
        }
    }

    fn overview(&self) -> Overview {
        let (epoch, chain) = self.office.as_ref().map(|office| office.machine.position()).unwrap_or_default();
        Overview {
            single: false,
            engine: self.engine.engine_hash(),
            generation: self.membership.generation(),
            live: self.office.as_ref().is_some_and(|office| office.live),
            epoch,
            chain,
            members: self.members(),
            partitions: self.layout.partitions,
            admin: self.options.admin.clone(),
        }
    }

    fn members(&self) -> Vec<(u64, String)> {
        let Some(office) = &self.office else { return Vec::new() };
        let address = |node| self.addresses.get(&node).cloned().unwrap_or_default();
        office.members.iter().map(|member| (member.place.0, address(member.place))).collect()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Incoming(Incoming::Message { peer, generation, body }) => {
                let Some(office) = self.office.as_ref().filter(|office| office.generation == generation) else {
                    return;
                };
                let Some(worker) = office.worker(peer) else { return };
                match Message::decode(&body) {
                    Ok(message) => self.step(Input::Message { from: Node::Worker(worker), message }),
                    Err(error) => {
                        tracing::error!(node = peer.0, "a worker sent what cannot be read, and is given up: {error}");
                        self.member(membership::Input::Lost(peer));
                    }
                }
            }
            Event::Incoming(Incoming::Control { peer, body, .. }) => match Envelope::decode(&body) {
                Ok(envelope) => self.envelope(peer, envelope),
                Err(error) => tracing::warn!(node = peer.0, "a message that cannot be read was dropped: {error}"),
            },
            Event::Incoming(Incoming::Connected { peer, hello, .. }) => {
                tracing::debug!(node = peer.0, name = hello.name, "connected");
            }
            Event::Incoming(Incoming::Lost { peer, why }) => tracing::info!(node = peer.0, "connection lost: {why}"),
            Event::Incoming(Incoming::Broken { peer, generation, why }) => {
                tracing::warn!(node = peer.0, generation, "messages are lost: {why}");
                if self.office.as_ref().is_some_and(|office| office.generation == generation) {
                    self.member(membership::Input::Lost(peer));
                }
            }
            Event::Incoming(Incoming::Refused { peer, reason, message }) => {
                tracing::error!(node = peer.0, reason, "refused: {message}");
            }
            Event::Archived(Archived::Raised(generation)) => self.member(membership::Input::Persisted(generation)),
            Event::Archived(Archived::Synced(generation, epoch)) => {
                let Some(office) = self.office.as_mut().filter(|office| office.generation == generation) else {
                    return;
                };
                office.durable = epoch;
                self.step(Input::Durable(epoch));
            }
        }
    }

    fn envelope(&mut self, peer: NodeId, envelope: Envelope) {
        match envelope {
            Envelope::Hello { hello, address } => {
                self.addresses.insert(peer, address);
                self.member(membership::Input::Hello { from: peer, hello });
            }
            Envelope::Joined { generation } => {
                let Some(office) = self.office.as_mut().filter(|office| office.generation == generation) else {
                    return;
                };
                office.joined.insert(peer);
                if office.joined.len() == office.members.len() && office.replay.is_none() && !office.live {
                    office.replay = Some(self.archive.read());
                }
            }
            Envelope::Want(digest) => {
                let bytes = self.components.get(digest).ok();
                self.control(peer, &Envelope::Component(digest, bytes));
            }
            Envelope::Readied(digest, result) => self.readied(peer, digest, result),
            Envelope::Watch { known } => {
                self.gateways.insert(peer, Watching { known: known as usize, heard: Instant::now() });
                self.show(peer);
                self.announce();
            }
            Envelope::Ask(asks) => {
                let told = asks.into_iter().map(|ask| {
                    let answer = match ask.question {
                        Question::Inquire(Inquiry::Cluster) => Told::Cluster(self.overview()),
                        // The rest is the workers' to say.
                        _ => Told::Moved,
                    };
                    envelope::Told { ticket: ask.ticket, answer }
                });
                self.control(peer, &Envelope::Told(told.collect()));
            }
            Envelope::Told(told) => self.relay.told(peer, told),
            other => tracing::warn!(node = peer.0, "a message that is not for the coordinator was dropped: {other:?}"),
        }
    }

    // Membership.

    fn member(&mut self, input: membership::Input<NodeId>) {
        let mut actions = Vec::new();
        self.membership.step(self.now_us(), input, &mut actions);
        for action in actions {
            match action {
                membership::Action::Beat(to, beat) => self.control(to, &Envelope::Beat(beat)),
                membership::Action::Refuse(to, why) => {
                    tracing::error!(node = to.0, "refused: {why}");
                    self.control(to, &Envelope::Refused(why));
                }
                membership::Action::Persist(generation) => {
                    self.close();
                    self.archive.raise(generation);
                }
                membership::Action::Begin { generation, members } => self.begin(generation, members),
                membership::Action::Invite(seated) => self.invite(&seated),
                membership::Action::Suspend => self.close(),
                membership::Action::Depose(generation) => worker::fatal(&format!(
                    "another coordinator has begun generation {generation}: two processes coordinate one cluster"
                )),
            }
        }
    }

    /// The generation is over: nobody appends any more.
    fn close(&mut self) {
        if self.office.take().is_some() {
            tracing::info!(generation = self.membership.generation(), "the generation is over");
            self.show_all();
        }
    }

    fn begin(&mut self, generation: u64, members: Vec<Seated<NodeId>>) {
        tracing::info!(generation, workers = members.len(), "a generation begins");
        self.network.set_generation(generation);
        let placement = Arc::new(Placement::round_robin(self.layout.partitions, members.len() as u16));
        let config = Config {
            layout: self.layout,
            modes: Modes::default(),
            epoch_size_max: 0,
            epoch_bytes_max: 0,
            backlog_max: 0,
            suspended_max: 0,
            retention: Retention::default(),
            engine: self.engine.engine_hash(),
            generation,
            snapshots: false,
            claim_order: false,
        };
        self.controls.clear();
        let machine = Coordinator::new(config, placement.clone());
        for member in &members {
            if let Some(address) = self.addresses.get(&member.place) {
                self.network.connect(member.place, address.clone());
            }
        }
        self.office = Some(Box::new(Office {
            generation,
            machine,
            members: members.clone(),
            placement,
            joined: BTreeSet::new(),
            replay: None,
            live: false,
            durable: Epoch(0),
            waiting_since: None,
        }));
        members.iter().for_each(|member| self.invite(member));
        self.show_all();
        for deploying in &mut self.deploying {
            deploying.missing.clear();
        }
        self.make_ready_everywhere();
    }

    fn invite(&self, seated: &Seated<NodeId>) {
        let Some(office) = &self.office else { return };
        let Some(me) = office.worker(seated.place) else { return };
        let invite = Invite {
            generation: office.generation,
            life: seated.life,
            me,
            members: self.members(),
            placement: (*office.placement).clone(),
            layout: self.layout,
        };
        self.control(seated.place, &Envelope::Invite(invite));
    }

    // Gateways.

    fn show_all(&mut self) {
        let view = self.view(0);
        self.relay.view(view);
        let gateways: Vec<NodeId> = self.gateways.keys().copied().collect();
        gateways.into_iter().for_each(|gateway| self.show(gateway));
    }

    fn show(&mut self, gateway: NodeId) {
        let known = self.gateways.get(&gateway).map_or(0, |watching| watching.known);
        let view = self.view(known);
        self.control(gateway, &Envelope::View(view));
    }

    fn view(&self, known: usize) -> View {
        // A generation replays all deployments: until it is live, what was known before stands.
        let live = self.office.as_ref().is_some_and(|office| office.live);
        let known = known.min(self.controls.len());
        View {
            generation: self.membership.generation(),
            live,
            members: self.members(),
            placement: match &self.office {
                Some(office) => (*office.placement).clone(),
                None => Placement::round_robin(self.layout.partitions, 1),
            },
            layout: self.layout,
            known: known as u64,
            controls: if live { self.controls[known..].to_vec() } else { Vec::new() },
        }
    }

    // Deployments.

    /// Has every worker make a deployment's components ready; then it is sequenced.
    fn deploy(&mut self, control: Control, waiter: Waiter) {
        self.deploying.push_back(Deploying { control, waiter, missing: BTreeSet::new(), since: Instant::now() });
        self.make_ready_everywhere();
    }

    fn make_ready_everywhere(&mut self) {
        let Some(office) = &self.office else { return };
        let mut orders = Vec::new();
        for deploying in &mut self.deploying {
            if !deploying.missing.is_empty() {
                continue;
            }
            if let Control::Deploy(deployment) = &deploying.control {
                for component in &deployment.components {
                    deploying.missing.extend(office.members.iter().map(|member| (member.place, component.digest)));
                }
            }
            orders.extend(deploying.missing.iter().copied());
        }
        for (node, digest) in orders {
            self.control(node, &Envelope::Ready(digest));
        }
        self.sequence();
    }

    fn readied(&mut self, node: NodeId, digest: Digest, result: Result<(), String>) {
        let mut failed = Vec::new();
        for (at, deploying) in self.deploying.iter_mut().enumerate() {
            if deploying.missing.remove(&(node, digest)) && result.is_err() {
                failed.push(at);
            }
        }
        if let Err(error) = result {
            for at in failed.into_iter().rev() {
                if let Some(deploying) = self.deploying.remove(at) {
                    let abort = Abort::new(Code::GuestTrap, format!("worker {node} cannot load it: {error}"));
                    deploying.waiter.answer(Answer::Controlled(Err(abort)));
                }
            }
        }
        self.sequence();
    }

    /// Sequences deployments, in order, whose components are ready everywhere.
    fn sequence(&mut self) {
        while self.office.as_ref().is_some_and(|office| office.live)
            && self.deploying.front().is_some_and(|deploying| deploying.missing.is_empty())
        {
            if let Some(Deploying { control, waiter, .. }) = self.deploying.pop_front() {
                self.step(Input::Control { control, waiter });
            }
        }
    }

    /// Tells those whose deployments the gateways know by now: whoever calls next finds them.
    fn announce(&mut self) {
        let present = |watching: &&Watching| watching.heard.elapsed() < GATEWAY_SLOW;
        let known = self.gateways.values().filter(present).map(|watching| watching.known).min().unwrap_or(usize::MAX);
        while self.announcing.front().is_some_and(|next| next.known <= known || next.since.elapsed() > ANNOUNCE_MAX) {
            if let Some(Announcing { waiter, result, .. }) = self.announcing.pop_front() {
                waiter.answer(Answer::Controlled(result));
            }
        }
    }

    fn expire(&mut self) {
        self.announce();
        let gone = self.gateways.iter().filter(|(_, watching)| watching.heard.elapsed() > GATEWAY_GONE);
        for gateway in gone.map(|(gateway, _)| *gateway).collect::<Vec<_>>() {
            self.gateways.remove(&gateway);
            self.network.forget(gateway);
        }
        while self.deploying.front().is_some_and(|deploying| deploying.since.elapsed() > READY_MAX) {
            if let Some(deploying) = self.deploying.pop_front() {
                let message = "workers took too long to make the deployment's components ready; try again";
                deploying.waiter.answer(Answer::Controlled(Err(Abort::new(Code::Overloaded, message))));
            }
        }
    }

    // The machine.

    /// Replays what is left of the log, or cuts an epoch, if it is time.
    fn go_on(&mut self) {
        loop {
            let Some(office) = self.office.as_mut() else { return };
            if !office.machine.is_idle() {
                return;
            }
            if let Some(records) = &office.replay {
                match records.try_recv() {
                    Ok(record) => {
                        office.durable = record.epoch;
                        self.controls.extend(record.controls.iter().cloned());
                        self.step(Input::Replay(record));
                    }
                    Err(TryRecvError::Empty) => return,
                    Err(TryRecvError::Disconnected) => self.go_live(),
                }
                continue;
            }
            if !office.live || !office.machine.has_work() || self.stopping && self.patience().is_some() {
                return;
            }
            if self.patience().is_some() {
                return;
            }
            if let Some(office) = self.office.as_mut() {
                office.waiting_since = None;
            }
            self.step(Input::Tick { now: now() });
        }
    }

    fn go_live(&mut self) {
        let Some(office) = self.office.as_mut() else { return };
        office.replay = None;
        office.live = true;
        let (generation, (epoch, chain)) = (office.generation, office.machine.position());
        let catalog = office.machine.catalog().clone();
        office.durable = epoch;
        tracing::info!(generation, epoch = epoch.0, %chain, "live");
        self.step(Input::Durable(epoch));
        self.handle.show_catalog(Arc::new(catalog));
        self.member(membership::Input::Live(generation));
        self.show_all();
        self.sequence();
    }

    /// How much longer the next epoch may fill; `None` if it is to be cut now.
    fn patience(&mut self) -> Option<Duration> {
        let wait = self.options.epoch_max_wait;
        let office = self.office.as_mut()?;
        let unsynced = office.machine.position().0.0.saturating_sub(office.durable.0);
        if unsynced < UNSYNCED_MAX || self.stopping {
            return None;
        }
        let since = *office.waiting_since.get_or_insert_with(Instant::now);
        wait.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    fn step(&mut self, input: Input<Waiter>) {
        let Some(office) = self.office.as_mut() else { return };
        let mut actions = Vec::new();
        office.machine.step(input, &mut actions);
        for action in actions {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action<Waiter>) {
        let Some(office) = self.office.as_mut() else { return };
        match action {
            Action::Append(record) => {
                let deploys = !record.controls.is_empty();
                self.controls.extend(record.controls.iter().cloned());
                self.archive.append(office.generation, record);
                if deploys {
                    let catalog: Catalog = office.machine.catalog().clone();
                    self.handle.show_catalog(Arc::new(catalog));
                    self.show_all();
                }
            }
            Action::Send { to: Node::Worker(worker), message } => {
                let node = office.node(worker);
                if let Err(error) = self.network.send(node, message.encode()) {
                    tracing::warn!(node = node.0, "a message cannot be sent: {error}");
                }
            }
            Action::Controlled { waiter, result } => {
                let known = self.controls.len();
                self.announcing.push_back(Announcing { known, since: Instant::now(), waiter, result });
                self.announce();
            }
            Action::Expel { worker, expected, found } => {
                let node = office.node(worker);
                let why = format!(
                    "this worker has deployed {found:016x}, its coordinator {expected:016x}: restart it with an empty data directory"
                );
                tracing::error!(node = node.0, "expelled: {why}");
                self.control(node, &Envelope::Refused(why));
                self.member(membership::Input::Lost(node));
            }
            Action::Finished(summary) => {
                self.handle.stats().finished(&summary, 0);
            }
            Action::Send { .. }
            | Action::Execute(_)
            | Action::Advance(_)
            | Action::FallBack(_)
            | Action::Reply { .. }
            | Action::Accepted { .. }
            | Action::Snapshot(_)
            | Action::Part(_)
            | Action::Changes { .. }
            | Action::Unknown { .. }
            | Action::Logs { .. } => unreachable!("this is a worker's"),
        }
    }
}
