//! What is known of checks without a mutant: how long each takes, and what it reaches. It is remembered as long as its
//! program is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::check::{Check, Kind, Runner};

/// Of checks, by name.
type Baseline = BTreeMap<String, Unchanged>;

#[derive(Clone, Serialize, Deserialize)]
struct Unchanged {
    /// Hash of the program.
    hash: u64,
    seconds: f64,
    reached: BTreeSet<u32>,
}

/// Of a larger dose is assumed what the largest of these showed: that it takes longer, and reaches the same. Noting what two
/// million transactions reach takes longer than most hunts.
const NOTED_MAX: u64 = 200_000;

/// Makes all checks without a mutant, `jobs` at a time, unless it is known what comes of them.
///
/// # Errors
/// A check fails without a mutant; or a program has no switches.
pub fn measure(checks: &mut [Check], runner: &Runner, work: &Path, jobs: usize) -> Result<()> {
    let memory = work.join("baseline.json");
    let mut known: Baseline =
        fs::read(&memory).ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
    let mut hashes = BTreeMap::new();
    for check in &*checks {
        if !hashes.contains_key(&check.program.path) {
            runner.probe(&check.program)?;
            hashes.insert(check.program.path.clone(), xxh3_64(&fs::read(&check.program.path)?));
        }
    }
    let is_noted = |check: &Check| !matches!(check.kind, Kind::Dose(transactions, _) if transactions > NOTED_MAX);
    let hash = |check: &Check| hashes[&check.program.path];
    let is_known =
        |known: &Baseline, check: &Check| known.get(&check.name()).is_some_and(|known| known.hash == hash(check));
    // What takes longest begins first, or somebody waits for it alone.
    let unknown: Vec<&Check> =
        checks.iter().rev().filter(|check| is_noted(check) && !is_known(&known, check)).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let note = || -> Result<()> {
        while let Some(check) = unknown.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (ended, reached) = runner.note(check)?;
            if let Some(how) = ended.noticed() {
                bail!("{} fails without a mutant, by {how}:\n{}", check.name(), ended.output);
            }
            let seconds = ended.elapsed.as_secs_f64();
            if seconds > TOLD {
                eprintln!("without a mutant: {}, {seconds:.1} s", check.name());
            }
            let unchanged = Unchanged { hash: hash(check), seconds, reached };
            found.lock().expect("nobody panics while it is held").push((check.name(), unchanged));
        }
        Ok(())
    };
    let result = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(note)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    });
    known.extend(found.into_inner().expect("nobody panicked while it was held"));
    fs::write(&memory, serde_json::to_vec(&known)?)?;
    result?;

    let mut noted: Option<(u64, Unchanged)> = None;
    for check in checks {
        let unchanged = match (&check.kind, &noted) {
            (Kind::Dose(dose, _), Some((smaller, unchanged))) if *dose > NOTED_MAX => {
                let seconds = unchanged.seconds * dose.div_ceil(*smaller) as f64;
                Unchanged { seconds, ..unchanged.clone() }
            }
            _ => known[&check.name()].clone(),
        };
        (check.seconds, check.reached) = (unchanged.seconds, unchanged.reached.clone());
        if let Kind::Dose(dose, _) = check.kind {
            noted = Some((dose, unchanged));
        }
    }
    Ok(())
}

/// What takes longer is told of, in seconds.
const TOLD: f64 = 5.0;
