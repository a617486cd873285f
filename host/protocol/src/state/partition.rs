//! One partition of the committed state.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use hashbrown::HashTable;
use styx_planted::{Bug, planted};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::delta::{Delta, Number};
use super::missing::{Inventory, Missing, NotAnnounced};
use super::{StateHash, Write};
use crate::ids::{OperatorId, PartitionId};
use crate::sequence::writes::PackedWrites;
use crate::state::entity::{Entity, Key, Value};
use crate::state::range::KeyRange;

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

/// An entity with its value.
#[derive(Debug)]
struct Slot {
    entity: Entity,
    value: Value,
    /// The delta in which it was written last.
    mark: Number,
}

/// How much there is of an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Size {
    pub entities: u64,
    /// Of keys and values.
    pub bytes: u64,
}

impl Size {
    pub(super) fn add(&mut self, other: Size) {
        self.entities += other.entities;
        self.bytes += other.bytes;
    }
}

/// What was packed of a partition.
#[derive(Debug, Default)]
pub(crate) struct CopiedEntities {
    /// The last one, unless that is the last one that there is.
    pub last: Option<(OperatorId, Key)>,
    pub entities: u64,
    /// Of keys and values.
    pub bytes: u64,
}

/// Entities that are freed at a time.
const FREED: usize = 256;

/// Entities of one partition: a table by hash for single keys, an ordered set for scans.
/// Overwriting a value touches the table only.
#[derive(Debug, Default)]
pub struct Partition {
    table: HashTable<Slot>,
    ordered: BTreeSet<Ordered>,
    delta: Delta,
    /// What is missing is counted in hash, bytes and sizes as if it were here.
    hash: StateHash,
    bytes: u64,
    /// Of each operator of which there is something.
    sizes: BTreeMap<OperatorId, Size>,
    missing: Option<Box<Missing>>,
}

