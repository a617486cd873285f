//! Options of a log on Kafka.

use std::time::Duration;

use rdkafka::ClientConfig;

use super::Settings;

/// Options of a [`KafkaLog`](super::KafkaLog).
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    /// Brokers to ask first, as `host:port,host:port`.
    pub brokers: String,
    /// The topic, with one partition. Created if it does not exist.
    pub topic: String,
    /// Id of the owner. A topic that holds another cluster's records is refused.
    pub cluster: u128,
    /// The writer's generation, above all in the topic; `None` takes the next.
    pub generation: Option<u64>,
    /// On how many brokers a new topic is kept. From 3 on, one less must confirm a record; of fewer, all.
    pub replication: i32,
    /// Further settings of all clients.
    pub settings: Settings,
    /// The longest record, in bytes.
    pub record_bytes_max: usize,
    /// Limit of the wait for a broker that does not answer, when opening.
    pub open_wait: Duration,
    /// Limit of a sync's wait for brokers that do not answer.
    pub stall_wait_max: Duration,
    /// From when on a sync that waits counts as stalled; see [`Stall`](super::Stall).
    pub stalled_after: Duration,
}

impl KafkaOptions {
    /// Reasonable options for a topic.
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>, cluster: u128) -> Self {
        KafkaOptions {
            brokers: brokers.into(),
            topic: topic.into(),
            cluster,
            generation: None,
            replication: 1,
            settings: Settings::default(),
            record_bytes_max: 64 << 20,
            open_wait: Duration::from_secs(10),
            stall_wait_max: Duration::from_secs(24 * 3600),
            stalled_after: Duration::from_secs(2),
        }
    }

    /// The longest message: a record with its stamp, and what Kafka adds.
    pub(super) fn message_bytes_max(&self) -> usize {
        self.record_bytes_max + STAMP_BYTES_MAX
    }

    /// Takes shorter records if a topic that exists takes only shorter messages.
    pub(super) fn fit(&mut self, message_bytes_max: usize) {
        if message_bytes_max < self.message_bytes_max() {
            self.record_bytes_max = message_bytes_max.saturating_sub(STAMP_BYTES_MAX);
            let (topic, limit) = (&self.topic, self.record_bytes_max);
            tracing::warn!(topic, limit, "the topic's max.message.bytes allows only short records; raise it");
        }
    }

    /// Configuration of every client of this log.
    pub(super) fn client(&self) -> ClientConfig {
        let mut config = self.settings.config();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", "styx-log")
            .set("socket.nagle.disable", "true")
            .set("socket.keepalive.enable", "true")
            // A broker that went away and came back is found again quickly.
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000")
            .set("topic.metadata.refresh.fast.interval.ms", "100")
            .set("topic.metadata.propagation.max.ms", "10000")
            .set("message.max.bytes", self.message_bytes_max().to_string());
        config
    }

    /// The producer: everything is confirmed by all replicas, once, in order.
    pub(super) fn producer(&self) -> ClientConfig {
        let mut config = self.client();
        config
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("max.in.flight.requests.per.connection", "5")
            // The log limits the wait: a message that timed out would leave a gap.
            .set("message.timeout.ms", "0")
            .set("request.timeout.ms", "30000")
            .set("retry.backoff.ms", "50")
            .set("retry.backoff.max.ms", "1000")
            // Records are large, and somebody waits for them.
            .set("linger.ms", "0")
            .set("batch.size", "1048576")
            .set("queue.buffering.max.messages", "100000")
            .set("queue.buffering.max.kbytes", (QUEUE_BYTES_MAX / 1024).to_string());
        config
    }

    /// The consumer: reads what it is told to, and remembers nothing at the broker.
    pub(super) fn consumer(&self) -> ClientConfig {
        let mut config = self.client();
        config
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("enable.partition.eof", "true")
            .set("check.crcs", "true")
            .set("fetch.wait.max.ms", "100")
            .set("fetch.queue.backoff.ms", "5")
            .set("fetch.error.backoff.ms", "50")
            .set("queued.min.messages", "1000")
            .set("queued.max.messages.kbytes", "16384")
            .set("fetch.message.max.bytes", "8388608")
            .set("fetch.max.bytes", self.message_bytes_max().max(16 << 20).to_string())
            .set("receive.message.max.bytes", (self.message_bytes_max().max(16 << 20) + (1 << 20)).to_string());
        config
    }
}

/// Limit of the bytes of a message beside its record.
const STAMP_BYTES_MAX: usize = 64 << 10;

/// The most that waits in memory to be sent; when it is full, an append waits.
pub(super) const QUEUE_BYTES_MAX: usize = 256 << 20;
