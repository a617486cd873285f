//! Files that are taken away, an address space that is too small.

use std::path::Path;
use std::process::{Command, Output};

use reqwest::Method;
use serde_json::Value;

use crate::process::{Endpoints, FREE, Process};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_taken_away_is_noticed_before_anything_more_is_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let (data, aside) = (directory.path().join("data"), directory.path().join("aside"));
    let mut server = Process::with_testkit(&data, &["--snapshot-interval", "1h"]).await;
    let first = server.call("testkit/a/list/append", "[1]").await;
    assert_eq!(first.status, 200, "{}", first.body);
    std::fs::rename(data.join("log"), &aside).unwrap();
    let call = server.to_ingress(Method::POST, "/v1/call/testkit/a/list/append").body("[2]").send().await;
    assert!(call.is_err(), "acknowledged: {call:?}");
    let said = server.ended().await;
    assert!(said.contains("FATAL: LOG_REMOVED: "), "{said}");

    std::fs::rename(&aside, data.join("log")).unwrap();
    let server = Process::start(&data, &[]).await;
    let list = server.call("testkit/a/list/list", "[]").await.body;
    assert!(list.as_array().is_some_and(|list| list.first() == Some(&Value::from(1))), "{list}");
}

/// Runs a shell command that ends with the words of a server's start, and waits for its end.
fn sh(command: &str, data: &Path) -> Output {
    let server =
        format!("{} --json server --ingress-addr {FREE} --admin-addr {FREE} --data-dir", env!("CARGO_BIN_EXE_styx"));
    Command::new("sh").arg("-c").arg(format!("{command} {server} {}", data.display())).output().unwrap()
}

#[test]
fn too_small_an_address_space_is_refused_with_a_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let output = sh("ulimit -v 8000000;", &directory.path().join("data"));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!((output.status.code(), &said["error"]["code"]), (Some(1), &Value::from("START")), "{output:?}");
    assert!(said["error"]["hint"].as_str().unwrap().contains("ulimit -v unlimited"), "{said}");
}
