//! Replies and dead letters on their way to their topics.

use rdkafka::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer};
use styx_driver::kafka::Place;
use styx_protocol::abort::{Abort, Code};
use styx_protocol::replies::Reply;
use tokio::sync::mpsc;

use super::record::{REQUEST_ID, Record};
use super::topics::{DEAD_LETTER, EGRESS, INGRESS, Topics};
use crate::http::ApiError;

const TID: &str = "styx-tid";
const EPOCH: &str = "styx-epoch";
const STATUS: &str = "styx-status";
const REASON: &str = "styx-reason";
/// Which record is answered, and below which offset of its partition all have been.
pub(super) const PARTITION: &str = "styx-ingress-partition";
pub(super) const OFFSET: &str = "styx-ingress-offset";
pub(super) const WATERMARK: &str = "styx-ingress-watermark";

/// A reply that waits to be sent.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub place: Place,
    id: String,
    status: &'static str,
    /// TID and epoch, if it was sequenced.
    sequenced: Option<(u64, u64)>,
    value: Vec<u8>,
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
        Answered { place, id, status, sequenced, value }
    }

    /// A record that is no request.
    pub fn refusal(place: Place, id: String, why: &ApiError) -> Self {
        Answered { place, id, status: "refused", sequenced: None, value: why.to_json().to_string().into_bytes() }
    }

    /// The same without its result, which the topic does not take.
    fn too_large(&mut self) {
        let why = ApiError::too_large("a reply", self.value.len() as u64)
            .hint("the request had its effect, but its result is longer than the topic's max.message.bytes");
        self.value = why.to_json().to_string().into_bytes();
    }
}

/// What has become of something that was sent.
#[derive(Debug)]
pub(super) enum Sent {
    /// The reply is durable.
    Reply(Place),
    /// The dead letter is durable, or cannot be kept; its refusal may follow.
    DeadLetter(Box<Answered>),
    /// Nothing more can be sent.
    Failed(String),
}

/// What the library carries with a message.
pub(super) enum Ticket {
    Reply(Answered),
    DeadLetter(Box<Answered>),
}

struct Told(mpsc::UnboundedSender<Delivered>);

/// What the library says of a message.
pub(super) struct Delivered(Ticket, Result<(), KafkaError>);

impl ClientContext for Told {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason);
    }
}

impl ProducerContext for Told {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let result = result.as_ref().map(|_| ()).map_err(|(error, _)| error.clone());
        // A session that has ended hears no more.
        drop(self.0.send(Delivered(*ticket, result)));
    }
}

/// The way out.
pub(super) struct Egress {
    producer: ThreadedProducer<Told>,
    topics: Topics,
}

impl Egress {
    /// Connects, and returns where deliveries are told.
    pub fn new(topics: &Topics) -> Result<(Self, mpsc::UnboundedReceiver<Delivered>), KafkaError> {
        let (to, delivered) = mpsc::unbounded_channel();
        let producer = ThreadedProducer::from_config_and_context(&topics.producer(), Told(to))?;
        Ok((Egress { producer, topics: topics.clone() }, delivered))
    }

    /// Sends a reply; gives it back when there is no room at the moment.
    pub fn reply(&self, answered: Answered, watermark: i64) -> Result<(), Result<Answered, KafkaError>> {
        let mut headers = OwnedHeaders::new_with_capacity(7);
        let mut add = |key: &str, value: &str| {
            headers = std::mem::take(&mut headers).insert(Header { key, value: Some(value) });
        };
        add(REQUEST_ID, &answered.id);
        add(STATUS, answered.status);
        if let Some((tid, epoch)) = answered.sequenced {
            add(TID, &tid.to_string());
            add(EPOCH, &epoch.to_string());
        }
        add(PARTITION, &answered.place.partition.to_string());
        add(OFFSET, &answered.place.offset.to_string());
        add(WATERMARK, &watermark.to_string());
        let partition = self.topics.egress_of(answered.place.partition);
        let (key, value) = (answered.id.clone(), answered.value.clone());
        let record = BaseRecord::with_opaque_to(EGRESS, Box::new(Ticket::Reply(answered)))
            .partition(partition)
            .key(key.as_bytes())
            .payload(&value[..])
            .headers(headers);
        self.producer.send(record).map_err(|(error, record)| match *record.delivery_opaque {
            Ticket::Reply(answered) if is_full(&error) => Ok(answered),
            Ticket::Reply(mut answered) if is_too_large(&error) => {
                answered.too_large();
                Ok(answered)
            }
            _ => Err(error),
        })
    }

    /// Keeps a record that is no request; its refusal is told by [`Sent::DeadLetter`] then.
    pub fn dead_letter(&self, record: &Record, why: &ApiError, refusal: Answered) -> Result<(), KafkaError> {
        let reason = format!("{}: {}", why.code, why.message);
        let place = format!("{INGRESS}:{}:{}", record.partition, record.offset);
        let headers = record
            .headers
            .clone()
            .insert(Header { key: REASON, value: Some(&reason) })
            .insert(Header { key: "styx-place", value: Some(&place) });
        let ticket = Box::new(Ticket::DeadLetter(Box::new(refusal)));
        let mut letter = BaseRecord::with_opaque_to(DEAD_LETTER, ticket).payload(&record.value[..]).headers(headers);
        if let Some(key) = &record.key {
            letter = letter.key(&key[..]);
        }
        match self.producer.send(letter) {
            Ok(()) => Ok(()),
            Err((error, letter)) => {
                // Without a copy, but not without an answer.
                tracing::warn!(place, %error, "a dead letter cannot be kept");
                let told = Delivered(*letter.delivery_opaque, Err(error));
                drop(rdkafka::producer::Producer::context(&self.producer).0.send(told));
                Ok(())
            }
        }
    }

    /// What became of a message, in words of the front.
    pub fn judge(&self, Delivered(ticket, result): Delivered) -> Sent {
        match (ticket, result) {
            (Ticket::Reply(answered), Ok(())) => Sent::Reply(answered.place),
            (Ticket::Reply(mut answered), Err(error)) if is_too_large(&error) => {
                answered.too_large();
                Sent::DeadLetter(Box::new(answered))
            }
            (Ticket::Reply(_), Err(error)) => Sent::Failed(error.to_string()),
            (Ticket::DeadLetter(refusal), _) => Sent::DeadLetter(refusal),
        }
    }
}

fn error(abort: Abort) -> Vec<u8> {
    ApiError::from(abort).to_json().to_string().into_bytes()
}

fn is_full(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull)
}

fn is_too_large(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize)
    )
}
