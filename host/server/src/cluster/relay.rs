//! The coordinator's own router: admin queries of this process, asked of the workers.

use std::sync::Arc;

use styx_driver::gateway::{Place, Router, RouterEffect};
use styx_driver::wire::{Envelope, Response, TicketedResponse, View};
use styx_transport::{Network, NodeId, SendError};
use tokio::sync::oneshot;

use crate::clock::MonotonicClock;
use crate::diagnostics;
use crate::handle::{ClientMessage, Handle, Waiter};

type Effect = RouterEffect<Waiter, oneshot::Sender<Response>>;

/// A router with its network.
pub(crate) struct Relay {
    router: Router<Waiter, oneshot::Sender<Response>>,
    clock: MonotonicClock,
    network: Arc<Network>,
    handle: Handle,
}

impl Relay {
    /// The relay of a coordinator, for `handle`, with at most `backlog_max` requests under way.
    pub(crate) fn new(network: Arc<Network>, handle: Handle, backlog_max: usize) -> Self {
        Relay { router: Router::new(Place::Coordinator, backlog_max), clock: MonotonicClock::start(), network, handle }
    }

    /// Takes a client's message.
    pub(crate) fn take(&mut self, message: ClientMessage) {
        self.handle.taken(&message);
        let mut effects = Vec::new();
        self.router.client(self.clock.now(), message, &mut effects);
        self.perform(effects);
    }

    /// Takes the cluster as it is now.
    pub(crate) fn view(&mut self, view: View) {
        let mut effects = Vec::new();
        self.router.view(self.clock.now(), view, &mut effects);
        self.perform(effects);
    }

    /// Asks what was postponed: there is a connection that was not there before.
    pub(crate) fn resume(&mut self) {
        let mut effects = Vec::new();
        self.router.resume(&mut effects);
        self.perform(effects);
    }

    /// Sends what has gathered.
    pub(crate) fn flush(&mut self) {
        let mut effects = Vec::new();
        self.router.flush(&mut effects);
        self.perform(effects);
    }

    /// Hands responses on.
    pub(crate) fn responses(&mut self, from: NodeId, responses: Vec<TicketedResponse>) {
        let mut effects = Vec::new();
        self.router.responses(from, responses, &mut effects);
        self.perform(effects);
    }

    /// Asks again what was postponed, and gives up what has waited too long.
    pub(crate) fn tick(&mut self) {
        let mut effects = Vec::new();
        self.router.tick(self.clock.now(), &mut effects);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                RouterEffect::Send { to, queries } => {
                    let tickets: Vec<u64> = queries.iter().map(|query| query.ticket).collect();
                    let Err(error) = self.network.send_control_now(to, Envelope::Queries(queries).encode()) else {
                        continue;
                    };
                    if !matches!(error, SendError::NotConnected(_)) {
                        tracing::warn!(node = to.0, "questions cannot be sent: {error}");
                    }
                    self.router.undelivered(tickets);
                }
                RouterEffect::Connect { .. } | RouterEffect::Disconnect(_) => {
                    unreachable!("a coordinator is connected to its members")
                }
                RouterEffect::Answer(waiter, answer) => waiter.answer(answer),
                RouterEffect::Respond(to, response) => {
                    // Whoever asked may be gone.
                    let _ = to.send(response);
                }
                RouterEffect::Catalog(catalog) => self.handle.show_catalog(catalog),
                RouterEffect::Diagnostic(diagnostic) => diagnostics::show(&diagnostic),
            }
        }
    }
}
