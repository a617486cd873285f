//! Snapshot scheduler: decides when a snapshot is taken, when its manifest may be put, when old ones are merged
//! and deleted, and how far the log may be trimmed.
//!
//! One scheduler belongs to one generation, beside its coordinator, or to a process that is all of a cluster. A
//! snapshot passes through three stages: the coordinator's machine notes its header and every worker writes its
//! part; when all of them have, *and the log is durable up to the snapshot's epoch*, the manifest is put, and only
//! then does the snapshot exist; afterwards deltas are merged and old snapshots deleted, and the log is trimmed
//! behind the oldest that is kept.
//!
//! Nothing here knows the store: what workers have written travels through as they said it.

use std::collections::BTreeMap;
use std::time::Duration;

use styx_planted::{Bug, planted};
use styx_protocol::ids::{Epoch, Generation, LogPosition, PartitionId, WorkerId};
use styx_protocol::snapshot::SnapshotHeader;
use styx_protocol::state::StateHash;
use styx_protocol::transaction::CarriedTransaction;

use crate::diagnostic::Diagnostic;
use crate::time::Instant;
use crate::wire::WrittenPart;

mod retry;
#[cfg(test)]
mod tests;

pub use retry::{RETRY_AFTER, Retry};

/// When things are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// Time between snapshots.
    pub interval: Duration,
    /// After how long without a word workers are asked to say again what they have written.
    pub resend_after: Duration,
    /// Pause before the store is asked again that did not answer.
    pub retry_after: Duration,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        SnapshotConfig {
            interval: Duration::from_secs(60),
            resend_after: Duration::from_secs(2),
            retry_after: RETRY_AFTER,
        }
    }
}

/// A snapshot that exists.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SnapshotSummary {
    pub sequence: u64,
    /// It is the state of this epoch's end.
    pub epoch: u64,
    /// Bytes in the store, of all that it consists of.
    pub bytes: u64,
    pub written_bytes: u64,
    /// From its beginning to its end, µs.
    pub duration_us: u64,
}

/// Why whoever wanted a snapshot gets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSnapshot {
    /// No store was named.
    #[error("snapshots are off")]
    Off,
    /// The cluster does not serve yet.
    #[error("the cluster does not serve yet")]
    NotServing,
    /// It would be of nothing.
    #[error("nothing has happened since the last snapshot")]
    NothingHappened,
    /// The generation has ended before it was taken.
    #[error("the generation has ended")]
    GenerationEnded,
    /// The process ends.
    #[error("the server stops")]
    ServerStops,
}

impl NoSnapshot {
    /// What to do.
    pub fn hint(self) -> &'static str {
        match self {
            NoSnapshot::Off => "start the server, in a cluster its coordinator, with --store",
            NoSnapshot::NotServing | NoSnapshot::GenerationEnded | NoSnapshot::ServerStops => "try again in a moment",
            NoSnapshot::NothingHappened => "",
        }
    }
}

/// All that a manifest says, for the store to put it under the next free number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestDraft {
    /// The generation that writes it.
    pub generation: Generation,
    /// The epoch of the snapshot whose deltas it continues, if there is one.
    pub builds_on: Option<Epoch>,
    /// Replay goes on with this record of the log: no later epoch stands before it.
    pub log_position: LogPosition,
    /// The coordinator's part.
    pub header: SnapshotHeader,
    /// Sum of all partitions' hashes.
    pub state_hash: StateHash,
    /// Hash of each partition, by id.
    pub hashes: Vec<(PartitionId, StateHash)>,
    /// Transactions of all workers that were moved to the next epoch, in TID order.
    pub carried: Vec<CarriedTransaction>,
    /// What each worker has written, in the store's own words.
    pub objects: Vec<(WorkerId, Vec<u8>)>,
}

/// A manifest that was put, as the store sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestPut {
    pub sequence: u64,
    /// Bytes of all that it mentions.
    pub bytes: u64,
    pub written_bytes: u64,
}

