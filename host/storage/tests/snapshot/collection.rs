//! What is collected, and what never is.

use std::sync::atomic::{AtomicBool, Ordering};

use styx_storage::snapshot::{CompactionPolicy, PartKind, Retention, SnapshotStore, StoreLocation};

use crate::support::*;

/// No grace at all: only what must be left alone is.
const EAGER: Retention = Retention { epochs_min: 2, age_us: 0, grace_us: 0 };
/// Later than anything that the store's clock says.
const LATE: u64 = u64::MAX / 2;

/// Names of all parts that the retained snapshots mention, and every one of these snapshots is whole.
fn check_whole(store: &SnapshotStore) {
    for listing in store.list().unwrap() {
        let verified = store.verify(listing.sequence, 1, &|_| {}).unwrap();
        assert!(verified.damage.is_empty(), "{:?}", verified.damage);
    }
}

#[test]
fn old_snapshots_go_and_their_parts_with_them() {
    on_each_location(|location| {
        let store = open(&location);
        let mut model = sample(1, 3, 20);
        for epoch in 1..=6 {
            change(&mut model, 0, 20, 5, &mut Random(epoch));
            store.commit(whole(&store, &model, epoch, 1)).unwrap();
        }
        // Epochs are created a second apart.
        let young = Retention { epochs_min: 1, age_us: 3_500_000, grace_us: 0 };
        let collected = store.collect(young, 7_000_000).unwrap();
        assert_eq!((&collected.retained[..], collected.manifests), (&[4, 5, 6][..], 3));
        assert_eq!(collected.log_position, Some(40));
        let collected = store.collect(EAGER, LATE).unwrap();
        assert_eq!((&collected.retained[..], collected.log_position), (&[5, 6][..], Some(50)));
        assert!(collected.manifests == 1 && collected.parts == 12 && collected.bytes > 0, "{collected:?}");
        check_whole(&store);
        assert_eq!(restored(&store, &store.latest().unwrap().unwrap()), model);
        let again = store.collect(EAGER, LATE).unwrap();
        assert_eq!((again.manifests, again.parts), (0, 0));
    });
}

#[test]
fn what_is_under_way_is_left_alone() {
    on_each_location(|location| {
        let (store, other) = (open(&location), open(&location));
        let model = sample(2, 3, 20);
        store.commit(whole(&store, &model, 1, 1)).unwrap();
        // Finished and being written, here; finished, by another process of this generation and of the next.
        let draft_here = whole(&store, &model, 2, 1);
        let mut pack = store.pack_writer(2, 1);
        let mut part = pack.part(PartKind::Base, 900).unwrap();
        part.push(1, b"key", Some(b"value")).unwrap();
        let theirs = write_base(&other, 901, 2, 1, &model[&0]);
        let next = write_base(&other, 902, 2, 2, &model[&0]);
        let patient = Retention { grace_us: 3_600_000_000, ..EAGER };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
        assert_eq!(store.collect(patient, now).unwrap().parts, 0);
        let mut draft_here = draft_here;
        part.finish().unwrap();
        draft_here.parts.extend(pack.finish().unwrap().into_iter().chain([theirs]));
        store.commit(draft_here).unwrap();
        check_whole(&store);
        // Beyond the grace: what another process left, but not what this one knows of, nor the next generation's.
        let (left, known) = (write_base(&other, 903, 3, 1, &model[&0]), write_base(&store, 904, 3, 1, &model[&0]));
        assert_eq!(store.collect(EAGER, LATE).unwrap().parts, 1);
        let mut refused = whole(&store, &model, 3, 1);
        refused.parts.push(left);
        assert!(store.commit(refused.clone()).unwrap_err().is_damage(), "it is gone, and that is noticed");
        refused.parts.pop();
        refused.parts.push(known.clone());
        store.commit(refused).unwrap();
        // Garbage of an older generation needs no grace.
        let garbage = write_base(&other, 905, 3, 1, &model[&0]);
        store.take_over(2, 1).unwrap();
        let collected = store.collect(Retention { epochs_min: 9, ..patient }, now).unwrap();
        assert_eq!((collected.parts, collected.bytes), (1, garbage.object_bytes));
        // What was given up is garbage as soon as its time has come.
        let given_up = write_base(&store, 906, 3, 2, &model[&0]);
        let keep = Retention { epochs_min: 9, ..EAGER };
        assert_eq!(store.collect(keep, LATE).unwrap().parts, 1, "the next generation's, which nobody mentioned");
        store.abandon([&given_up, &next]);
        assert_eq!(store.collect(keep, LATE).unwrap().parts, 1);
        check_whole(&store);
    });
}

#[test]
fn half_written_directories_are_ignored_and_collected() {
    let directory = tempfile::tempdir().unwrap();
    let location = StoreLocation::new(format!("file://{}", directory.path().to_str().unwrap()));
    let model = sample(3, 3, 20);
    {
        // A process that dies before the manifest, and leaves what a write was about to become.
        let crashed = open(&location);
        whole(&crashed, &model, 1, 1);
        std::fs::write(directory.path().join("parts/e00-g00-00#1"), "half").unwrap();
        std::fs::create_dir_all(directory.path().join("manifests")).unwrap();
        std::fs::write(directory.path().join("manifests/00000000000000000001#1"), "half").unwrap();
    }
    let files = || {
        let parts = std::fs::read_dir(directory.path().join("parts")).unwrap();
        let manifests = std::fs::read_dir(directory.path().join("manifests")).unwrap();
        (parts.count(), manifests.count())
    };
    let store = open(&location);
    assert!(store.latest().unwrap().is_none());
    assert!(store.restore_newest(1, |_| Collect::default()).unwrap().is_none());
    assert_eq!(files(), (4, 1));
    let manifest = store.commit(whole(&store, &model, 1, 2)).unwrap();
    assert_eq!(manifest.sequence, 1);
    let collected = store.collect(EAGER, LATE).unwrap();
    assert_eq!(collected.parts, 3);
    assert_eq!(files(), (3, 1), "one snapshot is all that is left");
    assert_eq!(restored(&store, &manifest), model);
}

#[test]
fn collecting_beside_everything_else_loses_nothing() {
    let store = open(&StoreLocation::new("memory:"));
    let policy = CompactionPolicy { deltas_max: 2, share_percent: 30, small_bytes: 0, ..CompactionPolicy::default() };
    let mut model = sample(4, 4, 60);
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.compact(1, &policy, 1, &|| false).unwrap();
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.collect(EAGER, LATE).unwrap();
            }
        });
        for epoch in 2..150 {
            let parts = [0, 7, 14]
                .map(|partition| {
                    let changes = change(&mut model, partition, 60, 10, &mut Random(epoch));
                    write_delta(&store, partition, epoch, 1, &changes)
                })
                .to_vec();
            store.commit(draft(&store, epoch, 1, Some(epoch - 1), parts)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    model.retain(|_, entries| !entries.is_empty());
    check_whole(&store);
    assert_eq!(restored(&store, &store.latest().unwrap().unwrap()), model);
    assert!(store.collect(EAGER, LATE).unwrap().retained.len() < 12);
}
