//! Events and effects of the coordinator's driver.

use std::sync::Arc;
use std::time::Duration;

use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::Digest;
use styx_protocol::ids::{Epoch, Generation, LogPosition, NodeId, PlacementVersion, Tid};
use styx_protocol::machine::{EpochSummary, Stage};
use styx_protocol::message::Message;
use styx_protocol::record::EpochRecord;
use styx_protocol::snapshot::SnapshotHeader;

use super::migration_history::Migrations;
use super::migrations::{MigrationOptions, PaceChange};
use super::placing::Goal;
use crate::admission::LogCondition;
use crate::client::{Answer, ClientMessage};
use crate::diagnostic::Diagnostic;
use crate::fullness::Full;
use crate::network::NetworkEvent;
use crate::snapshots::{ManifestDraft, ManifestPut, NoSnapshot, SnapshotSummary, StoreFailure};
use crate::time::Instant;
use crate::wire::{Envelope, Query, Response};

/// The snapshot that a generation begins with, as far as a coordinator must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFound {
    pub sequence: u64,
    /// Replay begins with this record of the log.
    pub log_position: LogPosition,
    /// The coordinator's part.
    pub header: SnapshotHeader,
    /// The number of partitions in which it was taken.
    pub partitions: u32,
    /// Transactions that were moved to the next epoch, in TID order.
    pub carried: Vec<Tid>,
}

/// What happens to a coordinator. `W` names a client or an operator who waits, `R` whoever waits for an admin query.
#[derive(Debug)]
pub enum Event<W, R> {
    /// Something happened on a connection.
    Network(NetworkEvent),
    /// Somebody at the admin endpoints asks how things are.
    Client(ClientMessage<W, R>),
    /// [`Effect::Ask`]: these questions could not be sent.
    Undelivered(Vec<Query>),
    /// [`Effect::AwaitDelivery`]: all has arrived.
    Delivered,
    /// [`Effect::Raise`] is done: lower generations append nothing more, all of theirs stands before this position.
    Raised {
        generation: Generation,
        /// The end of the log.
        position: LogPosition,
    },
    /// The records of a generation up to an epoch's are durable, and stand before a position.
    Synced {
        generation: Generation,
        epoch: Epoch,
        /// The end of the log.
        position: LogPosition,
    },
    /// [`Effect::NextRecord`] is done; `None` if there are no more.
    Record {
        /// The generation that reads.
        generation: Generation,
        record: Option<Arc<EpochRecord>>,
    },
    /// [`Effect::FindSnapshot`] is done.
    SnapshotFound {
        /// The generation that begins.
        generation: Generation,
        /// What it begins with, if there is any snapshot.
        found: Result<Option<SnapshotFound>, StoreFailure>,
    },
    /// [`Effect::PutManifest`] is done.
    ManifestPut {
        /// The generation that has put it.
        generation: Generation,
        /// What has become of it.
        result: Result<ManifestPut, StoreFailure>,
    },
    /// [`Effect::MaintainSnapshots`] is done: the log must be kept from a position on.
    Maintained {
        generation: Generation,
        /// The position, if any snapshot is kept.
        result: Result<Option<LogPosition>, StoreFailure>,
    },
    /// An operator deploys, activates or removes something.
    Deploy {
        control: Control,
        /// Answered with [`Answer::Controlled`].
        waiter: W,
    },
    /// An operator wants partitions to have other owners.
    Migrate {
        /// Which.
        goal: Goal,
        options: MigrationOptions,
        /// Bytes in memory that each of these would hold more, as far as that is known: it is refused where there is no room.
        gains: Vec<(NodeId, u64)>,
        /// Answered with [`Answer::Controlled`], if somebody waits.
        waiter: Option<W>,
    },
    /// An operator wants partitions that are on their way to other owners to stay.
    CancelMigration {
        /// Answered with [`Answer::Controlled`], if somebody waits.
        waiter: Option<W>,
    },
    /// An operator wants partitions to be copied no further for now, or further.
    PaceMigration {
        change: PaceChange,
        /// Answered with [`Answer::Controlled`], if somebody waits.
        waiter: Option<W>,
    },
    /// An operator wants a snapshot.
    TakeSnapshot {
        /// Answered by [`Effect::SnapshotAnswer`].
        waiter: W,
    },
    /// How much the log can take.
    LogCondition(LogCondition),
    /// The lease is held until then.
    LeaseHeld {
        /// By the clock of the steps.
        until: Instant,
    },
    /// Another process has the lease.
    LeaseLost,
    /// The process is to end.
    Stop,
}

