//! What the machine promises its clients: replies once and only when durable, idempotency, receipts,
//! deployments at epoch boundaries, bounds.

use std::sync::Arc;

use crate::driver::{Driver, config, request};
use styx_protocol::abort::Code;
use styx_protocol::control::Control;
use styx_protocol::deployment::Parameter;
use styx_protocol::ids::{Epoch, RequestId, Timestamp};
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::machine::{Config, coordinator, worker};
use styx_protocol::origin::Origin;
use styx_protocol::quarantine::{Quarantined, Subject};
use styx_protocol::record::Record;
use styx_protocol::replies::Retention;
use styx_protocol::transaction::Request;
use styx_sim::toy::{self, Op, Place};
use styx_transcript::scenario;

/// Adds to what it finds.
fn add() -> Vec<u8> {
    Op::program(&[Op::Read(Place::Own), Op::Write(Place::Own)])
}

/// Writes, then finds a reason to abort.
fn abort() -> Vec<u8> {
    let mut program = Op::program(&[Op::Write(Place::Own)]);
    (0..16).for_each(|_| program.extend(Op::program(&[Op::Read(Place::Own), Op::AbortIfMultipleOf(0)])));
    program
}

/// Reads and writes where it was told by what it read.
fn wander() -> Vec<u8> {
    Op::program(&[Op::Read(Place::Own), Op::Read(Place::Dynamic), Op::Write(Place::Dynamic), Op::Write(Place::Own)])
}

fn driver() -> Driver {
    let mut driver = Driver::deployed(config(true, true));
    driver.step(coordinator::Input::Durable(Epoch(1)));
    driver
}

fn submit(driver: &mut Driver, request: Request, waiter: u64) {
    driver.step(ClientRequest::Submit { request: Arc::new(request), waiter, receipt: false });
}

/// Who was told what: the client, and the result or the code.
fn told(driver: &Driver) -> Vec<(u64, Result<Vec<u8>, Code>)> {
    driver
        .replies
        .iter()
        .map(|(waiter, reply)| (*waiter, reply.outcome.clone().map(|value| value.to_vec()).map_err(|abort| abort.code)))
        .collect()
}

#[test]
fn a_reply_waits_for_its_epoch_to_be_durable() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    submit(&mut driver, request(1, 0, 0, &add(), false), 1);
    driver.tick();
    submit(&mut driver, request(2, 0, 1, &add(), false), 2);
    driver.tick();
    assert!(told(&driver).is_empty());
    driver.step(coordinator::Input::Durable(Epoch(2)));
    assert_eq!(driver.replies.iter().map(|(waiter, _)| *waiter).collect::<Vec<_>>(), [1]);
    driver.step(coordinator::Input::Durable(Epoch(3)));
    assert_eq!(driver.replies.iter().map(|(waiter, _)| *waiter).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_long_call_of_whose_end_nobody_would_hear_ends_when_the_server_is_to_stop_and_no_other() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    driver.postpone();
    submit(&mut driver, request(1, 0, 0, &add(), false), 1);
    submit(&mut driver, request(2, 0, 1, &add(), true), 2);
    driver.tick();
    driver.step(coordinator::Input::Durable(Epoch(2)));
    assert_eq!((driver.long.len(), told(&driver)), (2, vec![]), "they run beside the epochs");
    driver.step(worker::Input::Withdraw);
    driver.tick();
    driver.step(coordinator::Input::Durable(Epoch(3)));
    assert_eq!(told(&driver), [(1, Err(Code::Interrupted))], "the other one may be asked for under its key");
}

#[test]
fn a_retry_gets_the_first_answer_and_changes_nothing() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    submit(&mut driver, request(7, 0, 0, &add(), true), 1);
    // Before the cut, while its epoch is not durable, and after.
    submit(&mut driver, request(7, 0, 0, &add(), true), 2);
    driver.tick();
    submit(&mut driver, request(7, 0, 0, &add(), true), 3);
    driver.step(coordinator::Input::Durable(Epoch(2)));
    submit(&mut driver, request(7, 0, 0, &add(), true), 4);
    driver.tick();
    let told = told(&driver);
    let mut clients: Vec<u64> = told.iter().map(|(waiter, _)| *waiter).collect();
    clients.sort_unstable();
    assert_eq!(clients, [1, 2, 3, 4]);
    assert!(told.iter().all(|(_, outcome)| *outcome == told[0].1));
    assert_eq!(driver.order.len(), 1, "it ran once");
    assert_eq!(driver.machine.position().0, Epoch(2), "retries make no epochs");
}

