//! What the drivers do for snapshots: a worker's writes what its machine hands over; the
//! coordinator's begins them, and makes them exist once all of them is written and the log is durable.
//!
//! What is put into the store arrives there after a while, even if the process that sent it is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_protocol::ids::{Epoch, Generation, PartitionId, WorkerId};
use styx_protocol::route::partition_of;
use styx_protocol::snapshot::{CarriedTransaction, SnapshotHeader, WorkerSnapshot};
use styx_protocol::state::{StateHash, Write};

use super::{Life, NodeEvent, Outside};
use crate::check::{Checked, ensure};
use crate::store::{Delta, Manifest};
use crate::world::Event;

/// What a worker has written for a snapshot.
#[derive(Clone, Debug)]
pub struct Written {
    /// The snapshot's epoch.
    pub epoch: Epoch,
    /// Hash of each of its partitions.
    pub hashes: Vec<(PartitionId, StateHash)>,
    /// Names of the deltas of partitions that have changed.
    pub parts: Vec<(PartitionId, u64)>,
    /// Its transactions that were moved to the next epoch.
    pub carried: Vec<CarriedTransaction>,
}

/// A worker's part of snapshots.
#[derive(Debug, Default)]
pub(super) struct Collector {
    part: Option<Box<WorkerSnapshot>>,
    changes: Vec<Write>,
}

impl Collector {
    /// The machine's part; its entities follow when there is time.
    pub(super) fn part(&mut self, part: Box<WorkerSnapshot>, life: Life, outside: &mut Outside) {
        assert!(self.part.is_none(), "snapshots come one after the other");
        self.part = Some(part);
        more(life, outside);
    }

    /// Changes of entities, the last or not.
    pub(super) fn changes(&mut self, changes: Vec<Write>, last: bool, life: Life, outside: &mut Outside) {
        self.changes.extend(changes);
        if last { upload(life, outside) } else { more(life, outside) }
    }

    /// An upload is over. If it failed it is tried again; some of it may be in the store for nothing.
    pub(super) fn uploaded(&mut self, generation: u64, life: Life, outside: &mut Outside) -> Option<Written> {
        let fails = !outside.calm && outside.random.chance(outside.plan.snapshotting.failures);
        let partitions = outside.plan.config.layout.partitions;
        let mut deltas: BTreeMap<PartitionId, Delta> = BTreeMap::new();
        let part = self.part.as_ref().expect("it is being uploaded");
        for write in &self.changes {
            deltas.entry(write.0.partition()).or_default().entities.push(write.clone());
        }
        for change in &part.replies {
            deltas.entry(partition_of(change.id(), partitions)).or_default().replies.push(change.clone());
        }
        let until = if fails { outside.random.below(deltas.len() as u64 + 1) as usize } else { deltas.len() };
        let deltas = deltas.into_iter().take(until);
        let parts = deltas.map(|(id, delta)| (id, outside.store.write(generation, delta))).collect();
        if fails {
            outside.figures.store_failures += 1;
            upload(life, outside);
            return None;
        }
        self.changes.clear();
        let WorkerSnapshot { epoch, hashes, carried, .. } = *self.part.take().expect("just seen");
        Some(Written { epoch, hashes, parts, carried })
    }
}

fn more(life: Life, outside: &mut Outside) {
    let delay = outside.delay(outside.plan.snapshotting.store);
    outside.later(life, delay / 4, NodeEvent::HandOver);
}

fn upload(life: Life, outside: &mut Outside) {
    let delay = outside.delay(outside.plan.snapshotting.store);
    outside.later(life, delay, NodeEvent::Uploaded);
}

/// What became of a manifest that was sent to the store.
#[derive(Clone, Debug)]
pub enum Put {
    /// It is there.
    Done,
    /// Its number is taken, by this one if it can be read.
    Taken(Option<Arc<Manifest>>),
    /// Who knows.
    Unanswered,
}

/// The snapshot under way.
#[derive(Debug)]
struct UnderWay {
    frame: Option<Box<SnapshotHeader>>,
    written: BTreeMap<WorkerId, Written>,
    /// What was sent to the store.
    manifest: Option<Arc<Manifest>>,
}

/// The coordinator's part of snapshots, in one generation.
#[derive(Debug)]
pub(super) struct Keeper {
    life: Life,
    generation: u64,
    workers: usize,
    /// The newest manifest of this generation.
    newest: Arc<Manifest>,
    durable: Epoch,
    under_way: Option<UnderWay>,
}

impl Keeper {
    /// Of a generation that has begun with a snapshot and a durable log up to an epoch.
    pub(super) fn new(
        life: Life,
        generation: u64,
        workers: usize,
        newest: Arc<Manifest>,
        durable: Epoch,
        outside: &mut Outside,
    ) -> Self {
        let keeper = Keeper { life, generation, workers, newest, durable, under_way: None };
        keeper.look_again(outside);
        keeper
    }

    fn look_again(&self, outside: &mut Outside) {
        let delay = outside.delay(outside.plan.snapshotting.every);
        outside.later(self.life, delay, NodeEvent::Wish);
    }

