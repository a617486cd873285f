//! Real brokers for tests: started by `scripts/servers/kafka.sh` in a temporary directory, on free
//! ports of loopback, and gone when the test is, however it ends.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// One broker. Dropping it ends it and deletes its data.
pub struct Broker {
    /// Where clients reach it.
    pub address: String,
    directory: PathBuf,
    /// What the script is told to start.
    arguments: Vec<String>,
    port: u16,
    /// Further lines of its configuration.
    more: String,
    running: Option<(Child, ChildStdin)>,
}

/// Starts the broker and ends it when told to, or when whoever could tell is gone. A line means that
/// its data is still needed.
const GUARD: &str = r#"
script=$1; directory=$2; shift 2
"$script" "$@" >"$directory/broker.log" 2>&1 &
echo "$!"
if read -r _; then keep=1; else keep=0; fi
kill -9 "$!" 2>/dev/null
wait "$!" 2>/dev/null
[ "$keep" = 1 ] || rm -rf "$directory"
"#;

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/servers/kafka.sh")
}

/// Whether brokers can be started here; says plainly if not.
pub fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let installed = Command::new(script()).arg("install").stdin(Stdio::null()).output();
        let why = match &installed {
            Ok(output) if output.status.success() => return true,
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        eprintln!("SKIPPED: tests with Kafka, because no broker can be started here: {why}");
        false
    })
}

/// The broker that the tests of this binary share, if there can be one.
pub fn shared() -> Option<&'static Broker> {
    static SHARED: OnceLock<Option<Broker>> = OnceLock::new();
    // It is never dropped: its guard sees this process end.
    SHARED.get_or_init(|| available().then(Broker::start)).as_ref()
}

/// `count` ports in a row that nobody listens on, nor on those a hundred above.
fn free_ports(count: u16) -> u16 {
    for _ in 0..100 {
        let base = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let Some(end) = base.checked_add(100 + count) else { continue };
        let mut ports = (base..base + count).chain(end - count..end);
        if ports.all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return base;
        }
    }
    panic!("no free ports");
}

impl Broker {
    /// Starts a broker of its own, and waits for it.
    pub fn start() -> Broker {
        Broker::start_with(|_| String::new())
    }

    /// The same, with further lines of configuration for its port.
    pub fn start_with(more: impl FnOnce(u16) -> String) -> Broker {
        let directory = directory();
        let port = free_ports(1);
        let arguments = vec!["start".into(), directory.display().to_string(), port.to_string()];
        let mut broker = Broker::new(directory, port, arguments);
        broker.more = more(port);
        broker.restart();
        broker.wait();
        broker
    }

    /// Starts three brokers of one cluster.
    pub fn start_three() -> [Broker; 3] {
        let port = free_ports(3);
        let mut brokers = [1, 2, 3_u16].map(|node| {
            let directory = directory();
            // The script keeps a node's data in a directory of its number.
            let data = directory.display().to_string();
            let arguments = vec!["start3".into(), data, port.to_string(), node.to_string()];
            let mut broker = Broker::new(directory, port + node - 1, arguments);
            broker.restart();
            broker
        });
        brokers.iter_mut().for_each(|broker| broker.wait());
        brokers
    }

    fn new(directory: PathBuf, port: u16, arguments: Vec<String>) -> Broker {
        Broker { address: format!("127.0.0.1:{port}"), directory, arguments, port, more: String::new(), running: None }
    }

    /// Starts the broker on the data that it has; [`Broker::wait`] waits until it answers.
    pub fn restart(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(script())
            .arg(&self.directory)
            .args(&self.arguments)
            .env("STYX_KAFKA_MORE", &self.more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(guard.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.trim().parse::<u32>().is_ok(), "the guard says a process id: {line:?}");
        let stdin = guard.stdin.take().unwrap();
        self.running = Some((guard, stdin));
    }

    /// Waits until the broker takes connections.
    pub fn wait(&mut self) {
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if started.elapsed() > Duration::from_secs(90) {
                let log = std::fs::read_to_string(self.directory.join("broker.log")).unwrap_or_default();
                panic!("the broker does not start: {log}");
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Ends the broker at once, as `kill -9` does. Its data stays.
    pub fn kill(&mut self) {
        let (mut guard, mut stdin) = self.running.take().expect("it runs");
        stdin.write_all(b"keep\n").unwrap();
        guard.wait().unwrap();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        match self.running.take() {
            Some((mut guard, stdin)) => {
                drop(stdin);
                let _ = guard.wait();
            }
            None => {
                let _ = std::fs::remove_dir_all(&self.directory);
            }
        }
    }
}

/// A directory that the guard deletes.
fn directory() -> PathBuf {
    tempfile::Builder::new().prefix("styx-kafka-").tempdir().unwrap().keep()
}
