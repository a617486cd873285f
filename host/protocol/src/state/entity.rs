//! An entity is an operator and a key: the unit of state, of routing and of conflict.

use std::borrow::Borrow;
use std::sync::Arc;

use hashbrown::HashTable;
use styx_planted::{Bug, planted};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::ids::{OperatorId, PartitionId, RequestId};
use crate::sequence::system::is_system;

/// Key of an entity inside its operator. Ordered by bytes.
pub type Key = Arc<str>;
/// Value of an entity, arguments or result of a call. Shared, never copied, between versions.
pub type Value = Arc<[u8]>;

/// Bytes of a result or of a value, as they are archived.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Payload(#[rkyv(with = crate::archive::Plain)] pub Value);

/// How keys are spread over partitions. What does not depend on the number of partitions is fixed when a cluster is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Layout {
    /// Secret of the cluster, so that nobody can choose keys that collide.
    pub seed: u64,
    /// Number of partitions, 1 to 65,536: many more than there will ever be workers. A multiple of `created`.
    pub partitions: u32,
    /// Number of partitions that the cluster was created with: what goes by the id of a request stays in the first of the
    /// partitions into which one of these was divided.
    pub created: u32,
}

impl Layout {
    /// Number of partitions of a cluster that asks for no other.
    pub const PARTITIONS_DEFAULT: u32 = 1024;

    /// Partitions are numbered by 16 bits.
    pub const PARTITIONS_MAX: u32 = 1 << 16;

    /// That of a cluster that is created with so many partitions.
    pub const fn new(seed: u64, partitions: u32) -> Self {
        Layout { seed, partitions, created: partitions }
    }

    /// The layout of the same cluster in another number of partitions.
    ///
    /// # Errors
    /// There are so many already, or there cannot be so many: why.
    pub fn repartitioned(self, partitions: u32) -> Result<Self, String> {
        if partitions == self.partitions {
            return Err(format!("there are {partitions} partitions already"));
        }
        let layout = Layout { partitions, ..self };
        let created = self.created;
        layout.is_sound().then_some(layout).ok_or_else(|| {
            let most = Layout::PARTITIONS_MAX / created * created;
            format!("{partitions} partitions: there can be {created}, as at the beginning, or a multiple of that up to {most}")
        })
    }

    /// Whether there can be such a layout: another process may have said something else.
    pub fn is_sound(&self) -> bool {
        let possible = 1..=Layout::PARTITIONS_MAX;
        possible.contains(&self.created)
            && possible.contains(&self.partitions)
            && self.partitions.is_multiple_of(self.created)
    }

    /// So many partitions are there for each that there was at the beginning.
    fn factor(&self) -> u32 {
        self.partitions / self.created
    }

    /// Which of the partitions that there were at the beginning would remember the request of an id.
    pub fn memory(&self, id: RequestId) -> u32 {
        let hash = xxh3_64(&id.0.to_le_bytes());
        ((u128::from(hash) * u128::from(self.created)) >> 64) as u32
    }

    /// The partition that remembers what one of those that there were at the beginning would.
    pub fn of_memory(&self, memory: u32) -> PartitionId {
        let factor = if planted(Bug::MemoryDealtOut) { 1 } else { self.factor() };
        PartitionId((memory * factor) as u16)
    }

    /// The partition of an entity of the system that was in `partition` under another layout of the cluster.
    fn of_system(&self, partition: PartitionId, before: &Layout) -> PartitionId {
        self.parts_of(partition, before).next().unwrap_or(partition)
    }

    /// The partitions that have something of what was in `partition` under another layout of the cluster.
    pub fn parts_of(&self, partition: PartitionId, before: &Layout) -> impl Iterator<Item = PartitionId> + use<> {
        // Each has the hashes from its number on, in units of its layout.
        let (id, here, there) = (u64::from(partition.0), u64::from(self.partitions), u64::from(before.partitions));
        let (first, behind) = (id * here / there, ((id + 1) * here).div_ceil(there));
        (first..behind).map(|id| PartitionId(id as u16))
    }

    /// The partition of `key`; with `composite` keys all `prefix:…` of one prefix share it,
    /// whatever the operator (Styx with state migration, §8: composite keys).
    pub fn partition(&self, key: &str, composite: bool) -> PartitionId {
        let local = if composite { key.split_once(':').map_or(key, |(prefix, _)| prefix) } else { key };
        let hash = xxh3_64_with_seed(local.as_bytes(), self.seed);
        // Multiply-shift: uniform without a division.
        PartitionId(((u128::from(hash) * u128::from(self.partitions)) >> 64) as u16)
    }

    /// The partition that holds every key of an operator that starts with `prefix`, if there is just one.
    pub fn partition_of_prefix(&self, prefix: &str, composite: bool) -> Option<PartitionId> {
        (composite && prefix.contains(':')).then(|| self.partition(prefix, true))
    }
}

/// An operator and a key, with the hash and the partition worked out once.
#[derive(Clone, Debug, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Entity {
    hash: u64,
    operator: OperatorId,
    partition: PartitionId,
    #[rkyv(with = crate::archive::Plain)]
    key: Key,
}

impl Entity {
    /// Names the entity `key` of `operator`.
    pub fn new(layout: &Layout, operator: OperatorId, composite: bool, key: Key) -> Self {
        let partition = layout.partition(&key, composite);
        Entity::within(layout, operator, partition, key)
    }

