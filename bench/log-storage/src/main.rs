//! Compares crates that could store the embedded log.
//!
//! `log-storage-comparison DIR [--device STAT]` measures every candidate in a
//! process of its own below DIR and prints the tables of
//! docs/decisions/0001-log-storage.md. STAT is the `stat` file of the block
//! device under DIR, such as /sys/block/loop0/stat: with a file system of its
//! own on a loop device, its counter shows what reached the device, journal
//! and all, and nothing that others wrote.

mod candidates;
mod corruption;
mod measure;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--measure", name, directory, device] => measure::run(name, directory.as_ref(), device),
        ["--corrupt", name, directory] => corruption::run(name, directory.as_ref()),
        ["--probe", name, directory] => corruption::probe(name, directory.as_ref()),
        [directory] => all(directory.into(), ""),
        [directory, "--device", device] => all(directory.into(), device),
        _ => anyhow::bail!("usage: log-storage-comparison DIR [--device /sys/block/NAME/stat]"),
    }
}

/// Runs every candidate in a process of its own, so that none inherits the
/// caches, threads or crashes of another.
fn all(directory: PathBuf, device: &str) -> Result<()> {
    let this = std::env::current_exe()?;
    println!("{}", measure::HEADER);
    for name in candidates::NAMES {
        let status = Command::new(&this).args(["--measure", name]).arg(&directory).arg(device).status()?;
        ensure!(status.success(), "{name} failed: {status}");
    }
    println!("\n{}", corruption::HEADER);
    for name in candidates::NAMES {
        let status = Command::new(&this).args(["--corrupt", name]).arg(&directory).status().context("corrupt")?;
        ensure!(status.success(), "{name} failed: {status}");
    }
    Ok(())
}

/// The record with the sequence number `n`: incompressible, and other for every `n`.
fn record(n: u64, length: usize, into: &mut Vec<u8>) {
    into.clear();
    let mut state = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    while into.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        into.extend_from_slice(&state.to_le_bytes());
    }
    into.truncate(length);
}
