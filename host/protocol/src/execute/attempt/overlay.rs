//! Writes that are decided but not yet applied: the state between two transactions of the fallback.

use styx_planted::{Bug, planted};

use super::Footprint;
use super::index::KeyIndex;
use crate::ids::OperatorId;
use crate::sequence::catalog::Catalog;
use crate::state::Write;
use crate::state::entity::{Entity, EntityMap, Key, Layout, Value};
use crate::state::range::KeyRange;

/// Writes in front of the committed state. The last write to an entity counts.
#[derive(Debug, Default)]
pub struct Overlay {
    writes: EntityMap<Option<Value>>,
    /// Kept from the first scan on.
    index: Option<KeyIndex>,
}

impl Overlay {
    /// What was written to an entity, if anything; `None` inside for a delete.
    pub fn get(&self, entity: &Entity) -> Option<&Option<Value>> {
        self.writes.get(entity).filter(|written| written.is_some() || !planted(Bug::OverlayDeletes))
    }

    /// Adds a write.
    pub fn apply(&mut self, (entity, value): Write) {
        if let Some(index) = &mut self.index {
            index.insert(&entity);
        }
        *self.writes.entry(&entity, || None) = value;
    }

    /// Writes to an operator's keys inside a range, in key order.
    pub fn in_range(
        &mut self,
        layout: &Layout,
        operator: OperatorId,
        composite: bool,
        range: &KeyRange,
    ) -> Vec<(Key, Option<Value>)> {
        let writes = &self.writes;
        let index = self.index.get_or_insert_with(|| KeyIndex::of(writes.iter().map(|(entity, _)| entity)));
        let value = |key: &Key| self.writes.get(&Entity::new(layout, operator, composite, key.clone())).cloned();
        index.in_range(operator, range).filter_map(|key| Some((key.clone(), value(key)?))).collect()
    }

    /// Those of the writes that the locks of a RW set cover.
    pub(crate) fn covered_by(&mut self, layout: &Layout, catalog: &Catalog, footprint: &Footprint) -> Overlay {
        let mut covered = Overlay::default();
        for (entity, _) in footprint.accesses.iter() {
            if let Some(value) = self.writes.get(entity) {
                covered.apply((entity.clone(), value.clone()));
            }
        }
        for read in &footprint.ranges {
            let composite = catalog.operator(read.operator).is_some_and(|operator| operator.composite);
            for (key, value) in self.in_range(layout, read.operator, composite, &read.range) {
                covered.apply((Entity::new(layout, read.operator, composite, key), value));
            }
        }
        covered
    }

    /// All writes, one per entity.
    pub fn into_writes(self) -> Vec<Write> {
        self.writes.into_entries()
    }
}
