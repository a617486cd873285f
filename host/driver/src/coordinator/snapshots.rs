//! What the scheduler of snapshots wants done in a cluster: by the shell, or by the driver itself.

use styx_protocol::ids::WorkerId;

use super::io::Effect;
use crate::snapshots::{SnapshotEffect, SnapshotScheduler};

/// Who wants a snapshot.
#[derive(Debug)]
pub(super) enum SnapshotWaiter<W> {
    /// An administrator.
    Client(W),
    /// The generation itself, which is to end.
    Drain,
}

pub(super) type Scheduler<W> = SnapshotScheduler<SnapshotWaiter<W>>;
pub(super) type SchedulerEffect<W> = SnapshotEffect<SnapshotWaiter<W>>;

/// What the driver itself does.
#[derive(Debug)]
pub(super) enum Order {
    /// Has the machine begin a snapshot.
    Begin,
    /// Has workers say again what they have written.
    ResendParts,
    /// The snapshot that the end of the generation waits for was taken, or cannot be.
    EndDrain,
    /// Gives a worker up.
    Expel(WorkerId, String),
}

/// The driver's effect, or its order.
pub(super) fn effect<W, R>(effect: SchedulerEffect<W>) -> Result<Effect<W, R>, Order> {
    Ok(match effect {
        SnapshotEffect::Begin => return Err(Order::Begin),
        SnapshotEffect::ResendParts => return Err(Order::ResendParts),
        SnapshotEffect::Expel(worker, why) => return Err(Order::Expel(worker, why)),
        SnapshotEffect::Answer(SnapshotWaiter::Drain, _) => return Err(Order::EndDrain),
        SnapshotEffect::Answer(SnapshotWaiter::Client(waiter), result) => Effect::SnapshotAnswer { waiter, result },
        SnapshotEffect::Put(draft) => Effect::PutManifest(draft),
        SnapshotEffect::Maintain => Effect::MaintainSnapshots,
        SnapshotEffect::CutMaintenanceShort => Effect::CutMaintenanceShort,
        SnapshotEffect::TrimLog(position) => Effect::TrimLog(position),
        SnapshotEffect::Taken(summary) => Effect::SnapshotTaken(summary),
        SnapshotEffect::Diagnostic(diagnostic) => Effect::Diagnostic(diagnostic),
        SnapshotEffect::Halt(why) => Effect::Halt(why),
    })
}
