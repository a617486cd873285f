//! Snapshot drivers: a worker's writes what its machine hands over; the
//! coordinator's begins them, and makes them exist once all of them is written and the log is durable.
//!
//! Whatever is put into the store arrives there after a while, even if the process that sent it is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_protocol::ids::{Epoch, Generation, PartitionId, WorkerId};
use styx_protocol::route::partition_of;
use styx_protocol::snapshot::{SnapshotHeader, WorkerSnapshot};
use styx_protocol::state::Write;

use crate::check::{Checked, ensure};
use crate::environment::Environment;
use crate::event::{Event, Life, NodeEvent, Put};
use crate::store::{Delta, Manifest, Written};

/// A worker's part of snapshots.
#[derive(Debug, Default)]
pub(super) struct DeltaWriter {
    part: Option<Box<WorkerSnapshot>>,
    changes: Vec<Write>,
}

impl DeltaWriter {
    /// The machine's part; its entities follow when there is time.
    pub(super) fn part(&mut self, part: Box<WorkerSnapshot>, life: Life, environment: &mut Environment) {
        assert!(self.part.is_none(), "snapshots come one after the other");
        self.part = Some(part);
        more(life, environment);
    }

    /// Changes of entities, the last or not.
    pub(super) fn changes(&mut self, changes: Vec<Write>, last: bool, life: Life, environment: &mut Environment) {
        self.changes.extend(changes);
        if last { upload(life, environment) } else { more(life, environment) }
    }

    /// An upload is over. If it failed it is tried again; some of it may be in the store for nothing.
    pub(super) fn uploaded(&mut self, generation: u64, life: Life, environment: &mut Environment) -> Option<Written> {
        let fails = !environment.calm && environment.random.chance(environment.plan.snapshotting.failures);
        let partitions = environment.plan.config.layout.partitions;
        let mut deltas: BTreeMap<PartitionId, Delta> = BTreeMap::new();
        let part = self.part.as_ref().expect("it is being uploaded");
        for write in &self.changes {
            deltas.entry(write.0.partition()).or_default().entities.push(write.clone());
        }
        for change in &part.replies {
            deltas.entry(partition_of(change.id(), partitions)).or_default().replies.push(change.clone());
        }
        let until = if fails { environment.random.below(deltas.len() as u64 + 1) as usize } else { deltas.len() };
        let deltas = deltas.into_iter().take(until);
        let parts = deltas.map(|(id, delta)| (id, environment.store.write(generation, delta))).collect();
        if fails {
            environment.figures.store_failures += 1;
            upload(life, environment);
            return None;
        }
        self.changes.clear();
        let WorkerSnapshot { epoch, hashes, carried, .. } = *self.part.take().expect("just seen");
        Some(Written { epoch, hashes, parts, carried })
    }
}

fn more(life: Life, environment: &mut Environment) {
    let delay = environment.delay(environment.plan.snapshotting.store);
    environment.later(life, delay / 4, NodeEvent::HandOver);
}

fn upload(life: Life, environment: &mut Environment) {
    let delay = environment.delay(environment.plan.snapshotting.store);
    environment.later(life, delay, NodeEvent::Uploaded);
}

/// The snapshot under way.
#[derive(Debug)]
struct InFlight {
    frame: Option<Box<SnapshotHeader>>,
    written: BTreeMap<WorkerId, Written>,
    /// Manifest that was sent to the store.
    manifest: Option<Arc<Manifest>>,
}

/// The coordinator's part of snapshots, in one generation.
#[derive(Debug)]
pub(super) struct SnapshotScheduler {
    life: Life,
    generation: u64,
    workers: usize,
    /// The newest manifest of this generation.
    newest: Arc<Manifest>,
    durable: Epoch,
    in_flight: Option<InFlight>,
}

impl SnapshotScheduler {
    /// Scheduler of a generation that has begun with a snapshot and a durable log up to an epoch.
    pub(super) fn new(
        life: Life,
        generation: u64,
        workers: usize,
        newest: Arc<Manifest>,
        durable: Epoch,
        environment: &mut Environment,
    ) -> Self {
        let scheduler = SnapshotScheduler { life, generation, workers, newest, durable, in_flight: None };
        scheduler.schedule(environment);
        scheduler
    }

    fn schedule(&self, environment: &mut Environment) {
        let delay = environment.delay(environment.plan.snapshotting.every);
        environment.later(self.life, delay, NodeEvent::SnapshotDue);
    }

