//! Partitions that this front serves: all, or those that the members of a group of Kafka's share out among them.
//!
//! The group only says who begins; who may write replies is decided when their names are taken
//! ([`egress`](super::egress)).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use tokio::sync::watch;

use super::topics::{INGRESS, Topics};

pub(super) struct Assigned {
    now: watch::Receiver<Option<Vec<i32>>>,
    /// The membership in a group, until it is to end.
    left: Option<Arc<AtomicBool>>,
    /// Whoever is alone is told nothing.
    _all: Option<watch::Sender<Option<Vec<i32>>>>,
}

impl Assigned {
    /// Joins the group, or takes all partitions.
    pub fn join(topics: &Topics) -> anyhow::Result<Self> {
        if !topics.options.shared {
            let (all, now) = watch::channel(Some((0..topics.ingress).collect()));
            return Ok(Assigned { now, left: None, _all: Some(all) });
        }
        let (to, now) = watch::channel(None);
        let member = BaseConsumer::from_config_and_context(&topics.member(), Told(to))?;
        member.subscribe(&[INGRESS])?;
        let left = Arc::new(AtomicBool::new(false));
        let leaving = left.clone();
        std::thread::Builder::new().name("styx-kafka-group".into()).spawn(move || {
            while !leaving.load(Ordering::Relaxed) {
                // Nothing is read: this lets the library say who is to read.
                drop(member.poll(Duration::from_millis(100)));
            }
        })?;
        Ok(Assigned { now, left: Some(left), _all: None })
    }

    /// Waits until it is known, and tells.
    pub async fn partitions(&mut self) -> Vec<i32> {
        loop {
            if let Some(partitions) = &*self.now.borrow_and_update() {
                return partitions.clone();
            }
            self.changed().await;
        }
    }

    /// Waits until it is otherwise.
    pub async fn changed(&mut self) {
        if self.now.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Assigned {
    fn drop(&mut self) {
        if let Some(left) = &self.left {
            left.store(true, Ordering::Relaxed);
        }
    }
}

/// Passes on what the group says.
struct Told(watch::Sender<Option<Vec<i32>>>);

impl ClientContext for Told {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason);
    }
}

impl ConsumerContext for Told {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if !matches!(rebalance, Rebalance::Assign(_)) {
            self.0.send_replace(None);
        }
    }

    fn post_rebalance(&self, member: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            // Somebody else reads them.
            drop(member.pause(partitions));
            let numbers: Vec<i32> = partitions.elements().iter().map(|element| element.partition()).collect();
            tracing::info!(partitions = ?numbers, "{INGRESS}: this front serves these partitions");
            self.0.send_replace(Some(numbers));
        }
    }
}
