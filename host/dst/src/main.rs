//! `styx-dst`: runs seeds, tells what breaks, and with which history.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use styx_dst::campaign::{Campaign, simulator};
use styx_dst::check::Failure;
use styx_dst::explain::{Timeline, page};
use styx_dst::minimise::{Changes, changed, minimise};
use styx_dst::run::{Run, go_on, simulate, world_seed};
use styx_dst::world::World;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Simulates Styx under faults, from a seed, and checks all that it promises")]
struct Options {
    /// The seed of the run: 1, if none is given
    #[arg(long)]
    seed: Option<u64>,
    /// How many transactions
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// One world only, by the seed that a failure has named
    #[arg(long)]
    world: Option<u64>,
    /// With --world: the simulator that the failure was seen in, as it was named; to another one the same seed may mean
    /// another world
    #[arg(long, requires = "world", value_name = "SIMULATOR")]
    of: Option<String>,
    /// Tell of every world; with --world, of every event
    #[arg(long)]
    verbose: bool,
    /// With --world: a timeline of what happened, with what is dull folded
    #[arg(long, requires = "world")]
    explain: bool,
    /// With --world: write a page with a lane for each node
    #[arg(long, requires = "world", value_name = "FILE")]
    html: Option<PathBuf>,
    /// With --world: drop faults, requests, nodes and settings as long as the same check fails
    #[arg(long, requires = "world")]
    minimise: bool,
    /// With --world: change a setting of it, as --minimise prints them
    #[arg(long, requires = "world", value_name = "SETTING=NUMBER", value_parser = setting)]
    with: Vec<(String, u64)>,
    /// Keep what has been done in a file, and go on with what is there
    #[arg(long, value_name = "FILE", conflicts_with = "world")]
    campaign: Option<PathBuf>,
    /// Plant each bug and see whether it is caught
    #[cfg(debug_assertions)]
    #[arg(long)]
    mutants: bool,
    /// With --mutants: keep the worlds that took long to find, for the next time
    #[cfg(debug_assertions)]
    #[arg(long, requires = "mutants", conflicts_with = "seed")]
    keep: bool,
    /// Plant this bug
    #[cfg(debug_assertions)]
    #[arg(long)]
    plant: Option<String>,
}

fn setting(text: &str) -> Result<(String, u64), String> {
    let (name, to) = text.split_once('=').ok_or("a setting is NAME=NUMBER")?;
    Ok((name.to_owned(), to.parse().map_err(|_| "a setting is NAME=NUMBER")?))
}

/// Worlds among which one of a run is looked for.
const WORLDS_MAX: u64 = 10_000_000;

/// Lines that are told of a world that has failed among others.
const LINES: usize = 100;

