//! Manifest of a snapshot: one small object, written last, that mentions all others.
//!
//! A snapshot exists as soon as its manifest does, and not before. Manifests are numbered without gaps
//! as they are written; each is put only if its number is free, so of two writers one loses and knows it.
//!
//! On disk: the *envelope* (see [`envelope`](super::envelope)) with the manifest in rkyv, bytechecked on read (see
//! [`stored`](super::stored)).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use rkyv::{Archive, Deserialize, Serialize};

use super::error::SnapshotError;
use super::{envelope, stored};

/// The version of the format of manifests that is written.
pub const MANIFEST_VERSION: u16 = 2;
const MAGIC: &[u8; 8] = b"STYXMANI";
pub(crate) const FOLDER: &str = "manifests";

/// Contents of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Archive, Serialize, Deserialize)]
pub enum PartKind {
    /// Everything that a partition holds.
    Base,
    /// The writes and deletions in a partition since the snapshot before.
    Delta,
    /// Bytes with a name, opaque to the store.
    System,
}

/// Reference to a part, with its expected properties: returned by a writer, mentioned in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct PartRef {
    /// Name of the object that it is in, a [pack](super::PackWriter).
    pub object: String,
    /// That object's size, bytes.
    pub object_bytes: u64,
    /// Where in the object it begins.
    pub offset: u64,
    pub kind: PartKind,
    /// The partition; 0 for system parts.
    pub partition: u16,
    /// The name of a system part; empty for others.
    pub name: String,
    /// The epoch at whose end the content was this.
    pub epoch: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// Keys and values, or the blob, before compression, bytes.
    pub raw_bytes: u64,
    /// Entries, deletions included; 0 for system parts.
    pub entries: u64,
    /// Deletions among the entries.
    pub deletes: u64,
    /// xxh3-128 of it.
    pub checksum: u128,
}

impl PartRef {
    /// Where it is in its object.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }

    /// Checks the size that the store tells of the object.
    pub(crate) fn check_size(&self, size: Option<u64>) -> Result<(), SnapshotError> {
        let size = size.ok_or_else(|| SnapshotError::Missing { object: self.object.clone() })?;
        SnapshotError::check_size(&self.object, size, self.object_bytes)
    }
}

/// One snapshot: at the end of an epoch, the whole committed state and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The cluster that this belongs to.
    pub identity: u128,
    /// The manifest's number: 1 is the first, each one higher than the one before.
    pub sequence: u64,
    /// The generation of the cluster that wrote it.
    pub generation: u64,
    /// The state is that of this epoch's end.
    pub epoch: u64,
    /// The hash of the state, to be compared after a restore.
    pub state_hash: u128,
    /// The chain of state hashes up to this epoch.
    pub chain_hash: u128,
    /// Replay of the log starts with this record.
    pub log_position: u64,
    /// When it was written, microseconds since 1970.
    pub created_us: u64,
    /// Per partition its parts, to be applied in this order: at most one base, first, then deltas.
    pub partitions: BTreeMap<u16, Vec<PartRef>>,
    pub system: BTreeMap<String, PartRef>,
}

impl Manifest {
    /// Every part that the snapshot consists of.
    pub fn parts(&self) -> impl Iterator<Item = &PartRef> {
        self.partitions.values().flatten().chain(self.system.values())
    }

    /// Its parts by the object that they are in; all say the same of that.
    pub(crate) fn packs(&self) -> BTreeMap<&str, Vec<&PartRef>> {
        let mut packs: BTreeMap<&str, Vec<&PartRef>> = BTreeMap::new();
        self.parts().for_each(|part| packs.entry(&part.object).or_default().push(part));
        packs
    }

    /// The size of all parts in the store, bytes.
    pub fn bytes(&self) -> u64 {
        self.parts().map(|part| part.bytes).sum()
    }

    /// The manifest's name in the store.
    pub fn object(&self) -> String {
        object_name(self.sequence)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        envelope::wrap(MAGIC, MANIFEST_VERSION, &stored::encode(self))
    }

    /// Reads manifest `sequence`; what it says about itself must fit its name.
    pub(crate) fn decode(sequence: u64, bytes: &[u8]) -> Result<Self, SnapshotError> {
        let object = object_name(sequence);
        let (version, body) = envelope::unwrap(MAGIC, MANIFEST_VERSION, &object, bytes)?;
        let manifest = stored::decode(version, &body)
            .map_err(|what| SnapshotError::damaged(&object, envelope::HEADER as u64, what))?;
        manifest.check().map_err(|what| SnapshotError::damaged(&object, envelope::HEADER as u64, what))?;
        if manifest.sequence != sequence {
            let what = format!("it says that it is number {}", manifest.sequence);
            return Err(SnapshotError::damaged(&object, envelope::HEADER as u64, what));
        }
        Ok(manifest)
    }

    /// Invariants of every manifest; checked before one is written and when one is read.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.parts().try_fold(0, |sum: u64, part| sum.checked_add(part.bytes)).is_none() {
            return Err("its parts have more bytes than can be counted".into());
        }
        let mut sizes = HashMap::new();
        for part in self.parts() {
            if part.offset.checked_add(part.bytes).is_none_or(|end| end > part.object_bytes) {
                return Err(format!("a part of {} ends behind it", part.object));
            }
            if *sizes.entry(part.object.as_str()).or_insert(part.object_bytes) != part.object_bytes {
                return Err(format!("{} has two sizes", part.object));
            }
        }
        for (partition, chain) in &self.partitions {
            let mut epoch = 0;
            for (at, part) in chain.iter().enumerate() {
                if part.partition != *partition {
                    return Err(format!("{} is listed under partition {partition}", part.object));
                }
                match part.kind {
                    PartKind::Base if at == 0 => {}
                    PartKind::Delta => {}
                    PartKind::Base => return Err(format!("{} is a base behind other parts", part.object)),
                    PartKind::System => return Err(format!("{} is no part of a partition", part.object)),
                }
                if part.epoch < epoch || part.epoch > self.epoch || (at > 0 && part.epoch == epoch) {
                    return Err(format!("{} of epoch {} is out of order", part.object, part.epoch));
                }
                epoch = part.epoch;
            }
        }
        for (name, part) in &self.system {
            if part.kind != PartKind::System || part.name != *name {
                return Err(format!("{} is listed as system part {name:?}", part.object));
            }
        }
        Ok(())
    }
}

