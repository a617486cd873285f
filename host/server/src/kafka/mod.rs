//! The front for Kafka clients: requests come as records of one topic, replies go to another.
//!
//! A record of `styx-ingress` is a request: its key the entity's, its headers the app, operator and
//! function, its value the arguments as JSON ([`record`]). It is validated and submitted as a call
//! over HTTP is, and its reply becomes a record of `styx-egress` ([`egress`]). What is no request is
//! answered there too, and kept in `styx-dead-letter` with the reason.
//!
//! **Exactly once.** Every request has an id under which the reply is remembered: its own, or one
//! made of its place in the topic. So it may be asked again, which happens whenever nobody can say
//! what became of it. Every reply says which record it answers and below which offset all have been
//! answered ([`styx_driver::kafka`]); a front that starts reads the last replies ([`resume`]), goes on from
//! there, and passes over what has its reply already. The broker remembers nothing for it.
//!
//! One process runs the front of a pair of topics: the one that holds the log, or one gateway.
//! A broker that goes away is waited for; a session that fails begins again from the replies.

mod egress;
mod record;
mod resume;
mod session;
mod topics;

pub use topics::{DEAD_LETTER, EGRESS, INGRESS, KafkaOptions};

use std::sync::Arc;
use std::time::Duration;

use styx_storage::log::kafka::KafkaProblem;
use tokio::task::JoinHandle;

use crate::gateway::Ingress;
use session::{End, Session};
use topics::Topics;

/// Pause before a session that failed begins again.
const PAUSE: Duration = Duration::from_secs(1);

/// A front that has found its topics and does not answer yet.
pub struct Front(Topics);

impl Front {
    /// Finds or creates the topics.
    ///
    /// # Errors
    /// No broker answers, or a topic cannot be created.
    pub async fn connect(options: KafkaOptions) -> Result<Front, KafkaProblem> {
        blocking(move || Topics::ensure(options)).await.map(Front)
    }

    /// Answers from now on, until the process shuts down.
    pub fn serve(self, ingress: Arc<Ingress>) -> JoinHandle<()> {
        let Front(topics) = self;
        tracing::info!(
            brokers = topics.options.brokers,
            ingress = INGRESS,
            egress = EGRESS,
            "takes requests from Kafka"
        );
        tokio::spawn(serve(topics, ingress))
    }
}

async fn serve(mut topics: Topics, ingress: Arc<Ingress>) {
    while !ingress.shutdown.begun() {
        let ended = match Session::begin(&topics, ingress.clone()).await {
            Ok(session) => session.run().await,
            Err(why) => End::Failed(why),
        };
        match ended {
            End::Shutdown => return,
            End::Repartitioned => tracing::info!(topic = INGRESS, "the topic has other partitions now"),
            End::Failed(why) => tracing::warn!(error = %why, "the Kafka front begins again"),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = ingress.shutdown.wait() => return,
        }
        let options = topics.options.clone();
        if let Ok(found) = blocking(move || Topics::ensure(options)).await {
            topics = found;
        }
    }
}

/// Runs what waits for a broker where it may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
