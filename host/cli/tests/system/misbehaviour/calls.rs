//! Every way in which a Rust guest can misbehave, called directly and through a caller that
//! ignores the failure; one after the other and all at once.

use serde_json::{Value, json};
use styx_build::{Bundle, BundleLimits, Manifest};

use super::neighbour::{self, Neighbours};
use super::{Expect, Told, fails, is_unharmed, nothing_is};
use crate::process::{Endpoints, Process, testkit};

const OPERATORS: [&str; 4] = ["kit/a", "kit/b", neighbour::OPERATORS[0], neighbour::OPERATORS[1]];

/// Function, arguments, and what it gives.
fn cases() -> Vec<(&'static str, Value, Expect)> {
    const LIMIT: &str = "LIMIT_EXCEEDED";
    let none = || json!([]);
    vec![
        // Resources.
        ("spin", none(), fails(500, "OUT_OF_FUEL", "a.spin used up its fuel: 5000000000 units (limits.fuel)")),
        ("burn", json!([u32::MAX]), fails(500, "OUT_OF_FUEL", "a.burn used up its fuel")),
        ("hoard", none(), fails(500, LIMIT, "a.hoard needs more memory than 64 MiB (limits.memory)")),
        ("allocate", json!([4000]), fails(500, LIMIT, "a.allocate needs more memory than 64 MiB")),
        ("recurse", none(), fails(500, "GUEST_TRAP", "a.recurse on \"k")),
        ("giant_value", json!([2 << 20]), fails(500, LIMIT, "a value of 2097152 bytes is over the limit of 1048576")),
        ("giant_result", json!([2 << 20]), fails(500, LIMIT, "a result of 2097154 bytes is over the limit of 1048576")),
        ("giant_arguments", json!([2 << 20]), fails(500, LIMIT, "arguments of 2097156 bytes are over the limit")),
        ("write_many", json!([5001]), fails(500, LIMIT, "touches more than 5000 entities (limits.rw_set)")),
        ("read_many", json!([5001]), fails(500, LIMIT, "touches more than 5000 entities (limits.rw_set)")),
        // Failures.
        ("trap", none(), fails(500, "GUEST_TRAP", "\" trapped: unreachable code (the guest aborted)")),
        ("panic", json!(["no way"]), fails(500, "GUEST_TRAP", "\" trapped: panicked at ")),
        ("fail", json!(["no \"way\" {} %s"]), fails(422, "ABORTED", "no \"way\" {} %s")),
        ("fail", json!([""]), fails(422, "ABORTED", "the function gave no reason")),
        ("fail", json!(["one\ntwo\r\n\r\n three"]), fails(422, "ABORTED", "one two three")),
        ("fail", json!(["💥".repeat(100_000)]), fails(422, "ABORTED", "💥💥💥")),
        ("fail_oddly", none(), fails(422, "ABORTED", "\"quoted\" [31mred\u{202e} {} %s 💥")),
        ("write_then_fail", none(), fails(422, "ABORTED", "after writing")),
        (
            "write_sneakily",
            none(),
            fails(500, "READ_ONLY", "a.write_sneakily is declared read-only and called a.append"),
        ),
        // Call graphs.
        ("descend", none(), fails(500, LIMIT, "calls are nested deeper than 64 (limits.call_depth)")),
        ("echo_for_ever", none(), fails(500, LIMIT, "calls are nested deeper than 64 (limits.call_depth)")),
        ("fan_out", json!([10_000]), fails(500, LIMIT, "makes more than 10000 calls (limits.calls)")),
        ("relay", json!(["c", "k", "list"]), fails(500, "GUEST_EXCEPTION", "app \"kit\" has no operator \"c\"")),
        ("relay", json!(["b", "k", "lisp"]), fails(500, "GUEST_EXCEPTION", "operator \"b\" has no function \"lisp\"")),
        (
            "relay",
            json!(["b", "k".repeat(1025), "list"]),
            fails(500, LIMIT, "a key of 1025 bytes is over the limit of 1024"),
        ),
        ("relay", json!(["b", "k", "append"]), fails(500, "GUEST_EXCEPTION", "element")),
        // Determinism: caught whatever the instances did before.
        ("leak_into_state", none(), fails(500, "NON_DETERMINISTIC", "the entities read or written differ")),
    ]
}

