//! Snapshot metadata: one blob with all that a snapshot holds besides partitions and components.

use rkyv::rancor;
use styx_protocol::archive::aligned;
use styx_protocol::ids::PartitionId;
use styx_protocol::record::Genesis;
use styx_protocol::snapshot::{CarriedTransaction, SnapshotHeader};
use styx_protocol::state::StateHash;

/// All that a snapshot holds besides partitions and components.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct SnapshotMetadata {
    /// What was decided when the cluster was created.
    pub genesis: Genesis,
    /// The coordinator's part.
    pub header: SnapshotHeader,
    /// Transactions that were moved to the next epoch, of all workers.
    pub carried: Vec<CarriedTransaction>,
    /// Hash of each partition, by id.
    pub hashes: Vec<(PartitionId, StateHash)>,
}

/// The name of the blob among a snapshot's system parts.
pub(super) const METADATA: &str = "head";

impl SnapshotMetadata {
    /// Bytes of the blob.
    pub fn encode(&self) -> Vec<u8> {
        rkyv::to_bytes::<rancor::Error>(self).expect("metadata in memory can be written to memory").to_vec()
    }

    /// Reads the blob, validating it before it is believed.
    ///
    /// # Errors
    /// The bytes are no metadata.
    pub fn decode(bytes: &[u8]) -> Result<SnapshotMetadata, rancor::Error> {
        rkyv::from_bytes::<SnapshotMetadata, rancor::Error>(&aligned(bytes))
    }
}

/// A name for a cluster that no other has: of what was decided when it was created.
pub fn identity(genesis: &Genesis) -> u128 {
    let mut bytes = [0u8; 18];
    bytes[..8].copy_from_slice(&genesis.layout.seed.to_le_bytes());
    bytes[8..10].copy_from_slice(&genesis.layout.partitions.to_le_bytes());
    bytes[10..].copy_from_slice(&genesis.created.0.to_le_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
