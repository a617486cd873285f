//! Whatever a batch of functions does, the machine's outcome is the one of the serial order that
//! it claims: same replies, same reads, same state; and a replay of the log gives it again.

mod toy;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use styx_protocol::ids::Epoch;
use styx_protocol::machine::Input;
use toy::*;

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![3 => (0u8..5).prop_map(Place::Key), 2 => Just(Place::Own), 2 => Just(Place::Dynamic)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => place().prop_map(Op::Read),
        3 => place().prop_map(Op::Write),
        2 => place().prop_map(Op::WriteIfOdd),
        1 => place().prop_map(Op::Delete),
        2 => (0u8..7, 0u8..7, 0u8..4, any::<bool>()).prop_map(|(from, to, limit, reverse)| Op::Scan { from, to, limit, reverse }),
        2 => (0u8..2, place(), 0u8..3, any::<bool>()).prop_map(|(operator, place, skip, pass)| Op::Call { operator, place, skip, pass }),
        2 => (0u8..2, place(), 0u8..3, any::<bool>()).prop_map(|(operator, place, skip, pass)| Op::CallAsync { operator, place, skip, pass }),
        1 => (0u8..5).prop_map(Op::AbortIfMultipleOf),
    ]
}

#[derive(Clone, Debug)]
struct Case {
    programs: Vec<Program>,
    /// Groups of requests (operator, key, program), each submitted together.
    groups: Vec<Vec<(u8, u8, u8)>>,
    reordering: bool,
    fallback: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let programs = vec(vec(op(), 1..5), 1..6);
    let groups = vec(vec((0u8..2, 0u8..5, 0u8..6), 1..17), 1..3);
    (programs, groups, prop::bool::weighted(0.8), prop::bool::weighted(0.8))
        .prop_map(|(programs, groups, reordering, fallback)| Case { programs, groups, reordering, fallback })
}

fn check(case: &Case) -> (usize, usize) {
    let programs = Arc::new(case.programs.clone());
    let mut driver = Driver::deployed(programs.clone(), config(case.reordering, case.fallback));
    let mut requests = BTreeMap::new();
    let mut next = 0u64;
    for group in &case.groups {
        for (operator, key, program) in group {
            next += 1;
            let request = Arc::new(request(u128::from(next), *operator, *key, *program % programs.len() as u8, false));
            requests.insert(next, request.clone());
            driver.step(Input::Submit { request, waiter: next, receipt: false });
        }
        driver.tick();
    }
    // The lowest TID always commits, so the rest gets there.
    for _ in 0..next {
        driver.tick();
    }
    assert!(!driver.machine.has_work(), "every transaction ends");
    assert!(driver.replies.is_empty(), "nobody is told before the records are durable");
    driver.step(Input::Durable(Epoch(u64::MAX)));

    let by_tid: BTreeMap<_, _> = driver.replies.iter().map(|(waiter, reply)| (reply.tid, (*waiter, reply))).collect();
    assert_eq!(driver.replies.len(), requests.len(), "everybody is told once");
    assert_eq!(by_tid.len(), requests.len(), "everybody is told once");
    assert_eq!(driver.order.len(), requests.len(), "everybody has a rank");
    let mut oracle = Oracle::default();
    for tid in &driver.order {
        let (waiter, reply) = &by_tid[tid];
        let expected = oracle.transaction(&programs, &requests[waiter]);
        let actual = reply.outcome.clone().map(|value| value.to_vec());
        assert_eq!(actual, expected, "transaction {tid} in the claimed order {:?}", driver.order);
    }
    let state = driver.machine.state();
    assert_eq!(state.len(), oracle.state.len());
    for ((operator, key), value) in &oracle.state {
        let entity = styx_protocol::entity::Entity::new(
            &state.layout(),
            styx_protocol::ids::OperatorId(*operator as u32),
            *operator == 1,
            key.as_str().into(),
        );
        assert_eq!(state.get(&entity).map(|value| value.to_vec()).as_ref(), Some(value), "{operator}/{key}");
    }

    let mut replay = Driver::new(programs, config(case.reordering, case.fallback));
    replay.replay(&driver.log);
    assert_eq!(replay.machine.position(), driver.machine.position(), "a replay gives the same state");
    assert_eq!(replay.order, driver.order, "a replay claims the same order");
    driver.epochs.iter().fold((0, 0), |(fell_back, rescheduled), epoch| (fell_back + epoch.1, rescheduled + epoch.2))
}

#[test]
fn every_batch_equals_its_claimed_serial_order() {
    let cases = std::env::var("STYX_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100_000);
    let fell_back = std::cell::Cell::new((0usize, 0usize));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&case(), |case| {
            let (a, b) = check(&case);
            fell_back.set((fell_back.get().0 + a, fell_back.get().1 + b));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    let (fell_back, rescheduled) = fell_back.get();
    println!("{cases} batches, {fell_back} transactions committed in the fallback, {rescheduled} rescheduled");
    assert!(fell_back as u32 > cases / 20 && rescheduled as u32 > cases / 20, "the batches are adversarial");
}
