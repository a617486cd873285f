//! Latency, throughput, bytes written and replay time of one candidate.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::candidates::{self, Store};
use crate::record;

/// Head of the Markdown table of which [`run`] prints a row.
pub const HEADER: &str = "\
| candidate | 1 KB p50 µs | p99 µs | 64 KB p50 µs | p99 µs | 1 KB ×16 MB/s | 64 KB ×16 MB/s \
| written per byte, 1 KB | 1 KB ×16 | 64 KB | 64 KB ×16 | 200 MB replay ms |\n\
|---|---|---|---|---|---|---|---|---|---|---|---|";

const GROUP: usize = 16;

/// What a series of syncs cost.
struct Series {
    latencies: Vec<Duration>,
    bytes_per_second: f64,
    written_per_byte: f64,
}

impl Series {
    fn percentile(&self, fraction: f64) -> u128 {
        self.latencies[((self.latencies.len() - 1) as f64 * fraction) as usize].as_micros()
    }
}

/// Measures `name` below `directory` and prints one row.
pub fn run(name: &str, directory: &Path, device: &str) -> Result<()> {
    let small = series(name, directory, device, 1 << 10, 1, 2000)?;
    let large = series(name, directory, device, 64 << 10, 1, 600)?;
    let small_group = series(name, directory, device, 1 << 10, GROUP, 600)?;
    let large_group = series(name, directory, device, 64 << 10, GROUP, 150)?;
    println!(
        "| {name} | {} | {} | {} | {} | {:.1} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {} |",
        small.percentile(0.5),
        small.percentile(0.99),
        large.percentile(0.5),
        large.percentile(0.99),
        small_group.bytes_per_second / 1e6,
        large_group.bytes_per_second / 1e6,
        small.written_per_byte,
        small_group.written_per_byte,
        large.written_per_byte,
        large_group.written_per_byte,
        replay(name, directory)?.as_millis(),
    );
    Ok(())
}

fn series(
    name: &str,
    directory: &Path,
    device: &str,
    length: usize,
    group: usize,
    syncs: usize,
) -> Result<Series> {
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
    let written = bytes_written(device)? - before;
    let payload = (syncs * group * length) as f64;
    latencies.sort();
    Ok(Series {
        latencies,
        bytes_per_second: payload / elapsed.as_secs_f64(),
        written_per_byte: written as f64 / payload,
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
        sum += record
            .iter()
            .step_by(64)
            .map(|byte| u64::from(*byte))
            .sum::<u64>();
    })?;
    std::hint::black_box(sum);
    let elapsed = start.elapsed();
    ensure!(
        count == RECORDS && bytes as u64 == RECORDS * LENGTH as u64,
        "{count} records replayed"
    );
    Ok(elapsed)
}

/// Bytes written so far: by the device, or without one by this process to its files.
fn bytes_written(device: &str) -> Result<u64> {
    if device.is_empty() {
        let io = fs::read_to_string("/proc/self/io")?;
        let line = io
            .lines()
            .find(|line| line.starts_with("write_bytes"))
            .unwrap_or_default();
        return Ok(line.rsplit(' ').next().unwrap_or_default().parse()?);
    }
    let sectors = fs::read_to_string(device)?;
    Ok(sectors
        .split_whitespace()
        .nth(6)
        .unwrap_or_default()
        .parse::<u64>()?
        * 512)
}

fn flush_everything() {
    // SAFETY: sync(2) takes no argument and cannot fail.
    unsafe { libc::sync() }
}