/// The same through `b/…`, which writes, calls, ignores the failure, writes and succeeds.
async fn stubbornly(server: &Process, key: &str, function: &str, arguments: &Value) -> Told {
    let through = json!(["a", key, function, arguments.to_string()]);
    server.call(&format!("kit/b/{key}/relay_stubbornly"), through.to_string()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_that_misbehave_hurt_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &["--threads", "2"]).await;
    let mut bundle = Bundle::read(&testkit().await, &BundleLimits::default()).unwrap();
    bundle.manifest.limits = Manifest::parse("[limits]\nmemory = \"64MiB\"\nrw_set = 5000").unwrap().limits;
    server.deploy("kit", "application/zip", bundle.write().unwrap()).await.is_deployed();
    let neighbours = Neighbours::move_in(&server).await;

    // Something that must stay as it is, under the very keys that are written in vain.
    for operator in ["a", "b"] {
        for key in ["k", "k/0", "k/1", "k'"] {
            let put = server.call(&format!("kit/{operator}/{}/put", key.replace('/', "%2F")), "[[5]]").await;
            assert_eq!(put.status, 200, "{}", put.body);
        }
    }
    let mine = ["kit/a", "kit/b"];
    let (state, memory) = (server.state(&mine).await, server.memory());
    let mut wrong = Vec::new();
    for (function, arguments, expect) in cases() {
        let told = server.call(&format!("kit/a/k/{function}"), arguments.to_string()).await;
        wrong.extend(expect.wrong(function, &told));
        assert_eq!(server.state(&mine).await, state, "{function} has left something behind");
        let told = stubbornly(&server, "k", function, &arguments).await;
        wrong.extend(expect.wrong(&format!("{function}, stubbornly"), &told));
        assert_eq!(server.state(&mine).await, state, "{function}, stubbornly, has left something behind");
    }
    nothing_is(&wrong);
    // A leak into the result is caught where the result matters.
    let leak = fails(500, "NON_DETERMINISTIC", "the outcome differs; keep state in entities, not in globals");
    for (path, arguments) in [("a/k/leak", "[]"), ("b/k/relay", "[\"a\", \"k\", \"leak\"]"), ("a/k/leak", "[]")] {
        nothing_is(leak.wrong(path, &server.call(&format!("kit/{path}"), arguments).await).as_slice());
    }

    // All at once, on the same key and on keys of their own, beside what is in order.
    let all = cases()
        .into_iter()
        .enumerate()
        .flat_map(|(at, case)| [("k".to_owned(), case.clone()), (format!("k{at}"), case)]);
    let all = all.map(|(key, (function, arguments, expect))| {
        let server = &server;
        async move {
            let told = stubbornly(server, &key, function, &arguments).await;
            expect.wrong(&format!("{function} on {key}, among others"), &told)
        }
    });
    let wrong: Vec<String> = futures_util::future::join_all(all).await.into_iter().flatten().collect();
    nothing_is(&wrong);
    assert_eq!(server.state(&mine).await, state, "something was left behind");

    // What looks like misbehaviour and is none.
    for (path, arguments, expect) in [
        ("a/cycle/ping_pong", json!([3]), json!([3, 1, 1, 3])), // a → b → a → b on one key
        ("b/cycle/list", json!([]), json!([2, 0, 0, 2])),
        ("a/deep/descend_to", json!([63]), json!(63)),
        ("a/one/allocate", json!([50]), json!(50)),
        ("a/one/giant_value", json!([1 << 20]), Value::Null),
        ("a/one/delete", json!([]), json!(true)),
        ("a/many/fan_out", json!([900]), Value::Null),
        ("a/many%2F899/list", json!([]), json!([899])),
        ("a/k/append", json!([6]), json!([5, 6])),
        ("b/k/relay_stubbornly", json!(["a", "k", "list"]), json!(true)),
    ] {
        let told = server.call(&format!("kit/{path}"), arguments.to_string()).await;
        assert_eq!((told.status, told.body), (200, expect), "{path}");
    }
    let told = server.call("kit/a/many/delete_range", "[\"many/\"]").await;
    assert_eq!((told.status, told.body), (200, json!(900)));

    neighbours.are_content().await;
    is_unharmed(server, &OPERATORS, memory).await;
}
