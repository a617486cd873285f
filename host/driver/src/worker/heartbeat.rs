//! Heartbeat: what a worker says of itself to the coordinator, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use styx_planted::{Bug, planted};
use styx_protocol::ids::{Generation, NodeId, WorkerId};
use styx_protocol::membership::{Beat, Build, Hello, Member};

use crate::time::{Instant, earliest};

/// Of nodes to or from which messages are lost: reported at once, until the generation is over.
const BROKEN: Instant = Instant(0);

/// Time between two heartbeats.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(50);

/// The same, while somebody waits for what the coordinator answers.
pub(super) const HURRY: Duration = Duration::from_millis(5);

/// A member that was not reachable for so long is reported to the coordinator.
pub(super) const SILENT: Duration = Duration::from_millis(1500);

/// How long a worker that is to end waits to be released.
pub(super) const LEAVE_MAX: Duration = Duration::from_secs(30);

/// How long the last answers may travel.
pub(super) const LINGER: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Heartbeat {
    member: Member,
    build: Build,
    /// The next one is due then.
    due: Instant,
    /// The last one was said then.
    said: Instant,
    /// Nodes that cannot be reached, and when that is to be reported.
    unreachable: BTreeMap<NodeId, Instant>,
    /// The coordinator can be reached.
    attended: bool,
    /// If the process is to end: how long it waits to be released.
    leaving: Option<Instant>,
}

impl Heartbeat {
    /// The heartbeat of a process in its `life`, which says hello at once.
    pub(super) fn new(now: Instant, life: u64, build: Build) -> Self {
        Heartbeat {
            member: Member::new(life, build.clone()),
            build,
            due: now,
            said: now,
            unreachable: BTreeMap::new(),
            attended: false,
            leaving: None,
        }
    }

    /// Begins another life, as if the process had been started anew: the coordinator counts on nothing that
    /// was before.
    pub(super) fn begin_life(&mut self, life: u64) {
        self.member = Member::new(life, self.build.clone());
        if self.leaving.is_some() {
            self.member.leave();
        }
    }

    /// The next heartbeat, if it is due.
    pub(super) fn hello(&mut self, now: Instant, workers: &BTreeMap<NodeId, WorkerId>) -> Option<Hello> {
        if now < self.due {
            return None;
        }
        (self.said, self.due) = (now, now.after(HEARTBEAT));
        let silent = self.unreachable.iter().filter(|(_, report)| now > **report);
        Some(self.member.hello(silent.filter_map(|(node, _)| workers.get(node).copied()).collect()))
    }

    /// Somebody waits for what the coordinator answers to the next one.
    pub(super) fn hurry(&mut self) {
        self.due = self.due.min(self.said.after(HURRY));
    }

    /// When something is due.
    pub(super) fn wake(&self) -> Instant {
        earliest(Some(self.due), self.leaving).unwrap_or(self.due)
    }

    pub(super) fn connected(&mut self, node: NodeId) {
        self.attended |= node == crate::COORDINATOR;
        // What is lost stays lost, however many connections follow.
        if self.unreachable.get(&node).is_some_and(|report| *report > BROKEN || planted(Bug::BrokenForgotten)) {
            self.unreachable.remove(&node);
        }
    }

    pub(super) fn lost(&mut self, now: Instant, node: NodeId) {
        self.attended &= node != crate::COORDINATOR;
        self.unreachable.entry(node).or_insert_with(|| now.after(SILENT));
    }

    /// Messages to or from a node are lost: only a new generation helps.
    pub(super) fn broken(&mut self, node: NodeId) {
        self.unreachable.insert(node, BROKEN);
    }

    /// A generation begins, with connections that were never lost.
    pub(super) fn restart(&mut self) {
        self.unreachable.clear();
    }

    /// Takes the coordinator's answer; gives whether the own generation is over.
    pub(super) fn beat(&mut self, beat: Beat) -> bool {
        self.member.beat(beat)
    }

    /// Takes an invitation; gives whether to follow it.
    pub(super) fn invited(&mut self, generation: Generation, life: u64) -> bool {
        self.member.invited(generation, life)
    }

    /// Asks to be released from now on.
    pub(super) fn leave(&mut self, now: Instant) {
        self.leaving = Some(now.after(LEAVE_MAX));
        self.member.leave();
        self.due = now;
    }

    /// The coordinator has released this worker. What it has just said is on its way.
    pub(super) fn released(&mut self, now: Instant) {
        self.leaving = self.leaving.map(|until| until.min(now.after(LINGER)));
    }

