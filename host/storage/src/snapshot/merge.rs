//! Merges a run of parts of one partition into one: newer entries hide older ones.
//!
//! All parts are read at once, a block of each in memory, so that a merge needs as much memory as the chain is
//! long, whatever the partition's size.

use std::cmp::Ordering;

use styx_planted::{Bug, planted};

use super::error::SnapshotError;
use super::manifest::{PartKind, PartRef};
use super::part::block::{Block, Entry, Position};
use super::part::pieces::Pieces;
use super::part::reader::PartReader;
use super::part::writer::PartWriter;

/// A part and how far it was read.
struct Cursor {
    reader: PartReader,
    block: Option<Block>,
    at: Position,
}

impl Cursor {
    fn new(reader: PartReader) -> Result<Self, SnapshotError> {
        let mut cursor = Self { reader, block: None, at: Position::default() };
        cursor.refill()?;
        Ok(cursor)
    }

    fn peek(&self) -> Option<Entry<'_>> {
        self.block.as_ref()?.entry(self.at)
    }

    fn advance(&mut self) -> Result<(), SnapshotError> {
        if let Some(entry) = self.block.as_ref().and_then(|block| block.entry(self.at)) {
            self.at.step(&entry);
        }
        if self.peek().is_none() { self.refill() } else { Ok(()) }
    }

    /// The next block that is not empty, or none at the end.
    fn refill(&mut self) -> Result<(), SnapshotError> {
        loop {
            self.at = Position::default();
            self.block = self.reader.next_block()?;
            if self.block.is_none() || self.peek().is_some() {
                return Ok(());
            }
        }
    }
}

/// Writes what `parts`, oldest first, come to; a base tells no deletions, a delta passes them on. Asks `stop`
/// now and then.
pub(crate) fn merge(
    pieces: &Pieces,
    parts: &[PartRef],
    mut writer: PartWriter<'_>,
    kind: PartKind,
    stop: &dyn Fn() -> bool,
) -> Result<(), SnapshotError> {
    let readers = PartReader::open_all(pieces, parts)?;
    let mut cursors = readers.into_iter().map(Cursor::new).collect::<Result<Vec<_>, _>>()?;
    let mut lowest = Vec::with_capacity(cursors.len());
    for count in 0_u64.. {
        if count % 4096 == 0 && stop() {
            return Err(SnapshotError::Stopped);
        }
        // Chains are short, so looking at every head is as quick as keeping them in a heap.
        lowest.clear();
        let mut key = None;
        for (index, cursor) in cursors.iter().enumerate() {
            let Some(entry) = cursor.peek() else { continue };
            let this = (entry.operator, entry.key);
            match key.map_or(Ordering::Less, |lowest| this.cmp(&lowest)) {
                Ordering::Greater => continue,
                Ordering::Less => lowest.clear(),
                Ordering::Equal => {}
            }
            key = Some(this);
            lowest.push(index);
        }
        if planted(Bug::OlderValueMerged) {
            lowest.reverse();
        }
        let Some(newest) = lowest.last().and_then(|newest| cursors[*newest].peek()) else { break };
        if newest.value.is_some() || kind == PartKind::Delta {
            writer.push(newest.operator, newest.key, newest.value)?;
        }
        for index in &lowest {
            cursors[*index].advance()?;
        }
    }
    writer.finish()
}
