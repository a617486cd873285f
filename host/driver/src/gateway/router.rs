//! Router: asks the workers what clients ask for, and hands on what they answer.
//!
//! Who is asked follows from the newest [`View`]. A question of a generation that is over has lost
//! its answer. Reads, and requests that are remembered under their id, are asked again; a write that
//! nobody remembers cannot be, and its client is told that nobody knows. While no generation is live,
//! everything waits, for a while.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use styx_planted::{Bug, planted};
use styx_protocol::catalog::{Catalog, CatalogImage};
use styx_protocol::ids::{Generation, NodeId, OperatorId, PlacementVersion, WorkerId};
use styx_protocol::machine::worker::{ClientRequest, is_full};
use styx_protocol::route::{memory_of, sequencer_of};

use super::outbox::Outbox;
use super::places::{Place, Places};
use super::scatter::ScatterGather;
use crate::COORDINATOR;
use crate::admission::backlog_for;
use crate::client::{Answer, ClientMessage, Failure};
use crate::diagnostic::Diagnostic;
use crate::time::Instant;
use crate::wire::{AdminQuery, CatalogVersion, Query, Question, Response, TicketedResponse, View};

/// How long a client's question waits for workers that serve.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long an admin query waits.
pub(super) const ADMIN_PATIENCE: Duration = Duration::from_secs(5);

/// How long after the end of its generation a worker may still answer.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// Pause between two reviews of everything under way.
pub(super) const REVIEW: Duration = Duration::from_millis(100);

/// Something that a router wants done.
#[derive(Debug)]
pub enum RouterEffect<W, R> {
    /// Send questions over a connection that is there, or say [`Router::undelivered`] of their tickets.
    Send {
        /// Who is asked.
        to: NodeId,
        queries: Vec<Query>,
    },
    /// Answer a client.
    Answer(W, Answer),
    /// Answer an admin query.
    Respond(R, Response),
    /// Show clients what is deployed.
    Catalog(Arc<Catalog>),
    /// Something for people.
    Diagnostic(Diagnostic),
}

/// See the module. `W` names a client, `R` somebody who waits for an admin query.
#[derive(Debug)]
pub struct Router<W, R> {
    backlog_max: usize,
    places: Places,
    view: Option<View>,
    catalog: Arc<Catalog>,
    next_ticket: u64,
    in_flight: BTreeMap<u64, InFlight<W, R>>,
    gathers: BTreeMap<u64, ScatterGather<R>>,
    postponed: VecDeque<Postponed<W, R>>,
    outbox: Outbox,
    /// The coordinator has been out of reach since then.
    unattended: Option<Instant>,
    reviewed: Option<Instant>,
}

/// Somebody who waits, with a place among those who wait for the same app.
#[derive(Debug)]
struct Client<W> {
    waiter: W,
    _place: Place,
}

/// A question of somebody here.
#[derive(Debug)]
enum Asked<W, R> {
    Client(Question, Client<W>),
    Admin(AdminQuery, R),
}

/// A question that cannot be asked now.
#[derive(Debug)]
struct Postponed<W, R> {
    since: Instant,
    /// It was asked before, and that may have had its effect.
    tried: bool,
    asked: Asked<W, R>,
}

/// A question that a node was asked.
#[derive(Debug)]
struct InFlight<W, R> {
    since: Instant,
    node: NodeId,
    generation: Generation,
    /// The placement by which it was chosen.
    placement: PlacementVersion,
    /// Another node was asked before, and that may have had its effect.
    tried: bool,
    subject: Subject<W, R>,
    /// Its generation is over: after this, no answer will come.
    until: Option<Instant>,
}

#[derive(Debug)]
enum Subject<W, R> {
    Client(Question, Client<W>),
    /// One worker's part of a scatter-gather.
    Gather(u64),
    Overview(R),
}

