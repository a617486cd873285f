//! Chaos, load generator and benchmarks: users of the public API, like everybody else.

mod attack;
mod budget;
mod chaos;
mod compare;
mod guest;
mod hot;
mod load;
mod machine;
mod plan;
mod progress;
mod report;
mod result;
mod run;
mod soak;
mod suite;
mod system;
mod workload;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: styx_server::allocator::Allocator = styx_server::allocator::Allocator;

#[derive(Debug, Parser)]
#[command(name = "styx-bench", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Clients that misbehave in every way at once: memory is bounded, and a neighbour does not wait
    Attack(attack::Options),
    /// Real processes under load, killed and paused by a seed; every promise checked
    Chaos(chaos::Options),
    /// Real processes under a steady load for minutes or hours: nothing that they hold may grow
    Soak(soak::Options),
    /// Measures a workload: the peak, and latency below it
    Run(run::Options),
    /// Every workload's Rust app and Python app beside each other: the same calls, the same replies
    Languages(workload::languages::Options),
    /// Measures systems in turn, and how they stand to each other
    Compare(compare::Options),
    /// Measures everything that the report shows
    All(suite::Options),
    /// Writes a page with charts of all results
    Report(report::Options),
    #[command(hide = true)]
    TwoPhaseMember(system::Member),
    /// Counts the instructions of the hot path, and compares them with what they may be
    Budget(budget::Options),
    #[command(hide = true)]
    Hot(hot::Options),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.verb {
        Verb::Attack(options) => attack::run(&options),
        Verb::Chaos(options) => chaos::run(&options),
        Verb::Soak(options) => soak::run(&options),
        Verb::Run(options) => run::run(&options),
        Verb::Languages(options) => workload::languages::run(&options),
        Verb::Compare(options) => compare::run(&options),
        Verb::All(options) => suite::run(&options),
        Verb::Report(options) => report::run(&options),
        Verb::TwoPhaseMember(member) => system::run_member(&member),
        Verb::Budget(options) => budget::run(&options),
        Verb::Hot(options) => hot::run(&options),
    }
}
