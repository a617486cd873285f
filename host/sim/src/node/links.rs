//! A node's links to the others of its generation, over a channel that loses, doubles and reorders frames: each end puts
//! them in order again and repeats what was lost, as connections and reconnects do under the product's links.

use std::collections::BTreeMap;

use styx_protocol::ids::WorkerId;
use styx_protocol::link::{Link, Rejected};
use styx_protocol::message::{Message, Node as Peer};

use crate::check::{Checked, ensure};
use crate::environment::Environment;
use crate::wire::{Frame, Packet, Parcel};

/// Frames that are kept ahead of one that is missing.
const AHEAD_MAX: u64 = 64;
/// Frames that are sent again at a time.
const REPEATED_MAX: usize = 1024;

/// Links by peer.
#[derive(Debug)]
pub(super) struct Links {
    me: usize,
    generation: u64,
    ends: BTreeMap<Peer, End>,
}

#[derive(Debug)]
struct End {
    node: usize,
    link: Link<Parcel>,
    /// Received ahead of a frame that is missing.
    ahead: BTreeMap<u64, Parcel>,
    /// When everything was sent again last.
    repeated: u64,
    /// Amount that the other end had acknowledged, and the time since which it is no more.
    progress: (u64, u64),
}

impl Links {
    /// Links of node `me`, on which nothing has been sent.
    pub(super) fn new(
        me: usize,
        generation: u64,
        peers: impl IntoIterator<Item = (Peer, usize)>,
        environment: &Environment,
    ) -> Self {
        let now = environment.queue.now();
        let end = |(peer, node)| {
            let link = Link::new(generation, |_| 1);
            (peer, End { node, link, ahead: BTreeMap::new(), repeated: now, progress: (0, now) })
        };
        Links { me, generation, ends: peers.into_iter().map(end).collect() }
    }

    /// Sends what one step has to say to one peer.
    ///
    /// # Errors
    /// A message cannot be read back from its bytes.
    pub(super) fn send(&mut self, to: Peer, mut messages: Vec<Message>, environment: &mut Environment) -> Checked {
        if environment.plan.cluster.codec {
            for message in &mut messages {
                let read = Message::decode(&message.encode());
                ensure(read.as_ref().ok() == Some(message), "codec", || format!("{message:?} is read as {read:?}"))?;
                *message = read.expect("just seen");
            }
        }
        self.send_parcel(to, Parcel::Messages(messages), environment);
        Ok(())
    }

    pub(super) fn send_parcel(&mut self, to: Peer, parcel: Parcel, environment: &mut Environment) {
        let end = self.ends.get_mut(&to).expect("who is told something is a member");
        let number = end.link.send(parcel.clone());
        let (generation, ack) = (self.generation, end.link.acknowledge());
        let frame = Frame { generation, ack, numbered: Some((number, parcel)) };
        environment.send(self.me, end.node, Packet::Frame(Box::new(frame)));
    }

    /// Tells everybody.
    pub(super) fn send_all(&mut self, parcel: &Parcel, environment: &mut Environment) {
        let peers: Vec<Peer> = self.ends.keys().copied().collect();
        peers.into_iter().for_each(|peer| self.send_parcel(peer, parcel.clone(), environment));
    }

    /// Takes a frame of a node; what is complete is delivered, in order.
    pub(super) fn receive(
        &mut self,
        from: usize,
        frame: Frame,
        environment: &mut Environment,
    ) -> (Option<Peer>, Vec<Parcel>) {
        let Some((peer, end)) = self.ends.iter_mut().find(|(_, end)| end.node == from) else {
            environment.figures.stale += 1;
            return (None, Vec::new());
        };
        let mut delivered = Vec::new();
        match end.link.acknowledged(frame.generation, frame.ack) {
            Err(Rejected::OldGeneration) => environment.figures.stale += 1,
            Ok(_) => end.ahead.extend(frame.numbered.filter(|(number, _)| *number <= end.link.received() + AHEAD_MAX)),
            Err(_) => {}
        }
        while let Some(first) = end.ahead.first_entry().filter(|first| *first.key() <= end.link.received() + 1) {
            let (number, parcel) = first.remove_entry();
            match end.link.receive(number) {
                Ok(()) => delivered.push(parcel),
                Err(_) => environment.figures.doubled += 1,
            }
        }
        (Some(*peer), delivered)
    }

    /// Repeats what was not acknowledged, acknowledges what has arrived.
    pub(super) fn pulse(&mut self, environment: &mut Environment) {
        let now = environment.queue.now();
        for end in self.ends.values_mut() {
            let waits = end.link.weight() as u64;
            let acknowledged = end.link.sent() - waits;
            if waits == 0 || acknowledged != end.progress.0 {
                end.progress = (acknowledged, now);
            }
            let due = end.repeated.max(end.progress.1) + environment.plan.cluster.repeat;
            let (generation, owed, ack) = (self.generation, end.link.ack_owed(), end.link.acknowledge());
            let mut frames = Vec::new();
            if waits > 0 && now >= due {
                end.repeated = now;
                let again = end.link.unacknowledged().take(REPEATED_MAX);
                let frame = |(number, parcel): (u64, &Parcel)| Frame {
                    generation,
                    ack,
                    numbered: Some((number, parcel.clone())),
                };
                frames.extend(again.map(frame));
            } else if owed {
                frames.push(Frame { generation, ack, numbered: None });
            }
            for frame in frames {
                environment.send(self.me, end.node, Packet::Frame(Box::new(frame)));
            }
        }
    }

    /// Workers that have acknowledged nothing for too long, though there was something.
    pub(super) fn silent(&self, environment: &Environment) -> Vec<WorkerId> {
        let long_ago = environment.queue.now().saturating_sub(environment.plan.cluster.stuck);
        let silent = self.ends.iter().filter(|(_, end)| end.progress.1 < long_ago);
        let worker = |(peer, _): (&Peer, &End)| match peer {
            Peer::Worker(worker) => Some(*worker),
            Peer::Coordinator => None,
        };
        silent.filter_map(worker).collect()
    }
}
