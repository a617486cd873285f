//! One end of a reliable link between two nodes: first in, first out, exactly once, over a channel
//! that may lose, duplicate, reorder and delay frames.
//!
//! Payloads are numbered from 1; the other end acknowledges what it has received without a gap, in
//! every frame that it sends anyway ([`Frame::ack`]) or in a frame of its own
//! ([`Link::acknowledgement`]); what is not acknowledged is sent again, when [`Link::tick`] finds it
//! too old or at once on [`Link::reconnected`]. A link belongs to one generation and refuses the
//! frames of all others; a new generation is a new link.
//!
//! Nothing here reads a clock or does IO: the node carries shared bytes over TCP with it, the
//! simulator whole messages over a channel that misbehaves from a seed.

use std::collections::{BTreeMap, VecDeque};

use crate::mutants::{Bug, planted};

#[cfg(test)]
mod tests;

/// What travels between the two ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<T> {
    /// The generation of the link that sent it.
    pub generation: u64,
    /// The highest number up to which the sender has received everything; 0 if nothing.
    pub ack: u64,
    /// A payload and its number, from 1; none in a bare acknowledgement.
    pub numbered: Option<(u64, T)>,
}

/// How patient a link is and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A payload that is not acknowledged after this time is sent again, in µs.
    pub timeout_us: u64,
    /// The time doubles with each repetition without progress, up to this, in µs.
    pub timeout_us_max: u64,
    /// Most payloads that one tick sends again.
    pub repeat_max: usize,
    /// Most payloads that may wait for their acknowledgement.
    pub payloads_max: usize,
    /// Most bytes that may wait for their acknowledgement.
    pub bytes_max: usize,
    /// How far a payload may be ahead of the next one in order and still be kept.
    pub ahead_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            timeout_us: 200_000,
            timeout_us_max: 5_000_000,
            repeat_max: 1024,
            payloads_max: 4 << 20,
            bytes_max: 1 << 30,
            ahead_max: 64 << 10,
        }
    }
}

/// What waits for its acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// Payloads.
    pub payloads: usize,
    /// Their bytes, as the link was told to weigh them.
    pub bytes: usize,
}

/// What became of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// A bare acknowledgement.
    Acknowledged,
    /// This many payloads were delivered: the frame's, and what had waited for it.
    Delivered(u64),
    /// Kept until what is missing before it arrives.
    Kept,
    /// Without effect.
    Dropped(Dropped),
}

/// Why a frame had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropped {
    /// Sent in an earlier generation.
    OldGeneration,
    /// Sent in a later generation than this link's.
    FutureGeneration,
    /// Received before.
    Duplicate,
    /// Too far ahead of the next one in order; it will be sent again.
    TooFarAhead,
    /// It acknowledges what was never sent: the other end is another link's.
    ImpossibleAck,
    /// It carries the number 0, which no payload has.
    ImpossibleNumber,
}

/// Frames by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Payloads sent for the first time.
    pub sent: u64,
    /// Payloads sent again.
    pub repeated: u64,
    /// Payloads delivered.
    pub delivered: u64,
    /// See [`Dropped::OldGeneration`].
    pub old_generation: u64,
    /// See [`Dropped::FutureGeneration`].
    pub future_generation: u64,
    /// See [`Dropped::Duplicate`].
    pub duplicate: u64,
    /// See [`Dropped::TooFarAhead`].
    pub too_far_ahead: u64,
    /// See [`Dropped::ImpossibleAck`].
    pub impossible_ack: u64,
    /// See [`Dropped::ImpossibleNumber`].
    pub impossible_number: u64,
}

impl Counts {
    fn of(&mut self, reason: Dropped) -> &mut u64 {
        match reason {
            Dropped::OldGeneration => &mut self.old_generation,
            Dropped::FutureGeneration => &mut self.future_generation,
            Dropped::Duplicate => &mut self.duplicate,
            Dropped::TooFarAhead => &mut self.too_far_ahead,
            Dropped::ImpossibleAck => &mut self.impossible_ack,
            Dropped::ImpossibleNumber => &mut self.impossible_number,
        }
    }
}