impl<W, R> Router<W, R> {
    /// A router that knows no cluster yet and lets at most `backlog_max` requests be under way.
    pub fn new(backlog_max: usize) -> Self {
        Router {
            backlog_max,
            places: Places::default(),
            view: None,
            catalog: Arc::default(),
            next_ticket: 0,
            in_flight: BTreeMap::new(),
            gathers: BTreeMap::new(),
            postponed: VecDeque::new(),
            outbox: Outbox::default(),
            unattended: None,
            reviewed: None,
        }
    }

    /// Names what it knows to be deployed.
    pub fn known(&self) -> CatalogVersion {
        CatalogVersion::of(&self.catalog)
    }

    /// Questions that somebody here waits for: none when all is quiet.
    pub fn under_way(&self) -> usize {
        self.in_flight.len() + self.gathers.len() + self.postponed.len()
    }

    /// Takes a client's message.
    pub fn client(&mut self, now: Instant, message: ClientMessage<W, R>, effects: &mut Vec<RouterEffect<W, R>>) {
        let (question, waiter) = match message {
            ClientMessage::Request(ClientRequest::Submit { request, waiter, receipt }) => {
                (Question::Submit(request, receipt), waiter)
            }
            ClientMessage::Request(ClientRequest::Query { request, waiter }) => (Question::Query(request), waiter),
            ClientMessage::Request(ClientRequest::Await { id, waiter }) => (Question::Await(id), waiter),
            ClientMessage::Read(query, to) => return self.ask(now, false, Asked::Admin(query, to), effects),
        };
        let mut app = None;
        if let Question::Submit(request, _) | Question::Query(request) = &question {
            app = self.catalog.operator(request.operator).map(|operator| &operator.app);
            let waiting = self.in_flight.len() + self.postponed.len();
            let most = backlog_for(request.retained, self.backlog_max);
            if is_full(waiting, self.places.taken(app), most) && !planted(Bug::BacklogIgnored) {
                return effects.push(RouterEffect::Answer(waiter, Answer::overloaded(request.id)));
            }
        }
        let client = Client { waiter, _place: self.places.take(app) };
        self.ask(now, false, Asked::Client(question, client), effects);
    }

    /// Takes the cluster as it is now; gives whether that was news at all.
    pub fn view(&mut self, now: Instant, view: View, effects: &mut Vec<RouterEffect<W, R>>) -> bool {
        let cluster = |view: &View| (view.layout.seed, view.layout.created);
        let before = self.view.as_ref().filter(|before| cluster(before) == cluster(&view));
        if before.is_some_and(|before| before.generation > view.generation) {
            return false;
        }
        let sound = view.layout.is_sound()
            && view.placement.is_sound(view.layout.partitions, view.members.len())
            && view.catalog.as_ref().is_none_or(CatalogImage::is_sound);
        if view.live && !sound {
            let message = "the coordinator sent a view that contradicts itself; it is ignored";
            effects.push(RouterEffect::Diagnostic(Diagnostic::error(message).generation(view.generation)));
            return false;
        }
        if let Some(image) = &view.catalog {
            self.catalog = Arc::new(Catalog::restored(image));
            effects.push(RouterEffect::Catalog(self.catalog.clone()));
        }
        let begun = self.view.as_ref().is_none_or(|before| before.generation != view.generation);
        self.view = Some(view);
        if begun {
            self.leave_generations_behind(now);
        }
        self.resume(effects);
        true
    }

    /// Asks again what was asked of earlier generations, if it can be.
    fn leave_generations_behind(&mut self, now: Instant) {
        let Some(generation) = self.view.as_ref().map(|view| view.generation) else { return };
        self.doubt(now, |in_flight| in_flight.generation != generation);
    }

    /// There is a connection to a node; `restarted`: to another process than before, which has lost
    /// whatever was on its way to the one before.
    pub fn connected(&mut self, now: Instant, node: NodeId, restarted: bool, effects: &mut Vec<RouterEffect<W, R>>) {
        if restarted && !planted(Bug::ReplacedNotAskedAgain) {
            self.doubt(now, |in_flight| in_flight.node == node);
        }
        self.resume(effects);
    }

