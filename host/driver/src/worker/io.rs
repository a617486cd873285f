//! Events and effects of a worker's driver.

use std::sync::Arc;
use std::time::Duration;

use styx_protocol::attempt::{Execution, LogLine, Operation, RemoteResponse};
use styx_protocol::catalog::Catalog;
use styx_protocol::deployment::Digest;
use styx_protocol::entity::Layout;
use styx_protocol::fallback::ComponentOutcome;
use styx_protocol::ids::{Generation, NodeId, Tid};
use styx_protocol::machine::worker::{Batch, Discarded, Executed, FallbackBatch};
use styx_protocol::machine::{EpochSummary, Worker};
use styx_protocol::membership::Build;
use styx_protocol::message::Message;
use styx_protocol::modes::Modes;
use styx_protocol::snapshot::{RestoredState, RetainedState, WorkerSnapshot};
use styx_protocol::state::Write;
use styx_protocol::task::{LocalView, LongTask, RunId, Task, TaskProgress};

use crate::client::{Answer, ClientMessage};
use crate::diagnostic::Diagnostic;
use crate::network::NetworkEvent;
use crate::suspicion::Suspect;
use crate::wire::{Envelope, Response, SnapshotPlace, WrittenPart};

/// Settings of a worker's driver.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// What this process runs; the coordinator must run the same.
    pub build: Build,
    /// Where other nodes reach it.
    pub address: String,
    /// Where the coordinator is, or those are of which one leads; at least one.
    pub coordinators: Vec<String>,
    /// Parts of the protocol that are on.
    pub modes: Modes,
    /// Most transactions of an epoch.
    pub epoch_size_max: usize,
    /// Fuel that what an epoch takes is expected to use; one request is always taken.
    pub epoch_fuel_max: u64,
    /// Most requests that may wait for an epoch.
    pub backlog_max: usize,
    /// Bytes of mail and of answers that travel together at most, unless one alone is longer: [`FRAME_BYTES`].
    pub frame_bytes: usize,
    /// Most functions that may wait for other workers.
    pub suspended_max: usize,
    /// Most long transactions that may run at a time.
    pub long_max: usize,
    /// Most entities that a step changes, or hands over for a snapshot.
    pub step_max: usize,
    /// Bytes of what is told in pieces that a message holds, about.
    pub piece_bytes: usize,
    /// Most bytes of state, in memory.
    pub state_max: u64,
    /// Requests that were under way when earlier lives of the process ended.
    pub suspects: Vec<Suspect>,
    /// Put the claimed serial order into what is said of each epoch, for checkers.
    pub claim_order: bool,
}

/// Few enough that others get their turn, and enough to be worth a frame.
pub const FRAME_BYTES: usize = 1 << 20;

/// Somebody who waits for an answer: `L` names a client of this process.
#[derive(Debug)]
pub enum Asker<L> {
    /// A gateway, and its ticket.
    Remote(NodeId, u64),
    /// A client of this process.
    Local(L),
}

/// The machine of a generation that is over. What it holds may serve the next one.
#[derive(Debug)]
pub struct FormerMachine<L>(pub(super) Box<Worker<Asker<L>>>);

impl<L> FormerMachine<L> {
    /// Takes what the next generation may begin with. Nothing may hold on to its state.
    ///
    /// # Errors
    /// Nothing can be taken; to drop it may take as long as to read a new one.
    pub fn into_retained(self) -> Result<RetainedState, Self> {
        self.0.into_retained().map_err(|machine| FormerMachine(Box::new(machine)))
    }
}

/// Failure to restore a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreFailure {
    pub why: String,
    /// The snapshot is damaged: an older one may do.
    pub damaged: bool,
}

/// Something that happens to a worker. `L` names a client of this process, `R` somebody in it who waits for
/// an admin query.
#[derive(Debug)]
pub enum WorkerEvent<L, R> {
    /// A client of this process asks for something.
    Client(ClientMessage<L, R>),
    /// Something happened on a connection.
    Network(NetworkEvent),
    /// [`WorkerEffect::Send`] failed: messages of the generation are lost.
    Unsent { to: NodeId, why: String },
    /// [`WorkerEffect::SendControl`] failed.
    ControlUnsent { to: NodeId, why: String },
    /// [`WorkerEffect::Execute`] is done.
    Executed(Executed),
    /// Some of [`WorkerEffect::RunTasks`] is done.
    TaskProgress(Vec<TaskProgress>),
    /// [`WorkerEffect::FallBack`] is done.
    FellBack(Vec<ComponentOutcome>),
    /// A run of a long transaction of a generation reads; answered with [`WorkerEffect::AnswerLong`].
    LongRead(Generation, RunId, Operation),
    /// [`WorkerEffect::StartLong`] is done.
    LongEnded(Generation, RunId, Box<Execution>),
    /// [`WorkerEffect::ForgetExecution`] is done: nothing runs, and nothing holds on to the state.
    ExecutionForgotten,
    /// [`WorkerEffect::PrepareComponent`]: it is not there.
    ComponentAbsent(Digest),
    /// A component is compiled, or why it cannot be.
    ComponentPrepared(Digest, Result<(), String>),
    /// [`WorkerEffect::Restore`] is done.
    Restored {
        generation: Generation,
        /// The state that it begins with, if there is a snapshot.
        result: Result<Option<Box<RestoredState>>, RestoreFailure>,
    },
    /// The delta writer of a generation takes more of what has changed.
    HandOver(Generation),
    /// The delta writer of a generation has written its part of a snapshot.
    PartWritten(Generation, Box<WrittenPart>),
    /// The process is to end, when nobody counts on it any more.
    Leave,
    /// Everything that has come so far has been told: what gathers is to be sent.
    Settled,
    /// Nothing has come until [`super::WorkerDriver::wake`].
    Tick,
}

