//! Leader search: finds the one of several coordinators that leads.
//!
//! A coordinator that does not lead refuses whoever dials it, or says nothing. So a worker or a
//! gateway dials one after the other until something is heard, and again when nothing is any more. The
//! connection to the one before is given up then: a process that is only paused still has it, and what
//! it may say later is of no use.

use std::time::Duration;

use crate::COORDINATOR;
use crate::diagnostic::Diagnostic;
use crate::network::{NetworkEvent, Refusal};
use crate::time::Instant;

/// A coordinator that leads is never silent for so long.
const SILENCE: Duration = Duration::from_secs(1);

/// Time within which a process shakes hands; with every try it may take a little longer, on a machine
/// that is busy.
const HANDSHAKE: Duration = Duration::from_millis(300);
const HANDSHAKE_MORE: Duration = Duration::from_millis(20);

/// After so many in vain people are told: a takeover takes fewer.
const TELL: u32 = 50;

/// Each is dialed for so long at least.
const PAUSE: Duration = Duration::from_millis(200);

/// A process that did not review for so long does not know how silent it was.
const ASLEEP: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct LeaderSearch {
    addresses: Vec<String>,
    at: usize,
    dialed: Instant,
    /// When something was heard last, or the silence began to count.
    heard: Instant,
    connected: bool,
    /// How many were dialed since one was connected.
    tries: u32,
    /// It cannot be reached, or does not lead.
    useless: bool,
    reviewed: Instant,
}

/// Something to be done about the coordinator's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchEffect {
    /// Dial the coordinator at this address, instead of where it was before.
    Redirect(String),
    /// Something for people.
    Diagnostic(Diagnostic),
}

impl LeaderSearch {
    /// A search that begins with the first of the addresses, which is dialed already.
    ///
    /// # Panics
    /// There is no address.
    pub fn new(now: Instant, addresses: Vec<String>) -> Self {
        assert!(!addresses.is_empty(), "there is a coordinator");
        LeaderSearch {
            addresses,
            at: 0,
            dialed: now,
            heard: now,
            connected: false,
            tries: 0,
            useless: false,
            reviewed: now,
        }
    }

    /// Takes note of what the network says about the coordinator.
    pub fn on_event(&mut self, now: Instant, event: &NetworkEvent, effects: &mut Vec<SearchEffect>) {
        match event {
            NetworkEvent::Message { from: COORDINATOR, .. } | NetworkEvent::Control { from: COORDINATOR, .. } => {
                (self.heard, self.useless) = (now, false);
            }
            NetworkEvent::Connected { peer: COORDINATOR, .. } => {
                (self.heard, self.connected, self.useless, self.tries) = (now, true, false, 0);
                let message = format!("connected to the coordinator at {}", self.addresses[self.at]);
                effects.push(SearchEffect::Diagnostic(Diagnostic::info(message)));
            }
            // Without one, it is the connection that was given up.
            NetworkEvent::Lost { peer: COORDINATOR, .. } => {
                self.useless |= std::mem::take(&mut self.connected);
            }
            NetworkEvent::Unreached { peer: COORDINATOR, .. }
            | NetworkEvent::Refused { peer: COORDINATOR, refusal: Refusal::Standby, .. } => self.useless = true,
            _ => {}
        }
    }

    /// Dials the next one, if it is time. Everything that has come must have been heard.
    pub fn review(&mut self, now: Instant, effects: &mut Vec<SearchEffect>) {
        if now.since(std::mem::replace(&mut self.reviewed, now)) > ASLEEP {
            self.heard = now;
        }
        let patience = if self.connected { SILENCE } else { SILENCE.min(HANDSHAKE + HANDSHAKE_MORE * self.tries) };
        let silent = now.since(self.heard) > patience;
        if self.addresses.len() < 2 || !(self.useless || silent) || now.since(self.dialed) < PAUSE {
            return;
        }
        (self.at, self.tries) = ((self.at + 1) % self.addresses.len(), self.tries + 1);
        if self.tries == TELL {
            let message = format!("none of the coordinators at {} leads; looking on", self.addresses.join(", "));
            effects.push(SearchEffect::Diagnostic(Diagnostic::warn(message)));
        }
        effects.push(SearchEffect::Redirect(self.addresses[self.at].clone()));
        (self.dialed, self.heard, self.connected, self.useless) = (now, now, false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant(millis * 1000)
    }

    /// Reviews every 10 ms until a time; gives when which address was dialed.
    fn dialed(search: &mut LeaderSearch, from: u64, until: u64) -> Vec<(u64, String)> {
        let mut dialed = Vec::new();
        for at in (from..=until).step_by(10) {
            let mut effects = Vec::new();
            search.review(ms(at), &mut effects);
            dialed.extend(effects.into_iter().filter_map(|effect| match effect {
                SearchEffect::Redirect(address) => Some((at, address)),
                SearchEffect::Diagnostic(_) => None,
            }));
        }
        dialed
    }

    fn search(addresses: &[&str]) -> LeaderSearch {
        LeaderSearch::new(ms(0), addresses.iter().map(|address| (*address).to_owned()).collect())
    }

    #[test]
    fn the_only_coordinator_is_waited_for() {
        assert_eq!(dialed(&mut search(&["a"]), 10, 5000), []);
    }

    #[test]
    fn a_standby_is_left_at_once_and_a_silent_one_after_a_while() {
        let mut two = search(&["a", "b"]);
        let refused = NetworkEvent::Refused {
            peer: COORDINATOR,
            refusal: Refusal::Standby,
            reason: "standby".into(),
            message: "not me".into(),
        };
        two.on_event(ms(5), &refused, &mut Vec::new());
        assert_eq!(dialed(&mut two, 10, 450), [(200, "b".to_owned())], "not sooner than the pause");
        assert_eq!(dialed(&mut two, 460, 600), [(530, "a".to_owned())], "the second says nothing");
    }

    #[test]
    fn a_leader_that_falls_silent_is_left_but_not_after_a_sleep_of_ones_own() {
        let mut two = search(&["a", "b"]);
        two.on_event(ms(10), &NetworkEvent::Connected { peer: COORDINATOR, restarted: false }, &mut Vec::new());
        assert_eq!(dialed(&mut two, 20, 1000), []);
        // The process slept; what came meanwhile has not been heard yet.
        assert_eq!(dialed(&mut two, 9000, 9900), []);
        assert_eq!(dialed(&mut two, 9910, 10_050), [(10_010, "b".to_owned())]);
    }
}
