//! What every place must keep to.

use std::collections::BTreeMap;
use std::sync::Mutex;

use styx_storage::snapshot::{Draft, ENTRY_BYTES_MAX, Manifest, PartKind, SnapshotError, SnapshotStore, StoreLocation};

use crate::support::*;

#[test]
fn a_chain_of_snapshots_comes_back() {
    on_each_location(|location| {
        let store = open(&location);
        assert!(store.latest().unwrap().is_none());
        assert!(store.restore_newest(2, |_| Collect::default()).unwrap().is_none());
        let (mut model, mut random) = (sample(1, 5, 40), Random(2));
        let mut expected = vec![model.clone()];
        let first = store.commit(whole(&store, &model, 1, 1)).unwrap();
        assert_eq!((first.sequence, first.epoch, first.partitions.len()), (1, 1, 5));
        for epoch in 2..=5 {
            // Some partitions change, one is new, one is written whole again.
            let mut parts = Vec::new();
            for partition in [0, 14, 100 + epoch as u16] {
                let changes = change(&mut model, partition, 40, 15, &mut random);
                parts.push(write_delta(&store, partition, epoch, 1, &changes));
            }
            change(&mut model, 7, 40, 15, &mut random);
            parts.push(write_base(&store, 7, epoch, 1, &model[&7]));
            let manifest = store.commit(draft(&store, epoch, 1, Some(epoch - 1), parts)).unwrap();
            assert_eq!((manifest.sequence, manifest.partitions[&0].len()), (epoch, epoch as usize));
            assert_eq!(manifest.partitions[&7].len(), 1, "a base begins a chain anew");
            model.retain(|_, entries| !entries.is_empty());
            expected.push(model.clone());
        }
        // Every snapshot is what it was, in this process and in the next one.
        for store in [store, open(&location)] {
            for listing in store.list().unwrap() {
                let manifest = listing.manifest.unwrap();
                assert_eq!(restored(&store, &manifest), expected[listing.sequence as usize - 1]);
                assert_eq!(store.system_parts(&manifest).unwrap()["coordinator"], system_blob(manifest.epoch));
                let told = Mutex::new(Vec::new());
                let verified = store.verify(listing.sequence, 2, &|now| told.lock().unwrap().push(now)).unwrap();
                let told = told.into_inner().unwrap();
                assert_eq!(told.iter().max_by_key(|now| now.objects), Some(&verified.progress));
                assert!(verified.damage.is_empty(), "{:?}", verified.damage);
                assert_eq!(verified.progress.bytes, manifest.bytes());
                assert_eq!(verified.progress.objects, manifest.parts().count() as u64);
                assert_eq!(verified.entries, manifest.parts().map(|part| part.entries).sum::<u64>());
            }
            let restored = store.restore_newest(2, |_| Collect::default()).unwrap().unwrap();
            assert_eq!(restored.manifest, store.latest().unwrap().unwrap());
            assert_eq!((restored.manifest.epoch, restored.manifest.log_position), (5, 50));
            assert_eq!((restored.manifest.state_hash, restored.manifest.chain_hash), (5 << 64, 12));
            assert_eq!(restored.system["worker 3"], b"");
            assert!(restored.skipped.is_empty());
            assert_eq!(restored.sink.into_model(), expected[4]);
        }
    });
}

#[test]
fn parts_of_many_pieces() {
    on_each_location(|location| {
        // More than one piece of an upload and several windows of reading; entries around a block's size.
        let store = open(&location);
        let mut random = Random(3);
        let mut entries = BTreeMap::new();
        for (index, length) in
            [0, 1, 100, (1 << 20) - 1, 1 << 20, 3 << 20, 9 << 20, 17 << 20, 5].into_iter().enumerate()
        {
            entries.insert((index as u32 / 2, random.bytes(index * 3)), random.bytes(length));
        }
        let model = Model::from([(65535, entries)]);
        let large = random.bytes((2 << 20) + 7);
        let mut draft = whole(&store, &model, 1, 1);
        draft.system.push(store.write_system_part("large", 1, 1, &large).unwrap());
        let manifest = store.commit(draft).unwrap();
        assert!(manifest.partitions[&65535][0].bytes > 30 << 20);
        assert_eq!(restored(&store, &manifest), model);
        assert_eq!(store.system_parts(&manifest).unwrap()["large"], large);
    });
}

