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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_not_heard_of_is_waited_for_and_remembered_to_the_microsecond() {
        let (slow, gone) = (Duration::from_micros(10), Duration::from_micros(20));
        let version = |version| CatalogVersion { version, hash: 0 };
        let mut gateways = Gateways::default();
        assert_eq!(gateways.oldest_known(slow, Instant(100)), u64::MAX, "nobody need know");
        gateways.watch(NodeId(1), version(7), Instant(100));
        gateways.watch(NodeId(2), version(9), Instant(105));
        let known = |gateways: &Gateways, at| gateways.oldest_known(slow, Instant(at));
        assert_eq!([109, 110, 114, 115].map(|at| known(&gateways, at)), [7, 9, 9, u64::MAX]);
        assert_eq!(gateways.expire(gone, Instant(120)), []);
        assert_eq!(gateways.expire(gone, Instant(121)), [NodeId(1)]);
        assert_eq!(gateways.known().collect::<Vec<_>>(), [(NodeId(2), version(9))]);
        gateways.watch(NodeId(2), version(10), Instant(125));
        assert_eq!((gateways.expire(gone, Instant(126)), known(&gateways, 126)), (vec![], 10), "it was heard of again");
    }
}
