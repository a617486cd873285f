//! Callgrind: this program once more, on a processor in software that counts.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::hot::COUNTED;

/// An installed callgrind.
pub struct Callgrind {
    version: String,
}

impl Callgrind {
    /// The one of this machine, if there is one.
    pub fn find() -> Option<Callgrind> {
        let said = Command::new("valgrind").arg("--version").stderr(Stdio::null()).output().ok()?;
        let version = String::from_utf8(said.stdout).ok()?;
        said.status.success().then(|| Callgrind { version: version.trim().to_owned() })
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Instructions of the hot path in one run of this program; the profile is left in `profile`.
    pub fn count(&self, arguments: &[String], profile: &Path) -> anyhow::Result<u64> {
        let said = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet"])
            .arg(format!("--toggle-collect=*{COUNTED}*"))
            .arg(format!("--callgrind-out-file={}", profile.display()))
            .arg(std::env::current_exe()?)
            .args(arguments)
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .output()
            .context("running valgrind")?;
        let stderr = String::from_utf8_lossy(&said.stderr);
        ensure!(
            said.status.success(),
            "NOT_COUNTED: under valgrind, {} failed: {}",
            arguments.join(" "),
            stderr.trim()
        );
        let text = std::fs::read_to_string(profile).with_context(|| format!("reading {}", profile.display()))?;
        total(&text)
            .filter(|total| *total > 0)
            .with_context(|| format!("NOT_COUNTED: {} has no total", profile.display()))
    }
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
}
