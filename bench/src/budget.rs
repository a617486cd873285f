//! `styx-bench budget`: how many instructions a call may take on the hot path, kept like a debt that must not grow.
//!
//! Times vary on a shared machine, instructions do not: callgrind counts those of each [`Case`] on one thread. They
//! depend on the compiler and the processor, so a budget that was made elsewhere is shown and not compared.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::guest;
use crate::hot::{COUNTED, Case};

/// What is counted and compared.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only these cases
    cases: Vec<Case>,
    /// The budget
    #[arg(long, default_value = "bench/budget.toml")]
    budget: PathBuf,
    /// Writes what was counted into the budget
    #[arg(long)]
    update: bool,
    /// Source directory of the guest
    #[arg(long, default_value = "guests/ycsb")]
    guest: PathBuf,
    /// Where profiles and compiled code are kept
    #[arg(long, default_value = "target/budget")]
    results: PathBuf,
    /// Calls that are counted
    #[arg(long, default_value_t = 10_000)]
    calls: usize,
}

/// A case may take so much more than its budget: counts of one program repeat to a thousandth.
const TOLERANCE_PERCENT: f64 = 2.0;

/// Or so many instructions more: what the compiler inlines depends on the directory it builds in, and that is six in a
/// hundred of the shortest case.
const TOLERANCE_INSTRUCTIONS: f64 = 30.0;

/// So much less is worth a tighter budget.
const TIGHTEN_PERCENT: f64 = 5.0;

const HEADER: &str = "\
# Instructions per call on the hot path, by case. `just budget` counts and compares; what is more than two in a
# hundred above its budget fails, and what is five below asks for a tighter one: `just budget --update` writes this file.
";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    /// Compiler, processor, C library and instrument that the counts are of.
    place: Option<String>,
    #[serde(default)]
    instructions: BTreeMap<String, u64>,
}

/// How far a count is above its budget.
#[derive(Debug, PartialEq)]
struct Excess {
    percent: f64,
    over: bool,
}

impl Budget {
    fn read(path: &Path) -> anyhow::Result<Budget> {
        match std::fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).with_context(|| format!("reading {}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Budget::default()),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = format!("{HEADER}{}", toml::to_string(self)?);
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    fn is_of(&self, place: &str) -> bool {
        self.place.as_deref() == Some(place)
    }

    /// How a count stands to the budget; none if there is no budget of this place.
    fn excess(&self, place: &str, case: &str, counted: u64) -> Option<Excess> {
        let budget = *self.instructions.get(case).filter(|_| self.is_of(place))? as f64;
        let more = counted as f64 - budget;
        let percent = more * 100.0 / budget;
        Some(Excess { percent, over: percent > TOLERANCE_PERCENT && more > TOLERANCE_INSTRUCTIONS })
    }

    /// Takes a count as the budget. What was counted elsewhere is of no use beside it.
    fn set(&mut self, place: &str, case: &str, counted: u64) {
        if !self.is_of(place) {
            *self = Budget { place: Some(place.to_owned()), instructions: BTreeMap::new() };
        }
        self.instructions.insert(case.to_owned(), counted);
    }
}

/// Counts and compares; an error if a case takes more than it may.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let Some(valgrind) = valgrind() else {
        let budget = options.budget.display();
        eprintln!("  NOT CHECKED: instructions cannot be counted without valgrind; install it to check {budget}");
        return Ok(());
    };
    let here = here(&valgrind)?;
    let mut budget = Budget::read(&options.budget)?;
    std::fs::create_dir_all(&options.results)?;
    let component = guest::build(&options.guest, &options.results)?;
    let cases = if options.cases.is_empty() { Case::value_variants() } else { &options.cases };
    let mut over = Vec::new();
    for case in cases {
        let name = case.name();
        let counted = match count(&name, &component, options) {
            Ok(counted) => counted,
            // Another valgrind may not know this processor, or leave the guest too little room.
            Err(error) if !budget.is_of(&here) && !options.update => {
                eprintln!("  NOT CHECKED: {name}: {error:#}");
                continue;
            }
            Err(error) => return Err(error),
        };
        let excess = budget.excess(&here, &name, counted);
        let verdict = match excess {
            None => "no budget of here".to_owned(),
            Some(Excess { percent, over: true }) => {
                let budget = budget.instructions[&name];
                over.push(format!("{name} takes {counted} instructions per call, its budget is {budget}"));
                format!("{percent:+.1} %: over")
            }
            Some(Excess { percent, .. }) if percent < -TIGHTEN_PERCENT => {
                format!("{percent:+.1} %: tighten the budget with `just budget --update`")
            }
            Some(Excess { percent, .. }) => format!("{percent:+.1} %"),
        };
        println!("{name:8} {counted:>8} instructions per call  {verdict}");
        if options.update {
            budget.set(&here, &name, counted);
        }
    }
    if options.update {
        return budget.write(&options.budget);
    }
    if !over.is_empty() {
        bail!(
            "OVER_BUDGET: {}; see where they go with `callgrind_annotate {}/<case>.callgrind`, spend less, or accept them with `just budget --update`",
            over.join("; "),
            options.results.display()
        );
    }
    if !budget.is_of(&here) {
        let place = budget.place.as_deref().unwrap_or("nowhere");
        eprintln!("  NOT COMPARED: the budget is of {place}; here it is {here}");
    }
    Ok(())
}

