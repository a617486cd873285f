//! What stands where there is no worker: takes the messages that a worker's handle sends, asks the
//! workers of other processes, and hands on what they answer.
//!
//! Who is asked follows from the newest [`View`]. A question of a generation that is over has lost
//! its answer. Reads, and requests that are remembered under their id, are asked again; a write that
//! nobody remembers cannot be, and its client is told that nobody knows. While no generation is live,
//! everything waits, for a while.
//!
//! Nothing here reads a clock or waits: whoever drives it says what time it is.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use styx_protocol::abort::{Abort, Code};
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::{OperatorId, WorkerId};
use styx_protocol::replies::Reply;
use styx_protocol::route::{memory_of, sequencer_of};
use tokio::sync::oneshot;

use super::COORDINATOR;
use super::admin_query::merge;
use crate::handle::{self, Call, ClientMessage, Failure, Handle, Waiter};
use styx_driver::wire::{
    AdminQuery, Bytes, CatalogVersion, Envelope, Query, Question, Response, TicketedResponse, View,
};
use styx_transport::{Network, NodeId, SendError};

#[cfg(test)]
mod tests;

/// How long a client's question waits for workers that serve.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long somebody who asks how things are waits.
const INQUIRY_PATIENCE: Duration = Duration::from_secs(5);

/// How long after the end of its generation a worker may still answer.
const GRACE: Duration = Duration::from_millis(500);

/// Between two looks at everything under way.
const REVIEW: Duration = Duration::from_millis(100);

/// Questions and bytes of arguments that travel together at most.
const BATCH_MAX: usize = 4096;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// The way to other nodes.
pub(crate) trait Outlet: Send + Sync {
    /// Sends a message to a node that there is a connection to; an error says that it was not sent.
    fn send(&self, to: NodeId, envelope: &Envelope) -> Result<(), SendError>;
    /// Keeps a connection to a node.
    fn connect(&self, to: NodeId, address: &str);
    /// Gives a connection up.
    fn forget(&self, node: NodeId);
}

impl Outlet for Network {
    fn send(&self, to: NodeId, envelope: &Envelope) -> Result<(), SendError> {
        self.send_control_now(to, envelope.encode())
    }
    fn connect(&self, to: NodeId, address: &str) {
        Network::connect(self, to, address);
    }
    fn forget(&self, node: NodeId) {
        Network::forget(self, node);
    }
}

/// See the module.
pub(crate) struct Relay {
    outlet: Arc<dyn Outlet>,
    handle: Handle,
    backlog_max: usize,
    /// Whether this is a gateway: it keeps its own connections, and asks the coordinator about the
    /// cluster. Otherwise this is the coordinator.
    gateway: bool,
    view: Option<View>,
    catalog: Arc<Catalog>,
    next: u64,
    flights: HashMap<u64, Flight>,
    gathers: HashMap<u64, Gather>,
    waiting: VecDeque<Waiting>,
    outgoing: BTreeMap<NodeId, Batch>,
    /// The coordinator has been out of reach since then.
    alone: Option<Instant>,
    reviewed: Option<Instant>,
}

/// Somebody's question.
enum Asked {
    Client(Question, Waiter),
    Admin(AdminQuery, oneshot::Sender<Response>),
}

/// A question that is not asked now.
struct Waiting {
    since: Instant,
    /// It was asked before, and that may have had its effect.
    tried: bool,
    asked: Asked,
}

/// A question that a node was asked.
struct Flight {
    since: Instant,
    node: NodeId,
    generation: u64,
    /// Another node was asked before, and that may have had its effect.
    tried: bool,
    what: What,
    /// Its generation is over: after this, no answer will come.
    until: Option<Instant>,
}

enum What {
    Client(Question, Waiter),
    /// Of a gather.
    Part(u64),
    Overview(oneshot::Sender<Response>),
}

/// An query that several workers answer together.
struct Gather {
    since: Instant,
    query: AdminQuery,
    to: oneshot::Sender<Response>,
    missing: usize,
    answers: Vec<Response>,
}

#[derive(Default)]
struct Batch {
    queries: Vec<Query>,
    bytes: usize,
}

impl Relay {
    /// The relay of a coordinator, for `handle`, with at most `backlog_max` requests under way.
    pub(crate) fn new(outlet: Arc<dyn Outlet>, handle: Handle, backlog_max: usize) -> Self {
        Relay {
            outlet,
            handle,
            backlog_max,
            gateway: false,
            view: None,
            catalog: Arc::default(),
            next: 0,
            flights: HashMap::new(),
            gathers: HashMap::new(),
            waiting: VecDeque::new(),
            outgoing: BTreeMap::new(),
            alone: None,
            reviewed: None,
        }
    }

