//! A second opinion: what clients saw, judged by a checker that knows nothing of Styx.

use std::time::Duration;

use adya::{History, Opts, Report, Valid, Workload as Model, check};
use styx_dst::plan::{Plan, Workload};
use styx_dst::run::{simulate, world_seed};
use styx_dst::world::World;
use styx_sim::random::Random;

/// The world number `at` of a workload.
fn world(workload: Workload, at: u64, change: impl FnOnce(&mut Plan)) -> World {
    let mut random = Random::new(world_seed(77 + workload as u64, at));
    let mut plan = Plan::draw_for(&mut random, workload);
    change(&mut plan);
    World::of(plan, random, false)
}

fn checker(history: &str, workload: Workload, consistency: &str) -> Report {
    let history = History::from_json(history).expect("the history can be read");
    let model = match workload {
        Workload::Append => Model::ListAppend,
        Workload::Register => Model::RwRegister,
    };
    let opts = Opts {
        models: vec![consistency.into()],
        timeout: Duration::from_secs(20),
        linearizable_keys: workload == Workload::Register,
        ..Opts::default()
    };
    check(&history, model, &opts)
}

/// How many of so many worlds violate a model.
fn violations(
    worlds: u64,
    workload: Workload,
    consistency: &str,
    lenient: bool,
    change: impl Fn(&mut Plan),
) -> (u64, Vec<String>) {
    let (mut violated, mut kinds, mut committed) = (0, Vec::new(), 0);
    for at in 0..worlds {
        let mut world = world(workload, at, &change);
        if lenient {
            world.be_lenient();
        }
        let result = simulate(&mut world);
        if !lenient {
            result.unwrap_or_else(|failure| panic!("world {at} of {workload:?}: {failure:?}"));
        }
        let history = world.export();
        committed += history.matches(r#""type":"ok""#).count();
        let report = checker(&history, workload, consistency);
        if report.valid == Valid::False {
            violated += 1;
            kinds.extend(report.anomaly_types.clone());
        }
    }
    assert!(committed as u64 > 100 * worlds, "the histories say something");
    kinds.sort();
    kinds.dedup();
    (violated, kinds)
}

#[test]
fn lists_are_strictly_serializable() {
    assert_eq!(violations(50, Workload::Append, "strict-serializable", false, |_| {}), (0, vec![]));
}

#[test]
fn registers_are_strictly_serializable() {
    assert_eq!(violations(50, Workload::Register, "strict-serializable", false, |_| {}), (0, vec![]));
}

#[test]
fn snapshots_are_what_they_say_and_no_more() {
    let snapshots = |plan: &mut Plan| plan.snapshots = 800;
    let (violated, kinds) = violations(40, Workload::Append, "strict-serializable", false, snapshots);
    assert!(violated > 5, "write skew is seen: {violated} {kinds:?}");
    assert!(kinds.iter().all(|kind| kind.starts_with("G2")), "and nothing else: {kinds:?}");
    assert_eq!(violations(40, Workload::Append, "snapshot-isolation", false, snapshots), (0, vec![]));
}

#[cfg(debug_assertions)]
#[test]
fn a_planted_bug_is_seen_in_the_history_alone() {
    use styx_planted::{Bug, plant};
    for bug in [Bug::IgnoreRaw, Bug::BitsNotMerged, Bug::LocksEarly] {
        plant(Some(bug));
        let (violated, kinds) = violations(40, Workload::Append, "strict-serializable", true, |_| {});
        plant(None);
        assert!(violated > 0, "{bug:?} goes unseen");
        println!("{bug:?}: {violated} of 40 histories, {kinds:?}");
    }
}

#[test]
fn a_history_with_a_lost_update_is_refused() {
    let history = world(Workload::Append, 3, |_| {}).export();
    assert!(history.is_empty(), "nothing has happened yet");
    // A world in which some list was read when it had three elements.
    let found = (0..100).find_map(|number| {
        let mut world = world(Workload::Append, number, |_| {});
        simulate(&mut world).expect("nothing breaks");
        let history = world.export();
        history.find(",2,3").map(|at| (history, at))
    });
    let (history, at) = found.expect("lists grow");
    assert_eq!(checker(&history, Workload::Append, "strict-serializable").valid, Valid::True);
    // It forgets its last but one.
    let forged = format!("{}{}", &history[..at], &history[at + 2..]);
    assert_eq!(checker(&forged, Workload::Append, "strict-serializable").valid, Valid::False);
}
