//! One process that may be killed, paused and started again: the same program, addresses and directory.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

/// Longer than any start takes on a busy machine.
const START_MAX: Duration = Duration::from_secs(90);

/// What to start, and how to see that it is there.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) binary: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// It listens there when it is ready; otherwise it says so on its standard output.
    pub(super) port: Option<u16>,
}

/// The process; killed when dropped, and when whoever started it is gone.
pub(super) struct Part {
    program: Program,
    /// Where it writes what it has to say.
    log: PathBuf,
    running: Option<Running>,
}

struct Running {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Part {
    /// A process that does not run yet.
    pub(super) fn new(program: Program, directory: &Path) -> Part {
        let log = directory.join(format!("{}.log", program.name));
        Part { program, log, running: None }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.program.name
    }

    /// Starts it; [`Part::ready`] waits until it is there.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        let Program { name, binary, arguments, environment, port } = &self.program;
        let errors = std::fs::OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(binary);
        command.args(arguments).envs(environment.iter().cloned()).stdin(Stdio::null()).kill_on_drop(true);
        let output = if port.is_none() { Stdio::piped() } else { errors.try_clone()?.into() };
        command.stdout(output).stderr(errors);
        // SAFETY: between fork and exec only one system call is made, which touches no memory of this process.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let started = command.spawn();
        let mut child = started.with_context(|| format!("{name}: {} does not start", binary.display()))?;
        let lines = child.stdout.take().map(|output| BufReader::new(output).lines());
        self.running = Some(Running { child, lines });
        Ok(())
    }

    /// Waits until it is there.
    pub(super) async fn ready(&mut self) -> anyhow::Result<()> {
        let name = self.program.name.clone();
        let waited = tokio::time::timeout(START_MAX, self.is_ready()).await;
        match waited {
            Ok(ready) => ready,
            Err(_) => bail!("{name} is not ready after {START_MAX:?}: {}", self.last_words()),
        }
    }

    async fn is_ready(&mut self) -> anyhow::Result<()> {
        let Program { name, port, .. } = &self.program;
        let gone = || format!("{name} ended before it was ready: {}", last_line(&self.log));
        let running = self.running.as_mut().with_context(|| format!("{name} was not started"))?;
        if let Some(port) = *port {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                ensure!(running.child.try_wait()?.is_none(), gone());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            return Ok(());
        }
        let lines = running.lines.as_mut().context("its standard output is read")?;
        let Some(line) = lines.next_line().await? else { bail!(gone()) };
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let error = &said["error"];
        ensure!(error.is_null(), "{name} does not start: {}: {}", error["code"], error["message"]);
        ensure!(said["ready"] == true, "{name} said: {line}");
        Ok(())
    }

    /// SIGKILL, and waits for the end.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        let mut running = self.running.take().with_context(|| format!("{} does not run", self.program.name))?;
        running.child.kill().await.with_context(|| format!("killing {}", self.program.name))
    }

    /// SIGTERM, and waits for the end, which must be a good one.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        self.signal(libc::SIGTERM)?;
        let name = self.program.name.clone();
        let running = self.running.as_mut().with_context(|| format!("{name} does not run"))?;
        let status = tokio::time::timeout(START_MAX, running.child.wait()).await;
        let status = status.with_context(|| format!("{name} does not stop when it is told to"))??;
        ensure!(status.success(), "{name} was told to stop, and ended with {status}: {}", self.last_words());
        self.running = None;
        Ok(())
    }

    /// SIGSTOP.
    pub(super) fn pause(&self) -> anyhow::Result<()> {
        self.signal(libc::SIGSTOP)
    }

    /// SIGCONT.
    pub(super) fn resume(&self) -> anyhow::Result<()> {
        self.signal(libc::SIGCONT)
    }

    fn signal(&self, signal: i32) -> anyhow::Result<()> {
        let id = self.running.as_ref().and_then(|running| running.child.id());
        let id = id.with_context(|| format!("{} does not run", self.program.name))?;
        // SAFETY: sends a signal to a child that has not been waited for, so the id is still its own.
        let sent = unsafe { libc::kill(id as libc::pid_t, signal) };
        ensure!(sent == 0, "no signal reaches {}: {}", self.program.name, std::io::Error::last_os_error());
        Ok(())
    }

    /// An error if it has ended though nobody killed it.
    pub(super) fn runs(&mut self) -> anyhow::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Some(status) = running.child.try_wait()? else { return Ok(()) };
        let how = match status.signal() {
            Some(signal) => format!("by signal {signal}"),
            None => format!("with status {}", status.code().unwrap_or(-1)),
        };
        bail!("{} ended by itself, {how}: {}", self.program.name, self.last_words())
    }

    /// Whether it has ended because another one leads instead.
    pub(super) async fn was_replaced(&mut self) -> anyhow::Result<bool> {
        let Some(running) = &mut self.running else { return Ok(false) };
        let Some(status) = running.child.try_wait()? else { return Ok(false) };
        let mut said = String::new();
        while let Some(lines) = &mut running.lines
            && let Some(line) = lines.next_line().await?
        {
            said = line;
        }
        let replaced = match status.code() {
            Some(_) => said.contains("LEASE_LOST"),
            None => self.last_words().contains("replaced as the log's writer"),
        };
        if replaced {
            self.running = None;
        }
        Ok(replaced)
    }

    fn last_words(&self) -> String {
        last_line(&self.log)
    }
}

/// The last thing that a process said.
fn last_line(log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}

/// A port of loopback that nobody listens on, nor a hundred above, outside of what systems give to
/// outgoing connections: it is still free when a process comes back to it.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(5) {
        let port = rand::random_range(10_000..32_000u16);
        let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + 100) {
            return Ok(port);
        }
    }
    bail!("there is no free port on loopback between 10000 and 32000")
}