fn main() -> ExitCode {
    let options = Options::parse();
    #[cfg(debug_assertions)]
    {
        if options.mutants {
            return styx_dst::mutants::table(styx_dst::mutants::How {
                seed: options.seed.unwrap_or(1),
                transactions: options.transactions,
                // Who names a seed, or keeps worlds, wants to know what a search finds.
                kept: options.seed.is_none() && !options.keep,
                keep: options.keep,
            });
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
    if let Some(of) = &options.of {
        match simulator() {
            Ok(this) if this == *of => {}
            Ok(this) => {
                return refuse(&format!(
                    "world {seed} is of simulator {of}, and this is {this}: here it is another world"
                ));
            }
            Err(error) => return refuse(&format!("{error:#}")),
        }
    }
    if let Some(run) = options.seed
        && !(0..WORLDS_MAX).any(|at| world_seed(run, at) == seed)
    {
        return refuse(&format!("run {run} has no world {seed} among its first {WORLDS_MAX}"));
    }
    if options.minimise {
        return smallest(seed);
    }
    let mut world = match changed(seed, &options.with, true) {
        Ok(world) => world,
        Err(error) => return refuse(&error),
    };
    let result = simulate(&mut world);
    if options.verbose || options.explain {
        tell(&world, result.as_ref().err(), options.verbose, usize::MAX);
    }
    if let Some(file) = &options.html {
        if let Err(error) = std::fs::write(file, page(seed, &world, result.as_ref().err())) {
            return refuse(&format!("{} cannot be written: {error}", file.display()));
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

/// What was asked for is not there.
fn refuse(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}

/// The smallest world that fails as this one does.
fn smallest(seed: u64) -> ExitCode {
    let written = |changes: &Changes| {
        let changes = changes.iter().map(|(name, to)| format!(" --with {name}={to}"));
        format!("styx-dst --world {seed}{}", changes.collect::<String>())
    };
    let Some((changes, failure)) = minimise(seed, |changes| eprintln!("fails: {}", written(changes))) else {
        println!("world {seed} does not fail");
        return ExitCode::SUCCESS;
    };
    if let Ok(world) = changed(seed, &changes, false) {
        println!("plan: {:?}", world.plan());
    }
    println!("{}: {}", failure.check, failure.message);
    println!("the smallest world that fails so: {} --explain", written(&changes));
    ExitCode::FAILURE
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
    let seed = options.seed.unwrap_or(1);
    let mut campaign = match options.campaign.as_deref().map(|file| Campaign::open(file, seed).map(|open| (file, open)))
    {
        None => None,
        Some(Ok(campaign)) => Some(campaign),
        Some(Err(error)) => return refuse(&format!("{error:#}")),
    };
    let mut run = campaign.as_ref().map_or_else(Run::default, |(_, campaign)| campaign.run.clone());
    let before = campaign.as_ref().map_or(0.0, |(_, campaign)| campaign.seconds);
    if run.worlds > 0 && run.figures.transactions < options.transactions {
        let (transactions, worlds) = (run.figures.transactions, run.worlds);
        eprintln!("interrupted after {transactions} transactions in {worlds} worlds; goes on there");
    }
    let started = Instant::now();
    let bar = ProgressBar::new(options.transactions).with_position(run.figures.transactions);
    let shown = "{wide_bar} {human_pos}/{human_len} transactions, {per_sec}, {msg}, {eta} left";
    bar.set_style(ProgressStyle::with_template(shown).expect("it is a template"));
    bar.reset_eta();
    go_on(&mut run, seed, options.transactions, |world, report, run| {
        if options.verbose {
            eprintln!("world {world}: {:?}", report.figures);
        }
        bar.set_position(run.figures.transactions);
        bar.set_message(format!("{} worlds, {} faults", run.worlds, run.figures.disturbances));
        if let Some((file, campaign)) = &mut campaign
            && let Err(error) = campaign.save(file, run, before + started.elapsed().as_secs_f64(), false)
        {
            bar.println(format!("{error:#}"));
        }
    });
    bar.finish_and_clear();
    let seconds = before + started.elapsed().as_secs_f64();
    if let (Some((file, campaign)), None) = (&mut campaign, &run.failure)
        && let Err(error) = campaign.save(file, &run, seconds, true)
    {
        return refuse(&format!("{error:#}"));
    }
    if let Some((seed, failure)) = &run.failure {
        // The same world once more, with notes.
        let mut world = World::new(*seed, true);
        let failure = simulate(&mut world).err().unwrap_or_else(|| failure.clone());
        world.history(&failure).iter().for_each(|line| println!("{line}"));
        tell(&world, Some(&failure), false, LINES);
        println!("broken: {}: {}", failure.check, failure.message);
        let of = simulator().map_or_else(|_| String::new(), |simulator| format!(" --of {simulator}"));
        println!(
            "seed {}, world {seed}: styx-dst --world {seed}{of} --explain, or --html FILE, shows it again",
            options.seed.unwrap_or(1)
        );
    }
    let summary = serde_json::json!({
        "seed": seed,
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
