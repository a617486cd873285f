//! Processor time and memory of processes, as the system tells.

use std::path::Path;
use std::time::Duration;

/// Processor time of this process.
pub fn own_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, into a local that outlives it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Processor time and resident memory (MiB) of a process and all that it has started.
pub fn of_tree(root: u32) -> (Duration, u64) {
    let (mut cpu, mut rss_kb) = (Duration::ZERO, 0);
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        let directory = Path::new("/proc").join(id.to_string());
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap_or_default();
        let stat = read("stat");
        cpu += TICK * (11..15).map(|at| field(&stat, at)).sum::<u64>() as u32;
        let status = read("status");
        // Pages that several processes share count once, for the first of them.
        let names: &[&str] = if id == root { &["VmRSS:"] } else { &["RssAnon:"] };
        rss_kb += status
            .lines()
            .filter_map(|line| names.iter().find_map(|name| line.strip_prefix(name)))
            .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
            .sum::<u64>();
        let Ok(tasks) = std::fs::read_dir(directory.join("task")) else { continue };
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            waiting.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    (cpu, rss_kb / 1024)
}

/// Processor time of this process's threads whose name begins so, of those that run.
pub fn of_threads(prefix: &str) -> Option<Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let used = tasks.flatten().filter_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        name.starts_with(prefix).then(|| TICK * (field(&stat, 11) + field(&stat, 12)) as u32)
    });
    Some(used.sum())
}

/// The unit of processor time under `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// A field of `stat`, counted behind the name, which may hold blanks: 11 to 14 are processor time of
/// the process itself and of children that have ended.
fn field(stat: &str, at: usize) -> u64 {
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(at).and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_counts() {
        let before = of_tree(std::process::id());
        assert!(before.1 > 0);
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(400));
        let (running, _) = of_tree(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        let (reaped, _) = of_tree(std::process::id());
        assert!(running > before.0, "a child that runs does not count");
        assert!(reaped >= running, "a child that has ended no longer counts");
    }
}
