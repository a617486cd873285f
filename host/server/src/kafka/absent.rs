//! The front for Kafka clients in builds without the feature `kafka`: refused.

use std::sync::Arc;

use styx_storage::log::kafka::{KafkaProblem, Settings};
use tokio::task::JoinHandle;

use crate::gateway::Ingress;

/// What a front would need.
pub struct KafkaOptions {
    pub brokers: String,
    pub settings: Settings,
    pub partitions: i32,
    pub replication: i32,
    pub shared: bool,
}

/// A front, of which there is none.
pub enum Front {}

impl Front {
    /// Refuses.
    pub async fn connect(_options: KafkaOptions) -> Result<Front, KafkaProblem> {
        Err(KafkaProblem::Absent)
    }

    pub fn serve(self, _ingress: Arc<Ingress>) -> JoinHandle<()> {
        match self {}
    }
}
