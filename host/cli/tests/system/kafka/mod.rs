//! The front for Kafka clients: a real server, real brokers, and clients that know nothing of Styx
//! but its topics. Where no broker can be started the tests say so and pass.

mod client;
mod stall;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use client::{Client, Reply};
use serde_json::{Value, json};
use styx_harness::{Options, Role};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::broker::{self, Broker};
use crate::process::cluster::{Cluster, options};
use crate::process::{Endpoints, Process, testkit};

/// Two at a time: brokers and servers are large.
static BROKERS: Semaphore = Semaphore::const_new(2);

/// A broker of a test's own, when few others have one; none if there cannot be any.
async fn own_broker() -> Option<(SemaphorePermit<'static>, Broker)> {
    let few = BROKERS.acquire().await.unwrap();
    broker::available().then(|| (few, Broker::start()))
}

/// Asks for elements to be appended to lists, five of them; returns the elements of each.
fn ask(client: &Client, elements: std::ops::Range<u64>) -> BTreeMap<String, BTreeSet<u64>> {
    let mut lists: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for element in elements {
        let key = format!("list-{}", element % 5);
        // Every third brings an id of its own.
        let id = (element % 3 == 0).then(|| format!("append-{element}"));
        client.ask(&key, "append", id.as_deref(), json!([element]).to_string().as_bytes());
        lists.entry(key).or_default().insert(element);
    }
    client.flush();
    lists
}

