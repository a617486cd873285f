//! What goes into the machines and what comes out.

use std::sync::Arc;

use crate::abort::Abort;
use crate::attempt::LogLine;
use crate::catalog::{Catalog, Control};
use crate::entity::{Layout, Value};
use crate::fallback::{ComponentOutcome, Member};
use crate::ids::{Epoch, RequestId, Tid, Timestamp, WorkerId};
use crate::machine::message::{Counts, Message, Node};
use crate::modes::Modes;
use crate::mutants::{Bug, planted};
use crate::record::{Chain, EpochRecord};
use crate::replies::{Reply, Retention};
use crate::snapshot::{SnapshotHeader, WorkerSnapshot};
use crate::state::{State, Write};
use crate::task::{LocalView, Started, Task, TaskProgress};
use crate::transaction::{Request, Transaction};

/// What a machine is told at birth. Everything that decides an outcome is here or in the log.
#[derive(Clone, Debug)]
pub struct Config {
    /// How keys are spread.
    pub layout: Layout,
    /// Which parts of the protocol are on.
    pub modes: Modes,
    /// Most transactions of an epoch, per worker.
    pub epoch_size_max: usize,
    /// Most bytes of arguments in a worker's part of an epoch's record (one request is always taken).
    pub epoch_bytes_max: usize,
    /// Most requests that may wait, per worker.
    pub backlog_max: usize,
    /// Most functions that may wait for other workers, per worker.
    pub suspended_max: usize,
    /// How long replies are remembered.
    pub retention: Retention,
    /// Hash of the engine's configuration.
    pub engine: u64,
    /// Fencing generation.
    pub generation: u64,
    /// Track changes, so that snapshots can be taken.
    pub snapshots: bool,
    /// Put the claimed serial order into each [`EpochSummary`], for checkers.
    pub claim_order: bool,
}

/// What happens to a machine.
#[derive(Debug)]
pub enum Input<W> {
    /// A validated request that may write. For workers.
    Submit {
        /// The request.
        request: Arc<Request>,
        /// Who waits.
        waiter: W,
        /// Answer with [`Action::Accepted`] once durable, instead of with the reply.
        receipt: bool,
    },
    /// A request to a read-only function: not logged, runs on the last committed epoch. For workers.
    Query {
        /// The request.
        request: Request,
        /// Who waits.
        waiter: W,
    },
    /// Somebody asks for the end of an earlier request. For workers.
    Await {
        /// The request.
        id: RequestId,
        /// Who waits.
        waiter: W,
    },
    /// A deployment to be sequenced. For the coordinator.
    Control {
        /// The change.
        control: Control,
        /// Who waits.
        waiter: W,
    },
    /// It is `now`; an epoch may be cut. For the coordinator.
    Tick {
        /// Wall-clock time, which goes into the record.
        now: Timestamp,
    },
    /// A record of the log, in recovery: the cut that was made. For the coordinator.
    Replay(Arc<EpochRecord>),
    /// [`Action::Execute`] is done. For workers.
    Executed(Executed),
    /// Some of [`Action::RunTasks`] is done. For workers.
    TaskProgress(Vec<TaskProgress>),
    /// [`Action::FallBack`] is done. For workers.
    FellBack(Vec<ComponentOutcome>),
    /// The records up to this epoch's are durable. For the coordinator.
    Durable(Epoch),
    /// A snapshot is wanted, and the last one has been handed over. For the coordinator.
    Snapshot,
    /// The generation is to end, without haste: see [`super::Coordinator::is_drained`]. For the coordinator.
    Drain,
    /// More of what has changed can be taken. For workers that have parted with
    /// [`Action::WorkerSnapshot`] or [`Action::Changes`].
    HandOver,
    /// A message of another node of this generation.
    Message {
        /// Who sent it.
        from: Node,
        /// The message.
        message: Message,
    },
}

