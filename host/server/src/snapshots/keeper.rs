//! Decides when a snapshot is taken, makes it exist, and looks after the old ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use styx_protocol::ids::{Epoch, WorkerId};
use styx_protocol::record::Genesis;
use styx_protocol::snapshot::SnapshotHeader;
use styx_storage::snapshot::{CompactionPolicy, Draft, PartRef, SnapshotError, SnapshotStore};
use tokio::sync::oneshot;

use super::beginning::SnapshotOptions;
use super::collector::{Written, persist};
use super::head::{HEAD, Head};
use super::restore::Found;
use crate::clock::now;
use crate::fatal::{fatal, fatal_on_panic};
use crate::stats::Stats;

/// What a keeper belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// The generation.
    pub generation: u64,
    /// How many workers have a part.
    pub workers: usize,
    /// What was decided when the cluster was created.
    pub genesis: Genesis,
}

/// What a keeper is told.
pub(crate) enum Noted {
    /// The coordinator's part, and a position of the log before all later epochs.
    SnapshotHeader(Box<SnapshotHeader>, u64),
    /// What a worker has written.
    Written(WorkerId, Written),
    /// Somebody wants a snapshot now.
    Wanted(oneshot::Sender<Result<Taken, String>>),
    /// The generation is over, or the process ends.
    Over,
}

/// A snapshot that exists.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Taken {
    /// Its number.
    pub sequence: u64,
    /// It is the state of this epoch's end.
    pub epoch: u64,
    /// Bytes in the store, of all that it consists of.
    pub bytes: u64,
    /// Bytes that had to be written for it.
    pub written_bytes: u64,
    /// From its beginning to its end, µs.
    pub duration_us: u64,
}

/// What a keeper has done, for those who watch.
#[derive(Debug, Default)]
pub struct KeeperStats {
    /// The store, where snapshots are taken.
    pub store: OnceLock<SnapshotStore>,
    last: Mutex<Option<Taken>>,
    /// Snapshots taken.
    pub taken: AtomicU64,
    /// Bytes written for them.
    pub written_bytes: AtomicU64,
}

impl KeeperStats {
    /// The last snapshot of this process.
    pub fn last(&self) -> Option<Taken> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn done(&self, taken: Taken) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(taken.written_bytes, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
    }
}

/// What the keeper has others do.
pub(crate) struct Hands {
    /// Has the coordinator's machine begin a snapshot.
    pub begin: Box<dyn Fn() + Send>,
    /// Has workers say again what they have written.
    pub remind: Box<dyn Fn() + Send>,
    /// Has the log forget what is before a position.
    pub trim: Box<dyn Fn(u64) + Send>,
}

