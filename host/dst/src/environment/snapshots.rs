//! Snapshots as they come into being and go: each is compared with what was true when it was taken, and nothing goes
//! that another one needs.

use styx_durability::recovery::Found;
use styx_protocol::ids::{Epoch, Generation, LogPosition, PartitionId};
use styx_protocol::snapshot::RestoredState;
use styx_storage::snapshot::{Manifest, Memory, SnapshotStore, StoreLocation};

use super::Environment;
use crate::check::manifests::Mentioned;
use crate::check::{Checked, Failure};
use crate::disk::Disk;
use crate::event::Life;

const MANIFESTS: &str = "manifests/";
const PARTS: &str = "parts/";

impl Environment {
    /// The store as checkers read it: everything is there at once.
    fn checked_store(&self) -> Result<SnapshotStore, Failure> {
        let objects = std::sync::Arc::new(self.store.clone()) as std::sync::Arc<dyn object_store::ObjectStore>;
        let place = StoreLocation::in_memory(&Memory::from(objects));
        let runtime = styx_storage::snapshot::Runtime::Inline(self.names.clone());
        let owner = SnapshotStore::identify(&place, &runtime).map_err(store_failure)?.unwrap_or_default();
        SnapshotStore::open(&place, owner, &runtime).map_err(store_failure)
    }

    pub fn snapshot(&self, sequence: u64) -> Checked<(SnapshotStore, Found)> {
        let store = self.checked_store()?;
        let manifest = store.manifest(sequence).map_err(store_failure)?;
        let found = found(&store, manifest)?;
        Ok((store, found))
    }

    /// The epoch of a snapshot.
    pub fn epoch_of(&self, sequence: u64) -> Checked<Epoch> {
        Ok(self.snapshot(sequence)?.1.metadata.header.epoch)
    }

    /// Numbers of all snapshots that can be begun with.
    pub fn usable(&self) -> Vec<u64> {
        let is_usable = |(sequence, mentioned): &(u64, &Mentioned)| {
            let is_damaged = |name: &String| self.damaged.contains_key(name);
            mentioned.position >= self.log_from
                && !is_damaged(&manifest_name(*sequence))
                && !mentioned.parts.iter().any(is_damaged)
        };
        self.manifests.iter().filter(is_usable).map(|(sequence, _)| sequence).collect()
    }

    /// Whether an object is the manifest of a snapshot that newer ones have followed.
    pub fn is_behind(&self, name: &str) -> bool {
        let sequence = name.strip_prefix(MANIFESTS).and_then(|digits| digits.parse::<u64>().ok());
        sequence.is_some_and(|sequence| sequence < self.manifests.newest())
    }

    pub(super) fn was_put(&mut self, name: &str) {
        let Some(sequence) = name.strip_prefix(MANIFESTS).and_then(|digits| digits.parse().ok()) else { return };
        if let Err(failure) = self.manifest_put(sequence) {
            self.broken.get_or_insert(failure);
        }
    }

    fn manifest_put(&mut self, sequence: u64) -> Checked {
        if self.manifests.is_gone(sequence) {
            // Its writer had given it up, and has put another one under this number since. Nobody begins with what is older
            // than all others, and whoever looks after old ones deletes it.
            return Ok(());
        }
        let store = self.checked_store()?;
        let manifest = store.manifest(sequence).map_err(store_failure)?;
        let parts: Vec<String> = manifest.parts().map(|part| part.object.clone()).collect();
        // Deltas that continue what is damaged are of no more use than it: none would be left, sooner or later.
        parts.iter().for_each(|part| self.repair(part));
        let found = found(&store, manifest)?;
        let epoch = found.metadata.header.epoch;
        let mentioned = Mentioned {
            generation: Generation(found.manifest.generation),
            epoch,
            position: LogPosition(found.manifest.log_position),
            parts,
        };
        let contents = &self.store;
        let is_new =
            self.manifests.put(sequence, mentioned, self.durable, |part| contents.contents().contains(part))?;
        let now = self.queue.now();
        self.trace.event(now, [22, sequence, epoch.0], || format!("snapshot {sequence} of epoch {epoch} exists"));
        if !is_new {
            return Ok(());
        }
        self.figures.snapshots += u64::from(!self.checker.knows_snapshot(epoch));
        let restored = found.restore(&store, 1, (found.metadata.layout(), &|_| true), None);
        let restored = restored.map_err(|error| Failure::new("snapshot", format!("{error:#}")))?;
        self.checker.snapshot(restored)
    }

    /// Something was deleted: nothing that a snapshot mentions may go before it.
    pub(super) fn was_deleted(&mut self, name: &str) {
        let mut checked = Ok(());
        if let Some(sequence) = name.strip_prefix(MANIFESTS).and_then(|digits| digits.parse().ok()) {
            checked = self.manifests.deleted(sequence, self.plan.snapshotting.retention.epochs_min);
            if self.usable().is_empty() {
                let names: Vec<String> = self.damaged.keys().cloned().collect();
                names.iter().for_each(|name| self.repair(name));
            }
        }
        if name.starts_with(PARTS) {
            checked = self.manifests.part_deleted(name);
        }
        if let Err(failure) = checked {
            self.broken.get_or_insert(failure);
        }
    }

