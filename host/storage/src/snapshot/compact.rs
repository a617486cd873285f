//! Keeps chains short: merges deltas with each other, and now and then with their base.
//!
//! Merging writes again, so the question is how often. Two rules keep it to a small factor of what
//! snapshots wrote in the first place:
//! - A base is rewritten when the deltas behind it have grown to a *share* of its size: a byte of base is then
//!   paid for by `share` bytes of deltas. With one half, rewriting costs at most three times the deltas.
//! - Between those, when there are too many deltas, a run of the newest is merged to one, as long as the next older
//!   is not more than twice as large as the run: the logarithmic method, where a byte moves into a run of at least
//!   about 1½ times the size each time. A large base with a trickle of changes is thus left alone.
//!
//! A small partition, base and all, costs requests rather than bytes: it is merged to a base when it has too many deltas, and
//! only then.
//!
//! An object goes when nothing in it is mentioned. Where objects hold more that is not mentioned than that is, partitions that
//! have something in one of which less than half is are merged to a base, however short their chains are: so about twice as
//! much is kept as is mentioned.
//!
//! A call does a few partitions and writes one manifest, of the same epoch, so that there is never a storm.
//! Snapshots go on meanwhile; a result whose parts are no longer in the chain is dropped.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::SnapshotStore;
use super::commit::OnConflict;
use super::error::SnapshotError;
use super::manifest::{Manifest, PartKind, PartRef};
use super::merge::merge;
use super::part::pieces::Pieces;

/// When to merge, and how much at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// Deltas that a partition may have; more are merged.
    pub deltas_max: usize,
    /// The size of deltas at which they are merged with their base, in percent of the base's.
    pub share_percent: u64,
    /// Partitions that have no more bytes than this, base and deltas together, are small.
    pub small_bytes: u64,
    /// Partitions per call at most.
    pub partitions_max: usize,
    /// When this many bytes were read, as stored, no further partition is begun.
    pub bytes_max: u64,
    /// Bytes in objects that nothing mentions, of no more than which nobody cares.
    pub waste_bytes: u64,
}

impl Default for CompactionPolicy {
    /// Eight deltas, half the base, 256 KiB are small; 128 partitions or 256 MiB a call, so that of 1,024 partitions that
    /// all change, each is done every eighth time; 32 MiB are wasted before anybody cares.
    fn default() -> Self {
        Self {
            deltas_max: 8,
            share_percent: 50,
            small_bytes: 256 << 10,
            partitions_max: 128,
            bytes_max: 256 << 20,
            waste_bytes: 32 << 20,
        }
    }
}

/// Result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The manifest written, if there was something to do.
    pub sequence: Option<u64>,
    /// Partitions whose chains became shorter.
    pub partitions: usize,
    /// Bytes read, as stored.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Partitions that still wait for their turn: call again.
    pub remaining: usize,
}

impl CompactionPolicy {
    /// Which parts of a chain to merge, if any, where these objects are sparse. A range that starts at 0 becomes a base.
    fn plan_among(&self, chain: &[PartRef], sparse: &HashSet<&str>) -> Option<Range<usize>> {
        let is_sparse = chain.iter().any(|part| sparse.contains(part.object.as_str()));
        if is_sparse { Some(0..chain.len()) } else { self.plan(chain) }
    }