/// The thread; it ends when this is dropped.
pub(crate) struct Keeper {
    notes: Sender<Noted>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How the names of components begin among a snapshot's system parts.
pub(super) const COMPONENT: &str = "component/";

/// After how long workers are asked to say again what they have written: it may have been lost.
const REMIND: Duration = Duration::from_secs(2);

/// How often it is looked whether the log has become durable.
const LOOK: Duration = Duration::from_millis(2);

impl Keeper {
    /// Starts the thread; `found` is the snapshot that the generation began with.
    pub fn start(
        store: SnapshotStore,
        options: SnapshotOptions,
        term: Term,
        found: Option<&Found>,
        hands: Hands,
        stats: Arc<Stats>,
    ) -> std::io::Result<Self> {
        let (notes, inbox) = unbounded();
        drop(stats.snapshots.store.set(store.clone()));
        let over = Arc::new(AtomicBool::new(false));
        let keeping = Keeping {
            last: found.map(|found| found.head.frame.epoch),
            mentioned: found.map(Found::components).unwrap_or_default(),
            store,
            options,
            term,
            hands,
            stats,
            inbox,
            over: over.clone(),
            waiting: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("styx-keeper".into())
            .spawn(move || fatal_on_panic("keeper", move || keeping.run()))?;
        Ok(Keeper { notes, over, thread: Some(thread) })
    }

    /// Tells it something.
    pub fn note(&self, note: Noted) {
        drop(self.notes.send(note));
    }

    /// Gives up what is under way, and waits for nothing.
    pub fn abandon(mut self) {
        self.thread = None;
    }

    /// Where it hears what was written.
    pub fn notes(&self) -> Sender<Noted> {
        self.notes.clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.note(Noted::Over);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Keeping {
    store: SnapshotStore,
    options: SnapshotOptions,
    term: Term,
    hands: Hands,
    stats: Arc<Stats>,
    inbox: Receiver<Noted>,
    over: Arc<AtomicBool>,
    waiting: Vec<oneshot::Sender<Result<Taken, String>>>,
    /// The epoch of the last snapshot.
    last: Option<Epoch>,
    /// Components that are in the store, by name.
    mentioned: BTreeMap<String, PartRef>,
}

/// The generation is over, or the process ends.
struct Over;

impl Keeping {
    fn run(mut self) {
        loop {
            if self.wait().is_err() {
                return;
            }
            let reached = Epoch(self.stats.epoch.load(Ordering::Relaxed));
            if self.last == Some(reached) || reached == Epoch(0) {
                let nothing =
                    || self.stats.snapshots.last().ok_or("nothing has happened since the last snapshot".to_owned());
                self.waiting.drain(..).for_each(|to| drop(to.send(nothing())));
                continue;
            }
            // Who asks from now on wants to find in it what has happened by now.
            let waiting = std::mem::take(&mut self.waiting);
            match self.take() {
                Ok(taken) => {
                    self.last = Some(Epoch(taken.epoch));
                    tracing::debug!(epoch = taken.epoch, written = taken.written_bytes, "a snapshot was taken");
                    waiting.into_iter().for_each(|to| drop(to.send(Ok(taken.clone()))));
                    self.stats.snapshots.done(taken);
                }
                Err(Over) => return,
            }
            if self.look_after().is_err() {
                return;
            }
        }
    }

    /// Until the next snapshot is due or wanted.
    fn wait(&mut self) -> Result<(), Over> {
        let due = Instant::now() + self.options.interval;
        while self.waiting.is_empty() {
            match self.inbox.recv_deadline(due) {
                Ok(Noted::Wanted(to)) => self.waiting.push(to),
                Ok(Noted::Over) | Err(RecvTimeoutError::Disconnected) => return Err(Over),
                // Said again though it was heard.
                Ok(Noted::Written(..)) => {}
                Ok(Noted::SnapshotHeader(..)) => panic!("frames come of snapshots that were begun"),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Taken, Over> {
        let started = Instant::now();
        (self.hands.begin)();
        let (mut frame, mut written) = (None, BTreeMap::new());
        while frame.is_none() || written.len() < self.term.workers {
            match self.inbox.recv_timeout(REMIND) {
                Ok(Noted::SnapshotHeader(noted, position)) => frame = Some((noted, position)),
                // What was said again of the snapshot before was heard.
                Ok(Noted::Written(_, parts)) if self.last.is_some_and(|last| parts.epoch <= last) => {}
                Ok(Noted::Written(worker, parts)) => drop(written.insert(worker, parts)),
                Ok(Noted::Wanted(to)) => self.waiting.push(to),
                Err(RecvTimeoutError::Timeout) => (self.hands.remind)(),
                Ok(Noted::Over) | Err(RecvTimeoutError::Disconnected) => return Err(Over),
            }
        }
        let (frame, log_position) = frame.expect("just seen");
        // Of what is not durable nobody may have been told; a snapshot tells.
        while self.stats.durable.load(Ordering::Relaxed) < frame.epoch.0 {
            if self.over.load(Ordering::Relaxed) {
                return Err(Over);
            }
            std::thread::sleep(LOOK);
        }
        let (epoch, generation) = (frame.epoch, self.term.generation);
        let (mut parts, mut hashes, mut carried) = (Vec::new(), Vec::new(), Vec::new());
        for (worker, written) in written {
            assert_eq!(written.epoch, epoch, "worker {worker} took its part of the snapshot at another epoch");
            parts.extend(written.parts);
            hashes.extend(written.hashes);
            carried.extend(written.carried);
        }
        hashes.sort_unstable_by_key(|(partition, _)| *partition);
        carried.sort_unstable_by_key(|carried| carried.tid);
        let state_hash = hashes.iter().fold(0u128, |sum, (_, hash)| sum.wrapping_add(hash.0));
        let chain_hash = frame.chain.0;
        let mut system = self.write_components(&frame)?;
        let head = Head { genesis: self.term.genesis, frame: *frame, carried, hashes }.encode();
        system.push(self.persist(|store| store.write_system_part(HEAD, epoch.0, generation, &head))?);
        let draft = Draft {
            generation,
            epoch: epoch.0,
            builds_on: self.last.map(|epoch| epoch.0),
            state_hash,
            chain_hash,
            log_position,
            created_us: now().0,
            parts,
            system,
        };
        let written_bytes = draft.parts.iter().chain(&draft.system).map(|part| part.bytes).sum();
        let manifest = self.persist(|store| store.commit(draft.clone()))?;
        Ok(Taken {
            sequence: manifest.sequence,
            epoch: epoch.0,
            bytes: manifest.bytes(),
            written_bytes,
            duration_us: started.elapsed().as_micros() as u64,
        })
    }

    /// Every component that is deployed, so that a snapshot can be restored where nothing else is.
    fn write_components(&mut self, frame: &SnapshotHeader) -> Result<Vec<PartRef>, Over> {
        let mut parts = BTreeMap::new();
        let names: BTreeSet<_> = frame.catalog.components().collect();
        for digest in names {
            let name = format!("{COMPONENT}{digest}");
            let part = match self.mentioned.remove(&name) {
                Some(part) => part,
                None => {
                    let bytes = self.options.components.get(digest).unwrap_or_else(|error| {
                        fatal(&format!("component {digest} of a deployment is not in the data directory: {error}"))
                    });
                    let (epoch, generation) = (frame.epoch.0, self.term.generation);
                    self.persist(|store| store.write_system_part(&name, epoch, generation, &bytes))?
                }
            };
            parts.insert(name, part);
        }
        self.mentioned = parts;
        Ok(self.mentioned.values().cloned().collect())
    }

    /// Merges deltas, deletes what is too old, and has the log trimmed behind what is kept.
    fn look_after(&self) -> Result<(), Over> {
        let over = || self.over.load(Ordering::Relaxed);
        // Whoever wants a snapshot now is not to wait for the past to be tidied.
        let stop = || over() || !self.inbox.is_empty();
        let (generation, policy) = (self.term.generation, CompactionPolicy::default());
        let done = self.store.compact(generation, &policy, now().0, &stop).and_then(|compacted| {
            if compacted.partitions > 0 {
                tracing::debug!(partitions = compacted.partitions, written = compacted.written_bytes, "deltas merged");
            }
            self.store.collect(self.options.retention, now().0)
        });
        match done {
            Ok(collected) => {
                if let Some(position) = collected.log_position {
                    (self.hands.trim)(position);
                }
                Ok(())
            }
            // Whoever is over may well be fenced.
            Err(_) if over() => Err(Over),
            Err(SnapshotError::Stopped) => Ok(()),
            // The next one will do it.
            Err(error @ SnapshotError::Store { .. }) => {
                tracing::warn!(code = "SNAPSHOT_STORE", "old snapshots are not looked after: {error}");
                Ok(())
            }
            Err(error) if error.is_damage() => {
                tracing::error!(code = "SNAPSHOT_DAMAGED", "deltas are not merged: {error}");
                Ok(())
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn persist<T>(&self, once: impl Fn(&SnapshotStore) -> Result<T, SnapshotError>) -> Result<T, Over> {
        persist("a snapshot", || once(&self.store), &self.over).ok_or(Over)
    }
}
