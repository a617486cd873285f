//! A guest in C that does what C does not define: it ends there, and says where and what it was.

use serde_json::json;

use super::{Expect, Odd, fails};

const GUEST: &str = include_str!("odd.c");

fn cases() -> Vec<(&'static str, Expect)> {
    let trap = |says| fails(500, "GUEST_TRAP", says);
    vec![
        ("null_read", trap("odd.null_read on \"k\" trapped: odd.c:24:21: a null pointer is used as one to 'account'")),
        ("null_write", trap("odd.c:28:5: a write to a null pointer, as to 'int64_t'")),
        ("sum", trap("odd.c:32:25: a sum does not fit into 'long long'")),
        ("difference", trap("odd.c:36:25: a difference does not fit into 'long long'")),
        ("product", trap("odd.c:40:25: a product does not fit into 'long long'")),
        ("negated", trap("odd.c:44:15: a negated number does not fit into 'long long'")),
        ("by_zero", trap("odd.c:48:17: a division by 0")),
        ("quotient", trap("odd.c:52:25: a division by 0, or a quotient that does not fit into")),
        ("shift", trap("odd.c:56:17: a shift by too much")),
        ("index", trap("odd.c:60:15: an index that is not in 'int64_t[4]'")),
        ("rounded", trap("odd.c:64:15: a number does not fit into 'long long'")),
        ("no_elements", trap("odd.c:68:27: an array of no elements")),
        ("no_bool", trap("odd.c:75:15: what is read is no value of 'volatile bool'")),
        ("unreachable", trap("odd.c:79:17: what cannot be reached was reached")),
        ("asserted", trap("odd.c:84: odd_asserted_body: assertion failed: n != 1")),
        ("aborted", trap("abort() was called")),
        ("far", trap("odd.far on \"k\" trapped")),
        ("recurse", trap("odd.recurse on \"k\" trapped")),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_c_does_not_define_is_told_with_its_place() {
    let odd = Odd::start("odd.c", GUEST, "").await;
    odd.fails_as(cases(), "[1]").await;
    assert_eq!(odd.call("put", "[2]").await.body, json!(2));
    odd.leave().await;
}
