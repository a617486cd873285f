//! The thread that owns a worker's machine: takes what comes from the network, from the threads that
//! execute and from clients, and is a member of one generation after the other.

mod clients;
mod components;
mod serving;
mod snapshots;
mod steps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, Sender};
use styx_engine::Engine;
use styx_protocol::catalog::Digest;
use styx_protocol::ids::{Epoch, Generation, WorkerId};
use styx_protocol::machine::Worker;
use styx_protocol::machine::worker::{Action, Config, Input};
use styx_protocol::membership::{Beat, Member};
use styx_protocol::message::{Message, Node};
use styx_protocol::task::LocalView;
use styx_storage::snapshot::SnapshotStore;
use tokio::sync::watch;

use self::components::missing;
use self::serving::{Asker, Doubtful, Serving};
use self::snapshots::Opened;
use super::WorkerNodeOptions;
use crate::cluster::COORDINATOR;
use crate::cluster::coordinators::{Coordinators, is_standby};
use crate::components::ComponentStore;
use crate::execution::{Completion, Dispatcher};
use crate::fatal::fatal;
use crate::handle::{self, ClientMessage, Handle};
use crate::snapshots::Written;
use crate::stats::Stats;
use styx_driver::wire::{self, Envelope, Invite, Response};
use styx_transport::{Incoming, Network, NodeId, Reason};

/// Between two heartbeats.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(50);

/// A member that was not reachable for so long is reported to the coordinator.
const SILENT: Duration = Duration::from_millis(1500);

/// How long a worker that is to end waits to be let go.
const LEAVE_MAX: Duration = Duration::from_secs(15);

/// How long the last answers may travel.
const LINGER: Duration = Duration::from_millis(100);

/// Bytes of arguments in one worker's part of a record.
const EPOCH_BYTES_MAX: usize = 16 << 20;

/// Parts of graphs taken from a mail at a time: what they need stays in the processor's caches.
const MAIL_PIECE: usize = 64;

/// Messages taken before what they made possible is done.
const BURST_MAX: usize = 1024;

/// What the driver is told.
pub(super) enum Event {
    Incoming(Incoming),
    Completed(Completion),
    Loaded(Digest, Result<(), String>),
    /// What a generation begins with has been read.
    Opened(u64, anyhow::Result<Opened>),
    /// The collector of a generation takes more of what has changed.
    HandOver(u64),
    /// What a generation's collector has written.
    Written(u64, Box<Written>),
    /// The process is to end, when nobody counts on it any more.
    Leave,
    Stop,
}

/// See the module.
pub(super) struct Driver {
    pub(super) handle: Handle,
    pub(super) requests: Receiver<ClientMessage>,
    pub(super) options: WorkerNodeOptions,
    pub(super) engine: Arc<Engine>,
    pub(super) components: ComponentStore,
    pub(super) network: Arc<Network>,
    pub(super) coordinators: Coordinators,
    pub(super) member: Member,
    pub(super) address: String,
    pub(super) dispatcher: Dispatcher<styx_engine::Executor>,
    pub(super) inbox: Receiver<Event>,
    pub(super) events: Sender<Event>,
    pub(super) stats: Arc<Stats>,
    /// When the pool was given the batch that it has.
    pub(super) batch_out: Instant,
    pub(super) serving: Option<Box<Serving>>,
    /// Events that came while parts of an earlier generation were awaited.
    pub(super) postponed: VecDeque<Event>,
    pub(super) loading: BTreeSet<Digest>,
    /// Its machine in the last generation, until another one begins.
    pub(super) left: Option<Box<Worker<Asker>>>,
    /// The store of snapshots that was used last.
    pub(super) store: Option<SnapshotStore>,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) said_hello: Instant,
    pub(super) lost: BTreeMap<NodeId, Instant>,
    /// Whether the coordinator can be reached.
    pub(super) attended: bool,
    /// If it is to end: how long it waits to be let go.
    pub(super) leaving: Option<Instant>,
    /// Why the coordinator does not want this worker.
    pub(super) refused: watch::Sender<Option<String>>,
    /// Empty between steps; its memory is used again.
    pub(super) actions: Vec<Action<Asker>>,
}

