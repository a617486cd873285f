//! The log on Kafka: one topic with one partition, for clusters that have brokers already.
//!
//! A record is a message; several are under way at once, and a sync waits until all replicas have them. Which messages
//! count, [`SharedLog`] decides; nothing of Kafka's own (transactions, consumer groups) is relied on.
//!
//! A broker that does not answer is waited for, by the clock of this process: [`Stall`] tells whether.
//!
//! Kafka's brokers do not sync their disks before they confirm. Where two must confirm, that is no matter; with one
//! replica, the topic is created with a sync for every message. A topic that exists must have such settings ([`demands`]).

mod client;
mod demands;
mod exclusive;
mod options;
mod reader;
mod settings;
mod stall;
mod stamp;
mod topic;
mod topic_id;
mod writer;

#[cfg(test)]
mod tests;

pub use client::TracedContext;
pub use exclusive::{AppendProblem, ExclusiveWriter, Outgoing};
pub use options::KafkaOptions;
pub use settings::{SettingProblem, Settings};
pub use topic::Topic;
pub use topic_id::topic_id;

use std::time::Duration;

use rdkafka::admin::AdminClient;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;

use self::reader::Reader;
use self::stall::BrokerWait;
use self::topic::Deletion;
use self::writer::Writer;
use super::LogError;
pub use super::shared::KafkaProblem;
use super::shared::{Broker, SharedLog, Stall, Stamp, Visitor};

/// A [`Log`](super::Log) on a topic of a Kafka cluster.
pub type KafkaLog = SharedLog<KafkaBroker>;

/// The clients of a log's topic.
pub struct KafkaBroker {
    options: KafkaOptions,
    reader: Reader,
    writer: Writer,
    admin: AdminClient<TracedContext>,
    stall: Stall,
    /// Limit of a wait for brokers that do not answer.
    patience: Duration,
    /// The last that was asked for.
    deletion: Option<Deletion>,
}

impl KafkaLog {
    /// Opens the log and becomes its only writer.
    ///
    /// # Errors
    /// No broker answers, and those of [`SharedLog::on`].
    pub fn open(options: KafkaOptions) -> Result<Self, LogError> {
        let (cluster, generation) = (options.cluster, options.generation);
        SharedLog::on(KafkaBroker::find(options)?, cluster, generation)
    }
}

impl KafkaBroker {
    /// Finds or creates the topic. Writes nothing into it.
    fn find(mut options: KafkaOptions) -> Result<Self, KafkaProblem> {
        let name = options.topic.clone();
        let found = log_topic(&options).ensure(&options.client(), options.open_wait)?;
        if found != 1 {
            return Err(KafkaProblem::Partitions { topic: name, found });
        }
        let client = |error| KafkaProblem::Client { topic: name.clone(), detail: topic::cause(&error) };
        let admin = AdminClient::from_config_and_context(&options.client(), TracedContext).map_err(client)?;
        let settings = topic::settings(&admin, &name)?;
        let value_of = |setting: &str| settings.get(setting)?.value.as_deref();
        demands::check(&name, value_of)?;
        if let Some(limit) = value_of("max.message.bytes").and_then(|limit| limit.parse().ok()) {
            options.fit(limit);
        }
        let (reader, writer) = (Reader::new(&options)?, Writer::new(&options)?);
        let patience = options.open_wait;
        Ok(KafkaBroker { options, reader, writer, admin, stall: Stall::default(), patience, deletion: None })
    }

    fn wait(&self) -> BrokerWait<'_> {
        BrokerWait::new(&self.stall, &self.options, self.patience)
    }
}

impl Broker for KafkaBroker {
    fn topic(&self) -> &str {
        &self.options.topic
    }

    fn record_bytes_max(&self) -> usize {
        self.options.record_bytes_max
    }

    fn nonce(&mut self) -> u64 {
        rand::random()
    }

    fn stall(&self) -> Stall {
        self.stall.clone()
    }

    fn opened(&mut self) {
        self.patience = self.options.stall_wait_max;
    }

    fn bounds(&mut self) -> Result<(i64, i64), KafkaProblem> {
        self.reader.bounds(&mut self.wait())
    }

    fn read(&mut self, from: i64, until: i64, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        self.reader.read(from, until, &mut self.wait(), visit)
    }

    fn send(&mut self, stamp: &Stamp, record: &[u8]) -> Result<(), KafkaProblem> {
        self.writer.send(stamp, record, &mut self.wait())
    }

    fn confirmed(&mut self, count: usize) -> Result<Vec<i64>, KafkaProblem> {
        self.writer.confirmed(count, &mut self.wait())
    }

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
