//! The thread that owns the coordinator's machines: takes what comes from the network, from the log
//! and from this process's endpoints.

mod deployments;
mod gateways;
mod generations;
mod office;
mod rounds;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use styx_engine::Engine;
use styx_protocol::ids::Generation;
use styx_protocol::machine::coordinator::Input;
use styx_protocol::membership::{self, Membership};
use styx_protocol::message::Message;
use styx_protocol::record::Genesis;
use styx_storage::snapshot::SnapshotStore;

use self::deployments::{Announcing, Deploying};
use self::gateways::Watching;
use self::office::{Office, Resting};
use super::Request;
use super::{CoordinatorNodeOptions, Tenure};
use crate::cluster::archive::{Archive, Archived};
use crate::cluster::relay::Relay;
use crate::components::ComponentStore;
use crate::handle::{ClientMessage, Handle, OperatorMessage};
use crate::snapshots::{Found, Noted, Written};
use styx_driver::wire::{AdminQuery, Envelope, Query, Question, Response, TicketedResponse};
use styx_transport::{Incoming, Network, NodeId};

/// Between two looks at the membership.
const TICK: Duration = Duration::from_millis(20);

/// A worker whose connection has ended connects again within this time, or never.
const CUT_OFF_MAX: Duration = Duration::from_millis(300);

/// Events taken before what they made possible is done.
const BURST_MAX: usize = 1024;

/// What the driver is told.
pub(super) enum Event {
    Incoming(Incoming),
    Archived(Archived),
    /// The keeper of a generation wants a snapshot to begin.
    Snapshot(u64),
    /// The keeper of a generation waits for what workers have written.
    Remind(u64),
}

/// See the module.
pub(super) struct Driver {
    pub(super) options: CoordinatorNodeOptions,
    pub(super) genesis: Genesis,
    pub(super) store: Option<SnapshotStore>,
    /// Snapshots of this epoch and later ones are of no use.
    pub(super) unusable: Arc<AtomicU64>,
    /// The snapshot that the next generation begins with.
    pub(super) found: Option<Arc<Found>>,
    /// The end of the log when the last generation was raised.
    pub(super) position: u64,
    pub(super) events: Sender<Event>,
    pub(super) engine: Arc<Engine>,
    pub(super) components: ComponentStore,
    pub(super) network: Arc<Network>,
    pub(super) archive: Archive,
    pub(super) membership: Membership<NodeId>,
    /// Nodes whose connection has ended, since then.
    pub(super) cut_off: BTreeMap<NodeId, Instant>,
    pub(super) started: Instant,
    pub(super) addresses: BTreeMap<NodeId, String>,
    pub(super) handle: Handle,
    pub(super) relay: Relay,
    pub(super) messages: Receiver<Request>,
    pub(super) incoming: Receiver<Event>,
    pub(super) office: Option<Box<Office>>,
    pub(super) gateways: BTreeMap<NodeId, Watching>,
    pub(super) deploying: VecDeque<Deploying>,
    pub(super) announcing: VecDeque<Announcing>,
    pub(super) ticked: Instant,
    /// What gateways were last shown of the log: whether its disk is nearly full, and whether it waits.
    pub(super) shown: (bool, bool),
    /// It was told to stop, then.
    pub(super) stopping: Option<Instant>,
    /// For how long it may act.
    pub(super) tenure: Tenure,
}

