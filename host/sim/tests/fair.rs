//! Apps that share a worker: none makes another wait, however much it asks for.

use std::sync::Arc;

use crate::driver::{Driver, config, request};
use styx_protocol::control::Control;
use styx_protocol::deployment::Deployment;
use styx_protocol::ids::OperatorId;
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::machine::{Config, coordinator};
use styx_protocol::record::Record;
use styx_protocol::transaction::Request;
use styx_sim::toy;
use styx_sim::toy::{Op, Place};
use styx_transcript::scenario;

/// The other app's first operator: the toy app has two.
const OTHER: OperatorId = OperatorId(2);

fn two_apps(config: Config) -> Driver {
    let mut driver = Driver::deployed(config);
    let other = Deployment { app: "other".into(), ..toy::deployment(1) };
    driver.step(coordinator::Input::Control { control: Control::Deploy(other), waiter: Some(u64::MAX) });
    driver.tick();
    driver
}

fn ask(driver: &mut Driver, id: u128, operator: OperatorId, program: &[Op]) {
    let request = request(id, 0, id as u8, &Op::program(program), false);
    let request = Arc::new(Request { operator, ..request });
    driver.step(ClientRequest::Submit { request, waiter: id as u64, receipt: false });
}

/// How many requests of each app the next epoch takes.
fn next(driver: &mut Driver) -> (usize, usize) {
    driver.tick();
    let Ok(Record::Epoch(record)) = Record::decode(driver.log.last().expect("an epoch")) else { panic!("a record") };
    let requests = record.sequences.iter().flat_map(|sequence| &sequence.requests);
    let (other, toy): (Vec<_>, Vec<_>) = requests.partition(|request| request.operator == OTHER);
    (toy.len(), other.len())
}

#[test]
fn an_app_that_floods_makes_no_other_wait() {
    let _transcript = scenario!("fair");
    let mut driver = two_apps(config(true, true));
    (0..400).for_each(|id| ask(&mut driver, id, OperatorId(0), &[Op::Write(Place::Own)]));
    (400..420).for_each(|id| ask(&mut driver, id, OTHER, &[Op::Write(Place::Own)]));
    assert_eq!((next(&mut driver), next(&mut driver), next(&mut driver)), ((8, 8), (8, 8), (12, 4)));
    assert_eq!(next(&mut driver), (16, 0), "who is alone has all of it");
    ask(&mut driver, 500, OTHER, &[Op::Write(Place::Own)]);
    assert_eq!(next(&mut driver), (15, 1));
}

#[test]
fn an_epoch_takes_few_of_what_uses_much() {
    let _transcript = scenario!("fair");
    let mut driver = two_apps(Config { epoch_fuel_max: 320, ..config(true, true) });
    let much = vec![Op::Read(Place::Own); 100];
    (0..60).for_each(|id| ask(&mut driver, id, OperatorId(0), &much));
    assert_eq!(next(&mut driver), (16, 0), "nobody knows yet what it uses");
    (100..120).for_each(|id| ask(&mut driver, id, OTHER, &[Op::Write(Place::Own)]));
    let taken = [next(&mut driver), next(&mut driver)];
    assert!(taken.iter().all(|(toy, _)| (1..=3).contains(toy)), "{taken:?}");
    assert_eq!(
        taken.iter().map(|(_, other)| other).sum::<usize>(),
        20,
        "whoever uses little is not held up: {taken:?}"
    );
}

#[test]
fn an_app_that_fills_the_backlog_keeps_no_other_out() {
    let mut driver = two_apps(Config { backlog_max: 64, ..config(true, true) });
    (0..100).for_each(|id| ask(&mut driver, id, OperatorId(0), &[Op::Write(Place::Own)]));
    let refused = |driver: &Driver| {
        let refused = driver.replies.iter().filter(|(_, reply)| reply.outcome.is_err());
        refused.map(|(waiter, _)| *waiter).collect::<Vec<_>>()
    };
    assert_eq!(refused(&driver), (64..100).collect::<Vec<_>>());
    // Of the other one few wait: as many as one part in sixteen.
    (100..106).for_each(|id| ask(&mut driver, id, OTHER, &[Op::Write(Place::Own)]));
    assert_eq!(refused(&driver)[36..], [104, 105]);
    assert_eq!(next(&mut driver).1, 4);
}
