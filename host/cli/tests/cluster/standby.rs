//! Two coordinators at one log on Kafka and one store: one leads, the other takes over when the first is
//! killed, paused or stopped, under load. Nothing acknowledged is lost, nobody reads what is old, and workers
//! and gateways find the new one by themselves. Where no broker can be started the tests say so and pass.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::broker;
use crate::process::load::{KEYS, Load};
use crate::process::{testkit, told};
use crate::support::{Cluster, FREE, PATIENCE, Part};

/// No takeover lasts for so long, even on a busy machine.
const TAKEOVER_MAX: Duration = Duration::from_secs(30);

/// One of two coordinators, at its own addresses and data directory.
struct Candidate {
    name: &'static str,
    cluster: String,
    admin: String,
}

impl Candidate {
    fn new(name: &'static str) -> Candidate {
        Candidate { name, cluster: FREE.into(), admin: FREE.into() }
    }

    /// Starts it; afterwards it always starts there.
    async fn start(&mut self, directory: &Path, log: &str, interval: &str) -> Part {
        let (Candidate { name, cluster, admin }, within) = (&*self, directory.display());
        let flags = format!(
            "--role coordinator --workers 2 --name {name} --cluster-addr {cluster} --admin-addr {admin} \
             --determinism-check all --data-dir {within}/{name} --cache-dir {within}/cache --store {within}/store \
             --log {log} --snapshot-interval {interval}"
        );
        let part = Part::start(directory, name, &flags, &[]).await;
        (self.cluster, self.admin) = (part.at("cluster").to_owned(), part.at("admin").to_owned());
        part
    }
}

/// A cluster with two coordinators, of which the first leads.
struct Pair {
    cluster: Cluster,
    leads: Candidate,
    stands_by: Candidate,
    log: String,
    interval: &'static str,
}

impl Pair {
    async fn start(topic: &str, interval: &'static str) -> Option<Pair> {
        let broker = broker::shared()?;
        let log = format!("kafka://{}/{topic}", broker.address);
        let directory = tempfile::tempdir().unwrap();
        let (mut leads, mut stands_by) = (Candidate::new("first"), Candidate::new("second"));
        let one = leads.start(directory.path(), &log, interval).await;
        let two = stands_by.start(directory.path(), &log, interval).await;
        assert_eq!((one.value("standby"), two.value("standby")), (&json!(false), &json!(true)));
        let mut cluster = Cluster::of(one, two, directory).await;
        for number in 0..2 {
            cluster.workers.push(None);
            cluster.start_worker(number).await;
        }
        cluster.settles(2, 0).await;
        cluster.deploy("testkit", testkit().await).await.is_deployed();
        Some(Pair { cluster, leads, stands_by, log, interval })
    }

    /// The one that stood by is the one that is asked from now on; gives the other one.
    fn swap(&mut self) -> Part {
        std::mem::swap(&mut self.leads, &mut self.stands_by);
        std::mem::replace(&mut self.cluster.coordinator, self.cluster.standby.take().unwrap())
    }

