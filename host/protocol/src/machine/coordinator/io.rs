//! Inputs and actions of the coordinator's machine.

use std::sync::Arc;

use crate::abort::Abort;
use crate::cluster::placement::Placement;
use crate::ids::{EngineHash, Epoch, Generation, Timestamp, WorkerId};
use crate::machine::EpochSummary;
use crate::sequence::control::Control;
use crate::sequence::record::EpochRecord;
use crate::snapshot::SnapshotHeader;
use crate::state::entity::Layout;
use crate::wire::fault::PeerFault;
use crate::wire::message::Message;
use crate::wire::moving::MovingMode;

/// Settings of a coordinator. Everything that decides an outcome is here or in the log.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How keys are spread over partitions.
    pub layout: Layout,
    /// The longest record that the log takes, in bytes.
    pub record_bytes_max: usize,
    /// Hash of the engine's configuration, for the record.
    pub engine: EngineHash,
    /// Fencing generation.
    pub generation: Generation,
    /// Snapshots are taken: partitions change their owner right behind the cut of one.
    pub snapshots: bool,
}

/// Input of the coordinator's machine. `W` names whoever waits for a deployment.
#[derive(Debug)]
pub enum Input<W> {
    /// A deployment to be sequenced.
    Control {
        control: Control,
        /// Handed back with [`Action::Controlled`]; none if nobody waits.
        waiter: Option<W>,
    },
    /// Wall-clock time goes on; an epoch may be cut.
    Tick {
        /// Goes into the record.
        now: Timestamp,
    },
    /// A record of the log, in recovery; one without its outcome is executed again.
    Replay(Arc<EpochRecord>),
    /// The records up to this epoch's are durable.
    Durable(Epoch),
    /// A snapshot is wanted, and the last one has been handed over.
    Snapshot,
    /// Partitions are to have these owners.
    Migrate {
        /// By partition.
        owners: Vec<WorkerId>,
        mode: MovingMode,
        /// Handed back with [`Action::Controlled`], once they have, or will not; none if nobody waits.
        waiter: Option<W>,
    },
    /// There is to be another number of partitions.
    Repartition {
        partitions: u32,
        /// Handed back with [`Action::Controlled`], once all is dealt out, or will not be; none if nobody waits.
        waiter: Option<W>,
    },
    /// Nothing has happened since the last snapshot: a migration of which all is copied need not wait for another, unless
    /// a round is under way.
    Place,
    /// The log is to know which placement the generation began with, though nothing happens that it would be told of with.
    LogPlacement,
    /// A migration is not to happen, if it still can be that it does not.
    CancelMigration,
    /// The generation is to end, without haste: see [`super::Coordinator::is_drained`].
    Drain,
    /// A message of a worker of this generation.
    Message { from: WorkerId, message: Message },
}

/// Work that the coordinator's machine asks its driver for.
#[derive(Debug)]
pub enum Action<W> {
    /// Append the record of an epoch that has ended, and say [`Input::Durable`] once it is.
    Append(Arc<EpochRecord>),
    /// Send a message; those to one worker arrive in order, each once.
    Send { to: WorkerId, message: Message },
    /// Tell a client how its deployment ended.
    Controlled {
        waiter: W,
        /// Done and durable, or refused.
        result: Result<(), Abort>,
    },
    /// The placement is another one, from the epoch on that begins.
    Placed(Arc<Placement>),
    /// A worker has deployed something else than the coordinator: it must go, and a new generation begin.
    Expel {
        worker: WorkerId,
        /// Hash of the coordinator's catalog.
        expected: u64,
        /// Hash of the worker's catalog.
        found: u64,
    },
    /// A worker's message could not be applied, and was not: it does not keep to the protocol. It must go,
    /// and a new generation begin.
    Fault(PeerFault),
    /// The coordinator's part of a snapshot of the state of now.
    Snapshot(Box<SnapshotHeader>),
    /// An epoch, or a round of read-only requests, has ended.
    Finished(EpochSummary),
}