/// Why the store has not done what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// It does not answer; what was asked may have happened or not.
    Unavailable(String),
    /// A worker's list of what it has written cannot be read.
    Unreadable(WorkerId, String),
    /// An object is not what was written.
    Damaged(String),
    /// [`SnapshotEffect::CutMaintenanceShort`] came first.
    Stopped,
    /// Another coordinator has taken the store over, or the store contradicts itself.
    Fatal(String),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotEffect<W> {
    /// Have the coordinator's machine begin a snapshot.
    Begin,
    /// Have workers say again what they have written.
    ResendParts,
    /// Put a manifest; then say [`SnapshotScheduler::manifest_put`].
    Put(Box<ManifestDraft>),
    /// Merge deltas and delete what is too old; then say [`SnapshotScheduler::maintained`].
    Maintain,
    /// Somebody waits for a snapshot: what of the maintenance is not done may wait.
    CutMaintenanceShort,
    /// Have the log forget what stands before a position.
    TrimLog(LogPosition),
    /// A snapshot exists.
    Taken(SnapshotSummary),
    /// Answer whoever wanted a snapshot.
    Answer(W, Result<SnapshotSummary, NoSnapshot>),
    /// Answer whoever wanted a snapshot though nothing has happened since the newest one: that one, if this process has
    /// taken it.
    IsNewest(W, Option<SnapshotSummary>),
    /// A worker says what cannot be read or cannot be true: it must go.
    Expel(WorkerId, String),
    /// Something for people.
    Diagnostic(Diagnostic),
    /// End the process: what it would do next is another one's to do.
    Halt(String),
}

/// Decides about the snapshots of one generation. `W` names somebody who waits for one.
#[derive(Debug)]
pub struct SnapshotScheduler<W> {
    config: SnapshotConfig,
    generation: Generation,
    workers: usize,
    stage: Stage<W>,
    waiting: Vec<W>,
    /// The last epoch that ended, and the last one whose record is durable.
    reached: Epoch,
    durable: Epoch,
    /// The epoch and the log position of the newest snapshot.
    newest: Option<(Epoch, LogPosition)>,
    /// The last snapshot that this process has taken.
    last: Option<SnapshotSummary>,
    /// From these epochs on partitions are others.
    anew: Vec<Epoch>,
}

#[derive(Debug)]
enum Stage<W> {
    /// Nothing is under way; the next one is due then.
    Idle { due: Instant },
    /// The header and the parts of all workers are awaited, and the log.
    Collecting(Collecting<W>),
    /// The manifest is on its way to the store.
    Putting(Putting<W>),
    /// The store merges and deletes.
    Maintaining { cut_short: bool },
}

#[derive(Debug)]
struct Collecting<W> {
    started: Instant,
    wanted: Vec<W>,
    /// The coordinator's part, and a position of the log before all later epochs.
    header: Option<(Box<SnapshotHeader>, LogPosition)>,
    parts: BTreeMap<WorkerId, WrittenPart>,
    resend_at: Instant,
}

#[derive(Debug)]
struct Putting<W> {
    started: Instant,
    wanted: Vec<W>,
    draft: Box<ManifestDraft>,
    /// When the store is asked again; `None` while it is asked.
    retry_at: Option<Instant>,
}

impl<W> SnapshotScheduler<W> {
    /// The scheduler of a generation of so many workers, which begins at `reached` with the snapshot of an epoch and
    /// a log position, or none. `last` is the last snapshot that this process has taken.
    pub fn new(
        config: SnapshotConfig,
        generation: Generation,
        workers: usize,
        newest: Option<(Epoch, LogPosition)>,
        reached: Epoch,
        last: Option<SnapshotSummary>,
        now: Instant,
    ) -> Self {
        assert!(workers > 0, "a generation has members");
        let stage = Stage::Idle { due: now.after(config.interval) };
        let waiting = Vec::new();
        SnapshotScheduler {
            config,
            generation,
            workers,
            stage,
            waiting,
            reached,
            durable: reached,
            newest,
            last,
            anew: Vec::new(),
        }
    }

    /// From an epoch on partitions are others: the first snapshot of these builds on none.
    pub fn begin_anew(&mut self, from: Epoch) {
        if !planted(Bug::SnapshotsContinued) {
            self.anew.push(from);
        }
    }

