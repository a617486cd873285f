//! Plants each bug in turn and checks that a run finds it: a simulator that finds nothing has proven nothing until then.

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread::{available_parallelism, scope};

use indicatif::{ProgressBar, ProgressStyle};
use styx_planted::{Bug, plant};

use crate::check::Failure;
use crate::run::{run, simulate};
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
}

/// Runs worlds until a check fails or so many transactions have ended. The bug is this thread's.
pub fn search(bug: Bug, seed: u64, transactions: u64) -> Search {
    plant(Some(bug));
    let run = run(seed, transactions, |_, _| {});
    plant(None);
    let without = run.failure.as_ref().and_then(|(world, _)| simulate(&mut World::new(*world, false)).err());
    Search { bug, caught: run.failure, without, transactions: run.figures.transactions }
}

/// Searches for every bug, on all processors, and prints a table; fails if one is not caught.
pub fn table(seed: u64, transactions: u64) -> ExitCode {
    let style = ProgressStyle::with_template("{bar:40.cyan} {pos}/{len} bugs  {elapsed} of {eta}").expect("a template");
    let progress = ProgressBar::new(Bug::ALL.len() as u64).with_style(style);
    // The last are those that take longest.
    let (waiting, done) = (Mutex::new(Bug::ALL.iter().rev()), Mutex::new(Vec::new()));
    let next = || waiting.lock().expect("nobody panics under it").next();
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(bug) = next() {
                    let search = search(*bug, seed, transactions);
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
    println!(
        "{}",
        serde_json::json!({ "planted": searches.len(), "caught": caught, "seed": seed, "budget": transactions })
    );
    if caught == searches.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
