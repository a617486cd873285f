//! Whatever a batch of functions does, the machine's outcome is the one of the serial order that
//! it claims, and a replay of the log gives it again.
//!
//! The simulator finds more; these cases shrink, so that what is wrong can be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::driver::{Driver, KEYS, config, request};
use proptest::collection::vec;
use proptest::prelude::*;
use styx_protocol::control::Control;
use styx_protocol::ids::Epoch;
use styx_protocol::machine::coordinator;
use styx_protocol::machine::worker::ClientRequest;
use styx_sim::check::ended::same;
use styx_sim::check::oracle::Oracle;
use styx_sim::toy::{Bound, Call, Op, Place, Scan, deployment, show};

/// A step, or a few, of a program.
type Snippet = Vec<u8>;

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![3 => (0..KEYS).prop_map(Place::Key), 2 => Just(Place::Own), 2 => Just(Place::Dynamic)]
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![3 => place().prop_map(Bound::Included), 1 => place().prop_map(Bound::Excluded), 1 => Just(Bound::Unbounded)]
}

fn scan() -> impl Strategy<Value = Scan> {
    let prefix = prop::option::weighted(0.2, 0u8..4);
    (prefix, bound(), bound(), 0u8..4, any::<bool>()).prop_map(|(prefix, lower, upper, limit, reverse)| Scan {
        prefix,
        lower,
        upper,
        limit,
        reverse,
    })
}

fn step() -> impl Strategy<Value = Snippet> {
    prop_oneof![
        4 => place().prop_map(|place| Op::program(&[Op::Read(place)])),
        3 => place().prop_map(|place| Op::program(&[Op::Write(place)])),
        2 => place().prop_map(|place| Op::program(&[Op::WriteIfOdd(place)])),
        1 => place().prop_map(|place| Op::program(&[Op::Delete(place)])),
        2 => scan().prop_map(|scan| Op::program(&[Op::Scan(scan)])),
        1 => (0u8..5).prop_map(|n| Op::program(&[Op::AbortIfMultipleOf(n)])),
        1 => (1u8..3).prop_map(|n| Op::program(&[Op::SkipIfOdd(n)])),
    ]
}

fn program() -> impl Strategy<Value = Snippet> {
    step().prop_recursive(3, 12, 4, |inner| {
        let body = vec(inner.clone(), 1..4).prop_map(|steps| steps.concat());
        let call =
            (0u8..2, place(), any::<bool>(), any::<bool>(), body).prop_map(|(operator, place, pass, later, body)| {
                let call = Call { operator, function: 0, place, pass, body: &body };
                Op::program(&[if later { Op::CallAsync(call) } else { Op::Call(call) }])
            });
        vec(prop_oneof![2 => inner, 1 => call], 1..5).prop_map(|steps| steps.concat())
    })
}

#[derive(Clone)]
struct Case {
    programs: Vec<Snippet>,
    /// Groups of requests (operator, key, program), each submitted together.
    groups: Vec<Vec<(u8, u8, u8)>>,
    reordering: bool,
    fallback: bool,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.programs.iter().try_for_each(|program| writeln!(f, "{{ {} }}", show(program)))?;
        writeln!(f, "{:?} reordering {} fallback {}", self.groups, self.reordering, self.fallback)
    }
}

fn case() -> impl Strategy<Value = Case> {
    let programs = vec(program(), 1..5);
    let groups = vec(vec((0u8..2, 0..KEYS, 0u8..6), 1..17), 1..3);
    (programs, groups, prop::bool::weighted(0.8), prop::bool::weighted(0.8))
        .prop_map(|(programs, groups, reordering, fallback)| Case { programs, groups, reordering, fallback })
}

fn check(case: &Case) -> (usize, usize) {
    let mut driver = Driver::deployed(config(case.reordering, case.fallback));
    let mut requests = BTreeMap::new();
    let mut next = 0u64;
    for group in &case.groups {
        for (operator, key, program) in group {
            next += 1;
            let program = &case.programs[usize::from(*program) % case.programs.len()];
            let request = Arc::new(request(u128::from(next), *operator, *key, program, false));
            requests.insert(next, request.clone());
            driver.step(ClientRequest::Submit { request, waiter: next, receipt: false });
        }
        driver.tick();
    }
    // The lowest TID always commits, so the rest gets there.
    for _ in 0..next {
        driver.tick();
    }
    assert!(!driver.machine.has_work(), "every transaction ends");
    assert!(driver.replies.is_empty(), "nobody is told before the records are durable");
    driver.step(coordinator::Input::Durable(Epoch(u64::MAX)));

    let by_tid: BTreeMap<_, _> = driver.replies.iter().map(|(waiter, reply)| (reply.tid, (*waiter, reply))).collect();
    assert_eq!(driver.replies.len(), requests.len(), "everybody is told once");
    assert_eq!(by_tid.len(), requests.len(), "everybody is told once");
    assert_eq!(driver.order.len(), requests.len(), "everybody has a rank");
    let mut oracle = Oracle::new(7, false);
    oracle.control(&Control::Deploy(deployment(1)));
    for tid in &driver.order {
        let (waiter, reply) = &by_tid[tid];
        let expected = oracle.transaction(*tid, 0, false, &requests[waiter]);
        let order = &driver.order;
        assert!(
            same(&expected, &reply.outcome),
            "transaction {tid} came to {reply:?}, not {expected:?}, in the claimed order {order:?}"
        );
    }
    let state = driver.machine.state();
    assert_eq!(state.len(), oracle.len());
    for (operator, entities) in &oracle.state {
        for (key, value) in entities {
            let operator_id = styx_protocol::ids::OperatorId(*operator);
            let entity =
                styx_protocol::entity::Entity::new(&state.layout(), operator_id, *operator == 1, (*key).into());
            assert_eq!(state.get(&entity).map(|value| &value[..]), Some(&value.to_le_bytes()[..]), "{operator}/{key}");
        }
    }

    let mut replay = Driver::new(config(case.reordering, case.fallback));
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
