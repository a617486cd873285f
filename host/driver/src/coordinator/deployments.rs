//! Deployments on their way: compiled by every worker, sequenced, durable, known to the gateways.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::control::Control;
use styx_protocol::deployment::Digest;
use styx_protocol::ids::NodeId;

use crate::time::Instant;

/// A worker that is silent about a component for so long is told again: what it was told, or has said, may not have been
/// kept for it.
const AGAIN: Duration = Duration::from_secs(5);

/// All deployments that somebody waits for, in the order in which they came.
#[derive(Debug)]
pub(super) struct Deployments<W> {
    preparing: VecDeque<Preparing<W>>,
    announcing: VecDeque<Announcing<W>>,
}

/// A deployment whose components are being compiled everywhere.
#[derive(Debug)]
struct Preparing<W> {
    control: Control,
    waiter: W,
    since: Instant,
    /// What is not compiled yet, and where; `None` until the workers of this generation were told.
    missing: Option<BTreeSet<(NodeId, Digest)>>,
    /// When they were told last.
    told: Instant,
}

/// A deployment that is durable or refused, before its waiter knows.
#[derive(Debug)]
struct Announcing<W> {
    waiter: W,
    result: Result<(), Abort>,
    since: Instant,
    /// Gateways that know this version of the catalog, or a later one, know of it.
    version: u64,
}

impl<W> Default for Deployments<W> {
    fn default() -> Self {
        Deployments { preparing: VecDeque::new(), announcing: VecDeque::new() }
    }
}

impl<W> Deployments<W> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.preparing.len() + self.announcing.len()
    }

    /// Another one has come.
    pub(super) fn add(&mut self, control: Control, waiter: W, now: Instant) {
        self.preparing.push_back(Preparing { control, waiter, since: now, missing: None, told: now });
    }

    /// A generation begins: what its workers have compiled is not known.
    pub(super) fn restart(&mut self) {
        self.preparing.iter_mut().for_each(|preparing| preparing.missing = None);
    }

    /// What workers must be told to compile that they were not told yet.
    pub(super) fn prepare(&mut self, workers: &[NodeId], now: Instant) -> Vec<(NodeId, Digest)> {
        let mut orders = Vec::new();
        for preparing in self.preparing.iter_mut().filter(|preparing| preparing.missing.is_none()) {
            let mut missing = BTreeSet::new();
            if let Some(deployment) = preparing.control.deployment() {
                for component in &deployment.components {
                    missing.extend(workers.iter().map(|worker| (*worker, component.digest)));
                }
            }
            orders.extend(missing.iter().copied());
            (preparing.missing, preparing.told) = (Some(missing), now);
        }
        orders
    }

    /// What workers were told to compile and have said nothing of for long.
    pub(super) fn overdue(&mut self, now: Instant) -> BTreeSet<(NodeId, Digest)> {
        let mut overdue = BTreeSet::new();
        for preparing in self.preparing.iter_mut().filter(|preparing| now.since(preparing.told) > AGAIN) {
            preparing.told = now;
            overdue.extend(preparing.missing.iter().flatten());
        }
        overdue
    }

    /// What a worker was told to compile, and has not.
    pub(super) fn missing(&self, worker: NodeId) -> Vec<Digest> {
        let missing = self.preparing.iter().filter_map(|preparing| preparing.missing.as_ref()).flatten();
        missing.filter(|(node, _)| *node == worker).map(|(_, digest)| *digest).collect()
    }

    /// A worker has compiled a component, or cannot: then those that need it have failed.
    pub(super) fn prepared(&mut self, worker: NodeId, digest: Digest, result: Result<(), String>) -> Vec<(W, Abort)> {
        let mut failed = Vec::new();
        for preparing in std::mem::take(&mut self.preparing) {
            let mut preparing = preparing;
            let named = preparing.missing.as_mut().is_some_and(|missing| missing.remove(&(worker, digest)));
            match &result {
                Err(error) if named => {
                    let abort = Abort::new(Code::GuestTrap, format!("worker {worker} cannot load it: {error}"));
                    failed.push((preparing.waiter, abort));
                }
                _ => self.preparing.push_back(preparing),
            }
        }
        failed
    }

    /// The next one, if all workers have compiled what it needs.
    pub(super) fn next_ready(&mut self) -> Option<(Control, W)> {
        let ready = |next: &mut Preparing<W>| next.missing.as_ref().is_some_and(BTreeSet::is_empty);
        self.preparing.pop_front_if(ready).map(|next| (next.control, next.waiter))
    }

    /// One is durable, with this version of the catalog, or refused.
    pub(super) fn controlled(&mut self, waiter: W, result: Result<(), Abort>, version: u64, now: Instant) {
        self.announcing.push_back(Announcing { waiter, result, since: now, version });
    }

    /// Those of which all gateways know that know `known`, or that have waited for `patience`.
    pub(super) fn announced(&mut self, known: u64, patience: Duration, now: Instant) -> Option<(W, Result<(), Abort>)> {
        let over = |next: &mut Announcing<W>| next.version <= known || now.since(next.since) > patience;
        self.announcing.pop_front_if(over).map(|next| (next.waiter, next.result))
    }

    /// Drops those that have waited for their components for longer than `patience`: they have failed.
    pub(super) fn expire(&mut self, patience: Duration, now: Instant) -> Vec<(W, Abort)> {
        let message = "workers took too long to make the deployment's components ready; try again";
        let over = |next: &mut Preparing<W>| now.since(next.since) > patience;
        let expired = std::iter::from_fn(|| self.preparing.pop_front_if(over));
        expired.map(|next| (next.waiter, Abort::new(Code::Overloaded, message))).collect()
    }
}

