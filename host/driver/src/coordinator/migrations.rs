//! Migrations: partitions change their owners while everything goes on, because an operator wants it.

use std::collections::BTreeMap;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::ids::{Generation, NodeId, PartitionId, PlacementVersion, WorkerId};
use styx_protocol::machine::coordinator::{Input, MIGRATION_UNDER_WAY, MigrationStage};
use styx_protocol::machine::worker::CopyProgress;
use styx_protocol::moving::MovingMode;
use styx_protocol::placement::{Placement, Seating};

use super::CoordinatorDriver;
use super::io::Effect;
use super::leader::LeaderState;
use super::migration_history::{Begun, MigrationState, Transfer};
use super::placing::{self, Goal};
use super::snapshots::SnapshotWaiter;
use super::step::Step;
use crate::diagnostic::Diagnostic;
use crate::wire::{CopyPace, Envelope};

/// Why a migration is refused that was planned on another placement.
pub const PLACEMENT_CHANGED: &str = "partitions have changed their owners since it was planned";

/// How it is said that a worker would hold more than it may.
pub const NO_ROOM: &str = "has no room for that";

/// Why nothing is cancelled.
pub const NONE_TO_CANCEL: &str = "no migration is under way that can be cancelled";

const NOT_SERVING: &str = "the cluster does not serve yet; try again in a moment";

/// What is asked for besides the goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationOptions {
    /// Comes back in [`MigrationReport::ticket`](super::MigrationReport::ticket).
    pub ticket: u64,
    /// The placement that it was planned on, if it was: no other one will do.
    pub planned_on: Option<(Generation, PlacementVersion)>,
    /// Most bytes a second that each worker copies; otherwise the coordinator's setting.
    pub rate: Option<u64>,
    /// Whoever asks waits for its end; otherwise for its beginning.
    pub wait: bool,
    /// Nothing is done; whoever asks hears whether the workers have room for it.
    pub dry_run: bool,
    pub mode: MigrationMode,
}

/// How partitions get to their new owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationMode {
    /// They are followed before they change their owners; nothing stops.
    #[default]
    Online,
    /// They change their owners at once, and are handed over afterwards: first what the new owner needs (*State Migration
    /// in Styx*, Algorithm 4). A worker that has too much to do is relieved of it sooner; who calls what has not arrived
    /// waits for it.
    Immediate,
    /// Everything rests, a snapshot is taken, partitions are placed anew, and read from it (*State Migration in Styx*,
    /// Algorithm 3): what online migration is compared with.
    StopAndRestart,
}

impl Default for MigrationOptions {
    fn default() -> Self {
        MigrationOptions {
            ticket: 0,
            planned_on: None,
            rate: None,
            wait: true,
            dry_run: false,
            mode: MigrationMode::Online,
        }
    }
}

/// A change of how fast partitions are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceChange {
    /// No further pieces.
    Pause,
    /// Pieces again, as fast as before.
    Resume,
}

impl<W, R> CoordinatorDriver<W, R> {
    pub(super) fn migrate(
        &mut self,
        goal: &Goal,
        options: MigrationOptions,
        gains: &[(NodeId, u64)],
        waiter: Option<W>,
        step: &mut Step<'_, W, R>,
    ) {
        if let (Some(planned_on), Some(leader)) = (options.planned_on, self.leader.as_deref())
            && planned_on != (leader.generation(), leader.placement().version())
        {
            let abort = Abort::new(Code::BadArguments, PLACEMENT_CHANGED);
            return step.controlled(waiter, Err(abort));
        }
        if self.restarting.is_some() {
            return step.controlled(waiter, Err(Abort::new(Code::BadArguments, MIGRATION_UNDER_WAY)));
        }
        if let Some(why) = self.lacks_room(gains) {
            return step.controlled(waiter, Err(Abort::new(Code::BadArguments, why)));
        }
        if options.dry_run {
            return step.controlled(waiter, Ok(()));
        }
        if let (Goal::Repartition(partitions), true) = (goal, options.mode != MigrationMode::StopAndRestart) {
            return self.repartition(*partitions, options, waiter, step);
        }
        let owners = match self.leader.as_deref().filter(|leader| leader.serves()) {
            Some(leader) => placing::reach(goal, leader.placement().owners(), &leader.nodes())
                .map_err(|why| Abort::new(Code::BadArguments, why)),
            None => Err(Abort::new(Code::Overloaded, NOT_SERVING)),
        };
        let layout = match goal {
            Goal::Repartition(partitions) => self.layout.repartitioned(*partitions),
            _ => Ok(self.layout),
        };
        let layout = layout.map_err(|why| Abort::new(Code::BadArguments, why));
        match layout.and_then(|layout| Ok((layout, owners?))) {
            Ok(wanted) if options.mode == MigrationMode::StopAndRestart || wanted.0 != self.layout => {
                self.restart(wanted, options, waiter, step);
            }
            Ok((_, owners)) => self.begin_migration(owners, options, waiter, step),
            Err(abort) => step.controlled(waiter, Err(abort)),
        }
    }

