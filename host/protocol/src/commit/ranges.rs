//! Ranges against written keys: who read a range that holds a key, who wrote inside a range.

use std::ops::{Bound, Range};

use crate::ids::{OperatorId, Tid};
use crate::state::entity::Key;
use crate::state::range::RangeRead;

/// Stands for a TID that there is not: above all others.
pub(super) const NOBODY: Tid = Tid(u64::MAX);

/// Keys in order, each perhaps several times. A range holds those between two places.
#[derive(Default)]
pub(crate) struct OrderedKeys<'a>(Vec<(OperatorId, &'a Key)>);

/// The keys that an epoch writes.
#[derive(Default)]
pub(super) struct WrittenKeys<'a> {
    keys: OrderedKeys<'a>,
    /// A segment tree: the writers of the keys in its second half, and above each two the lower of them.
    writers: Vec<Tid>,
    /// The lowest reader of a range that holds the key, for each.
    readers: Vec<Tid>,
}

impl<'a> OrderedKeys<'a> {
    /// Keys that are in order.
    pub fn new(keys: impl Iterator<Item = (OperatorId, &'a Key)>) -> Self {
        let keys: Vec<_> = keys.collect();
        debug_assert!(keys.is_sorted());
        OrderedKeys(keys)
    }

    /// Places of the keys that a range holds.
    pub fn held_by(&self, read: &RangeRead) -> Range<usize> {
        let (operator, range) = (read.operator, &read.range);
        let before = |key: &Key| self.0.partition_point(|known| *known < (operator, key));
        let up_to = |key: &Key| self.0.partition_point(|known| *known <= (operator, key));
        let start = match &range.lower {
            Bound::Unbounded => self.0.partition_point(|(known, _)| *known < operator),
            Bound::Included(key) => before(key),
            Bound::Excluded(key) => up_to(key),
        };
        let end = match &range.upper {
            Bound::Unbounded => self.0.partition_point(|(known, _)| *known <= operator),
            Bound::Included(key) => up_to(key),
            Bound::Excluded(key) => before(key),
        };
        start..end.max(start)
    }
}

impl<'a> WrittenKeys<'a> {
    /// The keys with their lowest writers, and what was read, in TID order.
    pub fn new<'r>(
        mut written: Vec<(OperatorId, &'a Key, Tid)>,
        reads: impl Iterator<Item = (&'r RangeRead, Tid)>,
    ) -> Self {
        written.sort_unstable();
        let count = written.len();
        let keys = OrderedKeys::new(written.iter().map(|(operator, key, _)| (*operator, *key)));
        let mut writers = vec![NOBODY; count];
        writers.extend(written.iter().map(|(.., tid)| *tid));
        for at in (1..count).rev() {
            writers[at] = writers[2 * at].min(writers[2 * at + 1]);
        }
        let mut index = WrittenKeys { keys, writers, readers: vec![NOBODY; count] };
        // Lower TIDs come first, so each key has its reader from the first range that holds it. `next` leads past those.
        let mut next: Vec<usize> = (0..=count).collect();
        for (read, tid) in reads {
            let Range { start, end } = index.keys.held_by(read);
            let mut at = first_from(&mut next, start);
            while at < end {
                index.readers[at] = tid;
                next[at] = at + 1;
                at = first_from(&mut next, at);
            }
        }
        index
    }

    /// The lowest reader of a range that holds a key, which is written.
    pub fn reader(&self, operator: OperatorId, key: &Key) -> Tid {
        self.keys.0.binary_search(&(operator, key)).map_or(NOBODY, |at| self.readers[at])
    }

    /// The lowest writer inside a range.
    pub fn writer(&self, read: &RangeRead) -> Tid {
        let (held, count) = (self.keys.held_by(read), self.readers.len());
        let (mut start, mut end, mut lowest) = (held.start + count, held.end + count, NOBODY);
        while start < end {
            if start % 2 == 1 {
                lowest = lowest.min(self.writers[start]);
                start += 1;
            }
            if end % 2 == 1 {
                end -= 1;
                lowest = lowest.min(self.writers[end]);
            }
            (start, end) = (start / 2, end / 2);
        }
        lowest
    }
}

/// Follows `next` to the first place from `at` on that leads to itself, and shortens the way.
pub(crate) fn first_from(next: &mut [usize], mut at: usize) -> usize {
    while next[at] != at {
        next[at] = next[next[at]];
        at = next[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::range::KeyRange;

    /// A number below `below` that looks like chance.
    fn draw(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    #[test]
    fn readers_and_writers_are_those_that_a_look_at_each_pair_finds() {
        let mut state = 7;
        let key = |number: u64| Key::from(format!("{number:02}"));
        for _ in 0..500 {
            let keys: Vec<(OperatorId, Key)> =
                (0..3).flat_map(|operator| (0..20).map(move |number| (OperatorId(operator), key(number)))).collect();
            let written: Vec<_> = keys.iter().filter(|_| draw(&mut state, 3) == 0).collect();
            let written: Vec<_> =
                written.into_iter().map(|(operator, key)| (*operator, key, Tid(draw(&mut state, 50)))).collect();
            let mut bound = |kind| match kind {
                0 => Bound::Unbounded,
                1 => Bound::Included(key(draw(&mut state, 22))),
                _ => Bound::Excluded(key(draw(&mut state, 22))),
            };
            let reads: Vec<(RangeRead, Tid)> = (0..9)
                .map(|tid| {
                    let range = KeyRange { lower: bound(tid % 3), upper: bound(tid / 3) };
                    (RangeRead { operator: OperatorId(tid as u32 % 2), range }, Tid(tid))
                })
                .collect();
            let index = WrittenKeys::new(written.clone(), reads.iter().map(|(read, tid)| (read, *tid)));
            let holds = |read: &RangeRead, operator: OperatorId, key: &Key| {
                read.operator == operator && read.range.contains(key)
            };
            for (operator, key, _) in &written {
                let of = reads.iter().filter(|(read, _)| holds(read, *operator, key)).map(|(_, tid)| *tid);
                assert_eq!(index.reader(*operator, key), of.min().unwrap_or(NOBODY));
            }
            for (read, _) in &reads {
                let of = written.iter().filter(|(operator, key, _)| holds(read, *operator, key)).map(|(.., tid)| *tid);
                assert_eq!(index.writer(read), of.min().unwrap_or(NOBODY), "{read:?}");
            }
        }
    }
}
