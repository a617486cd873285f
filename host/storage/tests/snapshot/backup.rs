//! Out of one store and into another.

use std::cell::RefCell;

use styx_storage::snapshot::{Imported, Memory, SnapshotError, SnapshotStore, StoreLocation};

use crate::support::*;

const IMPORTED: Imported = Imported { generation: 4, log_position: 0, created_us: 99 };

#[test]
fn a_backup_starts_another_cluster() {
    on_each_location(|location| {
        let store = open(&location);
        let (mut model, mut random) = (sample(1, 4, 30), Random(1));
        store.commit(whole(&store, &model, 1, 9)).unwrap();
        let part = write_delta(&store, 7, 2, 9, &change(&mut model, 7, 30, 20, &mut random));
        store.commit(draft(&store, 2, 9, Some(1), vec![part])).unwrap();
        model.retain(|_, entries| !entries.is_empty());

        let directory = tempfile::tempdir().unwrap();
        let backup = StoreLocation::new(directory.path().to_str().unwrap());
        let told = RefCell::new(Vec::new());
        for sequence in [1, 2, 2] {
            told.borrow_mut().clear();
            let exported = store.export(sequence, &backup, &|progress| told.borrow_mut().push(progress)).unwrap();
            assert_eq!(told.borrow().last(), Some(&exported.progress));
            assert_eq!(exported.progress.bytes, exported.manifest.bytes());
            assert_eq!(exported.progress.objects, exported.progress.objects_total);
        }
        // The export is a store like any other, this cluster's.
        assert_eq!(restored(&open(&backup), &open(&backup).manifest(2).unwrap()), model);

        let other = SnapshotStore::open(&StoreLocation::in_memory(&Memory::default()), 0xC2, runtime()).unwrap();
        let imported = other.import(&backup, IMPORTED, &|_| {}).unwrap();
        assert_eq!((imported.manifest.identity, imported.manifest.sequence), (0xC2, 1));
        assert_eq!((imported.manifest.generation, imported.manifest.epoch), (4, 2));
        assert_eq!((imported.manifest.log_position, imported.manifest.created_us), (0, 99));
        let back = other.restore_newest(2, |_| Collect::default()).unwrap().unwrap();
        assert_eq!((back.manifest, back.system["coordinator"].clone()), (imported.manifest, system_blob(2)));
        assert_eq!(back.sink.into_model(), model);
        // And it goes on from there; what was imported is collected like its own.
        other.commit(whole(&other, &model, 3, 4)).unwrap();
        other.commit(whole(&other, &model, 4, 5)).unwrap();
        let only = styx_storage::snapshot::Retention { epochs_min: 1, age_us: 0, grace_us: 0 };
        assert!(other.collect(only, u64::MAX / 2).unwrap().parts == 7);
        let again = other.import(&backup, IMPORTED, &|_| {});
        assert!(matches!(again, Err(SnapshotError::NotEmpty { .. })), "{again:?}");
    });
}

#[test]
fn damaged_and_empty_backups_are_refused() {
    let store = open(&StoreLocation::new("memory:"));
    let model = sample(2, 2, 30);
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let backup = StoreLocation::new(directory.path().to_str().unwrap());
    let other = || SnapshotStore::open(&StoreLocation::new("memory:"), 0xC2, runtime()).unwrap();
    let result = other().import(&backup, IMPORTED, &|_| {});
    assert!(matches!(&result, Err(SnapshotError::Unusable { .. })), "{result:?}");
    store.export(1, &backup, &|_| {}).unwrap();
    let part = std::fs::read_dir(directory.path().join("parts")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    let target = other();
    let result = target.import(&backup, IMPORTED, &|_| {});
    assert!(matches!(&result, Err(SnapshotError::Damaged { .. })), "{result:?}");
    assert!(target.latest().unwrap().is_none(), "nothing was imported");
    // Another export makes it whole again.
    store.export(1, &backup, &|_| {}).unwrap();
    target.import(&backup, IMPORTED, &|_| {}).unwrap();
    let missing = store.export(7, &backup, &|_| {});
    assert!(matches!(missing, Err(SnapshotError::NoSuchSnapshot { sequence: 7, .. })), "{missing:?}");
}

#[test]
fn a_place_that_has_another_snapshot_of_that_number_is_not_written_to() {
    let directory = tempfile::tempdir().unwrap();
    let backup = StoreLocation::new(directory.path().to_str().unwrap());
    let stores = [3, 4].map(|seed| {
        let store = open(&StoreLocation::new("memory:"));
        store.commit(whole(&store, &sample(seed, 2, 5), 1, 1)).unwrap();
        store
    });
    let exported = stores[0].export(1, &backup, &|_| {}).unwrap();
    let refused = stores[1].export(1, &backup, &|_| {});
    assert!(matches!(refused, Err(SnapshotError::NotEmpty { .. })), "{refused:?}");
    assert_eq!(open(&backup).manifest(1).unwrap(), exported.manifest);
    assert_eq!(restored(&open(&backup), &exported.manifest), sample(3, 2, 5));
}

#[test]
fn a_snapshot_in_another_clusters_place_is_none_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let backup = StoreLocation::new(directory.path().to_str().unwrap());
    let store = open(&StoreLocation::new("memory:"));
    store.commit(whole(&store, &sample(3, 2, 5), 1, 1)).unwrap();
    store.export(1, &backup, &|_| {}).unwrap();
    // As if somebody had put two places together.
    std::fs::remove_file(directory.path().join("cluster")).unwrap();
    let other = SnapshotStore::open(&backup, 0xC2, runtime()).unwrap();
    let foreign = other.manifest(1);
    assert!(matches!(foreign, Err(SnapshotError::OtherCluster { ours: 0xC2, theirs: CLUSTER, .. })), "{foreign:?}");
    let empty = SnapshotStore::open(&StoreLocation::new("memory:"), 0xC3, runtime()).unwrap();
    match empty.import(&backup, IMPORTED, &|_| {}) {
        Err(SnapshotError::Damaged { object, offset: 0, what }) => {
            assert!(object.ends_with("/00000000000000000001") && what.contains("it is of cluster"), "{object}: {what}");
        }
        other => panic!("{other:?}"),
    }
    assert!(empty.latest().unwrap().is_none());
}
