//! The functions that behave, run in the SDK's host in memory: a test of the host
//! that relies on one must be able to rely on it.

use super::*;
use styx_sdk::testing::App;

#[test]
fn call_graphs() {
    App::new().with::<A>().with::<B>().check(&[
        ("a", "k", "ping_pong", "[2]", "[2,0,0,2]"),
        ("b", "k", "list", "[]", "[1,1]"),
        ("a", "d", "descend_to", "[5]", "5"),
        ("a", "x", "fan_in", r#"["to", 3]"#, "null"),
        ("a", "to", "list", "[]", "[0,1,2]"),
        ("a", "x", "fan_out", "[2]", "null"),
        ("a", "x/1", "list", "[]", "[1]"),
        ("a", "1", "tree", "[1, 2]", "null"),
        ("a", "log", "list", "[]", "[1,11,111,112,12,121,122]"),
        ("a", "to", "append_all", r#"[["x/1"], 9]"#, "[[0,1,2,9],[1,9]]"),
        ("a", "k", "relay", r#"["b", "k", "list"]"#, r#""[1,1]""#),
        ("a", "s", "relay_stubbornly", r#"["b", "k", "write_then_fail"]"#, "ABORTED: after writing"),
        ("a", "s", "list", "[]", "[]"),
    ]);
}

#[test]
fn state() {
    App::new().with::<A>().with::<B>().check(&[
        ("a", "p/1", "put", "[[5]]", "null"),
        ("a", "p/2", "put", "[[6,1]]", "null"),
        ("a", "p/3", "append", "[8]", "[8]"),
        ("a", "x", "scan", r#"["p/"]"#, r#"["p/1","p/2","p/3"]"#),
        ("a", "x", "scan", r#"["p/", "p/3", 1, true]"#, r#"["p/2"]"#),
        ("a", "p/3", "delete", "[]", "true"),
        ("a", "p/3", "delete", "[]", "false"),
        ("a", "sum", "sum_range", r#"["p/"]"#, "12"),
        ("a", "p/1", "follow", "[]", "[1]"),
        ("a", "5", "list", "[]", "[1]"),
        ("a", "x", "delete_range", r#"["p/"]"#, "2"),
        ("a", "x", "read_own_write", "[]", "true"),
        ("a", "m", "write_many", "[3]", "null"),
        ("a", "m", "read_many", "[5]", "3"),
    ]);
}

#[test]
fn failures() {
    App::new().with::<A>().with::<B>().check(&[
        ("a", "k", "fail", r#"["so"]"#, "ABORTED: so"),
        ("a", "k", "panic", r#"["so"]"#, "GUEST_TRAP: so"),
        ("a", "k", "write_sneakily", "[]", "GUEST_TRAP: a.k is written by a read-only function"),
        ("a", "k", "fail_oddly", "[]", "ABORTED: \0\"quoted\"\r\n\u{1b}[31mred\u{202e} {} %s \u{1f4a5}"),
        ("a", "k", "who", "[]", r#"["test","a","k","test-5"]"#),
    ]);
}
