//! Parts that are being written, or were, and that no manifest mentions yet: a collection must leave them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Default)]
pub(crate) struct Unmentioned(Arc<Mutex<HashSet<String>>>);

impl Unmentioned {
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
