//! The log on a topic that anybody can append to, such as one of Kafka's: who was replaced and does not know it writes
//! like its successor. So every message is stamped, and [`chain`] says which count; nothing is asked of a [`Broker`]
//! but to keep messages in the order in which it has taken them.
//!
//! - **Opening** reads to the end, writes a *fence* with a higher generation, and reads up to the
//!   fence: what the former writer wrote before it counts, what it writes later never will.
//! - **A sync** looks at the offsets of its messages. Where they follow one another nobody wrote in
//!   between; otherwise it reads what lies there. A higher fence means that this process has been
//!   replaced ([`LogError::Fenced`]). So nothing is durable that a successor has not read.
//! - **A trim** is a message first, which says so and meets fences like any other, and then
//!   the broker's deletion, which does not; a broker that forgets a deletion brings nothing back.
//!
//! Unlike with other logs, what was appended and never synced may be there after a crash; nobody
//! had been told of it.

mod broker;
mod chain;
mod problem;
#[cfg(test)]
mod rule;
#[cfg(test)]
mod tests;

pub use broker::{Broker, Stall, Visitor};
pub use chain::{Kind, Stamp};
pub use problem::KafkaProblem;

use std::collections::VecDeque;

use self::chain::{Chain, Verdict};
use super::{Consumer, Guarded, Log, LogError, check_range};

/// A [`Log`] on a topic.
#[derive(Debug)]
pub struct SharedLog<B> {
    pub(super) broker: B,
    cluster: u128,
    generation: u64,
    nonce: u64,
    pub(super) seen: Seen,
    /// Number of the next record as of the last sync: once somebody else writes, what is seen is theirs.
    durable: u64,
    /// Sent and not known to be durable, in order.
    pending: VecDeque<Stamp>,
    failed: bool,
}

/// The part of the topic that has been read or is known.
#[derive(Debug)]
pub(super) struct Seen {
    chain: Chain,
    /// Offsets of the retained records.
    offsets: VecDeque<i64>,
    /// Everything below this offset has been classified.
    pub(super) end: i64,
    /// Offset of the last trim.
    trim: i64,
    skipped: u64,
}

impl Seen {
    fn take(&mut self, offset: i64, stamp: Option<&Stamp>) -> Verdict {
        let verdict = self.chain.accept(stamp);
        self.end = offset + 1;
        match verdict {
            Verdict::Record(_) => self.offsets.push_back(offset),
            Verdict::Trim => {
                let retained = (self.chain.next() - self.chain.first()) as usize;
                self.offsets.drain(..self.offsets.len().saturating_sub(retained));
                self.trim = offset;
            }
            Verdict::Fence => {}
            Verdict::Late | Verdict::Foreign | Verdict::Misnumbered => {
                self.skipped += 1;
                tracing::debug!(offset, ?verdict, "skipped a message of the log's topic");
            }
        }
        verdict
    }

    /// The offset of a retained record.
    fn offset(&self, sequence: u64) -> Option<i64> {
        self.offsets.get((sequence - self.chain.first()) as usize).copied()
    }
}

/// A log that has been read to its end and belongs to its former writer still.
pub(super) struct Opening<B> {
    broker: B,
    cluster: u128,
    generation: u64,
    seen: Seen,
}

impl<B: Broker> Opening<B> {
    /// Reads the topic, which is to be `cluster`'s. Writes nothing into it.
    pub(super) fn read(mut broker: B, cluster: u128, generation: Option<u64>) -> Result<Self, LogError> {
        let (low, high) = broker.bounds()?;
        let mut stamps = Vec::new();
        broker.read(low, high, &mut |offset, stamp, _| {
            stamps.push((offset, stamp));
            Ok(())
        })?;
        let (chain, from) = match low {
            0 => (Chain::new(), 0),
            _ => Chain::trimmed(cluster, &stamps).ok_or_else(|| not_ours(&broker, cluster, low, &stamps))?,
        };
        let mut seen = Seen { chain, offsets: VecDeque::new(), end: from, trim: from, skipped: 0 };
        for (offset, stamp) in stamps.iter().filter(|(offset, _)| *offset >= from) {
            seen.take(*offset, stamp.as_ref());
        }
        seen.end = high;
        let generation = generation.unwrap_or(seen.chain.generation.saturating_add(1));
        let opening = Opening { broker, cluster, generation, seen };
        opening.check_owner()?;
        if opening.generation <= opening.seen.chain.generation {
            return Err(opening.fenced());
        }
        Ok(opening)
    }