#[cfg(test)]
mod tests {
    use styx_protocol::deployment::{Component, Deployment, Limits};
    use styx_protocol::ids::Timestamp;

    use super::*;

    #[test]
    fn workers_of_the_next_generation_are_told_what_to_compile_though_those_of_the_last_one_were() {
        let digest = Digest([7; 32]);
        let components = vec![Component { name: "c".into(), digest, size: 1, sdk: "none".into() }];
        let deployment = Deployment {
            id: "dp_1".into(),
            app: "app".into(),
            created: Timestamp(0),
            components,
            operators: vec![],
            limits: Limits::default(),
            interface: Default::default(),
        };
        let mut deployments = Deployments::default();
        deployments.add(Control::Deploy(deployment), (), Instant(0));
        let [one, other] = [1, 2].map(NodeId);
        assert_eq!(deployments.prepare(&[one], Instant(0)), [(one, digest)]);
        assert_eq!(deployments.prepare(&[one, other], Instant(7)), [], "each generation is told once");
        deployments.restart();
        assert_eq!(deployments.missing(one), [], "it is not known what it has");
        assert_eq!(deployments.prepare(&[one, other], Instant(7)), [(one, digest), (other, digest)]);

        let at = |past: u64| Instant(7).after(AGAIN).after(Duration::from_micros(past));
        assert_eq!(deployments.overdue(at(0)), BTreeSet::new());
        assert!(deployments.prepared(one, digest, Ok(())).is_empty());
        assert_eq!(
            deployments.overdue(at(1)),
            BTreeSet::from([(other, digest)]),
            "who is silent for long is told again"
        );
        assert_eq!(deployments.overdue(at(2)), BTreeSet::new(), "and not at once");
    }

    fn removal(app: &str) -> Control {
        Control::Remove(app.to_owned())
    }

    #[test]
    fn deployments_are_sequenced_in_the_order_in_which_they_came_once_their_workers_were_told() {
        let mut deployments = Deployments::default();
        for (at, app) in ["a", "b"].into_iter().enumerate() {
            deployments.add(removal(app), at, Instant(0));
        }
        assert!(deployments.next_ready().is_none(), "the generation does not know of them");
        assert_eq!((deployments.prepare(&[NodeId(1)], Instant(0)), deployments.len()), (vec![], 2));
        assert_eq!(deployments.next_ready(), Some((removal("a"), 0)));
        assert_eq!(deployments.next_ready(), Some((removal("b"), 1)));
        assert!(deployments.next_ready().is_none() && deployments.len() == 0);
    }

    #[test]
    fn one_is_told_when_gateways_know_it_or_have_had_time_to_and_none_before_another() {
        let patience = Duration::from_micros(10);
        let mut deployments = Deployments::default();
        deployments.controlled("first", Ok(()), 5, Instant(0));
        deployments.controlled("second", Ok(()), 3, Instant(5));
        assert_eq!(deployments.len(), 2);
        assert_eq!(deployments.announced(4, patience, Instant(10)), None);
        assert_eq!(deployments.announced(5, patience, Instant(0)), Some(("first", Ok(()))));
        assert_eq!(deployments.announced(2, patience, Instant(15)), None);
        assert_eq!(deployments.announced(2, patience, Instant(16)), Some(("second", Ok(()))));
        assert_eq!(deployments.announced(9, patience, Instant(99)), None);
    }

    #[test]
    fn whoever_waits_too_long_for_workers_is_told() {
        let patience = Duration::from_micros(10);
        let mut deployments = Deployments::default();
        deployments.add(removal("a"), "first", Instant(0));
        deployments.add(removal("b"), "second", Instant(1));
        assert!(deployments.expire(patience, Instant(10)).is_empty());
        let over = deployments.expire(patience, Instant(11));
        assert_eq!(
            over.into_iter().map(|(waiter, abort)| (waiter, abort.code)).collect::<Vec<_>>(),
            [("first", Code::Overloaded)]
        );
        assert_eq!(deployments.len(), 1);
    }
}
