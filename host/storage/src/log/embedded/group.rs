//! A group: the records between two syncs, as one record of the storage.
//!
//! `first sequence number: u64, then per record length: u32, bytes`, all little
//! endian. The storage's checksum covers it; [`decode`] still trusts nothing.

/// What the longest group spends beside a single record.
pub(super) const OVERHEAD_BYTES: usize = HEADER_BYTES + LENGTH_BYTES;

const HEADER_BYTES: usize = size_of::<u64>();
const LENGTH_BYTES: usize = size_of::<u32>();

/// Records that wait for the next sync.
pub(super) struct Group {
    bytes: Vec<u8>,
    first: u64,
    count: u64,
}

impl Group {
    /// An empty group whose first record will have the number `first`.
    pub(super) fn new(first: u64) -> Self {
        let mut group = Self { bytes: Vec::new(), first, count: 0 };
        group.restart(first);
        group
    }

    /// Empties the group, keeping its memory.
    pub(super) fn restart(&mut self, first: u64) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&first.to_le_bytes());
        (self.first, self.count) = (first, 0);
    }

    /// Adds a record and returns its number.
    pub(super) fn push(&mut self, record: &[u8]) -> u64 {
        let length = u32::try_from(record.len()).expect("checked against the limit, which is a u32");
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(record);
        self.count += 1;
        self.next() - 1
    }

    /// Whether `record` may be added without exceeding `limit` bytes. An empty group takes any.
    pub(super) fn fits(&self, record: &[u8], limit: usize) -> bool {
        self.is_empty() || self.bytes.len() + LENGTH_BYTES + record.len() <= limit
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of the first record.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Number after the last record.
    pub(super) fn next(&self) -> u64 {
        self.first + self.count
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// First sequence number and records of an encoded group, or nothing if it is none.
pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Vec<&[u8]>)> {
    let (first, mut rest) = bytes.split_first_chunk()?;
    let first = u64::from_le_bytes(*first);
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk()?;
        let (record, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        records.push(record);
        rest = after;
    }
    first.checked_add(records.len() as u64)?;
    (!records.is_empty()).then_some((first, records))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut group = Group::new(7);
        for record in [&b"one"[..], b"", b"three"] {
            group.push(record);
        }
        assert_eq!((group.first(), group.next()), (7, 10));
        assert_eq!(decode(group.bytes()), Some((7, vec![&b"one"[..], b"", b"three"])));
    }

    #[test]
    fn anything_cut_or_empty_is_refused() {
        let mut group = Group::new(7);
        assert_eq!(decode(group.bytes()), None, "a group without records is never written");
        group.push(b"record");
        for length in 0..group.bytes().len() {
            assert_eq!(decode(&group.bytes()[..length]), None);
        }
        let mut overflowing = u64::MAX.to_le_bytes().to_vec();
        overflowing.extend_from_slice(&[0; LENGTH_BYTES]);
        assert_eq!(decode(&overflowing), None);
    }
}