/// Something that a worker wants done.
#[derive(Debug)]
pub enum WorkerEffect<L, R> {
    /// Send a message of the generation: those to one node arrive in order, each once. Otherwise say
    /// [`WorkerEvent::Unsent`].
    Send { to: NodeId, message: Message },
    /// Send a message outside of generations; it may be lost. If it is not taken at all, say
    /// [`WorkerEvent::ControlUnsent`].
    SendControl { to: NodeId, envelope: Envelope },
    /// From now on messages are of this generation.
    SetGeneration(Generation),
    /// Keep a connection to a node.
    Connect { node: NodeId, address: String },
    /// Give up the connection to a node, with all that waits to be sent.
    Disconnect(NodeId),
    /// Look for the coordinator at another address.
    Redirect(String),

    /// Execute a batch beside the driver; then say [`WorkerEvent::Executed`].
    Execute(Batch),
    /// Advance tasks beside the driver; say [`WorkerEvent::TaskProgress`] of any that is done.
    RunTasks(Vec<Task>),
    /// Run a long transaction on a thread of its own; say [`WorkerEvent::LongRead`] when it reads, and
    /// [`WorkerEvent::LongEnded`] when it is done. Its generation may be over before.
    StartLong(Generation, LongTask),
    /// What a run of a long transaction has asked for.
    AnswerLong(Generation, RunId, RemoteResponse),
    /// Run components beside the driver; then say [`WorkerEvent::FellBack`].
    FallBack(FallbackBatch),
    /// Forget what is executed and what waits; say [`WorkerEvent::ExecutionForgotten`] when nothing runs any
    /// more, and nothing of it from now on.
    ForgetExecution,
    /// Compile a component that may be on the disk; then say [`WorkerEvent::ComponentPrepared`] or
    /// [`WorkerEvent::ComponentAbsent`].
    PrepareComponent(Digest),
    /// Keep a component if these are its bytes, and compile it; then say [`WorkerEvent::ComponentPrepared`].
    KeepComponent(Digest, Vec<u8>),

    /// Read what a generation begins with; then say [`WorkerEvent::Restored`].
    Restore {
        generation: Generation,
        /// Where snapshots are.
        place: SnapshotPlace,
        /// The partitions that are this worker's.
        view: LocalView,
        layout: Layout,
        /// Its machine in the generation before.
        former: Option<FormerMachine<L>>,
    },
    /// Drop a machine, which may take a while.
    Discard(FormerMachine<L>),
    /// Write this worker's part of snapshots from now on, to the store that was restored from last.
    BeginParts {
        generation: Generation,
        layout: Layout,
        /// It began with a snapshot in these partitions, so that changes are all there is to write.
        builds_on: bool,
    },
    /// Take a worker's part of a snapshot; say [`WorkerEvent::HandOver`] for its entities.
    WritePart(Box<WorkerSnapshot>),
    /// Take changed entities; say [`WorkerEvent::HandOver`] for more, or [`WorkerEvent::PartWritten`] after the
    /// last.
    WriteChanges {
        /// Some of the changes.
        changes: Vec<Write>,
        /// These were the last.
        last: bool,
    },
    /// Give up what is written of snapshots: their generation is over.
    AbandonParts,
    /// Drop partitions, which may take a while.
    DiscardPartitions(Discarded),

    /// Answer a client of this process.
    Answer(L, Answer),
    /// Answer an admin query of this process.
    Respond(R, Response),
    /// Show this process's endpoints what is deployed.
    PublishCatalog(Arc<Catalog>),
    /// Only these are suspected any more: keep them for the next life.
    KeepSuspects(Vec<Suspect>),
    /// Show the lines that guests logged in the attempt that counted.
    Logs {
        /// The catalog of the epoch.
        catalog: Arc<Catalog>,
        tid: Tid,
        lines: Vec<LogLine>,
    },
    /// Count an epoch that has ended.
    EpochEnded {
        /// What it did.
        summary: EpochSummary,
        /// From its beginning to its end.
        duration: Duration,
        /// Entities in the committed state.
        entities: usize,
        /// Bytes of keys and values in it.
        state_bytes: u64,
        /// Replies forgotten before their age was reached, since this machine began.
        forgotten_early: u64,
        /// Apps of which requests wait for an epoch.
        waiting_apps: usize,
    },
    /// Count a message that could not be read or was not for a worker.
    PeerError,
    /// Tell people.
    Diagnostic(Diagnostic),
    /// End the process, and say why: the coordinator will not have this worker as it is.
    Refused(String),
    /// Nothing more is to be done: the process may end.
    End,
    /// End the process at once: it cannot go on.
    Halt(String),
}