/// Replies are forgotten for their number; what is known of records is not.
#[test]
fn a_record_that_is_read_again_is_executed_once_however_much_was_forgotten_meanwhile() {
    let _transcript = scenario!("machine");
    let record = |offset: u64, answered| {
        let origin = Some(Box::new(Origin { topic: 1, partition: 3, offset, answered }));
        Request { origin, ..request(u128::from(offset), 0, 0, &add(), true) }
    };
    let config =
        Config { retention: Retention { count: 0, ..Retention::default() }, snapshots: true, ..config(true, true) };
    let mut driver = Driver::deployed(config);
    for offset in 0..20 {
        submit(&mut driver, record(offset, offset / 2), offset);
        if offset % 3 == 0 {
            driver.tick();
        }
        if offset == 12 {
            driver.step(coordinator::Input::Snapshot);
            while driver.taken.is_under_way() {
                driver.step(worker::Input::HandOver);
            }
        }
    }
    driver.tick();
    let mut replayed = Driver::new(config);
    replayed.replay(&driver.log);
    let restored = Driver::restored(config, &driver);
    for mut driver in [driver, replayed, restored] {
        let before = (driver.machine.position(), driver.machine.state().hash());
        driver.step(coordinator::Input::Durable(Epoch(100)));
        driver.replies.clear();
        (0..20).for_each(|offset| submit(&mut driver, record(offset, 0), 100 + offset));
        driver.tick();
        driver.step(coordinator::Input::Durable(Epoch(100)));
        // The replies of the last epoch are still there.
        let (kept, forgotten): (Vec<_>, Vec<_>) = told(&driver).into_iter().partition(|(_, outcome)| outcome.is_ok());
        assert_eq!((kept.len(), forgotten.len()), (1, 19));
        assert!(forgotten.iter().all(|(_, outcome)| *outcome == Err(Code::ReplyForgotten)), "{forgotten:?}");
        assert_eq!((driver.machine.position(), driver.machine.state().hash()), before, "nothing ran again");
        // One that nobody has read yet.
        submit(&mut driver, record(20, 15), 1);
        driver.tick();
        assert_ne!(driver.machine.position(), before.0);
    }
}

#[test]
fn another_body_under_the_same_key_is_refused_before_and_after_the_end() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    submit(&mut driver, request(7, 0, 0, &add(), true), 1);
    submit(&mut driver, request(7, 0, 1, &add(), true), 2);
    driver.tick();
    driver.step(coordinator::Input::Durable(Epoch(2)));
    submit(&mut driver, request(7, 0, 0, &wander(), true), 3);
    let codes: Vec<_> = told(&driver).into_iter().map(|(waiter, outcome)| (waiter, outcome.err())).collect();
    assert_eq!(codes, [(2, Some(Code::IdempotencyMismatch)), (1, None), (3, Some(Code::IdempotencyMismatch))]);
}

/// Its names may stand for another operator by then, where an app was removed and deployed anew.
#[test]
fn a_record_that_is_read_again_is_the_same_request_though_it_is_another_one_by_now() {
    let record = |offset, args: &[u8]| {
        let origin = Some(Box::new(Origin { topic: 1, partition: 0, offset, answered: 0 }));
        Request { origin, ..request(7, 0, 0, args, true) }
    };
    let mut driver = driver();
    let asked = |driver: &mut Driver, request, waiter| {
        submit(driver, request, waiter);
        told(driver).into_iter().find(|(told, _)| *told == waiter).map(|(_, outcome)| outcome)
    };
    assert_eq!(asked(&mut driver, record(5, &add()), 1), None);
    // Whether it is that one cannot be said yet.
    assert_eq!(asked(&mut driver, record(5, &wander()), 2), Some(Err(Code::Overloaded)));
    driver.tick();
    assert_eq!(asked(&mut driver, record(5, &wander()), 3), None, "it has ended, and is not durable");
    driver.step(coordinator::Input::Durable(Epoch(2)));
    let told_of = |waiter| told(&driver).into_iter().find(|(told, _)| *told == waiter).expect("it is told").1;
    let first = told_of(1);
    assert!(first.is_ok());
    assert_eq!(told_of(3), first);
    assert_eq!(asked(&mut driver, record(5, &wander()), 4), Some(first));
    // Another record, which was given the same id.
    assert_eq!(asked(&mut driver, record(6, &wander()), 5), Some(Err(Code::IdempotencyMismatch)));
    assert_eq!(driver.order.len(), 1, "it ran once");
}

