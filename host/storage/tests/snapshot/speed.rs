//! How quick a snapshot is written and brought back. Small by default, so that it never rots; the real size with
//! `STYX_SNAPSHOT_MIB=1024 cargo test --release -p styx-storage --test snapshot speed -- --nocapture`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use styx_storage::snapshot::{Batch, Draft, PartKind, Sink, StoreLocation};

use crate::support::*;

/// Counts, and copies as a state would.
#[derive(Default)]
struct Count {
    entries: AtomicU64,
    bytes: AtomicU64,
}

impl Sink for Count {
    fn apply(&self, batch: &Batch<'_>) -> anyhow::Result<()> {
        let (mut entries, mut bytes) = (0, 0);
        for entry in batch.entries() {
            let value = std::hint::black_box(bytes::Bytes::copy_from_slice(entry.value.unwrap_or_default()));
            entries += 1;
            bytes += (entry.key.len() + value.len()) as u64;
        }
        self.entries.fetch_add(entries, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// A value of 1000 bytes, half of it random, like a document with some identifiers.
fn value(random: &mut Random) -> Vec<u8> {
    let mut value = random.bytes(500);
    value.extend_from_slice(&br#"{"balance": 1000, "currency": "EUR", "history": []} "#.repeat(10)[..500]);
    value
}

#[test]
fn a_state_of_values_of_a_kilobyte() {
    let directory = tempfile::tempdir().unwrap();
    measure("a directory", &StoreLocation::new(directory.path().to_str().unwrap()), 2);
    if let Some(server) = s3::Server::start() {
        // As a worker writes its partitions, and as it brings them back.
        measure("S3", &server.location("one"), 1);
        measure("S3", &server.location("two"), 2);
    }
}

/// Writes a whole snapshot with so many threads, and brings it back.
fn measure(what: &str, location: &StoreLocation, threads: u16) {
    let mebibytes: u64 = std::env::var("STYX_SNAPSHOT_MIB").map_or(16, |text| text.parse().unwrap());
    let partitions = 64_u16;
    let keys = (mebibytes << 20) / 1016 / u64::from(partitions);
    let store = open(location);
    let started = Instant::now();
    let parts: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let mut random = Random(u64::from(thread));
                    let write = |partition| {
                        let mut writer = store.part_writer(PartKind::Base, partition, 1, 1).unwrap();
                        for key in 0..keys {
                            let key = format!("{key:016}");
                            writer.push(1, key.as_bytes(), Some(&value(&mut random))).unwrap();
                        }
                        writer.finish().unwrap()
                    };
                    (0..partitions).filter(|partition| partition % threads == thread).map(write).collect::<Vec<_>>()
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let raw: u64 = parts.iter().map(|part| part.raw_bytes).sum();
    let manifest = store.commit(Draft { generation: 1, epoch: 1, parts, ..Draft::default() }).unwrap();
    let wrote = started.elapsed();
    let count = Count::default();
    let started = Instant::now();
    store.restore(&manifest, usize::from(threads), &count).unwrap();
    let read = started.elapsed();
    assert_eq!(count.entries.into_inner(), keys * u64::from(partitions));
    assert_eq!(count.bytes.into_inner(), raw);
    eprintln!(
        "{what}, {threads} threads: {} MiB in {} entries, {} MiB stored: written in {wrote:.2?} (values made by the way), restored in {read:.2?}",
        raw >> 20,
        keys * u64::from(partitions),
        manifest.bytes() >> 20,
    );
    let limit = 2.0 + 10.0 * raw as f64 / 1e9;
    assert!(read.as_secs_f64() < limit, "restored in {read:?}, {limit:.1} s are allowed");
}
