//! Whoever begins with a snapshot, whenever it was taken and however late it was handed over, goes on
//! like whoever never stopped.
//!
//! The simulator finds more; these cases shrink, so that what is wrong can be read.

use std::sync::Arc;

use crate::driver::{Driver, KEYS, config, request};
use proptest::collection::vec;
use proptest::prelude::*;
use styx_protocol::control::Control;
use styx_protocol::ids::Epoch;
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::machine::{Config, coordinator, worker};
use styx_protocol::record::Record;
use styx_protocol::replies::Retention;
use styx_sim::toy::{Op, Place, deployment};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request: its id, its key, what it does; ids that are small come with a key for retries.
    Submit(u8, u8, u8),
    Tick,
    Snapshot,
    HandOver,
    Deploy(u8),
    Remove,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (any::<u8>(), 0..KEYS, 0u8..4).prop_map(|(id, key, program)| Step::Submit(id, key, program)),
        5 => Just(Step::Tick),
        2 => Just(Step::Snapshot),
        2 => Just(Step::HandOver),
        1 => (1u8..4).prop_map(Step::Deploy),
        1 => prop::bool::weighted(0.2).prop_map(|all| if all { Step::Remove } else { Step::Tick }),
    ];
    vec(step, 1..80)
}

fn program(number: u8) -> Vec<u8> {
    match number {
        0 => Op::program(&[Op::Read(Place::Own), Op::Write(Place::Own)]),
        1 => Op::program(&[Op::Read(Place::Dynamic), Op::Write(Place::Dynamic), Op::Write(Place::Own)]),
        2 => Op::program(&[Op::Read(Place::Own), Op::Delete(Place::Own)]),
        _ => Op::program(&[Op::Read(Place::Own), Op::Read(Place::Dynamic), Op::WriteIfOdd(Place::Dynamic)]),
    }
}

fn perform(driver: &mut Driver, at: usize, step: Step, waiter: u64) {
    match step {
        Step::Submit(id, key, number) => {
            let retained = id < 64;
            let id = if retained { u128::from(id % 16) } else { 1000 + at as u128 };
            // One body per id.
            let (key, number) = if retained { (id as u8 % KEYS, id as u8 % 4) } else { (key, number) };
            let request = Arc::new(request(id, key, key, &program(number), retained));
            driver.step(ClientRequest::Submit { request, waiter, receipt: false });
        }
        Step::Tick => driver.tick(),
        Step::Snapshot if !driver.taken.is_under_way() => driver.step(coordinator::Input::Snapshot),
        Step::HandOver if driver.taken.is_under_way() => driver.step(worker::Input::HandOver),
        Step::Snapshot | Step::HandOver => {}
        Step::Deploy(version) => {
            driver.step(coordinator::Input::Control {
                control: Control::Deploy(deployment(version.into())),
                waiter: Some(waiter),
            });
        }
        Step::Remove if driver.machine.catalog().app("toy").is_some() => {
            driver.step(coordinator::Input::Control { control: Control::Remove("toy".into()), waiter: Some(waiter) });
            driver.tick();
        }
        Step::Remove => {}
    }
}

/// What can be asked of a machine.
fn holds(driver: &Driver) -> impl PartialEq + std::fmt::Debug {
    let Driver { machine, .. } = driver;
    (machine.position(), machine.state().hash(), machine.state().len(), machine.remembered(), machine.catalog().image())
}

/// Records without the placement that a generation's first one brings: who restores begins a generation.
fn unplaced(log: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let unplaced = |bytes: &Vec<u8>| match Record::decode(bytes).expect("a record") {
        Record::Epoch(record) => {
            let mut record = (*record).clone();
            record.controls.retain(Control::is_deployment);
            Record::Epoch(record.into()).encode()
        }
        _ => bytes.clone(),
    };
    log.iter().map(unplaced).collect()
}

/// Returns how many epochs were not replayed.
fn check(config: &Config, before: &[Step], after: &[Step]) -> u64 {
    let mut driver = Driver::deployed(*config);
    for (at, step) in before.iter().enumerate() {
        perform(&mut driver, at, *step, at as u64);
    }
    let Some(epoch) = driver.taken.epoch() else { return 0 };
    // What waits for an epoch is lost with the process; here nothing shall be.
    driver.tick();
    while driver.machine.backlog() > 0 {
        driver.tick();
    }
    driver.step(coordinator::Input::Durable(Epoch(1 << 40)));
    let mut restored = Driver::restored(*config, &driver);
    restored.step(coordinator::Input::Durable(Epoch(1 << 40)));
    assert_eq!(holds(&restored), holds(&driver), "after a restart from epoch {epoch}");
    // Both go on. Who asks again is told the same.
    let told = driver.replies.len();
    restored.replies.clear();
    let log = driver.log.len();
    restored.log.clear();
    for (at, step) in after.iter().enumerate() {
        for driver in [&mut driver, &mut restored] {
            if !matches!(step, Step::Snapshot | Step::HandOver) {
                perform(driver, 1000 + at, *step, 1000 + at as u64);
            }
        }
        assert_eq!(holds(&restored), holds(&driver), "step {at} after a restart from epoch {epoch}");
    }
    assert_eq!(unplaced(&restored.log), unplaced(&driver.log[log..]));
    let known = |(waiter, _): &&(u64, _)| *waiter >= 1000;
    let driver: Vec<_> = driver.replies[told..].iter().filter(known).collect();
    assert_eq!(restored.replies.iter().filter(known).collect::<Vec<_>>(), driver);
    epoch.0
}

#[test]
fn whoever_begins_with_a_snapshot_goes_on_as_if_nothing_had_happened() {
    let cases = std::env::var("STYX_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3_000);
    let spared = std::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let config = |fallback| Config {
        snapshots: true,
        epoch_size_max: 6,
        epoch_fuel_max: 1 << 40,
        // Which of one epoch's replies are forgotten first may differ if some of them fell back.
        retention: Retention { count: if fallback { 1000 } else { 3 }, ..Retention::default() },
        ..config(true, fallback)
    };
    runner
        .run(&(steps(), steps(), any::<bool>()), |(before, after, fallback)| {
            spared.set(spared.get() + check(&config(fallback), &before, &after));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    println!("{} epochs were not replayed", spared.get());
    assert!(spared.get() > u64::from(cases), "snapshots are taken late enough to matter");
}