/// The id of a request that was executed and whose reply was forgotten may have been given to another record.
#[test]
fn that_a_record_was_no_request_is_nothing_about_another_one_with_its_id() {
    let _transcript = scenario!("machine");
    let of = |offset| Origin { topic: 1, partition: 0, offset, answered: 0 };
    let retention = Retention { count: 1, ..Retention::default() };
    let mut driver = Driver::deployed(Config { retention, ..config(true, true) });
    let asked = |driver: &mut Driver, request, waiter| {
        submit(driver, request, waiter);
        for _ in 0..2 {
            driver.tick();
            driver.step(coordinator::Input::Durable(driver.machine.position().0));
        }
        told(driver).into_iter().find(|(told, _)| *told == waiter).expect("it is told").1.map(|_| ())
    };
    let executed = || Request { origin: Some(Box::new(of(5))), ..request(7, 0, 0, &add(), true) };
    assert_eq!(asked(&mut driver, executed(), 1), Ok(()));
    for other in 10..14 {
        asked(&mut driver, request(u128::from(other), 0, 0, &add(), true), other).unwrap();
    }
    assert_eq!(asked(&mut driver, executed(), 2), Err(Code::ReplyForgotten));
    // Another record, which is no request.
    let nothing = |offset| Request::of_nothing(RequestId(7), of(offset));
    assert_eq!(asked(&mut driver, nothing(6), 3), Err(Code::UnknownOperator));
    assert_eq!(asked(&mut driver, nothing(6), 4), Err(Code::UnknownOperator));
    // The first one is none any more, or has become one again.
    assert_eq!(asked(&mut driver, nothing(5), 5), Err(Code::ReplyForgotten));
    assert_eq!(asked(&mut driver, executed(), 6), Err(Code::ReplyForgotten));
    // Neither was ever a request.
    assert_eq!(asked(&mut driver, nothing(8), 7), Err(Code::IdempotencyMismatch));
}

#[test]
fn other_arguments_under_the_same_key_are_the_same_request_once_parameters_were_declared_otherwise() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    let again = |driver: &mut Driver, request, waiter| {
        submit(driver, request, waiter);
        told(driver).pop().unwrap().1.err()
    };
    submit(&mut driver, request(7, 0, 0, &add(), true), 1);
    driver.tick();
    driver.step(coordinator::Input::Durable(Epoch(2)));
    let deploy = |driver: &mut Driver, number, parameters: &[&str]| {
        let declared = |name: &&str| Parameter { name: (*name).to_owned(), schema: "{}".to_owned(), required: true };
        let mut deployment = toy::deployment(number);
        let functions = deployment.operators.iter_mut().flat_map(|operator| &mut operator.functions);
        let called = functions.filter(|function| function.name == "f");
        called.for_each(|function| function.parameters = parameters.iter().map(declared).collect());
        driver.step(coordinator::Input::Control { control: Control::Deploy(deployment), waiter: Some(u64::MAX) });
        driver.tick();
    };
    deploy(&mut driver, 9, &[]);
    let mismatch = Some(Code::IdempotencyMismatch);
    assert_eq!(again(&mut driver, request(7, 0, 0, &wander(), true), 2), mismatch, "they are what they were");
    deploy(&mut driver, 17, &["a", "b"]);
    assert_eq!(again(&mut driver, request(7, 0, 0, &wander(), true), 3), None);
    // What is called tells more.
    assert_eq!(again(&mut driver, request(7, 0, 1, &add(), true), 4), mismatch);
    assert_eq!(again(&mut driver, request(7, 1, 0, &add(), true), 5), mismatch);
    assert_eq!(again(&mut driver, Request { function: "s".into(), ..request(7, 0, 0, &add(), true) }, 6), mismatch);
    assert_eq!(driver.order.len(), 1, "it ran once");
}

