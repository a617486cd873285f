//! Compaction changes nothing but the length of chains, and costs a small factor.

use futures_util::TryStreamExt;
use styx_storage::snapshot::{CompactionPolicy, Memory, Retention, SnapshotError, StoreLocation};

use crate::support::*;

const NEVER: &dyn Fn() -> bool = &|| false;

#[test]
fn state_stays_the_same_and_chains_stay_short() {
    let store = open(&StoreLocation::new("memory:"));
    let policy = CompactionPolicy {
        deltas_max: 4,
        share_percent: 50,
        small_bytes: 0,
        partitions_max: 2,
        ..CompactionPolicy::default()
    };
    let (mut model, mut random) = (sample(1, 6, 200), Random(2));
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let (mut merges, mut delta_merges) = (0, 0);
    for epoch in 2..120 {
        let mut parts = Vec::new();
        for partition in [0, 7, 14, 21] {
            // One partition changes much, others little.
            let count = if partition == 0 { 60 } else { 3 };
            let changes = change(&mut model, partition, 200, count, &mut random);
            parts.push(write_delta(&store, partition, epoch, 1, &changes));
        }
        model.retain(|_, entries| !entries.is_empty());
        let before = store.commit(draft(&store, epoch, 1, Some(epoch - 1), parts)).unwrap();
        let compacted = store.compact(1, &policy, epoch, NEVER).unwrap();
        assert!(compacted.partitions <= policy.partitions_max);
        let Some(sequence) = compacted.sequence else { continue };
        merges += 1;
        let after = store.manifest(sequence).unwrap();
        assert_eq!((after.sequence, after.epoch), (before.sequence + 1, before.epoch));
        assert_eq!((after.state_hash, &after.system), (before.state_hash, &before.system));
        assert_eq!(restored(&store, &before), model);
        assert_eq!(restored(&store, &after), model);
        delta_merges += after.partitions.values().filter(|chain| chain.len() > 1).count();
        for chain in after.partitions.values() {
            assert!(chain.len() <= 2 * policy.deltas_max + 2, "{} parts", chain.len());
            assert_eq!(chain[0].deletes, 0, "deletions vanish in a base");
        }
        // What one snapshot has overwritten, the next compaction builds on.
        assert_eq!(store.latest().unwrap().unwrap(), after);
    }
    assert!(merges > 20 && delta_merges > 20, "{merges} merges, {delta_merges} chains with deltas");
    while store.compact(1, &policy, 1, NEVER).unwrap().remaining > 0 {}
    assert_eq!(restored(&store, &store.latest().unwrap().unwrap()), model);
}

/// What is written in all, in proportion to what the snapshots alone would have written.
fn amplification(keys: u64, changes_each: u64, snapshots: u64) -> (f64, usize) {
    let store = open(&StoreLocation::new("memory:"));
    let policy = CompactionPolicy::default();
    let mut random = Random(keys);
    let base = (0..keys).map(|key| ((0, key.to_be_bytes().to_vec()), random.bytes(64))).collect();
    let first = store.commit(whole(&store, &Model::from([(0, base)]), 1, 1)).unwrap();
    let mut incoming = first.bytes();
    let mut written = incoming;
    let mut longest = 0;
    for epoch in 2..2 + snapshots {
        let changes: Changes = (0..changes_each)
            .map(|_| ((0, random.below(keys).to_be_bytes().to_vec()), Some(random.bytes(64))))
            .collect();
        let part = write_delta(&store, 0, epoch, 1, &changes);
        (incoming, written) = (incoming + part.bytes, written + part.bytes);
        store.commit(draft(&store, epoch, 1, Some(epoch - 1), vec![part])).unwrap();
        written += store.compact(1, &policy, epoch, NEVER).unwrap().written_bytes;
        longest = longest.max(store.latest().unwrap().unwrap().partitions[&0].len());
    }
    (written as f64 / incoming as f64, longest)
}

#[test]
fn what_is_written_stays_within_a_small_factor() {
    // From a trickle into a large base to a base that is rewritten by every snapshot.
    for (keys, changes, snapshots) in [(20_000, 20, 300), (5_000, 50, 300), (1_000, 100, 200), (200, 400, 60)] {
        let (factor, longest) = amplification(keys, changes, snapshots);
        eprintln!("{keys} keys, {changes} changes a snapshot: written {factor:.2} times, at most {longest} parts");
        assert!(factor < 5.0, "{factor:.2} times with {keys} keys and {changes} changes");
        assert!(longest <= 18, "{longest} parts with {keys} keys and {changes} changes");
    }
}

