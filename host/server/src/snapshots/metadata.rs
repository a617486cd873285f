//! Snapshot metadata: one blob with all that a snapshot holds besides partitions and components.

use styx_protocol::format::{FormatError, SNAPSHOT_HEAD};
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
        SNAPSHOT_HEAD.encode(self)
    }

    /// Reads the blob, validating it before it is believed.
    ///
    /// # Errors
    /// The bytes are no metadata of this version of the format.
    pub fn decode(bytes: &[u8]) -> Result<SnapshotMetadata, FormatError> {
        SNAPSHOT_HEAD.decode(bytes)
    }
}

/// A name for a cluster that no other has: of what was decided when it was created.
pub fn identity(genesis: &Genesis) -> u128 {
    let mut bytes = [0u8; 20];
    bytes[..8].copy_from_slice(&genesis.layout.seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&genesis.layout.partitions.to_le_bytes());
    bytes[12..].copy_from_slice(&genesis.created.0.to_le_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}
