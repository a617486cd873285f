//! No damage goes unnoticed: every single flipped bit and every truncation of every kind of object.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use styx_storage::snapshot::{
    ClusterMetadata, Leases, Manifest, Memory, PartRef, SnapshotError, SnapshotStore, StoreLocation,
};

use crate::support::*;

/// The objects behind a store in memory.
struct Objects(Arc<dyn ObjectStore>);

impl Objects {
    fn get(&self, name: &str) -> Vec<u8> {
        let path = Path::from(name);
        runtime().block_on(async { self.0.get(&path).await.unwrap().bytes().await.unwrap().to_vec() })
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let (path, payload) = (Path::from(name), PutPayload::from(bytes.to_vec()));
        runtime().block_on(self.0.put(&path, payload)).unwrap();
    }

    fn delete(&self, name: &str) {
        runtime().block_on(self.0.delete(&Path::from(name))).unwrap();
    }
}

/// A store with two snapshots whose parts are of every kind, and what the first one holds.
fn two_snapshots(partitions: u16) -> (SnapshotStore, Objects, Model) {
    let memory = Memory::default();
    let store = open(&StoreLocation::in_memory(&memory));
    let mut model = sample(1, partitions, 6);
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let old = model.clone();
    let mut random = Random(5);
    let changes = change(&mut model, 0, 8, 12, &mut random);
    let parts = vec![write_delta(&store, 0, 2, 1, &changes)];
    store.commit(draft(&store, 2, 1, Some(1), parts)).unwrap();
    (store, Objects(memory.objects()), old)
}

fn read(store: &SnapshotStore, manifest: &Manifest, part: &PartRef) -> Result<(), SnapshotError> {
    if part.name.is_empty() {
        let mut alone = manifest.clone();
        alone.partitions = [(part.partition, vec![part.clone()])].into();
        store.restore(&alone, 1, &Collect::default())
    } else {
        store.system_part(part).map(drop)
    }
}

/// Damages an object in every way that one bit or one cut can; all must be found, and be told of this object.
fn damage_everywhere(objects: &Objects, name: &str, read: &dyn Fn() -> Result<(), SnapshotError>) -> u64 {
    let whole = objects.get(name);
    read().unwrap_or_else(|error| panic!("{name} is whole: {error}"));
    let check = |bytes: &[u8], what: &str| {
        objects.put(name, bytes);
        match read() {
            Err(SnapshotError::Damaged { object, offset, .. }) => {
                assert_eq!(object, name, "{what}");
                assert!(offset <= whole.len().max(bytes.len()) as u64, "{what}: {offset} is not in {name}");
            }
            other => panic!("{name}, {what}: {other:?}"),
        }
    };
    let mut cases = 0;
    let mut bytes = whole.clone();
    for bit in 0..whole.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        check(&bytes, &format!("bit {bit} flipped"));
        bytes[bit / 8] ^= 1 << (bit % 8);
        cases += 1;
    }
    for length in 0..whole.len() {
        check(&whole[..length], &format!("cut to {length} bytes"));
        cases += 1;
    }
    for more in [&b"\0"[..], b"x", &whole] {
        check(&[&whole, more].concat(), "something appended");
        cases += 1;
    }
    objects.put(name, &whole);
    read().unwrap();
    cases
}

#[test]
fn every_bit_counts() {
    let mut cases = 0;
    let (store, objects, _) = two_snapshots(9);
    for sequence in [1, 2] {
        let manifest = store.manifest(sequence).unwrap();
        cases += damage_everywhere(&objects, &manifest.object(), &|| store.manifest(sequence).map(drop));
        let mut packs: BTreeMap<&str, Vec<&PartRef>> = BTreeMap::new();
        manifest.parts().for_each(|part| packs.entry(&part.object).or_default().push(part));
        for (pack, parts) in packs.into_iter().filter(|(_, parts)| parts[0].epoch == sequence) {
            cases +=
                damage_everywhere(&objects, pack, &|| parts.iter().try_for_each(|part| read(&store, &manifest, part)));
        }
    }
    // The small objects beside them.
    let location = StoreLocation::in_memory(&Memory::from(objects.0.clone()));
    let leases = Leases::open(&location, runtime()).unwrap();
    drop(leases.acquire("me", 10, 1).unwrap());
    cases += damage_everywhere(&objects, "lease", &|| leases.read().map(drop));
    let metadata = ClusterMetadata::open(&location, runtime()).unwrap();
    assert_eq!(metadata.cluster(7).unwrap(), 7);
    cases += damage_everywhere(&objects, "log-cluster", &|| metadata.cluster(8).map(drop));
    metadata.put_component("3f", b"what workers run").unwrap();
    cases += damage_everywhere(&objects, "components/3f", &|| metadata.component("3f").map(drop));
    cases += damage_everywhere(&objects, "cluster", &|| {
        let location = StoreLocation::in_memory(&Memory::from(objects.0.clone()));
        SnapshotStore::open(&location, CLUSTER, runtime()).map(drop)
    });
    eprintln!("{cases} damaged objects, all found");
    assert!(cases >= 100_000, "only {cases} cases");
}

