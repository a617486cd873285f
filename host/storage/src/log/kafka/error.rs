//! What can be wrong with a log on Kafka.

use std::time::Duration;

/// Why a [`KafkaLog`](super::KafkaLog) cannot do what was asked, beyond what any log may say.
#[derive(Debug, thiserror::Error)]
pub enum KafkaProblem {
    /// Nobody answers there, or what answers is not Kafka.
    #[error("no Kafka broker answers at {brokers} (waited {} s: {detail}); check the address", .waited.as_secs())]
    Unreachable {
        /// Where it was looked for.
        brokers: String,
        /// For how long.
        waited: Duration,
        /// What the client says.
        detail: String,
    },

    /// The topic is not one that this log can be on.
    #[error("topic {topic} has {found} partitions, but a log is one sequence and needs exactly 1; name another topic")]
    Partitions {
        /// The topic.
        topic: String,
        /// Its partitions.
        found: usize,
    },

    /// The topic is another cluster's log.
    #[error(
        "topic {topic} is the log of cluster {theirs:032x}, and this is cluster {ours:032x}; \
         name another topic, or use that cluster's data directory"
    )]
    OtherCluster {
        /// The topic.
        topic: String,
        /// Who opened it.
        ours: u128,
        /// Whose it is.
        theirs: u128,
    },

    /// Records that were durable are gone.
    #[error("topic {topic} has lost records: {detail}; was it deleted, or its retention changed?")]
    Lost {
        /// The topic.
        topic: String,
        /// What was noticed.
        detail: String,
    },

    /// The brokers were away for longer than may be waited.
    #[error(
        "topic {topic}: the brokers have not answered for {} s; restart when they are back",
        .waited.as_secs()
    )]
    Stalled {
        /// The topic.
        topic: String,
        /// For how long.
        waited: Duration,
    },

    /// A topic that is needed cannot be created.
    #[error("topic {topic} cannot be created: {detail}; check the replication factor, or create it by hand")]
    Creation {
        /// The topic.
        topic: String,
        /// What the broker says.
        detail: String,
    },

    /// Anything else that the client library reports.
    #[error("topic {topic}: {detail}; see the broker's own log")]
    Client {
        /// The topic.
        topic: String,
        /// What it says.
        detail: String,
    },
}
