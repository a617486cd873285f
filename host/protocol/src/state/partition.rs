//! One partition of the committed state.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::StateHash;
use crate::entity::{Entity, Key, Value};
use crate::ids::OperatorId;
use crate::mutants::{Bug, planted};
use crate::range::KeyRange;

/// An entity ordered by operator and key.
#[derive(Debug)]
struct Ordered(Entity);

impl Ordered {
    fn rank(&self) -> (OperatorId, &str) {
        (self.0.operator(), self.0.key())
    }
}
impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}
impl Eq for Ordered {}
impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Entities of one partition: a table by hash for single keys, an ordered set for scans.
/// Overwriting a value touches the table only.
#[derive(Debug, Default)]
pub struct Partition {
    table: HashTable<(Entity, Value)>,
    ordered: BTreeSet<Ordered>,
    hash: StateHash,
    bytes: u64,
}

impl Partition {
    /// The value of an entity.
    pub fn get(&self, entity: &Entity) -> Option<&Value> {
        self.table.find(entity.hash(), |(candidate, _)| candidate == entity).map(|(_, value)| value)
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hash of entities and values.
    pub fn hash(&self) -> StateHash {
        self.hash
    }

    pub(super) fn apply(&mut self, entity: Entity, value: Option<Value>) {
        let found = self.table.find_entry(entity.hash(), |(candidate, _)| *candidate == entity);
        match (found, value) {
            (Ok(mut slot), Some(value)) => {
                if !planted(Bug::HashForgetsOverwrites) {
                    self.hash.0 = self.hash.0.wrapping_sub(hash_of(&entity, &slot.get().1));
                }
                self.hash.0 = self.hash.0.wrapping_add(hash_of(&entity, &value));
                self.bytes = self.bytes - slot.get().1.len() as u64 + value.len() as u64;
                slot.get_mut().1 = value;
            }
            (Err(_), Some(value)) => {
                self.hash.0 = self.hash.0.wrapping_add(hash_of(&entity, &value));
                self.bytes += (entity.key().len() + value.len()) as u64;
                self.ordered.insert(Ordered(entity.clone()));
                self.table.insert_unique(entity.hash(), (entity, value), |(entity, _)| entity.hash());
            }
            (Ok(slot), None) => {
                let ((entity, value), _) = slot.remove();
                if !planted(Bug::HashKeepsDeleted) {
                    self.hash.0 = self.hash.0.wrapping_sub(hash_of(&entity, &value));
                }
                self.bytes -= (entity.key().len() + value.len()) as u64;
                self.ordered.remove(&Ordered(entity));
            }
            (Err(_), None) => {}
        }
    }

    /// Entities of an operator in a range that is not empty, in key order.
    pub(super) fn scan(
        &self,
        operator: OperatorId,
        range: &KeyRange,
    ) -> impl DoubleEndedIterator<Item = (&Key, &Value)> + use<'_> {
        let bound = |bound: &Bound<Key>, open: Bound<Ordered>| match bound {
            Bound::Unbounded => open,
            Bound::Included(key) => Bound::Included(Ordered(Entity::probe(operator, key.clone()))),
            Bound::Excluded(key) => Bound::Excluded(Ordered(Entity::probe(operator, key.clone()))),
        };
        let lower = bound(&range.lower, Bound::Included(Ordered(Entity::probe(operator, "".into()))));
        let upper = bound(&range.upper, Bound::Excluded(Ordered(Entity::probe(OperatorId(operator.0 + 1), "".into()))));
        self.ordered.range((lower, upper)).map(|Ordered(entity)| {
            let value = self.get(entity).expect("the ordered set and the table hold the same entities");
            (entity.key(), value)
        })
    }
}

/// 128-bit hash of one entity and its value.
fn hash_of(entity: &Entity, value: &Value) -> u128 {
    xxh3_128_with_seed(value, entity.hash())
}
