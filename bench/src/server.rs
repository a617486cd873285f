//! A server process of one's own, on free ports and a directory of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::process::{self, Process};

/// Processor time and memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time.
    pub cpu: Duration,
    /// Resident memory, MiB.
    pub rss_mb: u64,
}

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

    /// Gets JSON from the admin endpoints.
    pub async fn admin_get(&self, path: &str) -> anyhow::Result<Value> {
        process::admin_get(&self.admin, path).await
    }

    /// Names of the apps that are deployed.
    pub async fn apps(&self) -> anyhow::Result<Vec<String>> {
        let body = self.admin_get("/v1/apps").await?;
        let apps = body["apps"].as_array().context("the server lists apps")?;
        Ok(apps.iter().filter_map(|app| app["name"].as_str().map(String::from)).collect())
    }

    /// What the process has used so far.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let id = self.process.id()?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        // Fields 14 and 15 in clock ticks of 10 ms; the name before them may hold blanks.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let rss = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(Usage { cpu: Duration::from_millis((ticks(11) + ticks(12)) * 10), rss_mb: rss.unwrap_or(0) / 1024 })
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
