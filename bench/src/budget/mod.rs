//! `styx-bench budget`: how many instructions a call may take on the hot path, kept like a debt
//! that must not grow.
//!
//! Times vary on a shared machine, instructions do not: callgrind counts those of each
//! [`Case`] on one thread. They depend on the compiler and the processor, so a budget that was
//! made elsewhere is shown and not compared.

mod callgrind;
mod place;
mod sheet;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::guest;
use crate::hot::Case;
use callgrind::Callgrind;
use sheet::{Sheet, Standing};

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

/// Counts and compares; an error if a case takes more than it may.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let Some(callgrind) = Callgrind::find() else {
        eprintln!(
            "  NOT CHECKED: instructions cannot be counted without valgrind; install it to check {}",
            options.budget.display()
        );
        return Ok(());
    };
    let here = place::here(callgrind.version())?;
    let mut sheet = Sheet::read(&options.budget)?;
    std::fs::create_dir_all(&options.results)?;
    let component = guest::build(&options.guest, &options.results)?;
    let cases = if options.cases.is_empty() { Case::value_variants() } else { &options.cases };
    let mut over = Vec::new();
    for case in cases {
        let name = case.name();
        let counted = match count(&callgrind, *case, &component, options) {
            Ok(counted) => counted,
            // Another valgrind may not know this processor, or leave the guest too little room.
            Err(error) if !sheet.is_of(&here) && !options.update => {
                eprintln!("  NOT CHECKED: {name}: {error:#}");
                continue;
            }
            Err(error) => return Err(error),
        };
        let standing = sheet.standing(&here, &name, counted);
        println!("{name:8} {counted:>8} instructions per call  {}", told(&standing));
        if let Standing::Over { budget, .. } = standing {
            over.push(format!("{name} takes {counted} instructions per call, its budget is {budget}"));
        }
        if options.update {
            sheet.note(&here, &name, counted);
        }
    }
    if options.update {
        return sheet.write(&options.budget);
    }
    if !over.is_empty() {
        bail!(
            "OVER_BUDGET: {}; see where they go with `callgrind_annotate {}/<case>.callgrind`, spend less, or accept them with `just budget --update`",
            over.join("; "),
            options.results.display()
        );
    }
    if !sheet.is_of(&here) {
        eprintln!("  NOT COMPARED: the budget is of {}; here it is {here}", sheet.place().unwrap_or("nowhere"));
    }
    Ok(())
}

/// Instructions per call.
fn count(callgrind: &Callgrind, case: Case, component: &Path, options: &Options) -> anyhow::Result<u64> {
    let name = case.name();
    let cache = options.results.join("cache");
    let calls = options.calls.to_string();
    let path = |path: &Path| path.to_str().map(str::to_owned).context("a path that is text");
    let arguments = ["hot", &name, "--calls", &calls, "--component", &path(component)?, "--cache", &path(&cache)?]
        .map(str::to_owned);
    let total = callgrind.count(&arguments, &options.results.join(format!("{name}.callgrind")))?;
    Ok((total as f64 / options.calls as f64).round() as u64)
}

fn told(standing: &Standing) -> String {
    match standing {
        Standing::Unknown => "no budget of here".into(),
        Standing::Within { percent } => format!("{percent:+.1} %"),
        Standing::Over { percent, .. } => format!("{percent:+.1} %: over"),
        Standing::Below { percent } => format!("{percent:+.1} %: tighten the budget with `just budget --update`"),
    }
}
