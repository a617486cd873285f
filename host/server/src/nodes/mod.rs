//! Nodes: how the other processes of the cluster fare, as they report it, and this one as it sees itself.
//!
//! Workers and gateways report every two seconds, over the connection that they have to the coordinator: no driver reads
//! it. A report holds sums since its process began, so that one that is lost is made up for by the next.

mod own;
mod report;
mod traffic;

pub(crate) use own::resident_bytes;
pub use own::{Own, Reporter};
pub use report::{Disk, Leads, NodeReport, NodeRole};
pub use traffic::{FunctionCounts, Latency, TrafficReport};

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use styx_protocol::ids::NodeId;

/// Pause between two reports of a node.
pub const EVERY: Duration = Duration::from_secs(2);

/// Pause between two reports of a coordinator that stands by, through the store; and between two looks for them.
pub const STANDBY_EVERY: Duration = Duration::from_secs(5);

/// Who has said nothing for so long is lost.
pub const SILENT: Duration = Duration::from_secs(3);

/// The same of a coordinator that stands by: a report may just have been missed by the last look, and the store be slow.
pub const STANDBY_SILENT: Duration = Duration::from_secs(16);

/// Most bytes of a report: as many as the counters of all functions that are counted take, with long names.
const REPORT_BYTES_MAX: usize = 2 << 20;

/// Nodes that are remembered; of those that say nothing any more, the one that was heard of last longest ago goes first.
const NODES_MAX: usize = 512;

/// A node that has said nothing for so long is shown no more.
pub const GONE: Duration = Duration::from_secs(600);

/// What the processes of a cluster have reported.
#[derive(Debug, Default)]
pub struct Nodes(Mutex<Reports>);

#[derive(Debug, Default)]
struct Reports {
    nodes: BTreeMap<NodeId, Heard>,
    /// Of processes that are no more.
    retired: TrafficReport,
}

#[derive(Debug)]
struct Heard {
    /// When it said last that it is there.
    at: Instant,
    /// The newest report, unread: whoever hears it has no time.
    unread: Option<Vec<u8>>,
    report: Option<NodeReport>,
}

/// A node, and how long ago it was heard of.
#[derive(Debug)]
pub struct KnownNode {
    pub node: NodeId,
    pub age: Duration,
    pub report: NodeReport,
}

impl KnownNode {
    /// Whether it has said nothing for too long.
    pub fn is_lost(&self) -> bool {
        let silent = if self.report.role == NodeRole::Coordinator { STANDBY_SILENT } else { SILENT };
        self.age >= silent
    }
}

impl Nodes {
    /// A node says that it is there.
    pub(crate) fn beat(&self, node: NodeId) {
        if let Some(heard) = self.lock().nodes.get_mut(&node) {
            heard.at = Instant::now();
        }
    }

    /// A node ends because it was told to: nobody misses it.
    pub(crate) fn left(&self, node: NodeId) {
        let mut reports = self.lock();
        reports.read(Instant::now());
        reports.retire(node);
    }

    /// Keeps a report; whether it can be one.
    pub(crate) fn heard(&self, node: NodeId, report: Vec<u8>) -> bool {
        if report.len() > REPORT_BYTES_MAX {
            return false;
        }
        let mut reports = self.lock();
        let heard =
            reports.nodes.entry(node).or_insert_with(|| Heard { at: Instant::now(), unread: None, report: None });
        (heard.at, heard.unread) = (Instant::now(), Some(report));
        if reports.nodes.len() > NODES_MAX {
            let oldest = reports.nodes.iter().min_by_key(|(_, heard)| heard.at).map(|(node, _)| *node);
            oldest.into_iter().for_each(|oldest| reports.retire(oldest));
        }
        true
    }

    /// All that were heard of lately.
    pub fn known(&self) -> Vec<KnownNode> {
        let mut reports = self.lock();
        reports.read(Instant::now());
        let known = reports.nodes.iter().filter_map(|(node, heard)| {
            let report = heard.report.clone()?;
            Some(KnownNode { node: *node, age: heard.at.elapsed(), report })
        });
        let (alive, silent): (Vec<_>, Vec<_>) = known.partition(|known| !known.is_lost());
        // A gateway that was started again is another node at the same place.
        let replaced = |lost: &KnownNode| {
            let place =
                |known: &KnownNode| (known.report.role, known.report.name.clone(), known.report.ingress.clone());
            lost.report.ingress.is_some() && alive.iter().any(|one| place(one) == place(lost))
        };
        let mut known: Vec<KnownNode> = silent.into_iter().filter(|lost| !replaced(lost)).collect();
        known.extend(alive);
        known.sort_by_key(|known| known.node);
        known
    }

