//! Ranges against the writes of those that fall back: who wrote inside a range.

use std::ops::Range;

use crate::commit::ranges::OrderedKeys;
use crate::execute::attempt::Footprint;
use crate::state::range::RangeRead;

/// All writes in the order of their keys. Transactions are named by their position in TID order.
pub(super) struct Writers<'a> {
    keys: OrderedKeys<'a>,
    members: Vec<usize>,
    /// A segment tree: in its second half for each write the place behind the one where its transaction wrote before,
    /// 0 for the first, and above each two the lower of them.
    before: Vec<usize>,
}

impl<'a> Writers<'a> {
    /// The writes of RW sets in TID order.
    pub fn new(footprints: impl Iterator<Item = &'a Footprint>) -> Self {
        let mut writes = Vec::new();
        let mut members = 0;
        for (member, footprint) in footprints.enumerate() {
            let written = footprint.accesses.iter().filter(|(_, access)| access.is_write());
            writes.extend(written.map(|(entity, _)| (entity.operator(), entity.key(), member)));
            members = member + 1;
        }
        writes.sort_unstable();
        let count = writes.len();
        let (mut before, mut last) = (vec![0; 2 * count], vec![0; members]);
        for (place, (.., member)) in writes.iter().enumerate() {
            before[count + place] = std::mem::replace(&mut last[*member], place + 1);
        }
        for at in (1..count).rev() {
            before[at] = before[2 * at].min(before[2 * at + 1]);
        }
        Writers {
            keys: OrderedKeys::new(writes.iter().map(|(operator, key, _)| (*operator, *key))),
            members: writes.iter().map(|(.., member)| *member).collect(),
            before,
        }
    }

    /// Number of writes.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whose the write at a place is.
    pub fn at(&self, place: usize) -> usize {
        self.members[place]
    }

    /// Places of the writes inside a range.
    pub fn held_by(&self, read: &RangeRead) -> Range<usize> {
        self.keys.held_by(read)
    }

    /// Names each who wrote inside a range once, however much it wrote there.
    pub fn inside(&self, read: &RangeRead, mut named: impl FnMut(usize)) {
        let (held, count) = (self.held_by(read), self.len());
        let (mut start, mut end, mut nodes) = (held.start + count, held.end + count, Vec::new());
        while start < end {
            if start % 2 == 1 {
                nodes.push(start);
                start += 1;
            }
            if end % 2 == 1 {
                end -= 1;
                nodes.push(end);
            }
            (start, end) = (start / 2, end / 2);
        }
        while let Some(node) = nodes.pop() {
            if self.before[node] > held.start {
                // All below wrote inside the range before.
            } else if node < count {
                nodes.extend([2 * node, 2 * node + 1]);
            } else {
                named(self.members[node - count]);
            }
        }
    }
}
