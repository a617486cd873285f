//! Everything is stopped and started again under load, one after the other, as for a new release: no
//! request fails, whether or not it could have been asked again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use reqwest::Client;
use styx_harness::Role;
use tokio::task::JoinSet;

use crate::process::Endpoints;
use crate::process::cluster::{Cluster, PATIENCE};
use crate::process::load::Load;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_no_request() {
    let mut cluster = Cluster::with_testkit_and(2, &["--snapshot-interval", "1s"]).await;
    let load = Load::on(&cluster.client());
    for worker in [0, 1, 0].map(Role::Worker) {
        load.goes_on(100).await;
        let generation = cluster.generation().await;
        let asked = Instant::now();
        cluster.stop(worker).await;
        println!("{worker:?} has handed over in {:?}", asked.elapsed());
        let alone = cluster.settles(1, generation).await;
        load.goes_on(50).await;
        cluster.run(&[worker]).await;
        cluster.settles(2, alone).await;
    }
    load.goes_on(100).await;
    let outcome = load.ends().await;
    println!("{outcome}");
    assert_eq!(outcome.unknown, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_worker_is_let_go_too_and_requests_wait_for_the_next() {
    let mut cluster = Cluster::with_testkit_and(1, &["--snapshot-interval", "1s"]).await;
    let load = Load::on(&cluster.client());
    load.goes_on(100).await;
    let generation = cluster.generation().await;
    cluster.stop(Role::Worker(0)).await;
    cluster.run(&[Role::Worker(0)]).await;
    cluster.settles(1, generation).await;
    load.goes_on(100).await;
    let outcome = load.ends().await;
    println!("{outcome}");
    assert_eq!(outcome.unknown, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_is_stopped_and_started_again_fails_no_request() {
    let mut cluster = Cluster::with_testkit_and(2, &["--snapshot-interval", "1s"]).await;
    let load = Load::on(&cluster.client());
    for _ in 0..3 {
        load.goes_on(100).await;
        let generation = cluster.generation().await;
        let asked = Instant::now();
        cluster.stop(Role::Coordinator).await;
        println!("the coordinator has stopped in {:?}", asked.elapsed());
        cluster.run(&[Role::Coordinator]).await;
        cluster.settles(2, generation).await;
    }
    load.goes_on(100).await;
    let outcome = load.ends().await;
    println!("{outcome}");
    assert_eq!(outcome.unknown, 0);
}

/// As behind a load balancer: a connection that is refused sends a client to the other gateway, and nothing else
/// may happen to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_stopped_fails_no_request() {
    let mut cluster = Cluster::with_testkit(2).await;
    let other = cluster.another_gateway(&[]).await;
    let urls = [cluster.ingress(), other.text("ingress")]
        .map(|address| format!("http://{address}/v1/call/testkit/a/counted/append"));
    let (moved, mut clients) = (Arc::<AtomicUsize>::default(), JoinSet::new());
    for client in 0..20u64 {
        let (urls, moved) = (urls.clone(), moved.clone());
        clients.spawn(async move {
            let http = Client::builder().timeout(PATIENCE).build().unwrap();
            let (mut at, mut after) = (0, 0);
            // Some time more on the other one.
            for element in client * 1_000_000.. {
                let sent = loop {
                    match http.post(&urls[at]).body(format!("[{element}]")).send().await {
                        Err(error) if error.is_connect() && at == 0 => {
                            moved.fetch_add(1, Ordering::Relaxed);
                            at = 1;
                        }
                        sent => break sent.expect("a request that was taken is answered"),
                    }
                };
                assert_eq!(sent.status(), 200, "{}", sent.text().await.unwrap());
                after += at;
                if after == 20 {
                    return element - client * 1_000_000 + 1;
                }
            }
            unreachable!()
        });
    }
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let asked = Instant::now();
    cluster.stop(Role::Gateway).await;
    println!("the gateway has stopped in {:?}", asked.elapsed());
    let mut appended = 0;
    while let Some(client) = clients.join_next().await {
        appended += client.unwrap();
    }
    assert_eq!(moved.load(Ordering::Relaxed), 20);
    let list = format!("http://{}/v1/call/testkit/a/counted/list", other.text("ingress"));
    let list = cluster.http().post(list).body("[]");
    let list: Vec<u64> = list.send().await.unwrap().json().await.unwrap();
    assert_eq!(list.len() as u64, appended, "each once");
}
