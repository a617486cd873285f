//! The machine and the commit that something was measured on: figures mean nothing without.

use std::process::Command;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    pub memory_mb: u64,
    /// Name and version of the kernel.
    pub kernel: String,
}

impl Machine {
    pub fn here() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            line.map(|line| line.trim_start_matches([':', ' ', '\t']).to_owned())
        };
        let memory_kb = value(&read("/proc/meminfo"), "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok());
        Machine {
            cpu: value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mb: memory_kb.unwrap_or(0u64) / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// The commit of the working directory, with `+` behind it if there is more than it; `unknown` outside of one.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let said = Command::new("git").args(arguments).output().ok().filter(|said| said.status.success())?;
        Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    if changed { commit + "+" } else { commit }
}
