//! The command that starts and stops workers: a program of the operator's, called with what is wanted.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use styx_driver::autoscale::{Decision, Wish};
use styx_driver::wire::{Overview, WorkerStatus};
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, Command};
use tokio::time::timeout;

use crate::autoscale_stats::Ran;

/// Bytes of what a command complains of that are shown.
const COMPLAINT_MAX: usize = 300;

/// How long it is waited for what a command that failed has complained of. A process that it has left behind may still have its
/// output.
const COMPLAINT_WAIT: Duration = Duration::from_millis(500);

/// What a command is called with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// `out` or `in`.
    verb: &'static str,
    workers: u32,
    wanted: u32,
    /// Where the workers are that may be stopped.
    stop: Vec<String>,
}

impl Order {
    /// Those that have the least to give away are to be stopped.
    pub(super) fn of(decision: &Decision, overview: &Overview, statuses: &[WorkerStatus]) -> Order {
        let Decision { wish, workers, wanted, .. } = *decision;
        let mut by_bytes: Vec<&WorkerStatus> = statuses.iter().collect();
        by_bytes.sort_by_key(|status| (status.bytes, std::cmp::Reverse(status.worker)));
        let address = |status: &&WorkerStatus| {
            overview.members.get(usize::from(status.worker.0)).map(|member| member.address.clone())
        };
        let stop = by_bytes.iter().filter_map(address).take(workers.saturating_sub(wanted) as usize).collect();
        Order { verb: if wish == Wish::In { "in" } else { "out" }, workers, wanted, stop }
    }

    fn arguments(&self) -> Vec<String> {
        let numbers = [self.verb.to_owned(), self.workers.to_string(), self.wanted.to_string()];
        numbers.into_iter().chain(self.stop.iter().cloned()).collect()
    }
}

/// Runs it, and waits for its end; not for that of processes that it leaves behind, as a worker may be.
pub(super) async fn run(program: &Path, order: &Order, most: Duration) -> Ran {
    let mut command = Command::new(program);
    command.args(order.arguments()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // One that hangs is ended.
    command.kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ran::Failed(format!("{} cannot be started: {error}", program.display())),
    };
    let said = Arc::new(Mutex::new(Vec::new()));
    let listens = child.stderr.take().map(|stderr| tokio::spawn(listen(stderr, said.clone())));
    match timeout(most, child.wait()).await {
        Err(_) => {
            Ran::Failed(format!("{} has not ended within {}", program.display(), humantime::format_duration(most)))
        }
        Ok(Err(error)) => Ran::Failed(format!("{}: {error}", program.display())),
        Ok(Ok(status)) if status.success() => Ran::Done,
        Ok(Ok(status)) => {
            if let Some(listens) = listens {
                drop(timeout(COMPLAINT_WAIT, listens).await);
            }
            let complaint = said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let complaint = String::from_utf8_lossy(&complaint);
            let complaint: String = complaint.trim().chars().take(COMPLAINT_MAX).collect();
            let said = if complaint.is_empty() { String::new() } else { format!(": {complaint}") };
            Ran::Failed(format!("{} ended with {status}{said}", program.display()))
        }
    }
}

/// Keeps the beginning of what is said; reads the rest as well, so that nobody fails who goes on saying something.
async fn listen(mut stderr: ChildStderr, said: Arc<Mutex<Vec<u8>>>) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut bytes).await {
        let mut said = said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let room = (4 * COMPLAINT_MAX).saturating_sub(said.len());
        said.extend_from_slice(&bytes[..read.min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use styx_driver::wire::Member;
    use styx_protocol::ids::{EngineHash, Epoch, Generation, NodeId, PlacementVersion, WorkerId};

    use super::*;

    fn program(directory: &Path, script: &str) -> std::path::PathBuf {
        let path = directory.join("scale");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn order() -> Order {
        Order { verb: "in", workers: 3, wanted: 2, stop: vec!["host:7".into()] }
    }

    #[test]
    fn those_with_the_least_to_give_away_are_to_be_stopped() {
        let member = |node| Member { node: NodeId(node), address: format!("host:{node}") };
        let overview = Overview {
            single: false,
            engine: EngineHash(1),
            generation: Generation(1),
            live: true,
            epoch: Epoch(1),
            chain: Default::default(),
            members: vec![member(7), member(8), member(9)],
            placement: PlacementVersion::FIRST,
            partitions: 3,
            created: 3,
            admin: None,
        };
        let status = |worker, bytes| WorkerStatus {
            worker: WorkerId(worker),
            epoch: Epoch(1),
            waiting: 0,
            remembered: 0,
            partitions: 1,
            entities: 1,
            bytes,
            calls: 0,
            fuel: 0,
            busy_us: 0,
        };
        let decision = |wish, wanted| Decision {
            wish,
            workers: 3,
            wanted,
            busy: Vec::new(),
            arrives: 0,
            capacity: 0,
            reason: String::new(),
        };
        let statuses = [status(0, 9), status(1, 5), status(2, 9)];
        let fewer = Order::of(&decision(Wish::In, 1), &overview, &statuses);
        assert_eq!(fewer.arguments(), ["in", "3", "1", "host:8", "host:9"]);
        let more = Order::of(&decision(Wish::Out, 5), &overview, &statuses);
        assert_eq!(more.arguments(), ["out", "3", "5"]);
    }

    #[tokio::test]
    async fn a_command_is_told_what_is_wanted_and_one_that_fails_or_hangs_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let told = directory.path().join("told");
        let good = program(directory.path(), &format!("echo \"$@\" > {}", told.display()));
        assert_eq!(run(&good, &order(), Duration::from_secs(20)).await, Ran::Done);
        assert_eq!(std::fs::read_to_string(told).unwrap(), "in 3 2 host:7\n");
        let bad = program(directory.path(), "echo no machine is left >&2; exit 3");
        let Ran::Failed(why) = run(&bad, &order(), Duration::from_secs(20)).await else { panic!("it failed") };
        assert!(why.ends_with("ended with exit status: 3: no machine is left"), "{why}");
        let slow = program(directory.path(), "exec sleep 60");
        let began = Instant::now();
        let Ran::Failed(why) = run(&slow, &order(), Duration::from_millis(200)).await else { panic!("it hangs") };
        assert!(why.ends_with("has not ended within 200ms") && began.elapsed() < Duration::from_secs(20), "{why}");
        // What it leaves behind, and has its output, is not waited for.
        let began = Instant::now();
        let leaves = program(directory.path(), "sleep 60 & echo $! > \"$0.left\"");
        assert_eq!(run(&leaves, &order(), Duration::from_secs(20)).await, Ran::Done);
        let bad = program(directory.path(), "sleep 60 & echo $! >> \"$0.left\"; echo no machine is left >&2; exit 3");
        let Ran::Failed(why) = run(&bad, &order(), Duration::from_secs(20)).await else { panic!("it failed") };
        assert!(why.ends_with("3: no machine is left") && began.elapsed() < Duration::from_secs(20), "{why}");
        for left in std::fs::read_to_string(directory.path().join("scale.left")).unwrap().lines() {
            assert!(std::process::Command::new("kill").arg(left).status().unwrap().success());
        }
        let none = directory.path().join("none");
        let Ran::Failed(why) = run(&none, &order(), Duration::from_secs(20)).await else { panic!("it is not there") };
        assert!(why.contains("cannot be started"), "{why}");
    }
}
