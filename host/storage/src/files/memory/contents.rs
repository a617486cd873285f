//! The bytes of a file: as they were written last, and as they were synced last.

use std::collections::BTreeSet;

/// A disk writes so many bytes whole or not at all.
const SECTOR_BYTES: usize = 512;

#[derive(Default)]
pub(super) struct Contents {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// Numbers of the sectors that were written since.
    written: BTreeSet<usize>,
    /// Offset behind the last byte that was ever written; what follows is reserved.
    end: usize,
    /// The same, when it was synced.
    synced_end: usize,
    /// Number of the open file that has the lock.
    pub(super) holder: Option<u64>,
}

impl Contents {
    pub(super) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        let start = usize::try_from(offset).expect("a file fits into memory");
        let end = start + bytes.len();
        self.reserve(end as u64);
        self.bytes[start..end].copy_from_slice(bytes);
        self.end = self.end.max(end);
        self.written.extend(start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
    }

    /// Has at least so many bytes, the new ones zeros.
    pub(super) fn reserve(&mut self, bytes: u64) {
        let length = usize::try_from(bytes).expect("a file fits into memory");
        self.bytes.resize(self.bytes.len().max(length), 0);
    }

    pub(super) fn empty(&mut self) {
        self.written.extend(0..self.bytes.len().div_ceil(SECTOR_BYTES));
        self.bytes.clear();
        self.end = 0;
    }

    pub(super) fn sync(&mut self) {
        self.synced.resize(self.bytes.len(), 0);
        for sector in std::mem::take(&mut self.written) {
            copy_sector(&self.bytes, &mut self.synced, sector);
        }
        self.synced_end = self.end;
    }

    /// Loses what was not synced, but for the length and the sectors that are chosen.
    pub(super) fn crash(&mut self, choose: &mut dyn FnMut(u64) -> u64) {
        let (synced, written) = (std::mem::take(&mut self.synced), std::mem::take(&mut self.written));
        let (shortest, longest) = (synced.len().min(self.bytes.len()), synced.len().max(self.bytes.len()));
        let length = shortest + choose((longest - shortest) as u64 + 1) as usize;
        let mut kept = synced.clone();
        kept.resize(longest, 0);
        self.bytes.resize(longest, 0);
        for sector in &written {
            let start = (sector * SECTOR_BYTES).max(self.synced_end);
            let torn = start..((sector + 1) * SECTOR_BYTES).min(self.end).min(synced.len());
            let may_tear = written.last() == Some(sector) && !torn.is_empty();
            match choose(if may_tear { 3 } else { 2 }) {
                0 => {}
                1 => copy_sector(&self.bytes, &mut kept, *sector),
                _ => kept[torn].fill_with(|| choose(256) as u8),
            }
        }
        kept.truncate(length);
        self.bytes.clone_from(&kept);
        self.synced = kept;
        self.end = self.end.max(self.synced_end).min(length);
        self.synced_end = self.end;
        self.holder = None;
    }
}