/// Every record has one reply, and every list what it was asked to hold, once.
async fn check(client: &Client, server: &impl Endpoints, lists: &BTreeMap<String, BTreeSet<u64>>) {
    let count = lists.values().map(BTreeSet::len).sum();
    let replies = client.replies(count, Duration::from_secs(120));
    let places = replies.iter().map(Reply::place).collect::<BTreeSet<_>>();
    assert_eq!(places.len(), replies.len(), "a record has two replies");
    assert_eq!(places, client.asked(), "the replies are those to the records");
    for reply in &replies {
        assert_eq!(reply.status(), "committed", "{reply:?}");
        assert!(reply.number("styx-tid") > 0 && reply.number("styx-epoch") > 0);
        assert_eq!(reply.header("styx-request-id").as_bytes(), reply.key);
    }
    for (key, elements) in lists {
        let told = server.call(&format!("testkit/a/{key}/list"), "").await;
        let list: Vec<u64> = serde_json::from_value(told.body).unwrap();
        assert_eq!(list.len(), elements.len(), "{key} holds each once");
        assert_eq!(list.iter().copied().collect::<BTreeSet<_>>(), *elements, "{key}");
        // Each saw the list up to itself.
        for reply in &replies {
            let seen: Vec<u64> = serde_json::from_slice(&reply.value).unwrap();
            if seen.last().is_some_and(|last| elements.contains(last)) {
                assert_eq!(seen, list[..seen.len()], "{key}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_clients_call_and_what_is_no_request_is_told_and_kept() {
    let Some((_few, broker)) = own_broker().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--kafka", &*broker.address, "--kafka-partitions", "3", "--trace-sample", "off"];
    let server = Process::with_testkit(directory.path(), &flags).await;
    let client = Client::new(&broker.address);
    let parent = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let one =
        [("styx-app", "testkit"), ("styx-operator", "a"), ("styx-function", "append"), ("styx-request-id", "one")];
    client.send(Some("k"), &[&one[..], &[parent]].concat(), b"[1]");
    client.flush();
    let first = client.replies(1, Duration::from_secs(30)).remove(0);
    assert_eq!((first.key.as_slice(), first.status(), first.json()), (&b"one"[..], "committed", json!([1])));

    // The same again: the same reply, and no second effect.
    client.ask("k", "append", Some("one"), b"[1]");
    client.ask("k", "append", Some("one"), b"[2]");
    client.ask("k", "list", None, b"");
    let app = ("styx-app", "testkit");
    let (operator, function) = (("styx-operator", "a"), ("styx-function", "append"));
    client.send(Some("k"), &[app, operator], b"[3]");
    client.send(Some("k"), &[app, operator, function, ("styx-request-id", "bad")], b"[3");
    client.send(None, &[app, operator, function], b"[3]");
    client.send(Some("k"), &[("styx-app", "nobody"), operator, function], b"[3]");
    client.send(Some("k"), &[], b"\xff\xfe");
    client.flush();
    let replies = client.replies(9, Duration::from_secs(30));
    let of = |place: usize| replies.iter().find(|reply| reply.place() == client.place(place)).unwrap();
    assert_eq!((of(1).json(), of(1).number("styx-tid")), (json!([1]), first.number("styx-tid")));
    assert_eq!(of(2).json()["code"], "IDEMPOTENCY_MISMATCH");
    assert_eq!(of(3).json(), json!([1]));
    assert!(of(3).header("styx-request-id").starts_with("kafka:styx-ingress:"));
    let refused = [
        (4, "BAD_REQUEST", "no header styx-function"),
        (5, "BAD_ARGUMENTS", ""),
        (6, "BAD_ARGUMENTS", "the key is empty"),
        (7, "UNKNOWN_APP", "nobody"),
        (8, "BAD_REQUEST", "no header styx-app"),
    ];
    for (place, code, says) in refused {
        let (reply, value) = (of(place), of(place).json());
        assert_eq!((reply.status(), value["code"].as_str()), ("refused", Some(code)), "{reply:?}");
        assert!(value["message"].as_str().unwrap().contains(says) && value["hint"] != "", "{value}");
    }
    assert_eq!(of(5).key, b"bad");
    let letters = client.dead_letters(refused.len(), Duration::from_secs(30));
    let reasons = letters.iter().map(|letter| letter.header("styx-reason").to_owned()).collect::<Vec<_>>();
    for (_, code, says) in refused {
        assert!(reasons.iter().any(|reason| reason.starts_with(code) && reason.contains(says)), "{code}: {reasons:?}");
    }
    assert!(letters.iter().any(|letter| letter.value == b"\xff\xfe"), "as it came");
    // Of all these, the one that belongs to a trace is watched.
    let seen = server.get("/v1/requests").await;
    let committed = seen["requests"].as_array().unwrap().iter().filter(|request| request["status"] == "committed");
    let committed: Vec<_> = committed.map(|request| (&request["key"], &request["function"])).collect();
    assert_eq!(committed, [(&json!("k"), &json!("append"))], "{seen}");
    assert_eq!(server.call("testkit/a/k/list", "").await.body, json!([1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_answers_every_record_once() {
    let Some((_few, broker)) = own_broker().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let more = ["--kafka", broker.address.as_str(), "--kafka-partitions", "2"];
    let mut server = Process::with_testkit(directory.path(), &more).await;
    let client = std::sync::Arc::new(Client::new(&broker.address));
    let asking = {
        let client = client.clone();
        std::thread::spawn(move || {
            let mut lists: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
            for n in 0..300 {
                for (key, elements) in ask(&client, n * 5..(n + 1) * 5) {
                    lists.entry(key).or_default().extend(elements);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            lists
        })
    };
    let mut kills_amid = 0;
    while !asking.is_finished() {
        tokio::time::sleep(Duration::from_millis(700)).await;
        kills_amid += u32::from(!asking.is_finished());
        server = server.kill_and_restart(&more).await;
    }
    assert!(kills_amid >= 3, "{kills_amid} kills while requests came");
    let lists = asking.join().unwrap();
    check(&client, &server, &lists).await;
}

/// One of two is paused for so long that the other serves its records, and goes on; then the other is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_share_the_records_and_one_that_was_replaced_answers_none() {
    let Some((_few, broker)) = own_broker().await else { return };
    let gateway_flags = vec!["--kafka".to_owned(), broker.address.clone()];
    let mut cluster = Cluster::start(Options { gateway_flags, ..options(1, &[]) }).await;
    cluster.deploy("testkit", "application/zip", testkit().await).await.is_deployed();
    let other = cluster.another_gateway(&["--kafka", &broker.address]).await;
    let client = Client::new(&broker.address);
    let mut lists: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let mut asked = 0;
    let mut ask_more = |count: u64| {
        for (key, elements) in ask(&client, asked..asked + count) {
            lists.entry(key).or_default().extend(elements);
        }
        asked += count;
        asked as usize
    };
    client.replies_begun(ask_more(200), Duration::from_secs(60));
    ask_more(500);
    other.pause().unwrap();
    client.replies_begun(ask_more(300), Duration::from_secs(60));
    other.resume().unwrap();
    ask_more(300);
    cluster.kill(&[Role::Gateway]).await;
    client.replies_begun(ask_more(200), Duration::from_secs(60));
    cluster.run(&[Role::Gateway]).await;
    ask_more(200);
    check(&client, &cluster, &lists).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_is_waited_for_by_log_and_front() {
    let Some((_few, mut broker)) = own_broker().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let log = format!("kafka://{}", broker.address);
    let more = ["--log", log.as_str()];
    let mut server = Process::with_testkit(directory.path(), &more).await;
    let client = Client::new(&broker.address);
    let mut lists = ask(&client, 0..300);
    client.replies_begun(50, Duration::from_secs(60));
    broker.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    broker.restart();
    broker.wait();
    // The log is on the same broker: what was acknowledged is there after a kill of the server, too.
    client.replies_begun(200, Duration::from_secs(120));
    server = server.kill_and_restart(&more).await;
    for (key, elements) in ask(&client, 300..400) {
        lists.get_mut(&key).unwrap().extend(elements);
    }
    check(&client, &server, &lists).await;
    assert!(server.epochs_replayed > 0 || server.position().await.0 > 0);
    let told = server.call("testkit/a/list-0/append", "[1000]").await;
    assert_eq!(told.status, 200, "{}", told.body);
    let told: Value = server.get("/v1/cluster").await;
    assert!(told["epoch"].as_u64().unwrap() > 0);
}

#[test]
fn what_cannot_be_reached_is_told_on_one_line() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let started = std::time::Instant::now();
    let begun = [["--log", &format!("kafka://{nobody}")], ["--kafka", &nobody]].map(|flags| {
        std::process::Command::new(env!("CARGO_BIN_EXE_styx"))
            .args(["server", "--ingress-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--data-dir"])
            .arg(directory.path().join(flags[0]))
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    for server in begun {
        let output = server.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("no Kafka broker answers at") && said.contains(&nobody), "{said}");
        assert!(started.elapsed() < Duration::from_secs(40));
    }
}
