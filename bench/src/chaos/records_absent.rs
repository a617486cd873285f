//! The client that calls by records, in builds without the feature `kafka`: refused.

use std::sync::Arc;

use super::load::Shared;

/// A client's thread, of which there is none.
pub(super) enum Records {}

impl Records {
    pub(super) fn start(_brokers: &str, _shared: Arc<Shared>) -> anyhow::Result<Records> {
        anyhow::bail!("this build has no Kafka; `./x build` makes one that has")
    }

    pub(super) async fn answered(&self) -> anyhow::Result<()> {
        match *self {}
    }

    pub(super) fn stop(self) -> anyhow::Result<()> {
        match self {}
    }
}