/// Copies the bytes of a sector that are in both.
fn copy_sector(from: &[u8], to: &mut [u8], sector: usize) {
    let start = sector * SECTOR_BYTES;
    let end = (start + SECTOR_BYTES).min(from.len()).min(to.len());
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of four sectors of ones, synced, and reserved up to eight.
    fn contents() -> Contents {
        let mut contents = Contents::default();
        contents.write(&[1; 4 * SECTOR_BYTES], 0);
        contents.reserve(8 * SECTOR_BYTES as u64);
        contents.sync();
        contents
    }

    /// The first byte of each sector after a crash with these choices.
    fn after(mut contents: Contents, choices: &[u64]) -> Vec<u8> {
        let mut choices = choices.iter();
        contents.crash(&mut |_| *choices.next().expect("no more is asked"));
        assert!(choices.next().is_none(), "all are asked for");
        assert!(contents.bytes == contents.synced && contents.written.is_empty());
        contents.bytes.iter().step_by(SECTOR_BYTES).copied().collect()
    }

    #[test]
    fn each_sector_is_old_or_new() {
        let written = || {
            let mut contents = contents();
            contents.write(&[2; 3 * SECTOR_BYTES], SECTOR_BYTES as u64);
            contents
        };
        assert_eq!(after(contents(), &[0]), [1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(after(written(), &[0, 0, 0, 0]), [1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(after(written(), &[0, 1, 0, 1]), [1, 2, 1, 2, 0, 0, 0, 0]);
        let mut synced = written();
        synced.sync();
        assert_eq!(after(synced, &[0]), [1, 2, 2, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn the_last_one_may_be_torn_where_nothing_was_yet() {
        let mut contents = contents();
        // From the middle of a sector that is in use to the beginning of one that is not.
        contents.write(&[2; SECTOR_BYTES], 7 * SECTOR_BYTES as u64 / 2);
        let mut choices = [0, 1, 2].into_iter();
        contents.crash(&mut |_| choices.next().unwrap_or(9));
        let (start, half) = (3 * SECTOR_BYTES, SECTOR_BYTES / 2);
        let lengths: Vec<_> =
            contents.bytes[start..].chunk_by(|left, right| left == right).map(|run| (run[0], run.len())).collect();
        assert_eq!(lengths, [(1, half), (2, half), (9, half), (0, 7 * half)]);
    }

    #[test]
    fn what_is_chosen_is_a_length_and_for_each_sector_whether_it_is_old_new_or_torn() {
        let asked = |mut contents: Contents, choices: &[u64]| {
            let mut limits = Vec::new();
            contents.crash(&mut |limit| {
                limits.push(limit);
                choices.get(limits.len() - 1).copied().unwrap_or(limit - 1)
            });
            (limits, contents)
        };
        let (at, half) = (|sector: usize| (sector * SECTOR_BYTES) as u64, SECTOR_BYTES / 2);
        let mut torn = contents();
        torn.write(&[2; SECTOR_BYTES], at(7) / 2);
        let (limits, _) = asked(torn, &[0, 1, 2]);
        assert_eq!(limits, [vec![1, 2, 3], vec![256; half]].concat());
        // What was reserved and not synced is not there to be torn.
        let mut longer = contents();
        longer.write(&[2; 2 * SECTOR_BYTES], at(8));
        let (limits, mut shorter) = asked(longer, &[0, 1, 1]);
        assert_eq!(limits, [2 * SECTOR_BYTES as u64 + 1, 2, 2]);
        // What a crash has left is in use, and what it has cut off is not.
        shorter.reserve(at(10));
        shorter.sync();
        shorter.write(&[3; SECTOR_BYTES], at(8));
        let (limits, mut left) = asked(shorter, &[0, 1]);
        assert_eq!(limits, [1, 3]);
        left.write(&[4; SECTOR_BYTES], at(8));
        assert_eq!(asked(left, &[0, 1]).0, [1, 2]);
    }

    #[test]
    fn a_write_into_a_file_that_was_emptied_may_be_torn_like_the_first() {
        let mut contents = contents();
        contents.empty();
        contents.reserve(2 * SECTOR_BYTES as u64);
        contents.sync();
        contents.write(&[2; SECTOR_BYTES / 2], 0);
        let mut choices = [0, 2].into_iter();
        contents.crash(&mut |_| choices.next().unwrap_or(9));
        let half = SECTOR_BYTES / 2;
        assert_eq!(contents.bytes, [vec![9; half], vec![0; 3 * half]].concat());
    }

    #[test]
    fn a_length_that_was_not_synced_may_be_anything_in_between() {
        let mut longer = contents();
        longer.write(&[3; 2 * SECTOR_BYTES], 8 * SECTOR_BYTES as u64);
        assert_eq!(after(longer, &[SECTOR_BYTES as u64, 1, 1]), [1, 1, 1, 1, 0, 0, 0, 0, 3]);
        let mut shorter = contents();
        shorter.empty();
        assert_eq!(after(shorter, &[2 * SECTOR_BYTES as u64, 0, 1, 0, 1, 1, 1, 1, 1]), [1, 0]);
    }
}
