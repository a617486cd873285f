//! The directory of a process on its machine's disk, which survives it: the log and components; and the way to the store
//! of snapshots, which all machines share.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use styx_driver::suspicion::{Suspect, after_death};
use styx_durability::components::Components;
use styx_protocol::control::Control;
use styx_protocol::deployment::Digest;
use styx_protocol::ids::Timestamp;
use styx_storage::snapshot::{Memory, Runtime, StoreLocation};

use crate::disk::Disk;
use crate::store::{Client, Names};

/// What was under way when processes ended.
#[derive(Debug, Default)]
struct Notes {
    /// In the life that ended last, until the next one looks.
    found: Option<Vec<Suspect>>,
    suspects: Vec<Suspect>,
}

/// See the module. Clones are the same.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The disk that the log is on.
    pub disk: Disk,
    kept: Kept,
    notes: Rc<RefCell<Notes>>,
    pub place: StoreLocation,
    /// How code of the store waits and finds names.
    pub runtime: Runtime,
}

impl Directory {
    /// An empty one, and the way to a store.
    pub fn new(disk: Disk, store: &Client, names: &Arc<Names>) -> Self {
        let memory = Memory::from(Arc::new(store.clone()) as Arc<dyn object_store::ObjectStore>);
        let runtime = Runtime::Inline(names.clone());
        let notes = Rc::default();
        Directory { disk, kept: Kept::default(), notes, place: StoreLocation::in_memory(&memory), runtime }
    }

    /// The same, with components that others put there, too.
    #[must_use]
    pub fn with_components(self, kept: &Kept) -> Self {
        Directory { kept: kept.clone(), ..self }
    }

    /// What a life has left under way when it ended; `None` if it never had anything to do.
    pub fn note(&self, found: Option<Vec<Suspect>>) {
        self.notes.borrow_mut().found = found;
    }

    /// A life begins: what the one before has left makes suspects.
    pub fn suspect(&self) {
        let Notes { found, suspects } = &mut *self.notes.borrow_mut();
        if let Some(found) = found.take() {
            *suspects = after_death(std::mem::take(suspects), found);
        }
    }

    /// Who is suspected here.
    pub fn suspects(&self) -> Vec<Suspect> {
        self.notes.borrow().suspects.clone()
    }

    /// Only these are suspected any more.
    pub fn keep_suspects(&self, suspects: Vec<Suspect>) {
        self.notes.borrow_mut().suspects = suspects;
    }

    /// Whether there is no room for what a log appends.
    pub fn is_full(&self) -> bool {
        self.disk.is_nearly_full()
    }

    /// Components that are kept here.
    pub fn components(&self) -> &Kept {
        &self.kept
    }

    /// Keeps the components of a deployment, as the endpoint does that takes it.
    pub fn keep_components(&self, control: &Control) {
        if let Some(deployment) = control.deployment() {
            self.kept.lock().extend(deployment.components.iter().map(|component| component.digest));
        }
    }

    /// Keeps a component.
    pub fn keep(&self, digest: Digest, bytes: &[u8]) {
        assert_eq!(bytes, digest.0, "a component is what its digest says");
        self.kept.lock().insert(digest);
    }

    /// Whether a component is here.
    pub fn has(&self, digest: Digest) -> bool {
        self.kept.lock().contains(&digest)
    }

    /// The bytes of a component, if it is here.
    pub fn component(&self, digest: Digest) -> Option<Vec<u8>> {
        self.kept.get(digest).ok()
    }
}

/// Components of a machine: toys, whose bytes are their digests.
#[derive(Clone, Debug, Default)]
pub struct Kept(Arc<Mutex<BTreeSet<Digest>>>);

impl Kept {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Components for Kept {
    fn contains(&self, digest: Digest) -> bool {
        self.lock().contains(&digest)
    }

    fn get(&self, digest: Digest) -> io::Result<Vec<u8>> {
        if self.lock().contains(&digest) { Ok(digest.0.to_vec()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest(bytes.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?);
        self.lock().insert(digest);
        Ok(digest)
    }

    /// It has no times, so nothing is ever old.
    fn collect(&self, _: &BTreeSet<Digest>, _: Timestamp) -> io::Result<usize> {
        Ok(0)
    }
}