/// What is to be done.
#[derive(Debug)]
pub enum Action<W> {
    /// Append the record, and say [`Input::Durable`] once it is.
    Append(Arc<EpochRecord>),
    /// Send a message; those to one node arrive in order, each once.
    Send {
        /// To whom.
        to: Node,
        /// The message.
        message: Message,
    },
    /// Execute the batch on any number of threads, then say [`Input::Executed`]. No reference to
    /// the state may be kept.
    Execute(Batch),
    /// Advance the tasks on any number of threads, and say [`Input::TaskProgress`] of any that is
    /// done. A task that resumes a guest goes to where the guest is parked.
    RunTasks(Vec<Task>),
    /// Run the components on any number of threads, then say [`Input::FellBack`].
    FallBack(FallbackBatch),
    /// Tell a client the end of its request.
    Reply {
        /// Who waits.
        waiter: W,
        /// The end.
        reply: Reply,
    },
    /// Tell a client that its request will be carried out whatever happens.
    Accepted {
        /// Who waits.
        waiter: W,
        /// The request.
        id: RequestId,
    },
    /// Tell a client that nothing is known of the request.
    Unknown {
        /// Who waits.
        waiter: W,
    },
    /// Tell a client that nothing has happened of what it asked for, nor will here.
    Returned {
        /// Who waits.
        waiter: W,
    },
    /// Tell a client what became of its deployment.
    Controlled {
        /// Who waits.
        waiter: W,
        /// Done and durable, or refused.
        result: Result<(), Abort>,
    },
    /// Show what guests logged in the attempt that counted.
    Logs {
        /// The transaction.
        tid: Tid,
        /// The lines.
        lines: Vec<LogLine>,
    },
    /// What runs and what is deployed differ on a worker: it must go, and a new generation begin.
    Expel {
        /// The worker.
        worker: WorkerId,
        /// Hash of what the coordinator has deployed.
        expected: u64,
        /// Hash of what the worker has.
        found: u64,
    },
    /// A snapshot of the state of now: the coordinator's part.
    Snapshot(Box<SnapshotHeader>),
    /// A worker's part of a snapshot; say [`Input::HandOver`] for its entities.
    WorkerSnapshot(Box<WorkerSnapshot>),
    /// What has changed in entities up to the snapshot; of one entity the last change counts.
    Changes {
        /// Some of the changes.
        changes: Vec<Write>,
        /// Whether these were the last. Otherwise say [`Input::HandOver`] for more.
        last: bool,
    },
    /// An epoch, or a round of read-only requests, has ended; on a worker, its part of it.
    Finished(EpochSummary),
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
    /// What is deployed.
    pub catalog: Arc<Catalog>,
    /// Among several workers, which this is: run by [`crate::task::TaskExecutor::start`]. Otherwise by
    /// [`crate::fallback::Executor::execute`].
    pub seat: Option<LocalView>,
}

/// What a batch came to, each in the order of the batch.
#[derive(Debug, Default)]
pub struct Executed {
    /// The transactions.
    pub transactions: Vec<Started>,
    /// The queries.
    pub queries: Vec<Started>,
}

/// Components of the conflict graph, each to be run in order on one thread.
#[derive(Clone, Debug)]
pub struct FallbackBatch {
    /// Components.
    pub components: Arc<[Vec<Member>]>,
    /// The state after the lock-free phase.
    pub state: Arc<State>,
    /// What is deployed.
    pub catalog: Arc<Catalog>,
}

/// What an epoch did.
#[derive(Clone, Debug, Default)]
pub struct EpochSummary {
    /// The epoch.
    pub epoch: Epoch,
    /// Its time.
    pub time: Timestamp,
    /// How many transactions came to what; at the coordinator, of all workers.
    pub counts: Counts,
    /// Transactions and queries that needed other workers.
    pub shared: usize,
    /// State hash chain after it; at the coordinator, and where one worker owns everything.
    pub chain: Chain,
    /// Where those that ended stand in the serial order that the epoch claims to be equal to, if
    /// asked for: that of all workers, sorted.
    pub order: Vec<Rank>,
    /// What they came to, if asked for.
    pub outcomes: Vec<(Tid, Result<Value, Abort>)>,
}

/// A transaction's place in the serial order of its epoch.
///
/// Those that wrote nothing; then those that read what a lower TID wrote, highest first; then the
/// others by TID; then the fallback. (Of two committed transactions, the one that reads what the
/// other writes must precede it. One that reads what a lower TID writes writes nothing that a
/// lower TID reads, so only higher TIDs must precede it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// It wrote nothing.
    ReadOnly(Tid),
    /// It goes before the lower TIDs whose writes it did not see.
    Early(Tid),
    /// It goes by TID.
    Commit(Tid),
    /// It ran after all of these.
    FellBack(Tid),
}

impl Rank {
    /// The transaction.
    pub fn tid(self) -> Tid {
        match self {
            Rank::ReadOnly(tid) | Rank::Early(tid) | Rank::Commit(tid) | Rank::FellBack(tid) => tid,
        }
    }

    fn key(self) -> (u8, u64) {
        match self {
            Rank::ReadOnly(tid) => (0, tid.0),
            Rank::Early(tid) if planted(Bug::EarlyByTid) => (1, tid.0),
            Rank::Early(tid) => (1, u64::MAX - tid.0),
            Rank::Commit(tid) => (2, tid.0),
            Rank::FellBack(tid) => (3, tid.0),
        }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
