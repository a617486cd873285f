//! The objects that a worker has written of a snapshot, as they travel to whoever puts its manifest: only the store
//! reads them.

use rkyv::rancor;
use styx_protocol::archive::aligned;
use styx_storage::snapshot::PartRef;

/// Writes a worker's list of objects.
pub(crate) fn encode(parts: &Vec<PartRef>) -> Vec<u8> {
    rkyv::to_bytes::<rancor::Error>(parts).expect("a list in memory can be written to memory").to_vec()
}

/// Reads a worker's list of objects.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<PartRef>, rancor::Error> {
    rkyv::from_bytes::<Vec<PartRef>, rancor::Error>(&aligned(bytes))
}
