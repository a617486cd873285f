//! The network between nodes: it delays, loses, doubles and reorders packets.

use super::Environment;
use crate::event::Event;
use crate::wire::Packet;

impl Environment {
    /// Sends a packet, which may arrive never, once, or twice.
    pub fn send(&mut self, from: usize, to: usize, packet: Packet) {
        let cluster = &self.plan.cluster;
        let (delay, loss, doubles) = (cluster.network, cluster.loss, cluster.doubles);
        if !self.calm {
            let now = self.queue.now();
            if self.wire.is_cut(from, to, now) || self.random.chance(loss) {
                self.figures.lost += 1;
                return;
            }
            if doubles > 0 && self.random.chance(doubles) {
                let delay = self.delay(delay) * 3;
                self.queue.after(&mut self.random, delay, Event::Packet(from, to, packet.clone()));
            }
        }
        let delay = self.delay(delay);
        self.queue.after(&mut self.random, delay, Event::Packet(from, to, packet));
    }
}
