//! The RW set of a transaction.

use styx_planted::{Bug, planted};

use super::ThinVec;
use crate::state::entity::{Entity, EntityMap, Value};
use crate::state::range::RangeRead;

/// What a transaction did to one entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    read: bool,
    write: Option<Option<Value>>,
}

impl Access {
    /// Whether the committed value was read (reading one's own write is not a read).
    pub fn is_read(&self) -> bool {
        self.read
    }
    /// Whether it was written.
    pub fn is_write(&self) -> bool {
        self.write.is_some()
    }
    /// What was written: a value, or `None` inside for a delete.
    pub fn write(&self) -> Option<Option<&Value>> {
        self.write.as_ref().map(Option::as_ref)
    }
    pub(crate) fn set_read(&mut self) {
        self.read = true;
    }
    pub(crate) fn set_write(&mut self, value: Option<Value>) {
        self.write = Some(value);
    }
}

/// Entities read and written, in the order of first access.
pub type Accesses = EntityMap<Access>;

/// The whole RW set: entities and ranges.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// Entities.
    pub accesses: Accesses,
    /// Ranges read.
    pub ranges: ThinVec<RangeRead>,
}

impl Footprint {
    /// Whether the locks of this RW set cover a read of `entity`.
    ///
    /// A smaller RW set than the cached one is no drift: its locks are held.
    pub fn admits_read(&self, entity: &Entity) -> bool {
        self.accesses.get(entity).is_some()
            || planted(Bug::DriftedReads)
            || self.ranges.iter().any(|read| read.contains(entity))
    }

    /// Whether the locks of this RW set cover a write of `entity`.
    pub fn admits_write(&self, entity: &Entity) -> bool {
        self.accesses.get(entity).is_some_and(Access::is_write)
    }
}