/// The version of the valgrind of this machine, if there is one.
fn valgrind() -> Option<String> {
    let said = Command::new("valgrind").arg("--version").stderr(Stdio::null()).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// The circumstances that the number of instructions depends on, in one line.
fn here(valgrind: &str) -> anyhow::Result<String> {
    let said = Command::new("rustc").arg("--version").output().context("asking rustc for its version")?;
    ensure!(said.status.success(), "NO_COMPILER: `rustc --version` failed");
    let rustc = String::from_utf8(said.stdout).context("rustc's version")?;
    #[cfg(target_arch = "x86_64")]
    // The instrument knows nothing newer than AVX2, and passes on what the processor has of the rest.
    let extension = if std::arch::is_x86_feature_detected!("avx2") { " with AVX2" } else { "" };
    #[cfg(not(target_arch = "x86_64"))]
    let extension = "";
    #[cfg(target_env = "gnu")]
    // SAFETY: it returns a static string.
    let library = format!("glibc {}", unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy());
    #[cfg(not(target_env = "gnu"))]
    let library = "another C library";
    Ok(format!("{}, {}{extension}, {library}, {valgrind}", rustc.trim(), std::env::consts::ARCH))
}

/// Instructions per call: this program once more, on a processor in software that counts.
fn count(case: &str, component: &Path, options: &Options) -> anyhow::Result<u64> {
    let profile = options.results.join(format!("{case}.callgrind"));
    let said = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--toggle-collect=*{COUNTED}*"))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(std::env::current_exe()?)
        .args(["hot", case, "--calls", &options.calls.to_string(), "--component"])
        .arg(component)
        .arg("--cache")
        .arg(options.results.join("cache"))
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .context("running valgrind")?;
    let stderr = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "NOT_COUNTED: under valgrind, {case} failed: {}", stderr.trim());
    let text = std::fs::read_to_string(&profile).with_context(|| format!("reading {}", profile.display()))?;
    let total = total(&text).filter(|total| *total > 0);
    let total = total.with_context(|| format!("NOT_COUNTED: {} has no total", profile.display()))?;
    Ok((total as f64 / options.calls as f64).round() as u64)
}

/// The total of a profile.
fn total(profile: &str) -> Option<u64> {
    profile.lines().rev().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_found() {
        assert_eq!(total("version: 1\nevents: Ir\nsummary: 17\n\nfn=(1) f\n3 17\n\ntotals: 17\n"), Some(17));
        assert_eq!(total("version: 1\n"), None);
    }

    #[test]
    fn a_budget_is_of_one_place_and_keeps_what_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("budget.toml");
        let mut budget = Budget::read(&path).unwrap();
        budget.set("there", "native", 1);
        budget.set("there", "ingress", 1);
        assert_eq!(budget.excess("here", "native", 2), None);
        budget.set("here", "native", 10_000);
        budget.set("here", "encode", 400);
        budget.write(&path).unwrap();
        let budget = Budget::read(&path).unwrap();
        assert_eq!(budget.excess("here", "native", 10_250), Some(Excess { percent: 2.5, over: true }));
        assert_eq!(budget.excess("here", "native", 10_150), Some(Excess { percent: 1.5, over: false }));
        let short = budget.excess("here", "encode", 424);
        assert_eq!(short, Some(Excess { percent: 6.0, over: false }), "few instructions are the compiler's choice");
        assert_eq!(budget.excess("here", "ingress", 1), None, "what was counted elsewhere is gone");
    }
}
