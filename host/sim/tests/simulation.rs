//! A short run with everything that can go wrong; and the proofs that a seed means one run and that
//! bugs are found.

use styx_sim::run::{run, simulate, world_seed};
use styx_sim::world::World;

#[test]
fn nothing_breaks_under_faults() {
    let run = run(20_260_101, 500_000, |_, _| {});
    if let Some((world, failure)) = run.failure {
        panic!("styx-sim --world {world} shows {}: {}", failure.check, failure.message);
    }
    let figures = run.figures;
    println!("{} worlds, {figures:?}", run.worlds);
    let rare = [
        figures.fell_back,
        figures.rescheduled,
        figures.aborted,
        figures.queries,
        figures.crashes,
        figures.deployments,
        figures.disturbances,
        figures.lost,
    ];
    assert!(rare.iter().all(|count| *count > 500), "the worlds are adversarial: {figures:?}");
}

#[test]
fn a_seed_means_one_run() {
    let trace = |seed| {
        let run = run(seed, 5_000, |_, _| {});
        assert!(run.failure.is_none());
        run.trace
    };
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}

#[test]
fn notes_change_nothing() {
    for at in 0..20 {
        let world = |notes| simulate(&mut World::new(world_seed(5, at), notes)).expect("nothing breaks").trace;
        assert_eq!(world(false), world(true));
    }
}

#[cfg(feature = "mutants")]
#[test]
fn every_planted_bug_is_found() {
    for bug in styx_protocol::mutants::Bug::ALL {
        let hunt = styx_sim::mutants::hunt(*bug, 1, 1_000_000);
        assert!(hunt.caught.is_some(), "{bug:?} got away for {} transactions", hunt.transactions);
    }
}