    /// Tells whether the process has waited long enough to be released, or for nobody.
    pub(super) fn may_end(&self, now: Instant) -> bool {
        self.leaving.is_some_and(|until| !self.attended || until <= now)
    }
}

#[cfg(test)]
mod tests {
    use styx_protocol::ids::EngineHash;

    use super::*;

    const OTHER: NodeId = NodeId(20);

    fn heartbeat() -> Heartbeat {
        Heartbeat::new(Instant(1000), 7, Build { version: "1".into(), engine: EngineHash(1) })
    }

    /// Who is silent, if a heartbeat is due.
    fn hello(heartbeat: &mut Heartbeat, now: Instant) -> Option<Vec<WorkerId>> {
        heartbeat.hello(now, &BTreeMap::from([(OTHER, WorkerId(1))])).map(|hello| hello.silent)
    }

    fn micros(duration: Duration) -> u64 {
        duration.as_micros() as u64
    }

    #[test]
    fn one_comes_after_the_other_and_sooner_when_somebody_waits() {
        let mut heartbeat = heartbeat();
        assert_eq!((hello(&mut heartbeat, Instant(999)), heartbeat.wake()), (None, Instant(1000)));
        assert_eq!(hello(&mut heartbeat, Instant(1000)), Some(vec![]));
        let next = 1000 + micros(HEARTBEAT);
        assert_eq!((hello(&mut heartbeat, Instant(next - 1)), heartbeat.wake()), (None, Instant(next)));
        heartbeat.hurry();
        let hurried = Instant(1000 + micros(HURRY));
        assert_eq!(heartbeat.wake(), hurried);
        assert_eq!(hello(&mut heartbeat, hurried), Some(vec![]));
    }

    #[test]
    fn a_node_is_reported_when_it_was_silent_for_longer_than_it_may_since_it_was_lost_first() {
        let mut heartbeat = heartbeat();
        let report = 1000 + micros(SILENT);
        heartbeat.lost(Instant(1000), OTHER);
        heartbeat.lost(Instant(5000), OTHER);
        heartbeat.lost(Instant(1000), NodeId(99));
        assert_eq!(hello(&mut heartbeat, Instant(report)), Some(vec![]));
        let next = report + micros(HEARTBEAT);
        assert_eq!(hello(&mut heartbeat, Instant(next)), Some(vec![WorkerId(1)]), "of others only members");
        heartbeat.connected(OTHER);
        assert_eq!(hello(&mut heartbeat, Instant(2 * next)), Some(vec![]));
        heartbeat.broken(OTHER);
        heartbeat.connected(OTHER);
        assert_eq!(hello(&mut heartbeat, Instant(3 * next)), Some(vec![WorkerId(1)]), "what is lost stays lost");
        heartbeat.restart();
        assert_eq!(hello(&mut heartbeat, Instant(4 * next)), Some(vec![]));
    }

    #[test]
    fn who_leaves_waits_to_be_released_as_long_as_somebody_is_there_to_do_it() {
        let mut heartbeat = heartbeat();
        assert!(!heartbeat.may_end(Instant(9_000_000)), "nobody told it to");
        hello(&mut heartbeat, Instant(1000));
        heartbeat.leave(Instant(1010));
        assert_eq!((heartbeat.wake(), heartbeat.may_end(Instant(1010))), (Instant(1010), true), "there is nobody");
        heartbeat.connected(OTHER);
        assert!(heartbeat.may_end(Instant(1010)), "another worker is nobody");
        heartbeat.connected(crate::COORDINATOR);
        let end = 1010 + micros(LEAVE_MAX);
        assert!(!heartbeat.may_end(Instant(end - 1)) && heartbeat.may_end(Instant(end)));
        heartbeat.released(Instant(2000));
        let end = 2000 + micros(LINGER);
        assert!(!heartbeat.may_end(Instant(end - 1)) && heartbeat.may_end(Instant(end)));
        heartbeat.released(Instant(3000));
        assert!(heartbeat.may_end(Instant(end)), "what was said first stands");
        heartbeat.lost(Instant(2001), OTHER);
        assert!(!heartbeat.may_end(Instant(2001)));
        heartbeat.lost(Instant(2001), crate::COORDINATOR);
        assert!(heartbeat.may_end(Instant(2001)));
        heartbeat.begin_life(8);
        let leaves = heartbeat.hello(Instant(9_000_000), &BTreeMap::new()).map(|hello| (hello.life, hello.leaving));
        assert_eq!(leaves, Some((8, true)), "in another life, too");
    }
}
