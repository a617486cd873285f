//! The client side of whatever serves in this process: requests in, answers out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use styx_driver::admission::backlog_for;
use styx_driver::client;
pub use styx_driver::client::{Answer, Failure};
use styx_driver::wire::{AdminQuery, Response};
use styx_protocol::abort::{Abort, Code};
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::ids::{NodeId, RequestId};
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::replies::Reply;
use styx_protocol::system::SystemFunction;
use styx_protocol::transaction::Request;
use tokio::sync::{mpsc, oneshot};

use crate::admission::Admission;
use crate::http::Account;
use crate::stats::Stats;
use styx_driver::coordinator::{Goal, MigrationOptions, PaceChange};
use styx_driver::snapshots::{NoSnapshot, SnapshotSummary};

/// A message of a client of this process.
pub(crate) type ClientMessage = client::ClientMessage<Waiter, oneshot::Sender<Response>>;

/// A message of an operator of this process, where there is a log.
pub(crate) enum OperatorMessage {
    /// Sequence a deployment.
    Deploy(Box<Control>, Waiter),
    /// Have partitions change their owners, with which nodes would hold so many bytes more.
    Migrate(Goal, MigrationOptions, Vec<(NodeId, u64)>, Waiter),
    /// Leave partitions where they are that are on their way to other owners.
    CancelMigration(Waiter),
    /// Copy partitions that are on their way no further for now, or further.
    PaceMigration(PaceChange, Waiter),
    /// Take a snapshot now.
    Snapshot(oneshot::Sender<Result<SnapshotSummary, NoSnapshot>>),
}

/// The way to the thread that serves. A thread that has ended takes nothing any more: the process is
/// about to end then, and whoever waits sees the channel close.
trait Inbox: Send + Sync {
    fn client(&self, message: ClientMessage);
    /// Dropped where nothing is deployed.
    fn operator(&self, _: OperatorMessage) {}
}

struct Clients<M>(Sender<M>);

impl<M: From<ClientMessage> + Send> Inbox for Clients<M> {
    fn client(&self, message: ClientMessage) {
        let _ = self.0.send(message.into());
    }
}

struct Everybody<M>(Sender<M>);

impl<M: From<ClientMessage> + From<OperatorMessage> + Send> Inbox for Everybody<M> {
    fn client(&self, message: ClientMessage) {
        let _ = self.0.send(message.into());
    }
    fn operator(&self, message: OperatorMessage) {
        let _ = self.0.send(message.into());
    }
}

#[derive(Debug)]
pub enum Waiter {
    Once(oneshot::Sender<Answer>),
    /// One of many on a pipelined connection, told apart by a ticket of the connection's own.
    Stream {
        ticket: u64,
        /// The connection. Answers arrive in commit order.
        to: Arc<Answers>,
    },
    /// Whoever asks again for a request that cannot be taken now: its end is asked for instead.
    Again(Box<Again>),
}

/// Where the answers of a pipelined connection go. What they hold is on its account until it is read.
#[derive(Debug)]
pub struct Answers {
    to: mpsc::UnboundedSender<(u64, Answer)>,
    pub account: Account,
}

impl Answers {
    /// Of a connection, with an account of its own.
    pub fn new(to: mpsc::UnboundedSender<(u64, Answer)>, account: Account) -> Arc<Self> {
        Arc::new(Answers { to, account })
    }

    fn answer(&self, ticket: u64, mut answer: Answer) {
        if let Answer::Reply(reply) | Answer::Replayed(reply) = &mut answer {
            hold_result(reply, &self.account);
        }
        // Nobody is left to tell when the client has gone.
        let _ = self.to.send((ticket, answer));
    }
}

/// Puts a result on an account, or forgets it: a client that does not read must not fill the memory.
pub(crate) fn hold_result(reply: &mut Reply, account: &Account) {
    if reply.outcome.as_ref().is_ok_and(|result| !account.grow(result.len())) {
        let why =
            "it was executed, and there was no room to hold its result: too much that is not read is held for clients";
        reply.outcome = Err(Abort::new(Code::ReplyForgotten, why));
    }
}

