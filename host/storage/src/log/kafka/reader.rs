//! Reading a stretch of the topic, in order of offsets, with little memory.

use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::client::TracedContext;
use super::stall::BrokerWait;
use super::topic::cause;
use super::{KafkaOptions, KafkaProblem, Visitor, stamp};
use crate::log::LogError;

/// The partition of a log.
pub(super) const PARTITION: i32 = 0;

/// Longest wait for one answer.
const POLL: Duration = Duration::from_millis(100);

pub(super) struct Reader {
    consumer: BaseConsumer<TracedContext>,
    topic: String,
}

impl Reader {
    pub fn new(options: &KafkaOptions) -> Result<Self, KafkaProblem> {
        let mut config = options.consumer();
        // The library wants a name for a group; this one is never joined.
        config.set("group.id", "styx-log");
        let topic = options.topic.clone();
        let consumer = BaseConsumer::from_config_and_context(&config, TracedContext)
            .map_err(|error| KafkaProblem::Client { topic: topic.clone(), detail: cause(&error) })?;
        Ok(Reader { consumer, topic })
    }

    /// The offsets of the first message and after the last that all replicas have.
    pub fn bounds(&self, wait: &mut BrokerWait<'_>) -> Result<(i64, i64), KafkaProblem> {
        loop {
            match self.consumer.fetch_watermarks(&self.topic, PARTITION, Duration::from_secs(1)) {
                Ok(bounds) => return Ok(bounds),
                Err(_) => wait.no_progress()?,
            }
            std::thread::sleep(POLL);
        }
    }

    /// Calls `visit` for each message whose offset lies in `from..until`, which have all been
    /// written. Stops at the first error of `visit`.
    pub fn read(
        &self,
        from: i64,
        until: i64,
        wait: &mut BrokerWait<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<(), LogError> {
        if from >= until {
            return Ok(());
        }
        let mut assignment = TopicPartitionList::new();
        let assigned = assignment
            .add_partition_offset(&self.topic, PARTITION, Offset::Offset(from))
            .and_then(|()| self.consumer.assign(&assignment));
        assigned.map_err(|error| self.client(&error))?;
        let result = self.visit(from, until, wait, visit);
        self.consumer.unassign().map_err(|error| self.client(&error))?;
        result
    }

    fn visit(&self, from: i64, until: i64, wait: &mut BrokerWait<'_>, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        let mut at = from;
        while at < until {
            match self.consumer.poll(POLL) {
                Some(Ok(message)) if message.offset() < at => {}
                Some(Ok(message)) if message.offset() >= until => break,
                Some(Ok(message)) => {
                    wait.progress();
                    let offset = message.offset();
                    let stamp = stamp::stamp(message.headers()).map_err(|found| KafkaProblem::Format {
                        topic: self.topic.clone(),
                        offset,
                        found,
                        known: stamp::FORMAT,
                    })?;
                    visit(offset, stamp, message.payload().unwrap_or_default())?;
                    at = offset + 1;
                }
                // What remains below `until` is nothing that a consumer is shown, unless the end has moved back.
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    if self.bounds(wait)?.1 >= until {
                        break;
                    }
                    wait.no_progress()?;
                }
                Some(Err(error)) => match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::OffsetOutOfRange | RDKafkaErrorCode::AutoOffsetReset) => {
                        let detail = format!("offset {at} is not there any more");
                        return Err(KafkaProblem::Lost { topic: self.topic.clone(), detail }.into());
                    }
                    _ if matches!(error, KafkaError::MessageConsumptionFatal(_)) => {
                        return Err(self.client(&error).into());
                    }
                    _ => wait.no_progress()?,
                },
                None => wait.no_progress()?,
            }
        }
        Ok(())
    }

    fn client(&self, error: &KafkaError) -> KafkaProblem {
        KafkaProblem::Client { topic: self.topic.clone(), detail: cause(error) }
    }
}
