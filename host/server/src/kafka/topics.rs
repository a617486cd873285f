//! Where the front finds its brokers and topics, and how its clients are configured.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use styx_storage::log::kafka::{KafkaProblem, Settings, Topic, TracedContext, topic_id};

/// Requests.
pub const INGRESS: &str = "styx-ingress";
/// Replies.
pub const EGRESS: &str = "styx-egress";
/// Records that are no requests.
pub const DEAD_LETTER: &str = "styx-dead-letter";

/// Where the brokers are, and how topics are created that do not exist.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    /// Brokers to ask first, as `host:port,host:port`.
    pub brokers: String,
    /// How clients connect, beyond that.
    pub settings: Settings,
    /// Partitions of requests and replies.
    pub partitions: i32,
    /// On how many brokers a topic is kept.
    pub replication: i32,
    /// Others may serve the same topic.
    pub shared: bool,
}

/// Reads topics.
pub(super) type Incoming = BaseConsumer<TracedContext>;

/// How long the brokers may take to answer at the start.
const WAIT: Duration = Duration::from_secs(10);

/// Longest record, in bytes: what a call over HTTP may bring, and its headers.
const RECORD_BYTES_MAX: usize = (64 << 20) + (64 << 10);

#[derive(Debug, Clone)]
pub(super) struct Topics {
    pub options: KafkaOptions,
    /// Id of the topic of requests: another one if it is created anew.
    pub ingress_id: u128,
    /// Partitions of requests.
    pub ingress: i32,
    /// Partitions of replies.
    pub egress: i32,
    /// The longest message that replies and dead letters may be, in bytes.
    pub message_bytes_max: usize,
}

impl Topics {
    /// Finds or creates them. Blocks.
    pub fn ensure(options: KafkaOptions) -> Result<Self, KafkaProblem> {
        let config = client(&options);
        let create = |name: &str, partitions, days: u64| {
            let settings = vec![
                ("retention.ms", (days * 24 * 3600 * 1000).to_string()),
                ("max.message.bytes", RECORD_BYTES_MAX.to_string()),
                ("segment.bytes", (256 << 20).to_string()),
            ];
            let topic = Topic { name: name.into(), partitions, replication: options.replication, settings };
            Ok((topic.ensure(&config, WAIT)? as i32, topic.message_bytes_max(&config)?))
        };
        // Replies outlive requests: from them the front knows what has been answered.
        let (ingress, _) = create(INGRESS, options.partitions, 7)?;
        let (egress, reply_bytes_max) = create(EGRESS, ingress, 30)?;
        let (_, letter_bytes_max) = create(DEAD_LETTER, 1, 30)?;
        let message_bytes_max = reply_bytes_max.min(letter_bytes_max);
        let ingress_id = topic_id(&config, INGRESS, WAIT)?;
        Ok(Topics { options, ingress_id, ingress, egress, message_bytes_max })
    }

    /// For reading what is committed; nothing is remembered at the broker.
    pub fn consumer(&self) -> Result<Incoming, KafkaError> {
        BaseConsumer::from_config_and_context(&self.reading(), TracedContext)
    }

    /// The same, of what is not committed as well.
    pub fn consumer_of_all(&self) -> Result<Incoming, KafkaError> {
        let mut config = self.reading();
        config.set("isolation.level", "read_uncommitted");
        BaseConsumer::from_config_and_context(&config, TracedContext)
    }

    /// For being told which partitions to serve, with others that serve the same topic. It reads nothing.
    pub fn member(&self) -> ClientConfig {
        let mut config = self.reading();
        config
            .set("session.timeout.ms", "10000")
            .set("max.poll.interval.ms", "60000")
            .set("auto.offset.reset", "latest");
        config
    }

    fn reading(&self) -> ClientConfig {
        let mut config = client(&self.options);
        config
            .set("group.id", "styx-front")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", "true")
            .set("isolation.level", "read_committed")
            .set("check.crcs", "true")
            .set("max.poll.interval.ms", "86400000")
            .set("fetch.wait.max.ms", "100")
            .set("fetch.error.backoff.ms", "50")
            .set("fetch.queue.backoff.ms", "10")
            .set("queued.max.messages.kbytes", "16384")
            .set("fetch.max.bytes", RECORD_BYTES_MAX.to_string())
            .set("receive.message.max.bytes", (RECORD_BYTES_MAX + (1 << 20)).to_string());
        config
    }

    /// For replies.
    pub fn producer(&self) -> ClientConfig {
        let mut config = client(&self.options);
        config
            .set("retry.backoff.ms", "50")
            .set("retry.backoff.max.ms", "1000")
            .set("linger.ms", "3")
            .set("queue.buffering.max.kbytes", "131072");
        config
    }
}

fn client(options: &KafkaOptions) -> ClientConfig {
    let mut config = options.settings.config();
    config
        .set("bootstrap.servers", &options.brokers)
        .set("client.id", "styx-front")
        .set("socket.nagle.disable", "true")
        .set("socket.keepalive.enable", "true")
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "1000")
        .set("topic.metadata.refresh.fast.interval.ms", "100")
        .set("message.max.bytes", RECORD_BYTES_MAX.to_string());
    config
}

#[cfg(test)]
mod tests {
    use styx_storage::log::kafka::SettingProblem;

    use super::*;

    #[test]
    fn nobody_can_set_what_the_front_sets() {
        let settings = Settings::read(["client.rack=r"]).unwrap();
        let options = KafkaOptions { brokers: "a:1".into(), settings, partitions: 1, replication: 1, shared: true };
        let topics = Topics { options, ingress_id: 1, ingress: 1, egress: 1, message_bytes_max: 1 };
        assert_eq!(topics.producer().get("client.rack"), Some("r"));
        for config in [topics.producer(), topics.member()] {
            for key in config.config_map().keys().filter(|key| !key.starts_with("socket.") && **key != "client.rack") {
                let read = Settings::read([format!("{key}=1")]);
                assert!(matches!(read, Err(SettingProblem::Reserved(_))), "{key}: {read:?}");
            }
        }
    }
}
