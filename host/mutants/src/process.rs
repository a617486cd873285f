//! A child process within bounds of time and memory: a mutant may run for ever, and take all there is.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// None: its time was over.
    pub status: Option<ExitStatus>,
    /// The last of what it said.
    pub output: String,
    /// How long it ran.
    pub elapsed: Duration,
}

impl Ended {
    /// What noticed that something is wrong, if anything did: a test, a check of the simulator, or how it ended.
    pub fn noticed(&self) -> Option<String> {
        let Some(status) = self.status else { return Some("time limit".to_owned()) };
        if status.success() {
            return None;
        }
        let Some(_) = status.code() else { return Some(status.to_string()) };
        let failures = self.output.rsplit_once("\nfailures:\n").map(|(_, names)| names.trim_start());
        let failed = failures.and_then(|names| names.lines().next());
        let check = || {
            let summary: Value = self.output.lines().rev().find_map(|line| serde_json::from_str(line).ok())?;
            Some(format!("simulator: {}", summary["check"].as_str()?))
        };
        Some(failed.map(|name| format!("test {name}")).or_else(check).unwrap_or_else(|| status.to_string()))
    }
}

/// What a child may take, in KiB.
const MEMORY: &str = "6291456";
/// The last of its output that is of interest.
const TAIL: usize = 256 << 10;

/// Runs `program`, for no longer than `limit`, and keeps what it says in the file `log` meanwhile.
///
/// # Errors
/// It cannot be started, or the file not be written.
pub fn run(
    program: &Path,
    arguments: &[String],
    directory: &Path,
    environment: &[(&str, String)],
    log: &Path,
    limit: Duration,
) -> io::Result<Ended> {
    let file = File::create(log)?;
    // Where a shell cannot bound memory, it is not bounded.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY} 2>/dev/null; exec \"$0\" \"$@\"")]).arg(program).args(arguments);
    command.current_dir(directory).envs(environment.iter().map(|(name, value)| (name, value)));
    // Its own children with it: a test's would run on for ever.
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let started = Instant::now();
    let mut child = command.spawn()?;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    };
    let elapsed = started.elapsed();
    let group = format!("-{}", child.id());
    // Whoever has left nobody behind has no group any more.
    Command::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status()?;
    let said = fs::read(log)?;
    let output = String::from_utf8_lossy(&said[said.len().saturating_sub(TAIL)..]).into_owned();
    Ok(Ended { status, output, elapsed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let (log, at_most) = (directory.path().join("log"), Duration::from_secs(60));
        let arguments = ["-c", "sleep 600 & echo $!"].map(str::to_owned);
        let ended = run(Path::new("sh"), &arguments, directory.path(), &[], &log, at_most).unwrap();
        let runs = || Command::new("kill").args(["-0", ended.output.trim()]).stderr(Stdio::null()).status().unwrap();
        let until = Instant::now() + at_most;
        while runs().success() {
            assert!(Instant::now() < until, "{} runs on", ended.output);
            sleep(Duration::from_millis(10));
        }
    }
}
