//! Migrations, and deployments that place entities anew, in the middle of which processes die, at every step of them: who
//! gives, who takes, who coordinates, all.

use styx_driver::coordinator::MigrationMode;
use styx_dst::plan::{Amid, FAULTS, Fault, Plan};
use styx_dst::run::world_seed;
use styx_dst::world::World;
use styx_protocol::entity::Layout;
use styx_sim::random::Random;

use crate::comes_through;

/// A change that many parts take part in.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    /// Partitions go to other workers; how, or by chance.
    Migration(Option<MigrationMode>),
    /// Operators have other key prefixes.
    Rekeying,
}

/// A world in which nothing happens but requests and one change, amid which these die.
fn world(at: u64, events: u64, victims: &[usize], change: Change, notes: bool) -> World {
    let mut random = Random::new(world_seed(1405, at));
    let mut plan = Plan::draw(&mut random);
    plan.cluster.workers = 3;
    plan.cluster.gateways = 1;
    plan.cluster.foreign_engine = false;
    plan.cluster.coordinators = 1;
    plan.cluster.spikes = 0;
    plan.cluster.network = (10, 300);
    plan.config.layout = Layout::new(plan.config.layout.seed, 16);
    plan.repartitions = vec![16];
    // In as many pieces as there are entities, or in one.
    plan.config.piece_bytes = if at.is_multiple_of(3) { plan.config.piece_bytes } else { 60 };
    plan.cluster.limits.outstanding_bytes_max = 1 << 30;
    plan.config.snapshots = at.is_multiple_of(2);
    (plan.faults, plan.sync_failures, plan.records) = ([0; FAULTS], 0, None);
    let (fault, mode) = match change {
        Change::Migration(mode) => (Fault::Migration, mode),
        Change::Rekeying => (Fault::Deployment, None),
    };
    plan.faults[fault as usize] = 50_000;
    plan.faults_max[fault as usize] = 1;
    plan.requests = 150;
    (plan.slots, plan.think) = (40, (0, 20_000));
    plan.verified = [false, true, false, false];
    plan.migrates = mode;
    if mode == Some(MigrationMode::Immediate) {
        // Who needs what is still to come runs beside the epochs. There is something to come when it begins.
        plan.config.long_max = plan.config.long_max.max(2);
        plan.requests = 400;
        plan.faults[Fault::Migration as usize] = 200_000;
    }
    if change == Change::Rekeying && !at.is_multiple_of(3) {
        plan.config.step_max = 2;
    }
    plan.amid = Some(Amid { of: fault, events, victims: victims.to_vec() });
    World::of(plan, random, notes)
}

/// Through how many of these worlds the change comes to its end, how many cut it off, and in how many somebody died: with each
/// step, so many events later.
fn cut_off_anywhere(worlds: &[u64], steps: usize, later: u64, change: Change) -> (u64, u64, u64) {
    let (mut through, mut cut_off, mut died) = (0, 0, 0);
    for (case, victims) in [&[0][..], &[1], &[2], &[3], &[0, 1, 2, 3]].into_iter().enumerate() {
        for step in 0..steps {
            let (at, events) = (worlds[(case + step) % worlds.len()], later * step as u64);
            let name = format_args!("world {at}, {victims:?} after {events} events");
            let simulated = comes_through(name, |notes| world(at, events, victims, change, notes));
            let figures = simulated.figures();
            let is_through = match change {
                Change::Migration(_) => figures.migrations > 0,
                // The first deployment is of before.
                Change::Rekeying => figures.deployments > 1,
            };
            *if is_through { &mut through } else { &mut cut_off } += 1;
            died += u64::from(figures.crashes > 0);
        }
    }
    println!("{through} came to their end, {cut_off} did not; in {died} worlds somebody died");
    (through, cut_off, died)
}

#[test]
fn a_migration_that_is_cut_off_at_any_step_leaves_every_key_at_one_owner() {
    let (through, cut_off, died) = cut_off_anywhere(&[0, 1, 2, 3], 80, 5, Change::Migration(None));
    assert!(through > 40 && cut_off > 40 && died > 200, "{through}, {cut_off}, {died}");
}

#[test]
fn a_migration_that_changes_owners_first_may_be_cut_off_at_any_step_too() {
    let (through, cut_off, died) =
        cut_off_anywhere(&[1, 2, 15], 24, 40, Change::Migration(Some(MigrationMode::Immediate)));
    assert!(through > 40 && cut_off > 10 && died > 100, "{through}, {cut_off}, {died}");
}

#[test]
fn a_deployment_that_places_entities_anew_may_be_cut_off_at_any_step() {
    let (through, cut_off, died) = cut_off_anywhere(&[0, 1, 2, 3], 60, 5, Change::Rekeying);
    assert!(through > 40 && died > 200, "{through}, {cut_off}, {died}");
}