    /// Postpones what was asked and may never be answered, if it can be asked again.
    fn doubt(&mut self, now: Instant, lost: impl Fn(&InFlight<W, R>) -> bool) {
        let lost = self.in_flight.iter().filter(|(_, in_flight)| lost(in_flight));
        let lost: Vec<u64> = lost.map(|(ticket, _)| *ticket).collect();
        for ticket in lost {
            if let Some(in_flight) = self.in_flight.get_mut(&ticket)
                && let Subject::Client(question, _) = &in_flight.subject
                && !is_repeatable(question)
            {
                // The worker may have refused or ended it just before.
                in_flight.until.get_or_insert(now.after(GRACE));
            } else if let Some(in_flight) = self.in_flight.remove(&ticket) {
                self.postpone(in_flight, true);
            }
        }
    }

    fn postpone(&mut self, in_flight: InFlight<W, R>, tried: bool) {
        let (mut since, tried) = (in_flight.since, tried || in_flight.tried);
        let asked = match in_flight.subject {
            Subject::Client(question, client) => Asked::Client(question, client),
            Subject::Overview(to) => Asked::Admin(AdminQuery::Cluster, to),
            Subject::Gather(gather) => {
                // The other parts of it will find it gone.
                let Some(gather) = self.gathers.remove(&gather) else { return };
                since = gather.since;
                Asked::Admin(gather.query, gather.to)
            }
        };
        self.postponed.push_back(Postponed { since, tried, asked });
    }

    /// Asks what was postponed, if somebody serves.
    fn resume(&mut self, effects: &mut Vec<RouterEffect<W, R>>) {
        if self.view.as_ref().is_some_and(|view| view.live) {
            for Postponed { since, tried, asked } in std::mem::take(&mut self.postponed) {
                self.ask(since, tried, asked, effects);
            }
        }
    }

    fn ask(&mut self, since: Instant, tried: bool, asked: Asked<W, R>, effects: &mut Vec<RouterEffect<W, R>>) {
        if let Asked::Admin(AdminQuery::Cluster, to) = asked {
            // Of no generation: the coordinator always knows.
            let (node, generation, subject) = (COORDINATOR, Generation(u64::MAX), Subject::Overview(to));
            let placement = PlacementVersion::FIRST;
            let in_flight = InFlight { since, node, generation, placement, tried, subject, until: None };
            return self.dispatch(in_flight, Question::Admin(AdminQuery::Cluster), effects);
        }
        let Some(view) = self.view.as_ref().filter(|view| view.live) else {
            return self.postponed.push_back(Postponed { since, tried, asked });
        };
        let (generation, placement) = (view.generation, view.placement.version());
        match asked {
            Asked::Client(question, client) => {
                let node = node_of(view, self.worker_for(view, &question));
                let subject = Subject::Client(question.clone(), client);
                let in_flight = InFlight { since, node, generation, placement, tried, subject, until: None };
                self.dispatch(in_flight, question, effects);
            }
            Asked::Admin(query, to) => {
                let nodes: Vec<NodeId> = match self.only_worker_for(view, &query) {
                    Some(worker) => vec![node_of(view, worker)],
                    None => view.members.iter().map(|member| member.node).collect(),
                };
                self.next_ticket += 1;
                let gather = self.next_ticket;
                self.gathers.insert(gather, ScatterGather::new(since, query.clone(), to, nodes.len()));
                for node in nodes {
                    let subject = Subject::Gather(gather);
                    let in_flight = InFlight { since, node, generation, placement, tried, subject, until: None };
                    self.dispatch(in_flight, Question::Admin(query.clone()), effects);
                }
            }
        }
    }