    /// Whether partitions are others than those of the newest snapshot.
    pub fn begins_anew(&self) -> bool {
        !self.anew.is_empty()
    }

    /// Nothing is under way, and nobody waits.
    #[cfg(test)]
    fn is_quiet(&self) -> bool {
        matches!(self.stage, Stage::Idle { .. }) && self.waiting.is_empty()
    }

    /// When [`SnapshotScheduler::tick`] has something to do.
    pub fn due(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Idle { due } => Some(*due),
            Stage::Collecting(collecting) if collecting.misses_something(self.workers) => Some(collecting.resend_at),
            Stage::Putting(putting) => putting.retry_at,
            Stage::Collecting(_) | Stage::Maintaining { .. } => None,
        }
    }

    /// Time has gone on.
    pub fn tick(&mut self, now: Instant, effects: &mut Vec<SnapshotEffect<W>>) {
        match &mut self.stage {
            Stage::Idle { due } if *due <= now => self.begin(now, effects),
            Stage::Collecting(collecting)
                if collecting.misses_something(self.workers) && collecting.resend_at <= now =>
            {
                collecting.resend_at = now.after(self.config.resend_after);
                effects.push(SnapshotEffect::ResendParts);
            }
            Stage::Putting(putting) if putting.retry_at.is_some_and(|at| at <= now) => {
                putting.retry_at = None;
                effects.push(SnapshotEffect::Put(putting.draft.clone()));
            }
            _ => {}
        }
    }

    /// Somebody wants a snapshot that holds all that has happened by now.
    pub fn want(&mut self, waiter: W, now: Instant, effects: &mut Vec<SnapshotEffect<W>>) {
        self.waiting.push(waiter);
        match &mut self.stage {
            Stage::Idle { .. } => self.begin(now, effects),
            Stage::Maintaining { cut_short: cut_short @ false } => {
                *cut_short = true;
                effects.push(SnapshotEffect::CutMaintenanceShort);
            }
            _ => {}
        }
    }

    pub fn ended(&mut self, epoch: Epoch) {
        assert!(epoch >= self.reached, "epochs end in order");
        self.reached = epoch;
    }

    /// The records of all epochs up to this one are durable.
    pub fn durable(&mut self, epoch: Epoch, effects: &mut Vec<SnapshotEffect<W>>) {
        assert!(epoch >= self.durable, "what is durable stays so");
        self.durable = epoch;
        self.advance(effects);
    }

    /// The machine has noted the coordinator's part; no later epoch stands before `log_position`.
    pub fn header(
        &mut self,
        header: Box<SnapshotHeader>,
        log_position: LogPosition,
        now: Instant,
        effects: &mut Vec<SnapshotEffect<W>>,
    ) {
        let Stage::Collecting(collecting) = &mut self.stage else {
            panic!("a header comes of a snapshot that was begun")
        };
        assert!(collecting.header.is_none(), "snapshots come one after the other");
        assert!(self.newest.is_none_or(|(epoch, _)| header.epoch > epoch), "the machine is behind its own snapshot");
        collecting.header = Some((header, log_position));
        collecting.resend_at = now.after(self.config.resend_after);
        self.advance(effects);
    }

    /// Whether there is a snapshot of this epoch, or of a later one: what is said of its parts was heard before.
    pub fn is_past(&self, epoch: Epoch) -> bool {
        self.newest.is_some_and(|(newest, _)| epoch <= newest)
    }

    /// A worker says what it has written: for the first time, or again.
    pub fn part(&mut self, worker: WorkerId, part: WrittenPart, now: Instant, effects: &mut Vec<SnapshotEffect<W>>) {
        if self.is_past(part.epoch) {
            return;
        }
        let of = match &mut self.stage {
            Stage::Putting(putting) if part.epoch == putting.draft.header.epoch => return,
            Stage::Collecting(Collecting { header: Some((header, _)), parts, resend_at, .. })
                if part.epoch == header.epoch =>
            {
                *resend_at = now.after(self.config.resend_after);
                parts.insert(worker, part);
                return self.advance(effects);
            }
            Stage::Collecting(Collecting { header: Some((header, _)), .. }) => Some(header.epoch),
            _ => None,
        };
        let why = match of {
            Some(epoch) => format!("it has written a part of a snapshot of epoch {}, not {epoch}", part.epoch),
            None => format!("it has written a part of a snapshot of epoch {}, which was not begun", part.epoch),
        };
        effects.push(SnapshotEffect::Expel(worker, why));
    }

    /// The store has answered [`SnapshotEffect::Put`].
    pub fn manifest_put(
        &mut self,
        result: Result<ManifestPut, StoreFailure>,
        now: Instant,
        effects: &mut Vec<SnapshotEffect<W>>,
    ) {
        let Stage::Putting(putting) = &mut self.stage else { panic!("the store answers what it was asked") };
        let put = match result {
            Ok(put) => put,
            Err(StoreFailure::Unavailable(why)) => {
                putting.retry_at = Some(now.after(self.config.retry_after));
                let message = format!("a snapshot cannot be written, and is tried again: {why}");
                return effects.push(SnapshotEffect::Diagnostic(Diagnostic::warn(message).code("SNAPSHOT_STORE")));
            }
            Err(StoreFailure::Unreadable(worker, why)) => return effects.push(SnapshotEffect::Expel(worker, why)),
            Err(StoreFailure::Damaged(why) | StoreFailure::Fatal(why)) => {
                return effects.push(SnapshotEffect::Halt(why));
            }
            Err(StoreFailure::Stopped) => panic!("only maintenance is cut short"),
        };
        let wanted = std::mem::take(&mut putting.wanted);
        let (epoch, position) = (putting.draft.header.epoch, putting.draft.log_position);
        let summary = SnapshotSummary {
            sequence: put.sequence,
            epoch: epoch.0,
            bytes: put.bytes,
            written_bytes: put.written_bytes,
            duration_us: now.since(putting.started).as_micros() as u64,
        };
        (self.newest, self.last) = (Some((epoch, position)), Some(summary.clone()));
        self.anew.retain(|from| *from > epoch);
        let message = format!("a snapshot of epoch {epoch} was taken: {} bytes written", put.written_bytes);
        effects.push(SnapshotEffect::Diagnostic(Diagnostic::debug(message).generation(self.generation)));
        effects.extend(wanted.into_iter().map(|waiter| SnapshotEffect::Answer(waiter, Ok(summary.clone()))));
        effects.push(SnapshotEffect::Taken(summary));
        self.stage = Stage::Maintaining { cut_short: false };
        effects.push(SnapshotEffect::Maintain);
        // Who asked meanwhile is not to wait for the past to be tidied.
        if !self.waiting.is_empty() {
            self.stage = Stage::Maintaining { cut_short: true };
            effects.push(SnapshotEffect::CutMaintenanceShort);
        }
    }

    /// The store has answered [`SnapshotEffect::Maintain`]: the log must be kept from a position on, or nothing of it.
    pub fn maintained(
        &mut self,
        result: Result<Option<LogPosition>, StoreFailure>,
        now: Instant,
        effects: &mut Vec<SnapshotEffect<W>>,
    ) {
        assert!(matches!(self.stage, Stage::Maintaining { .. }), "the store answers what it was asked");
        match result {
            Ok(Some(kept)) => {
                let (_, newest) = self.newest.expect("maintenance follows a snapshot");
                assert!(kept <= newest, "the log is trimmed to {kept}, and the newest snapshot goes on at {newest}");
                let kept = if planted(Bug::TrimmedToNewest) { newest } else { kept };
                effects.push(SnapshotEffect::TrimLog(kept));
            }
            Ok(None) | Err(StoreFailure::Stopped) => {}
            // The next snapshot's maintenance will do it.
            Err(StoreFailure::Unavailable(why)) => {
                let message = format!("old snapshots are not looked after: {why}");
                effects.push(SnapshotEffect::Diagnostic(Diagnostic::warn(message).code("SNAPSHOT_STORE")));
            }
            Err(StoreFailure::Damaged(why)) => {
                let message = format!("deltas are not merged: {why}");
                effects.push(SnapshotEffect::Diagnostic(Diagnostic::error(message).code("SNAPSHOT_DAMAGED")));
            }
            Err(StoreFailure::Unreadable(_, why) | StoreFailure::Fatal(why)) => {
                return effects.push(SnapshotEffect::Halt(why));
            }
        }
        self.stage = Stage::Idle { due: now.after(self.config.interval) };
        if !self.waiting.is_empty() {
            self.begin(now, effects);
        }
    }

    /// The generation is over, or the process ends: nobody gets a snapshot of this scheduler any more.
    pub fn close(self, effects: &mut Vec<SnapshotEffect<W>>) {
        let under_way = match self.stage {
            Stage::Collecting(collecting) => collecting.wanted,
            Stage::Putting(putting) => putting.wanted,
            Stage::Idle { .. } | Stage::Maintaining { .. } => Vec::new(),
        };
        let over = |waiter| SnapshotEffect::Answer(waiter, Err(NoSnapshot::GenerationEnded));
        effects.extend(under_way.into_iter().chain(self.waiting).map(over));
    }

    fn begin(&mut self, now: Instant, effects: &mut Vec<SnapshotEffect<W>>) {
        let reached = self.reached;
        if reached == Epoch(0) || self.newest.is_some_and(|(epoch, _)| epoch == reached) {
            let newest = |waiter| SnapshotEffect::IsNewest(waiter, self.last.clone());
            effects.extend(self.waiting.drain(..).map(newest));
            self.stage = Stage::Idle { due: now.after(self.config.interval) };
            return;
        }
        self.stage = Stage::Collecting(Collecting {
            started: now,
            // Who asks from now on wants to find in it what has happened by then.
            wanted: std::mem::take(&mut self.waiting),
            header: None,
            parts: BTreeMap::new(),
            resend_at: now.after(self.config.resend_after),
        });
        effects.push(SnapshotEffect::Begin);
    }

    /// Puts the manifest, if everything that it mentions is there and may be known.
    fn advance(&mut self, effects: &mut Vec<SnapshotEffect<W>>) {
        let Stage::Collecting(collecting) = &mut self.stage else { return };
        let Some((header, _)) = &collecting.header else { return };
        // Of what is not durable nobody may have been told; a snapshot tells.
        let durable = header.epoch <= self.durable || planted(Bug::ManifestBeforeLog);
        if collecting.misses_something(self.workers) || !durable {
            return;
        }
        let (header, log_position) = collecting.header.take().expect("just seen");
        let (mut hashes, mut carried, mut objects) = (Vec::new(), Vec::new(), Vec::new());
        for (worker, part) in std::mem::take(&mut collecting.parts) {
            assert_eq!(part.epoch, header.epoch, "parts of other epochs are not taken");
            hashes.extend(part.hashes);
            carried.extend(part.carried);
            objects.push((worker, part.objects));
        }
        hashes.sort_unstable_by_key(|(partition, _)| *partition);
        carried.sort_unstable_by_key(|carried| carried.tid);
        let state_hash = StateHash(hashes.iter().fold(0u128, |sum, (_, hash)| sum.wrapping_add(hash.0)));
        assert!(self.newest.is_none_or(|(_, position)| log_position >= position), "the log does not grow backwards");
        let is_other = |from: Epoch, newest: Epoch| newest < from && from <= header.epoch;
        let builds_on = self.newest.map(|(epoch, _)| epoch);
        let builds_on = builds_on.filter(|newest| !self.anew.iter().any(|from| is_other(*from, *newest)));
        let draft = Box::new(ManifestDraft {
            generation: self.generation,
            builds_on,
            log_position,
            header: *header,
            state_hash,
            hashes,
            carried,
            objects,
        });
        effects.push(SnapshotEffect::Put(draft.clone()));
        let (started, wanted) = (collecting.started, std::mem::take(&mut collecting.wanted));
        self.stage = Stage::Putting(Putting { started, wanted, draft, retry_at: None });
    }
}

impl<W> Collecting<W> {
    fn misses_something(&self, workers: usize) -> bool {
        self.header.is_none() || self.parts.len() < workers
    }
}
