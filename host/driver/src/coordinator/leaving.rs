//! Leaving: a worker that is to end gives its partitions away first, while everything goes on. The membership does not
//! hear that it wants to go before it has none, or has waited for too long.

use std::collections::BTreeMap;
use std::time::Duration;

use styx_planted::{Bug, planted};
use styx_protocol::ids::NodeId;
use styx_protocol::machine::coordinator::Input;
use styx_protocol::membership::{Hello, Seated};

use super::CoordinatorDriver;
use super::migrations::MigrationOptions;
use super::placing;
use super::step::Step;
use crate::diagnostic::Diagnostic;
use crate::time::Instant;

/// Workers that want to go, each with its life and since when.
#[derive(Debug, Default)]
pub(super) struct Leaving(BTreeMap<NodeId, (u64, Instant)>);

impl Leaving {
    /// A worker wants to go or not; whether that is news.
    fn heard(&mut self, node: NodeId, hello: &Hello, now: Instant) -> bool {
        let known = self.0.get(&node).is_some_and(|(life, _)| *life == hello.life);
        if !hello.leaving {
            self.0.remove(&node);
        } else if !known {
            self.0.insert(node, (hello.life, now));
        }
        hello.leaving && !known
    }

    /// Whether a member wants to go.
    pub(super) fn has(&self, member: &Seated<NodeId>) -> bool {
        self.0.get(&member.place).is_some_and(|(life, _)| *life == member.life)
    }

    /// Whether any of these wants to go.
    pub(super) fn is_any(&self, members: &[Seated<NodeId>]) -> bool {
        members.iter().any(|member| self.has(member))
    }

    fn is_overdue(&self, node: NodeId, patience: Duration, now: Instant) -> bool {
        self.0.get(&node).is_some_and(|(_, since)| now.since(*since) >= patience)
    }
}

impl<W, R> CoordinatorDriver<W, R> {
    /// A worker says hello; whether the membership is to hear that it wants to go.
    pub(super) fn may_leave(&mut self, node: NodeId, hello: &Hello, step: &mut Step<'_, W, R>) -> bool {
        let is_new = self.leaving.heard(node, hello, step.time());
        if !hello.leaving {
            return false;
        }
        let Some(leader) = self.leader.as_deref().filter(|leader| leader.serves()) else { return true };
        let Some(worker) = leader.worker(node) else { return true };
        let stays = leader.members().iter().any(|member| !self.leaving.has(member));
        let owns = leader.placement().owners().contains(&worker) || leader.is_migrating();
        let patience = self.config.timing.leave_max;
        let waits = stays && owns && !self.leaving.is_overdue(node, patience, step.time());
        if is_new && waits {
            let message = "a worker leaves: its partitions go to the others first";
            step.log(Diagnostic::info(message).node(node));
        }
        !waits
    }

    /// Has partitions of members that want to go migrate to those that stay.
    pub(super) fn proceed_with_leaving(&mut self, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref().filter(|leader| leader.serves()) else { return };
        if !self.leaving.is_any(leader.members()) || self.restarting.is_some() {
            return;
        }
        let (patience, now) = (self.config.timing.leave_max, step.time());
        let goes = |at: &u16| self.leaving.has(&leader.members()[usize::from(*at)]);
        let overdue = |at: u16| self.leaving.is_overdue(leader.members()[usize::from(at)].place, patience, now);
        if leader.is_migrating() {
            // What goes to one that is about to end would have to go on at once.
            let target = (0..leader.members().len() as u16).filter(goes).any(|at| self.migrations.gives_to(at));
            if target {
                self.machine(Input::CancelMigration, step);
            }
            return;
        }
        let workers = leader.members().len() as u16;
        let emptied: Vec<bool> = leader.seats().iter().map(|seat| seat.emptied).collect();
        let stay: Vec<u16> = (0..workers).filter(|at| !goes(at)).collect();
        let filled: Vec<u16> = stay.iter().copied().filter(|at| !emptied[usize::from(*at)]).collect();
        let takers = if filled.is_empty() || planted(Bug::EmptiedFilled) { stay } else { filled };
        let gone: Vec<u16> = (0..workers).filter(|at| goes(at) && !overdue(*at)).collect();
        if takers.is_empty() {
            return;
        }
        if let Some(owners) = placing::vacate(leader.placement().owners(), &gone, &takers) {
            self.begin_migration(owners, MigrationOptions { wait: false, ..MigrationOptions::default() }, None, step);
        }
    }
}

#[cfg(test)]
mod tests {
    use styx_protocol::ids::{EngineHash, Generation};
    use styx_protocol::membership::Build;

    use super::*;

    #[test]
    fn who_wants_to_go_is_waited_for_since_it_said_so_first_in_its_life() {
        let node = NodeId(1);
        let hello = |life, leaving| {
            let build = Build { version: "1".into(), engine: EngineHash(1) };
            Hello { life, build, generation: Generation(1), heard: 0, silent: vec![], leaving }
        };
        let member = |life| Seated { place: node, life };
        let overdue = |leaving: &Leaving, at| leaving.is_overdue(node, Duration::from_micros(10), Instant(at));
        let mut leaving = Leaving::default();
        assert!(!leaving.heard(node, &hello(1, false), Instant(99)) && !leaving.has(&member(1)));
        assert!(leaving.heard(node, &hello(1, true), Instant(100)));
        assert!(!leaving.heard(node, &hello(1, true), Instant(105)), "it has said so");
        assert_eq!([109, 110].map(|at| overdue(&leaving, at)), [false, true]);
        assert!(leaving.has(&member(1)) && !leaving.has(&member(2)) && leaving.is_any(&[member(2), member(1)]));
        assert!(leaving.heard(node, &hello(2, true), Instant(120)), "another process");
        assert_eq!([129, 130].map(|at| overdue(&leaving, at)), [false, true]);
        assert!(!leaving.heard(node, &hello(2, false), Instant(131)) && !overdue(&leaving, 999), "it stays");
    }
}
