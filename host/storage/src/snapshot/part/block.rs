//! A block of entries: columns, so that it costs no allocation per entry to write, check or read.

use rkyv::util::AlignedVec;
use rkyv::{Archive, Serialize, rancor};

use super::BLOCK_BYTES;

/// The length that says: deleted.
const DELETED: u32 = u32::MAX;

/// An entity's entry, borrowed from a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The operator's number.
    pub operator: u32,
    /// The entity's key.
    pub key: &'a [u8],
    /// The value; `None` if the entity was deleted (in deltas only).
    pub value: Option<&'a [u8]>,
}

/// Entries on their way into a block.
#[derive(Default, Archive, Serialize)]
pub(crate) struct Columns {
    operators: Vec<u32>,
    key_lengths: Vec<u32>,
    value_lengths: Vec<u32>,
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Columns {
    pub(crate) fn push(&mut self, entry: Entry<'_>) {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("the writer bounds lengths");
        self.operators.push(entry.operator);
        self.key_lengths.push(length(entry.key));
        self.value_lengths.push(entry.value.map_or(DELETED, length));
        self.keys.extend_from_slice(entry.key);
        self.values.extend_from_slice(entry.value.unwrap_or_default());
    }

    pub(crate) fn len(&self) -> usize {
        self.operators.len()
    }

    /// True if a block should end here.
    pub(crate) fn full(&self) -> bool {
        self.keys.len() + self.values.len() + 12 * self.operators.len() >= BLOCK_BYTES
    }

    pub(crate) fn encode(&self) -> AlignedVec {
        rkyv::to_bytes::<rancor::Error>(self).expect("a block in memory can be written to memory")
    }

    pub(crate) fn clear(&mut self) {
        self.operators.clear();
        self.key_lengths.clear();
        self.value_lengths.clear();
        self.keys.clear();
        self.values.clear();
    }
}

/// A block that was read and checked.
pub(crate) struct Block(AlignedVec<16>);

impl Block {
    /// Checks bytes of a block of `entries`; what does not fit, if something does not.
    pub(crate) fn check(bytes: AlignedVec<16>, entries: usize) -> Result<Self, String> {
        let columns = rkyv::access::<ArchivedColumns, rancor::Error>(&bytes).map_err(|error| error.to_string())?;
        let counts = [columns.operators.len(), columns.key_lengths.len(), columns.value_lengths.len()];
        if counts != [entries; 3] {
            return Err(format!("its columns have {counts:?} entries instead of {entries}"));
        }
        let keys: u64 = columns.key_lengths.iter().map(|length| u64::from(length.to_native())).sum();
        let values = columns.value_lengths.iter().map(|length| length.to_native()).filter(|length| *length != DELETED);
        let values: u64 = values.map(u64::from).sum();
        if (keys, values) != (columns.keys.len() as u64, columns.values.len() as u64) {
            return Err("its lengths do not add up".into());
        }
        Ok(Self(bytes))
    }

    fn columns(&self) -> &ArchivedColumns {
        // SAFETY: `check` accessed these bytes with validation, and nothing changes them afterwards.
        unsafe { rkyv::access_unchecked::<ArchivedColumns>(&self.0) }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut at = Position::default();
        std::iter::from_fn(move || {
            let entry = self.entry(at)?;
            at.step(&entry);
            Some(entry)
        })
    }

    /// The entry at a position; `None` behind the last.
    pub(crate) fn entry(&self, at: Position) -> Option<Entry<'_>> {
        let columns = self.columns();
        let operator = columns.operators.get(at.index)?.to_native();
        let key = &columns.keys[at.key..at.key + columns.key_lengths[at.index].to_native() as usize];
        let value = match columns.value_lengths[at.index].to_native() {
            DELETED => None,
            length => Some(&columns.values[at.value..at.value + length as usize]),
        };
        Some(Entry { operator, key, value })
    }
}

/// Position of an entry in each column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    index: usize,
    key: usize,
    value: usize,
}

impl Position {
    /// Goes behind `entry`, which is the one here.
    pub(crate) fn step(&mut self, entry: &Entry<'_>) {
        self.index += 1;
        self.key += entry.key.len();
        self.value += entry.value.map_or(0, <[u8]>::len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns {
        let mut columns = Columns::default();
        columns.push(Entry { operator: 1, key: b"a", value: Some(b"xyz") });
        columns.push(Entry { operator: 1, key: b"bb", value: None });
        columns.push(Entry { operator: 2, key: b"", value: Some(b"") });
        columns
    }

    fn check(columns: &Columns, entries: usize) -> Result<Block, String> {
        let mut bytes = AlignedVec::<16>::new();
        bytes.extend_from_slice(&columns.encode());
        Block::check(bytes, entries)
    }

    #[test]
    fn a_block_gives_what_was_put_in() {
        let block = check(&columns(), 3).unwrap();
        let expected = [
            Entry { operator: 1, key: b"a", value: Some(b"xyz") },
            Entry { operator: 1, key: b"bb", value: None },
            Entry { operator: 2, key: b"", value: Some(b"") },
        ];
        assert_eq!(block.entries().collect::<Vec<_>>(), expected);
        let mut columns = columns();
        assert!(columns.len() == 3 && !columns.full());
        columns.clear();
        assert_eq!(check(&columns, 0).unwrap().entries().count(), 0);
    }

    #[test]
    fn columns_that_do_not_fit_each_other_are_refused() {
        assert!(check(&columns(), 2).is_err_and(|why| why.contains("3, 3, 3")));
        let changes: [fn(&mut Columns); 5] = [
            |columns| columns.keys.push(0),
            |columns| columns.values.push(0),
            |columns| columns.values.truncate(2),
            |columns| columns.key_lengths[0] = 0,
            |columns| columns.value_lengths[0] = DELETED,
        ];
        for change in changes {
            let mut columns = columns();
            change(&mut columns);
            assert!(check(&columns, 3).is_err_and(|why| why == "its lengths do not add up"));
        }
        for shorter in [
            |columns: &mut Columns| columns.operators.truncate(2),
            |columns: &mut Columns| columns.value_lengths.truncate(2),
        ] {
            let mut columns = columns();
            shorter(&mut columns);
            assert!(check(&columns, 3).is_err_and(|why| why.contains("instead of 3")));
        }
    }

    #[test]
    fn a_block_is_full_by_what_it_holds_and_what_that_costs() {
        let mut columns = Columns::default();
        let value = vec![0; BLOCK_BYTES - 13];
        columns.push(Entry { operator: 0, key: b"", value: Some(&value) });
        assert!(!columns.full());
        columns.keys.push(0);
        assert!(columns.full());
    }
}
