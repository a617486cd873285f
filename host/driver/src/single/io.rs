//! Events and effects of the driver of a single process.

use std::sync::Arc;
use std::time::Duration;

use styx_protocol::attempt::{Execution, LogLine, Operation, RemoteResponse};
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::fallback::ComponentOutcome;
use styx_protocol::ids::{Epoch, LogPosition, Tid};
use styx_protocol::machine::EpochSummary;
use styx_protocol::machine::worker::{Batch, ClientResponse, Executed, FallbackBatch};
use styx_protocol::record::EpochRecord;
use styx_protocol::snapshot::WorkerSnapshot;
use styx_protocol::state::Write;
use styx_protocol::task::{LongTask, RunId, Task, TaskProgress};

use crate::client::{Answer, ClientMessage};
use crate::diagnostic::Diagnostic;
use crate::fullness::Full;
use crate::snapshots::{ManifestDraft, ManifestPut, NoSnapshot, SnapshotSummary, StoreFailure};
use crate::suspicion::Suspect;
use crate::wire::{Response, WrittenPart};

/// Something that happens to a single process. `W` names a client, `R` somebody who waits for an admin query,
/// `S` somebody who waits for a snapshot.
#[derive(Debug)]
pub enum SingleEvent<W, R, S> {
    /// A client asks for something.
    Client(ClientMessage<W, R>),
    /// An operator deploys, activates or removes something.
    Deploy {
        control: Control,
        /// Answered with [`Answer::Controlled`].
        waiter: W,
    },
    /// An operator wants a snapshot.
    TakeSnapshot(S),
    /// A record of the log, in recovery; the next one is given when [`super::SingleDriver::is_idle`].
    Replay(Arc<EpochRecord>),
    /// [`SingleEffect::Execute`] is done.
    Executed(Executed),
    /// Some of [`SingleEffect::RunTasks`] is done.
    TaskProgress(Vec<TaskProgress>),
    /// [`SingleEffect::FallBack`] is done.
    FellBack(Vec<ComponentOutcome>),
    /// A run of a long transaction reads; answered with [`SingleEffect::AnswerLong`].
    LongRead(RunId, Operation),
    /// [`SingleEffect::StartLong`] is done.
    LongEnded(RunId, Box<Execution>),
    /// Records are durable up to an epoch's, and stand before a position of the log.
    Synced { epoch: Epoch, position: LogPosition },
    /// The delta writer takes more of what has changed.
    HandOver,
    /// The delta writer has written its part of a snapshot.
    PartWritten(WrittenPart),
    /// [`SingleEffect::PutManifest`] is done.
    ManifestPut(Result<ManifestPut, StoreFailure>),
    /// [`SingleEffect::MaintainSnapshots`] is done: the log must be kept from a position on.
    Maintained(Result<Option<LogPosition>, StoreFailure>),
    /// The process is to end: long transactions whose end nobody could ask for end without effect.
    Withdraw,
    /// Take what is under way to its end, then end.
    Stop,
    /// Everything that has come so far has been told: an epoch may be cut.
    Settled,
}

/// Something that a single process wants done.
#[derive(Debug)]
pub enum SingleEffect<W, R, S> {
    /// Append a record; say [`SingleEvent::Synced`] when it is durable.
    Append(Arc<EpochRecord>),
    /// Have the log forget what stands before a position.
    TrimLog(LogPosition),
    /// Execute a batch; then say [`SingleEvent::Executed`].
    Execute(Batch),
    /// Advance tasks; say [`SingleEvent::TaskProgress`] of any that is done.
    RunTasks(Vec<Task>),
    /// Run components; then say [`SingleEvent::FellBack`].
    FallBack(FallbackBatch),
    /// Run a long transaction on a thread of its own; say [`SingleEvent::LongRead`] when it reads, and
    /// [`SingleEvent::LongEnded`] when it is done.
    StartLong(LongTask),
    /// What a run of a long transaction has asked for.
    AnswerLong(RunId, RemoteResponse),
    /// Compile what a catalog names, before anything that follows, and show it to clients.
    PrepareCatalog(Arc<Catalog>),
    /// Only these are suspected any more: keep them for the next life.
    KeepSuspects(Vec<Suspect>),

    /// Take the worker's part of a snapshot; say [`SingleEvent::HandOver`] for its entities.
    WritePart(Box<WorkerSnapshot>),
    /// Take changed entities; say [`SingleEvent::HandOver`] for more, or [`SingleEvent::PartWritten`] after the
    /// last.
    WriteChanges {
        /// Some of the changes.
        changes: Vec<Write>,
        /// These were the last.
        last: bool,
    },
    PutManifest(Box<ManifestDraft>),
    /// Merge deltas, delete old snapshots.
    MaintainSnapshots,
    /// What of the maintenance is not done may wait.
    CutMaintenanceShort,
    /// Count a snapshot.
    SnapshotTaken(SnapshotSummary),
    /// Answer somebody who wanted a snapshot.
    SnapshotAnswer {
        /// Whoever waits.
        waiter: S,
        result: Result<SnapshotSummary, NoSnapshot>,
    },

    /// Show people, and who takes requests, who gets no more state.
    Full(Full),
    /// Answer a client.
    Answer(W, Answer),
    /// Answer clients, in this order, each as [`Answer::of`] says.
    AnswerAll(Vec<ClientResponse<W>>),
    /// Answer an admin query.
    Respond(R, Response),
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
        /// From its cut to its end.
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
    /// Count how long an epoch that had ended waited for its record to be durable.
    WaitedForLog(Duration),
    /// Tell people.
    Diagnostic(Diagnostic),
    /// Nothing more is to be done: the process may end.
    End,
    /// End the process at once: it cannot go on.
    Halt(String),
}
