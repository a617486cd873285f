//! Effects: work that a transaction leaves behind, to be done after it has committed.
//!
//! An effect is an entity of a system operator, in the partition of the entity whose function left it,
//! so it commits with the transaction, is durable and recovered with the state, and moves with its
//! partition. Its key begins with its due time and is unlike any other: nobody else can have touched
//! it, and it causes no conflict. Nothing produces effects yet.

use crate::ids::{PartitionId, Tid, Timestamp};
use crate::sequence::system::EFFECTS;
use crate::state::Write;
use crate::state::entity::{Entity, Layout, Value};

/// Sort of work that an effect stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EffectKind {
    /// Another function is invoked, as a transaction of its own.
    Send = 1,
    /// A record goes to a topic.
    Emit = 2,
    /// A request goes to the world outside.
    Fetch = 3,
    /// A task runs outside of transactions.
    Run = 4,
    /// An object is stored.
    Put = 5,
}

/// An effect: its place in the order of all effects, its sort, and its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    entity: Entity,
    /// The sort of work.
    pub kind: EffectKind,
    /// Its arguments, in the encoding of its kind.
    pub payload: Value,
}

/// Place of an effect in the order in which effects are done: by due time, transaction, the place in the
/// call graph of the function that left it, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EffectKey {
    /// Not to be done before.
    pub due: Timestamp,
    /// The transaction that left it.
    pub tid: Tid,
    /// The function's place in its call graph.
    pub place: u64,
    /// Number of the effect among those of the function.
    pub index: u32,
}

impl Effect {
    /// An effect left by a function on an entity of `partition`.
    pub fn new(layout: &Layout, partition: PartitionId, key: EffectKey, kind: EffectKind, payload: Value) -> Self {
        let EffectKey { due, tid, place, index } = key;
        // Of fixed width, so that the order of the texts is that of the numbers.
        let key = format!("{:016x}{:016x}{place:016x}{index:08x}", due.0, tid.0);
        Effect { entity: Entity::within(layout, EFFECTS.id, partition, key.into()), kind, payload }
    }

    /// The entity that stands for it until it is done.
    pub fn entity(&self) -> &Entity {
        &self.entity
    }

    /// The write that leaves it behind: a byte for its kind, then its payload.
    pub fn write(&self) -> Write {
        let value: Vec<u8> = [self.kind as u8].into_iter().chain(self.payload.iter().copied()).collect();
        (self.entity.clone(), Some(value.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_effects_are_done() {
        let layout = Layout::new(1, 8);
        let key = |due, tid, place, index| EffectKey { due: Timestamp(due), tid: Tid(tid), place, index };
        let mut keys = [key(9, 1, 1, 1), key(10, 0, 0, 0), key(9, 2, 0, 0), key(9, 1, 2, 0), key(9, 1, 1, 300)];
        let name = |key| {
            let effect = Effect::new(&layout, PartitionId(3), key, EffectKind::Send, Value::from(&b"x"[..]));
            effect.entity().key().clone()
        };
        let mut names = keys.map(name);
        names.sort_unstable();
        keys.sort_unstable();
        assert_eq!(names, keys.map(name));
    }
}
