//! One process that may be killed, paused and started again: the same program, addresses and directory.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

use crate::time_limit::waits_for;

/// Longer than any start takes on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);

/// A program to start, and how to see that it is ready.
#[derive(Clone, Debug)]
pub struct Program {
    /// Names the process in errors, and its log.
    pub name: String,
    pub binary: PathBuf,
    /// Its arguments. Port 0 in an address becomes the port that the process first listened on.
    pub arguments: Vec<String>,
    /// Its environment, beside this process's.
    pub environment: Vec<(String, String)>,
    /// The port on which it listens when it is ready; without one it prints a line of JSON.
    pub port: Option<u16>,
}

/// Most lines of a process that a test which fails shows.
const LINES_SHOWN: usize = 40;

/// The process; killed when dropped, and when the thread that started it is gone.
pub struct Process {
    program: Program,
    log: PathBuf,
    running: Option<Running>,
    /// Its line of JSON when it was ready.
    ready: Value,
}

struct Running {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Process {
    /// A process that does not run yet, whose log is in `directory`.
    pub fn new(program: Program, directory: &Path) -> Process {
        let log = directory.join(format!("{}.log", program.name));
        Process { program, log, running: None, ready: Value::Null }
    }

    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Starts it; [`Process::ready`] waits until it is there.
    pub fn start(&mut self) -> anyhow::Result<()> {
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
        let mut child =
            started.with_context(|| format!("{name}: {} does not start; `just build` builds it", binary.display()))?;
        let lines = child.stdout.take().map(|output| BufReader::new(output).lines());
        self.running = Some(Running { child, lines });
        Ok(())
    }

    /// Waits until it is ready.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        waits_for(format!("{} to be ready", self.name()));
        let Ok(ready) = tokio::time::timeout(START_MAX, self.wait_ready()).await else {
            bail!("{} is not ready after {START_MAX:?}: {}", self.name(), self.last_line())
        };
        self.ready = ready?;
        // It comes back to where it was found.
        for (flag, name) in [("--ingress-addr", "ingress"), ("--admin-addr", "admin"), ("--cluster-addr", "cluster")] {
            let Some(address) = self.ready[name].as_str() else { continue };
            let at = self.program.arguments.iter().position(|argument| argument == flag);
            if let Some(value) = at.and_then(|at| self.program.arguments.get_mut(at + 1)) {
                address.clone_into(value);
            }
        }
        Ok(())
    }

    async fn wait_ready(&mut self) -> anyhow::Result<Value> {
        let Program { name, port, .. } = &self.program;
        let gone = || format!("{name} ended before it was ready: {}", last_line(&self.log));
        let running = self.running.as_mut().with_context(|| format!("{name} was not started"))?;
        if let Some(port) = *port {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                ensure!(running.child.try_wait()?.is_none(), gone());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            return Ok(Value::Null);
        }
        let lines = running.lines.as_mut().context("its standard output is read")?;
        let Some(line) = lines.next_line().await? else { bail!(gone()) };
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let text = |field: &str| said["error"][field].as_str().unwrap_or_default();
        ensure!(said["error"].is_null(), "{name} does not start: {}: {}", text("code"), text("message"));
        ensure!(said["ready"] == true, "{name} said: {line}");
        Ok(said)
    }

    /// A field of its line when it was ready.
    pub fn value(&self, name: &str) -> &Value {
        &self.ready[name]
    }

    /// A text that it said when it was ready, such as an address.
    pub fn text(&self, name: &str) -> &str {
        self.ready[name].as_str().unwrap_or_default()
    }

    /// A number that it said when it was ready.
    pub fn number(&self, name: &str) -> u64 {
        self.ready[name].as_u64().unwrap_or(0)
    }

    /// Its id, while it runs.
    pub fn id(&self) -> anyhow::Result<u32> {
        let id = self.running.as_ref().and_then(|running| running.child.id());
        id.with_context(|| format!("{} does not run", self.name()))
    }

    /// SIGKILL, and waits for the end.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        let mut running = self.running.take().with_context(|| format!("{} does not run", self.program.name))?;
        running.child.kill().await.with_context(|| format!("killing {}", self.program.name))
    }

    /// SIGTERM, and waits for the end, which must be a success.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        self.signal(libc::SIGTERM)?;
        let name = self.program.name.clone();
        let running = self.running.as_mut().with_context(|| format!("{name} does not run"))?;
        let status = tokio::time::timeout(START_MAX, running.child.wait()).await;
        let status = status.with_context(|| format!("{name} does not stop when it is told to"))??;
        ensure!(status.success(), "{name} was told to stop, and ended with {status}: {}", self.last_line());
        self.running = None;
        Ok(())
    }

    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(libc::SIGSTOP)
    }

    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(libc::SIGCONT)
    }

    pub fn signal(&self, signal: i32) -> anyhow::Result<()> {
        let id = self.id()?;
        // SAFETY: sends a signal to a child that has not been waited for, so the id is still its own.
        let sent = unsafe { libc::kill(id as libc::pid_t, signal) };
        ensure!(sent == 0, "no signal reaches {}: {}", self.name(), std::io::Error::last_os_error());
        Ok(())
    }

    /// Checks that it runs, or was killed or stopped from here.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Some(status) = running.child.try_wait()? else { return Ok(()) };
        let how = match status.signal() {
            Some(signal) => format!("by signal {signal}"),
            None => format!("with status {}", status.code().unwrap_or(-1)),
        };
        bail!("{} ended by itself, {how}: {}", self.name(), self.last_line())
    }

    /// Waits until it ends by itself: its status, and the last line of its standard output as JSON.
    pub async fn ended(&mut self) -> anyhow::Result<(ExitStatus, Value)> {
        let name = self.program.name.clone();
        waits_for(format!("{name} to end"));
        let mut running = self.running.take().with_context(|| format!("{name} does not run"))?;
        let status = tokio::time::timeout(START_MAX, running.child.wait()).await;
        let status = status.with_context(|| format!("{name} does not end"))??;
        let mut last = Value::Null;
        while let Some(lines) = &mut running.lines
            && let Some(line) = lines.next_line().await?
        {
            last = serde_json::from_str(&line).unwrap_or(Value::String(line));
        }
        Ok((status, last))
    }

    /// True if it has ended by itself; then it counts as not running. Its status and last line are as of
    /// [`Process::ended`].
    pub async fn has_ended(&mut self) -> anyhow::Result<Option<(ExitStatus, Value)>> {
        let Some(running) = &mut self.running else { return Ok(None) };
        if running.child.try_wait()?.is_none() { Ok(None) } else { self.ended().await.map(Some) }
    }

    /// Its standard error so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn last_line(&self) -> String {
        last_line(&self.log)
    }
}

/// A test that fails shows what its processes said last.
impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
            eprintln!("---- the last of what {} said\n{last}", self.name());
        }
    }
}

fn last_line(log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}
