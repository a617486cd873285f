//! What execution threads do of a graph that several workers share: one task after the other,
//! each as far as it goes without another worker.
//!
//! The machine keeps the attempt while nothing of it runs; an executor keeps the guests that wait.

use std::sync::Arc;

use crate::abort::Abort;
use crate::cluster::placement::Placement;
use crate::execute::attempt::{Attempt, Execution, Mode, RemoteRequests, RemoteResponse, Target, Usage};
use crate::ids::WorkerId;
use crate::sequence::catalog::Catalog;
use crate::sequence::transaction::Transaction;
use crate::state::State;
use crate::state::entity::{Entity, Layout, Value};

/// Which of several workers this is.
#[derive(Clone, Debug)]
pub struct LocalView {
    /// This worker.
    pub me: WorkerId,
    /// Who owns what.
    pub placement: Arc<Placement>,
}

impl LocalView {
    /// An attempt at a graph, or at the part of it that belongs here.
    pub fn attempt(
        &self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        mode: Mode,
    ) -> Attempt {
        let attempt = Attempt::begin(transaction.clone(), state.clone(), catalog.clone());
        attempt.among(self.me, self.placement.clone(), mode)
    }
}

/// A graph: a transaction, by its TID, or a read-only request, by a number that the worker of its
/// root has given it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct GraphId(pub u64);

/// Marks the graphs of queries: no TID comes so far.
const QUERY: u64 = 1 << 63;

/// Bits below which a query's graph says where the query stands; above them stands its worker.
const PLACE_BITS: u32 = 40;

impl GraphId {
    /// The graph of a query that stands at this place of a worker's round.
    pub fn of_query(root: WorkerId, place: usize) -> Self {
        GraphId(QUERY | u64::from(root.0) << PLACE_BITS | place as u64)
    }

    /// Where its query stands, if it is that of one.
    pub fn query_place(self) -> Option<usize> {
        (self.0 & QUERY != 0).then_some((self.0 & ((1 << PLACE_BITS) - 1)) as usize)
    }
}

/// A guest that waits inside an executor, as the executor calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SuspendedId(pub u64);

/// A run of a long transaction, as its worker counts them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct RunId(pub u64);

/// A run of a long transaction, beside the epochs.
#[derive(Clone, Debug)]
pub struct LongTask {
    /// The run.
    pub run: RunId,
    /// The transaction.
    pub transaction: Transaction,
    /// How keys are spread.
    pub layout: Layout,
    /// What is deployed.
    pub catalog: Arc<Catalog>,
}

/// Some work for a graph. One task of a graph is out at a time on each worker.
#[derive(Debug)]
pub struct Task {
    /// The graph.
    pub graph: GraphId,
    /// What is known of it here.
    pub attempt: AttemptSource,
    /// What to do.
    pub kind: TaskKind,
}

/// What is known of a graph where a task of it runs.
#[derive(Debug)]
pub enum AttemptSource {
    /// Something happened here before.
    Existing(Box<Attempt>),
    /// Nothing happened here yet.
    New(AttemptSeed),
}

/// What an attempt is made of. Most parts of graphs consist of one task; their attempts are made
/// on the thread that runs it, so that it finds them in its caches.
#[derive(Debug)]
pub struct AttemptSeed {
    /// Which of several workers this is.
    pub view: LocalView,
    /// The transaction.
    pub transaction: Transaction,
    /// The state to read.
    pub state: Arc<State>,
    /// What is deployed.
    pub catalog: Arc<Catalog>,
    /// How the graph is run.
    pub mode: Mode,
    /// See [`Attempt::resume`].
    pub used: Usage,
    /// See [`Attempt::resume`].
    pub drifted: bool,
}

impl AttemptSource {
    /// The attempt itself.
    pub fn into_attempt(self) -> Box<Attempt> {
        match self {
            AttemptSource::Existing(attempt) => attempt,
            AttemptSource::New(fresh) => fresh.into_attempt(),
        }
    }
}

impl AttemptSeed {
    /// Makes the attempt.
    pub fn into_attempt(self) -> Box<Attempt> {
        let AttemptSeed { view, transaction, state, catalog, mode, used, drifted } = self;
        let mut attempt = Box::new(Attempt::begin(transaction, state, catalog).among(view.me, view.placement, mode));
        attempt.resume(used, drifted);
        attempt
    }
}

/// What to do for a graph.
#[derive(Debug)]
pub enum TaskKind {
    /// Run the function that the request asks for.
    Root,
    /// Run a function that was called on another worker.
    Call {
        /// The call.
        target: Target,
        /// The worker that issued it.
        issuer: WorkerId,
    },
    /// Continue a guest that waits.
    Resume {
        /// Which.
        parked: SuspendedId,
        /// What it waits for.
        answers: Vec<RemoteResponse>,
    },
}

/// How far a task has come.
#[derive(Debug)]
pub struct TaskProgress {
    /// The graph.
    pub graph: GraphId,
    /// What is known of it here.
    pub attempt: Box<Attempt>,
    /// Why it goes no further.
    pub progress: Progress,
}

/// Why a task goes no further.
#[derive(Debug)]
pub enum Progress {
    /// The function, and what it called here, is over.
    Done(Result<Value, Abort>),
    /// A guest waits for other workers.
    Suspended(SuspendedId, RemoteRequests),
}

/// What a root came to when it was started.
#[derive(Debug)]
pub enum Started {
    /// All of it happened here.
    Local(Execution),
    /// Others are needed, or were.
    Distributed(Box<Attempt>, Progress),
}

impl Started {
    /// The entity that it lacks, once.
    pub fn take_lacking(&mut self) -> Option<Entity> {
        match self {
            Started::Local(execution) => execution.take_lacking(),
            Started::Distributed(attempt, _) => attempt.lacking().cloned(),
        }
    }
}

/// Runs tasks: the engine's executor, or a toy.
pub trait TaskExecutor {
    /// Starts the root of a graph. A warm instance's misfortune is settled here if all of it
    /// happened here, and told to the attempt ([`Attempt::suspect`]) otherwise.
    fn start(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        view: &LocalView,
    ) -> Started;

    /// Does a task as far as it goes.
    fn advance(&mut self, task: Task) -> TaskProgress;

    /// Drops all guests that wait: their generation is over.
    fn forget(&mut self);
}
