//! Snapshot metadata: one blob with all that a snapshot holds besides partitions and components.

use styx_protocol::entity::Layout;
use styx_protocol::format::{FormatError, SNAPSHOT_HEAD};
use styx_protocol::ids::PartitionId;
use styx_protocol::record::Genesis;
use styx_protocol::snapshot::SnapshotHeader;
use styx_protocol::state::StateHash;
use styx_protocol::transaction::CarriedTransaction;

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
pub(crate) const METADATA: &str = "head";

/// How the names of components begin among a snapshot's system parts.
pub(crate) const COMPONENT: &str = "component/";

impl SnapshotMetadata {
    /// The layout that the snapshot's partitions are of.
    pub fn layout(&self) -> Layout {
        // Each partition has a hash.
        Layout { partitions: self.hashes.len() as u32, ..self.genesis.layout() }
    }

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
    bytes[..8].copy_from_slice(&genesis.seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&genesis.partitions.to_le_bytes());
    bytes[12..].copy_from_slice(&genesis.created.0.to_le_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use styx_protocol::catalog::Catalog;
    use styx_protocol::ids::{Epoch, Generation, NodeId, OperatorId, RequestId, Tid, Timestamp, WorkerId};
    use styx_protocol::placement::{Seat, Seating};
    use styx_protocol::record::Chain;
    use styx_protocol::transaction::Request;

    use super::*;

    const FIXTURE: &[u8] = include_bytes!("../fixtures/snapshot-head-7.bin");

    fn metadata() -> SnapshotMetadata {
        let (function, key) = ("transfer".into(), "alice".into());
        let (operator, args) = (OperatorId(3), vec![1, 2, 3].into());
        let request = Request { id: RequestId(5), operator, function, key, args, retained: true, origin: None };
        SnapshotMetadata {
            genesis: Genesis { seed: 77, partitions: 4, created: Timestamp(1_700_000_000) },
            header: SnapshotHeader {
                generation: Generation(4),
                epoch: Epoch(9),
                chain: Chain(1 << 100),
                time: Timestamp(1_700_000_001),
                highest: Tid(41),
                catalog: Catalog::default().image(),
                seating: Some(Seating {
                    seats: vec![Seat { node: NodeId(1 << 40), emptied: true }],
                    owners: vec![WorkerId(0); 4],
                }),
            },
            carried: vec![CarriedTransaction {
                tid: Tid(38),
                time: Timestamp(1_700_000_000),
                request: Arc::new(request),
            }],
            hashes: (0..4).map(|id| (PartitionId(id), StateHash(u128::from(id) << 90))).collect(),
        }
    }

    #[test]
    #[ignore = "writes the fixture: only together with a new version of the format"]
    fn write_the_fixture() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/snapshot-head-7.bin");
        std::fs::write(path, metadata().encode()).unwrap();
    }

    #[test]
    fn what_was_written_in_this_format_is_read_and_written_alike() {
        assert_eq!(SNAPSHOT_HEAD.version, 7, "a new format needs a fixture of its own");
        assert_eq!(SnapshotMetadata::decode(FIXTURE), Ok(metadata()));
        assert!(
            metadata().encode() == FIXTURE,
            "the encoding has changed: raise the version, and write a fixture of it"
        );
    }

    #[test]
    fn other_versions_are_refused_by_name() {
        let refused = |bytes: &[u8]| SnapshotMetadata::decode(bytes).unwrap_err().to_string();
        // Version 1 had no header.
        let older = refused(&FIXTURE[16..]);
        assert!(older.contains("snapshot head of format version 1") && older.contains("reads version 7"), "{older}");
        for (bytes, version) in [
            (&include_bytes!("../fixtures/snapshot-head-2.bin")[..], "version 2"),
            (include_bytes!("../fixtures/snapshot-head-3.bin"), "version 3"),
            (include_bytes!("../fixtures/snapshot-head-4.bin"), "version 4"),
            (include_bytes!("../fixtures/snapshot-head-5.bin"), "version 5"),
            (include_bytes!("../fixtures/snapshot-head-6.bin"), "version 6"),
        ] {
            let older = refused(bytes);
            assert!(older.contains(version) && older.contains("reads version 7"), "{older}");
        }
        let mut newer = FIXTURE.to_vec();
        newer[6] = 8;
        let newer = refused(&newer);
        assert!(
            newer.contains("snapshot head of format version 8") && newer.contains("install the release"),
            "{newer}"
        );
        let cut_off = refused(&FIXTURE[..FIXTURE.len() - 8]);
        assert!(cut_off.contains("damaged"), "{cut_off}");
    }
}
