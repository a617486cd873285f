//! What a server says on standard error, for machines, and to nobody.

use std::io::{BufRead, BufReader};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};
use styx_harness::TimeLimit;

use crate::process::{Endpoints, FREE, testkit};

/// A server whose standard error is a pipe; killed when dropped.
struct Piped {
    child: Child,
    ready: Value,
    http: Client,
}

impl Piped {
    fn start(data: &std::path::Path) -> Piped {
        let own = ["server", "--json", "--ingress-addr", FREE, "--admin-addr", FREE, "--data-dir"];
        let mut child = Command::new(env!("CARGO_BIN_EXE_styx"))
            .args(own)
            .arg(data)
            .args(["--log-format", "json", "--app-log-rate", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Piped { child, ready: serde_json::from_str(&line).unwrap(), http: Client::new() }
    }
}

impl Endpoints for Piped {
    fn ingress(&self) -> &str {
        self.ready["ingress"].as_str().unwrap()
    }

    fn admin(&self) -> &str {
        self.ready["admin"].as_str().unwrap()
    }

    fn http(&self) -> &Client {
        &self.http
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines that were left out so far.
async fn left_out(server: &Piped) -> u64 {
    let metrics = server.metrics().await;
    let line = metrics.lines().find_map(|line| line.strip_prefix("styx_lines_left_out_total "));
    line.unwrap_or_else(|| panic!("{metrics}")).parse::<f64>().unwrap() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_nobody_reads_hold_nothing_up_and_each_is_an_object() {
    let _limit = TimeLimit::of_test();
    let directory = tempfile::tempdir().unwrap();
    let mut server = Piped::start(directory.path());
    server.deploy("testkit", "application/zip", testkit().await).await.is_deployed();
    // More than a pipe holds, and than may wait for it.
    let began = Instant::now();
    while left_out(&server).await == 0 {
        let told = server.call("testkit/a/one/chatter", json!([200]).to_string()).await;
        assert_eq!((told.status, told.code()), (200, "OK"), "{}", told.body);
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was left out");
    }
    let told = server.call("testkit/a/one/chatter", "[1]").await;
    assert_eq!(told.status, 200, "{}", told.body);

    let mut lines = BufReader::new(server.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    assert!(["timestamp", "level", "message"].iter().all(|field| first[field].is_string()), "{first}");
    let guest = lines.find(|line| line.contains(r#""target":"guest""#)).unwrap();
    let guest: Value = serde_json::from_str(&guest).unwrap();
    let said = ["app", "function", "key"].map(|field| guest[field].as_str().unwrap_or_default().to_owned());
    assert_eq!(said, ["testkit", "a.chatter", "one"], "{guest}");
    assert!(guest["request"].is_string() && guest["tid"].is_u64(), "{guest}");

    // It goes on saying what is new once somebody reads: what is said before there is room again is left out.
    let (told, hears) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || lines.any(|line| line.contains(r#""key":"again""#)).then(|| told.send(())));
    let mut hears = pin!(hears);
    loop {
        let asked = server.call("testkit/a/again/chatter", "[1]").await;
        assert_eq!(asked.status, 200, "{}", asked.body);
        if let Ok(heard) = tokio::time::timeout(Duration::from_millis(100), &mut hears).await {
            break heard.expect("the server writes until it ends");
        }
        assert!(began.elapsed() < Duration::from_secs(120), "nothing new is said");
    }
}
