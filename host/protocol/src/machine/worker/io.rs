//! Inputs and actions of a worker's machine.

use std::sync::Arc;

use super::migration::CopyAllowance;
use crate::commit::replies::{FollowedReplies, PartitionReplies, Reply, Retention};
use crate::execute::attempt::{Execution, LogLine, Operation, RemoteResponse};
use crate::execute::task::{LocalView, LongTask, RunId, Started, Task, TaskProgress};
use crate::fallback::{ComponentOutcome, Member};
use crate::ids::{Generation, RequestId, Tid};
use crate::machine::EpochSummary;
use crate::modes::Modes;
use crate::sequence::catalog::Catalog;
use crate::sequence::transaction::{Request, Transaction};
use crate::snapshot::WorkerSnapshot;
use crate::state::entity::{Entity, Layout};
use crate::state::{Partition, State, Write};
use crate::wire::fault::PeerFault;
use crate::wire::message::{Message, Node};

/// Settings of a worker. Everything that decides an outcome is here or in the log.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How keys are spread over partitions.
    pub layout: Layout,
    /// Parts of the protocol that are on.
    pub modes: Modes,
    /// Most transactions of an epoch.
    pub epoch_size_max: usize,
    /// Fuel that what an epoch takes is expected to use; one request is always taken.
    pub epoch_fuel_max: u64,
    /// The longest record that the log takes, in bytes.
    pub record_bytes_max: usize,
    /// Most requests that may wait.
    pub backlog_max: usize,
    /// Most functions that may wait for other workers.
    pub suspended_max: usize,
    /// Most long transactions that may run at a time.
    pub long_max: usize,
    /// How long replies are remembered.
    pub retention: Retention,
    /// Fencing generation.
    pub generation: Generation,
    /// Track changes, so that snapshots can be taken.
    pub snapshots: bool,
    /// Most entities that a step changes, or hands over for a snapshot: [`STEP_MAX`].
    pub step_max: usize,
    /// Bytes of what is told in pieces, such as the copy of a partition, that a message holds, about: [`PIECE_BYTES`].
    pub piece_bytes: usize,
    /// Put the claimed serial order into each [`EpochSummary`], for checkers.
    pub claim_order: bool,
}

/// Changes that are made in some milliseconds.
pub const STEP_MAX: usize = 4096;

pub use crate::pieces::PIECE_BYTES;

/// Input of a worker's machine. `W` names a waiting client; it is handed back with the response,
/// never looked at.
#[derive(Debug)]
pub enum Input<W> {
    /// A client asks for something.
    Client(ClientRequest<W>),
    /// [`Action::Execute`] is done.
    Executed(Executed),
    /// Some of [`Action::RunTasks`] is done.
    TaskProgress(Vec<TaskProgress>),
    /// [`Action::FallBack`] is done.
    FellBack(Vec<ComponentOutcome>),
    /// A run of a long transaction reads; answered with [`Action::LongRead`].
    LongRead {
        run: RunId,
        /// [`Operation::Get`] or [`Operation::Scan`].
        operation: Operation,
    },
    /// [`Action::StartLong`] is done.
    LongEnded {
        run: RunId,
        /// What it did.
        execution: Box<Execution>,
    },
    /// The process is to end: long transactions that have no key end without effect.
    Withdraw,
    /// More of what has changed can be taken, after [`Action::WorkerSnapshot`] or [`Action::Changes`].
    HandOver,
    /// Somebody waits to see an entity: if a former owner of its partition still has it, it is asked for.
    Want(Entity),
    /// How much of what leaves may be copied from now on.
    AllowCopy(CopyAllowance),
    /// A step is not at its end, see [`super::Worker::is_unfinished`].
    Continue,
    /// A message of another node of this generation.
    Message { from: Node, message: Message },
}

/// Request of a client to a worker.
#[derive(Debug)]
pub enum ClientRequest<W> {
    /// A validated request that may write.
    Submit {
        request: Arc<Request>,
        waiter: W,
        /// Answer with [`ClientResponse::Accepted`] once durable, instead of with the reply.
        receipt: bool,
    },
    /// A request to a read-only function: not logged, runs on the last committed epoch.
    Query { request: Arc<Request>, waiter: W },
    /// The end of an earlier request is asked for.
    Await {
        /// The earlier request.
        id: RequestId,
        waiter: W,
    },
}

impl<W> ClientRequest<W> {
    /// Whoever asks.
    pub(super) fn into_waiter(self) -> W {
        match self {
            ClientRequest::Submit { waiter, .. }
            | ClientRequest::Query { waiter, .. }
            | ClientRequest::Await { waiter, .. } => waiter,
        }
    }

    /// The same request of another name for the client.
    pub fn map_waiter<V>(self, name: impl FnOnce(W) -> V) -> ClientRequest<V> {
        match self {
            ClientRequest::Submit { request, waiter, receipt } => {
                ClientRequest::Submit { request, waiter: name(waiter), receipt }
            }
            ClientRequest::Query { request, waiter } => ClientRequest::Query { request, waiter: name(waiter) },
            ClientRequest::Await { id, waiter } => ClientRequest::Await { id, waiter: name(waiter) },
        }
    }
}

