//! Joining: a worker gets ready before it becomes a member, so that nobody waits for what it compiles, and owns nothing at
//! first. It gets its share of the partitions by a migration, which is planned by whoever knows what they weigh.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use styx_planted::{Bug, planted};
use styx_protocol::deployment::Digest;
use styx_protocol::ids::NodeId;
use styx_protocol::membership::{self, Hello};

use super::CoordinatorDriver;
use super::io::Effect;
use super::leader::LeaderState;
use super::step::Step;
use crate::diagnostic::Diagnostic;
use crate::time::Instant;
use crate::wire::Envelope;

/// What a candidate was told to compile it is told again after this time: it may be lost.
const TELL_AGAIN: Duration = Duration::from_secs(2);

/// A share that came to nothing is wanted again after this time at most.
const WANT_AGAIN_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(super) struct Joining {
    candidates: BTreeMap<NodeId, Candidate>,
    shares: Shares,
}

/// A worker that is no member yet.
#[derive(Debug)]
struct Candidate {
    life: u64,
    compiled: BTreeSet<Digest>,
    told: Option<Instant>,
}

/// When shares are wanted for members that have none.
#[derive(Debug, Default)]
struct Shares {
    /// Not before, and how long the pause was.
    pause: Option<(Instant, Duration)>,
    /// Somebody did not want them.
    declined: bool,
}

/// What a candidate still lacks.
#[derive(Debug, PartialEq, Eq)]
struct Lack {
    /// It is to be told to compile these now.
    tell: Vec<Digest>,
    is_ready: bool,
    /// It has not been told before.
    is_new: bool,
}

impl Joining {
    /// A candidate is there; these are the components that it must have compiled.
    fn heard(&mut self, node: NodeId, life: u64, needed: &BTreeSet<Digest>, now: Instant) -> Lack {
        let new = || Candidate { life, compiled: BTreeSet::new(), told: None };
        let candidate = self.candidates.entry(node).or_insert_with(new);
        if candidate.life != life {
            *candidate = new();
        }
        let missing: Vec<Digest> = needed.difference(&candidate.compiled).copied().collect();
        let is_ready = missing.is_empty();
        let is_new = candidate.told.is_none();
        let is_due = candidate.told.is_none_or(|told| now.since(told) >= TELL_AGAIN);
        let tell = if is_due && !is_ready { missing } else { Vec::new() };
        if !tell.is_empty() {
            candidate.told = Some(now);
        }
        Lack { tell, is_ready, is_new }
    }

    /// Whether it was a candidate in a generation that is over.
    fn is_candidate(&self, node: NodeId, life: u64) -> bool {
        self.candidates.get(&node).is_some_and(|candidate| candidate.life == life)
    }

    /// A worker has compiled a component.
    pub(super) fn compiled(&mut self, node: NodeId, digest: Digest) {
        if let Some(candidate) = self.candidates.get_mut(&node) {
            candidate.compiled.insert(digest);
        }
    }

    /// A generation begins with these.
    pub(super) fn begin(&mut self, members: &[NodeId]) {
        members.iter().for_each(|member| drop(self.candidates.remove(member)));
        self.shares = Shares::default();
    }

    /// Nobody is to have a share in this generation that was not given one by hand.
    pub(super) fn decline_shares(&mut self) {
        self.shares.declined = true;
    }

    /// Whether it is time to want shares, after `pause` at first and then after ever longer ones.
    fn want_shares(&mut self, pause: Duration, now: Instant) -> bool {
        let (due, last) = self.shares.pause.unwrap_or((now, pause / 2));
        if self.shares.declined || now < due {
            return false;
        }
        let next = (2 * last).min(WANT_AGAIN_MAX);
        self.shares.pause = Some((now.after(next), next));
        true
    }
}

