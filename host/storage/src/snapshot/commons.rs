//! What coordinators that take over from each other find in the store besides snapshots: who they are to a log that
//! servers keep, and the components of deployments that no snapshot holds yet. Each of them has a data directory of
//! its own, and what only one of those holds would be lost with its machine.
//!
//! Both are put once and never changed. A collection deletes parts and manifests only, and leaves them alone.

use tokio::runtime::Handle;

use super::error::SnapshotError;
use super::frame;
use super::objects::Objects;
use super::place::{Patience, Place};

const CLUSTER: &str = "log-cluster";
const MAGIC: &[u8; 8] = b"STYXLOGC";
const COMPONENT_MAGIC: &[u8; 8] = b"STYXCOMP";
const VERSION: u16 = 1;

/// See the module. Clones are the same.
#[derive(Clone, Debug)]
pub struct Commons {
    objects: Objects,
    url: String,
}

impl Commons {
    /// Opens what is common at `place`, whoever's store that is.
    ///
    /// # Errors
    /// [`SnapshotError::Unusable`] if the place cannot be used.
    pub fn open(place: &Place, runtime: &Handle) -> Result<Self, SnapshotError> {
        Objects::open(place, Patience::Opening, runtime.clone())?.probe(place)?;
        let objects = Objects::open(place, Patience::Running, runtime.clone())?;
        Ok(Self { objects, url: place.url().to_owned() })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Who these coordinators are to their log: what is there, or else `proposal`, from now on.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not answer, [`SnapshotError::Damaged`] if what is there is.
    pub fn cluster(&self, proposal: u128) -> Result<u128, SnapshotError> {
        if let Some(there) = self.read_cluster()? {
            return Ok(there);
        }
        self.objects.put_new(CLUSTER, frame::wrap(MAGIC, VERSION, &proposal.to_le_bytes()))?;
        // Somebody else's, perhaps, who was quicker.
        self.read_cluster()?.ok_or_else(|| SnapshotError::Missing { object: CLUSTER.into() })
    }

    fn read_cluster(&self) -> Result<Option<u128>, SnapshotError> {
        let Some(found) = self.objects.get(CLUSTER)? else { return Ok(None) };
        let body = frame::unwrap(MAGIC, VERSION, CLUSTER, &found.bytes)?;
        let body = body.as_slice().try_into();
        let body = body.map_err(|_| SnapshotError::damaged(CLUSTER, frame::HEADER as u64, "it has a wrong length"))?;
        Ok(Some(u128::from_le_bytes(body)))
    }

    /// Keeps a component under its digest; it is durable when this returns. Doing so again costs a request.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not take it.
    pub fn put_component(&self, digest: &str, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.objects.put_new(&component(digest), frame::wrap(COMPONENT_MAGIC, VERSION, bytes)).map(drop)
    }

    /// The component of this digest, if it is there.
    ///
    /// # Errors
    /// [`SnapshotError::Damaged`] if it is not what was put, [`SnapshotError::Store`] if the store does not answer.
    pub fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, SnapshotError> {
        let name = component(digest);
        let Some(found) = self.objects.get(&name)? else { return Ok(None) };
        Ok(Some(frame::unwrap(COMPONENT_MAGIC, VERSION, &name, &found.bytes)?.into_vec()))
    }
}

fn component(digest: &str) -> String {
    format!("components/{digest}")
}
