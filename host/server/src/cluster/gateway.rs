//! A gateway process: the gateway's driver with a network and a thread of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Select, Sender, unbounded};
use styx_driver::gateway::{GatewayDriver, GatewayEffect, GatewayEvent, TICK};
use styx_driver::network::NetworkEvent;
use styx_driver::wire::{Envelope, Response};
use styx_transport::{Hello, Network, NodeId, NodeKind, Options, SendError, same_build};
use tokio::sync::{oneshot, watch};

use super::{COORDINATOR, network_event};
use crate::clock::MonotonicClock;
use crate::diagnostics;
use crate::fatal::fatal_on_panic;
use crate::handle::{ClientMessage, Handle, Waiter};
use crate::observe::Recorder;
use crate::stats::Stats;

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
    /// Watches requests.
    pub recorder: Arc<Recorder>,
}

/// Messages taken before what they asked for is sent.
const BATCH_MAX: usize = 1024;

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
    pub async fn start(options: GatewayNodeOptions) -> anyhow::Result<GatewayNode> {
        let (inbox, requests) = unbounded();
        let (events, incoming) = unbounded();
        let certified = options.network.certificates.as_ref().map(|own| own.node);
        let id = certified.unwrap_or_else(|| NodeId(rand::random::<u64>() | 2));
        let hello = Hello::new(NodeKind::Gateway, id, options.name, 0);
        let network = Network::start(hello, options.network, same_build, move |event| {
            // The thread has ended only when the gateway has.
            let _ = events.send(network_event::read(event));
        });
        let network = Arc::new(network.await?);
        network.connect(COORDINATOR, options.coordinators.first().expect("there is a coordinator").clone());
        let handle = Handle::new(inbox.clone(), options.backlog_max, Arc::new(Stats::observed_by(options.recorder)));
        let (inform, informed) = watch::channel(false);
        let clock = MonotonicClock::start();
        let shell = Shell {
            driver: GatewayDriver::new(clock.now(), options.coordinators, options.backlog_max),
            clock,
            inform,
            handle: handle.clone(),
            network: network.clone(),
            requests,
            incoming,
        };
        let thread = std::thread::Builder::new()
            .name("styx-gateway".into())
            .spawn(move || fatal_on_panic("gateway", move || shell.serve()))?;
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

    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Ends the thread. Whoever still waits sees that.
    pub fn stop(mut self) {
        // The thread may have ended already.
        let _ = self.inbox.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Event = GatewayEvent<Waiter, oneshot::Sender<Response>>;

/// The driver's thread: takes events, and carries out what the driver wants done.
struct Shell {
    driver: GatewayDriver<Waiter, oneshot::Sender<Response>>,
    clock: MonotonicClock,
    inform: watch::Sender<bool>,
    handle: Handle,
    network: Arc<Network>,
    requests: Receiver<Request>,
    incoming: Receiver<NetworkEvent>,
}

impl Shell {
    fn serve(mut self) {
        let mut effects = Vec::new();
        loop {
            self.step(Event::Tick, &mut effects);
            let mut select = Select::new();
            select.recv(&self.requests);
            select.recv(&self.incoming);
            if select.ready_timeout(TICK).is_err() {
                continue;
            }
            for _ in 0..BATCH_MAX {
                let (request, incoming) = (self.requests.try_recv().ok(), self.incoming.try_recv().ok());
                if request.is_none() && incoming.is_none() {
                    break;
                }
                match request {
                    Some(Request::Stop) => return,
                    Some(Request::Client(message)) => {
                        self.handle.taken(&message);
                        self.step(Event::Client(message), &mut effects);
                    }
                    None => {}
                }
                if let Some(incoming) = incoming {
                    self.step(Event::Network(incoming), &mut effects);
                }
            }
            self.step(Event::Settled, &mut effects);
        }
    }

    /// Steps the driver; `effects` is empty before and after.
    fn step(&mut self, event: Event, effects: &mut Vec<GatewayEffect<Waiter, oneshot::Sender<Response>>>) {
        self.driver.step(self.clock.now(), event, effects);
        let mut undelivered = Vec::new();
        for effect in effects.drain(..) {
            match effect {
                GatewayEffect::Ask { to, queries } => {
                    let envelope = Envelope::Queries(queries);
                    let Err(error) = self.network.send_control_now(to, envelope.encode()) else { continue };
                    if !matches!(error, SendError::NotConnected(_)) {
                        tracing::warn!(node = to.0, "questions cannot be sent: {error}");
                    }
                    if let Envelope::Queries(queries) = envelope {
                        undelivered.push(Event::Undelivered { to, queries });
                    }
                }
                GatewayEffect::Send(envelope) => {
                    // Who cannot be reached now is told again.
                    let _ = self.network.send_control(COORDINATOR, envelope.encode());
                }
                GatewayEffect::Connect { node, address } => self.network.connect(node, address),
                GatewayEffect::Disconnect(node) => self.network.forget(node),
                GatewayEffect::Redirect(address) => self.network.redirect(COORDINATOR, address),
                GatewayEffect::Answer(waiter, answer) => waiter.answer(answer),
                GatewayEffect::Respond(to, response) => {
                    // Whoever asked may be gone.
                    let _ = to.send(response);
                }
                GatewayEffect::Catalog(catalog) => self.handle.show_catalog(catalog),
                GatewayEffect::Admit(condition, full) => {
                    self.handle.admission().show(condition);
                    self.handle.admission().show_state(full);
                }
                GatewayEffect::Informed => {
                    self.inform.send_replace(true);
                }
                GatewayEffect::PeerError => {
                    self.handle.stats().peer_errors.fetch_add(1, Ordering::Relaxed);
                }
                GatewayEffect::Diagnostic(diagnostic) => diagnostics::show(&diagnostic),
            }
        }
        for event in undelivered {
            self.step(event, effects);
        }
    }
}
