//! Components of deployments, as a process keeps them: a snapshot holds those that its catalog names.

use std::collections::BTreeSet;
use std::io;

use styx_protocol::deployment::Digest;
use styx_protocol::ids::Timestamp;

/// Whether an error says that a component is lost: not there, or not what its digest says. Any other may pass.
pub fn is_lost(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
}

/// Components under their digests: never changed, believed only when the content matches the name.
pub trait Components {
    /// Returns true if a component is there.
    fn contains(&self, digest: Digest) -> bool;

    /// The bytes of a component.
    ///
    /// # Errors
    /// It is not there, or its content is not what its digest says.
    fn get(&self, digest: Digest) -> io::Result<Vec<u8>>;

    /// Keeps a component; it is durable when this returns. Doing so again costs a look.
    fn put(&self, bytes: &[u8]) -> io::Result<Digest>;

    /// Deletes those that are not needed and were put, or put again, before a time; gives how many.
    fn collect(&self, needed: &BTreeSet<Digest>, before: Timestamp) -> io::Result<usize>;
}
