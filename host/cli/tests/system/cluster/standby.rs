//! Two coordinators at one log on Kafka and one store: one leads, the other takes over when the first is
//! killed, paused or stopped, under load. Nothing acknowledged is lost, nobody reads what is old, and workers
//! and gateways find the new one by themselves. Where no broker can be started the tests say so and pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use styx_harness::{Options, Process, Role};
use tempfile::TempDir;

use crate::broker;
use crate::process::cluster::{Cluster, PATIENCE, options};
use crate::process::load::{KEYS, Load};
use crate::process::{Endpoints, testkit, told};

/// No takeover lasts for so long, even on a busy machine.
const TAKEOVER_MAX: Duration = Duration::from_secs(30);

/// A cluster of two workers with two coordinators, and their store.
async fn pair(topic: &str, interval: &str) -> Option<(Cluster, TempDir)> {
    let log = format!("kafka://{}/{topic}", broker::shared()?.address);
    let store = tempfile::tempdir().unwrap();
    let more = ["--log", &log, "--store", store.path().to_str().unwrap(), "--snapshot-interval", interval];
    let mut cluster = Cluster::prepare(Options { standby: true, ..options(2, &more) });
    for (role, stands_by) in [(Role::Coordinator, false), (Role::Standby, true)] {
        cluster.run(&[role]).await;
        assert_eq!(*cluster.process(role).value("standby"), stands_by);
    }
    cluster.run(&[Role::Worker(0), Role::Worker(1), Role::Gateway]).await;
    cluster.settles(2, 0).await;
    cluster.deploy("testkit", "application/zip", testkit().await).await.is_deployed();
    Some((cluster, store))
}