    /// Becomes the log's writer.
    pub(super) fn fence(mut self) -> Result<SharedLog<B>, LogError> {
        let nonce = self.broker.nonce();
        let fence = Stamp { cluster: self.cluster, generation: self.generation, writer: nonce, kind: Kind::Fence };
        self.broker.send(&fence, &[])?;
        let offset = self.broker.confirmed(1)?[0];
        let until = if offset >= 0 { offset + 1 } else { self.broker.bounds()?.1 };
        let mut found = false;
        let (begun, seen) = (self.seen.end, &mut self.seen);
        self.broker.read(begun, until, &mut |offset, stamp, _| {
            seen.take(offset, stamp.as_ref());
            found |= stamp == Some(fence);
            Ok(())
        })?;
        self.check_owner()?;
        if !found {
            let detail = format!("the fence at offset {offset} was confirmed and is not there");
            return Err(lost(&self.broker, detail));
        }
        if !self.seen.chain.is_led_by(self.generation, nonce) {
            return Err(self.fenced());
        }
        let Opening { mut broker, cluster, generation, seen } = self;
        if seen.skipped > 0 {
            tracing::info!(topic = broker.topic(), skipped = seen.skipped, "skipped messages that are not of the log");
        }
        broker.opened();
        let durable = seen.chain.next();
        Ok(SharedLog { broker, cluster, generation, nonce, seen, durable, pending: VecDeque::new(), failed: false })
    }

    /// `Err` if the topic is another cluster's.
    fn check_owner(&self) -> Result<(), LogError> {
        match self.seen.chain.cluster {
            Some(theirs) if theirs != self.cluster => Err(other_cluster(&self.broker, self.cluster, theirs)),
            _ => Ok(()),
        }
    }

    fn fenced(&self) -> LogError {
        LogError::Fenced { ours: self.generation, theirs: self.seen.chain.generation }
    }
}

fn other_cluster(broker: &impl Broker, ours: u128, theirs: u128) -> LogError {
    KafkaProblem::OtherCluster { topic: broker.topic().to_owned(), ours, theirs }.into()
}

fn lost(broker: &impl Broker, detail: String) -> LogError {
    KafkaProblem::Lost { topic: broker.topic().to_owned(), detail }.into()
}

/// Why a topic whose beginning is gone cannot be read.
fn not_ours(broker: &impl Broker, ours: u128, low: i64, messages: &[(i64, Option<Stamp>)]) -> LogError {
    let mut owners = messages.iter().filter_map(|(_, stamp)| stamp.map(|stamp| stamp.cluster));
    match owners.find(|owner| *owner != ours) {
        Some(theirs) => other_cluster(broker, ours, theirs),
        None => lost(broker, format!("it begins at offset {low}, and no trim of this log says so")),
    }
}

impl<B: Broker> SharedLog<B> {
    /// Opens the log of `cluster` and becomes its only writer: whoever was it before is told so by its next sync. Its
    /// generation is above all in the topic, if it is not given.
    ///
    /// # Errors
    /// The topic is not one of this cluster's, or lacks records; [`LogError::Fenced`] if there is a writer of this or a
    /// higher generation.
    pub fn on(broker: B, cluster: u128, generation: Option<u64>) -> Result<Self, LogError> {
        Opening::read(broker, cluster, generation)?.fence()
    }

    /// The writer's generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Messages of the topic that were passed over: late, duplicate or foreign.
    pub fn skipped(&self) -> u64 {
        self.seen.skipped
    }

    fn send(&mut self, kind: Kind, record: &[u8]) -> Result<(), LogError> {
        let stamp = Stamp { cluster: self.cluster, generation: self.generation, writer: self.nonce, kind };
        self.broker.send(&stamp, record)?;
        self.pending.push_back(stamp);
        Ok(())
    }

    /// Waits until everything sent is durable and known to count.
    fn confirm(&mut self) -> Result<(), LogError> {
        self.look_after_pending()?;
        self.durable = self.seen.chain.next();
        Ok(())
    }

