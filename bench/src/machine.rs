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

/// What else the machine was at while something was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Threads that ran or wanted to, of all processes, those that are measured among them: over the last minute, at the beginning
    /// and at the end.
    pub load_average: [f64; 2],
    /// Of a hundred parts of the processors' time, those that the machine did not get though it wanted them: others on its host did.
    pub stolen: f64,
}

/// Sees how it was in between.
#[derive(Debug)]
pub struct Watch {
    load_average: f64,
    times: Option<Times>,
}

/// Processors' time since they were started.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    all: u64,
    stolen: u64,
}

impl Watch {
    pub fn begin() -> Watch {
        Watch { load_average: load_average(), times: Times::now() }
    }

    pub fn end(&self) -> Surroundings {
        let stolen = self.times.zip(Times::now()).map_or(0.0, |(before, after)| before.stolen_until(after));
        Surroundings { load_average: [self.load_average, load_average()], stolen }
    }
}

impl Times {
    fn now() -> Option<Times> {
        Times::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// What the system's first line says: user, nice, system, idle, waiting, interrupts twice, stolen.
    fn read(text: &str) -> Option<Times> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let times: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        Some(Times { all: times.iter().sum(), stolen: *times.get(7)? })
    }

    /// In percent.
    fn stolen_until(self, after: Times) -> f64 {
        let part = |of: fn(Times) -> u64| of(after).saturating_sub(of(self)) as f64;
        100.0 * part(|times| times.stolen) / part(|times| times.all).max(1.0)
    }
}

fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_took_is_a_part_of_the_time_that_has_passed() {
        let read = |text| Times::read(text).unwrap();
        let before = read("cpu  100 0 50 800 10 5 5 30 0 0\ncpu0 1 2 3\n");
        assert_eq!(before, Times { all: 1000, stolen: 30 });
        assert_eq!(before.stolen_until(read("cpu  150 0 50 825 10 5 5 55 7 0\n")), 25.0);
        assert_eq!(before.stolen_until(before), 0.0);
        assert!(
            [Times::read(""), Times::read("cpu  1 2 3\n"), Times::read("cpu0 1 2 3 4 5 6 7 8\n")]
                .iter()
                .all(Option::is_none)
        );
        let seen = Watch::begin().end();
        assert!(seen.load_average.iter().all(|load| *load >= 0.0) && (0.0..=100.0).contains(&seen.stolen), "{seen:?}");
    }
}