    fn repair(&mut self, name: &str) {
        if let Some(before) = self.damaged.remove(name) {
            self.store.contents().repair(&object_store::path::Path::from(name), before);
        }
    }

    /// Something of the newest snapshot is damaged, unless another one of an earlier epoch needs it as well, or there is
    /// none: one must always be left. Gives whether something is.
    pub fn damage_snapshot(&mut self) -> bool {
        let mut newest = self.manifests.iter().rev();
        let Some((sequence, Mentioned { parts, .. })) = newest.next() else { return false };
        let others: Vec<&String> = newest.flat_map(|(_, other)| &other.parts).collect();
        if others.is_empty() || self.usable().len() < self.manifests.len() {
            return false;
        }
        let own: Vec<&String> = parts.iter().filter(|part| !others.contains(part)).collect();
        if own.is_empty() {
            return false;
        }
        let manifest = manifest_name(sequence);
        let name = if self.random.chance(250) { manifest } else { self.random.pick(&own).clone() };
        self.figures.damaged += 1;
        let (at, cut) = (self.random.number(), self.random.chance(500));
        let before = self.store.contents().damage(&object_store::path::Path::from(name.as_str()), at, cut);
        self.damaged.extend(before.map(|before| (name, before)));
        true
    }

    /// Something of the log on a disk is damaged that nobody needs who begins with the newest snapshot, unless that or the
    /// log is damaged already.
    pub fn damage_log(&mut self, disk: &Disk, power: bool) {
        let newest = self.manifests.iter().next_back().map(|(sequence, newest)| (sequence, newest.position));
        let Some((newest, covered)) = newest.filter(|_| self.damaged.is_empty() && !self.log_damaged) else { return };
        if !self.usable().contains(&newest) {
            return;
        }
        if let Some((what, lost)) = disk.damage(covered, power, &mut self.random) {
            (self.log_damaged, self.log_from) = (true, self.log_from.max(lost));
            self.figures.damaged_logs += 1;
            self.trace
                .event(self.queue.now(), [31, lost.0], || format!("{what} is damaged; snapshots go on at {covered}"));
        }
    }

    /// The log is to forget what stands before a position.
    ///
    /// # Errors
    /// A snapshot that is kept goes on before it.
    pub fn trims(&mut self, until: LogPosition) -> Checked {
        self.manifests.trimmed(until)
    }

    /// A worker's machine has given its part of a snapshot: with the first part, it is known what it must hold.
    ///
    /// # Errors
    /// It is of another epoch than the last.
    pub fn part_begun(&mut self, generation: Generation, epoch: Epoch) -> Checked {
        let newest = self.generations.last_key_value().filter(|(newest, _)| **newest == generation);
        // One that has not heard yet that its generation is over writes what nobody will use.
        let Some(leader) = newest.map(|(_, view)| view.leader) else { return Ok(()) };
        let is_other = self.checker.epoch() != epoch || !self.checker.is_between_epochs();
        if is_other && self.is_replaced(leader) { Ok(()) } else { self.checker.expectation(epoch) }
    }

    /// The same of a single process.
    ///
    /// # Errors
    /// It is of another epoch than the last.
    pub fn part_begun_alone(&mut self, epoch: Epoch) -> Checked {
        self.checker.expectation(epoch)
    }

    /// A worker has read what its generation begins with.
    ///
    /// # Errors
    /// It holds something that was not there.
    pub fn restored(&mut self, life: Life, generation: Generation, restored: &RestoredState) -> Checked {
        let now = self.queue.now();
        let epoch = restored.frame.epoch;
        self.trace.event(now, [23, life.node as u64, generation.0, epoch.0], || {
            format!("{life} has read epoch {epoch} for generation {generation}")
        });
        let Some(view) = self.generations.get(&generation) else { return Ok(()) };
        let Some(me) = view.worker_on(life.node) else { return Ok(()) };
        let placement = view.placement.clone();
        let partitions = placement.partitions();
        self.checker.restored(restored, partitions, &|partition: PartitionId| placement.owner(partition) == me)
    }

    /// A single process has read the snapshot that it begins with, into so many partitions.
    ///
    /// # Errors
    /// It holds something that was not there.
    pub fn restored_alone(&mut self, restored: &RestoredState, partitions: u32) -> Checked {
        self.checker.restored(restored, partitions, &|_| true)
    }
}

/// The name of a snapshot's manifest in the store.
fn manifest_name(sequence: u64) -> String {
    format!("{MANIFESTS}{sequence:020}")
}

fn found(store: &SnapshotStore, manifest: Manifest) -> Checked<Found> {
    Found::read(store, manifest).map_err(|error| Failure::new("snapshot", format!("it cannot be read: {error:#}")))
}

fn store_failure(error: styx_storage::snapshot::SnapshotError) -> Failure {
    Failure::new("snapshot", error.to_string())
}
