//! Topics: found, created, checked, and cut at their beginning.

use std::pin::Pin;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::KafkaProblem;
use super::client::TracedContext;

/// A topic as it is created if it does not exist.
#[derive(Debug, Clone)]
pub struct Topic {
    pub name: String,
    /// Into how many partitions.
    pub partitions: i32,
    /// On how many brokers. From 3 on, one less must confirm what is written; of fewer, all.
    pub replication: i32,
    /// Settings that differ from the broker's defaults.
    pub settings: Vec<(&'static str, String)>,
}

/// Pause between two requests to a cluster that does not answer yet.
const PAUSE: Duration = Duration::from_millis(50);

impl Topic {
    /// Creates the topic unless it exists, and returns the number of partitions that it has.
    ///
    /// # Errors
    /// Nobody answers within `wait`, or the broker refuses.
    pub fn ensure(&self, config: &ClientConfig, wait: Duration) -> Result<usize, KafkaProblem> {
        let consumer =
            BaseConsumer::from_config_and_context(config, TracedContext).map_err(|error| self.client(&error))?;
        let started = Instant::now();
        let mut created = false;
        loop {
            let detail = match consumer.fetch_metadata(Some(&self.name), Duration::from_secs(1).min(wait)) {
                Err(error) => cause(&error),
                Ok(metadata) => {
                    let topic = metadata.topics().iter().find(|topic| topic.name() == self.name);
                    match topic.map(|topic| (topic.error().map(RDKafkaErrorCode::from), topic.partitions())) {
                        Some((None, partitions)) if partitions.iter().all(|partition| partition.leader() >= 0) => {
                            return Ok(partitions.len());
                        }
                        None | Some((Some(RDKafkaErrorCode::UnknownTopicOrPartition), _)) if !created => {
                            self.create(config)?;
                            created = true;
                            continue;
                        }
                        Some((Some(RDKafkaErrorCode::InvalidTopic), _)) => {
                            return Err(self.not_created("a topic cannot have this name".into()));
                        }
                        _ => "no leader yet".into(),
                    }
                }
            };
            let waited = started.elapsed();
            if waited >= wait {
                let brokers = config.get("bootstrap.servers").unwrap_or_default().to_owned();
                return Err(KafkaProblem::Unreachable { brokers, waited, detail });
            }
            thread::sleep(PAUSE);
        }
    }

    /// The longest message that the topic takes, in bytes.
    pub fn message_bytes_max(&self, config: &ClientConfig) -> Result<usize, KafkaProblem> {
        let admin = AdminClient::from_config_and_context(config, TracedContext).map_err(|error| self.client(&error))?;
        let limit = settings(&admin, &self.name)?;
        let limit = limit.get("max.message.bytes").and_then(|limit| limit.value.as_ref()?.parse().ok());
        limit.ok_or_else(|| KafkaProblem::Client {
            topic: self.name.clone(),
            detail: "the brokers do not tell its max.message.bytes".into(),
        })
    }

    fn create(&self, config: &ClientConfig) -> Result<(), KafkaProblem> {
        let admin = AdminClient::from_config_and_context(config, TracedContext).map_err(|error| self.client(&error))?;
        let confirmed_by = (self.replication - 1).max(self.replication.min(2)).to_string();
        let mut topic = NewTopic::new(&self.name, self.partitions, TopicReplication::Fixed(self.replication))
            .set("min.insync.replicas", &confirmed_by)
            .set("unclean.leader.election.enable", "false");
        for (name, value) in &self.settings {
            topic = topic.set(name, value);
        }
        let options = AdminOptions::new()
            .request_timeout(Some(Duration::from_secs(15)))
            .operation_timeout(Some(Duration::from_secs(10)));
        match pollster::block_on(admin.create_topics([&topic], &options)) {
            Err(error) => Err(self.not_created(cause(&error))),
            Ok(results) => match results.into_iter().next() {
                Some(Err((_, code))) if code != RDKafkaErrorCode::TopicAlreadyExists => {
                    Err(self.not_created(code.to_string()))
                }
                _ => {
                    tracing::info!(topic = self.name, partitions = self.partitions, "created a Kafka topic");
                    Ok(())
                }
            },
        }
    }

    fn not_created(&self, detail: String) -> KafkaProblem {
        KafkaProblem::Creation { topic: self.name.clone(), detail }
    }

    fn client(&self, error: &KafkaError) -> KafkaProblem {
        KafkaProblem::Client { topic: self.name.clone(), detail: cause(error) }
    }
}

/// The settings of a topic that exists, with the brokers' own where it has none.
pub(super) fn settings(admin: &AdminClient<TracedContext>, topic: &str) -> Result<ConfigResource, KafkaProblem> {
    let options = AdminOptions::new().request_timeout(Some(Duration::from_secs(15)));
    let untold = |detail| KafkaProblem::Client {
        topic: topic.to_owned(),
        detail: format!("its settings cannot be read, which takes DescribeConfigs: {detail}"),
    };
    let described = pollster::block_on(admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options));
    let first = described.map_err(|error| untold(cause(&error)))?.into_iter().next();
    first.unwrap_or(Err(RDKafkaErrorCode::UnknownTopicOrPartition)).map_err(|code| untold(code.to_string()))
}

/// A deletion under way.
pub(super) struct Deletion(Pin<Box<dyn Future<Output = KafkaResult<TopicPartitionList>> + Send>>);

impl Deletion {
    /// Has the brokers delete what lies below `offset` in the topic's only partition; does not wait for them.
    pub fn start(admin: &AdminClient<TracedContext>, topic: &str, offset: i64) -> Result<Self, KafkaError> {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, 0, Offset::Offset(offset))?;
        let options = AdminOptions::new()
            .request_timeout(Some(Duration::from_secs(15)))
            .operation_timeout(Some(Duration::from_secs(10)));
        Ok(Deletion(Box::pin(admin.delete_records(&offsets, &options))))
    }

    /// Its result; `None` while it is under way.
    pub fn ended(self) -> Option<Result<(), KafkaError>> {
        let answered = self.0.now_or_never()?;
        Some(answered.and_then(|partitions| partitions.elements().iter().try_for_each(|partition| partition.error())))
    }
}

/// An error without the library's words around it.
pub(super) fn cause(error: &KafkaError) -> String {
    error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string())
}
