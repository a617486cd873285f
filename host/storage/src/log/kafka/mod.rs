//! The log on Kafka: one topic with one partition, for clusters that have brokers already.
//!
//! A record is a message; several are under way at once, and [`Log::sync`] waits until all replicas
//! have them. The brokers keep what was confirmed, but they take it from anybody: a process that was
//! replaced and does not know it writes like its successor. So every message is stamped, and
//! [`chain`] says which count; nothing of Kafka's own (transactions, consumer groups) is relied on.
//!
//! - **Opening** reads to the end, writes a *fence* with a higher generation, and reads up to the
//!   fence: what the former writer wrote before it counts, what it writes later never will.
//! - **A sync** looks at the offsets of its messages. Where they follow one another nobody wrote in
//!   between; otherwise it reads what lies there. A higher fence means that this process has been
//!   replaced ([`LogError::Fenced`]). So nothing is durable that a successor has not read.
//! - **A trim** is a message first, which says so and meets fences like any other, and then
//!   Kafka's deletion, which does not; a broker that forgets a deletion brings nothing back.
//! - **A broker that does not answer** is waited for, by the clock of this process: [`Log::stall`] tells whether.
//!
//! Kafka's brokers do not sync their disks before they confirm. With three replicas that is no
//! matter; with one, the topic is created with a sync for every message.
//!
//! Unlike with other logs, what was appended and never synced may be there after a crash; nobody
//! had been told of it.

mod chain;
mod client;
mod error;
mod options;
mod reader;
mod settings;
mod stall;
mod stamp;
mod topic;
mod writer;

#[cfg(test)]
mod tests;

pub use client::TracedContext;
pub use error::KafkaProblem;
pub use options::KafkaOptions;
pub use settings::{SettingProblem, Settings};
pub use stall::Stall;
pub use topic::Topic;

use std::collections::VecDeque;

use rdkafka::admin::AdminClient;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;

use self::chain::{Chain, Kind, Stamp, Verdict};
use self::reader::Reader;
use self::stall::BrokerWait;
use self::topic::Deletion;
use self::writer::Writer;
use super::{Consumer, Guarded, Log, LogError, check_range};

/// A [`Log`] on a topic of a Kafka cluster.
pub struct KafkaLog {
    options: KafkaOptions,
    reader: Reader,
    writer: Writer,
    admin: AdminClient<TracedContext>,
    stall: Stall,
    generation: u64,
    nonce: u64,
    seen: Seen,
    /// Number of the next record as of the last sync: once somebody else writes, what is seen is theirs.
    durable: u64,
    /// Sent and not known to be durable, in order.
    pending: VecDeque<Stamp>,
    /// The last that was asked for.
    deletion: Option<Deletion>,
    failed: bool,
}

/// The part of the topic that has been read or is known.
struct Seen {
    chain: Chain,
    /// Offsets of the retained records.
    offsets: VecDeque<i64>,
    /// Everything below this offset has been classified.
    end: i64,
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
            }
            Verdict::Fence => {}
            Verdict::Late | Verdict::Foreign | Verdict::Misnumbered => {
                self.skipped += 1;
                tracing::debug!(offset, ?verdict, "skipped a message of the log's topic");
            }
        }
        verdict
    }
}

/// A log that has been read to its end and belongs to its former writer still.
pub(super) struct Opening {
    options: KafkaOptions,
    reader: Reader,
    admin: AdminClient<TracedContext>,
    stall: Stall,
    generation: u64,
    seen: Seen,
}

