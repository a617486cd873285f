//! The store of snapshots as nodes reach it: what is put arrives late, fails, or is not answered.

use std::sync::Arc;

use styx_protocol::ids::Epoch;

use super::Environment;
use crate::check::{Checked, ensure};
use crate::event::{Life, NodeEvent, Put};
use crate::store::Manifest;

impl Environment {
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
                    self.checker.snapshot(manifest, &self.store)?;
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
    pub fn take_over(&mut self, life: Life, generation: u64) -> Checked<Option<Arc<Manifest>>> {
        if !self.plan.config.snapshots {
            return Ok(None);
        }
        let trimmed = self.disk.trimmed();
        if !self.calm && self.random.chance(self.plan.snapshotting.damage) && self.store.damage(&mut self.random) {
            self.figures.damaged += 1;
        }
        let partitions = self.plan.config.layout.partitions;
        let (manifest, before) = self.store.take_over(generation, partitions, trimmed)?;
        self.checker.taken_over(before, manifest.number);
        let (now, epoch) = (self.queue.now(), manifest.frame.epoch);
        self.trace.event(now, [18, before, manifest.number, epoch.0], || {
            format!("{life} starts from snapshot {before} of epoch {epoch}, now {}", manifest.number)
        });
        self.figures.restores += u64::from(epoch > Epoch(0));
        Ok(Some(manifest))
    }
}