#[test]
fn writers_are_held_to_the_rules() {
    let store = open(&StoreLocation::new("memory:"));
    let misuse = |result: Result<(), SnapshotError>| {
        assert!(matches!(result, Err(SnapshotError::Misuse { .. })), "{result:?}");
    };
    for (operator, key) in [(1, &b"b"[..]), (1, b"a"), (0, b"z"), (1, b"")] {
        let mut pack = store.pack_writer(1, 1);
        put_base(&mut pack, 0, &BTreeMap::new());
        let mut part = pack.part(PartKind::Base, 1).unwrap();
        part.push(1, b"b", Some(b"")).unwrap();
        misuse(part.push(operator, key, Some(b"")));
        misuse(part.finish());
        // Whatever comes then, there is something in it that is no part.
        put_base(&mut pack, 2, &BTreeMap::new());
        misuse(pack.finish().map(drop));
    }
    misuse(store.pack_writer(1, 1).part(PartKind::Base, 1).unwrap().push(1, b"b", None));
    assert_eq!(store.pack_writer(1, 1).finish().unwrap(), []);
    misuse(store.write_system_part(&"n".repeat(256), 1, 1, b"").map(drop));
    // Pages of zeros that nobody touches.
    let endless = vec![0; ENTRY_BYTES_MAX];
    misuse(store.pack_writer(1, 1).part(PartKind::Base, 1).unwrap().push(1, b"b", Some(&endless)));
    // What does not fit onto the snapshot before.
    let base = || write_base(&store, 1, 1, 1, &BTreeMap::new());
    let delta = |epoch| write_delta(&store, 1, epoch, 1, &Changes::new());
    let unfit = |draft: Draft, says: &str| match store.commit(draft) {
        Err(SnapshotError::Unfit(what)) => assert!(what.contains(says), "{says}: {what}"),
        other => panic!("{says}: {other:?}"),
    };
    unfit(draft(&store, 1, 1, None, vec![delta(1)]), "is a delta in a whole snapshot");
    unfit(draft(&store, 1, 1, Some(0), vec![delta(1)]), "it continues epoch 0, and there is no snapshot");
    unfit(draft(&store, 1, 1, None, vec![base(), base()]), "partition 1 has two parts");
    store.commit(draft(&store, 1, 1, None, vec![base()])).unwrap();
    unfit(draft(&store, 3, 1, Some(2), vec![delta(3)]), "it continues epoch 2, the newest snapshot is of 1");
    unfit(draft(&store, 0, 1, Some(1), Vec::new()), "it is of epoch 0, the newest snapshot is of 1");
    unfit(draft(&store, 1, 1, Some(1), vec![delta(1)]), "of epoch 1 is out of order");
    unfit(draft(&store, 2, 1, Some(1), vec![delta(3)]), "of epoch 3 is out of order");
    let mut twice = draft(&store, 2, 1, Some(1), Vec::new());
    twice.system.push(store.write_system_part("coordinator", 2, 1, b"another").unwrap());
    unfit(twice, "two system parts have one name");
    // A part that is not there.
    let mut lost = delta(2);
    lost.object.push('x');
    let result = store.commit(draft(&store, 2, 1, Some(1), vec![lost]));
    assert!(matches!(result, Err(SnapshotError::Missing { .. })), "{result:?}");
    store.commit(draft(&store, 2, 1, Some(1), vec![delta(2)])).unwrap();
}

#[test]
fn of_two_writers_one_is_fenced() {
    on_each_location(|location| {
        let model = sample(4, 2, 5);
        let first = open(&location);
        first.commit(whole(&first, &model, 1, 1)).unwrap();
        // Same generation, same number, many times at the same moment.
        for epoch in 2..12 {
            let stores = [open(&location), open(&location), open(&location)];
            let drafts: Vec<_> = stores.iter().map(|store| whole(store, &model, epoch, 1)).collect();
            for store in &stores {
                store.restore_newest(1, |_| Collect::default()).unwrap().unwrap();
            }
            let results = at_once(stores.iter().zip(drafts), |(store, draft)| store.commit(draft));
            let won: Vec<&Manifest> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
            assert_eq!(won.len(), 1, "{results:?}");
            assert_eq!(won[0].sequence, epoch);
            for result in &results {
                if let Err(error) = result {
                    assert!(matches!(error, SnapshotError::Fenced { ours: 1, theirs: 1, .. }), "{error:?}");
                }
            }
        }
    });
}

