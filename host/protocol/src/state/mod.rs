//! Committed state, in memory, per partition: access by hash, scans in order, an incremental hash.
//!
//! During Execute it is shared read-only; only the machine changes it, at commit.

mod delta;
pub mod entity;
mod missing;
mod partition;
pub mod range;
mod undivided;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

pub use missing::{Inventory, NotAnnounced};
pub use partition::{Partition, Size};

use crate::ids::{OperatorId, PartitionId};
use crate::state::entity::{Entity, Key, Layout, Value};
use crate::state::range::KeyRange;
use crate::state::undivided::Undivided;

/// Multiset hash of entities and values: adding and removing commute, so it can always be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct StateHash(pub u128);

impl std::fmt::Display for StateHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A write to an entity: its new value, or `None` for a delete.
pub type Write = (Entity, Option<Value>);

/// All committed entities.
pub struct State {
    layout: Layout,
    partitions: Vec<Partition>,
    /// What is not dealt out yet of former partitions.
    undivided: Option<Box<Undivided>>,
    /// Of all partitions together: there are many, and an epoch touches few.
    totals: Totals,
    /// Writes that were applied.
    changes: u64,
}

/// Operators whose entities are to be forgotten, some at a time.
#[derive(Clone, Debug, Default)]
pub struct Removal {
    operators: Vec<OperatorId>,
    /// The partition that is next, of the last operator.
    partition: usize,
}

impl Removal {
    /// More operators are to be forgotten.
    pub fn extend(&mut self, operators: impl IntoIterator<Item = OperatorId>) {
        // In front: the last one is being forgotten.
        self.operators.splice(..0, operators);
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.operators.is_empty()
    }
}

/// Sums over partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    hash: StateHash,
    entities: usize,
    bytes: u64,
}

impl Totals {
    fn of(partition: &Partition) -> Self {
        Totals { hash: partition.hash(), entities: partition.len(), bytes: partition.bytes() }
    }

    /// Follows a partition from what it was to what it is.
    fn follow(&mut self, before: Totals, after: Totals) {
        self.hash.0 = self.hash.0.wrapping_add(after.hash.0).wrapping_sub(before.hash.0);
        self.entities = self.entities + after.entities - before.entities;
        self.bytes = self.bytes + after.bytes - before.bytes;
    }
}

/// Short: a state is too large to be read.
impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "State({} entities, {})", self.len(), self.hash())
    }
}

impl State {
    /// An empty state.
    pub fn new(layout: Layout) -> Self {
        let partitions = (0..layout.partitions).map(|_| Partition::default()).collect();
        State { layout, partitions, undivided: None, totals: Totals::default(), changes: 0 }
    }

    /// How keys are spread.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The committed value of an entity.
    pub fn get(&self, entity: &Entity) -> Option<&Value> {
        if let Some(undivided) = &self.undivided
            && let Some(value) = undivided.get(entity, &self.layout)
        {
            return Some(value);
        }
        self.partitions[usize::from(entity.partition().0)].get(entity)
    }

    /// Whether an entity is still with the former owner of its partition, or may be: it can be neither read nor written.
    #[inline]
    pub fn lacks(&self, entity: &Entity) -> bool {
        self.partitions[usize::from(entity.partition().0)].lacks(entity)
    }

    /// Partitions of which something that a scan may find is still with a former owner.
    pub fn lacking(&self, operator: OperatorId, partition: Option<PartitionId>) -> impl Iterator<Item = PartitionId> {
        let asked = match partition {
            Some(partition) => usize::from(partition.0)..usize::from(partition.0) + 1,
            None => 0..self.partitions.len(),
        };
        let lacks = move |at: &usize| self.partitions[*at].lacks_some(operator);
        asked.filter(lacks).map(|at| PartitionId(at as u16))
    }

    /// A partition, as far as something of it may still be with a former owner.
    pub(crate) fn incomplete(&mut self, id: PartitionId) -> &mut Partition {
        // What arrives is part of the sums already.
        &mut self.partitions[usize::from(id.0)]
    }

    pub fn apply(&mut self, (entity, value): Write) {
        debug_assert!(!self.lacks(&entity), "nothing is written over what is not here: {entity:?}");
        if let Some(undivided) = &mut self.undivided {
            undivided.take(&entity, &self.layout, &mut self.totals);
        }
        let partition = &mut self.partitions[usize::from(entity.partition().0)];
        let before = Totals::of(partition);
        self.changes += 1;
        partition.apply(entity, value);
        self.totals.follow(before, Totals::of(partition));
    }

