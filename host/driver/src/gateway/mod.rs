//! Gateway driver: keeps the coordinator's view of the cluster current, and routes clients' questions
//! by it.
//!
//! Nothing here reads a clock, waits or holds a connection: whoever steps it says what time it is and
//! what the network did.

mod outbox;
mod places;
mod router;
mod scatter;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use styx_protocol::catalog::Catalog;
use styx_protocol::ids::NodeId;

pub use router::{PATIENCE, Router, RouterEffect};

use crate::COORDINATOR;
use crate::admission::LogCondition;
use crate::client::{Answer, ClientMessage};
use crate::diagnostic::Diagnostic;
use crate::fullness::Full;
use crate::leader_search::{LeaderSearch, SearchEffect};
use crate::network::{NetworkEvent, Refusal};
use crate::time::Instant;
use crate::wire::{CatalogVersion, Envelope, Member, Query, Response};

/// Longest pause between two steps: a gateway that was told nothing is stepped with [`GatewayEvent::Tick`].
pub const TICK: Duration = Duration::from_millis(50);

/// Pause between two words to the coordinator that this gateway is there.
const WATCH: Duration = Duration::from_millis(500);

/// Something that happens to a gateway.
#[derive(Debug)]
pub enum GatewayEvent<W, R> {
    /// A client asks for something.
    Client(ClientMessage<W, R>),
    /// Something happened on a connection.
    Network(NetworkEvent),
    /// Questions could not be sent.
    Undelivered {
        /// Who was to be asked.
        to: NodeId,
        queries: Vec<Query>,
    },
    /// Everything that has come so far has been told: what gathers is to be sent.
    Settled,
    /// Nothing has come for a while, though the driver may have something to do.
    Tick,
}

/// Something that a gateway wants done.
#[derive(Debug)]
pub enum GatewayEffect<W, R> {
    /// Send questions over a connection that is there, or say [`GatewayEvent::Undelivered`].
    Ask {
        /// Who is asked.
        to: NodeId,
        queries: Vec<Query>,
    },
    /// Send a message to the coordinator; it may be lost.
    Send(Envelope),
    /// Keep a connection to a node.
    Connect { node: NodeId, address: String },
    /// Give a connection up.
    Disconnect(NodeId),
    /// Look for the coordinator at another address.
    Redirect(String),
    /// Answer a client.
    Answer(W, Answer),
    /// Answer an admin query.
    Respond(R, Response),
    /// Show clients what is deployed.
    Catalog(Arc<Catalog>),
    /// Admit what a log in this condition can take, and of apps that may get more state.
    Admit(LogCondition, Full),
    /// Requests can be judged from now on: it is known what is deployed.
    Informed,
    /// Count a message that could not be read or was not for a gateway.
    PeerError,
    /// Tell people.
    Diagnostic(Diagnostic),
}

#[derive(Debug)]
pub struct GatewayDriver<W, R> {
    router: Router<W, R>,
    search: LeaderSearch,
    /// When the coordinator was told last that this gateway is there.
    watched: Option<Instant>,
    /// What the coordinator was told to be known here.
    told: CatalogVersion,
    informed: bool,
    /// The members of the newest view.
    members: Vec<Member>,
}

impl<W, R> GatewayDriver<W, R> {
    /// A gateway that knows nobody, and dials the first of these coordinators.
    pub fn new(now: Instant, coordinators: Vec<String>, backlog_max: usize) -> Self {
        GatewayDriver {
            router: Router::new(backlog_max),
            search: LeaderSearch::new(now, coordinators),
            watched: None,
            told: CatalogVersion::default(),
            informed: false,
            members: Vec::new(),
        }
    }

    /// Questions that somebody here waits for: none when all is quiet.
    pub fn under_way(&self) -> usize {
        self.router.under_way()
    }

    /// Takes one event; pushes what is to be done. It has to be stepped every [`TICK`] at least.
    pub fn step(&mut self, now: Instant, event: GatewayEvent<W, R>, effects: &mut Vec<GatewayEffect<W, R>>) {
        let mut routed = Vec::new();
        match event {
            GatewayEvent::Client(message) => self.router.client(now, message, &mut routed),
            GatewayEvent::Network(event) => self.network(now, event, &mut routed, effects),
            GatewayEvent::Undelivered { queries, .. } => {
                self.router.undelivered(queries.iter().map(|query| query.ticket));
            }
            GatewayEvent::Settled => self.router.flush(&mut routed),
            GatewayEvent::Tick => {
                let due = self.watched.is_none_or(|watched| now.since(watched) >= WATCH);
                if due || self.told != self.router.known() {
                    (self.watched, self.told) = (Some(now), self.router.known());
                    // The coordinator that cannot be reached now is told again.
                    effects.push(GatewayEffect::Send(Envelope::Watch { known: self.told }));
                }
                let mut found = Vec::new();
                self.search.review(now, &mut found);
                effects.extend(found.into_iter().map(GatewayEffect::from));
                self.router.tick(now, &mut routed);
                self.router.flush(&mut routed);
            }
        }
        effects.extend(routed.into_iter().map(GatewayEffect::from));
    }

