//! Two coordinators that both believe to lead, each with workers that reach it alone.

use styx_sim::plan::Plan;
use styx_sim::random::Random;
use styx_sim::run::{simulate, world_seed};
use styx_sim::world::World;

fn world(at: u64, notes: bool) -> World {
    let mut random = Random::new(world_seed(4711, at));
    let mut plan = Plan::draw(&mut random);
    plan.cluster.workers = 2;
    plan.cluster.foreign_engine = false;
    plan.cluster.standby = true;
    plan.cluster.settle = 1_000;
    plan.mix = [6, 1, 1, 12, 0, 0, 0];
    plan.faults = [0, 0, 0, 0, 0, 0, 15_000, 30_000, 0];
    plan.requests = 1_000;
    World::of(plan, random, notes)
}

#[test]
fn nobody_reads_what_is_over() {
    let (mut queries, mut generations) = (0, 0);
    for at in 0..200 {
        let mut simulated = world(at, false);
        if let Err(failure) = simulate(&mut simulated) {
            let mut again = world(at, true);
            let _ = simulate(&mut again);
            again.lines().iter().for_each(|line| println!("{line}"));
            again.history(&failure).iter().for_each(|line| println!("{line}"));
            panic!("world {at}: {failure:?}");
        }
        queries += simulated.figures().queries;
        generations += simulated.figures().generations;
    }
    println!("{queries} queries in {generations} generations");
    assert!(generations > 800 && queries > 50_000, "{generations} generations, {queries} queries");
}
