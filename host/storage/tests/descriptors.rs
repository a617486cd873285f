//! A process without a descriptor left: what is there is never taken for missing. Alone in its program, whose limit it lowers.

use std::fs::File;
use std::path::Path;

use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log, LogError};
use styx_storage::snapshot::{ClusterMetadata, Leases, SnapshotError, SnapshotStore, StoreLocation};

/// A copy, which may be written to.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

#[test]
fn without_descriptors_nothing_is_taken_for_missing() {
    let directory = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshot/formats");
    copy(&fixtures.join("v1"), directory.path());
    copy(&fixtures.join("metadata-v1"), directory.path());
    let log = directory.path().join("log");
    let mut opened = EmbeddedLog::open(&log, EmbeddedOptions::default()).unwrap();
    opened.append(b"one").unwrap();
    opened.sync().unwrap();
    drop(opened);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let location = StoreLocation::new(directory.path().to_str().unwrap());
    let identity = SnapshotStore::identify(&location, runtime.handle()).unwrap().unwrap();
    let store = SnapshotStore::open(&location, identity, runtime.handle()).unwrap();
    let metadata = ClusterMetadata::open(&location, runtime.handle()).unwrap();
    let leases = Leases::open(&location, runtime.handle()).unwrap();
    let manifest = store.manifest(2).unwrap();

    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: reads a value of its own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(taken.len() > 10 && taken.len() < 64);
    let told = |error: &SnapshotError| assert!(matches!(error, SnapshotError::Store { .. }), "{error:?}");
    told(&store.list().unwrap_err());
    told(&store.latest().unwrap_err());
    told(&store.manifest(2).unwrap_err());
    told(&store.system_parts(&manifest).unwrap_err());
    told(&metadata.component("ab").unwrap_err());
    told(&metadata.cluster(1).unwrap_err());
    told(&leases.read().unwrap_err());
    let refused = EmbeddedLog::open(&log, EmbeddedOptions::default()).err().unwrap();
    assert!(matches!(refused, LogError::Io { .. }), "{refused:?}");

    drop(taken);
    assert_eq!(store.latest().unwrap().unwrap(), manifest);
    assert_eq!(metadata.component("ab").unwrap().unwrap(), b"a component");
    assert_eq!(EmbeddedLog::open(&log, EmbeddedOptions::default()).unwrap().next(), 1);
}
