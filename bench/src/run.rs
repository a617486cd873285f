//! `styx-bench run`: one measurement, from the command line.

use std::path::PathBuf;

use anyhow::ensure;

use crate::plan::Plan;
use crate::result::{Outcome, Series};
use crate::workload::Choice;

/// How a measurement is made.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    plan: Plan,
    /// Where the result is kept
    #[arg(long, default_value = "target/results", global = true)]
    results: PathBuf,
    /// For the report: the comparison that this belongs to, and where it stands in it, as name=place
    #[arg(long, global = true, value_parser = series)]
    series: Option<Series>,
    #[command(subcommand)]
    workload: Choice,
}

fn series(text: &str) -> Result<Series, String> {
    let (name, at) = text.split_once('=').ok_or("it is name=place, such as zipf=0.99")?;
    Ok(Series { name: name.to_owned(), at: at.to_owned() })
}

/// Measures, keeps the result, and prints its figures as one JSON line.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let outcome = options.plan.measure(&options.workload, options.series.clone())?;
    let file = outcome.write(&options.results)?;
    eprintln!("  {}", file.display());
    println!("{}", outcome.summary());
    holds(&outcome)
}

/// An error if something does not hold that must.
pub fn holds(outcome: &Outcome) -> anyhow::Result<()> {
    let broken = outcome.checks.iter().filter_map(|check| Some((&check.name, check.error.as_ref()?)));
    let broken: Vec<String> = broken.map(|(name, error)| format!("{name}: {error}")).collect();
    ensure!(broken.is_empty(), "NOT_CONSISTENT: {}", broken.join("; "));
    let surprises: u64 = outcome.runs.iter().map(|run| run.counts.unexpected).sum();
    let examples = outcome.runs.iter().flat_map(|run| &run.examples).next().map_or("", String::as_str);
    ensure!(surprises == 0, "UNEXPECTED: {surprises} calls failed though the workload does not say so: {examples}");
    Ok(())
}