#[test]
fn an_abort_is_remembered_like_a_result() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    let state = driver.machine.state().hash();
    submit(&mut driver, request(7, 0, 0, &abort(), true), 1);
    driver.tick();
    driver.step(coordinator::Input::Durable(Epoch(2)));
    submit(&mut driver, request(7, 0, 0, &abort(), true), 2);
    assert_eq!(told(&driver), [(1, Err(Code::Aborted)), (2, Err(Code::Aborted))]);
    assert_eq!(driver.machine.state().hash(), state, "none of its writes happened");
}

#[test]
fn who_is_released_is_executed_when_it_is_asked_again_and_nobody_else() {
    let _transcript = scenario!("machine");
    let mut driver = Driver::deployed(Config { snapshots: true, ..config(true, true) });
    let programs = [add(), add(), add(), abort()];
    let ask = |driver: &mut Driver| {
        let before = driver.replies.len();
        for (id, program) in (1u64..).zip(&programs) {
            submit(driver, request(id.into(), 0, 0, program, true), id);
        }
        driver.tick();
        driver.step(coordinator::Input::Durable(Epoch(100)));
        let mut told = told(driver).split_off(before);
        told.sort_by_key(|(waiter, _)| *waiter);
        told.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>()
    };
    let control =
        |driver: &mut Driver, control| driver.step(coordinator::Input::Control { control, waiter: Some(u64::MAX) });
    let subject = |id| Subject::Request(RequestId(id));
    // They are set aside while they wait for their epoch.
    for id in [1, 2] {
        let (app, function, reason) = (None, None, "it ended the process".to_owned());
        let quarantined = Quarantined { subject: subject(id), app, function, reason, since: Timestamp(5) };
        control(&mut driver, Control::Quarantine(quarantined));
    }
    let first = ask(&mut driver);
    let refused = Err(Code::Quarantined);
    assert!(first[0] == refused && first[1] == refused && first[2].is_ok() && first[3].is_err(), "{first:?}");
    assert_eq!(ask(&mut driver), first, "as it is remembered");
    control(&mut driver, Control::Release(subject(1)));
    driver.tick();
    let order = driver.order.len();
    let second = ask(&mut driver);
    assert!(second[0].is_ok() && second[1..] == first[1..], "{second:?}");
    assert_eq!(driver.order.len(), order + 1, "one ran");
}

#[test]
fn that_a_refusal_is_forgotten_is_told_when_its_release_is_durable() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    let subject = Subject::Request(RequestId(1));
    let reason = "it ended the process".to_owned();
    let quarantined = Quarantined { subject: subject.clone(), app: None, function: None, reason, since: Timestamp(5) };
    driver.step(coordinator::Input::Control { control: Control::Quarantine(quarantined), waiter: None });
    submit(&mut driver, request(1, 0, 0, &add(), true), 1);
    driver.tick();
    driver.step(coordinator::Input::Durable(driver.machine.position().0));
    assert_eq!(told(&driver), [(1, Err(Code::Quarantined))]);
    driver.step(coordinator::Input::Control { control: Control::Release(subject), waiter: None });
    driver.tick();
    driver.step(ClientRequest::Await { id: RequestId(1), waiter: 2 });
    assert!(driver.unknown.is_empty(), "the release may be lost");
    driver.step(coordinator::Input::Durable(driver.machine.position().0));
    assert_eq!(driver.unknown, [2]);
}

/// So it is what everybody is told who asks for it, whatever is released meanwhile.
#[test]
fn that_a_record_is_set_aside_is_said_by_its_epoch() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    let apply = |driver: &mut Driver, control: Option<Control>| {
        if let Some(control) = control {
            driver.step(coordinator::Input::Control { control, waiter: None });
        }
        driver.tick();
        driver.step(coordinator::Input::Durable(driver.machine.position().0));
    };
    let record = || {
        let origin = Some(Box::new(Origin { topic: 1, partition: 0, offset: 0, answered: 0 }));
        Request { origin, ..request(7, 0, 0, &add(), true) }
    };
    let subject = Subject::App("toy".into());
    let (app, reason) = (Some("toy".into()), "by hand".to_owned());
    let quarantined = Quarantined { subject: subject.clone(), app, function: None, reason, since: Timestamp(5) };
    apply(&mut driver, Some(Control::Quarantine(quarantined)));
    submit(&mut driver, record(), 1);
    assert_eq!(told(&driver), [], "another one may have it as well");
    apply(&mut driver, None);
    assert_eq!(told(&driver), [(1, Err(Code::Quarantined))]);
    apply(&mut driver, Some(Control::Release(subject)));
    submit(&mut driver, record(), 2);
    apply(&mut driver, None);
    assert_eq!(told(&driver)[1..], [(2, Err(Code::ReplyForgotten))], "it is over");
}

