//! `styx-bench report`: results of measurements as one page that needs nothing else, `page.html` with the results in it.

mod digest;
mod timelines;

use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::result::Outcome;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// Files of results, or directories of them
    #[arg(default_value = "target/results")]
    results: Vec<PathBuf>,
    /// Where the page goes
    #[arg(short, long, default_value = "target/report.html")]
    output: PathBuf,
    /// Also writes measured.md, a table of the peaks, and measured.svg, a picture of one workload, into this directory
    #[arg(long)]
    digest: Option<PathBuf>,
    /// Also draws what clients noticed of migrations: the newest run of each mode, below each other, as SVG
    #[arg(long, value_name = "FILE")]
    timelines: Option<PathBuf>,
}

/// Writes the page and says where it is.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for path in &options.results {
        if path.is_dir() {
            let entries = std::fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?;
            let found = entries.into_iter().map(|entry| entry.path());
            files.extend(found.filter(|path| path.extension().is_some_and(|extension| extension == "json")));
        } else {
            files.push(path.clone())
        }
    }
    files.sort();
    let mut outcomes = files.iter().map(|file| Outcome::read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    outcomes.sort_by_key(|outcome| outcome.at);
    ensure!(!outcomes.is_empty(), "NO_RESULTS: there are no results: `styx-bench all` measures and keeps some");
    if let Some(directory) = &options.digest {
        digest::write(&outcomes, directory)?;
    }
    if let Some(file) = &options.timelines {
        timelines::write(&outcomes, file)?;
    }
    let page = page(&outcomes)?;
    std::fs::write(&options.output, page).with_context(|| format!("cannot write {}", options.output.display()))?;
    println!("{}", options.output.display());
    Ok(())
}

/// The page of these results, oldest first.
pub fn page(outcomes: &[Outcome]) -> anyhow::Result<String> {
    ensure!(!outcomes.is_empty(), "a report needs a result");
    fill(include_str!("page.html"), &outcomes)
}

/// A page that needs nothing else: one with the places `STYLE`, `RESULTS` and `CHARTS`.
pub fn fill(page: &str, results: &impl serde::Serialize) -> anyhow::Result<String> {
    // Nothing in it can be taken for the end of the script.
    let results = serde_json::to_string(results)?.replace('<', "\\u003c");
    let page = page.replacen("STYLE", include_str!("style.css"), 1).replacen("CHARTS", include_str!("charts.js"), 1);
    Ok(page.replacen("RESULTS", &results, 1))
}