impl Partition {
    pub fn get(&self, entity: &Entity) -> Option<&Value> {
        self.table.find(entity.hash(), |slot| slot.entity == *entity).map(|slot| &slot.value)
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        let missing = |missing: &Missing| missing.sizes().values().map(|size| size.entities as usize).sum();
        self.table.len() + self.missing.as_deref().map_or(0, missing)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an entity is still with the former owner, or may be.
    #[inline]
    pub fn lacks(&self, entity: &Entity) -> bool {
        self.missing.as_deref().is_some_and(|missing| missing.lacks(entity) && !planted(Bug::MissingTakenForNone))
    }

    /// Whether something of an operator is still with the former owner, or may be.
    #[inline]
    pub fn lacks_some(&self, operator: OperatorId) -> bool {
        self.missing.as_deref().is_some_and(|missing| missing.lacks_some(operator))
    }

    /// Whether nothing is with a former owner.
    pub fn is_whole(&self) -> bool {
        self.missing.is_none()
    }

    /// What its parts add up to.
    pub(crate) fn inventory(&self) -> Inventory {
        Inventory { hash: self.hash, sizes: self.sizes.iter().map(|(operator, size)| (*operator, *size)).collect() }
    }

    /// It is what an inventory says; what is not here is with its former owner.
    ///
    /// # Errors
    /// More is here than the inventory says.
    pub(crate) fn announce(&mut self, inventory: Inventory) -> Result<(), NotAnnounced> {
        let missing = Missing::new(inventory.clone(), self.hash, &self.sizes)?;
        self.hash = inventory.hash;
        self.bytes = inventory.sizes.iter().map(|(_, size)| size.bytes).sum();
        self.sizes = inventory.sizes.into_iter().collect();
        self.missing = (!missing.is_nothing()).then(|| Box::new(missing));
        Ok(())
    }

    /// An entity has arrived from the former owner, or is known not to be there; `fetched`, if it was asked for. What is
    /// here by now is newer.
    ///
    /// # Errors
    /// It was not announced.
    pub(crate) fn arrive(&mut self, entity: Entity, value: Option<Value>, fetched: bool) -> Result<(), NotAnnounced> {
        let Some(missing) = self.missing.as_deref_mut().filter(|missing| missing.lacks(&entity)) else {
            if planted(Bug::ShadowOverwrites) {
                self.apply(entity, value);
            }
            return Ok(());
        };
        if fetched {
            missing.fetch(&entity);
        }
        let Some(value) = value else { return Ok(()) };
        let bytes = (entity.key().len() + value.len()) as u64;
        missing.take(entity.operator(), Size { entities: 1, bytes })?;
        missing.take_hash(hash_of(&entity, &value));
        self.ordered.insert(Ordered(entity.clone()));
        self.table.insert_unique(entity.hash(), Slot { entity, value, mark: 0 }, |slot| slot.entity.hash());
        Ok(())
    }

    /// All up to an entity has arrived.
    pub(crate) fn arrived_upto(&mut self, upto: (OperatorId, Key)) {
        if let Some(missing) = self.missing.as_deref_mut() {
            missing.go_upto(upto);
        }
    }

    /// All has arrived.
    ///
    /// # Errors
    /// It has not.
    pub(crate) fn complete(&mut self) -> Result<(), NotAnnounced> {
        match self.missing.take() {
            Some(missing) if !missing.is_nothing() => Err(NotAnnounced),
            _ => Ok(()),
        }
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of each operator, how much of it is here.
    pub fn sizes(&self) -> &BTreeMap<OperatorId, Size> {
        &self.sizes
    }

    /// Hash of entities and values.
    pub fn hash(&self) -> StateHash {
        self.hash
    }

    /// Applies one write: the new value of an entity, or `None` for a delete.
    pub fn apply(&mut self, entity: Entity, value: Option<Value>) {
        let found = self.table.find_entry(entity.hash(), |slot| slot.entity == entity);
        match (found, value) {
            (Ok(mut slot), Some(value)) => {
                let slot = slot.get_mut();
                slot.mark = self.delta.write(&slot.entity, Some((&slot.value, slot.mark)));
                if !planted(Bug::HashForgetsOverwrites) {
                    self.hash.0 = self.hash.0.wrapping_sub(hash_of(&entity, &slot.value));
                }
                self.hash.0 = self.hash.0.wrapping_add(hash_of(&entity, &value));
                let (before, now) = (slot.value.len() as u64, value.len() as u64);
                slot.value = value;
                if now != before {
                    self.bytes = self.bytes - before + now;
                    let size = self.sizes.entry(entity.operator()).or_default();
                    size.bytes = size.bytes - before + now;
                }
            }
            (Err(_), Some(value)) => {
                self.hash.0 = self.hash.0.wrapping_add(hash_of(&entity, &value));
                let bytes = (entity.key().len() + value.len()) as u64;
                self.bytes += bytes;
                self.sizes.entry(entity.operator()).or_default().add(Size { entities: 1, bytes });
                let mark = self.delta.write(&entity, None);
                self.ordered.insert(Ordered(entity.clone()));
                self.table.insert_unique(entity.hash(), Slot { entity, value, mark }, |slot| slot.entity.hash());
            }
            (Ok(slot), None) => {
                let (Slot { entity, value, mark }, _) = slot.remove();
                self.delta.delete(&entity, &value, mark);
                self.hash.0 = self.hash.0.wrapping_sub(hash_of(&entity, &value));
                let bytes = (entity.key().len() + value.len()) as u64;
                self.bytes -= bytes;
                let size = self.sizes.entry(entity.operator()).or_default();
                *size = Size { entities: size.entities - 1, bytes: size.bytes - bytes };
                if size.entities == 0 {
                    self.sizes.remove(&entity.operator());
                }
                self.ordered.remove(&Ordered(entity));
            }
            (Err(_), None) => {}
        }
    }

    /// Tracks changes from now on.
    pub fn track(&mut self) {
        self.delta.start();
    }

    /// What is here, by operator and key.
    pub fn into_entities(self) -> impl Iterator<Item = (Entity, Value)> {
        let Partition { table, ordered, .. } = self;
        ordered.into_iter().map(move |Ordered(entity)| {
            let slot = table.find(entity.hash(), |slot| slot.entity == entity).expect("what is ordered is there");
            let value = slot.value.clone();
            (entity, value)
        })
    }

    /// Frees it, about [`FREED`] entities at a time.
    pub(crate) fn free(self, mut between: impl FnMut()) {
        for (freed, slot) in self.table.into_iter().enumerate() {
            drop(slot);
            if (freed + 1).is_multiple_of(FREED) {
                between();
            }
        }
    }

    /// Parts with an entity, as it is known here.
    pub(super) fn take(&mut self, entity: &Entity) -> Option<(Entity, Value)> {
        let slot = self.table.find(entity.hash(), |slot| slot.entity == *entity)?;
        let (entity, value) = (slot.entity.clone(), slot.value.clone());
        self.apply(entity.clone(), None);
        Some((entity, value))
    }

    /// The same, with the first by operator and key.
    pub(super) fn take_first(&mut self) -> Option<(Entity, Value)> {
        let Ordered(first) = self.ordered.first()?;
        let first = first.clone();
        self.take(&first)
    }

    /// Cuts off what has changed since the last time.
    pub(super) fn cut_delta(&mut self) {
        self.delta.cut();
    }

    /// Whether the snapshots that were taken of it give what it holds.
    pub(super) fn is_snapshot(&self) -> bool {
        self.delta.is_empty() && self.delta.is_handed_over() && self.is_whole()
    }

    /// Whether nothing has changed since the last delta was cut off.
    pub(crate) fn is_cut(&self) -> bool {
        self.delta.is_empty()
    }

    /// Whether nothing of a delta that was cut off is left.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.delta.is_handed_over()
    }

    /// Packs entities behind one, in order, about as many as take `bytes` in all.
    pub(crate) fn copy(
        &self,
        after: Option<&(OperatorId, Key)>,
        bytes: usize,
        copy: &mut PackedWrites,
    ) -> CopiedEntities {
        let mut copied = CopiedEntities::default();
        let behind = after.map_or(Bound::Unbounded, |(operator, key)| {
            Bound::Excluded(Ordered(Entity::probe(*operator, key.clone())))
        });
        let mut entities = self.ordered.range((behind, Bound::Unbounded)).peekable();
        while let Some(Ordered(entity)) = entities.next() {
            let value = self.get(entity).expect("the ordered set and the table hold the same entities");
            copy.push(entity, Some(value));
            copied.entities += 1;
            copied.bytes += (entity.key().len() + value.len()) as u64;
            if copy.bytes().len() >= bytes && entities.peek().is_some() {
                copied.last = Some((entity.operator(), entity.key().clone()));
                break;
            }
        }
        copied
    }

    /// Hands over up to `most` changes of what was cut off; says whether that was all.
    pub(crate) fn hand_over(&mut self, most: usize, changes: &mut Vec<Write>) -> bool {
        let Partition { table, delta, .. } = self;
        let unmark = |entity: &Entity, cut_off| {
            let slot = table.find_mut(entity.hash(), |slot| slot.entity == *entity)?;
            (slot.mark == cut_off || planted(Bug::DeltaSeesLater)).then(|| {
                slot.mark = 0;
                slot.value.clone()
            })
        };
        delta.hand_over(most, unmark, changes);
        delta.is_handed_over()
    }

    /// Compares its parts, and the sums with what they are sums of; `at` is where it stands.
    ///
    /// # Panics
    /// They differ.
    pub(super) fn check(&self, at: PartitionId) {
        assert_eq!(self.ordered.len(), self.table.len(), "the ordered set and the table hold the same entities");
        let slot = |entity: &Entity| self.table.find(entity.hash(), |slot| slot.entity == *entity);
        let slots = || self.ordered.iter().map(|Ordered(entity)| slot(entity).expect("whatever is ordered is there"));
        let (mut hash, mut bytes, mut sizes) = (0u128, 0, BTreeMap::<OperatorId, Size>::new());
        for Slot { entity, value, .. } in slots() {
            assert_eq!(entity.partition(), at, "{entity:?} lives in its own partition");
            hash = hash.wrapping_add(hash_of(entity, value));
            let size = (entity.key().len() + value.len()) as u64;
            bytes += size;
            sizes.entry(entity.operator()).or_default().add(Size { entities: 1, bytes: size });
        }
        if let Some(missing) = self.missing.as_deref() {
            hash = hash.wrapping_add(missing.hash().0);
            for (operator, size) in missing.sizes() {
                bytes += size.bytes;
                sizes.entry(*operator).or_default().add(*size);
            }
        }
        assert_eq!((self.hash.0, self.bytes), (hash, bytes), "hash and bytes are those of the entities");
        assert_eq!(self.sizes, sizes, "sizes are those of the entities");
        self.delta.check(slots().map(|slot| (&slot.entity, slot.mark)));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::state::entity::Layout;

    #[test]
    fn a_partition_is_freed_a_little_at_a_time() {
        let layout = Layout::new(1, 1);
        let values: Vec<Value> =
            (0..FREED as u32 * 3 + 1).map(|number| Value::from(&number.to_be_bytes()[..])).collect();
        let mut partition = Partition::default();
        for (number, value) in values.iter().enumerate() {
            let entity = Entity::new(&layout, OperatorId(1), false, format!("k{number}").as_str().into());
            partition.apply(entity, Some(value.clone()));
        }
        let mut left = Vec::new();
        partition.free(|| left.push(values.iter().filter(|value| Arc::strong_count(value) > 1).count()));
        assert_eq!(left, [FREED * 2 + 1, FREED + 1, 1]);
        assert!(values.iter().all(|value| Arc::strong_count(value) == 1));
    }
}