    /// Whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.in_flight.is_none()
    }

    /// It is time; whether the machine shall begin a snapshot. `reached` is the last epoch that ended, if
    /// the generation is live.
    pub(super) fn due(&mut self, reached: Option<Epoch>, environment: &mut Environment) -> bool {
        self.schedule(environment);
        self.begin(reached)
    }

    /// The same out of turn.
    pub(super) fn begin(&mut self, reached: Option<Epoch>) -> bool {
        if !self.is_quiet() || reached.is_none_or(|reached| reached <= self.newest.frame.epoch) {
            return false;
        }
        self.in_flight = Some(InFlight { frame: None, written: BTreeMap::new(), manifest: None });
        true
    }

    /// The machine's part.
    pub(super) fn frame(&mut self, frame: Box<SnapshotHeader>) {
        self.in_flight.as_mut().expect("it was requested").frame = Some(frame);
    }

    /// A worker has written its part.
    pub(super) fn written(&mut self, worker: WorkerId, written: Written) {
        let before = self.in_flight.as_mut().expect("it was requested").written.insert(worker, written);
        assert!(before.is_none(), "each worker writes its part once");
    }

    /// The log is durable up to there.
    pub(super) fn durable(&mut self, epoch: Epoch) {
        self.durable = self.durable.max(epoch);
    }

    /// If all is written and durable, sends the manifest to the store.
    ///
    /// # Errors
    /// A worker's part is of another epoch.
    pub(super) fn advance(&mut self, environment: &mut Environment) -> Checked {
        let Some(InFlight { frame: Some(frame), written, manifest: None }) = &mut self.in_flight else {
            return Ok(());
        };
        let durable = frame.epoch <= self.durable;
        if written.len() < self.workers || !durable {
            return Ok(());
        }
        let mut partitions = self.newest.partitions.clone();
        let mut carried = Vec::new();
        for (worker, part) in std::mem::take(written) {
            ensure(part.epoch == frame.epoch, "snapshot", || {
                format!("worker {worker} notes its part of the snapshot of epoch {} in {}", frame.epoch, part.epoch)
            })?;
            for (id, name) in part.parts {
                partitions[usize::from(id.0)].parts.push(name);
            }
            for (id, hash) in part.hashes {
                partitions[usize::from(id.0)].hash = hash;
            }
            carried.extend(part.carried);
        }
        for held in &mut partitions {
            environment.store.compact(self.generation, &mut held.parts);
        }
        carried.sort_unstable_by_key(|carried| carried.tid);
        let frame = (**frame).clone();
        let number = self.newest.number + 1;
        let manifest = Arc::new(Manifest { number, generation: self.generation, frame, carried, partitions });
        self.send(manifest, environment);
        Ok(())
    }

    fn send(&mut self, manifest: Arc<Manifest>, environment: &mut Environment) {
        let delay = environment.delay(environment.plan.snapshotting.store);
        environment.queue.after(&mut environment.random, delay, Event::Put(self.life, manifest.clone()));
        self.in_flight.as_mut().expect("it is under way").manifest = Some(manifest);
    }

    /// The store has answered, or not. Says whether a later coordinator leads.
    ///
    /// # Errors
    /// Somebody else wrote a manifest with this generation's number.
    pub(super) fn put(&mut self, put: Put, environment: &mut Environment) -> Checked<bool> {
        let Some(InFlight { manifest: Some(manifest), .. }) = &self.in_flight else { return Ok(false) };
        let manifest = manifest.clone();
        match put {
            Put::Unanswered => {
                environment.figures.store_failures += 1;
                self.send(manifest, environment);
                return Ok(false);
            }
            Put::Taken(Some(other)) if Arc::ptr_eq(&other, &manifest) => {}
            Put::Taken(other) => {
                let above = other.as_ref().is_none_or(|other| other.generation > self.generation);
                ensure(above, "snapshot", || {
                    let taken = other.map_or(0, |other| other.generation);
                    format!("generation {} finds manifest {} of generation {taken}", self.generation, manifest.number)
                })?;
                return Ok(true);
            }
            Put::Done => {}
        }
        (self.newest, self.in_flight) = (manifest, None);
        // What a later coordinator builds on is its own affair.
        if !environment.disk.fence().admits(Generation(self.generation)) {
            return Ok(true);
        }
        let oldest = environment.store.collect(self.generation);
        environment.disk.trim(oldest);
        let (trimmed, needed) = (environment.disk.trimmed(), environment.store.oldest());
        ensure(trimmed <= needed, "snapshot", || {
            format!("the log is trimmed up to epoch {trimmed}, and a snapshot of epoch {needed} is kept")
        })?;
        Ok(false)
    }
}
