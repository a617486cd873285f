//! `styx-dst`: runs seeds, tells what breaks, and with which history.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use styx_dst::check::Failure;
use styx_dst::explain::{Timeline, page};
use styx_dst::run::{run, simulate};
use styx_dst::world::World;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Simulates Styx under faults, from a seed, and checks all that it promises")]
struct Options {
    /// The seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many transactions
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// One world only, by the seed that a failure has named
    #[arg(long)]
    world: Option<u64>,
    /// Tell of every world; with --world, of every event
    #[arg(long)]
    verbose: bool,
    /// With --world: a timeline of what happened, with what is dull folded
    #[arg(long, requires = "world")]
    explain: bool,
    /// With --world: write a page with a lane for each node
    #[arg(long, requires = "world", value_name = "FILE")]
    html: Option<PathBuf>,
    /// Plant each bug and see whether it is caught
    #[cfg(feature = "mutants")]
    #[arg(long)]
    mutants: bool,
    /// Plant this bug
    #[cfg(feature = "mutants")]
    #[arg(long)]
    plant: Option<String>,
}

/// Lines that are told of a world that has failed among others.
const LINES: usize = 100;

fn main() -> ExitCode {
    let options = Options::parse();
    #[cfg(feature = "mutants")]
    {
        if options.mutants {
            return styx_dst::mutants::table(options.seed, options.transactions);
        }
        if let Some(name) = &options.plant {
            match styx_planted::Bug::named(name) {
                Some(bug) => styx_planted::plant(Some(bug)),
                None => {
                    eprintln!("no bug is called {name}; --mutants lists them");
                    return ExitCode::from(2);
                }
            }
        }
    }
    match options.world {
        Some(world) => one(world, &options),
        None => many(&options),
    }
}

/// One world again, with its history.
fn one(seed: u64, options: &Options) -> ExitCode {
    let mut world = World::new(seed, true);
    let result = simulate(&mut world);
    if options.verbose || options.explain {
        tell(&world, result.as_ref().err(), options.verbose, usize::MAX);
    }
    if let Some(file) = &options.html {
        if let Err(error) = std::fs::write(file, page(seed, &world, result.as_ref().err())) {
            eprintln!("{} cannot be written: {error}", file.display());
            return ExitCode::from(2);
        }
        println!("{} shows what happened", file.display());
    }
    match result {
        Ok(report) => {
            println!("{}", serde_json::json!({ "world": seed, "anomalies": 0, "figures": report.figures }));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            world.history(&failure).iter().for_each(|line| println!("{line}"));
            println!("{}: {}", failure.check, failure.message);
            println!("{}", serde_json::json!({ "world": seed, "anomalies": 1, "check": failure.check }));
            ExitCode::FAILURE
        }
    }
}

/// Prints the last lines of what happened.
fn tell(world: &World, failure: Option<&Failure>, whole: bool, last: usize) {
    let moments = world.moments();
    let about = failure.map_or_else(Vec::new, |failure| failure.tids.iter().map(|tid| format!("{tid:?}")).collect());
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let told = Timeline { moments: &moments, whole, coloured, about }.to_string();
    let lines: Vec<&str> = told.lines().collect();
    lines[lines.len().saturating_sub(last)..].iter().for_each(|line| println!("{line}"));
}

fn many(options: &Options) -> ExitCode {
    let started = Instant::now();
    let run = run(options.seed, options.transactions, |world, report| {
        if options.verbose {
            eprintln!("world {world}: {:?}", report.figures);
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    if let Some((seed, failure)) = &run.failure {
        // The same world once more, with notes.
        let mut world = World::new(*seed, true);
        let failure = simulate(&mut world).err().unwrap_or_else(|| failure.clone());
        world.history(&failure).iter().for_each(|line| println!("{line}"));
        tell(&world, Some(&failure), false, LINES);
        println!("broken: {}: {}", failure.check, failure.message);
        println!(
            "seed {}, world {seed}: styx-dst --world {seed} --explain, or --html FILE, shows it again",
            options.seed
        );
    }
    let summary = serde_json::json!({
        "seed": options.seed,
        "transactions": run.figures.transactions,
        "anomalies": u64::from(run.failure.is_some()),
        "check": run.failure.as_ref().map(|(_, failure)| failure.check),
        "worlds": run.worlds,
        "seconds": seconds,
        "transactions_per_second": (run.figures.transactions as f64 / seconds) as u64,
        "trace": format!("{:016x}", run.trace),
        "figures": run.figures,
    });
    println!("{summary}");
    if run.failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
