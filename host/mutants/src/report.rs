//! What came out: a table of survivors for people, a line of JSON and a file for programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::catalog::Mutant;
use crate::schema::Operator;
use crate::suite::Fate;

/// A mutant and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// File, function and change.
    pub key: String,
    /// The crate that it is in.
    pub package: String,
    /// Below the workspace's root.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// What kind of change.
    pub operator: Operator,
    /// From what, to what.
    pub change: String,
    /// What became of it.
    pub fate: Fate,
    /// How long that took.
    pub seconds: f64,
}

/// All outcomes of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// The sample's.
    pub seed: u64,
    /// How many mutants there are to choose from.
    pub of: usize,
    /// How many do not compile.
    pub do_not_compile: usize,
    /// How many are known to change nothing.
    pub equivalent: usize,
    /// By place.
    pub outcomes: Vec<Outcome>,
}

impl Outcome {
    /// What became of a mutant.
    pub fn new(mutant: &Mutant, fate: Fate, seconds: f64) -> Self {
        let Mutant { key, package, file, line, operator, change, .. } = mutant.clone();
        Outcome { key, package, file, line, operator, change, fate, seconds }
    }

    /// Whether nothing noticed it.
    pub fn survived(&self) -> bool {
        matches!(self.fate, Fate::Survived { .. })
    }
}

impl Report {
    fn caught(&self) -> usize {
        self.outcomes.iter().filter(|outcome| !outcome.survived()).count()
    }

    /// Whether enough were caught: this part of them.
    pub fn is_good(&self, floor: f64) -> bool {
        self.caught() as f64 >= self.outcomes.len() as f64 * floor
    }

    /// A line for each survivor.
    pub fn table(&self) -> String {
        let survivors = self.outcomes.iter().filter(|outcome| outcome.survived());
        let line = |outcome: &Outcome| {
            let place = format!("{}:{}", outcome.file.display(), outcome.line);
            let never = if outcome.fate == (Fate::Survived { reached: false }) { "  (never reached)" } else { "" };
            format!("{place:<56} {}{never}\n", outcome.change)
        };
        survivors.map(line).collect()
    }

    /// How many were tested of each crate, and how many of these caught.
    fn by_crate(&self) -> BTreeMap<&str, (usize, usize)> {
        let mut crates: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for outcome in &self.outcomes {
            let (tested, caught) = crates.entry(&outcome.package).or_default();
            *tested += 1;
            *caught += usize::from(!outcome.survived());
        }
        crates
    }

    /// Figures, on one line.
    pub fn summary(&self) -> String {
        let mut by: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in &self.outcomes {
            if let Fate::Caught(how) = &outcome.fate {
                let how = how.split(':').next().unwrap_or(how);
                let kind = how.split(' ').next().unwrap_or(how);
                *by.entry(kind.to_owned()).or_default() += 1;
            }
        }
        let mut seconds: Vec<f64> = self.outcomes.iter().filter(|o| !o.survived()).map(|o| o.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        serde_json::json!({
            "tested": self.outcomes.len(),
            "caught": self.caught(),
            "survived": self.outcomes.len() - self.caught(),
            "score": self.caught() as f64 / self.outcomes.len().max(1) as f64,
            "caught_by": by,
            "tested_and_caught_of": self.by_crate(),
            "median_seconds": seconds.get(seconds.len() / 2),
            "seed": self.seed,
            "of": self.of,
            "do_not_compile": self.do_not_compile,
            "equivalent": self.equivalent,
        })
        .to_string()
    }
}