    /// What all gateways have answered together and functions have used on all workers, since each began.
    pub fn traffic(&self) -> TrafficReport {
        let mut reports = self.lock();
        reports.read(Instant::now());
        let mut sum = reports.retired.clone();
        let told = reports.nodes.values().filter_map(|heard| heard.report.as_ref()?.traffic.as_ref());
        told.for_each(|traffic| sum.add(traffic));
        sum
    }

    fn lock(&self) -> MutexGuard<'_, Reports> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports {
    /// Reads what has come since, and forgets who is gone.
    fn read(&mut self, now: Instant) {
        for heard in self.nodes.values_mut() {
            let Some(unread) = heard.unread.take() else { continue };
            let Ok(report) = serde_json::from_slice::<NodeReport>(&unread) else {
                tracing::warn!("a node's report cannot be read: install the same release on all nodes");
                continue;
            };
            // Another process in its place counts from nothing.
            let before = heard.report.take().filter(|before| before.life != report.life);
            if let Some(traffic) = before.and_then(|before| before.traffic) {
                self.retired.add(&traffic);
            }
            heard.report = Some(report);
        }
        let ended = self.nodes.iter().filter(|(_, heard)| heard.report.as_ref().is_some_and(|report| report.ends));
        let ended: Vec<NodeId> = ended.map(|(node, _)| *node).collect();
        ended.into_iter().for_each(|node| self.retire(node));
        let gone = self.nodes.iter().filter(|(_, heard)| now.duration_since(heard.at) > GONE);
        let gone: Vec<NodeId> = gone.map(|(node, _)| *node).collect();
        gone.into_iter().for_each(|node| self.retire(node));
    }

    fn retire(&mut self, node: NodeId) {
        if let Some(traffic) = self.nodes.remove(&node).and_then(|heard| heard.report?.traffic) {
            self.retired.add(&traffic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Latencies, Outcome};

    fn report(life: u64, latencies: &Latencies) -> Vec<u8> {
        let report = NodeReport {
            role: NodeRole::Gateway,
            name: "g".into(),
            version: "1".into(),
            life,
            started_us: 1,
            ends: false,
            resident_bytes: Some(1),
            disk: None,
            admin: None,
            ingress: None,
            traffic: Some(TrafficReport::of(latencies)),
        };
        serde_json::to_vec(&report).unwrap()
    }

    fn called(times: usize) -> Latencies {
        let latencies = Latencies::default();
        let function = latencies.functions.get("shop", "stock", "take");
        for _ in 0..times {
            latencies.record(Outcome::Committed, Duration::from_millis(3));
            function.record(Outcome::Committed, Duration::from_millis(3));
        }
        function.record(latencies.error(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "ABORTED"), Duration::ZERO);
        latencies
    }

    #[test]
    fn gateways_add_up_and_what_was_answered_before_a_restart_counts_on() {
        let nodes = Nodes::default();
        assert!(nodes.heard(NodeId(2), report(1, &called(10))));
        assert!(nodes.heard(NodeId(6), report(2, &called(5))));
        // A later report of the same process is in the place of the one before.
        assert!(nodes.heard(NodeId(6), report(2, &called(7))));
        let (known, traffic) = (nodes.known(), nodes.traffic());
        assert_eq!(known.iter().map(|known| known.node).collect::<Vec<_>>(), [NodeId(2), NodeId(6)]);
        let of = |traffic: &TrafficReport| {
            let [function] = &traffic.functions[..] else { panic!("{traffic:?}") };
            let latency = traffic.outcomes[Outcome::Committed as usize].count();
            (
                latency,
                function.duration.count(),
                function.outcomes[Outcome::Aborted as usize],
                traffic.errors["ABORTED"],
            )
        };
        assert_eq!(of(&traffic), (17, 19, 2, 2));
        // It was started anew.
        assert!(nodes.heard(NodeId(6), report(3, &called(1))));
        assert_eq!(of(&nodes.traffic()), (18, 21, 3, 3));
        // Nonsense changes nothing.
        assert!(nodes.heard(NodeId(6), b"nonsense".to_vec()));
        assert_eq!(of(&nodes.traffic()), (18, 21, 3, 3));
        assert!(!nodes.heard(NodeId(8), vec![0; REPORT_BYTES_MAX + 1]));
    }

    #[test]
    fn who_is_silent_for_long_is_forgotten_and_what_it_answered_is_not() {
        let nodes = Nodes::default();
        assert!(nodes.heard(NodeId(2), report(1, &called(10))));
        assert_eq!(nodes.known().len(), 1);
        nodes.lock().read(Instant::now() + 2 * GONE);
        assert_eq!(nodes.known().len(), 0);
        assert_eq!(nodes.traffic().errors["ABORTED"], 1);
        for node in 0..2 * NODES_MAX as u64 {
            assert!(nodes.heard(NodeId(node), report(node, &called(1))));
        }
        assert_eq!(nodes.known().len(), NODES_MAX);
    }
}