    fn look_after_pending(&mut self) -> Result<(), LogError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let offsets = self.broker.confirmed(self.pending.len())?;
        let follow_on = |(at, offset): (i64, &i64)| *offset == at;
        if (self.seen.end..).zip(&offsets).all(follow_on) {
            for (stamp, offset) in self.pending.drain(..).zip(offsets) {
                let verdict = self.seen.take(offset, Some(&stamp));
                assert!(matches!(verdict, Verdict::Record(_) | Verdict::Trim), "own records count: {verdict:?}");
            }
            return Ok(());
        }
        // Somebody wrote in between, or the broker could not say where a message is.
        let known = offsets.iter().all(|offset| *offset >= self.seen.end);
        let until = match offsets.last() {
            Some(last) if known => last + 1,
            _ => self.broker.bounds()?.1,
        };
        let (begun, seen, pending) = (self.seen.end, &mut self.seen, &mut self.pending);
        self.broker.read(begun, until, &mut |offset, stamp, _| {
            let verdict = seen.take(offset, stamp.as_ref());
            if matches!(verdict, Verdict::Record(_) | Verdict::Trim) && stamp == pending.front().copied() {
                pending.pop_front();
            }
            Ok(())
        })?;
        if !self.seen.chain.is_led_by(self.generation, self.nonce) {
            return Err(LogError::Fenced { ours: self.generation, theirs: self.seen.chain.generation });
        }
        match self.pending.front() {
            None => Ok(()),
            Some(missing) => {
                let detail = format!("{:?} was confirmed and is not there", missing.kind);
                Err(lost(&self.broker, detail))
            }
        }
    }

    /// The offset of a retained record.
    pub(super) fn offset(&self, sequence: u64) -> Option<i64> {
        self.seen.offset(sequence)
    }
}

impl<B> Guarded for SharedLog<B> {
    fn failed(&mut self) -> &mut bool {
        &mut self.failed
    }
}

impl<B: Broker> Log for SharedLog<B> {
    fn append(&mut self, record: &[u8]) -> Result<u64, LogError> {
        self.guarded(|log| {
            let limit = log.record_bytes_max();
            if record.len() > limit {
                return Err(LogError::TooLarge { bytes: record.len(), limit });
            }
            let sequence = log.next();
            log.send(Kind::Record { sequence }, record)?;
            Ok(sequence)
        })
    }

    fn record_bytes_max(&self) -> usize {
        self.broker.record_bytes_max()
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.guarded(Self::confirm)
    }

    fn first(&self) -> u64 {
        self.seen.chain.first()
    }

    fn durable(&self) -> u64 {
        self.durable
    }

    fn stall(&self) -> Stall {
        self.broker.stall()
    }

    fn next(&self) -> u64 {
        // Whoever looks sees records only: a trim waits for its own message.
        self.durable + self.pending.len() as u64
    }

    fn replay(&mut self, from: u64, consumer: &mut Consumer<'_>) -> Result<(), LogError> {
        self.guarded(|log| {
            log.confirm()?;
            check_range(from, log.first(), log.next())?;
            let (Some(start), Some(last)) = (log.offset(from), log.seen.offsets.back().copied()) else {
                return Ok(());
            };
            let mut sequence = from;
            let seen = &log.seen;
            log.broker.read(start, last + 1, &mut |offset, _, record| {
                if seen.offset(sequence) != Some(offset) {
                    return Ok(());
                }
                consumer(sequence, record).map_err(|source| LogError::Consumer { sequence, source })?;
                sequence += 1;
                Ok(())
            })?;
            if sequence != log.durable {
                let detail = format!("record {sequence} of {} is not there any more", log.durable);
                return Err(lost(&log.broker, detail));
            }
            Ok(())
        })
    }

    fn trim(&mut self, until: u64) -> Result<(), LogError> {
        self.guarded(|log| {
            log.confirm()?;
            if until <= log.first() {
                return Ok(());
            }
            check_range(until, log.first(), log.next())?;
            let sequence = log.next();
            let from = match log.offset(until) {
                Some(offset) => offset,
                // No record is kept: then a message that forgets nothing, which tells the next number.
                None => {
                    let (first, from) = (log.first(), log.seen.offsets[0]);
                    log.send(Kind::Trim { sequence, first, from }, &[])?;
                    log.confirm()?;
                    // Behind it there may be what others have written since.
                    log.seen.trim
                }
            };
            log.send(Kind::Trim { sequence, first: until, from }, &[])?;
            log.confirm()?;
            log.broker.delete_below(from);
            Ok(())
        })
    }
}
