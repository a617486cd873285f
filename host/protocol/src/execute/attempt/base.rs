//! Base: what an attempt reads in front of its own writes.

use std::sync::Arc;

use super::site::{Entry, Operation, RemoteResponse, Scan};
use crate::abort::Abort;
use crate::state::State;
use crate::state::entity::{Entity, EntityMap, Key, Layout, Payload, Value};

/// Reads committed state for a transaction that runs beside the epochs: asks whoever owns it, and waits.
pub trait Reader: std::fmt::Debug + Send {
    /// What [`Operation::Get`] or [`Operation::Scan`] finds: [`RemoteResponse::Value`], [`RemoteResponse::Entries`], or
    /// [`RemoteResponse::Failed`] if the run does not count any more.
    fn read(&mut self, operation: Operation) -> RemoteResponse;
}

/// See the module.
#[derive(Debug)]
pub(super) enum Base {
    /// The state at the epoch's start, which stays while the attempt runs.
    State(Arc<State>),
    /// State that goes on meanwhile.
    Current(Box<Current>),
}

/// See [`Base::Current`].
#[derive(Debug)]
pub(super) struct Current {
    layout: Layout,
    reader: Box<dyn Reader>,
    /// What was read, so that it is the same whenever it is read again.
    seen: EntityMap<Option<Value>>,
}

impl Base {
    pub fn current(layout: Layout, reader: Box<dyn Reader>) -> Self {
        Base::Current(Box::new(Current { layout, reader, seen: EntityMap::default() }))
    }

    pub fn layout(&self) -> Layout {
        match self {
            Base::State(state) => state.layout(),
            Base::Current(current) => current.layout,
        }
    }

    /// Entries in a range, at most `limit`, in order.
    ///
    /// # Errors
    /// The run does not count any more.
    pub fn scan(&mut self, scan: &Scan, limit: usize) -> Result<Vec<(Key, Value)>, Abort> {
        match self {
            Base::State(state) => Ok(state.scan(scan.operator, &scan.range, scan.partition, limit, scan.reverse)),
            Base::Current(current) => {
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                match current.reader.read(Operation::Scan(Scan { limit, ..scan.clone() })) {
                    RemoteResponse::Entries(entries) => {
                        Ok(entries.into_iter().map(|Entry(key, value)| (key, value)).collect())
                    }
                    RemoteResponse::Failed(abort) => Err(abort),
                    other => panic!("a scan was answered with {other:?}"),
                }
            }
        }
    }
}

impl Current {
    /// The value of an entity.
    ///
    /// # Errors
    /// The run does not count any more.
    #[cold]
    pub fn get(&mut self, entity: &Entity) -> Result<Option<Value>, Abort> {
        if let Some(seen) = self.seen.get(entity) {
            return Ok(seen.clone());
        }
        match self.reader.read(Operation::Get(entity.clone())) {
            RemoteResponse::Value(value) => {
                let value = value.map(|Payload(value)| value);
                self.seen.add(entity.clone(), value.clone());
                Ok(value)
            }
            RemoteResponse::Failed(abort) => Err(abort),
            other => panic!("a read was answered with {other:?}"),
        }
    }
}
