//! A `styx server` of any role as a process of one's own, and what it says when it is ready.

use std::path::{Path, PathBuf};
use std::process::{Command as Blocking, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A running process; killed when dropped.
pub struct Process {
    child: Child,
    ready: Value,
}

impl Process {
    /// Starts one with these arguments and waits until it says that it is ready.
    pub async fn start(styx: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new(styx);
        command
            .args(["server", "--json"])
            .args(arguments)
            .env("STYX_LOG", std::env::var("STYX_LOG").unwrap_or_else(|_| "error".into()))
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        end_with_this_process(&mut command);
        let mut child = command
            .spawn()
            .with_context(|| format!("{} does not start; build it with `just build`", styx.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("standard output is piped")?).lines();
        let line = tokio::time::timeout(Duration::from_secs(120), lines.next_line())
            .await
            .context("the server is not ready after two minutes")??;
        let Some(line) = line else { bail!("the server ended before it was ready") };
        let ready: Value = serde_json::from_str(&line).with_context(|| format!("the server said: {line}"))?;
        let text = |name: &str| ready["error"][name].as_str().unwrap_or_default().to_owned();
        ensure!(ready["error"].is_null(), "the server does not start: {}: {}", text("code"), text("message"));
        ensure!(ready["ready"] == true, "the server said: {line}");
        Ok(Process { child, ready })
    }

    /// What it said when it was ready.
    pub fn ready(&self, name: &str) -> &str {
        self.ready[name].as_str().unwrap_or_default()
    }

    /// A number that it said then.
    pub fn ready_number(&self, name: &str) -> u64 {
        self.ready[name].as_u64().unwrap_or(0)
    }

    /// Its id, while it runs.
    pub fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has ended already")
    }

    /// SIGKILL: no chance to tidy up.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("killing the server")
    }

    /// SIGTERM, and a clean end.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.id()?;
        // SAFETY: sends a signal to a child that has not been waited for, so the id is still its own.
        unsafe { libc::kill(id as libc::pid_t, libc::SIGTERM) };
        let status = tokio::time::timeout(Duration::from_secs(20), self.child.wait())
            .await
            .context("the server does not stop")??;
        ensure!(status.success(), "the server stopped with {status}");
        Ok(())
    }
}

/// Has the system kill what this starts when the thread that starts it is gone, however that ends.
pub fn end_with_this_process(command: &mut Command) {
    // SAFETY: between fork and exec only one system call is made, which touches no memory of this process.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

/// Builds an app and uploads it, with the command that users use.
pub fn deploy(styx: &PathBuf, admin: &str, ingress: &str, app: &Path) -> anyhow::Result<()> {
    let (admin, ingress) = (format!("http://{admin}"), format!("http://{ingress}"));
    let status =
        Blocking::new(styx).args(["deploy", "--admin-url", &admin, "--ingress-url", &ingress]).arg(app).status()?;
    ensure!(status.success(), "styx deploy {} failed", app.display());
    Ok(())
}

/// The same under a name of one's own, without a word unless it fails.
pub fn deploy_as(styx: &Path, admin: &str, ingress: &str, app: &Path, name: &str) -> anyhow::Result<()> {
    let (admin, ingress) = (format!("http://{admin}"), format!("http://{ingress}"));
    let mut command = Blocking::new(styx);
    command.args(["deploy", "--app", name, "--admin-url", &admin, "--ingress-url", &ingress]).arg(app);
    let said = command.output().with_context(|| format!("{} does not start", styx.display()))?;
    let why = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "styx deploy {} failed: {}", app.display(), why.trim());
    Ok(())
}

/// How long a cluster may take to serve.
const SERVES_MAX: Duration = Duration::from_secs(60);

/// Waits until a cluster serves with so many workers.
pub async fn serves(admin: &str, workers: usize) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let seen = admin_get(admin, "/v1/cluster").await.unwrap_or_default();
        if seen["live"] == true && seen["workers"] == workers {
            return Ok(());
        }
        ensure!(started.elapsed() < SERVES_MAX, "the cluster does not come to serve with {workers} workers: {seen}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Gets JSON from an admin endpoint.
pub async fn admin_get(admin: &str, path: &str) -> anyhow::Result<Value> {
    Ok(reqwest::get(format!("http://{admin}{path}")).await?.error_for_status()?.json().await?)
}