    /// The worker that a client's question belongs to.
    fn worker_for(&self, view: &View, question: &Question) -> WorkerId {
        match question {
            Question::Submit(request, _) => sequencer_of(request, &view.layout, &self.catalog, &view.placement),
            Question::Query(request) => {
                view.placement.owner(view.layout.partition(&request.key, self.catalog.is_composite(request.operator)))
            }
            Question::Await(id) => memory_of(*id, &view.layout, &view.placement),
            Question::Admin(_) => unreachable!("admin queries are no client's questions"),
        }
    }

    /// The worker that alone can answer an admin query.
    fn only_worker_for(&self, view: &View, query: &AdminQuery) -> Option<WorkerId> {
        let partition = match query {
            AdminQuery::Get { operator, key } => {
                view.layout.partition(key, self.catalog.is_composite(OperatorId(*operator)))
            }
            AdminQuery::Scan { operator, prefix, .. } => {
                view.layout.partition_of_prefix(prefix, self.catalog.is_composite(OperatorId(*operator)))?
            }
            AdminQuery::Cluster
            | AdminQuery::Workers
            | AdminQuery::Partitions
            | AdminQuery::Observed(_)
            | AdminQuery::Sample { .. } => return None,
        };
        Some(view.placement.owner(partition))
    }

    fn dispatch(&mut self, in_flight: InFlight<W, R>, question: Question, effects: &mut Vec<RouterEffect<W, R>>) {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let InFlight { node, generation, placement, .. } = in_flight;
        self.in_flight.insert(ticket, in_flight);
        if let Some(queries) = self.outbox.push(node, Query { ticket, generation, placement, question }) {
            effects.push(RouterEffect::Send { to: node, queries });
        }
    }

    /// Sends what has gathered.
    pub fn flush(&mut self, effects: &mut Vec<RouterEffect<W, R>>) {
        effects.extend(self.outbox.drain().map(|(to, queries)| RouterEffect::Send { to, queries }));
    }

    /// Questions could not be sent: they wait for a connection, or for another generation.
    pub fn undelivered(&mut self, tickets: impl IntoIterator<Item = u64>) {
        for ticket in tickets {
            if let Some(in_flight) = self.in_flight.remove(&ticket) {
                self.postpone(in_flight, false);
            }
        }
    }

    /// Hands responses on.
    pub fn responses(&mut self, from: NodeId, responses: Vec<TicketedResponse>, effects: &mut Vec<RouterEffect<W, R>>) {
        for TicketedResponse { ticket, response } in responses {
            // An answer to what has been asked elsewhere since comes too late.
            if self.in_flight.get(&ticket).is_none_or(|in_flight| in_flight.node != from) {
                continue;
            }
            let Some(in_flight) = self.in_flight.remove(&ticket) else { continue };
            if response == Response::WrongGeneration {
                if !planted(Bug::MovedIgnored) {
                    self.moved(in_flight, effects);
                }
                continue;
            }
            match in_flight.subject {
                Subject::Client(question, client) => {
                    let answer = answer_of(response).unwrap_or_else(|other| {
                        let message = format!("a worker answered {other:?} to {question:?}");
                        effects.push(RouterEffect::Diagnostic(Diagnostic::error(message).node(from)));
                        Answer::Failed(Failure::OutcomeUnknown)
                    });
                    effects.push(RouterEffect::Answer(client.waiter, answer));
                }
                Subject::Overview(to) => effects.push(RouterEffect::Respond(to, response)),
                Subject::Gather(gather) => self.gathered(gather, response, effects),
            }
        }
    }

    /// The worker is in another generation, or another one has by now what was asked for; nothing has happened.
    fn moved(&mut self, in_flight: InFlight<W, R>, effects: &mut Vec<RouterEffect<W, R>>) {
        let asked = (in_flight.generation, in_flight.placement);
        let newer = self.view.as_ref().filter(|view| view.live);
        let newer = newer.is_some_and(|view| (view.generation, view.placement.version()) > asked);
        let (since, tried) = (in_flight.since, in_flight.tried);
        match in_flight.subject {
            Subject::Client(question, client) if newer => {
                self.ask(since, tried, Asked::Client(question, client), effects);
            }
            // The next view will say where.
            subject => self.postpone(InFlight { subject, ..in_flight }, false),
        }
    }

