//! The front for Kafka clients: requests come as records of one topic, replies go to another.
//!
//! A record of `styx-ingress` is a request: its key the entity's, its headers the app, operator and
//! function, its value the arguments as JSON ([`record`]). It is validated and submitted as a call
//! over HTTP is, and its reply becomes a record of `styx-egress` ([`egress`]). What is no request is
//! answered there too, and kept in `styx-dead-letter` with the reason.
//!
//! **Exactly once.** Every request has an id under which the reply is remembered, its own or one made of its place in the
//! topic, and says from which record it comes: it has one effect, and may be asked again, which happens whenever nobody
//! can say what became of it. Every reply says which record it answers and below which offset all have been
//! answered ([`styx_driver::kafka`]); a front that starts reads the last replies ([`found`]), goes on from
//! there, and passes over what has its reply already.
//!
//! Several gateways share the partitions out among them ([`assigned`]). A session serves them until they are others. It begins
//! by taking the right to write their replies ([`egress`]), so that whoever served them before can write none any more.
//! A broker that goes away is waited for; a session that fails begins again from the replies.

mod assigned;
mod egress;
mod found;
mod record;
mod session;
mod topics;

pub use topics::{DEAD_LETTER, EGRESS, INGRESS, KafkaOptions};

use std::sync::Arc;
use std::time::Duration;

use styx_storage::log::kafka::KafkaProblem;
use tokio::task::JoinHandle;

use crate::gateway::Ingress;
use assigned::Assigned;
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
    let mut assigned = None;
    while !ingress.shutdown.begun() {
        let ended = session(&topics, &ingress, &mut assigned).await.unwrap_or_else(End::Failed);
        match ended {
            End::Shutdown => return,
            End::Reassigned => continue,
            End::Repartitioned => {
                tracing::info!(topic = INGRESS, "the topic has other partitions now");
                assigned = None;
            }
            End::Failed(why) => {
                tracing::warn!(error = %why, "the Kafka front begins again");
                // Whoever is alone may find another topic; a member of a group stays one.
                assigned = assigned.filter(|_| topics.options.shared);
            }
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

/// Serves what is assigned, until it is over.
async fn session(topics: &Topics, ingress: &Arc<Ingress>, assigned: &mut Option<Assigned>) -> anyhow::Result<End> {
    let assigned = match assigned {
        Some(assigned) => assigned,
        None => assigned.insert(Assigned::join(topics)?),
    };
    let partitions = tokio::select! {
        partitions = assigned.partitions() => partitions,
        () = ingress.shutdown.wait() => return Ok(End::Shutdown),
    };
    Ok(Session::begin(topics, ingress.clone(), partitions).await?.run(assigned).await)
}

/// Runs what waits for a broker where it may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
