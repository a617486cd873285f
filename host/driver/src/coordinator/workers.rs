//! Workers that were heard of: who can be a member, where they are, whose connection has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use styx_protocol::ids::{Generation, NodeId};
use styx_protocol::membership::{self, Hello, Membership};

use super::config::CoordinatorConfig;
use crate::time::Instant;
use crate::wire::Member;

pub(super) type Actions = Vec<membership::Action<NodeId>>;

/// All workers that were heard of.
#[derive(Debug)]
pub(super) struct Workers {
    membership: Membership<NodeId>,
    addresses: BTreeMap<NodeId, String>,
    /// Nodes whose connection has ended, since then.
    cut_off: BTreeMap<NodeId, Instant>,
}

impl Workers {
    /// Nobody yet. `generation` is the highest one that was ever made durable.
    pub(super) fn new(config: &CoordinatorConfig, generation: Generation, now: Instant) -> Self {
        // Who comes late gets its partitions by a migration: those that were there are waited for.
        let seated = config.seating.as_ref().map_or(0, |seating| seating.seats.len());
        let expected = config.workers.max(seated);
        let membership = Membership::new(config.build.clone(), config.patience, generation, expected, clock(now));
        Workers { membership, addresses: BTreeMap::new(), cut_off: BTreeMap::new() }
    }

    /// The highest generation that is durable.
    pub(super) fn generation(&self) -> Generation {
        self.membership.generation()
    }

    #[must_use]
    pub(super) fn step(&mut self, now: Instant, input: membership::Input<NodeId>) -> Actions {
        let mut actions = Vec::new();
        self.membership.step(clock(now), input, &mut actions);
        actions
    }

    /// A heartbeat has come.
    #[must_use]
    pub(super) fn hello(&mut self, now: Instant, from: NodeId, hello: Hello, address: String) -> Actions {
        self.addresses.insert(from, address);
        self.step(now, membership::Input::Hello { from, hello })
    }

    /// Where a node is, if it has said so.
    pub(super) fn address(&self, node: NodeId) -> Option<&str> {
        self.addresses.get(&node).map(String::as_str)
    }

    /// A member as others must know it.
    pub(super) fn member(&self, node: NodeId) -> Member {
        Member { node, address: self.address(node).unwrap_or_default().to_owned() }
    }

    pub(super) fn connected(&mut self, node: NodeId) {
        self.cut_off.remove(&node);
    }

    /// The connection to a node has ended.
    pub(super) fn disconnected(&mut self, node: NodeId, now: Instant) {
        self.cut_off.insert(node, now);
    }

    /// Nodes that were cut off and have not come back within `patience`; each is named once.
    pub(super) fn given_up(&mut self, patience: Duration, now: Instant) -> Vec<NodeId> {
        let gone = self.cut_off.iter().filter(|(_, since)| now.since(**since) >= patience);
        let gone: Vec<NodeId> = gone.map(|(node, _)| *node).collect();
        for node in &gone {
            self.cut_off.remove(node);
        }
        gone
    }
}

/// The membership's clock is never 0, which stands for a beat that nobody has heard.
fn clock(now: Instant) -> u64 {
    now.0 + 1
}

#[cfg(test)]
mod tests {
    use styx_protocol::ids::EngineHash;
    use styx_protocol::membership::{Build, Patience};

    use super::*;

    #[test]
    fn who_was_cut_off_and_does_not_come_back_is_given_up_once() {
        let membership = Membership::new(
            Build { version: "1".into(), engine: EngineHash(1) },
            Patience { silent_us: 1, settle_us: 1, drain_us: 1 },
            Generation(0),
            1,
            1,
        );
        let mut workers = Workers { membership, addresses: BTreeMap::new(), cut_off: BTreeMap::new() };
        let patience = Duration::from_micros(10);
        workers.disconnected(NodeId(1), Instant(5));
        workers.disconnected(NodeId(2), Instant(5));
        workers.connected(NodeId(2));
        assert_eq!(workers.given_up(patience, Instant(14)), []);
        assert_eq!(workers.given_up(patience, Instant(15)), [NodeId(1)]);
        assert_eq!(workers.given_up(patience, Instant(99)), []);
    }
}