/// What a coordinator wants done.
#[derive(Debug)]
pub enum Effect<W, R> {
    /// Send a worker of the current generation a message: in order, each once.
    Send {
        to: NodeId,
        message: Message,
    },
    /// Show people, and who takes requests here, who gets no more state.
    Full(Full),
    /// Send a message outside of generations. Who cannot be reached will be told again, or is no longer there.
    SendControl {
        to: NodeId,
        envelope: Envelope,
    },
    /// Send questions over a connection that is there, or say [`Event::Undelivered`].
    Ask {
        to: NodeId,
        queries: Vec<Query>,
    },
    /// Send a node a component, or that there is none: [`Envelope::Component`].
    SendComponent {
        to: NodeId,
        digest: Digest,
    },
    /// From now on messages are of this generation.
    SetGeneration(Generation),
    /// Keep a connection to a node.
    Connect {
        node: NodeId,
        /// Where it is.
        address: String,
    },
    /// Give a connection up.
    Forget(NodeId),
    /// Say [`Event::Delivered`] when all that was sent to these nodes has arrived.
    AwaitDelivery(Vec<NodeId>),

    /// Append a record; say [`Event::Synced`] when it is durable.
    Append {
        /// The generation that appends.
        generation: Generation,
        record: Arc<EpochRecord>,
    },
    /// Make durable that lower generations append nothing more.
    Raise(Generation),
    /// Read the log from a position on, records of later epochs only, when [`Effect::NextRecord`] asks for them.
    ReadLog {
        /// The generation that reads.
        generation: Generation,
        /// The first record.
        from: LogPosition,
        /// Records of epochs up to this one are passed over.
        after: Epoch,
    },
    /// Give the next record.
    NextRecord,
    /// The generation that reads the log is over: who reads on would keep the log from everything else.
    StopReading,
    /// Have the log forget what stands before a position.
    TrimLog(LogPosition),

    /// Find the newest snapshot of an epoch before `before` that can be read, and take the store over for a generation:
    /// from then on no earlier one writes any.
    FindSnapshot {
        /// The generation that begins.
        generation: Generation,
        /// Later ones are known to be of no use.
        before: Option<Epoch>,
    },
    /// A generation that is live takes snapshots from now on, until [`Effect::EndSnapshots`].
    BeginSnapshots(Generation),
    /// The generation is over: what the store does for it is given up.
    EndSnapshots,
    PutManifest(Box<ManifestDraft>),
    /// Merge deltas, delete old snapshots.
    MaintainSnapshots,
    /// What of the maintenance is not done may wait.
    CutMaintenanceShort,

    /// Answer a client or an operator.
    Answer(W, Answer),
    /// Answer an admin query.
    Respond(R, Response),
    /// A snapshot was taken, or why not.
    SnapshotAnswer {
        waiter: W,
        result: Result<SnapshotSummary, NoSnapshot>,
    },
    /// Have partitions go to members that came without any, as few as do, among these nodes: say [`Event::Migrate`], for
    /// nobody who waits.
    ShareOut {
        nodes: Vec<NodeId>,
        planned_on: (Generation, PlacementVersion),
    },
    /// Show this process's endpoints what is known of migrations.
    ShowMigrations(Arc<Migrations>),
    /// Show this process's endpoints what is deployed.
    PublishCatalog(Arc<Catalog>),

    /// Count an epoch that has ended.
    EpochEnded {
        /// What it did.
        summary: EpochSummary,
        /// From its cut to its end.
        duration: Duration,
    },
    /// Count a stage of a round.
    StageEnded {
        stage: Stage,
        /// How long it took.
        spent: Duration,
    },
    /// The log is durable up to an epoch.
    Durable(Epoch),
    /// The log has been replayed up to an epoch.
    Recovered(Epoch),
    /// Count a snapshot.
    SnapshotTaken(SnapshotSummary),
    /// Count a message that could not be read or was not for a coordinator.
    PeerError,
    /// Tell people.
    Diagnostic(Diagnostic),
    /// End the process at once: it cannot go on.
    Halt(String),
    /// Nothing more is to be done: the process may end.
    End,
}
