//! Latency, throughput, bytes written and replay time of one candidate.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::candidates::{self, Store};
use crate::record;

/// Head of the Markdown table of which [`run`] prints a row.
pub const HEADER: &str = "\
| candidate | 1 KB p50 µs | p99 µs | 64 KB p50 µs | p99 µs | 1 KB ×16 MB/s | 64 KB ×16 MB/s \
| written per byte, 1 KB | 1 KB ×16 | 64 KB | 64 KB ×16 | 200 MB replay ms |\n\
|---|---|---|---|---|---|---|---|---|---|---|---|";

const GROUP: usize = 16;

/// Each series runs this often. The fastest counts, as the one that the
/// machine's other work disturbed least.
const ROUNDS: usize = 7;

/// What a series of syncs cost.
struct Series {
    latencies: Vec<Duration>,
    bytes_per_second: f64,
    written_per_byte: Option<f64>,
}

impl Series {
    fn percentile(&self, fraction: f64) -> u128 {
        self.latencies[((self.latencies.len() - 1) as f64 * fraction) as usize].as_micros()
    }
}

/// Measures `name` below `directory` and prints one row.
pub fn run(name: &str, directory: &Path, device: &str) -> Result<()> {
    let best = |length, group, syncs| {
        let rounds = (0..ROUNDS).map(|_| series(name, directory, device, length, group, syncs));
        let rounds = rounds.collect::<Result<Vec<_>>>()?;
        rounds.into_iter().min_by_key(|series| series.percentile(0.5)).context("at least one round")
    };
    let small = best(1 << 10, 1, 1000)?;
    let large = best(64 << 10, 1, 400)?;
    let small_group = best(1 << 10, GROUP, 300)?;
    let large_group = best(64 << 10, GROUP, 100)?;
    let replays = (0..ROUNDS.div_ceil(2)).map(|_| replay(name, directory));
    let replay = replays.collect::<Result<Vec<_>>>()?.into_iter().min();
    let replay = replay.context("at least one round")?;
    print!("| {name} ");
    for single in [&small, &large] {
        let (p50, p99) = (single.percentile(0.5), single.percentile(0.99));
        print!("| {p50} | {p99} ");
    }
    for group in [&small_group, &large_group] {
        print!("| {:.0} ", group.bytes_per_second / 1e6);
    }
    for series in [&small, &small_group, &large, &large_group] {
        match series.written_per_byte {
            Some(written) => print!("| {written:.2} "),
            None => print!("| – "),
        }
    }
    println!("| {} |", replay.as_millis());
    Ok(())
}

fn series(name: &str, directory: &Path, device: &str, length: usize, group: usize, syncs: usize) -> Result<Series> {
    let directory = tempfile::tempdir_in(directory)?;
    let mut store = candidates::open(name, directory.path())?;
    let mut buffer = Vec::new();
    // The first syncs create and preallocate files; the product does that once.
    for n in 0..20 * group {
        record(n as u64, length, &mut buffer);
        store.append(&buffer)?;
        if (n + 1) % group == 0 {
            store.sync()?;
        }
    }
    let mut latencies = Vec::with_capacity(syncs);
    let before = bytes_written(device)?;
    let start = Instant::now();
    for sync in 0..syncs {
        let start = Instant::now();
        for n in 0..group {
            record((sync * group + n) as u64, length, &mut buffer);
            store.append(&buffer)?;
        }
        store.sync()?;
        latencies.push(start.elapsed());
    }
    let elapsed = start.elapsed();
    // Closed first: what a candidate writes in the background or on closing counts too.
    drop(store);
    flush_everything();
    let written = bytes_written(device)?.zip(before).map(|(after, before)| after - before);
    let payload = (syncs * group * length) as f64;
    latencies.sort();
    Ok(Series {
        latencies,
        bytes_per_second: payload / elapsed.as_secs_f64(),
        written_per_byte: written.map(|written| written as f64 / payload),
    })
}

/// Writes 200 MB of 16 KB records, and times opening and reading them from the page cache.
fn replay(name: &str, directory: &Path) -> Result<Duration> {
    const LENGTH: usize = 16 << 10;
    const RECORDS: u64 = (200 << 20) / LENGTH as u64;
    let directory = tempfile::tempdir_in(directory)?;
    let mut buffer = Vec::new();
    let mut store = candidates::open(name, directory.path())?;
    for n in 0..RECORDS {
        record(n, LENGTH, &mut buffer);
        store.append(&buffer)?;
        if n % 64 == 63 {
            store.sync()?;
        }
    }
    drop(store);
    let start = Instant::now();
    let mut store: Box<dyn Store> = candidates::open(name, directory.path())?;
    let (mut count, mut bytes, mut sum) = (0, 0, 0_u64);
    store.replay(&mut |record| {
        count += 1;
        bytes += record.len();
        // Touches every page, as a reader would: a memory map is otherwise not read at all.
        sum += record.iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
    })?;
    std::hint::black_box(sum);
    let elapsed = start.elapsed();
    ensure!(count == RECORDS && bytes as u64 == RECORDS * LENGTH as u64, "{count} records replayed");
    Ok(elapsed)
}

/// Bytes written to the device so far, if one is named. The kernel's count per
/// process will not do: it counts whole folios of the page cache, however
/// little of one was changed, and no journal.
fn bytes_written(device: &str) -> Result<Option<u64>> {
    if device.is_empty() {
        return Ok(None);
    }
    let statistics = fs::read_to_string(device)?;
    let sectors = statistics.split_whitespace().nth(6).context("no block device statistics")?;
    Ok(Some(sectors.parse::<u64>()? * 512))
}

fn flush_everything() {
    // SAFETY: sync(2) takes no argument and cannot fail.
    unsafe { libc::sync() }
}
