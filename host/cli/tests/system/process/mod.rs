//! The real server as a process of its own, which may be killed.

pub mod cluster;
pub mod load;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use styx_client::Retry;
use styx_harness::{Program, TimeLimit, waits_for};
use tokio::sync::OnceCell;

/// Any free port.
pub const FREE: &str = "127.0.0.1:0";

/// A running server; killed when dropped.
pub struct Process {
    process: styx_harness::Process,
    pub epochs_replayed: u64,
    /// The epoch of the snapshot that it began with; 0 without one.
    pub snapshot_epoch: u64,
    http: Client,
    data: PathBuf,
    _logs: tempfile::TempDir,
    _limit: TimeLimit,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Told {
    pub status: u16,
    pub body: Value,
}

impl Told {
    /// The error's code, or `OK`.
    pub fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or("OK")
    }

    pub fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or_default()
    }

    pub fn hint(&self) -> &str {
        self.body["error"]["hint"].as_str().unwrap_or_default()
    }

    /// Asserts what [`Told::wrong`] looks for.
    #[track_caller]
    pub fn is_error(&self, of: &str, status: u16, code: &str, says: &str) {
        assert_eq!(self.wrong(of, status, code, says), None);
    }

    /// Asserts that it is that of a deployment that was taken.
    #[track_caller]
    pub fn is_deployed(&self) {
        assert_eq!(self.status, 201, "{}", self.body);
    }

    /// What is wrong with it, if it is not an error with this status and code, whose one line says
    /// this, and which tells what to do.
    pub fn wrong(&self, of: &str, status: u16, code: &str, says: &str) -> Option<String> {
        let message = self.message();
        let right = (self.status, self.code()) == (status, code)
            && message.contains(says)
            && !message.is_empty()
            && message.len() <= 4096
            && !message.contains(char::is_control)
            && !self.hint().is_empty();
        let body: String = self.body.to_string().chars().take(500).collect();
        (!right).then(|| format!("{of}: expected {status} {code} {says:?}, got {} {body}", self.status))
    }
}

/// Whatever takes calls, and says how it is.
pub trait Endpoints {
    /// `host:port` for calls.
    fn ingress(&self) -> &str;

    /// `host:port` for administrators.
    fn admin(&self) -> &str;

    fn http(&self) -> &Client;

    fn to_ingress(&self, method: Method, path: &str) -> RequestBuilder {
        self.http().request(method, format!("http://{}{path}", self.ingress()))
    }

