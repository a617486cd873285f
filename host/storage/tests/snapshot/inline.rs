//! A store on the calling thread alone, whose names and pauses are given: the same calls leave the same objects.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::ObjectStoreExt;
use styx_storage::snapshot::{
    Acquired, ClusterMetadata, CompactionPolicy, Environment, Leases, Memory, Retention, Runtime, SnapshotStore,
    StoreLocation,
};

use crate::support::*;

/// Counts where others draw, and notes the pauses instead of making them.
#[derive(Debug, Default)]
pub struct Counting {
    last: AtomicU64,
    pub pauses: Mutex<Vec<Duration>>,
}

impl Environment for Counting {
    fn nonce(&self) -> u128 {
        self.last.fetch_add(1, Ordering::Relaxed).into()
    }

    fn pause(&self, duration: Duration) {
        self.pauses.lock().unwrap().push(duration);
    }
}

/// Does everything that names an object, on a store at `location`.
fn run(location: &StoreLocation) {
    let runtime = Runtime::Inline(Arc::new(Counting::default()));
    let leases = Leases::open(location, &runtime).unwrap();
    let Acquired::Ours(mut lease) = leases.acquire("a", 1000, 0).unwrap() else { panic!("nobody else is there") };
    lease.renew(10).unwrap();
    ClusterMetadata::open(location, &runtime).unwrap().cluster(9).unwrap();

    assert_eq!(SnapshotStore::identify(location, &runtime).unwrap(), None);
    let store = SnapshotStore::open(location, CLUSTER, &runtime).unwrap();
    let (mut model, mut random) = (sample(1, 4, 30), Random(2));
    // Of more than one piece, so that it is an upload in parts.
    model.get_mut(&7).unwrap().insert((1, b"large".to_vec()), random.bytes(20 << 20));
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    for epoch in 2..12 {
        let part = write_delta(&store, 14, epoch, 1, &change(&mut model, 14, 30, 5, &mut random));
        store.commit(draft(&store, epoch, 1, Some(epoch - 1), vec![part])).unwrap();
    }
    let compacted = store.compact(1, &CompactionPolicy::default(), 1, &|| false).unwrap();
    assert_eq!(compacted.partitions, 1);
    drop(store.pack_writer(12, 1).part(styx_storage::snapshot::PartKind::Base, 3).unwrap());
    store.collect(Retention::default(), u64::MAX / 2).unwrap();

    let again = SnapshotStore::open(location, CLUSTER, &runtime).unwrap();
    again.take_over(2, 3).unwrap();
    let restored = again.restore_newest(1, |_| Collect::default()).unwrap().unwrap();
    model.retain(|_, entries| !entries.is_empty());
    assert_eq!(restored.sink.into_model(), model);
    assert!(again.verify(restored.manifest.sequence, 1, &|_| {}).unwrap().damage.is_empty());
    lease.release().unwrap();
}

#[test]
fn the_same_calls_leave_the_same_objects() {
    let objects = || {
        let memory = Memory::default();
        run(&StoreLocation::in_memory(&memory));
        let store = memory.objects();
        pollster::block_on(async {
            let all: Vec<_> = store.list(None).try_collect().await.unwrap();
            let mut objects = BTreeMap::new();
            for meta in all {
                let bytes = store.get(&meta.location).await.unwrap().bytes().await.unwrap();
                objects.insert(meta.location.to_string(), bytes);
            }
            objects
        })
    };
    let (first, second) = (objects(), objects());
    assert!(first.len() > 10);
    assert!(first == second, "{:?} and {:?}", first.keys(), second.keys());
}

#[test]
fn a_directory_needs_no_tokio() {
    let directory = tempfile::tempdir().unwrap();
    run(&StoreLocation::new(directory.path().to_str().unwrap()));
}
