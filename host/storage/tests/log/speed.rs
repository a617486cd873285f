//! Latency of a sync and speed of recovery of the embedded log. Small by default, so that it never rots; the real size
//! with `STYX_LOG_MIB=200 cargo test --release -p styx-storage --test log speed -- --nocapture`. `TMPDIR` chooses the
//! disk.

use std::path::Path;
use std::time::{Duration, Instant};

use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log};

/// Length of a record whose recovery is measured.
const RECORD_BYTES: usize = 16 << 10;

fn open(directory: &Path) -> EmbeddedLog {
    EmbeddedLog::open(directory, EmbeddedOptions::default()).unwrap()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[test]
fn syncs_and_recovery() {
    let mebibytes: u64 = std::env::var("STYX_LOG_MIB").map_or(4, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    syncs(&directory.path().join("small"), 1 << 10, 20 * mebibytes);
    syncs(&directory.path().join("large"), 64 << 10, 5 * mebibytes);
    recovery(&directory.path().join("log"), mebibytes);
}

/// Appends and syncs one record of `bytes` at a time.
fn syncs(directory: &Path, bytes: usize, count: u64) {
    let (record, mut log) = (vec![7; bytes], open(directory));
    let mut times: Vec<_> = (0..count)
        .map(|_| {
            let started = Instant::now();
            log.append(&record).unwrap();
            log.sync().unwrap();
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    let at = |percent: usize| millis(times[times.len() * percent / 100]) * 1e3;
    println!("sync of {bytes} bytes: p50 {:.0} µs, p99 {:.0} µs, {count} syncs", at(50), at(99));
    assert_eq!(log.durable(), count);
}

/// Opens and replays a log that lies in the page cache.
fn recovery(directory: &Path, mebibytes: u64) {
    let (count, mut log) = ((mebibytes << 20) / RECORD_BYTES as u64, open(directory));
    for n in 0..count {
        log.append(&vec![n as u8; RECORD_BYTES]).unwrap();
        if n % 16 == 15 {
            log.sync().unwrap();
        }
    }
    log.sync().unwrap();
    drop(log);
    let mut best = [Duration::MAX; 2];
    for _ in 0..5 {
        let started = Instant::now();
        let mut log = open(directory);
        let opened = started.elapsed();
        let mut replayed = 0;
        log.replay(0, &mut |_, record| {
            replayed += record.len();
            Ok(())
        })
        .unwrap();
        assert_eq!(replayed as u64, count * RECORD_BYTES as u64);
        let all = started.elapsed();
        if all < best[1] {
            best = [opened, all];
        }
    }
    println!("open {:.0} ms, open and replay {:.0} ms of {mebibytes} MiB", millis(best[0]), millis(best[1]));
}
