//! What is known of migrations: of the one under way, and of those that ended last. It is kept in memory: a coordinator
//! that starts anew knows none.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use styx_protocol::ids::{Generation, NodeId, PlacementVersion, Timestamp, WorkerId};
use styx_protocol::machine::coordinator::MigrationStage;
use styx_protocol::machine::worker::{CopiedOf, CopyProgress};

use super::migrations::MigrationMode;
use crate::time::Instant;

/// Migrations that are remembered.
const REMEMBERED: usize = 50;

/// Time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(250);

/// Phases of one that are remembered: somebody may hold it up as often as they like.
const PHASES: usize = 32;

/// Names a migration, in one cluster for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MigrationId {
    pub generation: Generation,
    /// Counted in its generation from 1.
    pub number: u32,
}

impl fmt::Display for MigrationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mg_{}_{}", self.generation.0, self.number)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationState {
    /// Pieces are on their way.
    Copying,
    /// The same, and no further ones are sent until somebody says so.
    Paused,
    /// All is copied, and the placement is about to change.
    Flipping,
    /// The placement has changed; what is still with the former owners is on its way.
    Arriving,
    Done,
    /// Every partition is where it was, because somebody wanted it so.
    Cancelled,
    /// Every partition is where it was, or where the next generation has put it.
    Failed(
        /// Why.
        String,
    ),
}

impl MigrationState {
    pub fn has_ended(&self) -> bool {
        matches!(self, MigrationState::Done | MigrationState::Cancelled | MigrationState::Failed(_))
    }
}

/// Partitions that go from one worker to another, as its generation numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub from: WorkerId,
    pub to: WorkerId,
    pub partitions: u64,
}

/// A state that a migration came to, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationPhase {
    pub state: MigrationState,
    /// Since it began.
    pub after: Duration,
}

/// What is known of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    pub id: MigrationId,
    /// Whoever asked for it called it so.
    pub ticket: u64,
    /// The placement that it makes.
    pub version: PlacementVersion,
    pub mode: MigrationMode,
    pub state: MigrationState,
    /// The states that it has been in before it ended, the first of them first.
    pub phases: Vec<MigrationPhase>,
    pub transfers: Vec<Transfer>,
    /// The number of partitions that it makes, if that is another.
    pub repartitioned: Option<u32>,
    pub partitions: CopiedOf,
    pub entities: CopiedOf,
    /// Of keys and values.
    pub bytes: CopiedOf,
    /// Most bytes a second that each worker copies, if there is a limit.
    pub rate: Option<u64>,
    pub began: Timestamp,
    pub ended: Option<Timestamp>,
    /// How long it took, or had taken when there was something new of it.
    pub took: Duration,
}

/// How many have ended how, since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationTotals {
    pub done: u64,
    pub cancelled: u64,
    pub failed: u64,
    /// Bytes of keys and values that were copied.
    pub bytes: u64,
}

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// The newest is the last.
    pub reports: Vec<MigrationReport>,
    pub totals: MigrationTotals,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct MigrationHistory {
    reports: VecDeque<MigrationReport>,
    totals: MigrationTotals,
    /// What owners have said of the newest.
    copied: BTreeMap<NodeId, CopyProgress>,
    began: Instant,
    reported: Instant,
    changed: bool,
}

/// What a migration is to be.
pub(super) struct Begun {
    pub generation: Generation,
    pub ticket: u64,
    pub version: PlacementVersion,
    pub mode: MigrationMode,
    pub transfers: Vec<Transfer>,
    pub repartitioned: Option<u32>,
    pub rate: Option<u64>,
}

impl MigrationHistory {
    pub(super) fn begin(&mut self, begun: Begun, now: Instant, wall: Timestamp) {
        let Begun { generation, ticket, version, mode, transfers, repartitioned, rate } = begun;
        let last = self.reports.back().map(|last| last.id).filter(|last| last.generation == generation);
        let id = MigrationId { generation, number: last.map_or(1, |last| last.number + 1) };
        if self.reports.len() >= REMEMBERED {
            self.reports.pop_front();
        }
        let partitions = CopiedOf { done: 0, of: transfers.iter().map(|transfer| transfer.partitions).sum() };
        let state = if rate == Some(0) { MigrationState::Paused } else { MigrationState::Copying };
        self.reports.push_back(MigrationReport {
            id,
            ticket,
            version,
            mode,
            phases: vec![MigrationPhase { state: state.clone(), after: Duration::ZERO }],
            state,
            transfers,
            repartitioned,
            partitions,
            entities: CopiedOf::default(),
            bytes: CopiedOf::default(),
            rate,
            began: wall,
            ended: None,
            took: Duration::ZERO,
        });
        (self.began, self.changed) = (now, true);
        self.copied.clear();
    }