    /// Why there is no room for what workers would hold more, if there is none.
    fn lacks_room(&self, gains: &[(NodeId, u64)]) -> Option<String> {
        let (node, bytes, most) = self.fullness.overfilled_by(gains)?;
        let worker = self.leader.as_deref()?.worker(node)?;
        let number = worker.0 + 1;
        Some(format!("worker {number} {NO_ROOM}: it would hold {bytes} bytes of state, and may hold {most}"))
    }

    /// There is to be another number of partitions; each worker deals out what it has, while everything goes on.
    fn repartition(
        &mut self,
        partitions: u32,
        options: MigrationOptions,
        waiter: Option<W>,
        step: &mut Step<'_, W, R>,
    ) {
        let refused = match self.leader.as_deref().filter(|leader| leader.serves()) {
            None => Some(Abort::new(Code::Overloaded, NOT_SERVING)),
            Some(leader) => leader.refuses_repartition(partitions).map(|why| Abort::new(Code::BadArguments, why)),
        };
        if let Some(abort) = refused {
            return step.controlled(waiter, Err(abort));
        }
        let Some(leader) = self.leader.as_deref() else { return };
        let begun = Begun {
            generation: leader.generation(),
            ticket: options.ticket,
            version: leader.announced().next(),
            mode: MigrationMode::Online,
            transfers: Vec::new(),
            repartitioned: Some(partitions),
            rate: None,
        };
        let (now, later) = if options.wait { (None, waiter) } else { (waiter, None) };
        self.machine(Input::Repartition { partitions, waiter: later }, step);
        self.migrations.begin(begun, step.now.monotonic, step.now.wall);
        self.show_migrations(true, step);
        step.controlled(now, Ok(()));
    }

    pub(super) fn begin_migration(
        &mut self,
        owners: Vec<WorkerId>,
        options: MigrationOptions,
        waiter: Option<W>,
        step: &mut Step<'_, W, R>,
    ) {
        let Some(leader) = self.leader.as_deref() else { return };
        let (is_first, nodes, placement) = (!leader.is_migrating(), leader.nodes(), leader.placement().clone());
        let (generation, version) = (leader.generation(), leader.announced().next());
        let transfers = transfers(&placement, &owners);
        if is_first {
            // Before the first piece leaves.
            let rate = options.rate.or(self.config.migration_rate);
            self.pace = CopyPace { rate, paused: false };
            self.tell_pace(generation, version, &nodes, step);
        }
        let mode = match options.mode {
            MigrationMode::Immediate => MovingMode::Immediate,
            MigrationMode::Online | MigrationMode::StopAndRestart => MovingMode::Online,
        };
        self.machine(Input::Migrate { owners, mode, waiter }, step);
        let Some(leader) = self.leader.as_deref_mut().filter(|leader| is_first && leader.is_migrating()) else {
            return;
        };
        let waits_no_more = if options.wait { None } else { leader.take_migration_waiter() };
        let begun = Begun {
            generation,
            ticket: options.ticket,
            version,
            mode: options.mode,
            transfers,
            repartitioned: None,
            rate: self.pace.rate,
        };
        self.migrations.begin(begun, step.now.monotonic, step.now.wall);
        self.show_migrations(true, step);
        step.controlled(waits_no_more, Ok(()));
    }

    /// Has workers copy as fast as they may, from now on.
    fn tell_pace(
        &self,
        generation: Generation,
        version: PlacementVersion,
        nodes: &[NodeId],
        step: &mut Step<'_, W, R>,
    ) {
        for node in nodes {
            step.control(*node, Envelope::CopyPace { generation, version, pace: self.pace });
        }
    }

    /// It is said with every answer to a heartbeat, too: once may be lost.
    pub(super) fn repeat_pace(&self, to: NodeId, step: &mut Step<'_, W, R>) {
        if let Some(leader) = self.leader.as_deref().filter(|leader| leader.is_migrating())
            && let Some(current) = self.migrations.current()
        {
            self.tell_pace(leader.generation(), current.version, &[to], step);
        }
    }

