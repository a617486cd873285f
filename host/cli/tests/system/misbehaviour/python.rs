//! A Python guest that misbehaves in the ways that Python offers.

use serde_json::json;

use super::{Expect, Odd, fails, nothing_is};
use crate::process::Endpoints;

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
    // What never ends is to end soon.
    let odd = Odd::start("odd.py", GUEST, "[limits]\nfuel = 100_000_000\n").await;
    odd.fails_as(cases(), "[]").await;
    let all = cases().into_iter().map(|(function, expect)| {
        let odd = &odd;
        async move { expect.wrong(function, &odd.call(function, "[]").await) }
    });
    let wrong: Vec<String> = futures_util::future::join_all(all).await.into_iter().flatten().collect();
    nothing_is(&wrong);
    assert_eq!(odd.server.state(&["odd/odd"]).await, odd.state, "something was left behind");
    // Odd, and in order.
    for (function, expect) in [("sleep", json!("slept")), ("keep_global", json!(1)), ("put", json!(2))] {
        let told = odd.call(function, if function == "put" { "[2]" } else { "[]" }).await;
        assert_eq!((told.status, told.body), (200, expect), "{function}");
    }
    odd.leave().await;
}