    /// Puts a restored partition into its place.
    pub fn restore(&mut self, id: PartitionId, partition: Partition) {
        if cfg!(debug_assertions) {
            partition.check(id);
        }
        let place = &mut self.partitions[usize::from(id.0)];
        self.totals.follow(Totals::of(place), Totals::of(&partition));
        *place = partition;
    }

    /// Parts with a partition.
    pub(crate) fn take(&mut self, id: PartitionId) -> Partition {
        let taken = std::mem::take(&mut self.partitions[usize::from(id.0)]);
        self.totals.follow(Totals::of(&taken), Totals::default());
        taken
    }

    /// There is another number of partitions: what is here is dealt out to them by and by, and found meanwhile. All of it is
    /// a change for the next snapshot, which is to be of these partitions.
    ///
    /// # Panics
    /// The same is not over yet for the last time.
    pub fn repartition(&mut self, layout: Layout, tracked: bool) {
        assert!(self.undivided.is_none(), "partitions are divided once after the other");
        let mut partitions: Vec<Partition> = (0..layout.partitions).map(|_| Partition::default()).collect();
        if tracked {
            partitions.iter_mut().for_each(Partition::track);
        }
        let before = std::mem::replace(&mut self.partitions, partitions);
        self.undivided = Some(Box::new(Undivided::new(self.layout, before)));
        self.layout = layout;
    }

    /// Deals out up to `most` entities of former partitions. `is_composite` tells of operators of apps.
    pub fn divide(&mut self, most: usize, is_composite: impl Fn(OperatorId) -> bool) {
        let Some(undivided) = &mut self.undivided else { return };
        for _ in 0..most {
            let Some((entity, value)) = undivided.take_next(&self.layout, &is_composite, &mut self.totals) else {
                break;
            };
            let partition = &mut self.partitions[usize::from(entity.partition().0)];
            let before = Totals::of(partition);
            partition.apply(entity, value);
            self.totals.follow(before, Totals::of(partition));
        }
        if undivided.is_empty() && undivided.is_handed_over() {
            self.undivided = None;
        }
    }

    /// Whether something is left of former partitions.
    pub fn has_former_partitions(&self) -> bool {
        self.undivided.is_some()
    }

    /// Whether all that is here is in the partitions that there are.
    pub fn is_divided(&self) -> bool {
        self.undivided.as_ref().is_none_or(|undivided| undivided.is_empty())
    }

    /// Parts with all partitions that are as the snapshots taken of them say; changes must be tracked.
    pub fn into_snapshots(self) -> impl Iterator<Item = (PartitionId, Partition)> {
        let whole = self.undivided.is_none();
        let partitions = (0..).map(PartitionId).zip(self.partitions).filter(move |_| whole);
        partitions.filter(|(_, partition)| partition.is_snapshot())
    }

    /// Tracks what changes from now on, for snapshots.
    pub fn track(&mut self) {
        self.partitions.iter_mut().for_each(Partition::track);
    }

    /// Cuts off what has changed since the last time, in constant time per partition. The state of
    /// now plus all deltas before give the state of now again, whatever is applied before they are
    /// handed over.
    ///
    /// # Panics
    /// When the last delta has not been handed over.
    pub fn cut_delta(&mut self) {
        self.partitions.iter_mut().for_each(Partition::cut_delta);
    }

    /// Hands over about `most` changes of what was cut off; says whether that was all. Of several
    /// changes of one entity the last one counts.
    pub fn hand_over(&mut self, most: usize, changes: &mut Vec<Write>) -> bool {
        let end = changes.len() + most;
        let undivided = self.undivided.iter_mut().flat_map(|undivided| undivided.partitions_mut());
        undivided
            .chain(&mut self.partitions)
            .all(|partition| partition.hand_over(end.saturating_sub(changes.len()), changes))
    }

    /// Up to `limit` entries of an operator in a range, in key order or in reverse. `partition`
    /// names the only one that can hold such keys, if known; otherwise all are asked.
    pub fn scan(
        &self,
        operator: OperatorId,
        range: &KeyRange,
        partition: Option<PartitionId>,
        limit: usize,
        reverse: bool,
    ) -> Vec<(Key, Value)> {
        if range.is_empty() || limit == 0 {
            return Vec::new();
        }
        let asked = match partition {
            Some(partition) => &self.partitions[usize::from(partition.0)..=usize::from(partition.0)],
            None => &self.partitions[..],
        };
        let undivided = self.undivided.iter().flat_map(|undivided| undivided.scanned(partition, &self.layout));
        let scans = asked.iter().chain(undivided).map(|partition| partition.scan(operator, range));
        if reverse {
            merge(scans.map(Iterator::rev).collect(), limit, |a, b| a.cmp(b))
        } else {
            merge(scans.collect(), limit, |a, b| b.cmp(a))
        }
    }