    /// Waits until the other one leads and clients are answered again; how long that took.
    async fn taken_over(&self, load: &Load, since: Instant) -> Duration {
        loop {
            let seen = told(self.cluster.to_admin(Method::GET, "/v1/cluster")).await;
            if seen.status == 200 && seen.body["live"] == true {
                break;
            }
            assert!(since.elapsed() < TAKEOVER_MAX, "{}\n{}", seen.body, self.cluster.coordinator.said());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        load.goes_on(1).await;
        since.elapsed()
    }

    /// The one that leads is told to stop, and the other one takes over.
    async fn stopped(&mut self, load: &Load) {
        let stopped = Instant::now();
        self.cluster.coordinator.stop().await;
        let ended = stopped.elapsed();
        drop(self.swap());
        let took = self.taken_over(load, stopped).await;
        println!("stopped within {ended:?}, the next one answers after {took:?}");
        self.again().await;
    }

    /// Starts the one that has ended again; it stands by.
    async fn again(&mut self) {
        let directory = self.cluster.directory().to_owned();
        let part = self.stands_by.start(&directory, &self.log, self.interval).await;
        assert_eq!(part.value("standby"), true);
        self.cluster.standby = Some(part);
    }
}

/// Reads lists again and again, one after the other: what was there once is always there.
struct Reader {
    stop: Arc<AtomicBool>,
    reads: tokio::task::JoinHandle<usize>,
}

impl Reader {
    fn on(cluster: &Cluster) -> Reader {
        let stop = Arc::<AtomicBool>::default();
        let (stopped, http, ingress) = (stop.clone(), cluster.http.clone(), cluster.gateway.at("ingress").to_owned());
        let reads = tokio::spawn(async move {
            let (mut reads, mut before) = (0, vec![Vec::<u64>::new(); KEYS as usize]);
            while !stopped.load(Ordering::Relaxed) {
                for (key, before) in before.iter_mut().enumerate() {
                    let request = http.post(format!("http://{ingress}/v1/call/testkit/a/list-{key}/list")).body("[]");
                    let answer = told(request).await;
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    let list: Vec<u64> = serde_json::from_value(answer.body).unwrap();
                    assert!(list.starts_with(before), "list {key} was longer before");
                    (*before, reads) = (list, reads + 1);
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
async fn pause(part: &Part) {
    part.signal(libc::SIGSTOP);
    let tasks = format!("/proc/{}/task", part.id());
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
    let Some(mut pair) = Pair::start("standby-killed", "1h").await else { return };
    let standby = pair.cluster.standby.as_ref().unwrap().at("admin");
    for path in ["/v1/cluster", "/v1/state/testkit/a", "/readyz"] {
        let refused = told(pair.cluster.http.get(format!("http://{standby}{path}"))).await;
        refused.is_error(path, 503, "STANDBY", "stands by");
        assert!(refused.hint().contains(&format!("first at http://{}", pair.leads.admin)), "{}", refused.body);
    }
    let deploy = pair.cluster.http.post(format!("http://{standby}/v1/apps/x/deployments")).body(vec![0; 1 << 20]);
    told(deploy).await.is_error("a deployment", 503, "STANDBY", "stands by");
    assert_eq!(told(pair.cluster.http.get(format!("http://{standby}/healthz"))).await.status, 200);

    let (load, reader) = (Load::on(&pair.cluster.client()), Reader::on(&pair.cluster));
    for round in 0..2 {
        load.goes_on(200).await;
        let killed = Instant::now();
        pair.cluster.coordinator.kill().await;
        drop(pair.swap());
        println!("killed, the next one answers after {:?}", pair.taken_over(&load, killed).await);
        // A worker that comes later asks the new one for the app.
        let generation = pair.cluster.settles(2 + round, 0).await;
        pair.cluster.workers.push(None);
        pair.again().await;
        pair.cluster.start_worker(2 + round).await;
        pair.cluster.settles(3 + round, generation).await;
    }
    load.goes_on(200).await;
    println!("{} reads; {}", reader.ends().await, load.ends().await.told_by_gateway());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_from_one_that_is_stopped_and_no_request_fails() {
    let Some(mut pair) = Pair::start("standby-stopped", "300ms").await else { return };
    let load = Load::on(&pair.cluster.client());
    for _ in 0..3 {
        load.goes_on(200).await;
        pair.stopped(&load).await;
    }
    load.goes_on(200).await;
    let outcome = load.ends().await;
    println!("{outcome}");
    assert_eq!(outcome.unknown, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_from_one_that_is_paused_or_stopped() {
    let Some(mut pair) = Pair::start("standby-paused", "300ms").await else { return };
    let (load, reader) = (Load::on(&pair.cluster.client()), Reader::on(&pair.cluster));
    for _ in 0..2 {
        load.goes_on(200).await;
        pair.stopped(&load).await;

        load.goes_on(200).await;
        let paused = Instant::now();
        pause(&pair.cluster.coordinator).await;
        // The system takes these requests for it; it must not say what was true when it was paused.
        let admin = pair.leads.admin.clone();
        let asked = ["/v1/state/testkit/a", "/v1/cluster", "/v1/apps", "/readyz", "/v1/workers"].map(|path| {
            let request = pair.cluster.http.get(format!("http://{admin}{path}"));
            tokio::spawn(async move { (path, request.send().await.map(|response| response.status().as_u16())) })
        });
        let mut zombie = pair.swap();
        println!("paused, the next one answers after {:?}", pair.taken_over(&load, paused).await);
        load.goes_on(100).await;
        zombie.signal(libc::SIGCONT);
        let (status, last) = zombie.ended().await;
        // Whichever it notices first: that another one has the lease, or the log.
        match status {
            Some(1) => {
                assert_eq!(last["error"]["code"], "LEASE_LOST", "{last}");
                let line = last["error"]["message"].as_str().unwrap();
                assert!(line.contains(&format!("{} at http://", pair.leads.name)), "{line}");
            }
            _ => assert!(zombie.said().contains("replaced as the log's writer"), "{status:?}: {}", zombie.said()),
        }
        for answer in asked {
            let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap();
            assert!(matches!(answer, (_, Err(_) | Ok(503))), "{answer:?}");
        }
        pair.again().await;
    }
    // Whoever stands by is not missed.
    pair.cluster.standby.as_mut().unwrap().kill().await;
    load.goes_on(200).await;
    pair.cluster.settles(2, 0).await;
    println!("{} reads; {}", reader.ends().await, load.ends().await.told_by_gateway());
}
