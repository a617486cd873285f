//! Errors of a log on servers.

use std::time::Duration;

/// Why a [`SharedLog`](super::SharedLog) cannot do what was asked, beyond what any log may say.
#[derive(Debug, thiserror::Error)]
pub enum KafkaProblem {
    /// Nobody answers there, or what answers is not Kafka.
    #[error("no Kafka broker answers at {brokers} (waited {} s: {detail}); check the address", .waited.as_secs())]
    Unreachable {
        /// The addresses tried.
        brokers: String,
        /// For how long.
        waited: Duration,
        /// The client's message.
        detail: String,
    },

    /// The topic is not one that this log can be on.
    #[error("topic {topic} has {found} partitions, but a log is one sequence and needs exactly 1; name another topic")]
    Partitions { topic: String, found: usize },

    /// A setting of the topic lets it lose records that were confirmed.
    #[error(
        "topic {topic} has {setting}={found}, with which records that were confirmed can be lost; \
         set it to {wanted} with the tool kafka-configs of Kafka, or name another topic"
    )]
    Setting {
        topic: String,
        setting: &'static str,
        found: String,
        /// What it must be.
        wanted: &'static str,
    },

    /// The topic is another cluster's log.
    #[error(
        "topic {topic} is the log of cluster {theirs:032x}, and this is cluster {ours:032x}; \
         name another topic, or use that cluster's data directory"
    )]
    OtherCluster {
        topic: String,
        /// Id of this cluster.
        ours: u128,
        /// Id of the owner.
        theirs: u128,
    },

    /// Records that were durable are gone.
    #[error("topic {topic} has lost records: {detail}; was it deleted, or its retention changed?")]
    Lost { topic: String, detail: String },

    /// A message of this log has another format.
    #[error(
        "topic {topic}: the message at offset {offset} has log format {found}, this version of Styx reads {known}; \
         use the version that wrote it, or a newer one"
    )]
    Format {
        topic: String,
        /// Offset of the message.
        offset: i64,
        /// Its format's version.
        found: u32,
        /// The only version that this program reads.
        known: u32,
    },

    /// The brokers were away for longer than may be waited.
    #[error(
        "topic {topic}: the brokers have not answered for {} s; restart when they are back",
        .waited.as_secs()
    )]
    Stalled {
        topic: String,
        /// For how long.
        waited: Duration,
    },

    /// A topic that is needed cannot be created.
    #[error("topic {topic} cannot be created: {detail}; check the replication factor, or create it by hand")]
    Creation {
        topic: String,
        /// The broker's message.
        detail: String,
    },

    /// Anything else that the client library reports.
    #[error("topic {topic}: {detail}; see the broker's own log")]
    Client { topic: String, detail: String },

    /// The one thing that can be said without Kafka.
    #[cfg(not(feature = "kafka"))]
    #[error(
        "this build of Styx has no Kafka; build it with `cargo build --release -p styx-cli`, where it is a default"
    )]
    Absent,
}