impl Driver {
    /// Serves until told to stop.
    pub(super) fn serve(mut self) {
        loop {
            if self.postponed.is_empty() && self.inbox.is_empty() {
                self.coordinators.look();
            }
            self.greet();
            if self.leaving.is_some_and(|until| !self.attended || until <= Instant::now()) {
                return self.leave();
            }
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
        if let Event::Incoming(incoming) = &event {
            self.coordinators.hear(incoming);
        }
        match event {
            Event::Incoming(Incoming::Message { peer, generation, body }) => self.message(peer, generation, &body),
            Event::Incoming(Incoming::Control { peer, body, .. }) => match Envelope::decode(&body) {
                Ok(envelope) => self.envelope(peer, envelope),
                Err(error) => tracing::warn!(node = peer.0, "a message that cannot be read was dropped: {error}"),
            },
            Event::Incoming(Incoming::Connected { peer, .. }) => {
                self.attended |= peer == COORDINATOR;
                self.lost.remove(&peer);
            }
            Event::Incoming(Incoming::Lost { peer, why }) => {
                self.attended &= peer != COORDINATOR;
                tracing::info!(node = peer.0, "connection lost: {why}");
                self.lost.entry(peer).or_insert_with(Instant::now);
            }
            Event::Incoming(Incoming::Broken { peer, generation, why }) => {
                tracing::warn!(node = peer.0, generation, "messages are lost: {why}");
                self.lost.insert(peer, Instant::now() - SILENT);
            }
            Event::Incoming(Incoming::Unreached { peer, why, .. }) => tracing::debug!(node = peer.0, "{why}"),
            Event::Incoming(Incoming::Refused { peer, reason, message }) => {
                match Reason::named(&reason).is_some_and(Reason::is_of_build) && peer == COORDINATOR {
                    true => self.refuse(message),
                    false if is_standby(&reason) => {}
                    false => tracing::error!(node = peer.0, reason, "refused: {message}"),
                }
            }
            Event::Completed(completion) => {
                if let Some(input) = self.dispatcher.take(completion) {
                    self.step(input);
                }
            }
            Event::Loaded(digest, result) => self.loaded(digest, result),
            Event::Opened(generation, opened) => self.opened(generation, opened),
            Event::HandOver(generation) => {
                if self.serves(generation) {
                    self.step(Input::HandOver);
                }
            }
            Event::Written(generation, written) => self.written(generation, *written),
            Event::Leave => {
                tracing::info!("leaves the cluster");
                self.leaving = Some(Instant::now() + LEAVE_MAX);
                self.member.leave();
                self.said_hello = Instant::now() - HEARTBEAT;
            }
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
            Envelope::Refused(why) if peer == COORDINATOR => self.refuse(why),
            Envelope::Released if peer == COORDINATOR => {
                // What it has just said is on its way.
                self.leaving = self.leaving.map(|until| until.min(Instant::now() + LINGER));
            }
            Envelope::Invite(invite) if peer == COORDINATOR => {
                if self.member.invited(Generation(invite.generation), invite.life) {
                    self.join(invite);
                }
            }
            Envelope::ResendPart { generation } => self.remind(generation),
            Envelope::PrepareComponent(digest) => self.make_ready(digest),
            Envelope::Component(digest, bytes) => match bytes {
                Some(bytes) if ComponentStore::digest(&bytes) == digest => match self.components.put(&bytes) {
                    Ok(_) => self.load(digest),
                    Err(error) => self.loaded(digest, Err(format!("cannot keep component {digest}: {error}"))),
                },
                _ => self.loaded(digest, Err(format!("the coordinator has no component {digest}"))),
            },
            Envelope::Queries(queries) => queries.into_iter().for_each(|query| self.ask(peer, query)),
            other => tracing::warn!(node = peer.0, "a message that is not for a worker was dropped: {other:?}"),
        }
    }

    /// The coordinator does not want this worker, and will not want it as it is.
    fn refuse(&mut self, why: String) {
        self.refused.send_replace(Some(why));
        drop(self.events.send(Event::Stop));
    }

    /// A beat has come: what this worker does not know, nobody knows, if the beat shows that no other
    /// generation has begun since it was asked.
    fn settle_doubts(&mut self, beat: Beat) {
        let Some(serving) = &mut self.serving else { return };
        let generation = serving.invite.generation;
        let over: Vec<bool> =
            serving.doubts.iter_mut().map(|(doubt, _)| doubt.hear(beat, Generation(generation))).collect();
        // In the order in which they came: a look must not show what an earlier question was told is unknown.
        for _ in over.into_iter().take_while(|over| *over) {
            let Some(serving) = &mut self.serving else { return };
            match serving.doubts.pop_front() {
                None => return,
                Some((_, Doubtful::Look(looker, answer))) => serving.tell(looker, answer),
                Some((_, Doubtful::Unknown(asker))) => {
                    self.answer(asker, Response::Unknown, || handle::Answer::Unknown);
                }
            }
        }
    }

    /// Everything of the generation is dropped.
    fn leave(&mut self) {
        let mut actions = Vec::new();
        self.serving.iter_mut().for_each(|serving| serving.machine.leave(&mut actions));
        actions.into_iter().for_each(|action| drop(self.perform(action)));
        self.tell();
        let Some(mut serving) = self.serving.take() else { return };
        if let Some(collector) = serving.collector.take() {
            collector.abandon();
        }
        self.handle.show_catalog(Arc::default());
        tracing::info!("the generation is over");
        while self.dispatcher.is_owed() {
            match self.inbox.recv() {
                Ok(Event::Completed(completion)) => self.dispatcher.discard(completion),
                Ok(event) => self.postponed.push_back(event),
                Err(_) => return,
            }
        }
        self.dispatcher.forget();
        if !serving.beginning {
            self.left = Some(Box::new(serving.machine));
        }
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
            retention: invite.retention,
            generation: Generation(invite.generation),
            snapshots: invite.store.is_some(),
            claim_order: false,
        };
        let seat = LocalView { me: invite.me, placement: Arc::new(invite.placement.clone()) };
        let nodes = invite.members.iter().enumerate();
        let workers = nodes.map(|(worker, member)| (member.node, WorkerId(worker as u16))).collect();
        for (worker, wire::Member { node, address }) in invite.members.iter().enumerate() {
            if worker != usize::from(invite.me.0) {
                self.network.connect(*node, address.clone());
            }
        }
        self.serving = Some(Box::new(Serving {
            invite,
            machine: Worker::new(config, seat),
            workers,
            stalled: VecDeque::new(),
            missing: BTreeSet::new(),
            beginning: true,
            collector: None,
            written: None,
            tells: BTreeMap::new(),
            mails: BTreeMap::new(),
            durable: Epoch(0),
            live: false,
            looks: VecDeque::new(),
            doubts: VecDeque::new(),
            started: Instant::now(),
        }));
        self.open();
    }

    fn serves(&self, generation: u64) -> bool {
        self.serving.as_ref().is_some_and(|serving| serving.invite.generation == generation)
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

    /// Sends mail and answers that have come together.
    fn tell(&mut self) {
        let Some(serving) = &mut self.serving else { return };
        for (node, mail) in std::mem::take(&mut serving.mails) {
            self.send(node, &Message::Graphs(mail));
        }
        let Some(serving) = &mut self.serving else { return };
        for (node, tells) in std::mem::take(&mut serving.tells) {
            drop(self.network.send_control(node, Envelope::Responses(tells).encode()));
        }
    }
}
