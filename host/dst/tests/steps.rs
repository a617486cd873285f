//! Steps of a machine that change much: heartbeats go out in between.

use styx_dst::plan::{FAULTS, Fault, Plan};
use styx_dst::run::{simulate, world_seed};
use styx_dst::world::World;
use styx_sim::random::Random;

use crate::comes_through;

/// A world in which nothing happens but requests, deployments and removals, and all that an epoch changes takes longer
/// than a worker may be silent.
fn world(at: u64, step_max: usize, notes: bool) -> World {
    let mut random = Random::new(world_seed(815, at));
    let mut plan = Plan::draw(&mut random);
    plan.cluster.workers = 2;
    plan.cluster.foreign_engine = false;
    plan.cluster.coordinators = 1;
    plan.cluster.spikes = 0;
    plan.cluster.network = (5, 20);
    plan.cluster.patience.silent_us = 400_000;
    plan.config.epoch_size_max = 64;
    plan.config.step_max = step_max;
    (plan.change, plan.step, plan.slots) = (40_000, (0, 1), 120);
    (plan.faults, plan.sync_failures) = ([0; FAULTS], 0);
    plan.faults[Fault::Deployment as usize] = 500_000;
    plan.requests = 300;
    World::of(plan, random, notes)
}

#[test]
fn whoever_changes_much_is_not_taken_for_lost() {
    let mut lost = 0;
    for at in 0..20 {
        comes_through(format_args!("world {at}"), |notes| world(at, 1, notes));
        // As long as they come, steps have one generation follow on the other.
        lost += usize::from(simulate(&mut world(at, 1 << 30, false)).is_err_and(|failure| failure.check == "flapping"));
    }
    println!("{lost} worlds in which steps that are not divided have workers taken for lost");
    assert!(lost > 5, "{lost}");
}
