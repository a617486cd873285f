//! Plants each bug in turn and checks that a run finds it: a simulator that finds nothing has proven nothing until then.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread::{available_parallelism, scope};

use indicatif::{ProgressBar, ProgressStyle};
use styx_planted::{Bug, plant};

use crate::check::Failure;
use crate::run::{alone, run, simulate};
use crate::world::World;

/// A search for one planted bug.
#[derive(Debug)]
pub struct Search {
    /// Planted while the worlds ran.
    pub bug: Bug,
    /// The world that showed it, and the check that caught it.
    pub caught: Option<(u64, Failure)>,
    /// What the same world shows without it: nothing, or the bug is not what was caught.
    pub without: Option<Failure>,
    /// Transactions that had ended by then.
    pub transactions: u64,
    /// Whether the world that was kept for it shows it no more.
    pub forgotten: bool,
}

/// Worlds that show a bug which takes long to find: the worlds before them, which do not, need not be simulated each time.
const KEPT: &str = include_str!("../planted.txt");
/// Where they are kept, and from how many transactions on.
const KEPT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/planted.txt");
const KEPT_FROM: u64 = 10_000;

/// How bugs are searched for.
#[derive(Clone, Copy, Debug)]
pub struct How {
    pub seed: u64,
    /// The most that may have ended before a bug is found.
    pub transactions: u64,
    /// Simulate the worlds that are kept first.
    pub kept: bool,
    /// Keep those that are found.
    pub keep: bool,
}

/// The worlds that are kept, by the names of their bugs.
fn kept() -> BTreeMap<&'static str, u64> {
    let world = |line: &'static str| {
        let (bug, world) = line.split_once(' ')?;
        Some((bug, world.parse().ok()?))
    };
    KEPT.lines().filter_map(world).collect()
}

/// Runs worlds until a check fails or so many transactions have ended; first of all the one that is kept. The bug is this
/// thread's.
pub fn search(bug: Bug, how: How) -> Search {
    let known = kept().get(&*format!("{bug:?}")).copied().filter(|_| how.kept);
    plant(Some(bug));
    let shown = known.map(alone).filter(|run| run.failure.is_some());
    let forgotten = known.is_some() && shown.is_none();
    let run = shown.unwrap_or_else(|| run(how.seed, how.transactions, |_, _| {}));
    plant(None);
    let without = run.failure.as_ref().and_then(|(world, _)| simulate(&mut World::new(*world, false)).err());
    Search { bug, caught: run.failure, without, transactions: run.figures.transactions, forgotten }
}

/// Searches for every bug, on all processors, and prints a table; fails if one is not caught.
pub fn table(how: How) -> ExitCode {
    let style = ProgressStyle::with_template("{bar:40.cyan} {pos}/{len} bugs  {elapsed} of {eta}").expect("a template");
    let progress = ProgressBar::new(Bug::ALL.len() as u64).with_style(style);
    // The last are those that take longest.
    let (waiting, done) = (Mutex::new(Bug::ALL.iter().rev()), Mutex::new(Vec::new()));
    let next = || waiting.lock().expect("nobody panics under it").next();
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(bug) = next() {
                    let search = search(*bug, how);
                    done.lock().expect("nobody panics under it").push(search);
                    progress.inc(1);
                }
            });
        }
    });
    progress.finish_and_clear();
    let mut searches: Vec<Search> = done.into_inner().expect("nobody panics under it");
    searches.sort_by_key(|search| Bug::ALL.iter().position(|bug| *bug == search.bug));
    println!("{:<24} {:<20} {:>12}  promise", "bug", "caught by", "transactions");
    for search in &searches {
        let name = format!("{:?}", search.bug);
        let check = search.caught.as_ref().map_or("- not caught -", |(_, failure)| failure.check);
        let promise = search.bug.promise().split(". Planted:").next().unwrap_or_default();
        println!("{name:<24} {check:<20} {:>12} {promise}", search.transactions);
    }
    let mut caught = 0;
    for search in &searches {
        match (&search.caught, &search.without) {
            (Some((world, _)), Some(failure)) => {
                println!("without a bug, styx-dst --world {world} shows {}: {}", failure.check, failure.message);
            }
            (Some(_), None) => caught += 1,
            (None, _) => {}
        }
    }
    let forgotten: Vec<String> =
        searches.iter().filter(|search| search.forgotten).map(|search| format!("{:?}", search.bug)).collect();
    if !forgotten.is_empty() {
        println!("worlds that are kept show no more: {}; `just mutants --keep` keeps others", forgotten.join(", "));
    }
    println!(
        "{}",
        serde_json::json!({ "planted": searches.len(), "caught": caught, "seed": how.seed, "budget": how.transactions })
    );
    if how.keep
        && let Err(error) = keep(&searches, Path::new(KEPT_IN))
    {
        eprintln!("{KEPT_IN} cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    if caught == searches.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Keeps the worlds that took long to find.
fn keep(searches: &[Search], file: &Path) -> std::io::Result<()> {
    let mut text = String::new();
    for search in searches.iter().filter(|search| search.transactions >= KEPT_FROM) {
        if let Some((world, _)) = &search.caught {
            let _ = writeln!(text, "{:?} {world}", search.bug);
        }
    }
    std::fs::write(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_are_kept_for_bugs_that_can_be_planted() {
        let kept = kept();
        assert_eq!(kept.len(), KEPT.lines().count(), "a bug's name and its world, each once");
        for bug in kept.keys() {
            assert!(Bug::named(bug).is_some(), "{bug} is no planted bug");
        }
    }
}
