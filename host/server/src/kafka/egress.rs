//! Replies and dead letters on their way to their topics.
//!
//! Each right has a writer of its own, under a name that only the last front that took it can write under: a reply of one
//! that was replaced and does not know it is nowhere. A dead letter and its refusal are written together.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use anyhow::Context;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use styx_driver::kafka::Place;
use styx_driver::kafka::beginning::{Right, Writers};
use styx_driver::kafka::recovery::egress_of;
use styx_driver::kafka::writing::{Sent, WriteProblem, write_all};
use styx_protocol::abort::{Abort, Code};
use styx_protocol::catalog::Operator;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Request;
use styx_storage::log::kafka::{AppendProblem, ExclusiveWriter, Outgoing};
use tokio::sync::mpsc;

use super::record::{APP, FUNCTION, OPERATOR, REQUEST_ID, Record};
use super::topics::{DEAD_LETTER, EGRESS, INGRESS, Topics};
use crate::http::ApiError;

const TID: &str = "styx-tid";
const EPOCH: &str = "styx-epoch";
const STATUS: &str = "styx-status";
const REASON: &str = "styx-reason";
const PLACE: &str = "styx-place";
/// Which record is answered, and below which offset of its partition all have been.
pub(super) const PARTITION: &str = "styx-ingress-partition";
pub(super) const OFFSET: &str = "styx-ingress-offset";
pub(super) const WATERMARK: &str = "styx-ingress-watermark";

/// Replies that wait for a writer.
const WAITING_MAX: usize = 4096;

/// A reply that waits to be sent.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub place: Place,
    id: String,
    status: &'static str,
    /// TID and epoch, if it was sequenced.
    sequenced: Option<(u64, u64)>,
    value: Vec<u8>,
    /// The record, if it is no request.
    letter: Option<Box<Outgoing>>,
}

impl Answered {
    /// The end of a request.
    pub fn reply(place: Place, id: String, reply: Reply) -> Self {
        // What was refused before it was sequenced has neither.
        let sequenced = (reply.epoch.0 > 0).then_some((reply.tid.0, reply.epoch.0));
        let (status, value) = match reply.outcome {
            Ok(value) if value.is_empty() => ("committed", b"null".to_vec()),
            Ok(value) => ("committed", value.to_vec()),
            Err(abort) if abort.code == Code::ReplyForgotten => ("forgotten", error(abort)),
            Err(abort) => ("aborted", error(abort)),
        };
        Answered { place, id, status, sequenced, value, letter: None }
    }

    /// The same of a request that is set aside: what it asked for is kept, for whoever releases it.
    pub fn quarantined(mut self, request: &Request, operator: &Operator) -> Self {
        let place = format!("{INGRESS}:{}:{}", self.place.partition, self.place.offset);
        let headers = [
            (APP, &*operator.app),
            (OPERATOR, &*operator.name),
            (FUNCTION, &*request.function),
            (REQUEST_ID, self.id.as_str()),
            (REASON, Code::Quarantined.as_str()),
            (PLACE, &place),
        ];
        let headers = headers
            .into_iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(value) }));
        self.status = "quarantined";
        self.letter = Some(Box::new(Outgoing {
            topic: DEAD_LETTER,
            partition: None,
            key: Some(request.key.as_bytes().to_vec()),
            headers,
            value: request.args.to_vec(),
        }));
        self
    }

    /// A record that is no request.
    pub fn refusal(record: &Record, id: String, why: &ApiError) -> Self {
        let reason = format!("{}: {}", why.code, why.message);
        let place = format!("{INGRESS}:{}:{}", record.partition, record.offset);
        let headers = record.headers.clone();
        let headers = headers.insert(Header { key: REASON, value: Some(&reason) });
        let letter = Outgoing {
            topic: DEAD_LETTER,
            partition: None,
            key: record.key.clone(),
            headers: headers.insert(Header { key: PLACE, value: Some(&place) }),
            value: record.value.clone(),
        };
        let value = why.to_json().to_string().into_bytes();
        let (place, letter) = (record.place(), Some(Box::new(letter)));
        Answered { place, id, status: "refused", sequenced: None, value, letter }
    }

    fn message(&self, partition: i32, watermark: i64) -> Outgoing {
        let mut headers = OwnedHeaders::new_with_capacity(7);
        let mut add = |key: &str, value: &str| {
            headers = std::mem::take(&mut headers).insert(Header { key, value: Some(value) });
        };
        add(REQUEST_ID, &self.id);
        add(STATUS, self.status);
        if let Some((tid, epoch)) = self.sequenced {
            add(TID, &tid.to_string());
            add(EPOCH, &epoch.to_string());
        }
        add(PARTITION, &self.place.partition.to_string());
        add(OFFSET, &self.place.offset.to_string());
        add(WATERMARK, &watermark.to_string());
        let (key, value) = (Some(self.id.clone().into_bytes()), self.value.clone());
        Outgoing { topic: EGRESS, partition: Some(partition), key, headers, value }
    }
}