    /// Objects of which less than half is mentioned, where all together hold too much that is not.
    fn sparse<'a>(&self, manifest: &'a Manifest) -> HashSet<&'a str> {
        let mut objects: HashMap<&str, (u64, u64)> = HashMap::new();
        for part in manifest.partitions.values().flatten() {
            objects.entry(&part.object).or_insert((0, part.object_bytes)).0 += part.bytes;
        }
        let add =
            |sum: (u64, u64), object: &(u64, u64)| (sum.0.saturating_add(object.0), sum.1.saturating_add(object.1));
        let (mentioned, all) = objects.values().fold((0, 0), add);
        let waste = all.saturating_sub(mentioned);
        if waste <= self.waste_bytes.max(mentioned) {
            return HashSet::new();
        }
        objects.retain(|_, (mentioned, all)| mentioned.saturating_mul(2) < *all);
        objects.into_keys().collect()
    }

    fn plan(&self, chain: &[PartRef]) -> Option<Range<usize>> {
        let first = usize::from(chain.first().is_some_and(|part| part.kind == PartKind::Base));
        let deltas = &chain[first..];
        let base: u64 = chain[..first].iter().map(|part| part.bytes).sum();
        let bytes: u64 = deltas.iter().map(|part| part.bytes).sum();
        if deltas.is_empty() {
            return None;
        }
        if base.saturating_add(bytes) <= self.small_bytes {
            return (deltas.len() > self.deltas_max).then_some(0..chain.len());
        }
        if bytes.saturating_mul(100) >= base.saturating_mul(self.share_percent) {
            return Some(0..chain.len());
        }
        if deltas.len() <= self.deltas_max {
            return None;
        }
        let (mut from, mut run) = (chain.len() - 1, chain[chain.len() - 1].bytes);
        // Far too many, each much smaller than the one before: half of them, whatever their sizes.
        let forced = if deltas.len() > 2 * self.deltas_max { chain.len() - deltas.len() / 2 } else { from };
        while from > first && (chain[from - 1].bytes <= 2 * run || from > forced) {
            from -= 1;
            run += chain[from].bytes;
        }
        (chain.len() - from >= 2).then_some(from..chain.len())
    }
}

/// A run of parts and what they were merged to.
struct Merged {
    partition: u16,
    from: Vec<PartRef>,
    to: PartRef,
}

