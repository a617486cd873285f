//! Metadata that the coordinators of a cluster share in the store, besides snapshots: the cluster's id in a log that
//! servers keep, and the components of deployments that no snapshot holds yet. Each coordinator has a data directory
//! of its own, whose contents would be lost with its machine.
//!
//! Both are put once and never changed. A collection deletes parts and manifests only, and leaves them alone.

use super::envelope;
use super::error::SnapshotError;
use super::location::{RetryPolicy, StoreLocation};
use super::objects::Objects;
use super::runtime::Runtime;

const CLUSTER: &str = "log-cluster";
const MAGIC: &[u8; 8] = b"STYXLOGC";
const COMPONENT_MAGIC: &[u8; 8] = b"STYXCOMP";
const VERSION: u16 = 1;

/// Metadata shared by all coordinators of a cluster. Clones access the same objects.
#[derive(Clone, Debug)]
pub struct ClusterMetadata {
    objects: Objects,
    url: String,
}

impl ClusterMetadata {
    /// Opens the metadata at `location`, whichever cluster owns that store.
    ///
    /// # Errors
    /// [`SnapshotError::Unusable`] if the place cannot be used.
    pub fn open(location: &StoreLocation, runtime: impl Into<Runtime>) -> Result<Self, SnapshotError> {
        let runtime = runtime.into();
        Objects::open(location, RetryPolicy::Opening, runtime.clone())?.probe(location)?;
        let objects = Objects::open(location, RetryPolicy::Running, runtime)?;
        Ok(Self { objects, url: location.url().to_owned() })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Id of this cluster in its log: the stored one, or else `proposal`, which is then stored.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not answer, [`SnapshotError::Damaged`] if what is there is.
    pub fn cluster(&self, proposal: u128) -> Result<u128, SnapshotError> {
        if let Some(there) = self.read_cluster()? {
            return Ok(there);
        }
        self.objects.put_new(CLUSTER, envelope::wrap(MAGIC, VERSION, &proposal.to_le_bytes()))?;
        // Another coordinator may have been quicker.
        self.read_cluster()?.ok_or_else(|| SnapshotError::Missing { object: CLUSTER.into() })
    }

    fn read_cluster(&self) -> Result<Option<u128>, SnapshotError> {
        let Some(found) = self.objects.get(CLUSTER)? else { return Ok(None) };
        let (_, body) = envelope::unwrap(MAGIC, VERSION, CLUSTER, &found.bytes)?;
        let body = body.as_slice().try_into();
        let body =
            body.map_err(|_| SnapshotError::damaged(CLUSTER, envelope::HEADER as u64, "it has a wrong length"))?;
        Ok(Some(u128::from_le_bytes(body)))
    }

    /// Keeps a component under its digest; it is durable when this returns. Doing so again costs a request.
    ///
    /// # Errors
    /// [`SnapshotError::Store`] if the store does not take it.
    pub fn put_component(&self, digest: &str, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.objects.put_new(&component(digest), envelope::wrap(COMPONENT_MAGIC, VERSION, bytes)).map(drop)
    }

    /// The component of this digest, if it is there.
    ///
    /// # Errors
    /// [`SnapshotError::Damaged`] if it is not what was put, [`SnapshotError::Store`] if the store does not answer.
    pub fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, SnapshotError> {
        let name = component(digest);
        let Some(found) = self.objects.get(&name)? else { return Ok(None) };
        Ok(Some(envelope::unwrap(COMPONENT_MAGIC, VERSION, &name, &found.bytes)?.1.into_vec()))
    }
}

fn component(digest: &str) -> String {
    format!("components/{digest}")
}
