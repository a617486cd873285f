//! What stands in a store of snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use styx_durability::metadata::SnapshotMetadata;
use styx_storage::snapshot::{
    Batch, Environment, Manifest, Memory, PartKind, PartRef, Runtime, Sink, SnapshotStore, StoreLocation,
};

use super::files;
use crate::seal;

const IDENTITY: u128 = 0xC1;

/// A store of this thread's, with no objects but those that a target puts.
struct Store {
    snapshots: SnapshotStore,
    objects: Arc<dyn ObjectStore>,
}

#[derive(Debug)]
struct Still;

impl Environment for Still {
    fn nonce(&self) -> u128 {
        1
    }

    fn pause(&self, _: Duration) {}
}

thread_local! {
    static STORE: Store = {
        let memory = Memory::default();
        let location = StoreLocation::in_memory(&memory);
        let snapshots = SnapshotStore::open(&location, IDENTITY, Runtime::Inline(Arc::new(Still)));
        Store { snapshots: snapshots.expect("nothing fails here"), objects: memory.objects() }
    };
}

fn with<T>(name: &str, bytes: Vec<u8>, read: impl FnOnce(&SnapshotStore) -> T) -> T {
    STORE.with(|store| {
        pollster::block_on(store.objects.put(&Path::from(name), bytes.into())).expect("nothing fails here");
        read(&store.snapshots)
    })
}

struct Nowhere;

impl Sink for Nowhere {
    fn apply(&self, batch: &Batch<'_>) -> anyhow::Result<()> {
        batch.entries().for_each(drop);
        Ok(())
    }
}

pub fn manifest(bytes: &[u8]) -> bool {
    let mut bytes = bytes.to_vec();
    seal::envelope(&mut bytes);
    with("manifests/00000000000000000002", bytes, |store| {
        let Ok(manifest) = store.manifest(2) else { return false };
        // Its parts are not there, which is said.
        let parts = manifest.parts().count();
        assert!(parts == 0 || store.system_parts(&manifest).is_err() || store.restore(&manifest, 1, &Nowhere).is_err());
        true
    })
}

pub fn manifests() -> Vec<Vec<u8>> {
    ["v1", "v2"].iter().flat_map(|of| files(&format!("storage/tests/snapshot/formats/{of}/manifests"))).collect()
}

/// A part that its manifest means, whatever it holds. The first byte says what the manifest says of it.
pub fn part(bytes: &[u8]) -> bool {
    let Some((choice, bytes)) = bytes.split_first() else { return false };
    let mut bytes = bytes.to_vec();
    seal::part(&mut bytes);
    let number = |at: usize, length: usize| {
        let mut number = [0; 8];
        number[..length].copy_from_slice(bytes.get(at..at + length).unwrap_or(&[0; 8][..length]));
        u64::from_le_bytes(number)
    };
    let kind = [PartKind::Base, PartKind::Delta, PartKind::System][usize::from(choice % 3)];
    let footer = bytes.len().saturating_sub(56);
    let part = PartRef {
        object: "parts/one".into(),
        object_bytes: bytes.len() as u64,
        offset: 0,
        kind,
        partition: number(14, 2) as u16,
        name: if kind == PartKind::System { "coordinator".into() } else { String::new() },
        epoch: number(16, 8),
        bytes: bytes.len() as u64,
        raw_bytes: number(footer + 32, 8),
        entries: number(footer + 16, 8),
        deletes: number(footer + 24, 8),
        checksum: u128::from_le_bytes(bytes.last_chunk().copied().unwrap_or_default()),
    };
    with("parts/one", bytes, |store| {
        if kind == PartKind::System {
            return store.system_part(&part).is_ok();
        }
        let partitions = BTreeMap::from([(part.partition, vec![part])]);
        let manifest = Manifest {
            identity: IDENTITY,
            sequence: 2,
            generation: 3,
            epoch: u64::MAX,
            state_hash: 0,
            chain_hash: 0,
            log_position: 0,
            created_us: 0,
            partitions,
            system: BTreeMap::new(),
        };
        store.restore(&manifest, 1, &Nowhere).is_ok()
    })
}

pub fn parts() -> Vec<Vec<u8>> {
    let kind = |part: &[u8]| part.get(12).copied().unwrap_or(0);
    files("storage/tests/snapshot/formats/v1/parts").iter().map(|part| [&[kind(part)][..], part].concat()).collect()
}

pub fn head(bytes: &[u8]) -> bool {
    let Ok(head) = SnapshotMetadata::decode(bytes) else { return false };
    assert_eq!(SnapshotMetadata::decode(&head.encode()).expect("what was read can be written"), head);
    true
}

pub fn heads() -> Vec<Vec<u8>> {
    files("durability/fixtures")
}