    /// Pieces are to be copied no more, or again.
    pub(super) fn change_pace(&mut self, change: PaceChange, waiter: Option<W>, step: &mut Step<'_, W, R>) {
        let paused = change == PaceChange::Pause;
        let copies = |state: &MigrationState| {
            matches!(state, MigrationState::Copying | MigrationState::Arriving | MigrationState::Paused)
        };
        let current = self.migrations.current().filter(|current| copies(&current.state));
        let result = match (current, self.leader.as_deref()) {
            (Some(current), Some(leader)) => {
                let (generation, version, nodes) = (leader.generation(), current.version, leader.nodes());
                self.pace.paused = paused;
                self.migrations.paced(self.pace.rate, paused, step.now.monotonic);
                self.tell_pace(generation, version, &nodes, step);
                self.show_migrations(true, step);
                Ok(())
            }
            _ => Err(Abort::new(Code::BadArguments, "no migration is under way that still copies")),
        };
        step.controlled(waiter, result);
    }

    /// An owner says how much it has copied.
    pub(super) fn copied(
        &mut self,
        from: NodeId,
        generation: Generation,
        progress: CopyProgress,
        step: &mut Step<'_, W, R>,
    ) {
        self.migrations.copied(from, generation, progress);
        self.show_migrations(false, step);
    }

    /// The machine may have gone on with a migration.
    pub(super) fn review_migration(&mut self, step: &mut Step<'_, W, R>) {
        if self.migrations.current().is_none() || self.restarting.is_some() {
            return;
        }
        let stage = self.leader.as_deref().and_then(LeaderState::migration_stage);
        if let Some(stage) = stage {
            self.migration_placed |= matches!(stage, MigrationStage::Placed | MigrationStage::Arriving);
            self.migrations.reached(stage, step.now.monotonic);
        } else {
            let serves = self.leader.as_deref().is_some_and(LeaderState::serves);
            let state = match (std::mem::take(&mut self.migration_placed), serves) {
                (true, _) if self.leader.is_some() => MigrationState::Done,
                (_, true) => MigrationState::Cancelled,
                _ => MigrationState::Failed("the members of the cluster have changed: plan it again".to_owned()),
            };
            self.migrations.end(state, step.now.monotonic, step.now.wall);
        }
        let moves = matches!(stage, Some(MigrationStage::Copying | MigrationStage::Arriving));
        self.show_migrations(!moves, step);
    }

    pub(super) fn show_migrations(&mut self, at_once: bool, step: &mut Step<'_, W, R>) {
        let news = self.migrations.news(at_once, step.time());
        step.extend(news.map(Effect::ShowMigrations));
    }

    pub(super) fn cancel_migration(&mut self, waiter: Option<W>, step: &mut Step<'_, W, R>) {
        let is_migrating = |driver: &Self| driver.leader.as_deref().is_some_and(LeaderState::is_migrating);
        let before = is_migrating(self);
        self.machine(Input::CancelMigration, step);
        let result =
            if before && !is_migrating(self) { Ok(()) } else { Err(Abort::new(Code::BadArguments, NONE_TO_CANCEL)) };
        step.controlled(waiter, result);
    }

    /// Owners to be that have all that is to be theirs wait for a snapshot, if such are taken.
    pub(super) fn proceed_with_migration(&mut self, step: &mut Step<'_, W, R>) {
        if self.leader.as_deref_mut().is_some_and(LeaderState::wants_snapshot_to_migrate) {
            self.snapshots(step, |scheduler, now, effects| scheduler.want(SnapshotWaiter::Migration, now, effects));
        }
    }

    /// Partitions have other owners.
    pub(super) fn placed(&mut self, placement: &Placement, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref_mut() else { return };
        let message = if !leader.is_migrating() {
            format!("entities of an operator are placed anew: placement {}", placement.version())
        } else if leader.layout() == self.layout {
            format!("partitions have other owners: placement {}", placement.version())
        } else {
            leader.snapshots_begin_anew();
            self.layout = leader.layout();
            format!("there are {} partitions: placement {}", placement.partitions(), placement.version())
        };
        step.log(Diagnostic::info(message).generation(leader.generation()));
        self.show_all(step);
    }

    /// Keeps in mind who has which partition, for the next generation.
    pub(super) fn remember_owners(&mut self) {
        let Some(leader) = self.leader.as_deref() else { return };
        self.seating = Some(Seating { seats: leader.seats().to_vec(), owners: leader.placement().owners().to_vec() });
    }
}

/// Who is to give how many partitions to whom.
pub(super) fn transfers(placement: &Placement, owners: &[WorkerId]) -> Vec<Transfer> {
    let mut counts: BTreeMap<(WorkerId, WorkerId), u64> = BTreeMap::new();
    for (id, to) in (0..placement.partitions()).map(|id| PartitionId(id as u16)).zip(owners) {
        let from = placement.owner(id);
        if from != *to {
            *counts.entry((from, *to)).or_default() += 1;
        }
    }
    counts.into_iter().map(|((from, to), partitions)| Transfer { from, to, partitions }).collect()
}
