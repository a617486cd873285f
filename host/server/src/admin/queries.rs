//! Questions to the workers about how things are, asked by most handlers.

use std::pin::pin;
use std::time::Duration;

use axum::extract::FromRef;
use axum::http::StatusCode;
use styx_driver::wire::{AdminQuery, Overview, Response};
use styx_protocol::attempt::Entry;
use styx_protocol::ids::OperatorId;
use tokio::time::timeout;

use super::Admin;
use crate::handle::{Failure, Handle};
use crate::http::{ApiError, Shutdown};

/// How often whoever waits looks whether there is still something to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long workers are waited for that look through what they have.
const SAMPLE_MAX: Duration = Duration::from_secs(10);

/// The handle of whatever serves here, asked in a way that ends when it cannot answer.
#[derive(Clone)]
pub struct Queries {
    pub(crate) handle: Handle,
    pub(crate) shutdown: Shutdown,
}

impl FromRef<Admin> for Queries {
    fn from_ref(admin: &Admin) -> Self {
        Queries { handle: admin.handle.clone(), shutdown: admin.shutdown.clone() }
    }
}

impl Queries {
    /// Asks how things are.
    ///
    /// # Errors
    /// Nobody can say: the process ends, or no worker serves.
    pub(super) async fn ask(&self, query: AdminQuery) -> Result<Response, ApiError> {
        let mut answer = pin!(self.handle.read(query));
        loop {
            match timeout(POLL_INTERVAL, &mut answer).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) if self.shutdown.begun() => return Err(ApiError::shutting_down()),
                Ok(None) => return Err(Failure::Unavailable.into()),
                // What is not durable is not shown, and that may take as long as the brokers are away.
                Err(_) => {
                    if let Some(failure) = self.handle.admission().refuses_reads() {
                        return Err(failure.into());
                    }
                }
            }
        }
    }

    /// Some entities of an operator, at most so many and so many bytes of them from each worker; and how many there are.
    ///
    /// # Errors
    /// Nobody can say, or not in time.
    pub(super) async fn sample(
        &self,
        operator: OperatorId,
        limit: u32,
        bytes: u64,
    ) -> Result<(Vec<Entry>, u64), ApiError> {
        let sample = self.ask(AdminQuery::Sample { operator: operator.0, limit, bytes });
        match timeout(SAMPLE_MAX, sample).await.unwrap_or_else(|_| Err(Failure::Unavailable.into()))? {
            Response::Sample { entries, entities } => Ok((entries, entities)),
            other => Err(unexpected(&other)),
        }
    }

    /// Checks that the log takes a change of what is deployed.
    pub(super) fn admit_write(&self) -> Result<(), ApiError> {
        self.handle.admission().refuses_writes().map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Where the coordinator's admin port is, if it has told.
    pub(crate) async fn coordinator(&self) -> Option<String> {
        match self.handle.read(AdminQuery::Cluster).await {
            Some(Response::Cluster(Overview { admin: Some(admin), .. })) => Some(format!("http://{admin}")),
            _ => None,
        }
    }

    /// The error of a gateway that was asked for what only the coordinator can do.
    pub(super) async fn misdirected(&self) -> ApiError {
        let hint = match self.coordinator().await {
            Some(admin) => format!("ask the coordinator, at {admin}"),
            None => "ask the coordinator's admin port".to_owned(),
        };
        ApiError::new(StatusCode::MISDIRECTED_REQUEST, "NOT_HERE", "this is a gateway: it only takes calls").hint(hint)
    }
}

/// The error for a response to something that was not asked.
pub(super) fn unexpected(response: &Response) -> ApiError {
    tracing::error!(?response, "a query was answered with something else");
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "HOST_FAILURE", "another node answered what was not asked")
        .hint("run the same release on all nodes")
}
