//! What execution threads do of a graph that several workers share: one piece after the other,
//! each as far as it goes without another worker.
//!
//! The machine keeps the attempt while nothing of it runs; an executor keeps the guests that wait.

use std::sync::Arc;

use crate::abort::Abort;
use crate::attempt::{Answer, Ask, Attempt, Execution, Mode, Placement, Target, Usage};
use crate::catalog::Catalog;
use crate::entity::Value;
use crate::ids::WorkerId;
use crate::state::State;
use crate::transaction::Transaction;

/// Which of several workers this is.
#[derive(Clone, Debug)]
pub struct Seat {
    /// This worker.
    pub me: WorkerId,
    /// Who owns what.
    pub placement: Arc<Placement>,
}

impl Seat {
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

/// A guest that waits inside an executor, as the executor calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parked(pub u64);

/// Some work for a graph. One piece of a graph is out at a time on each worker.
#[derive(Debug)]
pub struct Piece {
    /// The graph.
    pub graph: GraphId,
    /// What is known of it here.
    pub attempt: Held,
    /// What to do.
    pub task: Task,
}

/// What is known of a graph where a piece of it runs.
#[derive(Debug)]
pub enum Held {
    /// Something happened here before.
    Kept(Box<Attempt>),
    /// Nothing happened here yet.
    New(Fresh),
}

/// What an attempt is made of. Most parts of graphs consist of one piece; their attempts are made
/// on the thread that runs it, so that it finds them in its caches.
#[derive(Debug)]
pub struct Fresh {
    /// Which of several workers this is.
    pub seat: Seat,
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

impl Held {
    /// The attempt itself.
    pub fn into_attempt(self) -> Box<Attempt> {
        match self {
            Held::Kept(attempt) => attempt,
            Held::New(fresh) => fresh.into_attempt(),
        }
    }
}

impl Fresh {
    /// Makes the attempt.
    pub fn into_attempt(self) -> Box<Attempt> {
        let Fresh { seat, transaction, state, catalog, mode, used, drifted } = self;
        let mut attempt = Box::new(Attempt::begin(transaction, state, catalog).among(seat.me, seat.placement, mode));
        attempt.resume(used, drifted);
        attempt
    }
}

/// What to do for a graph.
#[derive(Debug)]
pub enum Task {
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
        parked: Parked,
        /// What it waits for.
        answers: Vec<Answer>,
    },
}

/// How far a piece has come.
#[derive(Debug)]
pub struct Advanced {
    /// The graph.
    pub graph: GraphId,
    /// What is known of it here.
    pub attempt: Box<Attempt>,
    /// Why it goes no further.
    pub progress: Progress,
}

/// Why a piece goes no further.
#[derive(Debug)]
pub enum Progress {
    /// The function, and what it called here, is over.
    Done(Result<Value, Abort>),
    /// A guest waits for other workers.
    Waits(Parked, Ask),
}

/// What a root came to when it was started.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are local: boxing them would cost each an allocation")]
pub enum Started {
    /// All of it happened here.
    Local(Execution),
    /// Others are needed, or were.
    Open(Box<Attempt>, Progress),
}

/// Runs pieces: the engine's executor, or a toy.
pub trait Pieces {
    /// Starts the root of a graph. A warm instance's misfortune is settled here if all of it
    /// happened here, and told to the attempt ([`Attempt::suspect`]) otherwise.
    fn start(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>, seat: &Seat) -> Started;

    /// Does a piece as far as it goes.
    fn advance(&mut self, piece: Piece) -> Advanced;

    /// Drops all guests that wait: their generation is over.
    fn forget(&mut self);
}
