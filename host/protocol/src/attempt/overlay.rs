//! Writes that are decided but not yet applied: the state between two members of a fallback component.

use crate::entity::{Entity, EntityMap, Key, Value};
use crate::ids::OperatorId;
use crate::mutants::{Bug, planted};
use crate::range::KeyRange;
use crate::state::Write;

/// Writes in front of the committed state. The last write to an entity counts.
#[derive(Debug, Default)]
pub struct Overlay {
    writes: EntityMap<Option<Value>>,
}

impl Overlay {
    /// What was written to an entity, if anything; `None` inside for a delete.
    pub fn get(&self, entity: &Entity) -> Option<&Option<Value>> {
        self.writes.get(entity).filter(|written| written.is_some() || !planted(Bug::OverlayDeletes))
    }

    /// Adds a write.
    pub fn apply(&mut self, (entity, value): Write) {
        *self.writes.entry(&entity, || None) = value;
    }

    /// Writes to an operator's keys inside a range, in no particular order.
    pub fn in_range<'a>(
        &'a self,
        operator: OperatorId,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (&'a Key, &'a Option<Value>)> {
        self.writes
            .iter()
            .filter(move |(entity, _)| entity.operator() == operator && range.contains(entity.key()))
            .map(|(entity, value)| (entity.key(), value))
    }

    /// All writes, one per entity.
    pub fn into_writes(self) -> Vec<Write> {
        self.writes.into_entries()
    }
}