#[test]
fn a_receipt_comes_when_durable_and_the_end_can_be_asked_for() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    driver.step(ClientRequest::Await { id: RequestId(7), waiter: 1 });
    assert_eq!(driver.unknown, [1]);
    driver.step(ClientRequest::Submit { request: Arc::new(request(7, 0, 0, &add(), true)), waiter: 2, receipt: true });
    driver.step(ClientRequest::Await { id: RequestId(7), waiter: 3 });
    driver.tick();
    driver.step(ClientRequest::Await { id: RequestId(7), waiter: 4 });
    assert!(driver.accepted.is_empty() && driver.replies.is_empty());
    driver.step(coordinator::Input::Durable(Epoch(2)));
    assert_eq!(driver.accepted, [2]);
    assert_eq!(told(&driver).iter().map(|(waiter, _)| *waiter).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_query_sees_the_last_epoch_and_leaves_no_trace() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    submit(&mut driver, request(1, 0, 0, &add(), false), 1);
    driver.tick();
    let (position, log) = (driver.machine.position(), driver.log.len());
    let mut query = request(2, 0, 0, &add(), false);
    query.function = "q".into();
    driver.step(ClientRequest::Query { request: Arc::new(query), waiter: 2 });
    driver.tick();
    // It reads, then writes: the host refuses.
    driver.step(coordinator::Input::Durable(Epoch(2)));
    assert_eq!(told(&driver)[1], (2, Err(Code::ReadOnly)));
    assert_eq!((driver.machine.position(), driver.log.len()), (position, log));
}

#[test]
fn too_much_is_refused_at_once() {
    let _transcript = scenario!("machine");
    let mut driver = Driver::deployed(Config { backlog_max: 2, ..config(true, true) });
    for id in 1..=3 {
        submit(&mut driver, request(u128::from(id), 0, 0, &add(), false), id);
    }
    assert_eq!(told(&driver), [(3, Err(Code::Overloaded))]);
}

#[test]
fn an_epoch_is_bounded_by_count_and_by_bytes() {
    let _transcript = scenario!("machine");
    for (config, requests, epochs) in [
        (Config { epoch_size_max: 2, ..config(true, true) }, 5, 3),
        (Config { epoch_size_max: 100, record_bytes_max: 4 << 10, ..config(true, true) }, 40, 2),
    ] {
        let mut driver = Driver::deployed(config);
        for id in 1..=requests {
            submit(&mut driver, request(u128::from(id), 0, 0, &add(), false), id);
        }
        while driver.machine.has_work() {
            driver.tick();
        }
        assert_eq!(driver.machine.position().0, Epoch(1 + epochs));
    }
}

#[test]
fn replies_are_forgotten_by_age_and_count_and_bytes_alike_in_a_replay() {
    let _transcript = scenario!("machine");
    let by_count = Retention { count: 2, ..Retention::default() };
    let by_age = Retention { age_us: 25, ..Retention::default() };
    let by_bytes = Retention { bytes: 300, ..Retention::default() };
    for (retention, kept) in [(by_count, 3), (by_age, 3), (by_bytes, 3), (Retention::default(), 6)] {
        let config = Config { retention, ..config(true, true) };
        let mut driver = Driver::deployed(config);
        for id in 1..=6 {
            submit(&mut driver, request(u128::from(id), 0, id as u8, &add(), true), id);
            driver.tick();
        }
        assert_eq!(driver.machine.remembered(), kept, "{retention:?}");
        let mut replay = Driver::new(config);
        replay.replay(&driver.log);
        assert_eq!(replay.machine.remembered(), kept, "{retention:?}");
        let mut recovered = Driver::new(config);
        recovered.recover(&driver.log);
        assert_eq!(recovered.machine.remembered(), kept, "{retention:?}");
    }
}

