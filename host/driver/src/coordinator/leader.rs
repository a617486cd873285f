//! Leader state: a generation as its coordinator runs it.
//!
//! Its members join, the log is replayed through them, then it is live. It ends at once when a member is lost, or is
//! drained before: what is under way comes to its end, and then to a snapshot, so that the next generation need
//! replay nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, Generation, LogPosition, NodeId, PlacementVersion, Tid, Timestamp, WorkerId};
use styx_protocol::machine::coordinator::{Action, Config, Input, MigrationStage};
use styx_protocol::machine::{Coordinator, Stage};
use styx_protocol::membership::Seated;
use styx_protocol::placement::{Placement, Seat, Seating};
use styx_protocol::record::{Chain, EpochRecord};

use super::config::CoordinatorConfig;
use super::io::SnapshotFound;
use super::placing;
use super::snapshots::{Scheduler, SchedulerEffect};
use crate::snapshots::{SnapshotConfig, SnapshotScheduler, SnapshotSummary};
use crate::time::{Instant, earliest};
use crate::wire::WrittenPart;

/// A generation that runs.
#[derive(Debug)]
pub(super) struct LeaderState<W> {
    generation: Generation,
    machine: Coordinator<W>,
    members: Vec<Seated<NodeId>>,
    /// Who had which partition when the last snapshot was begun.
    snapshot_placement: Arc<Placement>,
    /// A migration waits for a snapshot that was asked for.
    migration_waits: bool,
    progress: Progress,
    drain: Option<Drain>,
    /// The snapshot that it began with.
    found: Option<Arc<SnapshotFound>>,
    /// Of a generation that is live, if snapshots are taken.
    snapshots: Option<Scheduler<W>>,
    pace: Pace,
    durable: Epoch,
    /// What of the log is durable: no later epoch stands before it.
    position: LogPosition,
    /// When the last round began, and when its stage did.
    round_began: Instant,
    stage_began: Instant,
}

/// How far a generation is.
#[derive(Debug)]
enum Progress {
    /// So many members are ready for the log.
    Joining(BTreeSet<NodeId>),
    /// The next record of the log is `asked` for or not.
    Replaying { asked: bool },
    /// Epochs are cut.
    Live,
}

/// How far the end of a generation is that nobody is in a hurry for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// Something is under way.
    Busy,
    /// A snapshot is being taken.
    Snapshot,
    /// Nothing is under way, and the membership knows.
    Done,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Something is under way, or there is nothing to do.
    Wait,
    /// Ask for the next record of the log.
    Read,
    /// Cut an epoch.
    Cut,
}

/// How far a drain has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// Not yet.
    No,
    /// A snapshot is wanted now.
    Snapshot,
    Yes,
}

/// When an epoch is cut: at once while the log keeps up; while it does not, when the epoch has waited long enough. An
/// fsync takes as long for one transaction as for many.
#[derive(Debug, Default)]
struct Pace {
    waiting_since: Option<Instant>,
}

impl Pace {
    /// Until when the next epoch may fill; `None` if it is to be cut now.
    fn fills_until(&mut self, unsynced: u64, unsynced_max: u64, wait: Duration, now: Instant) -> Option<Instant> {
        if unsynced < unsynced_max {
            return None;
        }
        let since = *self.waiting_since.get_or_insert(now);
        Some(since.after(wait)).filter(|until| now < *until)
    }

    fn cut(&mut self) {
        self.waiting_since = None;
    }
}