/// Manifests and parts that compaction writes beside so many snapshots of a small state, and the longest chain.
fn written_for_small(policy: &CompactionPolicy, snapshots: u64) -> (u64, usize, usize) {
    let store = open(&StoreLocation::new("memory:"));
    let (mut model, mut random) = (sample(5, 64, 10), Random(6));
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let (mut manifests, mut parts, mut longest) = (0, 0, 0);
    for epoch in 2..2 + snapshots {
        let deltas = (0..64).map(|number| {
            let changes = change(&mut model, number * 7, 10, 3, &mut random);
            write_delta(&store, number * 7, epoch, 1, &changes)
        });
        let deltas = deltas.collect();
        store.commit(draft(&store, epoch, 1, Some(epoch - 1), deltas)).unwrap();
        let compacted = store.compact(1, policy, epoch, NEVER).unwrap();
        manifests += u64::from(compacted.sequence.is_some());
        parts += compacted.partitions;
        let newest = store.latest().unwrap().unwrap();
        longest = longest.max(newest.partitions.values().map(Vec::len).max().unwrap());
    }
    model.retain(|_, entries| !entries.is_empty());
    let mut found = restored(&store, &store.latest().unwrap().unwrap());
    found.retain(|_, entries| !entries.is_empty());
    assert_eq!(found, model);
    (manifests, parts, longest)
}

/// What is kept of a state of which a share changes again and again, in proportion to what snapshots mention of it.
#[test]
fn what_is_not_mentioned_of_packs_goes_before_it_is_more_than_what_is() {
    let store = open(&StoreLocation::new("memory:"));
    let policy = CompactionPolicy { waste_bytes: 0, small_bytes: 0, ..CompactionPolicy::default() };
    let (mut model, mut random) = (sample(7, 64, 40), Random(8));
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let (mut merged, mut most) = (0, 0.0_f64);
    for epoch in 2..200 {
        let mut pack = store.pack_writer(epoch, 1);
        // Three in four change, and others in turn.
        for number in (0..64).filter(|number| number % 4 > 0 || number / 4 == epoch as u16 % 16) {
            put_delta(&mut pack, number * 7, &change(&mut model, number * 7, 40, 10, &mut random));
        }
        store.commit(draft(&store, epoch, 1, Some(epoch - 1), pack.finish().unwrap())).unwrap();
        merged += store.compact(1, &policy, epoch, NEVER).unwrap().partitions;
        let newest = store.latest().unwrap().unwrap();
        let mut packs = std::collections::BTreeMap::new();
        packs.extend(newest.partitions.values().flatten().map(|part| (&part.object, part.object_bytes)));
        let kept = packs.values().sum::<u64>() as f64;
        most = most.max(kept / newest.partitions.values().flatten().map(|part| part.bytes).sum::<u64>() as f64);
    }
    eprintln!("{merged} merges; at most {most:.2} times as much is kept as is mentioned");
    assert!(most < 2.5, "{most:.2} times as much");
    let mut found = restored(&store, &store.latest().unwrap().unwrap());
    found.retain(|_, entries| !entries.is_empty());
    model.retain(|_, entries| !entries.is_empty());
    assert_eq!(found, model);
}

#[test]
fn a_small_state_is_not_rewritten_all_the_time() {
    let policy = CompactionPolicy::default();
    let eager = written_for_small(&CompactionPolicy { small_bytes: 0, ..policy }, 60);
    let (manifests, parts, longest) = written_for_small(&policy, 60);
    eprintln!(
        "60 snapshots of a small state: {manifests} manifests and {parts} parts more, at most {longest} parts a \
         partition; where nothing counts as small, {eager:?}"
    );
    assert!(parts * 2 <= eager.1, "{parts} parts of {}", eager.1);
    assert!(manifests * 2 <= eager.0);
    // 64 partitions become due at once, sixteen of them a call.
    assert!(longest <= 1 + policy.deltas_max + 64 / policy.partitions_max, "{longest} parts");
}

#[test]
fn snapshots_go_on_meanwhile() {
    let memory = Memory::default();
    let store = open(&StoreLocation::in_memory(&memory));
    let policy = CompactionPolicy { deltas_max: 1, share_percent: 1, small_bytes: 0, ..CompactionPolicy::default() };
    let (mut model, mut random) = (sample(3, 2, 50), Random(4));
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let part = write_delta(&store, 0, 2, 1, &change(&mut model, 0, 50, 20, &mut random));
    store.commit(draft(&store, 2, 1, Some(1), vec![part])).unwrap();
    // Between merging and the manifest, another snapshot is taken: asked by the way.
    let taken = std::cell::RefCell::new(None);
    let compacted = store
        .compact(1, &policy, 2, &|| {
            taken.borrow_mut().get_or_insert_with(|| {
                let changes = change(&mut model.clone(), 0, 50, 20, &mut Random(99));
                let part = write_delta(&store, 0, 3, 1, &changes);
                store.commit(draft(&store, 3, 1, Some(2), vec![part])).unwrap();
                changes
            });
            false
        })
        .unwrap();
    for (key, value) in taken.into_inner().unwrap() {
        match value {
            Some(value) => model.get_mut(&0).unwrap().insert(key, value),
            None => model.get_mut(&0).unwrap().remove(&key),
        };
    }
    let newest = store.latest().unwrap().unwrap();
    assert_eq!((compacted.sequence, newest.sequence, newest.epoch), (Some(4), 4, 3));
    assert_eq!(newest.partitions[&0].len(), 2, "the merged base and the delta that came meanwhile");
    assert_eq!(restored(&store, &newest), model);

    // A whole snapshot meanwhile: what was merged is of no use.
    let taken = std::cell::Cell::new(false);
    let compacted = store
        .compact(1, &policy, 2, &|| {
            if !taken.replace(true) {
                store.commit(whole(&store, &model, 4, 1)).unwrap();
            }
            false
        })
        .unwrap();
    assert_eq!((compacted.sequence, compacted.partitions), (None, 0));
    assert_eq!(store.latest().unwrap().unwrap().epoch, 4);
    // It goes, with all that was merged before: a pack and two system parts are left.
    let only = Retention { epochs_min: 1, age_us: 0, grace_us: 0 };
    store.collect(only, u64::MAX / 2).unwrap();
    let parts = memory.objects().list(Some(&"parts".into())).try_collect::<Vec<_>>();
    assert_eq!(pollster::block_on(parts).unwrap().len(), 3);
}

