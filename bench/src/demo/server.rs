//! A server process of the demonstration's own.

use std::path::{Path, PathBuf};
use std::process::{Command as Blocking, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(super) struct ServerProcess {
    child: Child,
    styx: PathBuf,
    ingress: String,
    admin: String,
    epochs_replayed: u64,
}

impl ServerProcess {
    /// Starts a server on free ports, or on those of `before`, and waits until it is ready.
    pub(super) async fn start(styx: &Path, data: &Path, before: Option<&ServerProcess>) -> anyhow::Result<Self> {
        let (ingress, admin) = before.map_or(("127.0.0.1:0", "127.0.0.1:0"), |before| (&before.ingress, &before.admin));
        let mut child = Command::new(styx)
            .args(["server", "--json", "--ingress-addr", ingress, "--admin-addr", admin, "--data-dir"])
            .arg(data)
            .env("STYX_LOG", "warn")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not start; build it with `just build`", styx.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("standard output is piped")?).lines();
        let line = tokio::time::timeout(Duration::from_secs(120), lines.next_line()).await.context("the server is not ready after two minutes")??;
        let Some(line) = line else { bail!("the server ended before it was ready") };
        let ready: Value = serde_json::from_str(&line).with_context(|| format!("the server said: {line}"))?;
        ensure!(ready["ready"] == true, "the server said: {line}");
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_string();
        Ok(ServerProcess { child, styx: styx.into(), ingress: text("ingress"), admin: text("admin"), epochs_replayed: ready["epochs_replayed"].as_u64().unwrap_or(0) })
    }

    /// `host:port` for calls.
    pub(super) fn ingress(&self) -> &str {
        &self.ingress
    }

    pub(super) fn epochs_replayed(&self) -> u64 {
        self.epochs_replayed
    }

    /// Builds an app and uploads it, with the command that users use.
    pub(super) fn deploy(&self, app: &Path) -> anyhow::Result<()> {
        let status = Blocking::new(&self.styx)
            .args(["deploy", "--admin-url", &format!("http://{}", self.admin), "--ingress-url", &format!("http://{}", self.ingress)])
            .arg(app)
            .status()?;
        ensure!(status.success(), "styx deploy {} failed", app.display());
        Ok(())
    }

    /// SIGKILL: no chance to tidy up.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("killing the server")
    }

    /// SIGTERM, and a clean end.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("the server has ended already")?;
        // SAFETY: sends a signal to a child that has not been waited for, so the id is still its own.
        unsafe { libc::kill(id as libc::pid_t, libc::SIGTERM) };
        let status = tokio::time::timeout(Duration::from_secs(20), self.child.wait()).await.context("the server does not stop")??;
        ensure!(status.success(), "the server stopped with {status}");
        Ok(())
    }
}