impl<W> LeaderState<W> {
    pub(super) fn new(
        config: &CoordinatorConfig,
        (generation, layout): (Generation, Layout),
        members: Vec<Seated<NodeId>>,
        last: Option<&Seating>,
        found: Option<Arc<SnapshotFound>>,
        position: LogPosition,
        now: Instant,
    ) -> Self {
        assert!(!members.is_empty(), "a generation has members");
        let nodes: Vec<NodeId> = members.iter().map(|member| member.place).collect();
        let (owners, seats) = placing::carry_over(last, &nodes, layout.partitions);
        let placement = Arc::new(Placement::new(owners, members.len() as u16));
        let (engine, record_bytes_max) = (config.build.engine, config.record_bytes_max);
        let machine_config =
            Config { layout, record_bytes_max, engine, generation, snapshots: config.snapshots.is_some() };
        let mut machine = Coordinator::new(machine_config, placement.clone());
        machine.seat(seats);
        if let Some(found) = &found {
            assert!(found.log_position <= position, "a snapshot goes on in the log that it was taken beside");
            machine.restore(&found.header, found.carried.clone(), found.partitions);
        }
        LeaderState {
            generation,
            machine,
            members,
            snapshot_placement: placement,
            migration_waits: false,
            progress: Progress::Joining(BTreeSet::new()),
            drain: None,
            found,
            snapshots: None,
            pace: Pace::default(),
            durable: Epoch(0),
            position,
            round_began: now,
            stage_began: now,
        }
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    /// How keys are spread.
    pub(super) fn layout(&self) -> Layout {
        self.machine.layout()
    }

    pub(super) fn members(&self) -> &[Seated<NodeId>] {
        &self.members
    }

    pub(super) fn nodes(&self) -> Vec<NodeId> {
        self.members.iter().map(|member| member.place).collect()
    }

    pub(super) fn announced(&self) -> PlacementVersion {
        self.machine.announced()
    }

    pub(super) fn placement(&self) -> &Arc<Placement> {
        self.machine.placement()
    }

    /// Who the members are, and which of them were emptied.
    pub(super) fn seats(&self) -> &[Seat] {
        self.machine.seats()
    }

    /// Whether a worker may have written a part. What it says again of a snapshot that there is may be of other owners.
    pub(super) fn admits_part(&self, worker: WorkerId, part: &WrittenPart) -> bool {
        self.snapshots.as_ref().is_some_and(|scheduler| scheduler.is_past(part.epoch))
            || part.hashes.iter().all(|(partition, _)| self.snapshot_placement.owner_of(*partition) == Some(worker))
    }

    /// A snapshot begins.
    pub(super) fn note_snapshot(&mut self) {
        self.snapshot_placement = self.machine.placement().clone();
    }

    /// Whether a migration waits for a snapshot that nobody has asked for yet: once for each.
    pub(super) fn wants_snapshot_to_migrate(&mut self) -> bool {
        let wants = self.machine.is_copied() && self.takes_snapshots() && !self.migration_waits;
        self.migration_waits |= wants;
        wants
    }

    pub(super) fn snapshot_to_migrate_ended(&mut self) {
        self.migration_waits = false;
    }

    pub(super) fn is_migrating(&self) -> bool {
        self.machine.is_migrating()
    }

    /// Why partitions cannot go to these owners now, if they cannot.
    pub(super) fn refuses_migration(&self, owners: &[WorkerId]) -> Option<&'static str> {
        self.machine.refuses_migration(owners)
    }

