//! Plants each bug in turn and sees whether a run finds it: the proof that silence means something.

use std::process::ExitCode;

use styx_protocol::mutants::{Bug, plant};

use crate::check::Failure;
use crate::run::run;

/// What became of a planted bug.
#[derive(Debug)]
pub struct Hunt {
    /// The bug.
    pub bug: Bug,
    /// The check that caught it.
    pub caught: Option<Failure>,
    /// Transactions that had ended by then.
    pub transactions: u64,
}

/// Looks for a bug until so many transactions have ended.
pub fn hunt(bug: Bug, seed: u64, transactions: u64) -> Hunt {
    plant(Some(bug));
    let run = run(seed, transactions, |_, _| {});
    plant(None);
    let caught = run.failure.map(|(_, failure)| failure);
    Hunt { bug, caught, transactions: run.figures.transactions }
}

/// Looks for every bug and prints what came of it; fails if one gets away.
pub fn table(seed: u64, transactions: u64) -> ExitCode {
    let hunts: Vec<Hunt> = Bug::ALL.iter().map(|bug| hunt(*bug, seed, transactions)).collect();
    println!("{:<24} {:<20} {:>12}  how", "bug", "caught by", "transactions");
    for hunt in &hunts {
        let name = format!("{:?}", hunt.bug);
        let (check, how) = match &hunt.caught {
            Some(failure) => (failure.check, failure.message.lines().last().unwrap_or_default()),
            None => ("- not caught -", ""),
        };
        let how: String = how.chars().take(90).collect();
        println!("{name:<24} {check:<20} {:>12}  {how}", hunt.transactions);
    }
    let caught = hunts.iter().filter(|hunt| hunt.caught.is_some()).count();
    println!(
        "{}",
        serde_json::json!({ "planted": hunts.len(), "caught": caught, "seed": seed, "budget": transactions })
    );
    if caught == hunts.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
