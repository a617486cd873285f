//! Processes that a shell stands in for.

use std::sync::mpsc;
use std::time::Duration;

use styx_harness::{Process, Program, TimeLimit, waits_for};

fn shell(script: &str) -> Program {
    Program {
        name: "it".into(),
        binary: "/bin/sh".into(),
        arguments: ["-c", script, "it", "--admin-addr", "127.0.0.1:0"].map(str::to_owned).into(),
        environment: vec![("WORD".into(), "heard".into())],
        port: None,
    }
}

#[tokio::test]
async fn a_process_comes_back_to_its_address_and_is_told_to_end() {
    let directory = tempfile::tempdir().unwrap();
    // It is ready at the address that it is given, or at a port of its own.
    let script = r#"at=$2; [ "$at" = 127.0.0.1:0 ] && at=127.0.0.1:4711; echo $WORD >&2
        echo "{\"ready\": true, \"admin\": \"$at\", \"number\": 7}"; exec sleep 100"#;
    let mut process = Process::new(shell(script), directory.path());
    assert!(process.id().is_err() && process.kill().await.is_err());
    for _ in 0..2 {
        process.start().unwrap();
        process.ready().await.unwrap();
        assert_eq!((process.text("admin"), process.number("number")), ("127.0.0.1:4711", 7));
        process.pause().unwrap();
        process.resume().unwrap();
        process.check().unwrap();
        process.kill().await.unwrap();
    }
    assert_eq!(process.log(), "heard\nheard\n");
    process.start().unwrap();
    process.ready().await.unwrap();
    let stopped = process.stop().await.unwrap_err().to_string();
    assert!(stopped.contains("it was told to stop, and ended with signal: 15"), "{stopped}");
}

#[tokio::test]
async fn an_end_is_told_with_what_was_said_last() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = Process::new(shell("echo no room >&2; exit 3"), directory.path());
    process.start().unwrap();
    let error = process.ready().await.unwrap_err().to_string();
    assert_eq!(error, "it ended before it was ready: no room");
    let refusal = r#"echo '{"error": {"code": "ADDRESS", "message": "in use"}}'; exit 1"#;
    let mut process = Process::new(shell(refusal), directory.path());
    process.start().unwrap();
    let error = process.ready().await.unwrap_err().to_string();
    assert_eq!(error, "it does not start: ADDRESS: in use");
    let mut process = Process::new(shell(r#"echo '{"ready": true}'; echo '{"last": 1}'; exit 4"#), directory.path());
    process.start().unwrap();
    process.ready().await.unwrap();
    let (status, last) = process.ended().await.unwrap();
    assert_eq!((status.code(), last["last"].as_u64()), (Some(4), Some(1)));
}

#[test]
fn who_does_not_end_in_time_is_named_with_what_it_waits_for() {
    let (late, told) = mpsc::channel();
    let ended = late.clone();
    drop(TimeLimit::new(Duration::from_secs(60), move |what| ended.send(what).unwrap()));
    waits_for("something else");
    waits_for("an answer");
    let _limit = TimeLimit::new(Duration::from_millis(20), move |what| late.send(what).unwrap());
    let said = told.recv().unwrap();
    assert!(said.contains("who_does_not_end") && said.ends_with("it waits for an answer"), "{said}");
    assert!(told.recv().is_err(), "nothing is told of what has ended");
}