    /// Why the generation cannot end now for the next one to be another, if it cannot.
    pub(super) fn refuses_end(&self) -> Option<&'static str> {
        self.machine.refuses_end()
    }

    /// Why there cannot be so many partitions now, if there cannot.
    pub(super) fn refuses_repartition(&self, partitions: u32) -> Option<String> {
        self.machine.refuses_repartition(partitions)
    }

    /// Whether the newest snapshot is of the partitions that there are.
    pub(super) fn is_in_snapshot(&self) -> bool {
        self.snapshots.as_ref().is_none_or(|scheduler| !scheduler.begins_anew())
    }

    /// Partitions are others from the epoch on that has begun.
    pub(super) fn snapshots_begin_anew(&mut self) {
        let begun = self.position().0.next();
        if let Some(scheduler) = &mut self.snapshots {
            scheduler.begin_anew(begun);
        }
    }

    pub(super) fn migration_stage(&self) -> Option<MigrationStage> {
        self.machine.migration_stage()
    }

    /// Whoever waits for the end of the migration under way waits no more.
    pub(super) fn take_migration_waiter(&mut self) -> Option<W> {
        self.machine.take_migration_waiter()
    }

    pub(super) fn found(&self) -> Option<&Arc<SnapshotFound>> {
        self.found.as_ref()
    }

    pub(super) fn catalog(&self) -> &Catalog {
        self.machine.catalog()
    }

    /// The last epoch that ended, and the state hash chain after it.
    pub(super) fn position(&self) -> (Epoch, Chain) {
        self.machine.position()
    }

    /// The record of the round under way without what it comes to, once it is known that it will have one.
    pub(super) fn record_cut(&self) -> Option<&Arc<EpochRecord>> {
        self.machine.cut()
    }

    /// Transactions that the log carries.
    pub(super) fn carried(&self) -> &[Tid] {
        self.machine.carried()
    }

    /// The time that the log has come to.
    pub(super) fn log_time(&self) -> Timestamp {
        self.machine.time()
    }

    /// What of the log is durable.
    pub(super) fn log_position(&self) -> LogPosition {
        self.position
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.progress, Progress::Live)
    }

    pub(super) fn is_replaying(&self) -> bool {
        matches!(self.progress, Progress::Replaying { .. })
    }

    /// Clients are served.
    pub(super) fn serves(&self) -> bool {
        self.is_live() && self.drain.is_none()
    }

    /// It was told to drain, and has.
    pub(super) fn is_drained(&self) -> bool {
        self.drain == Some(Drain::Done)
    }

    pub(super) fn node(&self, worker: WorkerId) -> NodeId {
        self.members[usize::from(worker.0)].place
    }

    pub(super) fn worker(&self, node: NodeId) -> Option<WorkerId> {
        self.members.iter().position(|member| member.place == node).map(|at| WorkerId(at as u16))
    }

    /// A member is ready for the log. With the last one the replay begins: from this record on, without epochs up to
    /// this one.
    pub(super) fn joined(&mut self, node: NodeId) -> Option<(LogPosition, Epoch)> {
        let Progress::Joining(joined) = &mut self.progress else { return None };
        if !self.members.iter().any(|member| member.place == node) {
            return None;
        }
        joined.insert(node);
        if joined.len() < self.members.len() {
            return None;
        }
        self.progress = Progress::Replaying { asked: false };
        let from = |found: &Arc<SnapshotFound>| (found.log_position, found.header.epoch);
        Some(self.found.as_ref().map_or_else(Default::default, from))
    }

    /// A record has been read; the machine's input for it.
    pub(super) fn record(&mut self, record: Arc<EpochRecord>) -> Input<W> {
        let Progress::Replaying { asked } = &mut self.progress else { panic!("only a replay reads the log") };
        assert!(std::mem::replace(asked, false), "records come one by one");
        Input::Replay(record)
    }

    /// The log is at its end.
    pub(super) fn go_live(&mut self) -> (Epoch, Chain) {
        assert!(matches!(self.progress, Progress::Replaying { .. }), "a log is replayed before its generation is live");
        self.progress = Progress::Live;
        let (epoch, chain) = self.machine.position();
        self.durable = epoch;
        (epoch, chain)
    }

    /// Records up to an epoch's are durable.
    pub(super) fn synced(&mut self, epoch: Epoch, position: LogPosition) {
        assert!(position >= self.position, "the log does not grow backwards");
        assert!(epoch >= self.durable, "what is durable stays so");
        (self.durable, self.position) = (epoch, position);
    }

    /// Takes one step of the machine; how long the stage took that has ended with it.
    pub(super) fn step(
        &mut self,
        input: Input<W>,
        now: Instant,
        actions: &mut Vec<Action<W>>,
    ) -> Option<(Stage, Duration)> {
        let before = self.machine.stage();
        self.machine.step(input, actions);
        if self.machine.stage() == before {
            return None;
        }
        let since = std::mem::replace(&mut self.stage_began, now);
        before.filter(|_| self.is_live()).map(|stage| (stage, now.since(since)))
    }

    /// How long the round under way takes so far.
    pub(super) fn round_took(&self, now: Instant) -> Duration {
        now.since(self.round_began)
    }

    /// Those who wait for a deployment that was sequenced or was about to be.
    pub(super) fn abandon(&mut self) -> Vec<W> {
        self.machine.abandon()
    }

    /// What to do next, of what the machine may do. `hurry`: nobody will come who could fill an epoch.
    pub(super) fn next(&mut self, config: &CoordinatorConfig, hurry: bool, now: Instant) -> Next {
        if !self.machine.is_idle() {
            return Next::Wait;
        }
        match &mut self.progress {
            Progress::Joining(_) | Progress::Replaying { asked: true } => Next::Wait,
            Progress::Replaying { asked } => {
                *asked = true;
                Next::Read
            }
            Progress::Live if !self.machine.has_work() => Next::Wait,
            Progress::Live => match self.fills_until(config, hurry, now) {
                Some(_) => Next::Wait,
                None => Next::Cut,
            },
        }
    }

    /// The machine's input that cuts an epoch.
    pub(super) fn cut(&mut self, now: Instant, time: Timestamp) -> Input<W> {
        self.pace.cut();
        self.round_began = now;
        Input::Tick { now: time }
    }

    fn fills_until(&mut self, config: &CoordinatorConfig, hurry: bool, now: Instant) -> Option<Instant> {
        if hurry {
            return None;
        }
        let unsynced = self.machine.position().0.0.saturating_sub(self.durable.0);
        self.pace.fills_until(unsynced, config.timing.unsynced_max, config.epoch_max_wait, now)
    }

    /// When there is something to do though nothing happens.
    pub(super) fn due(&mut self, config: &CoordinatorConfig, hurry: bool, now: Instant) -> Option<Instant> {
        let waits = self.is_live() && self.machine.is_idle() && self.machine.has_work();
        let fills = if waits { self.fills_until(config, hurry, now) } else { None };
        earliest(fills, self.snapshots.as_ref().and_then(SnapshotScheduler::due))
    }

    /// Brings what is under way to its end. Nothing to do if somebody else has wanted that before.
    pub(super) fn drain(&mut self) -> Option<Input<W>> {
        if self.drain.is_some() {
            return None;
        }
        self.drain = Some(Drain::Busy);
        Some(Input::Drain)
    }

    /// How far the drain has come.
    pub(super) fn drained(&mut self) -> Drained {
        let quiet = self.machine.is_drained() && self.durable >= self.machine.position().0;
        match self.drain {
            Some(Drain::Busy) if quiet && self.snapshots.is_some() => {
                self.drain = Some(Drain::Snapshot);
                Drained::Snapshot
            }
            Some(Drain::Busy) if quiet => {
                self.drain = Some(Drain::Done);
                Drained::Yes
            }
            _ => Drained::No,
        }
    }

    /// Takes snapshots from now on. `last` is the last one that this process has taken.
    pub(super) fn schedule_snapshots(&mut self, config: SnapshotConfig, last: Option<SnapshotSummary>, now: Instant) {
        let newest = self.found.as_ref().map(|found| (found.header.epoch, found.log_position));
        let (workers, reached) = (self.members.len(), self.position().0);
        let mut scheduler = SnapshotScheduler::new(config, self.generation, workers, newest, reached, last, now);
        if let Some(found) = self.found.as_ref().filter(|found| found.partitions != self.layout().partitions) {
            scheduler.begin_anew(found.header.epoch.next());
        }
        self.snapshots = Some(scheduler);
    }

    pub(super) fn takes_snapshots(&self) -> bool {
        self.snapshots.is_some()
    }

    /// Steps the scheduler of snapshots, if they are taken.
    pub(super) fn step_snapshots(
        &mut self,
        now: Instant,
        run: impl FnOnce(&mut Scheduler<W>, Instant, &mut Vec<SchedulerEffect<W>>),
    ) -> Vec<SchedulerEffect<W>> {
        let mut effects = Vec::new();
        if let Some(scheduler) = &mut self.snapshots {
            run(scheduler, now, &mut effects);
        }
        effects
    }

    /// An epoch has ended, or a round without one.
    pub(super) fn round_ended(&mut self) {
        let (ended, _) = self.machine.position();
        if let Some(scheduler) = &mut self.snapshots {
            scheduler.ended(ended);
        }
    }

    /// The generation is over; what becomes of snapshots that were asked for, if they were taken.
    pub(super) fn close(self) -> Option<Vec<SchedulerEffect<W>>> {
        let mut effects = Vec::new();
        self.snapshots?.close(&mut effects);
        Some(effects)
    }

    /// The last snapshot was taken, or cannot be.
    pub(super) fn drain_done(&mut self) {
        assert_eq!(self.drain, Some(Drain::Snapshot), "it was asked for");
        self.drain = Some(Drain::Done);
    }
}
