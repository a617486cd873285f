//! Gateways that watch the cluster, and what each of them knows of it.

use std::collections::BTreeMap;
use std::time::Duration;

use styx_protocol::ids::NodeId;

use crate::time::Instant;
use crate::wire::CatalogVersion;

/// The gateways that want to be told of changes.
#[derive(Debug, Default)]
pub(super) struct Gateways(BTreeMap<NodeId, Watcher>);

#[derive(Debug)]
struct Watcher {
    /// What it knows to be deployed.
    known: CatalogVersion,
    heard: Instant,
}

impl Gateways {
    /// A gateway is there, and says what it knows.
    pub(super) fn watch(&mut self, gateway: NodeId, known: CatalogVersion, now: Instant) {
        self.0.insert(gateway, Watcher { known, heard: now });
    }

    /// Every gateway, with what it knows.
    pub(super) fn known(&self) -> impl Iterator<Item = (NodeId, CatalogVersion)> {
        self.0.iter().map(|(gateway, watcher)| (*gateway, watcher.known))
    }

    /// The oldest version that a gateway knows which was heard of within `slow`; if there are none, nobody need know.
    pub(super) fn oldest_known(&self, slow: Duration, now: Instant) -> u64 {
        let present = self.0.values().filter(|watcher| now.since(watcher.heard) < slow);
        present.map(|watcher| watcher.known.version).min().unwrap_or(u64::MAX)
    }

    /// Drops those that were not heard of for longer than `gone`, and names them.
    pub(super) fn expire(&mut self, gone: Duration, now: Instant) -> Vec<NodeId> {
        let over = self.0.iter().filter(|(_, watcher)| now.since(watcher.heard) > gone);
        let over: Vec<NodeId> = over.map(|(gateway, _)| *gateway).collect();
        for gateway in &over {
            self.0.remove(gateway);
        }
        over
    }
}