    /// The relay of a gateway.
    pub(crate) fn of_gateway(outlet: Arc<dyn Outlet>, handle: Handle, backlog_max: usize) -> Self {
        Relay { gateway: true, ..Relay::new(outlet, handle, backlog_max) }
    }

    /// What it knows to be deployed.
    pub(crate) fn known(&self) -> CatalogVersion {
        CatalogVersion::of(&self.catalog)
    }

    /// Takes a client's message.
    pub(crate) fn take(&mut self, message: ClientMessage) {
        match message {
            ClientMessage::Call(call) => {
                self.handle.taken();
                let (question, waiter) = match call {
                    Call::Submit { request, waiter, receipt } => (Question::Submit(request, receipt), waiter),
                    Call::Query { request, waiter } => (Question::Query(Arc::new(request)), waiter),
                };
                if self.flights.len() + self.waiting.len() >= self.backlog_max {
                    return overloaded(&question, waiter);
                }
                self.ask(Asked::Client(question, waiter));
            }
            ClientMessage::Await { id, waiter } => self.ask(Asked::Client(Question::Await(id), waiter)),
            ClientMessage::Read(query, to) => self.ask(Asked::Admin(query, to)),
        }
    }

    /// The cluster has changed.
    pub(crate) fn view(&mut self, view: View) {
        let same = |before: &&View| before.layout == view.layout;
        if self.view.as_ref().filter(same).is_some_and(|before| before.generation > view.generation) {
            return;
        }
        let (workers, partitions) = (usize::from(view.placement.workers()), view.placement.partitions());
        if view.live && (workers == 0 || workers != view.members.len() || partitions != view.layout.partitions) {
            tracing::error!(
                generation = view.generation,
                "the coordinator sent a view that contradicts itself; it is ignored"
            );
            return;
        }
        if self.gateway {
            self.handle.admission().show(view.full, view.stalled);
        }
        self.learn(&view);
        let began = self.view.as_ref().is_none_or(|before| before.generation != view.generation);
        if self.gateway && !view.members.is_empty() {
            self.connect(&view);
        }
        self.view = Some(view);
        if began {
            self.part_from_the_past(Instant::now());
        }
        self.resume();
    }

    /// Takes what is deployed, if that is new.
    fn learn(&mut self, view: &View) {
        if let Some(image) = &view.catalog {
            self.catalog = Arc::new(Catalog::restored(image));
            self.handle.show_catalog(self.catalog.clone());
        }
    }

    fn connect(&self, view: &View) {
        let before = self.view.iter().flat_map(|before| &before.members);
        for gone in before.filter(|before| !view.members.iter().any(|member| member.node == before.node)) {
            self.outlet.forget(gone.node);
        }
        for member in &view.members {
            self.outlet.connect(member.node, &member.address);
        }
    }