impl Driver {
    /// Serves until told to stop, or until it may no longer.
    pub(super) fn serve(mut self) {
        while self.tenure.hold() {
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                self.member(membership::Input::Tick);
                self.give_up();
                self.relay.tick();
                self.expire();
                self.show_room();
            }
            self.go_on();
            self.rested();
            if self.may_end() {
                // Its keeper holds on to the log.
                return drop(self.office.take());
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
                if event.is_none() && message.is_none() || !self.tenure.hold() {
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

    pub(super) fn control(&self, to: NodeId, envelope: &Envelope) {
        if self.tenure.hold() {
            // Who cannot be reached will be told again, or is no longer there.
            drop(self.network.send_control(to, envelope.encode()));
        }
    }

    /// Takes what this process's endpoints ask for.
    fn serve_one(&mut self, request: Request) {
        match request {
            Request::Operator(OperatorMessage::Deploy(control, waiter)) => self.deploy(control, waiter),
            Request::Client(ClientMessage::Read(AdminQuery::Cluster, to)) => {
                // Whoever asked may be gone.
                let _ = to.send(Response::Cluster(self.overview()));
            }
            Request::Client(message) => self.relay.take(message),
            Request::Operator(OperatorMessage::Snapshot(to)) => {
                match self.office.as_ref().and_then(|office| office.keeper.as_ref()) {
                    Some(keeper) => keeper.note(Noted::Wanted(to)),
                    None if self.store.is_some() => drop(to.send(Err("the cluster does not serve yet".to_owned()))),
                    None => drop(to.send(Err("snapshots are off: start the coordinator with --store".to_owned()))),
                }
            }
            Request::Stop => self.stop(),
        }
    }

    /// To end: what is under way comes to its end first, and nobody notices but by waiting for whoever leads next.
    fn stop(&mut self) {
        self.stopping = Some(Instant::now());
        if let Some(office) = self.office.as_ref().filter(|office| office.serves()) {
            self.rest(office.generation);
        }
    }

    /// Whether it was told to stop, and nothing more need be waited for.
    fn may_end(&self) -> bool {
        let Some(since) = self.stopping else { return false };
        let Some(office) = self.office.as_ref().filter(|office| office.live) else { return true };
        let heard = || office.members.iter().all(|member| self.network.outstanding_bytes(member.place) == 0);
        matches!(office.resting, Some(Resting::Done)) && heard()
            || since.elapsed().as_micros() as u64 >= self.options.patience.drain_us
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Incoming(Incoming::Message { peer, generation, body }) => {
                let Some(office) = self.office.as_ref().filter(|office| office.generation == generation) else {
                    return;
                };
                let Some(worker) = office.worker(peer) else { return };
                match Message::decode(&body) {
                    Ok(message) => self.step(Input::Message { from: worker, message }),
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
                self.cut_off.remove(&peer);
                self.relay.resume();
            }
            Event::Incoming(Incoming::Lost { peer, why }) => {
                tracing::info!(node = peer.0, "connection lost: {why}");
                self.cut_off.insert(peer, Instant::now());
            }
            Event::Incoming(Incoming::Unreached { peer, gone, why }) => {
                tracing::debug!(node = peer.0, "{why}");
                if gone {
                    self.lost(peer, &why);
                }
            }
            Event::Incoming(Incoming::Broken { peer, generation, why }) => {
                tracing::warn!(node = peer.0, generation, "messages are lost: {why}");
                if self.office.as_ref().is_some_and(|office| office.generation == generation) {
                    self.member(membership::Input::Lost(peer));
                }
            }
            Event::Incoming(Incoming::Refused { peer, reason, message }) => {
                tracing::error!(node = peer.0, reason, "refused: {message}");
            }
            Event::Archived(Archived::Raised(generation, position, found)) => {
                (self.found, self.position) = (found.map(|found| Arc::new(*found)), position);
                self.member(membership::Input::Persisted(Generation(generation)));
            }
            Event::Snapshot(generation) => {
                if self.office.as_ref().is_some_and(|office| office.live && office.generation == generation) {
                    self.step(Input::Snapshot);
                }
            }
            Event::Remind(generation) => {
                let Some(office) = self.office.as_ref().filter(|office| office.generation == generation) else {
                    return;
                };
                for member in &office.members {
                    self.control(member.place, &Envelope::ResendPart { generation });
                }
            }
            Event::Archived(Archived::Synced(generation, epoch, position)) => {
                let Some(office) = self.office.as_mut().filter(|office| office.generation == generation) else {
                    return;
                };
                (office.durable, office.position) = (epoch, position);
                self.handle.stats().durable.store(epoch.0, Ordering::Relaxed);
                self.step(Input::Durable(epoch));
            }
        }
    }

    /// Workers that were cut off and do not come back are lost. Those that are silent the membership sees.
    fn give_up(&mut self) {
        let gone = |(_, since): &(&NodeId, &Instant)| since.elapsed() >= CUT_OFF_MAX;
        let gone: Vec<NodeId> = self.cut_off.iter().filter(gone).map(|(peer, _)| *peer).collect();
        for peer in gone {
            self.cut_off.remove(&peer);
            self.lost(peer, "it does not connect again");
        }
    }

    /// A worker need not be silent for long to be lost.
    fn lost(&mut self, peer: NodeId, why: &str) {
        if self.office.as_ref().is_some_and(|office| office.worker(peer).is_some()) {
            tracing::warn!(node = peer.0, "a worker is gone: {why}");
            self.member(membership::Input::Lost(peer));
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
                    office.replay = Some(self.archive.read(office.beginning()));
                }
            }
            Envelope::RestoreFailed { generation, why, damaged } => {
                let Some(office) = self.office.as_ref().filter(|office| office.generation == generation) else {
                    return;
                };
                tracing::error!(code = "SNAPSHOT_DAMAGED", node = peer.0, "a worker cannot begin: {why}");
                if let Some(found) = office.found.as_ref().filter(|_| damaged) {
                    self.unusable.fetch_min(found.manifest.epoch, Ordering::Relaxed);
                }
                self.member(membership::Input::Lost(peer));
            }
            Envelope::PartWritten { generation, part } => {
                let Some(office) = self.office.as_ref().filter(|office| office.generation == generation) else {
                    return;
                };
                let written = match Written::of(part) {
                    Ok(written) => written,
                    Err(error) => {
                        tracing::error!(node = peer.0, "a worker wrote what cannot be read, and is given up: {error}");
                        return self.member(membership::Input::Lost(peer));
                    }
                };
                if let (Some(keeper), Some(worker)) = (&office.keeper, office.worker(peer)) {
                    keeper.note(Noted::Written(worker, written));
                }
            }
            Envelope::FetchComponent(digest) => {
                let bytes = self.components.get(digest).ok();
                self.control(peer, &Envelope::Component(digest, bytes));
            }
            Envelope::ComponentPrepared(digest, result) => self.readied(peer, digest, result),
            Envelope::Watch { known } => {
                self.gateways.insert(peer, Watching { known, heard: Instant::now() });
                self.show(peer);
                self.announce();
            }
            Envelope::Queries(queries) => {
                let responses = queries.into_iter().map(|Query { ticket, question, .. }| {
                    let response = match question {
                        Question::Admin(AdminQuery::Cluster) => Response::Cluster(self.overview()),
                        // The rest is the workers' to say.
                        _ => Response::WrongGeneration,
                    };
                    TicketedResponse { ticket, response }
                });
                self.control(peer, &Envelope::Responses(responses.collect()));
            }
            Envelope::Responses(responses) => self.relay.responses(peer, responses),
            other => tracing::warn!(node = peer.0, "a message that is not for the coordinator was dropped: {other:?}"),
        }
    }
}