#[test]
fn a_deployment_takes_effect_with_an_epoch_and_a_removed_app_takes_its_state_along() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    submit(&mut driver, request(1, 0, 0, &add(), false), 1);
    submit(&mut driver, request(2, 1, 0, &add(), false), 2);
    driver.tick();
    assert!(driver.machine.state().len() == 2 && !driver.machine.state().is_empty());
    submit(&mut driver, request(3, 0, 0, &add(), false), 3);
    driver.step(coordinator::Input::Control { control: Control::Remove("toy".into()), waiter: Some(4) });
    driver.tick();
    driver.step(coordinator::Input::Durable(Epoch(9)));
    assert_eq!(told(&driver)[2], (3, Err(Code::UnknownOperator)));
    assert!(driver.machine.state().is_empty());
    assert_eq!(driver.machine.state().hash(), Default::default(), "nothing left in the hash");
    let mut replay = Driver::new(config(true, true));
    replay.replay(&driver.log);
    assert_eq!(replay.machine.position(), driver.machine.position());
    let mut recovered = Driver::new(config(true, true));
    recovered.recover(&driver.log);
    assert_eq!(recovered.machine.position(), driver.machine.position());
}

#[test]
#[should_panic(expected = "the state before epoch 3 is not the one that the log was written on")]
fn a_replay_that_differs_halts() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    for id in 1..=3 {
        submit(&mut driver, request(id, 0, 0, &add(), false), id as u64);
        driver.tick();
    }
    let Ok(Record::Epoch(record)) = Record::decode(&driver.log[1]) else { panic!("an epoch") };
    let mut altered = (*record).clone();
    let first = &mut altered.sequences[0].requests[0];
    *first = Arc::new(Request { key: "p1:k001".into(), ..(**first).clone() });
    driver.log[1] = Record::Epoch(Arc::new(altered)).encode();
    Driver::new(config(true, true)).replay(&driver.log);
}

#[test]
fn logged_time_never_runs_backwards() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    for now in [100, 50, 200] {
        submit(&mut driver, request(now, 0, 0, &add(), false), 1);
        driver.step(coordinator::Input::Tick { now: Timestamp(now as u64) });
    }
    let times: Vec<u64> = driver.log[1..]
        .iter()
        .map(|record| match Record::decode(record) {
            Ok(Record::Epoch(record)) => record.time.0,
            _ => panic!("an epoch"),
        })
        .collect();
    assert_eq!(times, [100, 100, 200]);
}

#[test]
fn bytes_that_are_no_record_are_refused_or_at_least_never_taken_for_another() {
    let _transcript = scenario!("machine");
    let mut driver = driver();
    submit(&mut driver, request(1, 0, 0, &add(), true), 1);
    driver.tick();
    let good = &driver.log[1];
    let record = Record::decode(good).unwrap();
    // The log's checksums find damage; here it must be harmless: no panic, and no way back to the original.
    for cut in 0..good.len() {
        assert_ne!(Record::decode(&good[..cut]).ok().as_ref(), Some(&record), "cut at {cut}");
    }
    for at in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[at / 8] ^= 1 << (at % 8);
        drop(Record::decode(&bad));
    }
}

#[test]
fn a_receipt_waits_for_the_epoch_that_takes_the_request_however_many_are_full_before_it() {
    let _transcript = scenario!("machine");
    let mut driver = Driver::deployed(Config { epoch_size_max: 1, ..config(true, true) });
    driver.step(coordinator::Input::Durable(Epoch(1)));
    for id in 1..=3 {
        submit(&mut driver, request(id, 0, 0, &add(), true), id as u64);
    }
    driver.step(ClientRequest::Submit { request: Arc::new(request(3, 0, 0, &add(), true)), waiter: 4, receipt: true });
    for epoch in 2..=4 {
        driver.tick();
        assert!(driver.accepted.is_empty(), "request 3 is part of epoch 4");
        driver.step(coordinator::Input::Durable(Epoch(epoch)));
    }
    assert_eq!(driver.accepted, [4]);
    // Once sequenced, its own epoch counts, not a later one.
    driver.step(ClientRequest::Submit { request: Arc::new(request(3, 0, 0, &add(), true)), waiter: 5, receipt: true });
    assert_eq!(driver.accepted, [4, 5]);
}
