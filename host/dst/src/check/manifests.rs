//! Manifests in the store, and what each rests on: it comes after that and goes before it.

use std::collections::{BTreeMap, BTreeSet};

use styx_protocol::ids::{Epoch, Generation, LogPosition};

use super::{Checked, Failure, ensure};

/// What a manifest says.
#[derive(Clone, Debug)]
pub struct Mentioned {
    /// Who has put it.
    pub generation: Generation,
    /// The snapshot is of its end.
    pub epoch: Epoch,
    /// Replay goes on with this record.
    pub position: LogPosition,
    /// Objects that it consists of.
    pub parts: Vec<String>,
}

/// See the module: by number.
#[derive(Debug, Default)]
pub struct Manifests {
    there: BTreeMap<u64, Mentioned>,
    /// Numbers of those that were there once.
    gone: BTreeSet<u64>,
    /// The highest number there was, and its generation.
    newest: (u64, Generation),
}

impl Manifests {
    /// All that are there, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &Mentioned)> {
        self.there.iter().map(|(sequence, mentioned)| (*sequence, mentioned))
    }

    /// Number of the newest that was put.
    pub fn newest(&self) -> u64 {
        self.newest.0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.there.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.there.is_empty()
    }

    /// Whether one was there that has this number, and was deleted.
    pub fn is_gone(&self, sequence: u64) -> bool {
        self.gone.contains(&sequence)
    }

    /// One was put. Gives whether its content is new: not what another one of its epoch mentions as well.
    ///
    /// # Errors
    /// What it rests on is not durable or not there, or its writer was replaced before.
    pub fn put(
        &mut self,
        sequence: u64,
        mentioned: Mentioned,
        durable: Epoch,
        exists: impl Fn(&str) -> bool,
    ) -> Checked<bool> {
        let Mentioned { generation, epoch, parts, .. } = &mentioned;
        ensure(*epoch <= durable, "snapshot", || {
            format!("snapshot {sequence} is of epoch {epoch}; durable is {durable}")
        })?;
        let missing = parts.iter().find(|part| !exists(part));
        ensure(missing.is_none(), "snapshot", || {
            format!("snapshot {sequence} mentions {missing:?}, which is not there")
        })?;
        ensure((sequence, *generation) >= self.newest && *generation >= self.newest.1, "snapshot", || {
            format!("generation {generation} puts snapshot {sequence} behind {:?}", self.newest)
        })?;
        self.newest = (sequence, *generation);
        let known = self.there.values().any(|other| (other.epoch, &other.parts) == (*epoch, parts));
        self.there.insert(sequence, mentioned);
        Ok(!known)
    }

    /// One is deleted, though the snapshots of so many epochs are to be kept.
    pub fn deleted(&mut self, sequence: u64, epochs_min: usize) -> Checked {
        let Some(gone) = self.there.remove(&sequence) else { return Ok(()) };
        self.gone.insert(sequence);
        let newer: BTreeSet<Epoch> = self.there.range(sequence..).map(|(_, newer)| newer.epoch).collect();
        ensure(newer.len() >= epochs_min, "snapshot", || {
            format!("snapshot {sequence} of epoch {} is deleted; newer ones are of {newer:?}", gone.epoch)
        })
    }

    pub fn part_deleted(&self, name: &str) -> Checked {
        let mentions = self.there.iter().find(|(_, mentioned)| mentioned.parts.iter().any(|part| part == name));
        mentions.map_or(Ok(()), |(sequence, _)| {
            Err(Failure::new("snapshot", format!("{name} is deleted, and snapshot {sequence} mentions it")))
        })
    }

    /// The log is to forget what stands before a position.
    ///
    /// # Errors
    /// Nobody could begin: a snapshot goes on before it, or there is none.
    pub fn trimmed(&self, until: LogPosition) -> Checked {
        let needed = self.there.values().map(|mentioned| mentioned.position).min();
        ensure(needed.is_some_and(|needed| until <= needed), "snapshot", || {
            format!("the log is trimmed up to {until}, and snapshots go on at {needed:?}")
        })
    }
}
