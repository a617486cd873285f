//! A Python guest that misbehaves in the ways that Python offers.

use serde_json::json;

use super::neighbour::{self, Neighbours};
use super::{Expect, fails, is_unharmed, nothing_is};
use crate::process::{Endpoints, Process, build};

const GUEST: &str = include_str!("odd.py");

fn cases() -> Vec<(&'static str, Expect)> {
    let aborted = |says| fails(422, "ABORTED", says);
    let bug = |says| fails(500, "GUEST_EXCEPTION", says);
    vec![
        ("multiline", aborted("first second third")),
        ("control", aborted("\"quoted\"")),
        ("surrogate", aborted("lone ? surrogate")),
        ("huge", aborted("xxxxxxxx")),
        ("silent", aborted("ValueError")),
        ("raising_str", aborted("Odd")),
        ("exit", bug("odd.exit on \"k\": SystemExit: 3 at odd.py:67 in exit")),
        ("interrupt", bug("KeyboardInterrupt at odd.py:")),
        ("group", bug("BaseExceptionGroup: several (2 sub-exceptions)")),
        ("recurse", bug("RecursionError: maximum recursion depth exceeded")),
        ("recurse_in_c", fails(500, "GUEST_TRAP", "odd.recurse_in_c on \"k\" trapped: stack overflow")),
        ("loop", fails(500, "OUT_OF_FUEL", "odd.loop used up its fuel")),
        ("loop_catching", fails(500, "OUT_OF_FUEL", "odd.loop_catching used up its fuel")),
        ("power", fails(500, "OUT_OF_FUEL", "odd.power used up its fuel")),
        ("hoard", fails(500, "LIMIT_EXCEEDED", "the function ran out of memory")),
        ("hoard_slowly", fails(500, "OUT_OF_FUEL", "odd.hoard_slowly used up its fuel")),
        ("catch_and_go_on", fails(422, "ABORTED", "callee")),
        ("result_surrogate", bug("odd.result_surrogate on \"k\": ")),
        ("result_object", bug("odd.result_object on \"k\": ")),
        ("result_nan", bug("odd.result_nan on \"k\": ")),
        ("result_cycle", bug("odd.result_cycle on \"k\": ")),
        ("read_only_write", fails(500, "READ_ONLY", "odd.read_only_write is declared read-only")),
        ("leak", fails(500, "NON_DETERMINISTIC", "differ")),
        ("thread", bug("odd.py:")),
        ("open_file", bug("odd.py:")),
        ("socket", bug("odd.py:")),
        ("subprocess", bug("odd.py:")),
        ("abort", fails(500, "GUEST_TRAP", "odd.abort on \"k\" trapped")),
        ("exit_hard", fails(500, "GUEST_TRAP", "odd.exit_hard on \"k\" trapped")),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_guest_that_misbehaves_hurts_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("odd");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("odd.py"), GUEST).unwrap();
    // What never ends is to end soon.
    std::fs::write(source.join("styx.toml"), "[limits]\nfuel = 100_000_000\n").unwrap();
    let bundle = build(source).await;
    let server = Process::start(&directory.path().join("data"), &["--threads", "2"]).await;
    server.deploy("odd", "application/zip", bundle).await.is_deployed();
    let neighbours = Neighbours::move_in(&server).await;
    assert_eq!(server.call("odd/odd/k/put", "[1]").await.body, json!(1));
    let (state, memory) = (server.state(&["odd/odd"]).await, server.memory());

    let mut wrong = Vec::new();
    for (function, expect) in cases() {
        let told = server.call(&format!("odd/odd/k/{function}"), "[]").await;
        wrong.extend(expect.wrong(function, &told));
        assert_eq!(server.state(&["odd/odd"]).await, state, "{function} has left something behind");
    }
    nothing_is(&wrong);
    let all = cases().into_iter().map(|(function, expect)| {
        let server = &server;
        async move { expect.wrong(function, &server.call(&format!("odd/odd/k/{function}"), "[]").await) }
    });
    let wrong: Vec<String> = futures_util::future::join_all(all).await.into_iter().flatten().collect();
    nothing_is(&wrong);
    assert_eq!(server.state(&["odd/odd"]).await, state, "something was left behind");
    // Odd, and in order.
    for (function, expect) in [("sleep", json!("slept")), ("keep_global", json!(1)), ("put", json!(2))] {
        let told = server.call(&format!("odd/odd/k/{function}"), if function == "put" { "[2]" } else { "[]" }).await;
        assert_eq!((told.status, told.body), (200, expect), "{function}");
    }
    neighbours.are_content().await;
    is_unharmed(server, &["odd/odd", neighbour::OPERATORS[0], neighbour::OPERATORS[1]], memory).await;
}
