//! This process, as it reports itself.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use styx_driver::wire::Envelope;
use styx_engine::{FunctionUse, Tallies};
use styx_transport::Network;

use super::{Disk, EVERY, NodeReport, NodeRole, TrafficReport};
use crate::admission::space;
use crate::clock::now;
use crate::cluster::COORDINATOR;
use crate::http::{Latencies, Shutdown};

/// Tells this life of the process from others.
static LIFE: LazyLock<u64> = LazyLock::new(rand::random);
static BEGUN: LazyLock<(Instant, u64)> = LazyLock::new(|| (Instant::now(), now().0));

/// What a process knows of itself.
#[derive(Clone, Debug)]
pub struct Own {
    role: NodeRole,
    name: String,
    data_dir: Option<PathBuf>,
    admin: Option<String>,
    ingress: Option<String>,
    latencies: Option<Arc<Latencies>>,
    tallies: Option<Arc<Tallies>>,
}

impl Own {
    pub fn new(role: NodeRole, name: String) -> Self {
        LazyLock::force(&BEGUN);
        Own { role, name, data_dir: None, admin: None, ingress: None, latencies: None, tallies: None }
    }

    /// The same, whose data is there.
    #[must_use]
    pub fn with_data(mut self, data_dir: PathBuf) -> Self {
        self.data_dir = Some(data_dir);
        self
    }

    /// The same, with an admin port there.
    #[must_use]
    pub fn with_admin(mut self, admin: Option<String>) -> Self {
        self.admin = admin;
        self
    }

    /// The same, which takes calls there.
    #[must_use]
    pub fn with_ingress(mut self, ingress: String) -> Self {
        self.ingress = Some(ingress);
        self
    }

    /// The same, which reports how long calls take.
    #[must_use]
    pub fn with_latencies(mut self, latencies: Arc<Latencies>) -> Self {
        self.latencies = Some(latencies);
        self
    }

    /// The same, which executes functions and reports what they use.
    #[must_use]
    pub fn with_tallies(mut self, tallies: Arc<Tallies>) -> Self {
        self.tallies = Some(tallies);
        self
    }

    /// Where it takes calls, if it does.
    pub fn ingress(&self) -> Option<&str> {
        self.ingress.as_deref()
    }

    /// What functions have used here.
    pub fn used(&self) -> Vec<FunctionUse> {
        self.tallies.as_ref().map(|tallies| tallies.used()).unwrap_or_default()
    }

    /// What its ingress has answered, and what functions have used; none where neither happens.
    fn traffic(&self) -> Option<TrafficReport> {
        let answered = self.latencies.as_deref().map(TrafficReport::of);
        let used = self.tallies.is_some().then(|| TrafficReport::used(self.used()));
        answered.into_iter().chain(used).reduce(|mut sum, more| {
            sum.add(&more);
            sum
        })
    }

    pub fn report(&self) -> NodeReport {
        let disk = self.data_dir.as_deref().and_then(|directory| space(directory).ok());
        NodeReport {
            role: self.role,
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            life: *LIFE,
            started_us: BEGUN.1,
            ends: false,
            resident_bytes: resident_bytes(),
            disk: disk.map(|(free, total)| Disk { free, total }),
            admin: self.admin.clone(),
            ingress: self.ingress.clone(),
            traffic: self.traffic(),
        }
    }
}

/// Memory in use, where the system says.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Reports to the coordinator for as long as the process serves.
pub struct Reporter {
    pub own: Own,
    pub network: Arc<Network>,
    pub shutdown: Shutdown,
}

impl Reporter {
    pub async fn run(self) {
        // Soon at first: whoever starts a process wants to see it.
        let mut pause = Duration::from_millis(200);
        loop {
            let ends = tokio::select! {
                () = tokio::time::sleep(pause) => false,
                () = self.shutdown.wait() => true,
            };
            if ends && self.own.role != NodeRole::Gateway {
                // A worker is let go by the coordinator, which knows then.
                return;
            }
            let report = NodeReport { ends, ..self.own.report() };
            let report = serde_json::to_vec(&report).expect("a report can be written as JSON");
            // Whoever is not connected reports when it is.
            let sent = self.network.send_control_now(COORDINATOR, Envelope::Report(report).encode());
            if ends {
                return;
            }
            pause = if sent.is_ok() { EVERY } else { EVERY / 4 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_memory_and_its_disk() {
        let own = Own::new(NodeRole::Worker, "w".into()).with_data(std::env::temp_dir());
        let report = own.report();
        assert!(report.resident_bytes.is_some_and(|bytes| bytes > 1 << 20), "{report:?}");
        assert!(report.disk.is_some_and(|disk| disk.free <= disk.total && disk.total > 0), "{report:?}");
        assert_eq!(own.report().life, report.life);
    }
}