#[test]
fn an_older_generation_is_fenced() {
    on_each_location(|location| {
        let (model, zombie, new) = (sample(5, 2, 5), open(&location), open(&location));
        zombie.commit(whole(&zombie, &model, 1, 1)).unwrap();
        let prepared = whole(&zombie, &model, 2, 1);
        let late = whole(&zombie, &model, 3, 1);
        let taken = new.take_over(2, 77).unwrap();
        assert_eq!((taken.sequence, taken.epoch, taken.generation, taken.created_us), (2, 1, 2, 77));
        assert_eq!(restored(&new, &taken), model);
        let fenced = |result: Result<Manifest, SnapshotError>| {
            assert!(matches!(result, Err(SnapshotError::Fenced { ours: 1, theirs: 2, .. })), "{result:?}");
        };
        fenced(zombie.commit(prepared));
        fenced(zombie.take_over(1, 78));
        new.commit(draft(&new, 2, 2, Some(1), Vec::new())).unwrap();
        fenced(zombie.commit(late));
        assert_eq!(new.latest().unwrap().unwrap().sequence, 3);
    });
}

#[test]
fn whoever_was_fenced_looks_at_what_there_is_before_it_writes_again() {
    let location = StoreLocation::in_memory(&Default::default());
    let (model, old, new) = (sample(5, 2, 5), open(&location), open(&location));
    old.commit(whole(&old, &model, 1, 1)).unwrap();
    new.take_over(2, 77).unwrap();
    new.commit(draft(&new, 2, 2, Some(1), Vec::new())).unwrap();
    let fenced = old.commit(draft(&old, 2, 1, Some(1), Vec::new()));
    assert!(matches!(fenced, Err(SnapshotError::Fenced { ours: 1, theirs: 2, sequence: 2 })), "{fenced:?}");
    // It leads again, and continues what was written since.
    let next = old.commit(draft(&old, 3, 3, Some(2), Vec::new())).unwrap();
    assert_eq!((next.sequence, next.epoch), (4, 3));
    assert_eq!(restored(&old, &next), model);
}

#[test]
fn a_restore_that_slept_through_a_takeover_is_fenced() {
    on_each_location(|location| {
        let (model, zombie, new) = (sample(5, 2, 5), open(&location), open(&location));
        zombie.commit(whole(&zombie, &model, 1, 1)).unwrap();
        let (found, _) = open(&location).newest_complete(None).unwrap().unwrap();
        new.take_over(3, 77).unwrap();
        // It continues what it has found, behind a snapshot that it has not looked at.
        let late = open(&location);
        late.continue_from(&found).unwrap();
        let fenced = |result: Result<Manifest, SnapshotError>| {
            assert!(matches!(result, Err(SnapshotError::Fenced { ours: 2, theirs: 3, sequence: 2 })), "{result:?}");
        };
        fenced(late.reinstate(found.sequence, 2, 7, 78));
        fenced(late.commit(whole(&late, &model, 2, 2)));
        assert_eq!(new.latest().unwrap().unwrap().sequence, 2);
        // One of a later generation does so: what it passes over could not be restored.
        late.continue_from(&found).unwrap();
        assert_eq!(late.reinstate(found.sequence, 4, 7, 79).unwrap().sequence, 3);
    });
}