impl Opening {
    /// Finds or creates the topic and reads it. Writes nothing into it.
    pub(super) fn read(mut options: KafkaOptions) -> Result<Self, LogError> {
        let name = options.topic.clone();
        let found = log_topic(&options).ensure(&options.client(), options.open_wait)?;
        if found != 1 {
            return Err(KafkaProblem::Partitions { topic: name, found }.into());
        }
        let client = |error| KafkaProblem::Client { topic: name.clone(), detail: topic::cause(&error) };
        let admin = AdminClient::from_config_and_context(&options.client(), TracedContext).map_err(client)?;
        if let Some(limit) = topic::message_bytes_max(&admin, &name) {
            options.fit(limit);
        }
        let (reader, stall) = (Reader::new(&options)?, Stall::default());
        let mut wait = BrokerWait::new(&stall, &options, options.open_wait);
        let (low, high) = reader.bounds(&mut wait)?;
        let mut stamps = Vec::new();
        reader.read(low, high, &mut wait, &mut |offset, stamp, _| {
            stamps.push((offset, stamp));
            Ok(())
        })?;
        drop(wait);
        let (chain, from) = match low {
            0 => (Chain::new(), 0),
            _ => Chain::trimmed(options.cluster, &stamps).ok_or_else(|| not_ours(&options, low, &stamps))?,
        };
        let mut seen = Seen { chain, offsets: VecDeque::new(), end: from, skipped: 0 };
        for (offset, stamp) in stamps.iter().filter(|(offset, _)| *offset >= from) {
            seen.take(*offset, stamp.as_ref());
        }
        seen.end = high;
        let generation = options.generation.unwrap_or(seen.chain.generation + 1);
        let opening = Opening { options, reader, admin, stall, generation, seen };
        opening.check_owner()?;
        if opening.generation <= opening.seen.chain.generation {
            return Err(opening.fenced());
        }
        Ok(opening)
    }

    /// Becomes the log's writer.
    pub(super) fn fence(mut self) -> Result<KafkaLog, LogError> {
        let KafkaOptions { cluster, open_wait, .. } = &self.options;
        let (writer, nonce) = (Writer::new(&self.options)?, rand::random());
        let fence = Stamp { cluster: *cluster, generation: self.generation, writer: nonce, kind: Kind::Fence };
        let mut wait = BrokerWait::new(&self.stall, &self.options, *open_wait);
        writer.send(&fence, &[], &mut wait)?;
        let offset = writer.confirmed(1, &mut wait)?[0];
        let until = if offset >= 0 { offset + 1 } else { self.reader.bounds(&mut wait)?.1 };
        let mut found = false;
        let (begun, seen) = (self.seen.end, &mut self.seen);
        self.reader.read(begun, until, &mut wait, &mut |offset, stamp, _| {
            seen.take(offset, stamp.as_ref());
            found |= stamp == Some(fence);
            Ok(())
        })?;
        drop(wait);
        self.check_owner()?;
        if !found {
            let detail = format!("the fence at offset {offset} was confirmed and is not there");
            return Err(KafkaProblem::Lost { topic: self.options.topic, detail }.into());
        }
        if !self.seen.chain.is_led_by(self.generation, nonce) {
            return Err(self.fenced());
        }
        let Opening { options, reader, admin, stall, generation, seen } = self;
        if seen.skipped > 0 {
            tracing::info!(topic = options.topic, skipped = seen.skipped, "skipped messages that are not of the log");
        }
        let durable = seen.chain.next();
        Ok(KafkaLog {
            options,
            reader,
            writer,
            admin,
            stall,
            generation,
            nonce,
            seen,
            durable,
            pending: VecDeque::new(),
            deletion: None,
            failed: false,
        })
    }

    /// `Err` if the topic is another cluster's.
    fn check_owner(&self) -> Result<(), LogError> {
        match self.seen.chain.cluster {
            Some(theirs) if theirs != self.options.cluster => Err(other_cluster(&self.options, theirs)),
            _ => Ok(()),
        }
    }

    fn fenced(&self) -> LogError {
        LogError::Fenced { ours: self.generation, theirs: self.seen.chain.generation }
    }
}

fn other_cluster(options: &KafkaOptions, theirs: u128) -> LogError {
    KafkaProblem::OtherCluster { topic: options.topic.clone(), ours: options.cluster, theirs }.into()
}

/// Why a topic whose beginning is gone cannot be read.
fn not_ours(options: &KafkaOptions, low: i64, messages: &[(i64, Option<Stamp>)]) -> LogError {
    let mut owners = messages.iter().filter_map(|(_, stamp)| stamp.map(|stamp| stamp.cluster));
    if let Some(theirs) = owners.find(|owner| *owner != options.cluster) {
        return other_cluster(options, theirs);
    }
    let detail = format!("it begins at offset {low}, and no trim of this log says so");
    KafkaProblem::Lost { topic: options.topic.clone(), detail }.into()
}

