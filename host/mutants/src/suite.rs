//! What a mutant must survive: the tests of its own crate, then the simulator in rising doses.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compile::{Compiled, Program};
use crate::process::{Ended, run};

/// One run of one program.
#[derive(Clone, Debug)]
pub struct Stage {
    /// For people.
    pub name: String,
    program: Program,
    arguments: Vec<String>,
    /// Whose mutants it is for; none: everybody's that it contains.
    package: Option<String>,
    /// How long a mutant may take.
    limit: Duration,
}

/// All that mutants are tested with.
#[derive(Debug)]
pub struct Suite {
    /// In the order in which they are run.
    stages: Vec<Stage>,
    /// Crates that the simulator runs.
    simulated: Vec<String>,
    /// Where programs may write.
    work: PathBuf,
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Something noticed it: this.
    Caught(String),
    /// Nothing did.
    Survived {
        /// Whether what was changed was run at all.
        reached: bool,
    },
}

/// Runs of the simulator: transactions and seed. Most mutants do not survive the first.
const DOSES: [(u64, u64); 3] = [(50_000, 11), (200_000, 12), (2_000_000, 13)];
/// A mutant that takes so many times as long as the unchanged program has stopped.
const PATIENCE: u32 = 5;
/// The unchanged program's time.
const LONGEST: Duration = Duration::from_secs(3600);
/// A number that no mutant has: the switches answer that they are there.
const PROBE: u32 = u32::MAX;
const ANSWER: i32 = 77;

/// How much is done for a mutant.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The simulator's largest dose.
    pub transactions: u64,
    /// Tests that are not run.
    pub skipped: &'static [&'static str],
    /// Time that every stage has, however quick the unchanged program is: the machine does other things too.
    pub shortest: Duration,
}

/// How long the unchanged programs take, by what was compiled.
#[derive(Default, Serialize, Deserialize)]
struct Baseline {
    hash: u64,
    stages: Vec<(String, f64)>,
}

impl Suite {
    /// Runs every stage without a mutant, or remembers how long that took.
    ///
    /// # Errors
    /// A stage fails without a mutant; or a program has no switches.
    pub fn measure(compiled: Compiled, simulated: Vec<String>, effort: Effort, work: &Path) -> Result<Self> {
        let memory = work.join("baseline.json");
        let known: Baseline =
            fs::read(&memory).ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
        let mut known =
            if known.hash == compiled.hash { known } else { Baseline { hash: compiled.hash, stages: vec![] } };
        fs::create_dir_all(work.join("runs"))?;
        let mut suite = Suite { stages: stages(compiled, effort), simulated, work: work.to_owned() };
        for at in 0..suite.stages.len() {
            let stage = &suite.stages[at];
            let seconds = match known.stages.iter().find(|(name, _)| *name == stage.name) {
                Some((_, seconds)) => *seconds,
                None => {
                    eprintln!("without a mutant: {}", stage.name);
                    let seconds = suite.unchanged(stage)?;
                    known.stages.push((stage.name.clone(), seconds));
                    fs::write(&memory, serde_json::to_vec(&known)?)?;
                    seconds
                }
            };
            suite.stages[at].limit = effort.shortest.max(Duration::from_secs_f64(seconds) * PATIENCE);
        }
        // Quick ones first; of those as quick, tests before the simulator.
        suite.stages.sort_by_key(|stage| stage.limit);
        Ok(suite)
    }

    /// Tries a mutant of a crate until something notices it.
    pub fn test(&self, package: &str, mutant: u32) -> Result<Fate> {
        let mark = self.work.join(format!("runs/{mutant}.reached"));
        let _ = fs::remove_file(&mark);
        for stage in self.stages.iter().filter(|stage| self.concerns(stage, package)) {
            let ended = self.run(stage, mutant, &mark, stage.limit)?;
            if let Some(how) = noticed(stage, &ended) {
                return Ok(Fate::Caught(how));
            }
        }
        Ok(Fate::Survived { reached: mark.exists() })
    }

    fn concerns(&self, stage: &Stage, package: &str) -> bool {
        match &stage.package {
            Some(own) => own == package,
            None => self.simulated.iter().any(|simulated| simulated == package),
        }
    }

    fn unchanged(&self, stage: &Stage) -> Result<f64> {
        let mark = self.work.join("runs/none.reached");
        let probed = self.run(stage, PROBE, &mark, LONGEST)?;
        if probed.status.and_then(|status| status.code()) != Some(ANSWER) {
            bail!("{} has no switches: {}", stage.name, probed.output);
        }
        let ended = self.run(stage, 0, &mark, LONGEST)?;
        match noticed(stage, &ended) {
            Some(how) => bail!("{} fails without a mutant, by {how}:\n{}", stage.name, ended.output),
            None => Ok(ended.elapsed.as_secs_f64()),
        }
    }

    fn run(&self, stage: &Stage, mutant: u32, mark: &Path, limit: Duration) -> Result<Ended> {
        let environment = [
            ("STYX_MUTANT", mutant.to_string()),
            ("STYX_MUTANT_REACHED", mark.display().to_string()),
            ("CARGO_MANIFEST_DIR", stage.program.directory.display().to_string()),
            // Who panics need not say where: that takes longer than most tests.
            ("RUST_BACKTRACE", "0".to_owned()),
            // Alike every time, and without notes for the next one.
            ("PROPTEST_RNG_SEED", "1".to_owned()),
            ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true".to_owned()),
        ];
        let log = self.work.join(format!("runs/{mutant}.log"));
        Ok(run(&stage.program.path, &stage.arguments, &stage.program.directory, &environment, &log, limit)?)
    }
}

fn stages(compiled: Compiled, effort: Effort) -> Vec<Stage> {
    let skipped = effort.skipped.iter().map(|test| format!("--skip={test}"));
    let tests = compiled.tests.into_iter().map(|program| Stage {
        name: format!("{} {}", program.package, program.name),
        arguments: ["--test-threads=1".to_owned()].into_iter().chain(skipped.clone()).collect(),
        package: Some(program.package.clone()),
        program,
        limit: LONGEST,
    });
    let doses = DOSES.into_iter().filter(|(transactions, _)| *transactions <= effort.transactions);
    let simulations = compiled.simulator.into_iter().flat_map(|program| {
        doses.clone().map(move |(transactions, seed)| Stage {
            name: format!("simulator, {transactions} transactions"),
            program: program.clone(),
            arguments: vec![format!("--seed={seed}"), format!("--transactions={transactions}")],
            package: None,
            limit: LONGEST,
        })
    });
    tests.chain(simulations).collect()
}

/// What noticed that something is wrong, if anything did.
fn noticed(stage: &Stage, ended: &Ended) -> Option<String> {
    let Some(status) = ended.status else { return Some(format!("time limit of {}", stage.name)) };
    if status.success() {
        return None;
    }
    let Some(_) = status.code() else { return Some(format!("{status} of {}", stage.name)) };
    let failures = ended.output.rsplit_once("\nfailures:\n").map(|(_, names)| names.trim_start());
    let failed = failures.and_then(|names| names.lines().next());
    let check = || {
        let summary: Value = ended.output.lines().rev().find_map(|line| serde_json::from_str(line).ok())?;
        Some(format!("simulator: {}", summary["check"].as_str()?))
    };
    Some(
        failed
            .map(|name| format!("test {name}"))
            .or_else(check)
            .unwrap_or_else(|| format!("{status} of {}", stage.name)),
    )
}
