//! What of a partition is still with its former owner, who hands it over after the partition has changed its owner
//! (*State Migration in Styx*, Algorithm 4).

use std::collections::{BTreeMap, BTreeSet};

use super::{Size, StateHash};
use crate::ids::OperatorId;
use crate::sequence::system::is_system;
use crate::state::entity::{Entity, Key};

/// A partition as its former owner left it: what its parts add up to, wherever they are.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Inventory {
    pub hash: StateHash,
    /// Of each operator of which something is there.
    pub sizes: Vec<(OperatorId, Size)>,
}

/// See the module. Entities of system operators are never missing.
#[derive(Debug)]
pub(super) struct Missing {
    hash: StateHash,
    sizes: BTreeMap<OperatorId, Size>,
    /// All up to this entity has arrived.
    upto: Option<(OperatorId, Key)>,
    /// Of what lies beyond: what was asked for and has arrived, whether there is such an entity or not.
    fetched: BTreeMap<OperatorId, BTreeSet<Key>>,
}

/// What has arrived is not what was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnnounced;

impl Missing {
    /// What is missing of an inventory where `hash` and `sizes` are here.
    pub fn new(
        inventory: Inventory,
        hash: StateHash,
        sizes: &BTreeMap<OperatorId, Size>,
    ) -> Result<Self, NotAnnounced> {
        let mut missing = Missing {
            hash: StateHash(inventory.hash.0.wrapping_sub(hash.0)),
            sizes: inventory.sizes.into_iter().collect(),
            upto: None,
            fetched: BTreeMap::new(),
        };
        for (operator, size) in sizes {
            missing.take(*operator, *size)?;
        }
        Ok(missing)
    }

    /// Whether an entity is here, or known not to be.
    pub fn lacks(&self, entity: &Entity) -> bool {
        let (operator, key) = (entity.operator(), entity.key());
        self.lacks_some(operator)
            && self.upto.as_ref().is_none_or(|(last, upto)| (operator, key) > (*last, upto))
            && !self.fetched.get(&operator).is_some_and(|fetched| fetched.contains(key))
    }

    /// Whether anything of an operator may be missing.
    pub fn lacks_some(&self, operator: OperatorId) -> bool {
        !is_system(operator) && self.sizes.contains_key(&operator)
    }

    pub fn hash(&self) -> StateHash {
        self.hash
    }

    pub fn sizes(&self) -> &BTreeMap<OperatorId, Size> {
        &self.sizes
    }

    /// So much of an operator has arrived.
    pub fn take(&mut self, operator: OperatorId, size: Size) -> Result<(), NotAnnounced> {
        let left = self.sizes.get_mut(&operator).ok_or(NotAnnounced)?;
        left.entities = left.entities.checked_sub(size.entities).ok_or(NotAnnounced)?;
        left.bytes = left.bytes.checked_sub(size.bytes).ok_or(NotAnnounced)?;
        if left.entities == 0 {
            if left.bytes > 0 {
                return Err(NotAnnounced);
            }
            self.sizes.remove(&operator);
        }
        Ok(())
    }

    /// What arrived hashes to this.
    pub fn take_hash(&mut self, hash: u128) {
        self.hash.0 = self.hash.0.wrapping_sub(hash);
    }

    /// It was asked for, and has arrived; or there is none.
    pub fn fetch(&mut self, entity: &Entity) {
        self.fetched.entry(entity.operator()).or_default().insert(entity.key().clone());
    }

    /// All up to an entity has arrived.
    pub fn go_upto(&mut self, upto: (OperatorId, Key)) {
        self.fetched.retain(|operator, keys| {
            if *operator == upto.0 {
                *keys = keys.split_off(&upto.1);
                keys.remove(&upto.1);
            }
            *operator >= upto.0 && !keys.is_empty()
        });
        self.upto = Some(upto);
    }

    /// Whether nothing is missing any more.
    pub fn is_nothing(&self) -> bool {
        self.sizes.is_empty() && self.hash == StateHash::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Partition, State};
    use super::*;
    use crate::ids::PartitionId;
    use crate::sequence::system::WATERMARKS;
    use crate::sequence::writes::PackedWrites;
    use crate::state::entity::{Layout, Value};

    const LAYOUT: Layout = Layout::new(3, 1);

    fn entity(operator: u32, key: &str) -> Entity {
        Entity::new(&LAYOUT, OperatorId(operator), false, key.into())
    }

    fn value(text: &str) -> Option<Value> {
        Some(Value::from(text.as_bytes()))
    }