    /// What was asked of earlier generations is asked again, if it can be.
    fn part_from_the_past(&mut self, now: Instant) {
        let Some(generation) = self.view.as_ref().map(|view| view.generation) else { return };
        let over: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.generation != generation)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in over {
            if let Some(flight) = self.flights.get_mut(&ticket)
                && let What::Client(question, _) = &flight.what
                && !repeatable(question)
            {
                // The worker may have refused or ended it just before.
                flight.until.get_or_insert(now + GRACE);
            } else if let Some(flight) = self.flights.remove(&ticket) {
                self.postpone(flight, true);
            }
        }
    }

    /// Asks again later.
    fn postpone(&mut self, flight: Flight, tried: bool) {
        let (since, tried) = (flight.since, tried || flight.tried);
        match flight.what {
            What::Client(question, waiter) => {
                self.waiting.push_back(Waiting { since, tried, asked: Asked::Client(question, waiter) });
            }
            What::Overview(to) => {
                self.waiting.push_back(Waiting { since, tried, asked: Asked::Admin(AdminQuery::Cluster, to) });
            }
            What::Part(gather) => {
                // The other parts of it will find it gone.
                if let Some(Gather { since, query, to, .. }) = self.gathers.remove(&gather) {
                    self.waiting.push_back(Waiting { since, tried, asked: Asked::Admin(query, to) });
                }
            }
        }
    }

    /// Asks what has waited: there is a connection that was not there before.
    pub(crate) fn resume(&mut self) {
        if self.view.as_ref().is_some_and(|view| view.live) {
            for Waiting { since, tried, asked } in std::mem::take(&mut self.waiting) {
                self.ask_as(since, tried, asked);
            }
        }
    }

    fn ask(&mut self, asked: Asked) {
        self.ask_as(Instant::now(), false, asked);
    }

    fn ask_as(&mut self, since: Instant, tried: bool, asked: Asked) {
        if let Asked::Admin(AdminQuery::Cluster, to) = asked {
            if self.gateway {
                // Of no generation: the coordinator always knows.
                let flight = Flight {
                    since,
                    node: COORDINATOR,
                    generation: u64::MAX,
                    tried,
                    what: What::Overview(to),
                    until: None,
                };
                self.fly(flight, Question::Admin(AdminQuery::Cluster));
            }
            return;
        }
        let Some(view) = self.view.as_ref().filter(|view| view.live) else {
            return self.waiting.push_back(Waiting { since, tried, asked });
        };
        let generation = view.generation;
        match asked {
            Asked::Client(question, waiter) => {
                let node = node_of(view, self.worker_for(view, &question));
                let what = What::Client(question.clone(), waiter);
                self.fly(Flight { since, node, generation, tried, what, until: None }, question);
            }
            Asked::Admin(query, to) => {
                let nodes: Vec<NodeId> = match self.only_worker_for(view, &query) {
                    Some(worker) => vec![node_of(view, worker)],
                    None => view.members.iter().map(|member| member.node).collect(),
                };
                self.next += 1;
                let gather = self.next;
                let missing = nodes.len();
                for node in nodes {
                    let what = What::Part(gather);
                    let flight = Flight { since, node, generation, tried, what, until: None };
                    self.fly(flight, Question::Admin(query.clone()));
                }
                self.gathers.insert(gather, Gather { since, query, to, missing, answers: Vec::new() });
            }
        }
    }

    /// The worker that a client's question belongs to.
    fn worker_for(&self, view: &View, question: &Question) -> WorkerId {
        match question {
            Question::Submit(request, _) => sequencer_of(request, &view.layout, &self.catalog, &view.placement),
            Question::Query(request) => {
                view.placement.owner(view.layout.partition(&request.key, self.composite(request.operator)))
            }
            Question::Await(id) => memory_of(*id, &view.placement),
            Question::Admin(_) => WorkerId(0),
        }
    }

    /// The worker that alone can answer an query.
    fn only_worker_for(&self, view: &View, query: &AdminQuery) -> Option<WorkerId> {
        let partition = match query {
            AdminQuery::Get { operator, key } => view.layout.partition(key, self.composite(OperatorId(*operator))),
            AdminQuery::Scan { operator, prefix, .. } => {
                view.layout.partition_of_prefix(prefix, self.composite(OperatorId(*operator)))?
            }
            AdminQuery::Cluster | AdminQuery::Workers | AdminQuery::Partitions => return None,
        };
        Some(view.placement.owner(partition))
    }

    fn composite(&self, operator: OperatorId) -> bool {
        self.catalog.operator(operator).is_some_and(|operator| operator.composite)
    }

    fn fly(&mut self, flight: Flight, question: Question) {
        self.next += 1;
        let (ticket, node, generation) = (self.next, flight.node, flight.generation);
        self.flights.insert(ticket, flight);
        let batch = self.outgoing.entry(node).or_default();
        batch.bytes += match &question {
            Question::Submit(request, _) | Question::Query(request) => request.args.len() + request.key.len(),
            Question::Await(_) | Question::Admin(_) => 0,
        };
        batch.queries.push(Query { ticket, generation, question });
        if batch.queries.len() >= BATCH_MAX || batch.bytes >= BATCH_BYTES_MAX {
            self.send(node);
        }
    }

    /// Sends what has gathered.
    pub(crate) fn flush(&mut self) {
        while let Some(node) = self.outgoing.keys().next().copied() {
            self.send(node);
        }
    }

    fn send(&mut self, node: NodeId) {
        let Some(Batch { queries, .. }) = self.outgoing.remove(&node) else { return };
        let tickets: Vec<u64> = queries.iter().map(|query| query.ticket).collect();
        let Err(error) = self.outlet.send(node, &Envelope::Queries(queries)) else { return };
        match error {
            // They wait for it, or for another generation.
            SendError::NotConnected(_) => {}
            error => tracing::warn!(node = node.0, "questions cannot be sent: {error}"),
        }
        for ticket in tickets {
            if let Some(flight) = self.flights.remove(&ticket) {
                self.postpone(flight, false);
            }
        }
    }

    /// Hands answers on.
    pub(crate) fn told(&mut self, from: NodeId, responses: Vec<TicketedResponse>) {
        for TicketedResponse { ticket, response: answer } in responses {
            // An answer to what has been asked elsewhere since comes too late.
            if self.flights.get(&ticket).is_none_or(|flight| flight.node != from) {
                continue;
            }
            let Some(flight) = self.flights.remove(&ticket) else { continue };
            if answer == Response::WrongGeneration {
                self.moved(flight);
                continue;
            }
            match flight.what {
                What::Client(question, waiter) => tell_client(&question, waiter, answer),
                What::Overview(to) => drop(to.send(answer)),
                What::Part(gather) => self.gathered(gather, answer),
            }
        }
    }

    /// The worker is in another generation; nothing has happened.
    fn moved(&mut self, flight: Flight) {
        let newer = self.view.as_ref().is_some_and(|view| view.live && view.generation > flight.generation);
        let (since, tried) = (flight.since, flight.tried);
        match flight.what {
            What::Client(question, waiter) if newer => self.ask_as(since, tried, Asked::Client(question, waiter)),
            // The next view will say where.
            what => self.postpone(Flight { what, ..flight }, false),
        }
    }

    fn gathered(&mut self, at: u64, answer: Response) {
        let Some(gather) = self.gathers.get_mut(&at) else { return };
        gather.missing -= 1;
        gather.answers.push(answer);
        if gather.missing == 0
            && let Some(Gather { query, to, answers, .. }) = self.gathers.remove(&at)
            && let Some(answer) = merge(&query, answers)
        {
            drop(to.send(answer));
        }
    }

    /// Whether the coordinator can be reached.
    pub(crate) fn attended(&mut self, attended: bool) {
        match attended {
            true => self.alone = None,
            false => drop(self.alone.get_or_insert_with(Instant::now)),
        }
    }

    /// Time goes on: asks again what waits, and gives up what has waited too long.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.reviewed.is_some_and(|reviewed| now.saturating_duration_since(reviewed) < REVIEW) {
            return;
        }
        self.reviewed = Some(now);
        self.resume();
        let old = |since: Instant, patience: Duration| now.saturating_duration_since(since) >= patience;
        for Waiting { since, tried, asked } in std::mem::take(&mut self.waiting) {
            match asked {
                Asked::Client(question, waiter) if old(since, PATIENCE) => give_up(&question, waiter, tried),
                Asked::Admin(..) if old(since, INQUIRY_PATIENCE) => {}
                asked => self.waiting.push_back(Waiting { since, tried, asked }),
            }
        }
        self.gathers.retain(|_, gather| !old(gather.since, INQUIRY_PATIENCE));
        let forsaken = self.alone.is_some_and(|alone| old(alone, PATIENCE));
        let over: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| match &flight.what {
                What::Client(..) => {
                    flight.until.is_some_and(|until| until <= now) || forsaken && old(flight.since, PATIENCE)
                }
                What::Part(gather) => !self.gathers.contains_key(gather),
                What::Overview(_) => old(flight.since, INQUIRY_PATIENCE),
            })
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in over {
            if let Some(Flight { what: What::Client(question, waiter), .. }) = self.flights.remove(&ticket) {
                give_up(&question, waiter, true);
            }
        }
    }
}

