//! Connections as they are made, are slow, and end.

use styx_driver::network::Refusal;

use super::Environment;
use crate::event::{Event, Life};
use crate::network::{Dial, Happening, dial_timeout};

impl Environment {
    /// How long a frame travels.
    pub fn frame_delay(&mut self) -> u64 {
        let delay = self.delay(self.plan.cluster.network);
        if !self.calm && self.plan.cluster.spikes > 0 && self.random.chance(self.plan.cluster.spikes) {
            // A segment was lost, and is sent again.
            return delay + self.random.between(1_000, 250_000);
        }
        delay
    }

    /// A connection ends; both ends see it, unless one has ended it itself.
    pub fn close(&mut self, connection: u64, by: Option<Life>, why: &'static str) {
        let Some(ends) = self.network.close(connection) else { return };
        let now = self.queue.now();
        ends.iter().for_each(|end| self.causes.affects(end.node, now));
        for end in ends.into_iter().filter(|end| Some(*end) != by) {
            let delay = self.delay(self.plan.cluster.network);
            self.after(delay, Event::Network(end, Happening::Closed(connection, why)));
        }
    }

    /// What has become meanwhile of something that happens to a connection: one that was made may have ended.
    pub fn meanwhile(&self, happening: Happening) -> Happening {
        match happening {
            Happening::Connected { connection, peer, dialer, greeted, .. }
                if dialer != peer && !self.network.is_open(connection) =>
            {
                Happening::Undialed { peer, dialed: greeted, refusal: None, gone: false }
            }
            happening => happening,
        }
    }

    /// A call has come to nothing.
    pub fn hangs_up(&mut self, caller: Life, dial: &Dial, refusal: Option<Refusal>, gone: bool) {
        let delay = self.delay(self.plan.cluster.network);
        let (peer, dialed) = (dial.peer, dial.session);
        let delay = dial_timeout(gone || refusal.is_some(), delay);
        self.after(delay, Event::Network(caller, Happening::Undialed { peer, dialed, refusal, gone }));
    }

    /// A call is answered.
    pub fn connects(&mut self, caller: Life, dial: &Dial, called: Life, session: u64) {
        let delay = self.delay(self.plan.cluster.network);
        let now = self.queue.now();
        // Nothing comes on it before it is known.
        let connection = self.network.connect([caller, called], [now + delay + 1, now + 1]);
        let (peer, dialer) = (dial.peer, dial.caller);
        self.after(
            0,
            Event::Network(
                called,
                Happening::Connected { connection, peer: dial.caller, session: dial.session, dialer, greeted: session },
            ),
        );
        self.after(
            delay,
            Event::Network(caller, Happening::Connected { connection, peer, session, dialer, greeted: dial.session }),
        );
    }
}