fn error(abort: Abort) -> Vec<u8> {
    ApiError::from(abort).to_json().to_string().into_bytes()
}

impl styx_driver::kafka::writing::Outgoing for Answered {
    fn place(&self) -> Place {
        self.place
    }

    fn has_letter(&self) -> bool {
        self.letter.is_some()
    }

    fn drop_letter(&mut self) {
        tracing::warn!(id = self.id, "a dead letter is too large to be kept");
        self.letter = None;
    }

    fn shorten(&mut self) {
        let why = ApiError::too_large("a reply", self.value.len() as u64)
            .hint("the request had its effect, but its result is longer than the topic's max.message.bytes");
        self.value = why.to_json().to_string().into_bytes();
    }
}

/// The way out. Whoever had it before has lost it.
pub(super) struct Egress(Writers<SyncSender<(Answered, i64)>>);

/// Takes rights. Blocks.
pub(super) fn take(topics: &Topics, rights: &[Right]) -> anyhow::Result<Vec<ExclusiveWriter>> {
    let take = |right: Right| {
        let of = match right {
            Right::All => "all".to_owned(),
            Right::Of(partition) => partition.to_string(),
        };
        let name = format!("{INGRESS}:{:032x}:{of}", topics.ingress_id);
        ExclusiveWriter::take(topics.producer(), &name, topics.message_bytes_max)
            .with_context(|| format!("{name} cannot be taken"))
    };
    // All at once: brokers take their time with each.
    let writers: Vec<_> = thread::scope(|scope| {
        let taking: Vec<_> = rights.iter().map(|right| scope.spawn(move || take(*right))).collect();
        taking.into_iter().map(|taking| taking.join().expect("it says what is wrong")).collect()
    });
    writers.into_iter().collect()
}

impl Egress {
    /// Writes from now on, and returns where is told what was written.
    pub fn start(
        topics: &Topics,
        writers: Writers<ExclusiveWriter>,
    ) -> anyhow::Result<(Self, mpsc::UnboundedReceiver<Sent<KafkaError>>)> {
        let (to, sent) = mpsc::unbounded_channel();
        let writers = writers.try_map(|writer| {
            let (to, partitions) = (to.clone(), topics.egress);
            let (replies, waiting) = sync_channel(WAITING_MAX);
            thread::Builder::new()
                .name("styx-kafka-out".into())
                .spawn(move || write(&writer, partitions, &waiting, &to))?;
            anyhow::Ok(replies)
        })?;
        Ok((Egress(writers), sent))
    }

    /// Has a reply written; gives it back when there is no room at the moment.
    pub fn reply(&self, answered: Answered, watermark: i64) -> Result<(), Answered> {
        let writer = self.0.of(answered.place.partition).expect("only what is served is answered");
        match writer.try_send((answered, watermark)) {
            Err(TrySendError::Full((answered, _))) => Err(answered),
            // One that has failed has said so.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }
}

/// Writes what comes to so many partitions, until nobody listens or it fails.
fn write(
    writer: &ExclusiveWriter,
    partitions: i32,
    waiting: &Receiver<(Answered, i64)>,
    to: &mpsc::UnboundedSender<Sent<KafkaError>>,
) {
    let next = |most: usize| {
        let first = waiting.recv().ok()?;
        Some(std::iter::once(first).chain(waiting.try_iter().take(most - 1)).collect())
    };
    let append = |batch: &[(Answered, i64)]| {
        let letters = batch.iter().filter_map(|(answered, _)| answered.letter.as_deref().cloned());
        let message = |(answered, watermark): &(Answered, i64)| {
            answered.message(egress_of(answered.place.partition, partitions), *watermark)
        };
        let replies = batch.iter().map(message);
        writer.append(letters.chain(replies).collect()).map_err(|problem| match problem {
            AppendProblem::TooLarge(index) => WriteProblem::TooLarge(index),
            AppendProblem::Failed(error) => WriteProblem::Failed(error),
        })
    };
    write_all(next, append, |sent| drop(to.send(sent)));
}