impl SnapshotStore {
    /// Merges what `policy` finds too long, on the calling thread, and puts a manifest that uses the results.
    /// `stop` is asked now and then whether to give up.
    ///
    /// # Errors
    /// [`SnapshotError::Fenced`] if somebody else writes. [`SnapshotError::Damaged`] if a part of the newest
    /// snapshot is: take a whole one then, which needs none of the old parts. [`SnapshotError::Stopped`].
    pub fn compact(
        &self,
        generation: u64,
        policy: &CompactionPolicy,
        created_us: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Compacted, SnapshotError> {
        let Some(head) = self.head_manifest()? else { return Ok(Compacted::default()) };
        let sparse = policy.sparse(&head);
        let mut plans: Vec<_> = head
            .partitions
            .iter()
            .filter_map(|(partition, chain)| Some((*partition, chain[policy.plan_among(chain, &sparse)?].to_vec())))
            .collect();
        // Longest first: they cost a recovery most.
        plans.sort_by_key(|(partition, parts)| (std::cmp::Reverse(parts.len()), *partition));
        let mut compacted = Compacted { remaining: plans.len(), ..Compacted::default() };
        plans.truncate(policy.partitions_max);
        let bytes = |(_, from): &(u16, Vec<PartRef>)| from.iter().map(|part| part.bytes).sum::<u64>();
        let begun = plans.iter().take_while(|plan| {
            let begins = compacted.read_bytes < policy.bytes_max;
            compacted.read_bytes += if begins { bytes(plan) } else { 0 };
            begins
        });
        let begun = begun.count();
        plans.truncate(begun);
        // In the order in which they stand in packs, so that what is read of one is not held for long.
        plans.sort_by_key(|(partition, _)| *partition);
        let pieces = Pieces::of(&self.objects, plans.iter().flat_map(|(_, from)| from));
        let mut pack = self.pack_writer(head.epoch, generation);
        for (partition, from) in &plans {
            let whole = head.partitions[partition][0] == from[0];
            let kind = if whole { PartKind::Base } else { PartKind::Delta };
            let epoch = from.last().expect("a run is not empty").epoch;
            merge(&pieces, from, pack.part_of(kind, *partition, epoch)?, kind, stop)?;
        }
        let merged = pack.finish()?.into_iter().zip(plans);
        let merged: Vec<_> = merged.map(|(to, (partition, from))| Merged { partition, from, to }).collect();
        compacted.written_bytes = merged.iter().map(|merged| merged.to.bytes).sum();
        compacted.remaining -= merged.len();
        if merged.is_empty() {
            return Ok(compacted);
        }
        let result = self.put_next(generation, OnConflict::Skip, |previous| {
            let mut manifest = previous.cloned().ok_or_else(|| SnapshotError::Unfit("there is no snapshot".into()))?;
            compacted.partitions = merged.iter().filter(|merged| merged.put_into(&mut manifest)).count();
            if compacted.partitions == 0 {
                return Err(SnapshotError::Stopped);
            }
            Ok(Manifest { generation, created_us, ..manifest })
        });
        // What was mentioned is on no list any more; what was overtaken will not be mentioned.
        self.abandon(merged.iter().map(|merged| &merged.to));
        match result {
            Ok(manifest) => compacted.sequence = Some(manifest.sequence),
            Err(SnapshotError::Stopped) => {}
            Err(error) => return Err(error),
        }
        Ok(compacted)
    }
}

impl Merged {
    /// Replaces the run in the manifest's chain; false if it is no longer there.
    fn put_into(&self, manifest: &mut Manifest) -> bool {
        let Some(chain) = manifest.partitions.get_mut(&self.partition) else { return false };
        let Some(at) = chain.iter().position(|part| *part == self.from[0]) else { return false };
        let run = at..at + self.from.len();
        if chain.get(run.clone()).is_none_or(|run| run != self.from) {
            return false;
        }
        chain.splice(run, [self.to.clone()]);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A chain of a base, if its size is not 0, and deltas.
    fn chain(base: u64, deltas: &[u64]) -> Vec<PartRef> {
        let part = |kind, bytes| PartRef {
            object: String::new(),
            object_bytes: bytes,
            offset: 0,
            kind,
            partition: 0,
            name: String::new(),
            epoch: 0,
            bytes,
            raw_bytes: 0,
            entries: 0,
            deletes: 0,
            checksum: 0,
        };
        let base = (base > 0).then(|| part(PartKind::Base, base));
        base.into_iter().chain(deltas.iter().map(|bytes| part(PartKind::Delta, *bytes))).collect()
    }

    fn manifest(partitions: BTreeMap<u16, Vec<PartRef>>) -> Manifest {
        Manifest {
            identity: 1,
            sequence: 1,
            generation: 1,
            epoch: 1,
            state_hash: 0,
            chain_hash: 0,
            log_position: 0,
            created_us: 0,
            partitions,
            system: BTreeMap::new(),
        }
    }

    #[test]
    fn what_was_merged_replaces_its_run_and_no_other() {
        let named = |names: &[&str]| {
            let part = |(part, name): (PartRef, &&str)| PartRef { object: (*name).to_owned(), ..part };
            chain(1, &vec![1; names.len() - 1]).into_iter().zip(names).map(part).collect::<Vec<_>>()
        };
        let merged = |names: &[&str]| Merged { partition: 3, from: named(names), to: named(&["merged"]).remove(0) };
        let put = |into: &[&str], merged: Merged| {
            let mut manifest = manifest(BTreeMap::from([(3, named(into))]));
            let done = merged.put_into(&mut manifest);
            (done, manifest.partitions[&3].iter().map(|part| part.object.clone()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(put(&["a", "b", "c", "d"], merged(&["a", "b"])), (true, "merged c d".to_owned()));
        assert_eq!(put(&["a", "x"], merged(&["a", "b"])), (false, "a x".to_owned()));
        assert_eq!(put(&["a"], merged(&["a", "b"])), (false, "a".to_owned()));
        assert_eq!(put(&["x", "b"], merged(&["a", "b"])), (false, "x b".to_owned()));
        assert!(!put(&["a", "b"], Merged { partition: 4, ..merged(&["a", "b"]) }).0);
    }

    #[test]
    fn what_is_merged_follows_from_sizes() {
        let policy = CompactionPolicy { deltas_max: 2, share_percent: 50, small_bytes: 100, ..Default::default() };
        type Case = (u64, &'static [u64], Option<Range<usize>>);
        let cases: [Case; 16] = [
            (0, &[], None),
            (1000, &[], None),
            // Small: too many deltas, and nothing else.
            (40, &[20, 20, 20], Some(0..4)),
            (60, &[20, 20], None),
            (61, &[20, 20], Some(0..3)),
            // Half the base.
            (1000, &[500], Some(0..2)),
            (1000, &[499], None),
            (0, &[200], Some(0..1)),
            // A run of the newest, as long as the next older is not more than twice as large.
            (1000, &[10, 10], None),
            (1000, &[10, 10, 10], Some(1..4)),
            (1000, &[60, 20, 10], Some(1..4)),
            (1000, &[61, 20, 10], Some(2..4)),
            (1000, &[100, 20, 10], Some(2..4)),
            (1000, &[100, 21, 10], None),
            // Far too many.
            (1000, &[81, 27, 9, 3], None),
            (1000, &[243, 81, 27, 9, 3], Some(4..6)),
        ];
        for (base, deltas, expected) in cases {
            assert_eq!(policy.plan(&chain(base, deltas)), expected, "{base} {deltas:?}");
        }
        // More than twice as many as there may be.
        let three = CompactionPolicy { deltas_max: 3, ..policy };
        assert_eq!(three.plan(&chain(1_000_000, &[1024, 256, 64, 16, 4, 1])), None);
        assert_eq!(three.plan(&chain(1_000_000, &[4096, 1024, 256, 64, 16, 4, 1])), Some(5..8));
        // A base is written anew for its share, and never as part of a run.
        let seldom = CompactionPolicy { share_percent: 1000, ..policy };
        assert_eq!(seldom.plan(&chain(100, &[30, 30, 30])), Some(1..4));
    }

    #[test]
    fn what_is_in_an_object_of_which_little_is_mentioned_is_merged() {
        let of = |object: &str, object_bytes| {
            let rename = |part: PartRef| PartRef { object: object.to_owned(), object_bytes, ..part };
            chain(40, &[]).into_iter().map(rename).collect::<Vec<_>>()
        };
        let mut manifest =
            manifest([(1, of("sparse", 161)), (2, of("half", 80)), (3, of("both", 160)), (4, of("both", 160))].into());
        manifest.system.insert("s".to_owned(), of("system", 1000).remove(0));
        let policy = CompactionPolicy { waste_bytes: 200, ..CompactionPolicy::default() };
        let plan = |policy: &CompactionPolicy, manifest: &Manifest, partition: u16| {
            policy.plan_among(&manifest.partitions[&partition], &policy.sparse(manifest))
        };
        // 241 of 401 bytes are not mentioned, and 160 are.
        let plans = |manifest: &Manifest| [1, 2, 3].map(|partition| plan(&policy, manifest, partition));
        assert_eq!(plans(&manifest), [Some(0..1), None, None]);
        // The other one has gone elsewhere.
        manifest.partitions.remove(&4);
        assert_eq!(plans(&manifest), [Some(0..1), None, Some(0..1)]);
        // It is not much; or not more than what is mentioned.
        let careless = CompactionPolicy { waste_bytes: 281, ..policy };
        assert_eq!(plan(&careless, &manifest, 1), None);
        manifest.partitions.insert(
            5,
            of("whole", 40).into_iter().map(|part| PartRef { bytes: 400, object_bytes: 400, ..part }).collect(),
        );
        assert_eq!(plans(&manifest), [None, None, None]);
    }
}