#[test]
fn no_partition_is_begun_when_enough_was_read() {
    let store = open(&StoreLocation::new("memory:"));
    let mut model = sample(3, 3, 50);
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    for epoch in 2..=3 {
        let mut random = Random(epoch);
        let parts = [0, 7, 14].map(|partition| {
            write_delta(&store, partition, epoch, 1, &change(&mut model, partition, 50, 20, &mut random))
        });
        store.commit(draft(&store, epoch, 1, Some(epoch - 1), parts.to_vec())).unwrap();
    }
    model.retain(|_, entries| !entries.is_empty());
    let before = store.latest().unwrap().unwrap();
    let bytes = |partition: u16| before.partitions[&partition].iter().map(|part| part.bytes).sum::<u64>();
    let policy = |bytes_max| CompactionPolicy { small_bytes: 0, share_percent: 0, bytes_max, ..Default::default() };
    // One is begun if there is room for a byte; the next one if there is room behind it.
    for (bytes_max, begun) in [(0, 0), (1, 1), (bytes(7) + 1, 2)] {
        let compacted = store.compact(1, &policy(bytes_max), 9, NEVER).unwrap();
        let read: u64 = [&[][..], &[0], &[7, 14]][begun].iter().copied().map(bytes).sum();
        assert_eq!((compacted.partitions, compacted.read_bytes), (begun, read), "{bytes_max}");
        assert_eq!(compacted.sequence.is_some(), begun > 0);
        let now = store.latest().unwrap().unwrap();
        let merged = [&[][..], &[0], &[7, 14]][begun].iter().map(|partition| now.partitions[partition][0].bytes);
        assert_eq!(compacted.written_bytes, merged.sum::<u64>());
        assert_eq!(compacted.remaining, [3, 2, 0][begun]);
    }
    let after = store.latest().unwrap().unwrap();
    assert_eq!(restored(&store, &after), model);
    // What was merged is of the epoch up to which it says what there is.
    assert!(after.partitions.values().all(|chain| chain.len() == 1 && chain[0].epoch == 3), "{after:?}");
}

#[test]
fn whoever_merges_much_is_asked_again_whether_to_stop() {
    let asked = |keys| {
        let (store, mut model) = (open(&StoreLocation::in_memory(&Default::default())), sample(5, 1, keys));
        store.commit(whole(&store, &model, 1, 1)).unwrap();
        let part = write_delta(&store, 0, 2, 1, &change(&mut model, 0, 5, 5, &mut Random(1)));
        store.commit(draft(&store, 2, 1, Some(1), vec![part])).unwrap();
        let asked = std::cell::Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            false
        };
        let policy = CompactionPolicy { small_bytes: 0, share_percent: 0, ..CompactionPolicy::default() };
        assert_eq!(store.compact(1, &policy, 1, &stop).unwrap().partitions, 1);
        asked.get()
    };
    assert!(asked(9_000) > asked(50));
}

#[test]
fn compaction_stops_when_told_and_is_fenced() {
    let location = StoreLocation::in_memory(&Default::default());
    let (store, model) = (open(&location), sample(5, 3, 50));
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let mut changed = model.clone();
    let part = write_delta(&store, 0, 2, 1, &change(&mut changed, 0, 50, 90, &mut Random(1)));
    store.commit(draft(&store, 2, 1, Some(1), vec![part])).unwrap();
    let policy = CompactionPolicy { small_bytes: 0, ..CompactionPolicy::default() };
    assert!(matches!(store.compact(1, &policy, 1, &|| true), Err(SnapshotError::Stopped)));
    assert_eq!(store.latest().unwrap().unwrap().sequence, 2);
    open(&location).take_over(2, 1).unwrap();
    let result = store.compact(1, &policy, 1, NEVER);
    assert!(matches!(result, Err(SnapshotError::Fenced { ours: 1, theirs: 2, .. })), "{result:?}");
}