    fn network(
        &mut self,
        now: Instant,
        event: NetworkEvent,
        routed: &mut Vec<RouterEffect<W, R>>,
        effects: &mut Vec<GatewayEffect<W, R>>,
    ) {
        let mut found = Vec::new();
        self.search.on_event(now, &event, &mut found);
        effects.extend(found.into_iter().map(GatewayEffect::from));
        let mut say = |diagnostic: Diagnostic| effects.push(GatewayEffect::Diagnostic(diagnostic));
        match event {
            NetworkEvent::Control { from, message } => match message.map(|message| *message) {
                Ok(Envelope::View(view)) if from == COORDINATOR => {
                    let (live, condition, members) = (view.live, LogCondition::from(&view), view.members.clone());
                    let full = view.state.clone();
                    self.router.attended(now, true);
                    if self.router.view(now, view, routed) {
                        self.connect(members, effects);
                        effects.push(GatewayEffect::Admit(condition, full));
                    }
                    if live && !std::mem::replace(&mut self.informed, true) {
                        routed_first(routed, effects);
                        effects.push(GatewayEffect::Informed);
                    }
                }
                Ok(Envelope::Responses(responses)) => self.router.responses(from, responses, routed),
                Ok(other) => {
                    let message = format!("a message that is not for a gateway was dropped: {other:?}");
                    say(Diagnostic::warn(message).node(from));
                    effects.push(GatewayEffect::PeerError);
                }
                Err(error) => {
                    say(Diagnostic::warn(format!("a message that cannot be read was dropped: {error}")).node(from));
                    effects.push(GatewayEffect::PeerError);
                }
            },
            NetworkEvent::Connected { peer, restarted } => {
                if peer == COORDINATOR {
                    self.router.attended(now, true);
                    self.watched = None;
                }
                self.router.connected(now, peer, restarted, routed);
            }
            NetworkEvent::Lost { peer, why } => {
                say(Diagnostic::info(format!("connection lost: {why}")).node(peer));
                if peer == COORDINATOR {
                    self.router.attended(now, false);
                }
            }
            NetworkEvent::Unreached { peer, why, .. } => say(Diagnostic::debug(why).node(peer)),
            NetworkEvent::Refused { refusal: Refusal::Standby, .. } => {}
            NetworkEvent::Refused { peer, reason, message, .. } => {
                say(Diagnostic::error(format!("refused ({reason}): {message}")).node(peer));
            }
            NetworkEvent::Message { .. } | NetworkEvent::Broken { .. } => {}
        }
    }
}

impl<W, R> GatewayDriver<W, R> {
    /// Keeps connections to the members, and gives those up that are none any more.
    fn connect(&mut self, members: Vec<Member>, effects: &mut Vec<GatewayEffect<W, R>>) {
        let before = std::mem::replace(&mut self.members, members);
        if self.members.is_empty() {
            return; // Between two generations.
        }
        let gone = before.iter().filter(|before| !self.members.iter().any(|member| member.node == before.node));
        effects.extend(gone.map(|gone| GatewayEffect::Disconnect(gone.node)));
        let members = self.members.iter();
        effects.extend(
            members
                .map(|Member { node, address, .. }| GatewayEffect::Connect { node: *node, address: address.clone() }),
        );
    }
}

/// Moves what the router wants before what follows from it.
fn routed_first<W, R>(routed: &mut Vec<RouterEffect<W, R>>, effects: &mut Vec<GatewayEffect<W, R>>) {
    effects.extend(routed.drain(..).map(GatewayEffect::from));
}

impl<W, R> From<RouterEffect<W, R>> for GatewayEffect<W, R> {
    fn from(effect: RouterEffect<W, R>) -> Self {
        match effect {
            RouterEffect::Send { to, queries } => GatewayEffect::Ask { to, queries },
            RouterEffect::Answer(waiter, answer) => GatewayEffect::Answer(waiter, answer),
            RouterEffect::Respond(to, response) => GatewayEffect::Respond(to, response),
            RouterEffect::Catalog(catalog) => GatewayEffect::Catalog(catalog),
            RouterEffect::Diagnostic(diagnostic) => GatewayEffect::Diagnostic(diagnostic),
        }
    }
}

impl<W, R> From<SearchEffect> for GatewayEffect<W, R> {
    fn from(effect: SearchEffect) -> Self {
        match effect {
            SearchEffect::Redirect(address) => GatewayEffect::Redirect(address),
            SearchEffect::Diagnostic(diagnostic) => GatewayEffect::Diagnostic(diagnostic),
        }
    }
}
