//! Plants each bug in turn and checks that a run finds it: a simulator that finds nothing has proven nothing until then.

use std::process::ExitCode;

use styx_planted::{Bug, plant};

use crate::check::Failure;
use crate::run::run;

/// A search for one planted bug.
#[derive(Debug)]
pub struct Search {
    /// Planted while the worlds ran.
    pub bug: Bug,
    /// The check that caught it.
    pub caught: Option<Failure>,
    /// Transactions that had ended by then.
    pub transactions: u64,
}

/// Runs worlds until a check fails or so many transactions have ended.
pub fn search(bug: Bug, seed: u64, transactions: u64) -> Search {
    plant(Some(bug));
    let run = run(seed, transactions, |_, _| {});
    plant(None);
    let caught = run.failure.map(|(_, failure)| failure);
    Search { bug, caught, transactions: run.figures.transactions }
}

/// Searches for every bug and prints a table; fails if one is not caught.
pub fn table(seed: u64, transactions: u64) -> ExitCode {
    let searches: Vec<Search> = Bug::ALL.iter().map(|bug| search(*bug, seed, transactions)).collect();
    println!("{:<24} {:<20} {:>12}  promise", "bug", "caught by", "transactions");
    for search in &searches {
        let name = format!("{:?}", search.bug);
        let check = search.caught.as_ref().map_or("- not caught -", |failure| failure.check);
        let promise = search.bug.promise().split(". Planted:").next().unwrap_or_default();
        println!("{name:<24} {check:<20} {:>12} {promise}", search.transactions);
    }
    // What is found without a bug proves nothing of those that were found as late.
    let latest = searches.iter().map(|search| search.transactions).max().unwrap_or_default();
    if let Some((world, failure)) = run(seed, latest, |_, _| {}).failure {
        println!("without a bug, styx-dst --world {world} shows {}: {}", failure.check, failure.message);
        return ExitCode::FAILURE;
    }
    let caught = searches.iter().filter(|search| search.caught.is_some()).count();
    println!(
        "{}",
        serde_json::json!({ "planted": searches.len(), "caught": caught, "seed": seed, "budget": transactions })
    );
    if caught == searches.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