fn node_of(view: &View, worker: WorkerId) -> NodeId {
    view.members[usize::from(worker.0)].node
}

/// Whether a question may be asked twice: if its first time had an effect, the second has none.
fn repeatable(question: &Question) -> bool {
    match question {
        Question::Submit(request, _) => request.retained,
        Question::Query(_) | Question::Await(_) | Question::Admin(_) => true,
    }
}

fn tell_client(question: &Question, waiter: Waiter, answer: Response) {
    let answer = match answer {
        Response::Reply(reply) => {
            let outcome = reply.outcome.map(|Bytes(value)| value);
            handle::Answer::Reply(Reply { id: reply.id, tid: reply.tid, epoch: reply.epoch, outcome })
        }
        Response::Accepted(id) => handle::Answer::Accepted(id),
        Response::Unknown => handle::Answer::Unknown,
        other => {
            tracing::error!(?question, ?other, "a worker answered something else");
            handle::Answer::Failed(Failure::OutcomeUnknown)
        }
    };
    waiter.answer(answer);
}

/// Nobody will answer. `tried`: somebody was asked.
fn give_up(question: &Question, waiter: Waiter, tried: bool) {
    let failure = match question {
        Question::Submit(..) if tried => Failure::OutcomeUnknown,
        _ => Failure::Unavailable,
    };
    waiter.answer(handle::Answer::Failed(failure));
}

fn overloaded(question: &Question, waiter: Waiter) {
    let (Question::Submit(request, _) | Question::Query(request)) = question else { return };
    let outcome = Err(Abort::new(Code::Overloaded, "too many requests are waiting; try again in a moment"));
    let reply = Reply { id: request.id, tid: Default::default(), epoch: Default::default(), outcome };
    waiter.answer(handle::Answer::Reply(reply));
}