/// What waits for the end of an earlier request. Boxed: it is rare, and every request carries a [`Waiter`].
#[derive(Debug)]
pub struct Again {
    to: Waiter,
    /// A receipt is wanted, not the end.
    receipt: bool,
    /// What is said if nothing is known of the request.
    unknown: Answer,
}

impl Waiter {
    /// Hands the answer over.
    pub(crate) fn answer(self, answer: Answer) {
        match self {
            Waiter::Once(to) => {
                let _ = to.send(answer);
            }
            Waiter::Stream { ticket, to } => to.answer(ticket, answer),
            Waiter::Again(again) => again.to.answer(match answer {
                Answer::Unknown => again.unknown,
                Answer::Reply(reply) | Answer::Replayed(reply) if again.receipt => Answer::Accepted(reply.id),
                answer => answer,
            }),
        }
    }
}

/// A handle to whatever serves here: a machine of this process, or the gateway to those of others.
/// Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    inbox: Arc<dyn Inbox>,
    /// Requests sent and not yet taken.
    queued: Arc<AtomicUsize>,
    queued_max: usize,
    catalog: Arc<ArcSwap<Catalog>>,
    stats: Arc<Stats>,
    admission: Arc<Admission>,
}

impl Handle {
    /// A handle for clients, which sends to `inbox`, where at most `queued_max` requests may wait. Whoever
    /// reads there says [`Handle::taken`] for each message, and shows what is deployed.
    pub(crate) fn new<M>(inbox: Sender<M>, queued_max: usize, stats: Arc<Stats>) -> Self
    where
        M: From<ClientMessage> + Send + 'static,
    {
        Handle::to(Arc::new(Clients(inbox)), queued_max, stats)
    }

    /// A handle for clients and operators.
    pub(crate) fn with_operators<M>(inbox: Sender<M>, queued_max: usize, stats: Arc<Stats>) -> Self
    where
        M: From<ClientMessage> + From<OperatorMessage> + Send + 'static,
    {
        Handle::to(Arc::new(Everybody(inbox)), queued_max, stats)
    }

    fn to(inbox: Arc<dyn Inbox>, queued_max: usize, stats: Arc<Stats>) -> Self {
        Handle { inbox, queued: Arc::default(), queued_max, catalog: Arc::default(), stats, admission: Arc::default() }
    }

