//! The keys of a set of writes in order, for scans: made by the first scan, kept up from then on.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::ids::OperatorId;
use crate::state::entity::{Entity, Key};
use crate::state::range::KeyRange;

/// Ordered keys, per operator.
#[derive(Debug, Default)]
pub(super) struct KeyIndex(BTreeSet<(OperatorId, Key)>);

impl KeyIndex {
    /// An index of some entities.
    pub fn of<'a>(entities: impl Iterator<Item = &'a Entity>) -> Self {
        KeyIndex(entities.map(|entity| (entity.operator(), entity.key().clone())).collect())
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds an entity.
    pub fn insert(&mut self, entity: &Entity) {
        self.0.insert((entity.operator(), entity.key().clone()));
    }

    /// Keys of an operator inside a range.
    pub fn in_range<'a>(&'a self, operator: OperatorId, range: &'a KeyRange) -> impl Iterator<Item = &'a Key> {
        let lower = match &range.lower {
            Bound::Included(key) | Bound::Excluded(key) => key.clone(),
            Bound::Unbounded => Key::from(""),
        };
        let from = self.0.range((Bound::Included((operator, lower)), Bound::Unbounded));
        let above = |key: &Key| match &range.upper {
            Bound::Unbounded => false,
            Bound::Included(upper) => key > upper,
            Bound::Excluded(upper) => key >= upper,
        };
        from.take_while(move |(of, key)| *of == operator && !above(key))
            .map(|(_, key)| key)
            .filter(|key| range.contains(key))
    }
}