/// The topic of a log, as it is created.
fn log_topic(options: &KafkaOptions) -> Topic {
    let message_bytes_max = options.message_bytes_max();
    let mut settings = vec![
        ("cleanup.policy", "delete".to_owned()),
        ("retention.ms", "-1".to_owned()),
        ("retention.bytes", "-1".to_owned()),
        ("max.message.bytes", message_bytes_max.to_string()),
        ("compression.type", "producer".to_owned()),
        // Disk space comes back in units of these.
        ("segment.bytes", (128 << 20).max(2 * message_bytes_max).to_string()),
    ];
    if options.replication == 1 {
        settings.push(("flush.messages", "1".to_owned()));
    }
    Topic { name: options.topic.clone(), partitions: 1, replication: options.replication, settings }
}

impl KafkaLog {
    /// Opens the log and becomes its only writer: whoever was it before is told so by its next sync.
    ///
    /// # Errors
    /// No broker answers; the topic is not one of this cluster's, or lacks records;
    /// [`LogError::Fenced`] if there is a writer of this or a higher generation.
    pub fn open(options: KafkaOptions) -> Result<Self, LogError> {
        Opening::read(options)?.fence()
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
        let stamp = Stamp { cluster: self.options.cluster, generation: self.generation, writer: self.nonce, kind };
        let mut wait = BrokerWait::new(&self.stall, &self.options, self.options.stall_wait_max);
        self.writer.send(&stamp, record, &mut wait)?;
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
        let mut wait = BrokerWait::new(&self.stall, &self.options, self.options.stall_wait_max);
        let offsets = self.writer.confirmed(self.pending.len(), &mut wait)?;
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
            _ => self.reader.bounds(&mut wait)?.1,
        };
        let (begun, seen, pending) = (self.seen.end, &mut self.seen, &mut self.pending);
        self.reader.read(begun, until, &mut wait, &mut |offset, stamp, _| {
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
                Err(KafkaProblem::Lost { topic: self.options.topic.clone(), detail }.into())
            }
        }
    }

    /// Has the brokers delete what lies below an offset, some time: nothing depends on it but space.
    fn delete_below(&mut self, offset: i64) {
        let topic = &self.options.topic;
        let failed = |error: &KafkaError| {
            let error = topic::cause(error);
            tracing::warn!(topic, error, "trimmed records could not be deleted; the next trim tries again");
        };
        if let Some(Err(error)) = self.deletion.take().and_then(Deletion::ended) {
            failed(&error);
        }
        match Deletion::start(&self.admin, topic, offset) {
            Ok(deletion) => self.deletion = Some(deletion),
            Err(error) => failed(&error),
        }
    }

    /// The offset of a retained record.
    fn offset(&self, sequence: u64) -> Option<i64> {
        self.seen.offsets.get((sequence - self.first()) as usize).copied()
    }
}

impl Guarded for KafkaLog {
    fn failed(&mut self) -> &mut bool {
        &mut self.failed
    }
}

impl Log for KafkaLog {
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
        self.options.record_bytes_max
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
        self.stall.clone()
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
            let mut wait = BrokerWait::new(&log.stall, &log.options, log.options.stall_wait_max);
            log.reader.read(start, last + 1, &mut wait, &mut |offset, _, record| {
                if log.offset(sequence) != Some(offset) {
                    return Ok(());
                }
                consumer(sequence, record).map_err(|source| LogError::Consumer { sequence, source })?;
                sequence += 1;
                Ok(())
            })?;
            if sequence != log.durable {
                let detail = format!("record {sequence} of {} is not there any more", log.durable);
                return Err(KafkaProblem::Lost { topic: log.options.topic.clone(), detail }.into());
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
                    log.seen.end - 1
                }
            };
            log.send(Kind::Trim { sequence, first: until, from }, &[])?;
            log.confirm()?;
            log.delete_below(from);
            Ok(())
        })
    }
}
