//! Stores to test on, and a model of what they should hold.

pub mod s3;

use std::collections::BTreeMap;
use std::sync::{Barrier, LazyLock, Mutex};

use styx_storage::snapshot::{
    Batch, Draft, Manifest, Memory, PackWriter, PartKind, PartRef, Sink, SnapshotStore, StoreLocation,
};
use tokio::runtime::{Handle, Runtime};

pub const CLUSTER: u128 = 0xC1;

/// One runtime for all tests: the store needs one whose threads are not the tests'.
pub fn runtime() -> &'static Handle {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    });
    RUNTIME.handle()
}

pub fn open(location: &StoreLocation) -> SnapshotStore {
    SnapshotStore::open(location, CLUSTER, runtime()).unwrap()
}

/// Runs a test on each kind of place that there is here.
pub fn on_each_location(test: impl Fn(StoreLocation)) {
    test(StoreLocation::in_memory(&Memory::default()));
    let directory = tempfile::tempdir().unwrap();
    test(StoreLocation::new(directory.path().join("made/when/opened").to_str().unwrap()));
    if let Some(server) = s3::Server::start() {
        test(server.location("prefix/of/several/parts"));
    }
}

/// Does it with each of these at the same moment, each on a thread of its own.
pub fn at_once<T: Send, R: Send>(each: impl IntoIterator<Item = T>, does: impl Fn(T) -> R + Sync) -> Vec<R> {
    let each: Vec<T> = each.into_iter().collect();
    let (barrier, does) = (Barrier::new(each.len()), &does);
    std::thread::scope(|scope| {
        let start = |one| {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                does(one)
            })
        };
        let threads: Vec<_> = each.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The state of all partitions: what a restore must come to.
pub type Model = BTreeMap<u16, BTreeMap<(u32, Vec<u8>), Vec<u8>>>;

/// Changes of one partition since the snapshot before; `None` for a deletion.
pub type Changes = BTreeMap<(u32, Vec<u8>), Option<Vec<u8>>>;

/// Collects what a restore brings.
#[derive(Default)]
pub struct Collect(Mutex<Model>);

impl Collect {
    pub fn into_model(self) -> Model {
        let mut model = self.0.into_inner().unwrap();
        model.retain(|_, entries| !entries.is_empty());
        model
    }
}

impl Sink for Collect {
    fn apply(&self, batch: &Batch<'_>) -> anyhow::Result<()> {
        let mut model = self.0.lock().unwrap();
        let partition = model.entry(batch.partition()).or_default();
        for entry in batch.entries() {
            match entry.value {
                Some(value) => partition.insert((entry.operator, entry.key.to_vec()), value.to_vec()),
                None => partition.remove(&(entry.operator, entry.key.to_vec())),
            };
        }
        Ok(())
    }
}

/// What a snapshot holds.
pub fn restored(store: &SnapshotStore, manifest: &Manifest) -> Model {
    let sink = Collect::default();
    store.restore(manifest, 2, &sink).unwrap();
    sink.into_model()
}

pub fn write_base(
    store: &SnapshotStore,
    partition: u16,
    epoch: u64,
    generation: u64,
    entries: &BTreeMap<(u32, Vec<u8>), Vec<u8>>,
) -> PartRef {
    let mut pack = store.pack_writer(epoch, generation);
    put_base(&mut pack, partition, entries);
    pack.finish().unwrap().remove(0)
}

pub fn write_delta(store: &SnapshotStore, partition: u16, epoch: u64, generation: u64, changes: &Changes) -> PartRef {
    let mut pack = store.pack_writer(epoch, generation);
    put_delta(&mut pack, partition, changes);
    pack.finish().unwrap().remove(0)
}

pub fn put_base(pack: &mut PackWriter, partition: u16, entries: &BTreeMap<(u32, Vec<u8>), Vec<u8>>) {
    let mut part = pack.part(PartKind::Base, partition).unwrap();
    for ((operator, key), value) in entries {
        part.push(*operator, key, Some(value)).unwrap();
    }
    part.finish().unwrap();
}

pub fn put_delta(pack: &mut PackWriter, partition: u16, changes: &Changes) {
    let mut part = pack.part(PartKind::Delta, partition).unwrap();
    for ((operator, key), value) in changes {
        part.push(*operator, key, value.as_deref()).unwrap();
    }
    part.finish().unwrap();
}

/// A whole snapshot of `model`, not yet committed.
pub fn whole(store: &SnapshotStore, model: &Model, epoch: u64, generation: u64) -> Draft {
    let mut pack = store.pack_writer(epoch, generation);
    model.iter().for_each(|(partition, entries)| put_base(&mut pack, *partition, entries));
    draft(store, epoch, generation, None, pack.finish().unwrap())
}

/// A snapshot of `parts`, with two system parts, not yet committed.
pub fn draft(store: &SnapshotStore, epoch: u64, generation: u64, builds_on: Option<u64>, parts: Vec<PartRef>) -> Draft {
    let system = vec![
        store.write_system_part("coordinator", epoch, generation, &system_blob(epoch)).unwrap(),
        store.write_system_part("worker 3", epoch, generation, b"").unwrap(),
    ];
    Draft {
        generation,
        epoch,
        builds_on,
        state_hash: u128::from(epoch) << 64,
        chain_hash: u128::from(epoch) + 7,
        log_position: epoch * 10,
        created_us: epoch * 1_000_000,
        parts,
        system,
    }
}

/// What the system part `coordinator` of an epoch says.
pub fn system_blob(epoch: u64) -> Vec<u8> {
    format!("carry-over and reply table of epoch {epoch}; ").repeat(3).into_bytes()
}

/// A small generator, so that every run sees the same.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Bytes of which zstd makes little.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }
}

/// Random changes of a partition, applied to the model.
pub fn change(model: &mut Model, partition: u16, keys: u64, count: u64, random: &mut Random) -> Changes {
    let entries = model.entry(partition).or_default();
    let mut changes = Changes::new();
    for _ in 0..count {
        let key = (random.below(3) as u32, random.below(keys).to_be_bytes().to_vec());
        let length = random.below(200) as usize;
        let value = (random.below(4) > 0).then(|| random.bytes(length));
        match &value {
            Some(value) => entries.insert(key.clone(), value.clone()),
            None => entries.remove(&key),
        };
        changes.insert(key, value);
    }
    changes
}

/// Some partitions with some entities.
pub fn sample(seed: u64, partitions: u16, keys: u64) -> Model {
    let (mut model, mut random) = (Model::new(), Random(seed));
    for partition in 0..partitions {
        change(&mut model, partition * 7, keys, keys, &mut random);
    }
    model.retain(|_, entries| !entries.is_empty());
    model
}
