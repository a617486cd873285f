//! Calls that take long: they end as all do, and nobody else waits for them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use styx_build::bundle::{Bundle, BundleLimits};
use styx_build::manifest::Manifest;
use styx_harness::{Options, Role};

use crate::process::cluster::{Cluster, options};
use crate::process::{Endpoints, Process, Told, testkit, told};

/// Rounds of work that take a tenth of a second at least.
const LONG: u64 = 100_000_000;
/// What an app may use here.
const BOUNDS: [&str; 4] = ["--max-fuel", "1000000000000", "--max-transaction-fuel", "1000000000000"];

fn flags() -> Vec<&'static str> {
    [&["--threads", "2"], &BOUNDS[..]].concat()
}

async fn deploy(server: &impl Endpoints) {
    let mut bundle = Bundle::read(&testkit().await, &BundleLimits::default()).unwrap();
    bundle.manifest.limits = Manifest::parse("[limits]\nfuel = 1_000_000_000_000\n").unwrap().limits;
    server.deploy("slow", "application/zip", bundle.write().unwrap()).await.is_deployed();
    server.deploy("shop", "application/zip", testkit().await).await.is_deployed();
}

async fn keyed(server: &impl Endpoints, key: &str, target: &str, arguments: Value) -> Told {
    let request = server.to_ingress(Method::POST, &format!("/v1/call/{target}")).header("idempotency-key", key);
    told(request.body(arguments.to_string())).await
}

async fn append(server: &impl Endpoints, target: &str, element: u64) -> Duration {
    let begun = Instant::now();
    let told = server.call(&format!("{target}/append"), format!("[{element}]")).await;
    assert_eq!(told.status, 200, "{}", told.body);
    begun.elapsed()
}

