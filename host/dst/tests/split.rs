//! Two coordinators that both believe to lead, for a while: one sleeps through the end of its lease.

use std::time::Duration;

use styx_dst::plan::{FAULTS, Fault, Plan};
use styx_dst::run::world_seed;
use styx_dst::world::World;
use styx_protocol::replies::Retention;
use styx_sim::random::Random;

use crate::comes_through;

fn world(at: u64, notes: bool) -> World {
    let mut random = Random::new(world_seed(4711, at));
    let mut plan = Plan::draw(&mut random);
    plan.cluster.workers = 2;
    plan.cluster.foreign_engine = false;
    plan.cluster.coordinators = 2;
    // What is forgotten early depends on the membership, which the checker of a cluster does not know.
    plan.config.retention = Retention::default();
    plan.cluster.lease_term = Duration::from_millis(300);
    plan.cluster.patience.settle_us = 10_000;
    (plan.shared_log, plan.config.snapshots) = (true, true);
    plan.mix = [6, 1, 1, 12, 0, 0, 0];
    plan.faults = [0; FAULTS];
    for (fault, mean) in
        [(Fault::Suspend, 300_000), (Fault::Pause, 500_000), (Fault::Cut, 200_000), (Fault::Isolation, 500_000)]
    {
        plan.faults[fault as usize] = mean;
    }
    plan.requests = 600;
    World::of(plan, random, notes)
}

#[test]
fn nobody_reads_what_is_over() {
    let (mut queries, mut takeovers) = (0, 0);
    for at in 0..100 {
        let simulated = comes_through(format_args!("world {at}"), |notes| world(at, notes));
        queries += simulated.figures().queries;
        takeovers += simulated.figures().takeovers;
    }
    println!("{queries} queries, {takeovers} takeovers");
    assert!(takeovers > 100 && queries > 10_000, "{takeovers} takeovers, {queries} queries");
}
