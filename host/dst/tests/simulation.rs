//! A short run with everything that can go wrong; and the proof that a seed means one run.

use styx_dst::run::{run, simulate, world_seed};
use styx_dst::world::World;

fn nothing_breaks(seed: u64) {
    let run = run(seed, 50_000, |_, _| {});
    if let Some((world, failure)) = run.failure {
        panic!("styx-dst --world {world} shows {}: {}", failure.check, failure.message);
    }
    let figures = run.figures;
    println!("{} worlds, {figures:?}", run.worlds);
    let rare = [
        figures.fell_back,
        figures.rescheduled,
        figures.aborted,
        figures.queries,
        figures.shared,
        figures.crashes,
        figures.generations,
        figures.deployments,
        figures.snapshots,
        figures.restores,
        figures.store_failures,
        figures.disturbances,
        figures.lost,
        figures.refused,
    ];
    assert!(rare.iter().all(|count| *count > 50), "the worlds are adversarial: {figures:?}");
    assert!(figures.damaged > 0, "snapshots turn out damaged: {figures:?}");
    assert!(figures.clustered > figures.transactions / 3, "most worlds are clusters: {figures:?}");
    assert!(figures.verified > figures.transactions, "every log is read again: {figures:?}");
}

#[test]
fn nothing_breaks_under_faults() {
    nothing_breaks(20_260_101);
}

#[test]
fn nothing_breaks_under_other_faults() {
    nothing_breaks(20_260_102);
}

#[test]
fn a_seed_means_one_run() {
    let trace = |seed| {
        let run = run(seed, 10_000, |_, _| {});
        assert!(run.failure.is_none(), "{:?}", run.failure);
        assert!(run.figures.generations > 20 && run.figures.shared > 300, "clusters too: {:?}", run.figures);
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

#[test]
fn the_rating_of_leaks_names_bugs_that_can_be_planted() {
    let bugs: Vec<String> = styx_planted::Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
    let page = include_str!("../../protocol/DETERMINISM.md");
    let quoted = page.split('`').skip(1).step_by(2);
    let is_name = |word: &&str| word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphanumeric);
    let types = ["BTreeMap", "Begin", "EntityMap"];
    for name in quoted.filter(is_name).filter(|name| !types.contains(name)) {
        assert!(bugs.iter().any(|bug| bug == name), "DETERMINISM.md names {name}, which is no planted bug");
    }
}
