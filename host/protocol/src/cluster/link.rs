//! One end of a link between two nodes: numbers, and what has to be sent again.
//!
//! A connection neither loses nor reorders messages while it lives, but it may end. So messages are numbered from 1;
//! the other end acknowledges the highest number that it has received, and what is not acknowledged is kept, and sent
//! again on the next connection. What then arrives for the second time is dropped by its number: each message is
//! delivered once, in order. A link belongs to one generation and takes nothing of any other; a new generation is a new
//! link.
//!
//! Nothing here reads a clock or does input or output. The transport carries shared bytes with it, the simulator whole
//! messages.

use std::collections::VecDeque;

use styx_planted::{Bug, planted};

/// Why something that came has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rejected {
    /// Sent in an earlier generation.
    OldGeneration,
    /// Sent in a later generation than this link's.
    FutureGeneration,
    /// Received before: its acknowledgement was lost with a connection.
    Duplicate,
    /// Messages before it are missing.
    Gap,
    /// It acknowledges what was never sent: the other end is another link's.
    ImpossibleAck,
}

/// One end of a link.
#[derive(Debug)]
pub struct Link<T> {
    generation: u64,
    weigh: fn(&T) -> usize,
    /// Sent and not acknowledged; the last one has the number `sent`.
    unacknowledged: VecDeque<T>,
    weight: usize,
    sent: u64,
    received: u64,
    ack_owed: bool,
}

impl<T> Link<T> {
    /// A link on which nothing was sent or received. `weigh` tells the weight of a message, such as its bytes.
    pub fn new(generation: u64, weigh: fn(&T) -> usize) -> Self {
        Link { generation, weigh, unacknowledged: VecDeque::new(), weight: 0, sent: 0, received: 0, ack_owed: false }
    }

    /// Keeps a message for the other end and gives it its number.
    pub fn send(&mut self, message: T) -> u64 {
        self.sent += 1;
        self.weight += (self.weigh)(&message);
        self.unacknowledged.push_back(message);
        self.sent
    }

    /// Takes the acknowledgement that everything carries: the other end, in `generation`, has received everything up to
    /// `ack`. Returns the weight of what need not be kept any more.
    ///
    /// # Errors
    /// The other end is in another generation, or acknowledges what was never sent: nothing that came with it counts.
    pub fn acknowledged(&mut self, generation: u64, ack: u64) -> Result<usize, Rejected> {
        match generation.cmp(&self.generation) {
            std::cmp::Ordering::Less if planted(Bug::OldGenerationDelivered) => {}
            std::cmp::Ordering::Less => return Err(Rejected::OldGeneration),
            std::cmp::Ordering::Greater => return Err(Rejected::FutureGeneration),
            std::cmp::Ordering::Equal => {}
        }
        if ack > self.sent {
            return Err(Rejected::ImpossibleAck);
        }
        let before = self.arrived();
        let arrived = self.unacknowledged.drain(..ack.saturating_sub(before) as usize);
        let released = arrived.map(|message| (self.weigh)(&message)).sum();
        self.weight -= released;
        Ok(released)
    }

    /// Takes the number of a message that has come; the caller delivers the message, if it is the next one.
    ///
    /// # Errors
    /// It is not the next one.
    pub fn receive(&mut self, number: u64) -> Result<(), Rejected> {
        // A duplicate is acknowledged too: its sender does not know of the first one's arrival.
        self.ack_owed = true;
        match number.checked_sub(self.received) {
            Some(1) => {
                self.received = number;
                Ok(())
            }
            Some(2..) => Err(Rejected::Gap),
            _ if planted(Bug::DeliveredTwice) => Ok(()),
            _ => Err(Rejected::Duplicate),
        }
    }

    /// Messages that are not acknowledged, with their numbers, in order: what a new connection begins with.
    pub fn unacknowledged(&self) -> impl Iterator<Item = (u64, &T)> {
        (self.arrived() + 1..).zip(&self.unacknowledged)
    }

    /// Number of the last message that is known to have arrived.
    pub fn arrived(&self) -> u64 {
        self.sent - self.unacknowledged.len() as u64
    }

    /// Weight of what is not acknowledged.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Number of the last message sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Number of the last message received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The acknowledgement for the next frame.
    pub fn acknowledge(&mut self) -> u64 {
        self.ack_owed = false;
        self.received
    }

    /// True if something has come since the last acknowledgement.
    pub fn ack_owed(&self) -> bool {
        self.ack_owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATION: u64 = 3;

    #[test]
    fn each_message_arrives_once_whenever_connections_end() {
        let (mut sender, mut receiver) = (Link::new(GENERATION, |_| 10), Link::<u64>::new(GENERATION, |_| 10));
        let mut arrived = Vec::new();
        for round in 0..100 {
            // Some are sent, of which a connection carries some, whose acknowledgement may not come back.
            for _ in 0..round % 4 {
                sender.send(sender.sent());
            }
            let carried: Vec<_> = sender.unacknowledged().map(|(number, message)| (number, *message)).collect();
            for (number, message) in carried.into_iter().take(round % 3) {
                match receiver.receive(number) {
                    Ok(()) => arrived.push(message),
                    Err(rejected) => assert_eq!(rejected, Rejected::Duplicate),
                }
            }
            if round % 5 == 0 {
                sender.acknowledged(GENERATION, receiver.acknowledge()).unwrap();
            }
            assert_eq!(sender.weight(), 10 * sender.unacknowledged().count());
        }
        assert!(arrived.len() > 20 && arrived.iter().copied().eq(0..arrived.len() as u64), "{arrived:?}");
    }

    #[test]
    fn what_cannot_be_is_rejected() {
        let mut link = Link::new(GENERATION, |()| 1);
        link.send(());
        assert_eq!(link.acknowledged(GENERATION - 1, 1), Err(Rejected::OldGeneration));
        assert_eq!(link.acknowledged(GENERATION + 1, 1), Err(Rejected::FutureGeneration));
        assert_eq!(link.acknowledged(GENERATION, 2), Err(Rejected::ImpossibleAck));
        assert_eq!(link.weight(), 1, "none of them has had an effect");
        assert_eq!([1, 1, 0].map(|ack| link.acknowledged(GENERATION, ack)), [Ok(1), Ok(0), Ok(0)]);
        assert_eq!((link.receive(2), link.receive(0)), (Err(Rejected::Gap), Err(Rejected::Duplicate)));
        assert_eq!((link.receive(1), link.receive(1)), (Ok(()), Err(Rejected::Duplicate)));
        assert!(link.ack_owed() && link.acknowledge() == 1 && !link.ack_owed());
    }
}