    fn gathered(&mut self, at: u64, response: Response, effects: &mut Vec<RouterEffect<W, R>>) {
        let Some(gather) = self.gathers.get_mut(&at) else { return };
        if gather.add(response)
            && let Some(gather) = self.gathers.remove(&at)
            && let Some((to, response)) = gather.finish()
        {
            effects.push(RouterEffect::Respond(to, response));
        }
    }

    /// Notes whether the coordinator can be reached.
    pub fn attended(&mut self, now: Instant, attended: bool) {
        if attended {
            self.unattended = None;
        } else {
            self.unattended.get_or_insert(now);
        }
    }

    /// Asks again what was postponed, and gives up what has waited too long.
    pub fn tick(&mut self, now: Instant, effects: &mut Vec<RouterEffect<W, R>>) {
        if self.reviewed.is_some_and(|reviewed| now.since(reviewed) < REVIEW) {
            return;
        }
        self.reviewed = Some(now);
        self.resume(effects);
        let old = |since: Instant, patience: Duration| now.since(since) >= patience;
        for Postponed { since, tried, asked } in std::mem::take(&mut self.postponed) {
            match asked {
                Asked::Client(question, client) if old(since, PATIENCE) => {
                    effects.push(RouterEffect::Answer(client.waiter, Answer::Failed(giving_up(&question, tried))));
                }
                Asked::Admin(..) if old(since, ADMIN_PATIENCE) => {}
                asked => self.postponed.push_back(Postponed { since, tried, asked }),
            }
        }
        self.gathers.retain(|_, gather| !old(gather.since, ADMIN_PATIENCE));
        let forsaken = self.unattended.is_some_and(|since| old(since, PATIENCE));
        let is_over = |in_flight: &InFlight<W, R>| match &in_flight.subject {
            Subject::Client(..) => {
                in_flight.until.is_some_and(|until| until <= now) || forsaken && old(in_flight.since, PATIENCE)
            }
            Subject::Gather(gather) => !self.gathers.contains_key(gather),
            Subject::Overview(_) => old(in_flight.since, ADMIN_PATIENCE),
        };
        let over = self.in_flight.iter().filter(|(_, in_flight)| is_over(in_flight));
        let over: Vec<u64> = over.map(|(ticket, _)| *ticket).collect();
        for ticket in over {
            if let Some(InFlight { subject: Subject::Client(question, client), .. }) = self.in_flight.remove(&ticket) {
                effects.push(RouterEffect::Answer(client.waiter, Answer::Failed(giving_up(&question, true))));
            }
        }
    }
}

fn node_of(view: &View, worker: WorkerId) -> NodeId {
    view.members[usize::from(worker.0)].node
}

/// Tells whether a question may be asked twice: if its first time had an effect, the second has none.
fn is_repeatable(question: &Question) -> bool {
    match question {
        Question::Submit(request, _) => request.retained || planted(Bug::WritesAskedAgain),
        Question::Query(_) | Question::Await(_) | Question::Admin(_) => true,
    }
}

/// The answer to a client that a response is; the response itself if it is none.
fn answer_of(response: Response) -> Result<Answer, Response> {
    match response {
        Response::Reply(reply) => Ok(Answer::Reply(reply.into())),
        Response::Replayed(reply) => Ok(Answer::Replayed(reply.into())),
        Response::Accepted(id) => Ok(Answer::Accepted(id)),
        Response::Unknown => Ok(Answer::Unknown),
        other => Err(other),
    }
}

/// What a client is told when nobody will answer. `tried`: somebody was asked.
fn giving_up(question: &Question, tried: bool) -> Failure {
    match question {
        Question::Submit(..) if tried => Failure::OutcomeUnknown,
        _ => Failure::Unavailable,
    }
}
