//! A Kafka broker of one's own, on loopback.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::process::end_with_this_process;

/// How long it may take to start.
const START_MAX: Duration = Duration::from_secs(90);

/// A broker; ends with this value, or with this process.
pub struct Broker {
    child: Child,
    /// Where clients find it.
    pub address: String,
    _directory: tempfile::TempDir,
}

impl Broker {
    /// Starts one and waits until it answers.
    pub async fn start(scripts: &Path) -> anyhow::Result<Broker> {
        let directory = tempfile::tempdir()?;
        let (script, port) = (scripts.join("kafka.sh"), free_port()?);
        let log = std::fs::File::create(directory.path().join("broker.log"))?;
        let mut command = Command::new(&script);
        command.arg("start").arg(directory.path()).arg(port.to_string()).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        end_with_this_process(&mut command);
        let child = command.spawn().with_context(|| format!("{} does not start", script.display()))?;
        let mut broker = Broker { child, address: format!("127.0.0.1:{port}"), _directory: directory };
        let started = Instant::now();
        while TcpStream::connect(&broker.address).await.is_err() {
            let said = std::fs::read_to_string(broker._directory.path().join("broker.log")).unwrap_or_default();
            let last = said.lines().last().unwrap_or("it said nothing");
            ensure!(broker.child.try_wait()?.is_none(), "the Kafka broker does not start: {last}");
            ensure!(started.elapsed() < START_MAX, "the Kafka broker cannot be reached: {last}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(broker)
    }

    /// Its process, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }
}

/// A port of loopback that nobody listens on, nor a hundred above, where brokers meet their
/// controllers; outside of what systems give to outgoing connections.
fn free_port() -> anyhow::Result<u16> {
    let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..1000 {
        let port = rand::random_range(10_000..32_000u16);
        if free(port) && free(port + 100) {
            return Ok(port);
        }
    }
    bail!("there is no free port on loopback between 10000 and 32000")
}