    /// A partition as its former owner has it, with an entity of the system's.
    fn shadow() -> Partition {
        let mut partition = Partition::default();
        for (operator, key) in [(1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b"), (WATERMARKS.id.0, "w")] {
            partition.apply(entity(operator, key), value("before"));
        }
        partition
    }

    /// The same where it has become another worker's, and only what is the system's has arrived.
    fn announced(shadow: &Partition) -> Partition {
        let mut partition = Partition::default();
        partition.apply(entity(WATERMARKS.id.0, "w"), value("before"));
        partition.announce(shadow.inventory()).unwrap();
        partition
    }

    fn arrive(partition: &mut Partition, operator: u32, key: &str, text: Option<&str>, fetched: bool) {
        partition.arrive(entity(operator, key), text.and_then(value), fetched).unwrap();
        partition.check(PartitionId(0));
    }

    #[test]
    fn a_partition_that_arrives_counts_as_what_it_will_be() {
        let shadow = shadow();
        let mut partition = announced(&shadow);
        partition.check(PartitionId(0));
        assert_eq!((partition.hash(), partition.len(), partition.bytes()), (shadow.hash(), 6, shadow.bytes()));
        assert_eq!(partition.sizes(), shadow.sizes());
        assert!(!partition.lacks(&entity(WATERMARKS.id.0, "w")) && !partition.lacks(&entity(3, "a")));
        let mut after = None;
        loop {
            let mut writes = PackedWrites::default();
            let copied = shadow.copy(after.as_ref(), 1, &mut writes);
            for write in writes.iter() {
                let (entity, value) = write.unwrap().unpack(&LAYOUT).unwrap();
                partition.arrive(entity, value, false).unwrap();
            }
            let Some(last) = copied.last else { break };
            partition.arrived_upto(last.clone());
            assert!(!partition.lacks(&Entity::probe(last.0, last.1.clone())));
            after = Some(last);
            partition.check(PartitionId(0));
        }
        partition.complete().unwrap();
        assert!(partition.is_whole());
        assert_eq!((partition.hash(), partition.len(), partition.bytes()), (shadow.hash(), 6, shadow.bytes()));
        partition.check(PartitionId(0));
    }

    #[test]
    fn what_was_asked_for_is_here_and_what_was_written_since_is_newer() {
        let mut partition = announced(&shadow());
        assert!(partition.lacks(&entity(1, "b")) && partition.lacks_some(OperatorId(1)));
        arrive(&mut partition, 1, "b", Some("before"), true);
        arrive(&mut partition, 1, "c", Some("before"), true);
        arrive(&mut partition, 1, "bb", None, true);
        for key in ["b", "c", "bb"] {
            assert!(!partition.lacks(&entity(1, key)), "{key}");
        }
        assert!(partition.lacks(&entity(1, "a")) && partition.lacks(&entity(1, "d")));
        partition.apply(entity(1, "b"), value("after"));
        partition.apply(entity(1, "c"), None);
        partition.apply(entity(1, "bb"), value("new"));
        // The copy has them as they were.
        for (operator, key) in [(1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b")] {
            arrive(&mut partition, operator, key, Some("before"), false);
            partition.arrived_upto((OperatorId(operator), key.into()));
        }
        partition.complete().unwrap();
        let there = |key| partition.get(&entity(1, key)).cloned();
        assert_eq!(
            [there("a"), there("b"), there("c"), there("bb")],
            [value("before"), value("after"), None, value("new")]
        );
        assert_eq!(partition.len(), 6);
        partition.check(PartitionId(0));
    }

    #[test]
    fn what_is_not_whole_is_no_base_for_the_next_generation() {
        let shadow = shadow();
        let kept = |partition: Partition| {
            let mut state = State::new(LAYOUT);
            state.restore(PartitionId(0), partition);
            state.track();
            state.into_snapshots().count()
        };
        assert_eq!(kept(announced(&shadow)), 0);
        let mut partition = announced(&shadow);
        for (operator, key) in [(1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b")] {
            arrive(&mut partition, operator, key, Some("before"), false);
        }
        partition.complete().unwrap();
        assert_eq!(kept(partition), 1);
    }

    #[test]
    fn what_was_not_announced_is_refused() {
        let shadow = shadow();
        let mut partition = announced(&shadow);
        assert_eq!(partition.arrive(entity(1, "a"), value("far more than all of it was"), false), Err(NotAnnounced));
        let mut partition = announced(&shadow);
        assert_eq!(partition.complete(), Err(NotAnnounced), "nothing has arrived");
        let mut partition = announced(&shadow);
        for (operator, key) in [(1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b")] {
            partition.arrive(entity(operator, key), value("beforf"), false).unwrap();
        }
        assert_eq!(partition.complete(), Err(NotAnnounced), "other values");
        let mut partition = Partition::default();
        partition.apply(entity(5, "a"), value("x"));
        assert_eq!(partition.announce(shadow.inventory()), Err(NotAnnounced), "more is here");
    }
}