    /// Forgets up to `most` entities of a removal, each of which it names; tells how many.
    pub fn remove(&mut self, removal: &mut Removal, most: usize, mut forgotten: impl FnMut(&Entity)) -> usize {
        let mut left = most;
        while let Some(operator) = removal.operators.last().copied() {
            while removal.partition < self.partitions.len() {
                let at = PartitionId(removal.partition as u16);
                let entries = self.partitions[removal.partition].scan(operator, &KeyRange::all());
                let keys: Vec<Key> = entries.take(left).map(|(key, _)| key.clone()).collect();
                left -= keys.len();
                // Where they are: an operator that no deployment has any more does not tell how its keys were spread.
                for key in keys {
                    let entity = Entity::within(&self.layout, operator, at, key);
                    forgotten(&entity);
                    self.apply((entity, None));
                }
                if left == 0 {
                    return most;
                }
                removal.partition += 1;
            }
            removal.operators.pop();
            removal.partition = 0;
        }
        most - left
    }

    /// Compares everything that is kept twice: sums and what they are sums of, indexes, changes and marks. Slow.
    ///
    /// # Panics
    /// Something differs.
    pub fn check(&self) {
        let mut sums = Totals::default();
        let undivided = self.undivided.iter().flat_map(|undivided| (0..).map(PartitionId).zip(undivided.partitions()));
        for (id, partition) in (0..).map(PartitionId).zip(&self.partitions).chain(undivided) {
            partition.check(id);
            sums.follow(Totals::default(), Totals::of(partition));
        }
        assert_eq!(self.totals, sums, "the sums of all partitions");
    }

    /// Writes that were applied up to now: by their number a step is bounded.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Hash of all entities and values.
    pub fn hash(&self) -> StateHash {
        self.totals.hash
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.totals.entities
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.totals.entities == 0
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.totals.bytes
    }

    /// Of each operator, how much of it is here.
    pub fn sizes(&self) -> BTreeMap<OperatorId, Size> {
        let mut sizes = BTreeMap::<OperatorId, Size>::new();
        let undivided = self.undivided.iter().flat_map(|undivided| undivided.partitions());
        for (operator, size) in self.partitions.iter().chain(undivided).flat_map(Partition::sizes) {
            sizes.entry(*operator).or_default().add(*size);
        }
        sizes
    }

    /// The partitions, by id.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }
}

/// Merges sorted scans; `order` ranks what comes first as the greatest.
fn merge<'a>(
    mut scans: Vec<impl Iterator<Item = (&'a Key, &'a Value)>>,
    limit: usize,
    order: fn(&Key, &Key) -> Ordering,
) -> Vec<(Key, Value)> {
    if let [scan] = &mut scans[..] {
        return scan.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect();
    }
    let mut heads = BinaryHeap::with_capacity(scans.len());
    let head = |scans: &mut Vec<_>, at: usize| -> Option<Head<'a>> {
        let scan: &mut _ = &mut scans[at];
        Iterator::next(scan).map(|(key, value)| Head { key, value, at, order })
    };
    for at in 0..scans.len() {
        heads.extend(head(&mut scans, at));
    }
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(Head { key, value, at, .. }) = heads.pop()
    {
        found.push((key.clone(), value.clone()));
        heads.extend(head(&mut scans, at));
    }
    found
}

/// The next entry of one scan among several.
struct Head<'a> {
    key: &'a Key,
    value: &'a Value,
    at: usize,
    order: fn(&Key, &Key) -> Ordering,
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.order)(self.key, other.key)
    }
}
impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Head<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_since_its_snapshot_is_none() {
        let layout = Layout::new(1, 8);
        let entity = Entity::new(&layout, OperatorId(1), false, "k".into());
        let changed = entity.partition();
        let others: Vec<_> = (0..8).map(PartitionId).filter(|id| *id != changed).collect();
        let written = || {
            let mut state = State::new(layout);
            state.track();
            state.apply((entity.clone(), Some(b"v"[..].into())));
            state
        };
        let snapshots = |state: State| state.into_snapshots().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(snapshots(written()), others);
        let mut cut = written();
        cut.cut_delta();
        assert!(!snapshots(cut).contains(&changed), "it has not left");
        let mut left = written();
        left.cut_delta();
        assert!(left.hand_over(9, &mut Vec::new()));
        assert_eq!(snapshots(left).len(), 8);
    }
}
