//! All that can happen to a single process, in each state that it can be in; what it does stands in its transcript.

use styx_protocol::control::Control;
use styx_protocol::state::StateHash;
use styx_transcript::quietly;

use super::*;
use crate::snapshots::{ManifestPut, StoreFailure};
use crate::wire::WrittenPart;

type Happens = Box<dyn Fn(&mut Rig)>;

/// A process that takes snapshots, or not, with an epoch behind it.
fn process(snapshots: bool) -> Rig {
    let mut rig = Rig::new();
    let machine = Config { snapshots, ..config().machine };
    rig.driver = SingleDriver::new(SingleConfig { machine, ..config() });
    let schedule = SnapshotConfig::default();
    let start =
        snapshots.then_some(SnapshotStart { schedule, generation: Generation(2), newest: None, builds_on: false });
    let mut effects = Vec::new();
    rig.driver.recovered(rig.now, LogPosition(1), start, &mut effects);
    rig.perform(effects);
    rig.epoch(1);
    rig.synced(1);
    rig
}

fn events() -> Vec<Happens> {
    let step =
        |event: fn() -> SingleEvent<u64, u64, u64>| -> Happens { Box::new(move |rig: &mut Rig| rig.step(event())) };
    let ask = |request: fn() -> ClientRequest<u64>| -> Happens {
        Box::new(move |rig: &mut Rig| rig.step(SingleEvent::Client(ClientMessage::Request(request()))))
    };
    let mut events = vec![
        step(|| SingleEvent::TakeSnapshot(7)),
        step(|| SingleEvent::Withdraw),
        step(|| SingleEvent::Stop),
        step(|| SingleEvent::Settled),
        step(|| SingleEvent::Deploy { control: Control::Remove("shop".into()), waiter: 8 }),
        ask(|| ClientRequest::Await { id: RequestId(1), waiter: 5 }),
        ask(|| ClientRequest::Await { id: RequestId(99), waiter: 5 }),
    ];
    events.push(Box::new(|rig: &mut Rig| rig.submit(6)));
    let get = AdminQuery::Get { operator: 0, key: "a".into() };
    let scan = AdminQuery::Scan { operator: 0, prefix: String::new(), after: None, limit: 3, bytes: 100 };
    for query in [AdminQuery::Cluster, AdminQuery::Workers, AdminQuery::Partitions, get, scan] {
        events.push(Box::new(move |rig: &mut Rig| {
            rig.step(SingleEvent::Client(ClientMessage::Read(query.clone(), 9)));
        }));
    }
    events
}

/// Each event in a state of its own, and what follows from it until all is durable.
fn each_in(state: impl Fn() -> Rig) {
    for event in events() {
        let mut rig = quietly(&state);
        event(&mut rig);
        for _ in 0..3 {
            rig.settle();
            while !rig.batches.is_empty() {
                rig.execute();
            }
            let epoch = rig.driver.position().0.0;
            did(&(rig.driver.under_way(), epoch, rig.driver.backlog(), rig.driver.remembered()));
            rig.synced(epoch);
            rig.now.monotonic = rig.now.monotonic.after(Duration::from_secs(30));
        }
    }
}

#[test]
fn everything_happens_to_a_process_that_has_nothing_to_do() {
    let _transcript = scenario!("single");
    each_in(|| process(false));
}

#[test]
fn everything_happens_to_a_process_whose_epoch_is_under_way() {
    let _transcript = scenario!("single");
    each_in(|| {
        let mut rig = process(true);
        rig.submit(2);
        rig.settle();
        rig.submit(3);
        rig
    });
}

#[test]
fn everything_happens_to_a_process_whose_log_is_slow() {
    let _transcript = scenario!("single");
    each_in(|| {
        let mut rig = process(true);
        (2..=3).for_each(|waiter| rig.epoch(waiter));
        rig.submit(4);
        rig.settle();
        rig
    });
}

#[test]
fn everything_happens_to_a_process_that_takes_a_snapshot() {
    let _transcript = scenario!("single");
    for put in [
        Ok(ManifestPut { sequence: 1, bytes: 2, written_bytes: 2 }),
        Err(StoreFailure::Unavailable("no answer".into())),
        Err(StoreFailure::Damaged("a flipped bit".into())),
        Err(StoreFailure::Fatal("another one writes".into())),
    ] {
        let kept = [
            Ok(None),
            Ok(Some(LogPosition(1))),
            Err(StoreFailure::Unavailable("no answer".into())),
            Err(StoreFailure::Damaged("a flipped bit".into())),
            Err(StoreFailure::Stopped),
            Err(StoreFailure::Fatal("another one writes".into())),
        ];
        for kept in kept {
            let mut rig = quietly(|| process(true));
            rig.step(SingleEvent::TakeSnapshot(7));
            rig.step(SingleEvent::HandOver);
            let hashes = vec![(styx_protocol::ids::PartitionId(0), StateHash(5))];
            let part = WrittenPart { epoch: Epoch(1), objects: vec![1], hashes, carried: vec![] };
            rig.step(SingleEvent::PartWritten(part));
            rig.step(SingleEvent::ManifestPut(put.clone()));
            if put.is_ok() {
                rig.step(SingleEvent::Maintained(kept));
            }
            rig.step(SingleEvent::TakeSnapshot(8));
            rig.now.monotonic = rig.now.monotonic.after(Duration::from_secs(60));
            rig.settle();
            did(&rig.snapshots);
        }
    }
}
