//! A server process of one's own, on free ports and a directory of its own.

use std::path::{Path, PathBuf};

use crate::process::{self, Process};

/// A running server; killed when dropped.
pub struct ServerProcess {
    process: Process,
    styx: PathBuf,
    ingress: String,
    admin: String,
}

impl ServerProcess {
    /// Starts a server on free ports, or on those of `before`, and waits until it is ready.
    pub async fn start(
        styx: &Path,
        data: &Path,
        before: Option<&ServerProcess>,
        flags: &[String],
    ) -> anyhow::Result<Self> {
        let free = "127.0.0.1:0".to_owned();
        let (ingress, admin) = before.map_or((&free, &free), |before| (&before.ingress, &before.admin));
        let data = data.to_string_lossy().into_owned();
        let own = ["--ingress-addr", ingress, "--admin-addr", admin, "--data-dir", &data].map(str::to_owned);
        let process = Process::start(styx, &[&own[..], flags].concat()).await?;
        let (ingress, admin) = (process.ready("ingress").to_owned(), process.ready("admin").to_owned());
        Ok(ServerProcess { process, styx: styx.into(), ingress, admin })
    }

    /// `host:port` for calls.
    pub fn ingress(&self) -> &str {
        &self.ingress
    }

    /// Epochs that recovery replayed.
    pub fn epochs_replayed(&self) -> u64 {
        self.process.ready_number("epochs_replayed")
    }

    /// Builds an app and uploads it, with the command that users use.
    pub fn deploy(&self, app: &Path) -> anyhow::Result<()> {
        process::deploy(&self.styx, &self.admin, &self.ingress, app)
    }

    /// SIGKILL: no chance to tidy up.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill().await
    }

    /// SIGTERM, and a clean end.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.process.stop().await
    }
}
