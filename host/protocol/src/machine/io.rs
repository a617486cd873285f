//! What goes into the machine and what comes out.

use std::sync::Arc;

use crate::abort::Abort;
use crate::attempt::{Execution, LogLine};
use crate::catalog::{Catalog, Control};
use crate::entity::Layout;
use crate::fallback::{ComponentOutcome, Member};
use crate::ids::{Epoch, RequestId, Tid, Timestamp};
use crate::record::{Chain, EpochRecord};
use crate::replies::{Reply, Retention};
use crate::state::State;
use crate::transaction::{Request, Transaction};

/// What a machine is told at birth. Everything that decides an outcome is here or in the log.
#[derive(Clone, Debug)]
pub struct Config {
    /// How keys are spread.
    pub layout: Layout,
    /// This worker's sequencer, from 1.
    pub sid: u64,
    /// Sequencers in the cluster.
    pub n_seq: u64,
    /// Commit what deterministic reordering allows to commit.
    pub reordering: bool,
    /// Run conflicting transactions in the fallback; otherwise in the next epoch.
    pub fallback: bool,
    /// Most transactions of an epoch.
    pub epoch_size_max: usize,
    /// Most bytes of arguments in an epoch's record (one request is always taken).
    pub epoch_bytes_max: usize,
    /// Most requests that may wait.
    pub backlog_max: usize,
    /// How long replies are remembered.
    pub retention: Retention,
    /// Hash of the engine's configuration.
    pub engine: u64,
    /// Fencing generation.
    pub generation: u64,
    /// Put the claimed serial order into each [`EpochSummary`], for checkers.
    pub claim_order: bool,
}

/// What happens to the machine.
#[derive(Debug)]
pub enum Input<W> {
    /// A validated request that may write.
    Submit {
        /// The request.
        request: Arc<Request>,
        /// Who waits.
        waiter: W,
        /// Answer with [`Action::Accepted`] once durable, instead of with the reply.
        receipt: bool,
    },
    /// A request to a read-only function: not logged, runs on the last committed epoch.
    Query {
        /// The request.
        request: Request,
        /// Who waits.
        waiter: W,
    },
    /// Somebody asks for the end of an earlier request.
    Await {
        /// The request.
        id: RequestId,
        /// Who waits.
        waiter: W,
    },
    /// A deployment to be sequenced.
    Control {
        /// The change.
        control: Control,
        /// Who waits.
        waiter: W,
    },
    /// It is `now`; an epoch may be cut.
    Tick {
        /// Wall-clock time, which goes into the record.
        now: Timestamp,
    },
    /// A record of the log, in recovery: the cut that was made.
    Replay(Arc<EpochRecord>),
    /// [`Action::Execute`] is done.
    Executed(Executed),
    /// [`Action::FallBack`] is done.
    FellBack(Vec<ComponentOutcome>),
    /// The records up to this epoch's are durable.
    Durable(Epoch),
}

/// What is to be done.
#[derive(Debug)]
pub enum Action<W> {
    /// Append the record, and say [`Input::Durable`] once it is.
    Append(Arc<EpochRecord>),
    /// Execute the batch on any number of threads, then say [`Input::Executed`]. No reference to
    /// the state may be kept.
    Execute(Batch),
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
    /// An epoch has ended.
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
}

/// Executions of a batch, each in the order of the batch.
#[derive(Debug, Default)]
pub struct Executed {
    /// Of the transactions.
    pub transactions: Vec<Execution>,
    /// Of the queries.
    pub queries: Vec<Execution>,
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
    /// Transactions committed in the lock-free phase.
    pub committed: usize,
    /// Transactions committed in the fallback.
    pub fell_back: usize,
    /// Transactions that ended without effect, by their own doing.
    pub aborted: usize,
    /// Transactions moved to the next epoch.
    pub rescheduled: usize,
    /// Queries answered.
    pub queries: usize,
    /// Fuel used.
    pub fuel: u64,
    /// State hash chain after it.
    pub chain: Chain,
    /// The serial order that the epoch claims to be equal to, if asked for.
    pub order: Vec<Tid>,
}
