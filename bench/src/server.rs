//! A server process of one's own, on free ports and a directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Command as Blocking, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

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
    child: Child,
    styx: PathBuf,
    ingress: String,
    admin: String,
    epochs_replayed: u64,
}

impl ServerProcess {
    /// Starts a server on free ports, or on those of `before`, and waits until it is ready.
    pub async fn start(
        styx: &Path,
        data: &Path,
        before: Option<&ServerProcess>,
        flags: &[String],
    ) -> anyhow::Result<Self> {
        let (ingress, admin) = before.map_or(("127.0.0.1:0", "127.0.0.1:0"), |before| (&before.ingress, &before.admin));
        let mut child = Command::new(styx)
            .args(["server", "--json", "--ingress-addr", ingress, "--admin-addr", admin, "--data-dir"])
            .arg(data)
            .args(flags)
            .env("STYX_LOG", "warn")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not start; build it with `just build`", styx.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("standard output is piped")?).lines();
        let line = tokio::time::timeout(Duration::from_secs(120), lines.next_line())
            .await
            .context("the server is not ready after two minutes")??;
        let Some(line) = line else { bail!("the server ended before it was ready") };
        let ready: Value = serde_json::from_str(&line).with_context(|| format!("the server said: {line}"))?;
        ensure!(ready["ready"] == true, "the server said: {line}");
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_string();
        Ok(ServerProcess {
            child,
            styx: styx.into(),
            ingress: text("ingress"),
            admin: text("admin"),
            epochs_replayed: ready["epochs_replayed"].as_u64().unwrap_or(0),
        })
    }

    /// `host:port` for calls.
    pub fn ingress(&self) -> &str {
        &self.ingress
    }

    /// Epochs that recovery replayed.
    pub fn epochs_replayed(&self) -> u64 {
        self.epochs_replayed
    }

    /// Builds an app and uploads it, with the command that users use.
    pub fn deploy(&self, app: &Path) -> anyhow::Result<()> {
        let status = Blocking::new(&self.styx)
            .args([
                "deploy",
                "--admin-url",
                &format!("http://{}", self.admin),
                "--ingress-url",
                &format!("http://{}", self.ingress),
            ])
            .arg(app)
            .status()?;
        ensure!(status.success(), "styx deploy {} failed", app.display());
        Ok(())
    }

    /// Gets JSON from the admin endpoints.
    pub async fn admin_get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(reqwest::get(format!("http://{}{path}", self.admin)).await?.error_for_status()?.json().await?)
    }

    /// Names of the apps that are deployed.
    pub async fn apps(&self) -> anyhow::Result<Vec<String>> {
        let body = self.admin_get("/v1/apps").await?;
        let apps = body["apps"].as_array().context("the server lists apps")?;
        Ok(apps.iter().filter_map(|app| app["name"].as_str().map(String::from)).collect())
    }

    /// What the process has used so far.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let id = self.child.id().context("the server has ended already")?;
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
        self.child.kill().await.context("killing the server")
    }

    /// SIGTERM, and a clean end.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("the server has ended already")?;
        // SAFETY: sends a signal to a child that has not been waited for, so the id is still its own.
        unsafe { libc::kill(id as libc::pid_t, libc::SIGTERM) };
        let status = tokio::time::timeout(Duration::from_secs(20), self.child.wait())
            .await
            .context("the server does not stop")??;
        ensure!(status.success(), "the server stopped with {status}");
        Ok(())
    }
}