/// The name of manifest `sequence`: zero-padded, so that names sort like numbers.
pub(crate) fn object_name(sequence: u64) -> String {
    format!("{FOLDER}/{sequence:020}")
}

/// The number in a manifest's name; `None` for what is not a manifest.
pub(crate) fn sequence_of(object: &str) -> Option<u64> {
    let digits = object.strip_prefix(FOLDER)?.strip_prefix('/')?;
    (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(object: &str, kind: PartKind, partition: u16, epoch: u64) -> PartRef {
        PartRef {
            object: object.into(),
            object_bytes: 10,
            offset: 0,
            kind,
            partition,
            name: if kind == PartKind::System { "s".into() } else { String::new() },
            epoch,
            bytes: 10,
            raw_bytes: 20,
            entries: 1,
            deletes: 0,
            checksum: 7,
        }
    }

    fn manifest(chain: Vec<PartRef>) -> Manifest {
        Manifest {
            identity: 1,
            sequence: 3,
            generation: 1,
            epoch: 5,
            state_hash: 2,
            chain_hash: 3,
            log_position: 4,
            created_us: 6,
            partitions: [(7, chain)].into(),
            system: [("s".to_owned(), part("sys", PartKind::System, 0, 5))].into(),
        }
    }

    #[test]
    fn a_manifest_whose_parts_do_not_belong_together_is_refused() {
        let (base, delta) = (|epoch| part("b", PartKind::Base, 7, epoch), |epoch| part("d", PartKind::Delta, 7, epoch));
        for fine in [vec![], vec![base(0)], vec![base(1), delta(2), delta(5)], vec![delta(3), delta(4)]] {
            manifest(fine).check().unwrap();
        }
        let sized = |bytes, part| PartRef { bytes, object_bytes: bytes, ..part };
        manifest(vec![sized(u64::MAX - 10, base(1))]).check().unwrap();
        let large = sized(u64::MAX - 19, base(1));
        // Side by side in one object.
        let beside = |offset, object_bytes, part| PartRef { object: "b".into(), offset, object_bytes, ..part };
        manifest(vec![beside(0, 20, base(1)), beside(10, 20, delta(2))]).check().unwrap();
        let cases = [
            (vec![beside(11, 20, base(1))], "a part of b ends behind it"),
            (vec![beside(u64::MAX, 20, base(1))], "a part of b ends behind it"),
            (vec![beside(0, 20, base(1)), beside(10, 21, delta(2))], "b has two sizes"),
            (vec![large, delta(2)], "more bytes"),
            (vec![part("o", PartKind::Base, 8, 1)], "o is listed under partition 7"),
            (vec![delta(1), base(2)], "behind other parts"),
            (vec![part("o", PartKind::System, 7, 1)], "no part of a partition"),
            (vec![base(2), delta(1)], "out of order"),
            (vec![base(2), delta(2)], "out of order"),
            (vec![base(6)], "out of order"),
        ];
        for (chain, says) in cases {
            let refused = manifest(chain).check().unwrap_err();
            assert!(refused.contains(says), "{says}: {refused}");
        }
        for wrong in [
            PartRef { name: "t".into(), ..part("o", PartKind::System, 0, 1) },
            PartRef { name: "s".into(), ..part("o", PartKind::Base, 0, 1) },
        ] {
            let refused =
                Manifest { system: [("s".to_owned(), wrong)].into(), ..manifest(vec![]) }.check().unwrap_err();
            assert!(refused.contains("o is listed as system part \"s\""), "{refused}");
        }
    }

    #[test]
    fn a_manifest_is_that_of_its_number() {
        let whole = manifest(vec![part("b", PartKind::Base, 7, 1)]);
        assert_eq!(Manifest::decode(3, &whole.encode()).unwrap(), whole);
        assert_eq!((whole.bytes(), whole.parts().count()), (20, 2));
        let other = Manifest::decode(4, &whole.encode()).unwrap_err();
        assert!(
            matches!(&other, SnapshotError::Damaged { object, offset: 32, .. } if object == &object_name(4)),
            "{other:?}"
        );
        let wrong = manifest(vec![part("b", PartKind::Base, 7, 6)]);
        assert!(matches!(Manifest::decode(3, &wrong.encode()), Err(SnapshotError::Damaged { offset: 32, .. })));
        assert_eq!(sequence_of(&object_name(12)), Some(12));
        for other in [
            "manifests/12",
            "manifests/0000000000000000001x",
            "manifests00000000000000000012",
            "parts/00000000000000000012",
            "manifests/000000000000000000012",
        ] {
            assert_eq!(sequence_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_part_has_the_size_that_its_manifest_says() {
        let part = part("b", PartKind::Base, 7, 1);
        part.check_size(Some(10)).unwrap();
        for (size, at) in [(9, 9), (11, 10)] {
            assert!(matches!(part.check_size(Some(size)), Err(SnapshotError::Damaged { offset, .. }) if offset == at));
        }
        assert!(matches!(part.check_size(None), Err(SnapshotError::Missing { object }) if object == "b"));
    }
}