/// The clock of what was sent: runs while something waits for its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Alarm {
    /// When it was set, in µs.
    set_us: u64,
    /// Payloads with lower numbers had been sent by then.
    before: u64,
}

/// One end of a link.
#[derive(Debug)]
pub struct Link<T> {
    generation: u64,
    limits: Limits,
    weigh: fn(&T) -> usize,
    /// Sent and not acknowledged, in order; the last one has the number `last`.
    unacknowledged: VecDeque<T>,
    bytes: usize,
    last: u64,
    alarm: Option<Alarm>,
    timeout_us: u64,
    /// Everything up to this number was delivered.
    received: u64,
    /// Received out of order.
    ahead: BTreeMap<u64, T>,
    ack_owed: bool,
    counts: Counts,
}

impl<T: Clone> Link<T> {
    /// A link on which nothing was sent or received. `weigh` tells the bytes of a payload.
    pub fn new(generation: u64, limits: Limits, weigh: fn(&T) -> usize) -> Self {
        Link {
            generation,
            limits,
            weigh,
            unacknowledged: VecDeque::new(),
            bytes: 0,
            last: 0,
            alarm: None,
            timeout_us: limits.timeout_us,
            received: 0,
            ahead: BTreeMap::new(),
            ack_owed: false,
            counts: Counts::default(),
        }
    }

    /// The generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Takes a payload for the other end and gives the frame that carries it there. The link keeps
    /// the payload until it is acknowledged, however many wait: ask [`Link::overfull`] before.
    pub fn send(&mut self, payload: T) -> Frame<T> {
        self.last += 1;
        self.bytes += (self.weigh)(&payload);
        self.unacknowledged.push_back(payload.clone());
        self.counts.sent += 1;
        self.frame(Some((self.last, payload)))
    }

    /// More waits for its acknowledgement than the limits allow. What to do about it (refuse to
    /// send, give the other end up) is the caller's decision: dropping a payload would break the order.
    pub fn overfull(&self) -> bool {
        self.unacknowledged.len() > self.limits.payloads_max || self.bytes > self.limits.bytes_max
    }

    /// What waits for its acknowledgement.
    pub fn outstanding(&self) -> Outstanding {
        Outstanding { payloads: self.unacknowledged.len(), bytes: self.bytes }
    }

    /// Takes a frame of the other end and delivers all payloads that are now complete, in order.
    pub fn receive(&mut self, frame: Frame<T>, deliver: impl FnMut(T)) -> Receipt {
        match self.admit(&frame) {
            Ok(()) => {}
            Err(reason) => return self.dropped(reason),
        }
        self.acknowledged(frame.ack);
        match frame.numbered {
            None => Receipt::Acknowledged,
            Some((number, payload)) => self.arrived(number, payload, deliver),
        }
    }

    /// The other end has received everything up to `ack`.
    fn acknowledged(&mut self, ack: u64) {
        let oldest = self.last - self.unacknowledged.len() as u64;
        if ack <= oldest {
            return;
        }
        for payload in self.unacknowledged.drain(..(ack - oldest) as usize) {
            self.bytes -= (self.weigh)(&payload);
        }
        self.alarm = None;
        self.timeout_us = self.limits.timeout_us;
    }

    fn admit(&self, frame: &Frame<T>) -> Result<(), Dropped> {
        match frame.generation.cmp(&self.generation) {
            std::cmp::Ordering::Less if planted(Bug::OldGenerationDelivered) => {}
            std::cmp::Ordering::Less => return Err(Dropped::OldGeneration),
            std::cmp::Ordering::Greater => return Err(Dropped::FutureGeneration),
            std::cmp::Ordering::Equal => {}
        }
        if frame.ack > self.last {
            return Err(Dropped::ImpossibleAck);
        }
        match frame.numbered {
            Some((0, _)) => Err(Dropped::ImpossibleNumber),
            _ => Ok(()),
        }
    }