    /// Whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.is_none()
    }

    /// It is time; whether the machine shall begin a snapshot. `reached` is the last epoch that ended, if
    /// the generation is live.
    pub(super) fn wish(&mut self, reached: Option<Epoch>, outside: &mut Outside) -> bool {
        self.look_again(outside);
        self.begin(reached)
    }

    /// The same out of turn.
    pub(super) fn begin(&mut self, reached: Option<Epoch>) -> bool {
        if !self.is_quiet() || reached.is_none_or(|reached| reached <= self.newest.frame.epoch) {
            return false;
        }
        self.under_way = Some(UnderWay { frame: None, written: BTreeMap::new(), manifest: None });
        true
    }

    /// The machine's part.
    pub(super) fn frame(&mut self, frame: Box<SnapshotHeader>) {
        self.under_way.as_mut().expect("it was asked for").frame = Some(frame);
    }

    /// A worker has written its part.
    pub(super) fn written(&mut self, worker: WorkerId, written: Written) {
        let before = self.under_way.as_mut().expect("it was asked for").written.insert(worker, written);
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
    pub(super) fn go_on(&mut self, outside: &mut Outside) -> Checked {
        let Some(UnderWay { frame: Some(frame), written, manifest: None }) = &mut self.under_way else {
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
            outside.store.compact(self.generation, &mut held.parts);
        }
        carried.sort_unstable_by_key(|carried| carried.tid);
        let frame = (**frame).clone();
        let number = self.newest.number + 1;
        let manifest = Arc::new(Manifest { number, generation: self.generation, frame, carried, partitions });
        self.send(manifest, outside);
        Ok(())
    }

    fn send(&mut self, manifest: Arc<Manifest>, outside: &mut Outside) {
        let delay = outside.delay(outside.plan.snapshotting.store);
        outside.queue.after(&mut outside.random, delay, Event::Put(self.life, manifest.clone()));
        self.under_way.as_mut().expect("it is under way").manifest = Some(manifest);
    }

    /// The store has answered, or not. Says whether a later coordinator leads.
    ///
    /// # Errors
    /// Somebody else wrote a manifest with this generation's number.
    pub(super) fn put(&mut self, put: Put, outside: &mut Outside) -> Checked<bool> {
        let Some(UnderWay { manifest: Some(manifest), .. }) = &self.under_way else { return Ok(false) };
        let manifest = manifest.clone();
        match put {
            Put::Unanswered => {
                outside.figures.store_failures += 1;
                self.send(manifest, outside);
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
        (self.newest, self.under_way) = (manifest, None);
        // What a later coordinator builds on is its own affair.
        if !outside.disk.fence().admits(Generation(self.generation)) {
            return Ok(true);
        }
        let oldest = outside.store.collect(self.generation);
        outside.disk.trim(oldest);
        let (trimmed, needed) = (outside.disk.trimmed(), outside.store.oldest());
        ensure(trimmed <= needed, "snapshot", || {
            format!("the log is trimmed up to epoch {trimmed}, and a snapshot of epoch {needed} is kept")
        })?;
        Ok(false)
    }
}

impl Outside {
    /// A manifest reaches the store.
    ///
    /// # Errors
    /// It must not exist, or does not say what is true.
    pub fn put(&mut self, life: Life, manifest: &Arc<Manifest>) -> Checked {
        let snapshotting = self.plan.snapshotting;
        // Lost on the way there, or the answer on the way back.
        let fails = !self.calm && self.random.chance(snapshotting.failures);
        let put = if fails && self.random.chance(500) {
            Put::Unanswered
        } else {
            match self.store.put(manifest) {
                Ok(()) => {
                    let (now, epoch) = (self.queue.now(), manifest.frame.epoch);
                    self.trace.event(now, [17, manifest.number, epoch.0], || {
                        format!("{life} has written snapshot {} of epoch {epoch}", manifest.number)
                    });
                    self.figures.snapshots += 1;
                    let durable = self.disk.durable();
                    ensure(epoch <= durable, "snapshot", || {
                        format!("snapshot {} is of epoch {epoch}; durable is {durable}", manifest.number)
                    })?;
                    self.judge.snapshot(manifest, &self.store)?;
                    if fails { Put::Unanswered } else { Put::Done }
                }
                Err(other) => Put::Taken(other),
            }
        };
        let delay = self.delay(snapshotting.store) / 2;
        self.later(life, delay, NodeEvent::Put(put));
        Ok(())
    }

    /// A generation begins, or the only process: the snapshot that it starts from, which may be that of nothing.
    ///
    /// # Errors
    /// There is none, and the log does not hold everything.
    pub(super) fn take_over(&mut self, life: Life, generation: u64) -> Checked<Option<Arc<Manifest>>> {
        if !self.plan.config.snapshots {
            return Ok(None);
        }
        let trimmed = self.disk.trimmed();
        if !self.calm && self.random.chance(self.plan.snapshotting.damage) && self.store.damage(&mut self.random) {
            self.figures.damaged += 1;
        }
        let partitions = self.plan.config.layout.partitions;
        let (manifest, before) = self.store.take_over(generation, partitions, trimmed)?;
        self.judge.taken_over(before, manifest.number);
        let (now, epoch) = (self.queue.now(), manifest.frame.epoch);
        self.trace.event(now, [18, before, manifest.number, epoch.0], || {
            format!("{life} starts from snapshot {before} of epoch {epoch}, now {}", manifest.number)
        });
        self.figures.restores += u64::from(epoch > Epoch(0));
        Ok(Some(manifest))
    }
}