impl<W, R> CoordinatorDriver<W, R> {
    /// A worker says hello that may be no member yet: it is not to be one before it has compiled what is deployed.
    pub(super) fn candidate(&mut self, node: NodeId, hello: &Hello, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref() else {
            // What is deployed is not known: whoever is there must do, but for those who are known not to be ready.
            if !self.joining.is_candidate(node, hello.life) {
                self.membership(membership::Input::Hold(node, false), step);
            }
            return;
        };
        if leader.members().iter().any(|member| member.place == node && member.life == hello.life) {
            return self.membership(membership::Input::Hold(node, false), step);
        }
        // A replay goes through all that ever was deployed.
        if !leader.is_live() || hello.build != self.config.build {
            return;
        }
        let needed = leader.catalog().operators().map(|operator| operator.component).collect();
        let lack = self.joining.heard(node, hello.life, &needed, step.time());
        if lack.is_new && !lack.is_ready {
            let message = format!("a worker gets ready: it compiles {} components", lack.tell.len());
            step.log(Diagnostic::info(message).node(node));
        }
        for digest in lack.tell {
            step.control(node, Envelope::PrepareComponent(digest));
        }
        self.membership(membership::Input::Hold(node, !lack.is_ready), step);
    }

    /// Has members that came without partitions get their share, once nothing else moves.
    pub(super) fn proceed_with_shares(&mut self, step: &mut Step<'_, W, R>) {
        let moves = |leader: &LeaderState<W>| leader.is_migrating() || self.restarting.is_some();
        let Some(leader) = self.leader.as_deref().filter(|leader| leader.serves() && !moves(leader)) else {
            return;
        };
        let mut owns = vec![false; leader.seats().len()];
        leader.placement().owners().iter().for_each(|owner| owns[usize::from(owner.0)] = true);
        let mut newcomers = leader.seats().iter().zip(owns).filter(|(seat, owns)| !owns && !seat.emptied);
        if !self.config.shares || newcomers.next().is_none() || self.leaving.is_any(leader.members()) {
            return;
        }
        let (generation, version) = (leader.generation(), leader.placement().version());
        let among = |seat: &&styx_protocol::placement::Seat| !seat.emptied || planted(Bug::EmptiedFilled);
        let nodes = leader.seats().iter().filter(among).map(|seat| seat.node).collect();
        if self.joining.want_shares(self.config.timing.share_again, step.time()) {
            step.push(Effect::ShareOut { nodes, planned_on: (generation, version) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_told_what_it_lacks_until_it_has_it_and_anew_in_another_life() {
        let mut joining = Joining::default();
        let (node, [one, two]) = (NodeId(7), [Digest([1; 32]), Digest([2; 32])]);
        let needed = BTreeSet::from([one, two]);
        let lack = |tell: &[Digest], is_ready, is_new| Lack { tell: tell.to_vec(), is_ready, is_new };
        assert_eq!(joining.heard(node, 1, &needed, Instant(0)), lack(&[one, two], false, true));
        assert_eq!(joining.heard(node, 1, &needed, Instant(50_000)), lack(&[], false, false));
        joining.compiled(node, one);
        assert_eq!(joining.heard(node, 1, &needed, Instant(2_000_000)), lack(&[two], false, false), "it may be lost");
        joining.compiled(node, two);
        assert_eq!(joining.heard(node, 1, &needed, Instant(2_100_000)), lack(&[], true, false));
        assert_eq!(joining.heard(node, 2, &needed, Instant(2_200_000)), lack(&[one, two], false, true));
    }

    #[test]
    fn shares_are_wanted_again_after_ever_longer_pauses_unless_somebody_declines() {
        let (mut joining, pause) = (Joining::default(), Duration::from_secs(1));
        let wanted: Vec<u64> =
            (0..16).filter(|second| joining.want_shares(pause, Instant(second * 1_000_000))).collect();
        assert_eq!(wanted, [0, 1, 3, 7, 15]);
        joining.begin(&[]);
        assert!(joining.want_shares(pause, Instant(16_000_000)));
        joining.decline_shares();
        assert!(!joining.want_shares(pause, Instant(900_000_000)));
    }
}
