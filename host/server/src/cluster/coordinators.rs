//! Where the coordinator is: one of several that may be, of which one leads and the others stand by.
//!
//! Who does not lead refuses whoever dials it, and says nothing. So a worker or a gateway dials one after the
//! other until something is heard, and again when nothing is any more. The connection to the one before is given
//! up then: a process that is only paused still has it, and what it may say later is of no use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::COORDINATOR;
use styx_transport::{Incoming, Network, Reason};

/// Who leads is never silent for so long.
const SILENCE: Duration = Duration::from_secs(1);

/// Whoever is there greets within this time; with every try it may take a little longer, on a machine that is busy.
const GREETING: Duration = Duration::from_millis(300);
const GREETING_MORE: Duration = Duration::from_millis(20);

/// After so many in vain people are told: a takeover takes fewer.
const TELL: u32 = 50;

/// Each is dialed for so long at least.
const PAUSE: Duration = Duration::from_millis(200);

/// Whoever did not look for so long does not know how silent it was.
const ASLEEP: Duration = Duration::from_millis(500);

/// See the module.
pub(crate) struct Coordinators {
    network: Arc<Network>,
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
    looked: Instant,
}

impl Coordinators {
    /// Dials the first of them.
    pub(crate) fn dial(network: Arc<Network>, addresses: Vec<String>) -> Self {
        let now = Instant::now();
        network.connect(COORDINATOR, addresses.first().expect("there is a coordinator").clone());
        Coordinators {
            network,
            addresses,
            at: 0,
            dialed: now,
            heard: now,
            connected: false,
            tries: 0,
            useless: false,
            looked: now,
        }
    }

    /// Takes note of what the network says about the coordinator.
    pub(crate) fn hear(&mut self, incoming: &Incoming) {
        match incoming {
            Incoming::Message { peer: COORDINATOR, .. } | Incoming::Control { peer: COORDINATOR, .. } => {
                (self.heard, self.useless) = (Instant::now(), false);
            }
            Incoming::Connected { peer: COORDINATOR, .. } => {
                (self.heard, self.connected, self.useless, self.tries) = (Instant::now(), true, false, 0);
                tracing::info!("connected to the coordinator at {}", self.addresses[self.at]);
            }
            // Without one, it is the connection that was given up.
            Incoming::Lost { peer: COORDINATOR, .. } => {
                self.useless |= std::mem::take(&mut self.connected);
            }
            Incoming::Unreached { peer: COORDINATOR, .. } => self.useless = true,
            Incoming::Refused { peer: COORDINATOR, reason, .. } if is_standby(reason) => self.useless = true,
            _ => {}
        }
    }

    /// Time goes on: dials the next one, if it is time. Everything that has come must have been heard.
    pub(crate) fn look(&mut self) {
        let now = Instant::now();
        if now.duration_since(std::mem::replace(&mut self.looked, now)) > ASLEEP {
            self.heard = now;
        }
        let patience = if self.connected { SILENCE } else { SILENCE.min(GREETING + GREETING_MORE * self.tries) };
        let silent = now.saturating_duration_since(self.heard) > patience;
        if self.addresses.len() < 2 || !(self.useless || silent) || now.duration_since(self.dialed) < PAUSE {
            return;
        }
        (self.at, self.tries) = ((self.at + 1) % self.addresses.len(), self.tries + 1);
        if self.tries == TELL {
            tracing::warn!("none of the coordinators at {} leads; looking on", self.addresses.join(", "));
        }
        self.network.redirect(COORDINATOR, self.addresses[self.at].clone());
        (self.dialed, self.heard, self.connected, self.useless) = (now, now, false, false);
    }
}

/// Whether this is why a coordinator refuses that does not lead.
pub(crate) fn is_standby(reason: &str) -> bool {
    Reason::named(reason) == Some(Reason::Standby)
}

#[cfg(test)]
mod tests {
    use super::*;
    use styx_transport::{Hello, NodeId, NodeKind, Options, Refusal};

    async fn coordinator(leads: bool) -> (Network, String) {
        let hello = Hello::new(NodeKind::Coordinator, COORDINATOR, "c", 0);
        let options = Options { listen: Some(([127, 0, 0, 1], 0).into()), ..Options::default() };
        let admit =
            move |_: &Hello, _: &Hello| if leads { Ok(()) } else { Err(Refusal::new(Reason::Standby, "stands by")) };
        let network = Network::start(hello, options, admit, |_| {}).await.unwrap();
        let address = network.address().unwrap().to_string();
        (network, address)
    }

    /// Looks for the coordinator among these until a connection has lasted for a while; how long it took.
    async fn finds(
        addresses: &[&str],
        network: Arc<Network>,
        heard: &crossbeam_channel::Receiver<Incoming>,
    ) -> Duration {
        let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        let (started, mut connected) = (Instant::now(), None);
        let mut coordinators = Coordinators::dial(network, addresses);
        while started.elapsed() < Duration::from_secs(20) {
            for incoming in heard.try_iter() {
                coordinators.hear(&incoming);
                match incoming {
                    Incoming::Connected { .. } => connected = Some(Instant::now()),
                    Incoming::Lost { .. } => connected = None,
                    _ => {}
                }
            }
            if let Some(connected) = connected.filter(|connected| connected.elapsed() > SILENCE / 2) {
                return connected - started;
            }
            coordinators.look();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("no coordinator was found");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_one_that_leads_is_found_behind_those_that_stand_by_are_gone_or_say_nothing() {
        let (_leader, leader) = coordinator(true).await;
        let (_standby, standby) = coordinator(false).await;
        // The system accepts for a process that is paused, which then says nothing.
        let paused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mute = paused.local_addr().unwrap().to_string();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        for (addresses, most) in [
            (vec![&*leader], 500),
            (vec![&*standby, &*leader], 1000),
            (vec![&*gone, &*leader], 1000),
            (vec![&*mute, &*leader], 1500),
            (vec![&*gone, &*standby, &*mute, &*leader], 2500),
        ] {
            let (events, heard) = crossbeam_channel::unbounded();
            let hello = Hello::new(NodeKind::Gateway, NodeId(2), "g", 0);
            let hear = move |incoming| drop(events.send(incoming));
            let network = Network::start(hello, Options::default(), |_, _| Ok(()), hear).await.unwrap();
            let took = finds(&addresses, Arc::new(network), &heard).await;
            assert!(took < Duration::from_millis(most), "{addresses:?}: {took:?}");
        }
    }
}
