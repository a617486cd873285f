//! Committed state, in memory, per partition: access by hash, scans in order, an incremental hash.
//!
//! During Execute it is shared read-only; only the machine changes it, at commit.

mod partition;

use std::ops::Bound;

pub use partition::Partition;

use crate::entity::{Entity, Key, Layout, Value};
use crate::ids::{OperatorId, PartitionId};
use crate::range::KeyRange;

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
#[derive(Debug)]
pub struct State {
    layout: Layout,
    partitions: Vec<Partition>,
}

impl State {
    /// An empty state.
    pub fn new(layout: Layout) -> Self {
        State { layout, partitions: (0..layout.partitions).map(|_| Partition::default()).collect() }
    }

    /// How keys are spread.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The committed value of an entity.
    pub fn get(&self, entity: &Entity) -> Option<&Value> {
        self.partitions[usize::from(entity.partition().0)].get(entity)
    }

    /// Applies one write.
    pub fn apply(&mut self, (entity, value): Write) {
        self.partitions[usize::from(entity.partition().0)].apply(entity, value);
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
        if let Some(partition) = partition {
            let mut found = Vec::new();
            self.partitions[usize::from(partition.0)].scan(operator, range, limit, reverse, &mut found);
            return found;
        }
        let mut found = Vec::new();
        for partition in &self.partitions {
            partition.scan(operator, range, limit, reverse, &mut found);
        }
        match reverse {
            false => found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b)),
            true => found.sort_unstable_by(|(a, _), (b, _)| b.cmp(a)),
        }
        found.truncate(limit);
        found
    }

    /// Forgets every entity of an operator.
    pub fn remove_operator(&mut self, layout_composite: bool, operator: OperatorId) {
        let layout = self.layout;
        for partition in &mut self.partitions {
            let mut found = Vec::new();
            partition.scan(
                operator,
                &KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded },
                usize::MAX,
                false,
                &mut found,
            );
            for (key, _) in found {
                partition.apply(Entity::new(&layout, operator, layout_composite, key), None);
            }
        }
    }

    /// Hash of all entities and values.
    pub fn hash(&self) -> StateHash {
        StateHash(self.partitions.iter().fold(0u128, |sum, partition| sum.wrapping_add(partition.hash().0)))
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.partitions.iter().map(Partition::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.partitions.iter().all(|partition| partition.len() == 0)
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.partitions.iter().map(Partition::bytes).sum()
    }

    /// The partitions, by id.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }
}