    /// The one under way.
    pub(super) fn current(&self) -> Option<&MigrationReport> {
        self.reports.back().filter(|report| !report.state.has_ended())
    }

    /// Whether the one under way gives a worker anything.
    pub(super) fn gives_to(&self, worker: u16) -> bool {
        self.current().is_some_and(|current| current.transfers.iter().any(|transfer| transfer.to.0 == worker))
    }

    fn current_mut(&mut self) -> Option<&mut MigrationReport> {
        self.reports.back_mut().filter(|report| !report.state.has_ended())
    }

    /// An owner says how much it has copied.
    pub(super) fn copied(&mut self, from: NodeId, generation: Generation, progress: CopyProgress) {
        let Some(newest) = self.reports.back_mut() else { return };
        let is_told = newest.id.generation == generation && newest.version == progress.version;
        // What is said of one that was given up may be said of the one before.
        let counts = !newest.state.has_ended() || newest.state == MigrationState::Done;
        if !is_told || !counts || self.copied.insert(from, progress) == Some(progress) {
            return;
        }
        let sum = |of: fn(&CopyProgress) -> CopiedOf| {
            self.copied.values().map(of).fold(CopiedOf::default(), |sum, one| CopiedOf {
                done: sum.done.saturating_add(one.done),
                of: sum.of.saturating_add(one.of),
            })
        };
        let before = newest.bytes.done;
        if newest.state != MigrationState::Done {
            newest.partitions.done = sum(|progress| progress.partitions).done;
        }
        (newest.entities, newest.bytes) = (sum(|progress| progress.entities), sum(|progress| progress.bytes));
        self.totals.bytes += newest.bytes.done.saturating_sub(before);
        self.changed = true;
    }

    /// How far it is, as the machine has it.
    pub(super) fn reached(&mut self, stage: MigrationStage, now: Instant) {
        let Some(report) = self.current() else { return };
        let state = match (stage, &report.state) {
            (MigrationStage::Copying, _) | (MigrationStage::Arriving, MigrationState::Paused) => return,
            (MigrationStage::Arriving, _) => MigrationState::Arriving,
            (MigrationStage::Flipping | MigrationStage::Placed, _) => MigrationState::Flipping,
        };
        self.enter(state, now);
    }

    /// The one under way is in this state from now on.
    fn enter(&mut self, state: MigrationState, now: Instant) {
        let after = now.since(self.began);
        let Some(report) = self.current_mut().filter(|report| report.state != state) else { return };
        report.state = state.clone();
        let is_full = report.phases.len() >= PHASES;
        match report.phases.last_mut().filter(|last| last.after == after) {
            // It was in the one before for no time.
            Some(last) => last.state = state,
            None if is_full => {}
            None => report.phases.push(MigrationPhase { state, after }),
        }
        self.changed = true;
    }

    /// It is limited otherwise.
    pub(super) fn paced(&mut self, rate: Option<u64>, paused: bool, now: Instant) {
        if let Some(report) = self.current_mut()
            && report.state != MigrationState::Flipping
        {
            report.rate = rate;
            self.changed = true;
            self.enter(if paused { MigrationState::Paused } else { MigrationState::Copying }, now);
        }
    }

    pub(super) fn end(&mut self, state: MigrationState, now: Instant, wall: Timestamp) {
        let took = now.since(self.began);
        let Some(report) = self.current_mut() else { return };
        (report.ended, report.took) = (Some(wall), took);
        if state == MigrationState::Done {
            report.partitions.done = report.partitions.of;
        }
        report.state = state.clone();
        let counted = match state {
            MigrationState::Done => &mut self.totals.done,
            MigrationState::Cancelled => &mut self.totals.cancelled,
            _ => &mut self.totals.failed,
        };
        *counted += 1;
        self.changed = true;
    }