    fn to_admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.http().request(method, format!("http://{}{path}", self.admin()))
    }

    async fn deploy(&self, app: &str, kind: &str, bytes: Vec<u8>) -> Told {
        let path = format!("/v1/apps/{app}/deployments");
        told(self.to_admin(Method::POST, &path).header("content-type", kind).body(bytes)).await
    }

    /// Calls `app/operator/key/function`.
    async fn call(&self, target: &str, arguments: impl Into<reqwest::Body>) -> Told {
        told(self.to_ingress(Method::POST, &format!("/v1/call/{target}")).body(arguments)).await
    }

    /// What an admin path shows.
    async fn get(&self, path: &str) -> Value {
        let told = told(self.to_admin(Method::GET, path)).await;
        assert_eq!(told.status, 200, "{path}: {}", told.body);
        told.body
    }

    /// Takes a snapshot.
    async fn snapshot(&self) -> Value {
        let told = told(self.to_admin(Method::POST, "/v1/snapshots")).await;
        assert_eq!(told.status, 201, "{}", told.body);
        told.body
    }

    /// All entities of some operators, as `app/operator`.
    async fn state(&self, operators: &[&str]) -> Vec<Value> {
        let mut all = Vec::new();
        for operator in operators {
            let page = self.get(&format!("/v1/state/{operator}?limit=1000")).await;
            assert!(page["next"].is_null(), "{operator} fits on a page");
            all.push(page["entries"].clone());
        }
        all
    }

    async fn metrics(&self) -> String {
        self.to_admin(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap()
    }

    /// The epoch and the hash of all state up to it, as soon as they stay: a reply may arrive before its epoch
    /// has ended.
    async fn position(&self) -> (u64, String) {
        let mut before = None;
        loop {
            let seen = self.get("/v1/cluster").await;
            let now = (seen["epoch"].as_u64().unwrap(), seen["chain"].as_str().unwrap().to_owned());
            if before.as_ref() == Some(&now) {
                return now;
            }
            before = Some(now);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Endpoints for Process {
    fn ingress(&self) -> &str {
        self.process.text("ingress")
    }

    fn admin(&self) -> &str {
        self.process.text("admin")
    }

    fn http(&self) -> &Client {
        &self.http
    }
}

impl Process {
    /// Starts a server that checks every transaction's determinism unless `more` says otherwise; returns once it is
    /// ready.
    pub async fn start(data: &Path, more: &[&str]) -> Process {
        Process::start_at(FREE, FREE, data, more).await
    }

    /// The same, with the guest whose functions misbehave deployed as `testkit`.
    pub async fn with_testkit(data: &Path, more: &[&str]) -> Process {
        let server = Process::start(data, more).await;
        server.deploy("testkit", "application/zip", testkit().await).await.is_deployed();
        server
    }

    async fn start_at(ingress: &str, admin: &str, data: &Path, more: &[&str]) -> Process {
        let check: &[&str] = if more.contains(&"--determinism-check") { &[] } else { &["--determinism-check", "all"] };
        let own = ["server", "--json", "--ingress-addr", ingress, "--admin-addr", admin];
        let all = [&own[..], check, &["--data-dir", data.to_str().unwrap()], more].concat();
        let (logs, limit) = (tempfile::tempdir().unwrap(), TimeLimit::of_test());
        let process = started(logs.path(), "server", "error", &all).await;
        Process {
            epochs_replayed: process.number("epochs_replayed"),
            snapshot_epoch: process.number("snapshot_epoch"),
            http: Client::builder().timeout(Duration::from_secs(120)).build().unwrap(),
            process,
            data: data.to_owned(),
            _logs: logs,
            _limit: limit,
        }
    }

    /// Kills it with SIGKILL.
    pub async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }

    /// Kills it with SIGKILL and starts it again on the same data and addresses, with more arguments.
    pub async fn kill_and_restart(mut self, more: &[&str]) -> Process {
        self.kill().await;
        Process::start_at(self.ingress(), self.admin(), &self.data, more).await
    }

    /// Waits until it ends by itself; what it said to its standard error.
    pub async fn ended(&mut self) -> String {
        self.process.ended().await.unwrap();
        self.process.log()
    }

    pub fn id(&self) -> u32 {
        self.process.id().unwrap()
    }

    /// A client that asks until it has an answer.
    pub fn client(&self) -> styx_client::Client {
        let retry = Retry::default().pauses(Duration::from_millis(2), Duration::from_millis(20)).impatient();
        styx_client::Client::builder(self.ingress()).admin_url(self.admin()).retry(retry).build().unwrap()
    }

    /// Memory in use, in MiB.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most memory that was ever in use, in MiB.
    pub fn memory_peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    /// The share of one core that it uses over a second.
    pub async fn load(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.id());
        let ticks = || {
            let stat = std::fs::read_to_string(&path).unwrap();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        };
        let before = ticks();
        tokio::time::sleep(Duration::from_secs(1)).await;
        (ticks() - before) as f64 / 100.0
    }
}

/// A process of `styx` with these arguments, once it is ready. Its log is in `directory`.
pub async fn started(directory: &Path, name: &str, level: &str, arguments: &[&str]) -> styx_harness::Process {
    let program = Program {
        name: name.to_owned(),
        binary: env!("CARGO_BIN_EXE_styx").into(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        environment: vec![("STYX_LOG".to_owned(), level.to_owned())],
        port: None,
    };
    let mut process = styx_harness::Process::new(program, directory);
    process.start().unwrap();
    process.ready().await.unwrap();
    process
}

/// Sends and reads the answer.
pub async fn told(request: RequestBuilder) -> Told {
    let (http, request) = request.build_split();
    let request = request.unwrap();
    waits_for(format!("the answer to {} {}", request.method(), request.url()));
    let response = http.execute(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.bytes().await.unwrap();
    waits_for("something after the last answer");
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes[..bytes.len().min(500)])));
    Told { status, body }
}

/// The bundle of a guest's sources, built by the product.
pub async fn build(source: PathBuf) -> Vec<u8> {
    let built = tokio::task::spawn_blocking(move || {
        let directory = tempfile::tempdir().unwrap();
        let bundle = directory.path().join("bundle.zip");
        styx_build::build(&source, &bundle, &styx_build::Silent).map_err(|error| error.to_string())?;
        std::fs::read(&bundle).map_err(|error| error.to_string())
    });
    built.await.unwrap().unwrap()
}

/// The bundle of a guest in Python of one file. Tests that need the same one build it once: it takes many seconds.
pub async fn build_python(name: &str, file: &str, text: &str) -> Vec<u8> {
    type Built = BTreeMap<[String; 3], Arc<OnceCell<Vec<u8>>>>;
    static BUILT: Mutex<Built> = Mutex::new(BTreeMap::new());
    let which = [name, file, text].map(str::to_owned);
    let built = Arc::clone(BUILT.lock().unwrap().entry(which).or_default());
    let bundle = built.get_or_init(|| async {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join(name);
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join(file), text).unwrap();
        build(source).await
    });
    bundle.await.clone()
}

/// The bundle of the guest whose functions misbehave.
pub async fn testkit() -> Vec<u8> {
    build(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/testkit")).await
}