/// Waits until the other one leads, which is asked from now on, and clients are answered again; how long that took.
async fn taken_over(cluster: &mut Cluster, load: &Load, since: Instant) -> Duration {
    cluster.swap().unwrap();
    loop {
        let seen = told(cluster.to_admin(Method::GET, "/v1/cluster")).await;
        if seen.status == 200 && seen.body["live"] == true {
            break;
        }
        assert!(since.elapsed() < TAKEOVER_MAX, "{}\n{}", seen.body, cluster.process(Role::Coordinator).log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    load.goes_on(1).await;
    since.elapsed()
}

/// The one that leads is told to stop, and the other one takes over.
async fn stopped(cluster: &mut Cluster, load: &Load) {
    let stopped = Instant::now();
    cluster.stop(Role::Coordinator).await;
    let ended = stopped.elapsed();
    let took = taken_over(cluster, load, stopped).await;
    println!("stopped within {ended:?}, the next one answers after {took:?}");
    again(cluster).await;
}

/// Starts the one that has ended again; it stands by.
async fn again(cluster: &mut Cluster) {
    cluster.run(&[Role::Standby]).await;
    assert_eq!(*cluster.process(Role::Standby).value("standby"), true);
}

/// Reads lists again and again, one after the other: what was there once is always there. When others have taken their
/// place, it reads those.
struct Reader {
    stop: Arc<AtomicBool>,
    reads: tokio::task::JoinHandle<usize>,
}

impl Reader {
    fn on(cluster: &Cluster) -> Reader {
        let stop = Arc::<AtomicBool>::default();
        let (stopped, http, ingress) = (stop.clone(), cluster.http().clone(), cluster.ingress().to_owned());
        let reads = tokio::spawn(async move {
            let (mut reads, mut before) = (0, (0..KEYS).map(|key| (key, Vec::new())).collect::<Vec<_>>());
            let read = async |key: u64| {
                let request = http.post(format!("http://{ingress}/v1/call/testkit/a/list-{key}/list")).body("[]");
                let answer = told(request).await;
                assert_eq!(answer.status, 200, "{}", answer.body);
                serde_json::from_value::<Vec<u64>>(answer.body).unwrap()
            };
            while !stopped.load(Ordering::Relaxed) {
                for (key, before) in &mut before {
                    let list = read(*key).await;
                    assert!(list.starts_with(before), "list {key} was longer before");
                    let next = if list == *before { read(*key + KEYS).await } else { Vec::new() };
                    (*key, *before) = if next.is_empty() { (*key, list) } else { (*key + KEYS, next) };
                    reads += 1;
                }
            }
            reads
        });
        Reader { stop, reads }
    }

    async fn ends(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.reads.await.unwrap()
    }
}

/// Stops a process, and waits until none of its threads runs any more: on a busy machine that takes a moment.
async fn pause(process: &Process) {
    process.pause().unwrap();
    let tasks = format!("/proc/{}/task", process.id().unwrap());
    let stopped = || {
        let mut tasks = std::fs::read_dir(&tasks).unwrap();
        tasks.all(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        })
    };
    while !stopped() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_from_one_that_is_killed_and_knows_what_only_the_log_says() {
    // No snapshot: deployments are in the log alone, and components in the store.
    let Some((mut cluster, _store)) = pair("standby-killed", "1h").await else { return };
    let http = cluster.http().clone();
    let standby = cluster.process(Role::Standby).text("admin");
    for path in ["/v1/cluster", "/v1/state/testkit/a", "/readyz"] {
        let refused = told(http.get(format!("http://{standby}{path}"))).await;
        refused.is_error(path, 503, "STANDBY", "stands by");
        assert!(refused.hint().contains(&format!("coordinator at http://{}", cluster.admin())), "{}", refused.body);
    }
    let deploy = http.post(format!("http://{standby}/v1/apps/x/deployments")).body(vec![0; 1 << 20]);
    told(deploy).await.is_error("a deployment", 503, "STANDBY", "stands by");
    assert_eq!(told(http.get(format!("http://{standby}/healthz"))).await.status, 200);

    let (load, reader) = (Load::on(&cluster.client()), Reader::on(&cluster));
    for round in 0..2 {
        load.goes_on(200).await;
        let killed = Instant::now();
        cluster.kill(&[Role::Coordinator]).await;
        println!("killed, the next one answers after {:?}", taken_over(&mut cluster, &load, killed).await);
        // A worker that comes later asks the new one for the app.
        let generation = cluster.settles(2 + round, 0).await;
        again(&mut cluster).await;
        let worker = cluster.add_worker();
        cluster.run(&[worker]).await;
        cluster.settles(3 + round, generation).await;
    }
    load.goes_on(200).await;
    println!("{} reads; {}", reader.ends().await, load.ends().await.told_by_gateway());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_from_one_that_is_stopped_and_no_request_fails() {
    let Some((mut cluster, _store)) = pair("standby-stopped", "300ms").await else { return };
    let load = Load::on(&cluster.client());
    for _ in 0..3 {
        load.goes_on(200).await;
        stopped(&mut cluster, &load).await;
    }
    load.goes_on(200).await;
    let outcome = load.ends().await;
    println!("{outcome}");
    assert_eq!(outcome.unknown, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_from_one_that_is_paused_or_stopped() {
    let Some((mut cluster, _store)) = pair("standby-paused", "300ms").await else { return };
    let (load, reader) = (Load::on(&cluster.client()), Reader::on(&cluster));
    for _ in 0..2 {
        load.goes_on(200).await;
        stopped(&mut cluster, &load).await;

        load.goes_on(200).await;
        let paused = Instant::now();
        pause(cluster.process(Role::Coordinator)).await;
        // The system takes these requests for it; it must not say what was true when it was paused.
        let asked = ["/v1/state/testkit/a", "/v1/cluster", "/v1/apps", "/readyz", "/v1/workers"].map(|path| {
            let request = cluster.to_admin(Method::GET, path);
            tokio::spawn(async move { (path, request.send().await.map(|response| response.status().as_u16())) })
        });
        println!("paused, the next one answers after {:?}", taken_over(&mut cluster, &load, paused).await);
        load.goes_on(100).await;
        let leads = format!("{} at http://", cluster.process(Role::Coordinator).name());
        let zombie = cluster.process_mut(Role::Standby);
        zombie.resume().unwrap();
        let (status, last) = zombie.ended().await.unwrap();
        // Whichever it notices first: that another one has the lease, or the log.
        match status.code() {
            Some(1) => {
                assert_eq!(last["error"]["code"], "LEASE_LOST", "{last}");
                let line = last["error"]["message"].as_str().unwrap();
                assert!(line.contains(&leads), "{line}");
            }
            _ => assert!(zombie.log().contains("replaced as the log's writer"), "{status:?}: {}", zombie.log()),
        }
        for answer in asked {
            let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap();
            assert!(matches!(answer, (_, Err(_) | Ok(503))), "{answer:?}");
        }
        again(&mut cluster).await;
    }
    // Whoever stands by is not missed.
    cluster.kill(&[Role::Standby]).await;
    load.goes_on(200).await;
    cluster.settles(2, 0).await;
    println!("{} reads; {}", reader.ends().await, load.ends().await.told_by_gateway());
}

/// Coordinators as the one that leads lists them: those beside it.
fn beside(nodes: &Value) -> Vec<&Value> {
    let coordinators = nodes["nodes"].as_array().into_iter().flatten().filter(|node| node["role"] == "coordinator");
    coordinators.filter(|node| node["leads"].is_null()).collect()
}

/// Waits until whoever leads lists those beside it so.
async fn listed(cluster: &Cluster, is_so: impl Fn(&[&Value]) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let seen = told(cluster.to_admin(Method::GET, "/v1/nodes")).await;
        if seen.status == 200 && is_so(&beside(&seen.body)) {
            return seen.body;
        }
        assert!(started.elapsed() < PATIENCE, "{}\n{}", seen.body, cluster.said());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leads_lists_who_stands_by() {
    let Some((mut cluster, _store)) = pair("standby-listed", "1h").await else { return };
    let is_empty = |beside: &[&Value]| beside.is_empty();
    let is_alive = |beside: &[&Value]| beside.len() == 1 && beside[0]["status"] == "alive";
    let seen = listed(&cluster, is_alive).await;
    let (leader, standby) = (&seen["nodes"][0], beside(&seen)[0]);
    assert_eq!((&leader["leads"]["why"], &standby["name"]), (&json!("elected"), &json!("coordinator-2")), "{seen}");
    assert_eq!(standby["admin"], cluster.process(Role::Standby).text("admin"));
    assert_eq!(standby["version"], leader["version"]);
    assert!(standby["resident_bytes"].is_u64() && standby["disk"]["free"].is_u64(), "{standby}");

    // Who is killed is missed, until it is back.
    let lacks = async |cluster: &Cluster| {
        let told = cluster.get("/v1/attention").await;
        told["attention"].as_array().unwrap().iter().any(|one| one["kind"] == "standby-lost")
    };
    assert!(!lacks(&cluster).await);
    cluster.kill(&[Role::Standby]).await;
    listed(&cluster, |beside| beside.len() == 1 && beside[0]["status"] == "lost").await;
    assert!(lacks(&cluster).await);
    again(&mut cluster).await;
    listed(&cluster, is_alive).await;
    assert!(!lacks(&cluster).await);

    // Who is stopped is not, nor who leads by now.
    cluster.stop(Role::Standby).await;
    listed(&cluster, is_empty).await;
    again(&mut cluster).await;
    listed(&cluster, is_alive).await;
    cluster.kill(&[Role::Coordinator]).await;
    cluster.swap().unwrap();
    let seen = listed(&cluster, is_empty).await;
    assert_eq!(seen["nodes"][0]["leads"]["why"], "took-over", "{seen}");
    // Long enough for it to look twice.
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(11) {
        listed(&cluster, is_empty).await;
    }
    again(&mut cluster).await;
    let seen = listed(&cluster, is_alive).await;
    assert_eq!(beside(&seen)[0]["name"], "coordinator", "{seen}");
}