/// Two workers, on which transactions are not executed twice to be compared.
async fn cluster() -> Cluster {
    let worker_flags = ["--threads", "2"].map(str::to_owned).to_vec();
    let log_flags = BOUNDS.map(str::to_owned).to_vec();
    Cluster::start(Options { worker_flags, log_flags, ..options(2, &[]) }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_call_that_takes_long() {
    let directory = tempfile::tempdir().unwrap();
    nobody_waits(&Process::start(directory.path(), &flags()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_in_a_cluster_and_nobody_is_given_up() {
    let cluster = cluster().await;
    let generation = cluster.generation().await;
    nobody_waits(&cluster).await;
    assert_eq!(cluster.generation().await, generation);
}

async fn nobody_waits(server: &impl Endpoints) {
    deploy(server).await;
    // Three on one list, which come one after the other; others on lists of their own.
    let target =
        |at: u64| format!("slow/a/{}/append_slowly", if at < 3 { "shared".into() } else { format!("own{at}") });
    let begun = Instant::now();
    let slow = async {
        let calls = (0..6).map(|at| {
            let target = target(at);
            async move { server.call(&target, json!([at, LONG]).to_string()).await }
        });
        (join_all(calls).await, begun.elapsed())
    };
    let quick = async {
        let mut waits = Vec::new();
        while waits.len() < 20 || begun.elapsed() < Duration::from_secs(2) {
            waits.push(append(server, "shop/a/k", 1).await);
        }
        waits.sort();
        (waits, begun.elapsed())
    };
    let ((slow, slow_took), (waits, quick_took)) = tokio::join!(slow, quick);
    assert!(slow.iter().all(|told| told.status == 200), "{slow:?}");
    let lengths = slow[..3].iter().map(|told| told.body.as_array().unwrap().len());
    let mut lengths: Vec<usize> = lengths.collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [1, 2, 3], "each has seen those before it");
    let (median, most) = (waits[waits.len() / 2], waits[waits.len() * 99 / 100]);
    println!(
        "{} quick calls, {median:?} and {most:?} of 99 %, in {quick_took:?}; six slow ones in {slow_took:?}",
        waits.len()
    );
    assert!(slow_took > Duration::from_millis(300), "they were slow: {slow_took:?}");
    assert!(median < Duration::from_millis(100) && most < Duration::from_millis(500), "{median:?} {most:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_call_ends_though_others_write_what_it_reads() {
    let directory = tempfile::tempdir().unwrap();
    ends_though_others_write(&Process::start(directory.path(), &flags()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_wherever_what_it_reads_is() {
    let cluster = cluster().await;
    ends_though_others_write(&cluster).await;
    // What is called on other workers runs where the call came in, and changes what is there.
    let keys = 0..8u64;
    let calls = keys.clone().map(|at| {
        let arguments = json!(["a", format!("far{at}"), "append_slowly", format!("[{at}, {}]", LONG / 8)]);
        let cluster = &cluster;
        async move { cluster.call(&format!("slow/b/near{at}/relay_stubbornly"), arguments.to_string()).await }
    });
    for told in join_all(calls).await {
        assert_eq!((told.status, &told.body), (200, &json!(true)), "{}", told.body);
    }
    for at in keys {
        assert_eq!(cluster.call(&format!("slow/a/far{at}/append"), "[100]").await.body, json!([at, 100]));
        assert_eq!(cluster.call(&format!("slow/b/near{at}/append"), "[100]").await.body, json!([8, 100]));
    }
}

async fn ends_though_others_write(server: &impl Endpoints) {
    deploy(server).await;
    let slow = server.call("slow/a/k/append_slowly", json!([999, LONG / 3]).to_string());
    let quick = async {
        for element in 0..40 {
            append(server, "slow/a/k", element).await;
        }
    };
    let (slow, ()) = tokio::join!(slow, quick);
    let list = slow.body.as_array().unwrap().clone();
    let before = list.len() as u64 - 1;
    assert_eq!(list, (0..before).chain([999]).map(Value::from).collect::<Vec<_>>());
    let end = server.call("slow/a/k/append", "[1000]").await;
    let expected: Vec<_> = (0..before).chain([999]).chain(before..40).chain([1000]).map(Value::from).collect();
    assert_eq!(end.body.as_array().unwrap(), &expected);
    // A query sees one state, whatever is written meanwhile, and keeps nobody from writing.
    let query = server.call("slow/a/q/sum_slowly", json!(["", LONG / 2]).to_string());
    let writes = async {
        let begun = Instant::now();
        for element in 0..10 {
            append(server, "slow/a/k", element).await;
        }
        begun.elapsed()
    };
    let (query, took) = tokio::join!(query, writes);
    let sum: u64 = expected.iter().map(|element| element.as_u64().unwrap()).sum();
    let [first, second] = [0, 1].map(|at| query.body[at].as_u64().unwrap());
    assert_eq!(first, second);
    assert!((sum..=sum + 45).contains(&first), "{first}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_call_outlives_the_workers_under_its_key() {
    let mut cluster = cluster().await;
    deploy(&cluster).await;
    let (generation, workers) = (cluster.generation().await, [Role::Worker(0), Role::Worker(1)]);
    {
        let slow = keyed(&cluster, "once", "slow/a/k/append_slowly", json!([7, 10 * LONG]));
        tokio::time::timeout(Duration::from_millis(300), slow).await.expect_err("it takes long");
    }
    cluster.kill(&workers).await;
    cluster.run(&workers).await;
    cluster.settles(2, generation).await;
    let again = keyed(&cluster, "once", "slow/a/k/append_slowly", json!([7, 10 * LONG])).await;
    assert_eq!((again.status, &again.body), (200, &json!([7])), "{}", again.body);
    // One worker stops: of what has no key is told what became of it.
    let slow = async {
        let arguments = json!([8, 10 * LONG]).to_string();
        let calls = (0..4).map(|at| {
            let (cluster, arguments) = (&cluster, arguments.clone());
            async move { cluster.call(&format!("slow/a/own{at}/append_slowly"), arguments).await }
        });
        join_all(calls).await
    };
    let stop = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        // SAFETY: no memory of this process is touched.
        unsafe { libc::kill(cluster.process(workers[0]).id().unwrap().cast_signed(), libc::SIGTERM) };
    };
    let (slow, ()) = tokio::join!(slow, stop);
    for (at, told) in slow.into_iter().enumerate() {
        let list = cluster.call(&format!("slow/a/own{at}/append"), "[9]").await.body;
        if told.status == 200 {
            assert_eq!(list, json!([8, 9]));
        } else {
            told.is_error("a long call", 503, "INTERRUPTED", "nothing has happened");
            assert_eq!(list, json!([9]));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_call_outlives_a_kill_under_its_key_and_is_told_of_a_stop_without_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Process::start(directory.path(), &flags()).await;
    deploy(&server).await;
    {
        let slow = keyed(&server, "once", "slow/a/k/append_slowly", json!([7, 5 * LONG]));
        tokio::time::timeout(Duration::from_millis(200), slow).await.expect_err("it takes long");
    }
    server = server.kill_and_restart(&flags()).await;
    let again = keyed(&server, "once", "slow/a/k/append_slowly", json!([7, 5 * LONG])).await;
    assert_eq!((again.status, &again.body), (200, &json!([7])), "{}", again.body);
    let slow = server.call("slow/a/k/append_slowly", json!([8, 20 * LONG]).to_string());
    let stop = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        // SAFETY: no memory of this process is touched.
        unsafe { libc::kill(server.id().cast_signed(), libc::SIGTERM) };
    };
    let begun = Instant::now();
    let (slow, ()) = tokio::join!(slow, stop);
    slow.is_error("a long call", 503, "INTERRUPTED", "nothing has happened");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    server = server.kill_and_restart(&flags()).await;
    assert_eq!(server.call("slow/a/k/append", "[9]").await.body, json!([7, 9]));
}