    /// A message has been taken out of the inbox.
    pub(crate) fn taken(&self, message: &ClientMessage) {
        if let ClientMessage::Request(ClientRequest::Submit { .. } | ClientRequest::Query { .. }) = message {
            self.queued.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Requests sent and not yet taken.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Shows clients what is deployed.
    pub(crate) fn show_catalog(&self, catalog: Arc<Catalog>) {
        self.catalog.store(catalog);
    }

    /// What is deployed, as of the last epoch that began.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Counters of this process.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Admission control, for what new work appends to the log.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Takes a snapshot now.
    ///
    /// # Errors
    /// Snapshots are off, or nothing has happened since the last one.
    pub async fn snapshot(&self) -> Result<SnapshotSummary, NoSnapshot> {
        let (to, taken) = oneshot::channel();
        self.inbox.operator(OperatorMessage::Snapshot(to));
        taken.await.unwrap_or(Err(NoSnapshot::ServerStops))
    }

    /// Sends a request that may write; refused while [`Admission`] says so, unless it is known under its key. With
    /// `receipt` the answer is [`Answer::Accepted`], once durable.
    pub fn submit(&self, request: Arc<Request>, waiter: Waiter, receipt: bool) {
        let (id, retained) = (request.id, request.retained);
        // What there is too much of may always be removed.
        let removes = || SystemFunction::named(&request.function) == Some(SystemFunction::Delete);
        let state = || self.admission.refuses_state(request.operator, &self.catalog).filter(|_| !removes());
        match self.admission.refuses_writes().or_else(state).map(Answer::Failed) {
            None => {
                self.request(id, retained, waiter, |waiter| ClientRequest::Submit { request, waiter, receipt });
            }
            Some(refused) if retained => self.ask_end(id, waiter, receipt, refused),
            Some(refused) => waiter.answer(refused),
        }
    }

    /// Asks for the end of an earlier request for somebody who repeats it and cannot be served; or for its receipt.
    /// Where nothing is known of it, the answer is `unknown`.
    pub fn ask_end(&self, id: RequestId, waiter: Waiter, receipt: bool, unknown: Answer) {
        let waiter = Waiter::Again(Box::new(Again { to: waiter, receipt, unknown }));
        self.inbox.client(ClientMessage::Request(ClientRequest::Await { id, waiter }));
    }

    /// Sends a request to a read-only function; refused while what it would read cannot become durable.
    pub fn query(&self, request: Arc<Request>, waiter: Waiter) {
        if let Some(failure) = self.admission.refuses_reads() {
            return waiter.answer(Answer::Failed(failure));
        }
        self.request(request.id, false, waiter, |waiter| ClientRequest::Query { request, waiter });
    }

    fn request(
        &self,
        id: RequestId,
        retained: bool,
        waiter: Waiter,
        request: impl FnOnce(Waiter) -> ClientRequest<Waiter>,
    ) {
        if self.queued.fetch_add(1, Ordering::Relaxed) >= backlog_for(retained, self.queued_max) {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            return waiter.answer(Answer::overloaded(id));
        }
        if self.stats.observed.wants(id) {
            self.stats.observed.received(id);
        }
        self.inbox.client(ClientMessage::Request(request(waiter)));
    }

    /// Asks for the end of an earlier request: [`Answer::Replayed`], now or when it ends, or [`Answer::Unknown`].
    pub async fn wait_for(&self, id: RequestId) -> Option<Answer> {
        let (to, answer) = oneshot::channel();
        self.inbox.client(ClientMessage::Request(ClientRequest::Await { id, waiter: Waiter::Once(to) }));
        answer.await.ok()
    }

    /// Asks for a deployment, at once; returns once it has taken effect and is durable.
    pub fn control(&self, control: Control) -> impl Future<Output = Result<(), Abort>> + Send + use<> {
        let (to, answer) = oneshot::channel();
        self.inbox.operator(OperatorMessage::Deploy(Box::new(control), Waiter::Once(to)));
        controlled(answer)
    }

    /// Has partitions change their owners, of whom these would hold so many bytes more; returns once they have, durably, or once they
    /// are on their way.
    pub fn migrate(
        &self,
        goal: Goal,
        options: MigrationOptions,
        gains: Vec<(NodeId, u64)>,
    ) -> impl Future<Output = Result<(), Abort>> + Send + use<> {
        let (to, answer) = oneshot::channel();
        self.inbox.operator(OperatorMessage::Migrate(goal, options, gains, Waiter::Once(to)));
        controlled(answer)
    }

    /// Has partitions that are on their way be copied no further for now, or further.
    pub fn pace_migration(&self, change: PaceChange) -> impl Future<Output = Result<(), Abort>> + Send + use<> {
        let (to, answer) = oneshot::channel();
        self.inbox.operator(OperatorMessage::PaceMigration(change, Waiter::Once(to)));
        controlled(answer)
    }

    /// Leaves partitions where they are that are on their way to other owners.
    pub fn cancel_migration(&self) -> impl Future<Output = Result<(), Abort>> + Send + use<> {
        let (to, answer) = oneshot::channel();
        self.inbox.operator(OperatorMessage::CancelMigration(Waiter::Once(to)));
        controlled(answer)
    }

    /// Answers an admin query from between two steps of the machine. The answer comes once all that it
    /// tells is durable, and after those to earlier queries; none if nobody can say.
    pub async fn read(&self, query: AdminQuery) -> Option<Response> {
        let (to, answer) = oneshot::channel();
        self.inbox.client(ClientMessage::Read(query, to));
        answer.await.ok()
    }
}

/// What an operator is told of a control.
async fn controlled(answer: oneshot::Receiver<Answer>) -> Result<(), Abort> {
    match answer.await {
        Ok(Answer::Controlled(result)) => result,
        Ok(Answer::Failed(Failure::OutcomeUnknown)) => {
            let message = "the members of the cluster changed meanwhile, and whether it has taken effect is not \
                           known here; look at what is deployed, or ask again";
            Err(Abort::new(Code::Overloaded, message))
        }
        _ => Err(Abort::new(Code::Overloaded, "the server is shutting down")),
    }
}
