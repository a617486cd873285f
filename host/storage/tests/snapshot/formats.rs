//! Stores of each format are read for ever: one of each is kept beside this file. Newer formats are refused by name.

use std::path::{Path, PathBuf};

use styx_storage::snapshot::{
    ClusterMetadata, Leases, MANIFEST_VERSION, PART_VERSION, SnapshotError, SnapshotStore, StoreLocation,
};

use crate::support::*;

fn fixture(version: u16) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshot/formats/v{version}"))
}

/// Contents of the stores: a base of several partitions, then a delta.
fn content() -> (Model, Changes, Model) {
    let first = sample(77, 3, 12);
    let mut second = first.clone();
    let changes = change(&mut second, 7, 12, 9, &mut Random(78));
    second.retain(|_, entries| !entries.is_empty());
    (first, changes, second)
}

#[test]
fn stores_of_every_format_are_read() {
    for version in 1..=MANIFEST_VERSION.max(PART_VERSION) {
        // A copy: opening a store tries whether it can be written.
        let directory = tempfile::tempdir().unwrap();
        copy(&fixture(version), directory.path());
        let location = StoreLocation::new(directory.path().to_str().unwrap());
        let store = open(&location);
        let (first, _, second) = content();
        assert_eq!(restored(&store, &store.manifest(1).unwrap()), first);
        let back = store.restore_newest(2, |_| Collect::default()).unwrap().unwrap();
        assert_eq!((back.manifest.sequence, back.manifest.epoch, back.manifest.generation), (2, 2, 3));
        assert_eq!((back.manifest.log_position, back.manifest.created_us), (20, 2_000_000));
        assert_eq!((back.manifest.state_hash, back.manifest.chain_hash), (2 << 64, 9));
        assert_eq!(back.system["coordinator"], system_blob(2));
        assert_eq!(back.sink.into_model(), second);
        assert_eq!(Leases::open(&location, runtime()).unwrap().read().unwrap().unwrap().holder, "the first");
    }
}

/// Metadata that coordinators share, in version 1.
fn metadata_fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshot/formats/metadata-v1")
}

#[test]
fn cluster_metadata_is_read() {
    let directory = tempfile::tempdir().unwrap();
    copy(&metadata_fixture(), directory.path());
    let location = StoreLocation::new(directory.path().to_str().unwrap());
    let metadata = ClusterMetadata::open(&location, runtime()).unwrap();
    assert_eq!(metadata.cluster(1).unwrap(), 0xC1_u128 << 64);
    assert_eq!(metadata.component("ab").unwrap().unwrap(), b"a component");
}

#[test]
fn newer_formats_of_small_objects_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    copy(&fixture(1), directory.path());
    copy(&metadata_fixture(), directory.path());
    let location = StoreLocation::new(directory.path().to_str().unwrap());
    let leases = Leases::open(&location, runtime()).unwrap();
    let metadata = ClusterMetadata::open(&location, runtime()).unwrap();
    for name in ["cluster", "lease", "log-cluster", "components/ab"] {
        // As a later version would write it: with a checksum that fits.
        let path = directory.path().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[8] = 9;
        let sum = xxhash_rust::xxh3::xxh3_128(&[&bytes[..16], &bytes[32..]].concat());
        bytes[16..32].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let error = match name {
            "cluster" => SnapshotStore::identify(&location, runtime()).unwrap_err(),
            "lease" => leases.acquire("another", 1, u64::MAX).unwrap_err(),
            "log-cluster" => metadata.cluster(1).unwrap_err(),
            _ => metadata.component("ab").unwrap_err(),
        };
        let named = matches!(&error, SnapshotError::NewerFormat { object, found: 9, known: 1 } if object == name);
        assert!(named && !error.to_string().contains('\n'), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing is changed");
    }
}

/// Writes the metadata of the present format: to be run once when a format has changed, its result committed.
#[test]
#[ignore = "writes into the source tree, once per format"]
fn write_the_metadata_of_this_format() {
    let directory = metadata_fixture();
    assert!(!directory.exists(), "{} is there: formats that were written do not change", directory.display());
    let location = StoreLocation::new(directory.to_str().unwrap());
    let metadata = ClusterMetadata::open(&location, runtime()).unwrap();
    metadata.cluster(0xC1_u128 << 64).unwrap();
    metadata.put_component("ab", b"a component").unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Writes the store of the present format: to be run once when a format has changed, its result committed.
#[test]
#[ignore = "writes into the source tree, once per format"]
fn write_the_store_of_this_format() {
    let directory = fixture(MANIFEST_VERSION.max(PART_VERSION));
    assert!(!directory.exists(), "{} is there: formats that were written do not change", directory.display());
    let location = StoreLocation::new(directory.to_str().unwrap());
    let store = open(&location);
    let (first, changes, _) = content();
    store.commit(whole(&store, &first, 1, 3)).unwrap();
    let part = write_delta(&store, 7, 2, 3, &changes);
    store.commit(draft(&store, 2, 3, Some(1), vec![part])).unwrap();
    drop(Leases::open(&location, runtime()).unwrap().acquire("the first", 1_000_000, 2_000_000).unwrap());
}
