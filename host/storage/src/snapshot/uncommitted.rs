//! Registry of packs that no manifest mentions yet, because they are being written or about to be committed: a
//! collection must leave them alone.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Default)]
pub(crate) struct UncommittedObjects(Arc<Mutex<HashSet<String>>>);

impl UncommittedObjects {
    pub(crate) fn insert(&self, object: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(object.to_owned());
    }

    pub(crate) fn remove(&self, object: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(object);
    }

    pub(crate) fn all(&self) -> HashSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
