//! `styx-mutants`: changes lines that decide something, and tells which changes nothing notices.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use styx_mutants::catalog::{Catalog, Mutant};
use styx_mutants::compile::Compiler;
use styx_mutants::copy::Original;
use styx_mutants::equivalent;
use styx_mutants::hunt::hunt;
use styx_mutants::report::{Outcome, Report};
use styx_mutants::suite::{Effort, Suite};
use xxhash_rust::xxh3::xxh3_64_with_seed;

#[derive(Parser)]
#[command(about = "Changes lines that decide something, one at a time, and tells which changes nothing notices")]
struct Options {
    /// So many mutants, by chance
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Which ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Of this crate only: protocol, driver, …
    #[arg(long = "crate", value_name = "C")]
    crates: Vec<String>,
    /// Only with the tests of the crates of these mutants, which are quick to compile
    #[arg(long)]
    own_tests: bool,
    /// This mutant only
    #[arg(long, value_name = "KEY")]
    only: Vec<String>,
    /// Those that survived an earlier run: its target/mutants/report.json
    #[arg(long, value_name = "FILE")]
    survivors_of: Option<PathBuf>,
    /// Print the keys of all mutants
    #[arg(long)]
    list: bool,
    /// Print the keys of those that nothing reaches, and test none
    #[arg(long)]
    unreached: bool,
    /// How many at a time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// The simulator's largest dose
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    transactions: u64,
    /// Without what takes longer than so many seconds, unchanged
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0)]
    longest: f64,
    /// Percents of them that must be noticed
    #[arg(long, value_name = "N", default_value_t = 95)]
    floor: u8,
}

/// Crates whose mutants are tested. Their order gives them their numbers.
const SUBJECTS: [&str; 4] = ["styx-protocol", "styx-driver", "styx-storage", "styx-durability"];
/// Tests that do what the simulator does with its doses, and of its arguments.
const SKIPPED: [&str; 3] = ["simulation::", "histories::", "bad_input::"];
const SIMULATOR: &str = "styx-dst";
/// Tests that run them together.
const TOGETHER: [&str; 2] = ["styx-sim", SIMULATOR];

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let original = Original::read(&root)?;
    let directory = |package: &str| Some((package.to_owned(), original.directory(package)?.to_owned()));
    let packages: Vec<_> = SUBJECTS.into_iter().filter_map(directory).collect();
    let catalog = Catalog::read(&root, &packages)?;
    let explained = equivalent::read(&root.join("host/mutants/equivalent.toml"), &catalog)?;
    let selected = selected(options, &catalog)?;
    if options.list {
        selected.iter().for_each(|mutant| println!("{}", mutant.key));
        return Ok(true);
    }

    let work = root.join("target/mutants");
    fs::create_dir_all(&work)?;
    // Another run would change what this one is running.
    let alone = fs::File::create(work.join("lock"))?;
    if alone.try_lock().is_err() {
        eprintln!("waiting for another run to end");
        alone.lock()?;
    }
    let wanted: BTreeSet<String> = selected.iter().map(|mutant| mutant.package.clone()).collect();
    let simulator = (!options.own_tests).then_some(SIMULATOR);
    let needed = original.needed(wanted.iter().cloned().chain(simulator.map(str::to_owned)))?;
    let is_subject =
        |package: &String| if options.own_tests { wanted.contains(package) } else { needed.contains(package) };
    // Without Kafka and S3: whatever is done with them needs servers.
    let checked = format!("--config={}", root.join("scripts/checked.toml").display());
    // Nobody steps through it, and lines are a third of what is written.
    let lines = "--config=profile.release.debug=false".to_owned();
    // What is planted is no good style.
    let no_lints = "--config=build.rustc-workspace-wrapper=''".to_owned();
    let profile = ["--release".to_owned(), "--no-default-features".to_owned(), checked, lines, no_lints];
    let left_out = root.join("host/mutants/left-out.json");
    let build = root.join("target");
    let mut compiler = Compiler {
        original: &original,
        work: &work,
        build: Some(&build),
        left_out: Some(&left_out),
        subjects: catalog.subjects.iter().filter(|subject| is_subject(&subject.package)).collect(),
        wanted: selected.iter().map(|mutant| mutant.number).collect(),
        mutants: &catalog.mutants,
        packages: needed.clone(),
        simulator,
        also: if options.own_tests { &[] } else { &TOGETHER },
        profile: &profile,
    };
    let mut left_out = compiler.left_out_before();
    let mut population = selected;
    let equivalent = population.iter().filter(|mutant| explained.contains(&mutant.number)).count();
    population.retain(|mutant| !left_out.contains(&mutant.number) && !explained.contains(&mutant.number));
    let of = population.len();
    if let Some(size) = options.sample {
        // By their keys, so that a change of the code exchanges only what it touches of a seed's sample.
        population.sort_by_cached_key(|mutant| xxh3_64_with_seed(mutant.key.as_bytes(), options.seed));
        population.truncate(size);
    }
    compiler.wanted = population.iter().map(|mutant| mutant.number).collect();
    let compiled = compiler.compile()?;
    population.retain(|mutant| !compiled.left_out.contains(&mutant.number));
    left_out.extend(&compiled.left_out);
    let do_not_compile = left_out.len();
    let jobs = options.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let (shortest, longest) = (Duration::from_secs(20), options.longest);
    let effort = Effort { transactions: options.transactions, skipped: &SKIPPED, shortest, longest, jobs };
    let suite = Suite::measure(&compiled, effort, &work)?;
    if options.unreached {
        population.iter().filter(|mutant| !suite.reaches(mutant.number)).for_each(|mutant| println!("{}", mutant.key));
        return Ok(true);
    }
    let report = |outcomes: &[Outcome]| -> Result<Report> {
        let report = Report { seed: options.seed, of, do_not_compile, equivalent, outcomes: outcomes.to_vec() };
        fs::write(work.join("report.json"), serde_json::to_vec_pretty(&report)?)?;
        Ok(report)
    };
    let outcomes = hunt(&suite, &population, jobs, &|outcomes| report(outcomes).map(drop))?;
    let report = report(&outcomes)?;
    print!("{}", report.table());
    println!("{}", report.summary());
    Ok(report.is_good(f64::from(options.floor) / 100.0))
}

/// Mutants that are asked for.
fn selected<'a>(options: &Options, catalog: &'a Catalog) -> Result<Vec<&'a Mutant>> {
    let mut keys = options.only.clone();
    if let Some(file) = &options.survivors_of {
        let json = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let report: Report = serde_json::from_slice(&json)?;
        keys.extend(report.outcomes.into_iter().filter(|outcome| outcome.survived()).map(|outcome| outcome.key));
    }
    if !options.only.is_empty() || options.survivors_of.is_some() {
        let find = |key: &String| catalog.with_key(key).with_context(|| format!("there is no such mutant: {key}"));
        return keys.iter().map(find).collect();
    }
    let packages: Vec<String> = options.crates.iter().map(|name| format!("styx-{name}")).collect();
    if let Some(unknown) = packages.iter().find(|package| !SUBJECTS.contains(&package.as_str())) {
        bail!("{unknown} is none of {}", SUBJECTS.join(", "));
    }
    let wanted = |mutant: &&Mutant| packages.is_empty() || packages.contains(&mutant.package);
    Ok(catalog.mutants.values().filter(wanted).collect())
}