#[test]
fn a_writer_that_slept_through_a_collection_is_fenced() {
    let location = StoreLocation::in_memory(&Default::default());
    let (model, zombie, new) = (sample(6, 2, 5), open(&location), open(&location));
    zombie.commit(whole(&zombie, &model, 1, 1)).unwrap();
    let other_zombie = open(&location);
    other_zombie.restore_newest(1, |_| Collect::default()).unwrap().unwrap();
    new.take_over(2, 1).unwrap();
    let prepared = whole(&zombie, &model, 2, 1);
    for epoch in 2..9 {
        new.commit(draft(&new, epoch, 2, Some(epoch - 1), Vec::new())).unwrap();
    }
    // The number that the zombie will try is free again.
    new.collect(Default::default(), u64::MAX / 2).unwrap();
    assert!(matches!(new.manifest(2), Err(SnapshotError::NoSuchSnapshot { .. })));
    // Whether its parts were collected with it or it needs none.
    let bare = Draft { generation: 1, epoch: 2, ..Draft::default() };
    for (zombie, draft) in [(&zombie, prepared), (&other_zombie, bare)] {
        let result = zombie.commit(draft);
        assert!(matches!(result, Err(SnapshotError::Fenced { ours: 1, theirs: 2, .. })), "{result:?}");
    }
    assert_eq!(new.latest().unwrap().unwrap().epoch, 8);
}

#[test]
fn taking_over_heeds_what_an_older_one_wrote_last() {
    let location = StoreLocation::in_memory(&Default::default());
    let (mut model, old, new) = (sample(7, 3, 5), open(&location), open(&location));
    // An empty store is taken over as well.
    let empty = new.take_over(1, 5).unwrap();
    assert_eq!((empty.sequence, empty.epoch, empty.log_position, empty.partitions.len()), (1, 0, 0, 0));
    assert_eq!((empty.state_hash, empty.chain_hash, empty.generation, empty.created_us), (0, 0, 1, 5));
    old.commit(whole(&old, &model, 1, 1)).unwrap();
    // `new` believes that its empty one is the newest, and must find out.
    let taken = new.take_over(2, 6).unwrap();
    assert_eq!((taken.sequence, taken.epoch), (3, 1));
    assert_eq!(restored(&new, &taken), model);
    // Without taking over, an older generation's snapshot in the way is passed over.
    let third = open(&location);
    third.restore_newest(1, |_| Collect::default()).unwrap().unwrap();
    new.commit(whole(&new, &sample(8, 1, 1), 9, 2)).unwrap();
    let changes = change(&mut model, 0, 5, 5, &mut Random(1));
    let part = write_delta(&third, 0, 2, 3, &changes);
    let manifest = third.commit(draft(&third, 2, 3, Some(1), vec![part])).unwrap();
    assert_eq!((manifest.sequence, manifest.generation), (5, 3));
    model.retain(|_, entries| !entries.is_empty());
    assert_eq!(restored(&third, &manifest), model);
}

#[test]
fn an_older_snapshot_is_reinstated() {
    let store = open(&StoreLocation::new("memory:"));
    let first = sample(10, 3, 5);
    let mut model = first.clone();
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let part = write_delta(&store, 7, 2, 1, &change(&mut model, 7, 5, 5, &mut Random(1)));
    store.commit(draft(&store, 2, 1, Some(1), vec![part])).unwrap();
    let back = store.reinstate(1, 2, 33, 44).unwrap();
    assert_eq!((back.sequence, back.epoch, back.generation), (3, 1, 2));
    assert_eq!((back.log_position, back.created_us), (33, 44));
    assert_eq!(store.latest().unwrap().unwrap(), back);
    assert_eq!(restored(&store, &back), first);
    // And the next one continues it.
    let mut model = first;
    let part = write_delta(&store, 0, 2, 2, &change(&mut model, 0, 5, 5, &mut Random(2)));
    let next = store.commit(draft(&store, 2, 2, Some(1), vec![part])).unwrap();
    model.retain(|_, entries| !entries.is_empty());
    assert_eq!(restored(&store, &next), model);
    assert!(matches!(store.reinstate(9, 2, 0, 0), Err(SnapshotError::NoSuchSnapshot { .. })));
    assert!(matches!(store.reinstate(1, 1, 0, 0), Err(SnapshotError::Fenced { .. })));
}

#[test]
fn one_store_is_shared_by_threads() {
    let store: SnapshotStore = open(&StoreLocation::new("memory:"));
    let model = sample(9, 8, 300);
    let parts = at_once(&model, |(partition, entries)| write_base(&store, *partition, 1, 1, entries));
    let manifest = store.commit(draft(&store, 1, 1, None, parts)).unwrap();
    assert_eq!(restored(&store, &manifest), model);
}
