//! A node's links to the others of its generation.

use std::collections::BTreeMap;

use styx_protocol::ids::WorkerId;
use styx_protocol::link::{Dropped, Frame, Limits, Link, Receipt};
use styx_protocol::message::{Message, Node as Peer};

use super::Outside;
use crate::check::{Checked, ensure};
use crate::wire::{Packet, Parcel};

/// See the module.
#[derive(Debug)]
pub(super) struct Links {
    me: usize,
    ends: BTreeMap<Peer, End>,
}

#[derive(Debug)]
struct End {
    node: usize,
    link: Link<Parcel>,
    /// How much the other end had acknowledged, and since when it is no more.
    progress: (u64, u64),
}

impl Links {
    /// Links of node `me`, on which nothing has been sent.
    pub(super) fn new(
        me: usize,
        generation: u64,
        peers: impl IntoIterator<Item = (Peer, usize)>,
        outside: &Outside,
    ) -> Self {
        let timeout_us = outside.plan.cluster.repeat;
        let limits = Limits { timeout_us, timeout_us_max: 4 * timeout_us, ahead_max: 64, ..Limits::default() };
        let now = outside.queue.now();
        let end = |(peer, node)| (peer, End { node, link: Link::new(generation, limits, |_| 1), progress: (0, now) });
        Links { me, ends: peers.into_iter().map(end).collect() }
    }

    /// Sends what one step has to say to one peer.
    ///
    /// # Errors
    /// A message cannot be read back from its bytes.
    pub(super) fn send(&mut self, to: Peer, mut messages: Vec<Message>, outside: &mut Outside) -> Checked {
        if outside.plan.cluster.codec {
            for message in &mut messages {
                let read = Message::decode(&message.encode());
                ensure(read.as_ref().ok() == Some(message), "codec", || format!("{message:?} is read as {read:?}"))?;
                *message = read.expect("just seen");
            }
        }
        self.send_parcel(to, Parcel::Messages(messages), outside);
        Ok(())
    }

    pub(super) fn send_parcel(&mut self, to: Peer, parcel: Parcel, outside: &mut Outside) {
        let end = self.ends.get_mut(&to).expect("who is told something is a member");
        let frame = end.link.send(parcel);
        outside.send(self.me, end.node, Packet::Frame(Box::new(frame)));
    }

    /// Tells everybody.
    pub(super) fn send_all(&mut self, parcel: &Parcel, outside: &mut Outside) {
        let peers: Vec<Peer> = self.ends.keys().copied().collect();
        peers.into_iter().for_each(|peer| self.send_parcel(peer, parcel.clone(), outside));
    }

    /// Takes a frame of a node; what is complete is delivered, in order.
    pub(super) fn receive(
        &mut self,
        from: usize,
        frame: Frame<Parcel>,
        outside: &mut Outside,
    ) -> (Option<Peer>, Vec<Parcel>) {
        let Some((peer, end)) = self.ends.iter_mut().find(|(_, end)| end.node == from) else {
            outside.figures.stale += 1;
            return (None, Vec::new());
        };
        let mut delivered = Vec::new();
        match end.link.receive(frame, |parcel| delivered.push(parcel)) {
            Receipt::Dropped(Dropped::OldGeneration) => outside.figures.stale += 1,
            Receipt::Dropped(Dropped::Duplicate) => outside.figures.doubled += 1,
            _ => {}
        }
        (Some(*peer), delivered)
    }

    /// Repeats what was not acknowledged, acknowledges what has arrived.
    pub(super) fn pulse(&mut self, outside: &mut Outside) {
        let now = outside.queue.now();
        for end in self.ends.values_mut() {
            let mut frames = end.link.tick(now);
            if end.link.ack_owed() {
                frames.push(end.link.acknowledgement());
            }
            let waits = end.link.outstanding().payloads as u64;
            let acknowledged = end.link.counts().sent - waits;
            if waits == 0 || acknowledged != end.progress.0 {
                end.progress = (acknowledged, now);
            }
            for frame in frames {
                outside.send(self.me, end.node, Packet::Frame(Box::new(frame)));
            }
        }
    }

    /// Workers that have acknowledged nothing for too long, though there was something.
    pub(super) fn silent(&self, outside: &Outside) -> Vec<WorkerId> {
        let long_ago = outside.queue.now().saturating_sub(outside.plan.cluster.stuck);
        let silent = self.ends.iter().filter(|(_, end)| end.progress.1 < long_ago);
        let worker = |(peer, _): (&Peer, &End)| match peer {
            Peer::Worker(worker) => Some(*worker),
            Peer::Coordinator => None,
        };
        silent.filter_map(worker).collect()
    }
}
