//! What a mutant must survive: all checks that reach the changed place, in batches, each of which takes longer than the
//! one before. So a mutant that a quick test notices costs no more than that.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::baseline;
use crate::check::{Check, Kind, Runner, checks};
use crate::compile::Compiled;

/// All that mutants are tested with.
#[derive(Debug)]
pub struct Suite {
    /// Quick ones first.
    checks: Vec<Check>,
    runner: Runner,
    shortest: Duration,
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

/// A mutant that takes so many times as long as the unchanged program has stopped.
const PATIENCE: u32 = 5;
/// How long the first batch takes, in seconds.
const FIRST: f64 = 0.2;

/// How much is done for a mutant.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The simulator's largest dose.
    pub transactions: u64,
    /// Tests that are not run.
    pub skipped: &'static [&'static str],
    /// Time that every run has, however quick the unchanged program is: the machine does other things too.
    pub shortest: Duration,
    /// Tests that take longer, in seconds, are not run.
    pub longest: f64,
    /// Runs at a time.
    pub jobs: usize,
}

impl Suite {
    /// Makes every check without a mutant, or remembers what came of it.
    ///
    /// # Errors
    /// A check fails without a mutant; or a program has no switches.
    pub fn measure(compiled: &Compiled, effort: Effort, work: &Path) -> Result<Self> {
        let runner = Runner::new(work.join("runs"))?;
        let mut checks = checks(compiled, effort.transactions, effort.skipped, &runner)?;
        baseline::measure(&mut checks, &runner, work, effort.jobs)?;
        checks.retain(|check| matches!(check.kind, Kind::Dose(..)) || check.seconds <= effort.longest);
        checks.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
        Ok(Suite { checks, runner, shortest: effort.shortest })
    }

    /// Tries a mutant until something notices it.
    ///
    /// # Errors
    /// A program cannot be started.
    pub fn test(&self, mutant: u32) -> Result<Fate> {
        let reaching: Vec<&Check> = self.checks.iter().filter(|check| check.reached.contains(&mutant)).collect();
        for run in runs(&reaching) {
            let seconds: f64 = run.iter().map(|check| check.seconds).sum();
            let limit = self.shortest.max(Duration::from_secs_f64(seconds) * PATIENCE);
            let ended = self.runner.run(&run, mutant, limit)?;
            if let Some(how) = ended.noticed() {
                return Ok(Fate::Caught(how));
            }
        }
        Ok(Fate::Survived { reached: !reaching.is_empty() })
    }

    /// Whether anything runs what it changes.
    pub fn reaches(&self, mutant: u32) -> bool {
        self.checks.iter().any(|check| check.reached.contains(&mutant))
    }
}

/// Checks, quick ones first, as runs of programs: batches of them, each twice as long as the one before, by program.
fn runs<'a>(checks: &[&'a Check]) -> Vec<Vec<&'a Check>> {
    let mut runs = Vec::new();
    let (mut rest, mut room) = (checks, FIRST);
    while !rest.is_empty() {
        let mut seconds = 0.0;
        let fits = |check: &&&Check| {
            seconds += check.seconds;
            seconds <= room
        };
        let length = rest.iter().take_while(fits).count().max(1);
        let (batch, behind) = rest.split_at(length);
        let mut programs: BTreeMap<_, Vec<&Check>> = BTreeMap::new();
        for check in batch {
            let alone = matches!(check.kind, Kind::Dose(..)).then_some(&check.kind);
            programs.entry((&check.program.path, alone)).or_default().push(check);
        }
        runs.extend(programs.into_values());
        (rest, room) = (behind, room * 2.0);
    }
    runs
}