    fn arrived(&mut self, number: u64, payload: T, mut deliver: impl FnMut(T)) -> Receipt {
        // A duplicate is acknowledged too: its sender has not heard of the first one's arrival.
        self.ack_owed = true;
        if number <= self.received || self.ahead.contains_key(&number) {
            if planted(Bug::DeliveredTwice) {
                deliver(payload);
            }
            return self.dropped(Dropped::Duplicate);
        }
        if number - self.received > 1 {
            if number - self.received > self.limits.ahead_max {
                return self.dropped(Dropped::TooFarAhead);
            }
            self.ahead.insert(number, payload);
            return Receipt::Kept;
        }
        let before = self.received;
        self.received = number;
        deliver(payload);
        while let Some(entry) = self.ahead.first_entry().filter(|entry| *entry.key() == self.received + 1) {
            self.received += 1;
            deliver(entry.remove());
        }
        self.counts.delivered += self.received - before;
        Receipt::Delivered(self.received - before)
    }

    fn dropped(&mut self, reason: Dropped) -> Receipt {
        *self.counts.of(reason) += 1;
        Receipt::Dropped(reason)
    }

    /// Payloads have arrived since the last frame left; the other end waits to hear of it.
    pub fn ack_owed(&self) -> bool {
        self.ack_owed
    }

    /// Everything up to this number has arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// A frame without a payload: tells the other end what has arrived.
    pub fn acknowledgement(&mut self) -> Frame<T> {
        self.frame(None)
    }

    /// What to send again at `now_us`, oldest first. A payload is old from the first tick that sees
    /// it on, so it is never sent again too early and at most one interval of ticks too late.
    pub fn tick(&mut self, now_us: u64) -> Vec<Frame<T>> {
        if self.unacknowledged.is_empty() {
            return Vec::new();
        }
        let alarm = *self.alarm.get_or_insert(Alarm { set_us: now_us, before: self.last + 1 });
        if now_us.saturating_sub(alarm.set_us) < self.timeout_us {
            return Vec::new();
        }
        self.timeout_us = self.timeout_us.saturating_mul(2).min(self.limits.timeout_us_max.max(self.limits.timeout_us));
        self.alarm = Some(Alarm { set_us: now_us, before: self.last + 1 });
        let oldest = self.last - self.unacknowledged.len() as u64;
        let old = (alarm.before - 1 - oldest) as usize;
        self.repeat(old.min(self.limits.repeat_max.max(1)))
    }

    /// When the next [`Link::tick`] may have something to send, in µs; none if nothing waits, 0 if
    /// something waits that no tick has seen.
    pub fn due_us(&self) -> Option<u64> {
        let waits = !self.unacknowledged.is_empty();
        waits.then(|| self.alarm.map_or(0, |alarm| alarm.set_us.saturating_add(self.timeout_us)))
    }

    /// The channel works again: everything that is not acknowledged, in order.
    pub fn reconnected(&mut self) -> Vec<Frame<T>> {
        self.alarm = None;
        self.timeout_us = self.limits.timeout_us;
        self.repeat(self.unacknowledged.len())
    }

    fn repeat(&mut self, count: usize) -> Vec<Frame<T>> {
        let oldest = self.last - self.unacknowledged.len() as u64;
        self.counts.repeated += count as u64;
        self.ack_owed &= count == 0;
        let frame = |(number, payload): (u64, &T)| Frame {
            generation: self.generation,
            ack: self.received,
            numbered: Some((number, payload.clone())),
        };
        (oldest + 1..).zip(self.unacknowledged.iter().take(count)).map(frame).collect()
    }

    fn frame(&mut self, numbered: Option<(u64, T)>) -> Frame<T> {
        self.ack_owed = false;
        Frame { generation: self.generation, ack: self.received, numbered }
    }

    /// Frames by what became of them.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}