    /// What is to be shown, if there is anything new; `at_once` or if it is time to.
    pub(super) fn news(&mut self, at_once: bool, now: Instant) -> Option<Arc<Migrations>> {
        if !self.changed || !(at_once || now.since(self.reported) >= REPORT_EVERY) {
            return None;
        }
        (self.changed, self.reported) = (false, now);
        let took = now.since(self.began);
        if let Some(report) = self.current_mut() {
            report.took = took;
        }
        Some(Arc::new(Migrations { reports: self.reports.iter().cloned().collect(), totals: self.totals }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Timestamp = Timestamp(7);

    fn begun(generation: u64, version: u64) -> Begun {
        let transfers = vec![Transfer { from: WorkerId(0), to: WorkerId(1), partitions: 4 }];
        let (generation, version) = (Generation(generation), PlacementVersion(version));
        Begun {
            generation,
            ticket: 1,
            version,
            mode: MigrationMode::Online,
            transfers,
            repartitioned: None,
            rate: None,
        }
    }

    fn progress(version: u64, done: u64) -> CopyProgress {
        let of = |done| CopiedOf { done, of: 10 };
        CopyProgress { version: PlacementVersion(version), partitions: of(done), entities: of(done), bytes: of(done) }
    }

    #[test]
    fn ids_are_never_used_again_and_only_the_last_ones_are_remembered() {
        let mut history = MigrationHistory::default();
        for _ in 0..REMEMBERED + 2 {
            history.begin(begun(3, 2), Instant(0), WALL);
            history.end(MigrationState::Cancelled, Instant(9), WALL);
        }
        history.begin(begun(4, 2), Instant(0), WALL);
        let migrations = history.news(true, Instant(0)).unwrap();
        let ids: Vec<_> = migrations.reports.iter().map(|report| (report.id.generation.0, report.id.number)).collect();
        assert_eq!(ids.len(), REMEMBERED);
        assert!(ids.is_sorted() && ids[REMEMBERED - 2..] == [(3, REMEMBERED as u32 + 2), (4, 1)]);
        assert_eq!(migrations.totals.cancelled, REMEMBERED as u64 + 2);
    }

    #[test]
    fn one_under_way_gives_to_each_of_its_new_owners_and_one_that_is_over_to_nobody() {
        let mut history = MigrationHistory::default();
        let transfer = |to| Transfer { from: WorkerId(0), to: WorkerId(to), partitions: 4 };
        history.begin(Begun { transfers: vec![transfer(1), transfer(3)], ..begun(3, 2) }, Instant(0), WALL);
        assert_eq!([0, 1, 2, 3].map(|worker| history.gives_to(worker)), [false, true, false, true]);
        history.end(MigrationState::Cancelled, Instant(9), WALL);
        assert!(!history.gives_to(1));
    }

    #[test]
    fn what_owners_say_is_added_up_and_told_at_most_every_so_often() {
        let mut history = MigrationHistory::default();
        history.begin(begun(3, 2), Instant(0), WALL);
        assert!(history.news(true, Instant(0)).is_some() && history.news(true, Instant(0)).is_none());
        history.copied(NodeId(2), Generation(3), progress(2, 3));
        history.copied(NodeId(3), Generation(3), progress(2, 1));
        history.copied(NodeId(3), Generation(3), progress(1, 9));
        history.copied(NodeId(3), Generation(2), progress(2, 9));
        assert!(history.news(false, Instant(1000)).is_none(), "it was told a moment ago");
        let told = history.news(false, Instant(REPORT_EVERY.as_micros() as u64)).unwrap();
        assert_eq!(told.reports[0].bytes, CopiedOf { done: 4, of: 20 });
        assert_eq!(told.totals.bytes, 4);
    }

    #[test]
    fn the_last_that_an_owner_says_counts_though_it_is_done() {
        let mut history = MigrationHistory::default();
        history.begin(begun(3, 2), Instant(0), WALL);
        history.reached(MigrationStage::Copying, Instant(1));
        assert_eq!(history.news(true, Instant(1)).unwrap().reports[0].state, MigrationState::Copying);
        history.reached(MigrationStage::Flipping, Instant(2));
        // Nobody can hold up what is about to be done.
        history.paced(Some(1), true, Instant(2));
        let flipping = history.news(true, Instant(2)).unwrap();
        assert_eq!((flipping.reports[0].state.clone(), flipping.reports[0].rate), (MigrationState::Flipping, None));
        history.end(MigrationState::Done, Instant(5), WALL);
        let partitions = history.news(true, Instant(5)).unwrap().reports[0].partitions;
        assert_eq!((partitions.done, partitions.of), (4, 4), "whatever owners have said");
        history.copied(NodeId(2), Generation(3), progress(2, 10));
        let told = history.news(true, Instant(6)).unwrap();
        let report = &told.reports[0];
        assert_eq!(report.partitions.done, 4, "all have other owners, also those that nothing was copied of");
        assert_eq!(
            (report.state.clone(), report.bytes.done, report.took),
            (MigrationState::Done, 10, Duration::from_micros(5))
        );
        history.end(MigrationState::Cancelled, Instant(9), WALL);
        assert!(history.news(true, Instant(9)).is_none(), "what has ended stays as it is");
    }

    #[test]
    fn how_fast_it_is_may_change_until_it_is_about_to_be_done() {
        let mut history = MigrationHistory::default();
        history.paced(Some(1), true, Instant(0));
        assert!(history.news(true, Instant(0)).is_none(), "there is none");
        history.begin(Begun { rate: Some(0), ..begun(3, 2) }, Instant(0), WALL);
        let told = |history: &mut MigrationHistory, at| {
            let told = history.news(true, Instant(at)).unwrap();
            (told.reports[0].state.clone(), told.reports[0].rate, told.reports[0].took)
        };
        let micros = Duration::from_micros;
        assert_eq!(told(&mut history, 1), (MigrationState::Paused, Some(0), micros(1)), "nothing a second");
        history.paced(Some(5), false, Instant(2));
        assert_eq!(told(&mut history, 2), (MigrationState::Copying, Some(5), micros(2)));
        history.paced(None, true, Instant(3));
        assert_eq!(told(&mut history, 3), (MigrationState::Paused, None, micros(3)));
    }

    #[test]
    fn the_states_that_it_was_in_are_remembered_with_their_times() {
        let mut history = MigrationHistory::default();
        history.begin(begun(3, 2), Instant(10), WALL);
        history.paced(None, true, Instant(12));
        history.paced(None, true, Instant(13));
        history.paced(None, false, Instant(15));
        history.reached(MigrationStage::Copying, Instant(16));
        history.reached(MigrationStage::Flipping, Instant(18));
        history.reached(MigrationStage::Placed, Instant(19));
        history.reached(MigrationStage::Arriving, Instant(20));
        let phases = |history: &mut MigrationHistory| {
            let report = history.news(true, Instant(30)).unwrap().reports[0].clone();
            let phases = report.phases.into_iter();
            phases.map(|phase| (phase.state, phase.after.as_micros())).collect::<Vec<_>>()
        };
        use MigrationState::{Arriving, Copying, Flipping, Paused};
        let expected = vec![(Copying, 0), (Paused, 2), (Copying, 5), (Flipping, 8), (Arriving, 10)];
        assert_eq!(phases(&mut history), expected);
        history.end(MigrationState::Done, Instant(31), WALL);
        assert_eq!(phases(&mut history), expected, "its end is told apart");
        // One that everything stops for is about to be done from its beginning.
        history.begin(begun(3, 3), Instant(40), WALL);
        history.reached(MigrationStage::Flipping, Instant(40));
        let newest = history.news(true, Instant(41)).unwrap().reports[1].clone();
        assert_eq!(newest.phases, [MigrationPhase { state: Flipping, after: Duration::ZERO }]);
        for at in 0..100 {
            history.begin(begun(3, 4), Instant(50), WALL);
            (0..at).for_each(|n| history.paced(None, n % 2 == 0, Instant(51 + n)));
            let known = history.news(true, Instant(200)).unwrap().reports.last().unwrap().phases.len();
            assert_eq!(known, PHASES.min(1 + at as usize));
            history.end(MigrationState::Cancelled, Instant(201), WALL);
        }
    }
}
