//! What can notice a mutant: a test, or a run of the simulator; and a run of a program that makes some of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::compile::{Compiled, Program};
use crate::process::{self, Ended};

/// One test function, or one run of the simulator.
#[derive(Clone, Debug)]
pub struct Check {
    pub program: Program,
    pub kind: Kind,
    /// How long it takes without a mutant.
    pub seconds: f64,
    /// Mutants that it reaches. The others it cannot notice.
    pub reached: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The test of this name.
    Test(String),
    /// The simulator with so many transactions, from a seed.
    Dose(u64, u64),
}

/// Runs of the simulator: transactions and seed. Most mutants do not survive the first.
const DOSES: [(u64, u64); 3] = [(50_000, 11), (200_000, 12), (2_000_000, 13)];

impl Check {
    fn new(program: &Program, kind: Kind) -> Self {
        Check { program: program.clone(), kind, seconds: 0.0, reached: BTreeSet::new() }
    }

    /// For people, and to be remembered by.
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Test(name) => format!("{} {} {name}", self.program.package, self.program.name),
            Kind::Dose(transactions, _) => format!("simulator, {transactions} transactions"),
        }
    }

    /// The test's name in its program.
    pub fn test(&self) -> Option<&str> {
        match &self.kind {
            Kind::Test(name) => Some(name),
            Kind::Dose(..) => None,
        }
    }
}

/// All checks: tests but those whose names are `skipped`, and doses of up to so many transactions.
///
/// # Errors
/// A program does not name its tests.
pub fn checks(compiled: &Compiled, transactions: u64, skipped: &[&str], runner: &Runner) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for program in &compiled.tests {
        let listed = runner.start(program, &["--list".to_owned(), "--format=terse".to_owned()], NONE, LONGEST)?;
        let names = listed.output.lines().filter_map(|line| line.strip_suffix(": test"));
        let names = names.filter(|name| !skipped.iter().any(|skipped| name.contains(skipped)));
        checks.extend(names.map(|name| Check::new(program, Kind::Test(name.to_owned()))));
    }
    if let Some(program) = &compiled.simulator {
        let doses = DOSES.into_iter().filter(|(dose, _)| *dose <= transactions);
        checks.extend(doses.map(|(dose, seed)| Check::new(program, Kind::Dose(dose, seed))));
    }
    Ok(checks)
}

/// Runs programs with mutants.
#[derive(Debug)]
pub struct Runner {
    /// Where they may write.
    directory: PathBuf,
    /// Tells runs apart.
    next: AtomicUsize,
}

/// A number that no mutant has: the switches answer that they are there.
const PROBE: u32 = u32::MAX;
const ANSWER: i32 = 77;
/// Another one: with it, a program is unchanged, and notes which mutants it reaches.
const NOTE: u32 = u32::MAX - 1;
/// And this one: none is on.
const NONE: u32 = 0;
/// The unchanged program's time.
const LONGEST: Duration = Duration::from_secs(3600);

impl Runner {
    /// Runs whatever writes into this directory.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(directory: PathBuf) -> Result<Self> {
        fs::create_dir_all(&directory)?;
        Ok(Runner { directory, next: AtomicUsize::new(0) })
    }

    /// Makes some checks of one program, which are all tests or a single dose, with a mutant switched on.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self, checks: &[&Check], mutant: u32, limit: Duration) -> Result<Ended> {
        self.start(&checks[0].program, &arguments(checks), mutant, limit)
    }

    /// Makes a check without a mutant. How it ended, and which mutants it has reached.
    ///
    /// # Errors
    /// It cannot be started, or has noted nothing.
    pub fn note(&self, check: &Check) -> Result<(Ended, BTreeSet<u32>)> {
        let notes = self.file("reached");
        let ended = self.start_with(&check.program, &arguments(&[check]), NOTE, LONGEST, Some(&notes))?;
        let bytes =
            fs::read(&notes).with_context(|| format!("{} has noted nothing: {}", check.name(), ended.output))?;
        fs::remove_file(notes)?;
        let (numbers, _) = bytes.as_chunks();
        Ok((ended, numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()))
    }

    /// Whether there are switches in a program.
    ///
    /// # Errors
    /// There are none.
    pub fn probe(&self, program: &Program) -> Result<()> {
        let probed = self.start(program, &[], PROBE, LONGEST)?;
        if probed.status.and_then(|status| status.code()) != Some(ANSWER) {
            bail!("{} {} has no switches: {}", program.package, program.name, probed.output);
        }
        Ok(())
    }

    fn start(&self, program: &Program, arguments: &[String], mutant: u32, limit: Duration) -> Result<Ended> {
        self.start_with(program, arguments, mutant, limit, None)
    }

    fn start_with(
        &self,
        program: &Program,
        arguments: &[String],
        mutant: u32,
        limit: Duration,
        notes: Option<&Path>,
    ) -> Result<Ended> {
        let mut environment = vec![
            ("STYX_MUTANT", mutant.to_string()),
            ("CARGO_MANIFEST_DIR", program.directory.display().to_string()),
            // Who panics need not say where: that takes longer than most tests.
            ("RUST_BACKTRACE", "0".to_owned()),
            // Alike every time, and without notes for the next one.
            ("PROPTEST_RNG_SEED", "1".to_owned()),
            ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true".to_owned()),
            // The first of them notice nearly what all do, and took most of the time.
            ("STYX_CASES", "3000".to_owned()),
            ("STYX_WORLDS", "200".to_owned()),
        ];
        environment.extend(notes.map(|file| ("STYX_MUTANTS_REACHED", file.display().to_string())));
        let log = self.file(&format!("{mutant}.log"));
        let ended = process::run(&program.path, arguments, &program.directory, &environment, &log, limit)?;
        fs::remove_file(log)?;
        Ok(ended)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{}-{name}", self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Arguments of a program that make these checks and no other ones.
fn arguments(checks: &[&Check]) -> Vec<String> {
    match &checks[0].kind {
        Kind::Dose(transactions, seed) => vec![format!("--seed={seed}"), format!("--transactions={transactions}")],
        Kind::Test(_) => {
            let names = checks.iter().filter_map(|check| check.test().map(str::to_owned));
            names.chain(["--exact".to_owned(), "--test-threads=1".to_owned()]).collect()
        }
    }
}