#[test]
fn large_parts_are_checked_block_by_block() {
    // Several blocks: flips all over the object, which exceeds a window of reading.
    let memory = Memory::default();
    let (store, objects) = (open(&StoreLocation::in_memory(&memory)), Objects(memory.objects()));
    let mut random = Random(1);
    let entries = (0..6000_u32).map(|key| ((key / 1000, key.to_be_bytes().to_vec()), random.bytes(1000))).collect();
    let manifest = store.commit(whole(&store, &Model::from([(1, entries)]), 1, 1)).unwrap();
    let part = manifest.partitions[&1][0].clone();
    let whole = objects.get(&part.object);
    assert!(whole.len() > 5 << 20);
    for _ in 0..40 {
        let (at, bit) = (random.below(whole.len() as u64) as usize, random.below(8));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        objects.put(&part.object, &bytes);
        let Err(SnapshotError::Damaged { offset, .. }) = read(&store, &manifest, &part) else {
            panic!("byte {at} was not noticed")
        };
        assert!(offset <= at as u64 && at as u64 - offset < 2 << 20, "byte {at} is told as {offset}");
    }
}

#[test]
fn an_object_cannot_stand_in_for_another() {
    let (store, objects, _) = two_snapshots(4);
    let manifest = store.manifest(2).unwrap();
    let mut parts: Vec<_> = manifest.parts().cloned().collect();
    parts.dedup_by(|part, before| part.object == before.object);
    assert_eq!(parts.len(), 5, "packs of two snapshots, and system parts");
    for (one, other) in parts.iter().zip(parts.iter().skip(1)) {
        let (mine, theirs) = (objects.get(&one.object), objects.get(&other.object));
        objects.put(&one.object, &theirs);
        let result = read(&store, &manifest, one);
        assert!(matches!(result, Err(SnapshotError::Damaged { .. })), "{result:?}");
        objects.put(&one.object, &mine);
    }
    // Another part of the same partition and epoch: whole, and yet not the one that is meant.
    let partition = *manifest.partitions.keys().next_back().unwrap();
    let meant = manifest.partitions[&partition][0].clone();
    let mut twin = restored(&store, &store.manifest(1).unwrap());
    let value = twin.get_mut(&partition).unwrap().values_mut().next_back().unwrap();
    value.iter_mut().for_each(|byte| *byte ^= 1);
    let twin = whole(&store, &twin, meant.epoch, 1).parts.remove(0);
    assert_eq!(twin.object_bytes, meant.object_bytes);
    objects.put(&meant.object, &objects.get(&twin.object));
    assert!(matches!(read(&store, &manifest, &meant), Err(SnapshotError::Damaged { .. })));
    objects.put(&store.manifest(1).unwrap().object(), &objects.get(&manifest.object()));
    assert!(matches!(store.manifest(1), Err(SnapshotError::Damaged { .. })));
}

#[test]
fn newer_formats_have_their_own_error() {
    let (store, objects, _) = two_snapshots(4);
    let manifest = store.manifest(2).unwrap();
    // As a later version would write them: with a checksum that fits.
    let name = manifest.object();
    let mut bytes = objects.get(&name);
    bytes[8] = 9;
    let sum = xxhash_rust::xxh3::xxh3_128(&[&bytes[..16], &bytes[32..]].concat());
    bytes[16..32].copy_from_slice(&sum.to_le_bytes());
    objects.put(&name, &bytes);
    let newer = |result: Result<(), SnapshotError>| match result {
        Err(error @ SnapshotError::NewerFormat { found: 9, known: 1 | 2, .. }) => {
            assert!(error.to_string().contains("use a newer version"));
        }
        other => panic!("{other:?}"),
    };
    newer(store.manifest(2).map(drop));
    // An older snapshot is no answer to that.
    newer(store.restore_newest(1, |_| Collect::default()).map(drop));
    let part = manifest.parts().next().unwrap();
    let mut bytes = objects.get(&part.object);
    bytes[8] = 9;
    let end = usize::from(u16::from_le_bytes([bytes[10], bytes[11]])) - 16;
    let sum = xxhash_rust::xxh3::xxh3_128(&bytes[..end]);
    bytes[end..end + 16].copy_from_slice(&sum.to_le_bytes());
    objects.put(&part.object, &bytes);
    newer(read(&store, &manifest, part));
}

