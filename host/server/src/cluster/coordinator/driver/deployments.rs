//! Deployments on their way: made ready on every worker, sequenced, durable, known to the gateways.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use styx_protocol::abort::{Abort, Code};
use styx_protocol::catalog::{Control, Digest};
use styx_protocol::machine::coordinator::Input;

use super::Driver;
use super::gateways::Watching;
use crate::handle::{Answer, Waiter};
use styx_driver::wire::Envelope;
use styx_transport::NodeId;

/// How long workers may take to make a component ready.
const READY_MAX: Duration = Duration::from_secs(300);

/// A gateway that was not heard of for so long is gone: they are new ones each time they start.
const GATEWAY_GONE: Duration = Duration::from_secs(30);

/// A gateway that was not heard of for so long is not waited for.
const GATEWAY_SLOW: Duration = Duration::from_secs(3);

/// How long a deployment that is durable waits for gateways to know of it.
const ANNOUNCE_MAX: Duration = Duration::from_secs(1);

/// A deployment that is durable, and who waits for it.
pub(in crate::cluster::coordinator) struct Announcing {
    /// Gateways that know this version of the catalog, or a later one, know of it.
    pub(super) known: u64,
    pub(super) since: Instant,
    pub(super) waiter: Waiter,
    pub(super) result: Result<(), Abort>,
}

/// A deployment whose components are being made ready everywhere.
pub(in crate::cluster::coordinator) struct Deploying {
    pub(super) control: Control,
    pub(super) waiter: Waiter,
    pub(super) missing: BTreeSet<(NodeId, Digest)>,
    pub(super) since: Instant,
}

impl Driver {
    /// Has every worker make a deployment's components ready; then it is sequenced.
    pub(super) fn deploy(&mut self, control: Control, waiter: Waiter) {
        self.deploying.push_back(Deploying { control, waiter, missing: BTreeSet::new(), since: Instant::now() });
        self.make_ready_everywhere();
    }

    pub(super) fn make_ready_everywhere(&mut self) {
        let Some(office) = &self.office else { return };
        let mut orders = Vec::new();
        for deploying in &mut self.deploying {
            if !deploying.missing.is_empty() {
                continue;
            }
            if let Control::Deploy(deployment) = &deploying.control {
                for component in &deployment.components {
                    deploying.missing.extend(office.members.iter().map(|member| (member.place, component.digest)));
                }
            }
            orders.extend(deploying.missing.iter().copied());
        }
        for (node, digest) in orders {
            self.control(node, &Envelope::PrepareComponent(digest));
        }
        self.sequence();
    }

    pub(super) fn readied(&mut self, node: NodeId, digest: Digest, result: Result<(), String>) {
        let mut failed = Vec::new();
        for (at, deploying) in self.deploying.iter_mut().enumerate() {
            if deploying.missing.remove(&(node, digest)) && result.is_err() {
                failed.push(at);
            }
        }
        if let Err(error) = result {
            for at in failed.into_iter().rev() {
                if let Some(deploying) = self.deploying.remove(at) {
                    let abort = Abort::new(Code::GuestTrap, format!("worker {node} cannot load it: {error}"));
                    deploying.waiter.answer(Answer::Controlled(Err(abort)));
                }
            }
        }
        self.sequence();
    }

    /// Sequences deployments, in order, whose components are ready everywhere.
    pub(super) fn sequence(&mut self) {
        while self.office.as_ref().is_some_and(|office| office.serves())
            && self.deploying.front().is_some_and(|deploying| deploying.missing.is_empty())
        {
            if let Some(Deploying { control, waiter, .. }) = self.deploying.pop_front() {
                self.step(Input::Control { control, waiter });
            }
        }
    }

    /// Tells those whose deployments the gateways know by now: whoever calls next finds them.
    pub(super) fn announce(&mut self) {
        let present = |watching: &&Watching| watching.heard.elapsed() < GATEWAY_SLOW;
        let versions = self.gateways.values().filter(present).map(|watching| watching.known.version);
        let known = versions.min().unwrap_or(u64::MAX);
        while self.announcing.front().is_some_and(|next| next.known <= known || next.since.elapsed() > ANNOUNCE_MAX) {
            if let Some(Announcing { waiter, result, .. }) = self.announcing.pop_front() {
                waiter.answer(Answer::Controlled(result));
            }
        }
    }

    pub(super) fn expire(&mut self) {
        self.announce();
        let gone = self.gateways.iter().filter(|(_, watching)| watching.heard.elapsed() > GATEWAY_GONE);
        for gateway in gone.map(|(gateway, _)| *gateway).collect::<Vec<_>>() {
            self.gateways.remove(&gateway);
            self.network.forget(gateway);
        }
        while self.deploying.front().is_some_and(|deploying| deploying.since.elapsed() > READY_MAX) {
            if let Some(deploying) = self.deploying.pop_front() {
                let message = "workers took too long to make the deployment's components ready; try again";
                deploying.waiter.answer(Answer::Controlled(Err(Abort::new(Code::Overloaded, message))));
            }
        }
    }
}
