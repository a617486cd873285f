//! How the rest of the process speaks to the worker: requests in, answers out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use styx_protocol::abort::{Abort, Code};
use styx_protocol::catalog::{Catalog, Control};
use styx_protocol::ids::RequestId;
use styx_protocol::machine::Input;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Request;
use tokio::sync::{mpsc, oneshot};

use super::Message;
use super::room::Room;
use super::stats::Stats;
use crate::snapshots::Taken;
use styx_driver::wire::{AdminQuery, Response};

/// What a client is told.
#[derive(Debug)]
pub enum Answer {
    /// The end of its request, or why it was refused.
    Reply(Reply),
    /// Its request is durable and will be carried out.
    Accepted(RequestId),
    /// Nothing is known of the request that it asked for.
    Unknown,
    /// Its deployment took effect, or was refused.
    Controlled(Result<(), Abort>),
    /// The cluster cannot say.
    Failed(Failure),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No worker serves, for longer than a request waits. Nothing has happened.
    Unavailable,
    /// The worker that had the request was lost before it answered, and whether the request was
    /// carried out is not known. Those that can be asked again are asked again instead.
    OutcomeUnknown,
    /// The disk of the log is nearly full. Nothing has happened.
    DiskFull,
    /// The log waits for its brokers. Nothing has happened.
    LogStalled,
}

/// Somebody who waits for an answer.
#[derive(Debug)]
pub enum Waiter {
    /// One answer.
    Once(oneshot::Sender<Answer>),
    /// One of many on a pipelined connection, told apart by a ticket of the connection's own.
    Stream {
        /// The ticket.
        ticket: u64,
        /// The connection. Answers arrive in commit order.
        to: mpsc::UnboundedSender<(u64, Answer)>,
    },
}

impl Waiter {
    /// Hands the answer over. Nobody is left to tell when the client has gone.
    pub(crate) fn answer(self, answer: Answer) {
        match self {
            Waiter::Once(to) => drop(to.send(answer)),
            Waiter::Stream { ticket, to } => drop(to.send((ticket, answer))),
        }
    }
}

/// A handle to whatever serves here: the worker of this process, or what speaks with those of
/// others. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    inbox: Sender<Message>,
    /// Requests sent and not yet taken.
    queued: Arc<AtomicUsize>,
    queued_max: usize,
    catalog: Arc<ArcSwap<Catalog>>,
    stats: Arc<Stats>,
    room: Arc<Room>,
}

impl Handle {
    /// A handle that sends to `inbox`, where at most `queued_max` requests may wait. Whoever reads
    /// there says [`Handle::taken`] for each request, and shows what is deployed.
    pub(crate) fn new(inbox: Sender<Message>, queued_max: usize, stats: Arc<Stats>) -> Self {
        Handle { inbox, queued: Arc::default(), queued_max, catalog: Arc::default(), stats, room: Arc::default() }
    }

    /// A request has been taken out of the inbox.
    pub(crate) fn taken(&self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
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

    /// Counters of the worker.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Whether there is room for what new work appends to the log.
    pub fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Takes a snapshot now.
    ///
    /// # Errors
    /// Snapshots are off, or nothing has happened since the last one.
    pub async fn snapshot(&self) -> Result<Taken, String> {
        let (to, taken) = oneshot::channel();
        drop(self.inbox.send(Message::Snapshot(to)));
        taken.await.unwrap_or_else(|_| Err("the server stops".to_owned()))
    }

    /// Sends a request that may write; refused while there is no [`Room`]. With `receipt` the answer is
    /// [`Answer::Accepted`], once durable.
    pub fn submit(&self, request: Arc<Request>, waiter: Waiter, receipt: bool) {
        if let Some(failure) = self.room.refuses_writes() {
            return waiter.answer(Answer::Failed(failure));
        }
        self.request(request.id, waiter, |waiter| Input::Submit { request, waiter, receipt });
    }

    /// Sends a request to a read-only function; refused while what it would read cannot become durable.
    pub fn query(&self, request: Request, waiter: Waiter) {
        if let Some(failure) = self.room.refuses_reads() {
            return waiter.answer(Answer::Failed(failure));
        }
        self.request(request.id, waiter, |waiter| Input::Query { request, waiter });
    }

    fn request(&self, id: RequestId, waiter: Waiter, input: impl FnOnce(Waiter) -> Input<Waiter>) {
        if self.queued.fetch_add(1, Ordering::Relaxed) >= self.queued_max {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            let outcome = Err(Abort::new(Code::Overloaded, "too many requests are waiting; try again in a moment"));
            waiter.answer(Answer::Reply(Reply { id, tid: Default::default(), epoch: Default::default(), outcome }));
            return;
        }
        self.send(Message::Request(input(waiter)));
    }

    /// Asks for the end of an earlier request: [`Answer::Reply`], now or when it ends, or [`Answer::Unknown`].
    pub async fn wait_for(&self, id: RequestId) -> Option<Answer> {
        let (to, answer) = oneshot::channel();
        self.send(Message::Input(Input::Await { id, waiter: Waiter::Once(to) }));
        answer.await.ok()
    }

    /// Sequences a deployment; returns once it has taken effect and is durable.
    ///
    /// # Errors
    /// Why it was refused.
    pub async fn control(&self, control: Control) -> Result<(), Abort> {
        let (to, answer) = oneshot::channel();
        self.send(Message::Input(Input::Control { control, waiter: Waiter::Once(to) }));
        match answer.await {
            Ok(Answer::Controlled(result)) => result,
            _ => Err(Abort::new(Code::Overloaded, "the server is shutting down")),
        }
    }

    /// Asks how things are, between two steps of the machine. The answer comes once all that it
    /// tells is durable, and after those to what was asked before; none if nobody can say.
    pub async fn inquire(&self, query: AdminQuery) -> Option<Response> {
        let (to, answer) = oneshot::channel();
        self.send(Message::Inquire(query, to));
        answer.await.ok()
    }

    fn send(&self, message: Message) {
        // The worker is gone only when the process is about to end; waiters see their channel close.
        drop(self.inbox.send(message));
    }
}