/// Answer to a [`ClientRequest`].
#[derive(Debug)]
pub enum ClientResponse<W> {
    /// The request has ended.
    Reply { waiter: W, reply: Reply },
    /// The same, of what somebody else has asked before under the same id, and was told or will be.
    Replayed { waiter: W, reply: Reply },
    /// The request will be carried out whatever happens.
    Accepted { waiter: W, id: RequestId },
    /// Nothing is known of the request.
    Unknown { waiter: W },
    /// Nothing has happened of the request, nor will here: it is to be asked elsewhere.
    Returned { waiter: W },
}

/// Work that a worker's machine asks its driver for.
#[derive(Debug)]
pub enum Action<W> {
    /// Send a message; those to one node arrive in order, each once.
    Send { to: Node, message: Message },
    /// Execute the batch on any number of threads, then say [`Input::Executed`]. No reference to
    /// the state may be kept.
    Execute(Batch),
    /// Advance the tasks on any number of threads, and say [`Input::TaskProgress`] of any that is
    /// done. A task that resumes a guest goes to where the guest is suspended.
    RunTasks(Vec<Task>),
    /// Run a long transaction on a thread of its own, which owes nothing to anybody; say [`Input::LongRead`] when it
    /// reads, and [`Input::LongEnded`] when it is done.
    StartLong(LongTask),
    /// What a run of a long transaction has asked for.
    LongRead {
        run: RunId,
        /// What was found; [`RemoteResponse::Failed`] if the run does not count any more.
        answer: RemoteResponse,
    },
    /// Run the components on any number of threads, then say [`Input::FellBack`].
    FallBack(FallbackBatch),
    /// Answer clients, in this order.
    Respond(Vec<ClientResponse<W>>),
    /// Show the lines that guests logged in the attempt that counted; of a query `tid` is 0.
    Logs { tid: Tid, lines: Vec<LogLine> },
    /// This worker's part of a snapshot; say [`Input::HandOver`] for its entities.
    WorkerSnapshot(Box<WorkerSnapshot>),
    /// Changed entities up to the snapshot; of one entity the last change counts.
    Changes {
        /// Some of the changes.
        changes: Vec<Write>,
        /// Whether these were the last. Otherwise say [`Input::HandOver`] for more.
        last: bool,
    },
    /// Is not needed any more, and takes a while to be dropped.
    Discard(Discarded),
    /// A message could not be applied, and was not: its sender does not keep to the protocol, or this
    /// worker is not where it should be. Leave the generation.
    Fault(PeerFault),
    /// This worker's part of an epoch, or of a round of read-only requests, has ended.
    Finished(EpochSummary),
}

impl<W> Action<W> {
    pub(super) fn fault(from: Node, what: &'static str, why: &'static str) -> Self {
        Action::Fault(PeerFault { from, what, why })
    }
}

/// What is left of partitions that are elsewhere.
#[derive(Debug, Default)]
pub struct Discarded {
    pub(super) partitions: Vec<Partition>,
    pub(super) replies: Vec<PartitionReplies>,
    pub(super) followed: Vec<FollowedReplies>,
}

impl Discarded {
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.replies.is_empty() && self.followed.is_empty()
    }

    /// Frees it a little at a time: what one thread frees, those that have allocated it give back to the system, and whatever they
    /// do waits for that.
    pub fn free(self, mut between: impl FnMut()) {
        self.partitions.into_iter().for_each(|partition| partition.free(&mut between));
    }

    pub(super) fn append(&mut self, mut other: Discarded) {
        self.partitions.append(&mut other.partitions);
        self.replies.append(&mut other.replies);
        self.followed.append(&mut other.followed);
    }
}

/// Transactions to execute on the state of the epoch's start.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Transactions in TID order.
    pub transactions: Arc<[Transaction]>,
    /// Read-only requests.
    pub queries: Arc<[Transaction]>,
    /// The state to read.
    pub state: Arc<State>,
    /// The catalog of the epoch.
    pub catalog: Arc<Catalog>,
    /// Among several workers, this one's view: run by [`crate::execute::task::TaskExecutor::start`]. Otherwise by
    /// [`crate::execute::executor::Executor::execute`].
    pub view: Option<LocalView>,
}

/// Executions of a batch, each list in the order of the batch.
#[derive(Debug, Default)]
pub struct Executed {
    pub transactions: Vec<Started>,
    pub queries: Vec<Started>,
}

/// Components of the conflict graph, each to be run in order on one thread.
#[derive(Clone, Debug)]
pub struct FallbackBatch {
    pub components: Arc<[Vec<Member>]>,
    /// The state after the lock-free phase.
    pub state: Arc<State>,
    /// The catalog of the epoch.
    pub catalog: Arc<Catalog>,
}
