//! What a mutant must survive: the tests, then the simulator in rising doses; of both, what runs the changed place at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::compile::{Compiled, Program};
use crate::process::{Ended, run};

/// One run of one program.
#[derive(Clone, Debug)]
pub struct Stage {
    /// For people.
    pub name: String,
    program: Program,
    arguments: Vec<String>,
    /// Mutants that it reaches. The others it cannot notice.
    reached: BTreeSet<u32>,
    /// How long a mutant may take.
    limit: Duration,
    /// Transactions, if it is a run of the simulator.
    dose: Option<u64>,
}

/// All that mutants are tested with.
#[derive(Debug)]
pub struct Suite {
    /// In the order in which they are run.
    stages: Vec<Stage>,
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
/// Of a larger dose is assumed what a smaller one showed: that it takes longer, and reaches the same. Noting what two million
/// transactions reach takes longer than most hunts.
const NOTED_MAX: u64 = 200_000;
/// A mutant that takes so many times as long as the unchanged program has stopped.
const PATIENCE: u32 = 5;
/// The unchanged program's time.
const LONGEST: Duration = Duration::from_secs(3600);
/// A number that no mutant has: the switches answer that they are there.
const PROBE: u32 = u32::MAX;
const ANSWER: i32 = 77;
/// Another one: with it, a program is unchanged, and notes which mutants it reaches.
const NOTE: u32 = u32::MAX - 1;

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

/// How long unchanged programs take and what they reach, by stage.
type Baseline = BTreeMap<String, Unchanged>;

#[derive(Clone, Serialize, Deserialize)]
struct Unchanged {
    /// Hash of the program.
    hash: u64,
    seconds: f64,
    reached: BTreeSet<u32>,
}

impl Suite {
    /// Runs every stage without a mutant, or remembers how long that took.
    ///
    /// # Errors
    /// A stage fails without a mutant; or a program has no switches.
    pub fn measure(compiled: Compiled, effort: Effort, work: &Path) -> Result<Self> {
        let memory = work.join("baseline.json");
        let mut known: Baseline =
            fs::read(&memory).ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
        fs::create_dir_all(work.join("runs"))?;
        let mut suite = Suite { stages: stages(compiled, effort), work: work.to_owned() };
        let mut noted = None;
        for at in 0..suite.stages.len() {
            let stage = &suite.stages[at];
            if let (Some(dose), Some((smaller, Unchanged { seconds, reached, .. }))) = (stage.dose, &noted)
                && dose > NOTED_MAX
            {
                let times = dose.div_ceil(*smaller);
                let seconds = seconds * times as f64;
                suite.stages[at].limit = effort.shortest.max(Duration::from_secs_f64(seconds) * PATIENCE);
                suite.stages[at].reached = reached.clone();
                continue;
            }
            let hash = xxh3_64(&fs::read(&stage.program.path)?);
            let unchanged = match known.get(&stage.name).filter(|known| known.hash == hash) {
                Some(unchanged) => unchanged.clone(),
                None => {
                    let unchanged = suite.unchanged(stage, hash)?;
                    eprintln!("without a mutant: {}, {:.1} s", stage.name, unchanged.seconds);
                    known.insert(stage.name.clone(), unchanged.clone());
                    fs::write(&memory, serde_json::to_vec(&known)?)?;
                    unchanged
                }
            };
            noted = stage.dose.map(|dose| (dose, unchanged.clone()));
            suite.stages[at].limit = effort.shortest.max(Duration::from_secs_f64(unchanged.seconds) * PATIENCE);
            suite.stages[at].reached = unchanged.reached;
        }
        // Quick ones first; of those as quick, tests before the simulator.
        suite.stages.sort_by_key(|stage| stage.limit);
        Ok(suite)
    }

    /// Tries a mutant until something notices it.
    pub fn test(&self, mutant: u32) -> Result<Fate> {
        for stage in self.stages.iter().filter(|stage| stage.reached.contains(&mutant)) {
            let ended = self.run(stage, mutant, stage.limit)?;
            if let Some(how) = noticed(stage, &ended) {
                return Ok(Fate::Caught(how));
            }
        }
        Ok(Fate::Survived { reached: self.reaches(mutant) })
    }

    /// Whether anything runs what it changes.
    pub fn reaches(&self, mutant: u32) -> bool {
        self.stages.iter().any(|stage| stage.reached.contains(&mutant))
    }

    fn unchanged(&self, stage: &Stage, hash: u64) -> Result<Unchanged> {
        let probed = self.run(stage, PROBE, LONGEST)?;
        if probed.status.and_then(|status| status.code()) != Some(ANSWER) {
            bail!("{} has no switches: {}", stage.name, probed.output);
        }
        let _ = fs::remove_file(self.notes());
        let ended = self.run(stage, NOTE, LONGEST)?;
        if let Some(how) = noticed(stage, &ended) {
            bail!("{} fails without a mutant, by {how}:\n{}", stage.name, ended.output);
        }
        let notes = fs::read(self.notes()).with_context(|| format!("{} has noted nothing", stage.name))?;
        let (numbers, _) = notes.as_chunks();
        let reached = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        Ok(Unchanged { hash, seconds: ended.elapsed.as_secs_f64(), reached })
    }

    fn notes(&self) -> PathBuf {
        self.work.join("runs/reached")
    }

    fn run(&self, stage: &Stage, mutant: u32, limit: Duration) -> Result<Ended> {
        let environment = [
            ("STYX_MUTANT", mutant.to_string()),
            ("STYX_MUTANTS_REACHED", self.notes().display().to_string()),
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
        reached: BTreeSet::new(),
        program,
        limit: LONGEST,
        dose: None,
    });
    let doses = DOSES.into_iter().filter(|(transactions, _)| *transactions <= effort.transactions);
    let simulations = compiled.simulator.into_iter().flat_map(|program| {
        doses.clone().map(move |(transactions, seed)| Stage {
            name: format!("simulator, {transactions} transactions"),
            program: program.clone(),
            arguments: vec![format!("--seed={seed}"), format!("--transactions={transactions}")],
            reached: BTreeSet::new(),
            limit: LONGEST,
            dose: Some(transactions),
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
