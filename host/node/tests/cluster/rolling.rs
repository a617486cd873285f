//! Workers are stopped and started again under load, one after the other, as for a new release: no
//! request fails, whether or not it could have been asked again.

use std::time::Instant;

use crate::load::Load;
use crate::support::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_no_request() {
    let mut cluster = Cluster::with_testkit_and(2, &["--snapshot-interval", "1s"]).await;
    let load = Load::on(&cluster);
    for worker in [0, 1, 0] {
        load.goes_on(100).await;
        let generation = cluster.generation().await;
        let asked = Instant::now();
        cluster.stop_worker(worker).await;
        println!("worker {worker} has handed over in {:?}", asked.elapsed());
        let alone = cluster.settles(1, generation).await;
        load.goes_on(50).await;
        cluster.start_worker(worker).await;
        cluster.settles(2, alone).await;
    }
    load.goes_on(100).await;
    let outcome = load.ends(&cluster).await;
    println!("{outcome}");
    assert_eq!(outcome.doubtful, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_worker_is_let_go_too_and_requests_wait_for_the_next() {
    let mut cluster = Cluster::with_testkit_and(1, &["--snapshot-interval", "1s"]).await;
    let load = Load::on(&cluster);
    load.goes_on(100).await;
    let generation = cluster.generation().await;
    cluster.stop_worker(0).await;
    cluster.start_worker(0).await;
    cluster.settles(1, generation).await;
    load.goes_on(100).await;
    let outcome = load.ends(&cluster).await;
    println!("{outcome}");
    assert_eq!(outcome.doubtful, 0);
}