    /// Names the entity `key` of `operator`, of which it is known that it lives in `partition`.
    pub fn within(layout: &Layout, operator: OperatorId, partition: PartitionId, key: Key) -> Self {
        let hash = xxh3_64_with_seed(
            key.as_bytes(),
            layout.seed ^ (u64::from(operator.0) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        );
        Entity { hash, operator, partition, key }
    }

    /// The entity that was in `partition` under another layout of the cluster, `before`.
    pub fn relaid(
        layout: &Layout,
        before: &Layout,
        (operator, composite): (OperatorId, bool),
        partition: PartitionId,
        key: Key,
    ) -> Self {
        if is_system(operator) {
            return Entity::within(layout, operator, layout.of_system(partition, before), key);
        }
        Entity::new(layout, operator, composite, key)
    }

    /// An end of an ordered range: compared by operator and key, never looked up.
    pub(crate) fn probe(operator: OperatorId, key: Key) -> Self {
        Entity { hash: 0, operator, partition: PartitionId(0), key }
    }

    /// Whether hash and partition are those of operator and key: another process may have said something else.
    pub fn is_sound(&self, layout: &Layout, composite: bool) -> bool {
        let own = Entity::new(layout, self.operator, composite, self.key.clone());
        (self.hash, self.partition) == (own.hash, own.partition)
    }

    /// Hash of operator and key under the cluster's seed.
    pub fn hash(&self) -> u64 {
        self.hash
    }
    pub fn operator(&self) -> OperatorId {
        self.operator
    }
    /// The partition that owns the entity.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }
    pub fn key(&self) -> &Key {
        &self.key
    }
}

impl PartialEq for Entity {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.operator == other.operator && self.key == other.key
    }
}
impl Eq for Entity {}

/// A map from entities that remembers insertion order, so that walking it is deterministic.
/// `E` is an entity or a reference to one.
///
/// Small maps (most RW sets) are searched linearly by hash; an index is built past that.
#[derive(Clone, Debug)]
pub struct EntityMap<T, E = Entity> {
    entries: Vec<(E, T)>,
    /// Absent while the map is small.
    index: Option<Box<HashTable<u32>>>,
}

const LINEAR_MAX: usize = 12;

fn index_of<E: Borrow<Entity>, T>(entries: &[(E, T)]) -> HashTable<u32> {
    let mut index = HashTable::with_capacity(2 * entries.len());
    (0..entries.len()).for_each(|at| insert(&mut index, entries, at));
    index
}

fn insert<E: Borrow<Entity>, T>(index: &mut HashTable<u32>, entries: &[(E, T)], at: usize) {
    let hash = |at: usize| entries[at].0.borrow().hash;
    index.insert_unique(hash(at), at as u32, |&at| hash(at as usize));
}

impl<T, E> Default for EntityMap<T, E> {
    fn default() -> Self {
        EntityMap { entries: Vec::new(), index: None }
    }
}

impl<T, E: Borrow<Entity> + Clone> EntityMap<T, E> {
    /// An empty map that has room for so many entities.
    pub fn with_capacity(entities: usize) -> Self {
        let index = (entities > LINEAR_MAX).then(|| Box::new(HashTable::with_capacity(entities)));
        EntityMap { entries: Vec::with_capacity(entities), index }
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Entities and values in insertion order.
    pub fn iter(&self) -> std::slice::Iter<'_, (E, T)> {
        self.entries.iter()
    }
    /// The same, values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&E, &mut T)> {
        self.entries.iter_mut().map(|(entity, value)| (&*entity, value))
    }
    /// Takes everything out, in insertion order.
    pub fn into_entries(self) -> Vec<(E, T)> {
        self.entries
    }

    /// Where an entity stands, if it does.
    pub fn find(&self, entity: &Entity) -> Option<usize> {
        let Some(index) = &self.index else {
            return self.entries.iter().position(|(candidate, _)| candidate.borrow() == entity);
        };
        let found = index.find(entity.hash, |&at| self.entries[at as usize].0.borrow() == entity);
        found.map(|&at| at as usize)
    }

    pub fn get(&self, entity: &Entity) -> Option<&T> {
        self.find(entity).map(|at| &self.entries[at].1)
    }

    /// The value at a place that [`EntityMap::place`] gave.
    pub fn at(&self, place: usize) -> &T {
        &self.entries[place].1
    }

    /// The value of an entity, made by `make` if absent.
    pub fn entry(&mut self, entity: &E, make: impl FnOnce() -> T) -> &mut T {
        let place = self.place(entity, make);
        &mut self.entries[place].1
    }

    /// Where an entity stands, for good; put there with the value of `make` if absent.
    pub fn place(&mut self, entity: &E, make: impl FnOnce() -> T) -> usize {
        self.find(entity.borrow()).unwrap_or_else(|| self.add(entity.clone(), make()))
    }

    /// Where an entity that is absent will stand, for good.
    pub fn add(&mut self, entity: E, value: T) -> usize {
        debug_assert!(self.find(entity.borrow()).is_none(), "an entity stands in one place");
        self.push(entity, value);
        self.entries.len() - 1
    }

    /// The value at a place, to be changed.
    pub fn at_mut(&mut self, place: usize) -> &mut T {
        &mut self.entries[place].1
    }

    fn push(&mut self, entity: E, value: T) {
        if self.entries.capacity() == 0 {
            self.entries.reserve_exact(2); // Most RW sets are this small, and thousands are kept.
        }
        self.entries.push((entity, value));
        match &mut self.index {
            None if self.entries.len() <= LINEAR_MAX => {}
            None => self.index = Some(Box::new(index_of(&self.entries))),
            Some(index) => insert(index, &self.entries, self.entries.len() - 1),
        }
    }
}
