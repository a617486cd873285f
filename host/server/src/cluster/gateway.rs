//! A gateway process: the relay with a network and a thread of its own.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, Sender, unbounded};
use tokio::sync::watch;

use super::COORDINATOR;
use super::coordinators::{Coordinators, is_standby};
use super::relay::Relay;
use crate::fatal::fatal_on_panic;
use crate::handle::{ClientMessage, Handle};
use crate::stats::Stats;
use styx_driver::wire::{CatalogVersion, Envelope};
use styx_transport::{Hello, Incoming, Network, NodeId, NodeKind, Options, same_build};

/// How a gateway is connected.
#[derive(Clone, Debug)]
pub struct GatewayNodeOptions {
    /// Its name, for people.
    pub name: String,
    /// The connections; nobody dials a gateway.
    pub network: Options,
    /// Where the coordinator is, or those are of which one leads; at least one.
    pub coordinators: Vec<String>,
    /// Most requests under way.
    pub backlog_max: usize,
}

/// Between two looks at what waits.
const TICK: Duration = Duration::from_millis(50);

/// How often the coordinator hears that this gateway is there, and says that it is.
const WATCH: Duration = Duration::from_millis(500);

/// Messages taken before what they asked for is sent.
const BURST_MAX: usize = 1024;

/// A request of this very process.
enum Request {
    /// A client asks for something.
    Client(ClientMessage),
    /// End now.
    Stop,
}

impl From<ClientMessage> for Request {
    fn from(message: ClientMessage) -> Self {
        Request::Client(message)
    }
}

/// A running gateway.
pub struct GatewayNode {
    handle: Handle,
    inbox: Sender<Request>,
    thread: Option<JoinHandle<()>>,
    network: Arc<Network>,
    informed: watch::Receiver<bool>,
}

impl GatewayNode {
    /// Starts it on the current runtime. Requests wait until the cluster serves.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub async fn start(options: GatewayNodeOptions) -> anyhow::Result<GatewayNode> {
        let (inbox, messages) = unbounded();
        let (events, incoming) = unbounded();
        let id = NodeId(rand::random::<u64>() | 2);
        let hello = Hello::new(NodeKind::Gateway, id, options.name, 0);
        let network = Network::start(hello, options.network, same_build, move |event| drop(events.send(event)));
        let network = Arc::new(network.await?);
        let coordinators = Coordinators::dial(network.clone(), options.coordinators);
        let handle = Handle::new(inbox.clone(), options.backlog_max, Arc::new(Stats::default()));
        let (inform, informed) = watch::channel(false);
        let driver = Driver {
            inform,
            relay: Relay::of_gateway(network.clone(), handle.clone(), options.backlog_max),
            network: network.clone(),
            coordinators,
            messages,
            incoming,
            watched: None,
            told: CatalogVersion::default(),
        };
        let thread = std::thread::Builder::new()
            .name("styx-relay".into())
            .spawn(move || fatal_on_panic("relay", move || driver.serve()))?;
        Ok(GatewayNode { handle, inbox, thread: Some(thread), network, informed })
    }

    /// A handle for clients.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Becomes true when it first knows what is deployed.
    pub fn informed(&self) -> watch::Receiver<bool> {
        self.informed.clone()
    }

    /// The connections.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Ends the thread. Whoever still waits sees that.
    pub fn stop(mut self) {
        drop(self.inbox.send(Request::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Driver {
    inform: watch::Sender<bool>,
    relay: Relay,
    network: Arc<Network>,
    coordinators: Coordinators,
    messages: Receiver<Request>,
    incoming: Receiver<Incoming>,
    watched: Option<Instant>,
    /// What the coordinator was told to be known here.
    told: CatalogVersion,
}

impl Driver {
    fn serve(mut self) {
        loop {
            let now = Instant::now();
            let due = self.watched.is_none_or(|watched| now.saturating_duration_since(watched) >= WATCH);
            if due || self.told != self.relay.known() {
                self.watch(now);
            }
            if self.incoming.is_empty() {
                self.coordinators.look();
            }
            self.relay.tick(now);
            self.relay.flush();
            let mut select = Select::new();
            select.recv(&self.messages);
            select.recv(&self.incoming);
            if select.ready_timeout(TICK).is_err() {
                continue;
            }
            for _ in 0..BURST_MAX {
                let (message, event) = (self.messages.try_recv().ok(), self.incoming.try_recv().ok());
                if message.is_none() && event.is_none() {
                    break;
                }
                match message {
                    Some(Request::Stop) => return,
                    Some(Request::Client(message)) => self.relay.take(message),
                    None => {}
                }
                event.into_iter().for_each(|event| self.hear(event));
            }
        }
    }

    fn watch(&mut self, now: Instant) {
        (self.watched, self.told) = (Some(now), self.relay.known());
        let watch = Envelope::Watch { known: self.told };
        // The coordinator that cannot be reached now is told again.
        drop(self.network.send_control(COORDINATOR, watch.encode()));
    }

    fn hear(&mut self, event: Incoming) {
        self.coordinators.hear(&event);
        match event {
            Incoming::Control { peer, body, .. } => match Envelope::decode(&body) {
                Ok(Envelope::View(view)) if peer == COORDINATOR => {
                    let live = view.live;
                    self.relay.attended(true);
                    self.relay.view(view);
                    self.inform.send_if_modified(|informed| live && !std::mem::replace(informed, true));
                }
                Ok(Envelope::Responses(responses)) => self.relay.told(peer, responses),
                Ok(other) => {
                    tracing::warn!(node = peer.0, "a message that is not for a gateway was dropped: {other:?}")
                }
                Err(error) => tracing::warn!(node = peer.0, "a message that cannot be read was dropped: {error}"),
            },
            Incoming::Connected { peer: COORDINATOR, .. } => {
                self.relay.attended(true);
                self.watched = None;
                self.relay.resume();
            }
            Incoming::Connected { .. } => self.relay.resume(),
            Incoming::Lost { peer, why } => {
                tracing::info!(node = peer.0, "connection lost: {why}");
                if peer == COORDINATOR {
                    self.relay.attended(false);
                }
            }
            Incoming::Refused { reason, .. } if is_standby(&reason) => {}
            Incoming::Unreached { peer, why, .. } => tracing::debug!(node = peer.0, "{why}"),
            Incoming::Refused { peer, reason, message } => tracing::error!(node = peer.0, reason, "refused: {message}"),
            Incoming::Message { .. } | Incoming::Broken { .. } => {}
        }
    }
}
