//! Manifests as they are stored.
//!
//! Version 2 says the name and the size of an object once, however many parts are in it. In version 1 each part was an object.

use std::collections::{BTreeMap, HashMap};

use rkyv::{Archive, Deserialize, Serialize, rancor};

use super::manifest::{Manifest, PartKind, PartRef};

#[derive(Archive, Serialize, Deserialize)]
struct Stored {
    identity: u128,
    sequence: u64,
    generation: u64,
    epoch: u64,
    state_hash: u128,
    chain_hash: u128,
    log_position: u64,
    created_us: u64,
    /// Names and sizes, in the order in which parts mention them first.
    objects: Vec<(String, u64)>,
    partitions: BTreeMap<u16, Vec<StoredPart>>,
    system: BTreeMap<String, StoredPart>,
}

#[derive(Archive, Serialize, Deserialize)]
struct StoredPart {
    /// Which of the objects it is in.
    object: u32,
    kind: PartKind,
    offset: u64,
    epoch: u64,
    bytes: u64,
    raw_bytes: u64,
    entries: u64,
    deletes: u64,
    checksum: u128,
}

impl StoredPart {
    fn read(self, objects: &[(String, u64)], partition: u16, name: String) -> Result<PartRef, String> {
        let StoredPart { object, kind, offset, epoch, bytes, raw_bytes, entries, deletes, checksum } = self;
        let (object, object_bytes) =
            objects.get(object as usize).cloned().ok_or_else(|| format!("there is no object {object} in it"))?;
        Ok(PartRef {
            object,
            object_bytes,
            offset,
            kind,
            partition,
            name,
            epoch,
            bytes,
            raw_bytes,
            entries,
            deletes,
            checksum,
        })
    }
}

/// The objects that were mentioned.
#[derive(Default)]
struct Mentioned<'a> {
    objects: Vec<(String, u64)>,
    places: HashMap<&'a str, u32>,
}

impl<'a> Mentioned<'a> {
    fn part(&mut self, part: &'a PartRef) -> StoredPart {
        let object = *self.places.entry(&part.object).or_insert_with(|| {
            self.objects.push((part.object.clone(), part.object_bytes));
            u32::try_from(self.objects.len() - 1).expect("a snapshot has fewer objects than that")
        });
        let PartRef { kind, offset, epoch, bytes, raw_bytes, entries, deletes, checksum, .. } = *part;
        StoredPart { object, kind, offset, epoch, bytes, raw_bytes, entries, deletes, checksum }
    }
}

/// The body of a manifest's object.
pub(crate) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut mentioned = Mentioned::default();
    let chains = manifest.partitions.iter();
    let partitions = chains.map(|(id, chain)| (*id, chain.iter().map(|part| mentioned.part(part)).collect())).collect();
    let system = manifest.system.iter().map(|(name, part)| (name.clone(), mentioned.part(part))).collect();
    let stored = Stored {
        identity: manifest.identity,
        sequence: manifest.sequence,
        generation: manifest.generation,
        epoch: manifest.epoch,
        state_hash: manifest.state_hash,
        chain_hash: manifest.chain_hash,
        log_position: manifest.log_position,
        created_us: manifest.created_us,
        objects: mentioned.objects,
        partitions,
        system,
    };
    rkyv::to_bytes::<rancor::Error>(&stored).expect("a manifest in memory can be written to memory").to_vec()
}

/// Reads the body of a manifest's object of a version that is known; or says what is wrong with it.
pub(crate) fn decode(version: u16, body: &[u8]) -> Result<Manifest, String> {
    if version < 2 {
        return v1::decode(body);
    }
    let stored = rkyv::from_bytes::<Stored, rancor::Error>(body).map_err(|error| error.to_string())?;
    let objects = stored.objects;
    let chain = |(id, chain): (u16, Vec<StoredPart>)| {
        let parts = chain.into_iter().map(|part| part.read(&objects, id, String::new()));
        Ok((id, parts.collect::<Result<_, String>>()?))
    };
    let partitions = stored.partitions.into_iter().map(chain).collect::<Result<_, String>>()?;
    let named = |(name, part): (String, StoredPart)| Ok((name.clone(), part.read(&objects, 0, name)?));
    let system = stored.system.into_iter().map(named).collect::<Result<_, String>>()?;
    Ok(Manifest {
        identity: stored.identity,
        sequence: stored.sequence,
        generation: stored.generation,
        epoch: stored.epoch,
        state_hash: stored.state_hash,
        chain_hash: stored.chain_hash,
        log_position: stored.log_position,
        created_us: stored.created_us,
        partitions,
        system,
    })
}

/// Version 1.
mod v1 {
    use std::collections::BTreeMap;

    use rkyv::{Archive, Deserialize, Serialize, rancor};

    use super::{Manifest, PartKind, PartRef};

    #[derive(Archive, Serialize, Deserialize)]
    struct Stored {
        identity: u128,
        sequence: u64,
        generation: u64,
        epoch: u64,
        state_hash: u128,
        chain_hash: u128,
        log_position: u64,
        created_us: u64,
        partitions: BTreeMap<u16, Vec<StoredPart>>,
        system: BTreeMap<String, StoredPart>,
    }

    #[derive(Archive, Serialize, Deserialize)]
    struct StoredPart {
        object: String,
        kind: PartKind,
        partition: u16,
        name: String,
        epoch: u64,
        bytes: u64,
        raw_bytes: u64,
        entries: u64,
        deletes: u64,
        checksum: u128,
    }

    impl From<StoredPart> for PartRef {
        fn from(part: StoredPart) -> PartRef {
            PartRef {
                object: part.object,
                object_bytes: part.bytes,
                offset: 0,
                kind: part.kind,
                partition: part.partition,
                name: part.name,
                epoch: part.epoch,
                bytes: part.bytes,
                raw_bytes: part.raw_bytes,
                entries: part.entries,
                deletes: part.deletes,
                checksum: part.checksum,
            }
        }
    }

    pub(super) fn decode(body: &[u8]) -> Result<Manifest, String> {
        let stored = rkyv::from_bytes::<Stored, rancor::Error>(body).map_err(|error| error.to_string())?;
        let chain = |(id, chain): (u16, Vec<StoredPart>)| (id, chain.into_iter().map(PartRef::from).collect());
        let system = stored.system.into_iter().map(|(name, part)| (name, part.into()));
        Ok(Manifest {
            identity: stored.identity,
            sequence: stored.sequence,
            generation: stored.generation,
            epoch: stored.epoch,
            state_hash: stored.state_hash,
            chain_hash: stored.chain_hash,
            log_position: stored.log_position,
            created_us: stored.created_us,
            partitions: stored.partitions.into_iter().map(chain).collect(),
            system: system.collect(),
        })
    }
}