#[test]
fn recovery_falls_back_to_the_snapshot_before() {
    let (store, objects, old) = two_snapshots(4);
    let (first, second) = (store.manifest(1).unwrap(), store.manifest(2).unwrap());
    let new_part = second.parts().find(|part| part.epoch == 2 && part.name.is_empty()).unwrap().object.clone();
    let system = second.system["coordinator"].object.clone();
    for name in [second.object(), new_part, system] {
        let whole = objects.get(&name);
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for missing in [false, true] {
            if missing {
                objects.delete(&name);
            } else {
                objects.put(&name, &flipped);
            }
            let back = store.restore_newest(2, |_| Collect::default()).unwrap().unwrap();
            assert_eq!(back.manifest, first);
            assert_eq!(back.system["coordinator"], system_blob(1));
            assert_eq!(back.sink.into_model(), old);
            if !(missing && name == second.object()) {
                assert_eq!(back.skipped.len(), 1);
                let text = back.skipped[0].error.to_string();
                assert!(back.skipped[0].sequence == 2 && text.contains(&name), "{text}");
            }
            objects.put(&name, &whole);
        }
    }
    // The next snapshot continues the one that was restored, behind the number of the damaged one.
    let name = second.system["coordinator"].object.clone();
    objects.delete(&name);
    let verified = store.verify(2, 1, &|_| {}).unwrap();
    assert!(matches!(&verified.damage[..], [SnapshotError::Missing { object }] if *object == name));
    let mut model = store.restore_newest(2, |_| Collect::default()).unwrap().unwrap().sink.into_model();
    let changes = change(&mut model, 7, 8, 12, &mut Random(9));
    model.retain(|_, entries| !entries.is_empty());
    let parts = vec![write_delta(&store, 7, 2, 1, &changes)];
    let third = store.commit(draft(&store, 2, 1, Some(1), parts)).unwrap();
    assert_eq!(third.sequence, 3);
    let back = open_again(&store).restore_newest(2, |_| Collect::default()).unwrap().unwrap();
    assert_eq!((back.manifest, back.skipped.len()), (third, 0));
    assert_eq!(back.sink.into_model(), model);
    // The same for who only coordinates a restore.
    let other = open_again(&store);
    let (newest, skipped) = other.newest_complete(None).unwrap().unwrap();
    assert_eq!((newest.sequence, skipped.len()), (3, 0));
    let (before, skipped) = other.newest_complete(Some(3)).unwrap().unwrap();
    assert_eq!((&before, skipped.len(), skipped[0].sequence), (&first, 1, 2));
    other.continue_from(&before).unwrap();
    let fourth = other.commit(draft(&other, 2, 1, Some(1), Vec::new())).unwrap();
    assert_eq!((fourth.sequence, &fourth.partitions), (4, &first.partitions));
    objects.delete(&fourth.object());
    // Nothing whole at all: the newest one's damage is told.
    for sequence in 1..=3 {
        let manifest = store.manifest(sequence).unwrap();
        objects.put(&manifest.object(), b"");
    }
    let result = store.restore_newest(1, |_| Collect::default()).map(drop);
    assert!(matches!(&result, Err(SnapshotError::Damaged { object, .. }) if object.ends_with("03")), "{result:?}");
}

fn open_again(store: &SnapshotStore) -> SnapshotStore {
    open(store.location())
}

#[test]
fn a_sinks_error_ends_the_restore() {
    struct Refuse;
    impl styx_storage::snapshot::Sink for Refuse {
        fn apply(&self, batch: &styx_storage::snapshot::Batch<'_>) -> anyhow::Result<()> {
            anyhow::ensure!(batch.partition() != 7, "no room");
            Ok(())
        }
    }
    let (store, ..) = two_snapshots(4);
    let result = store.restore(&store.manifest(2).unwrap(), 2, &Refuse);
    assert!(matches!(&result, Err(SnapshotError::Sink { partition: 7, .. })), "{result:?}");
}
