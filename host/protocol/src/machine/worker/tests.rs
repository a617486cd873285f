mod mails;
mod rekeying;

use styx_transcript::{did, scenario, told};

use super::*;
use crate::abort::Code;
use crate::cluster::placement::Placement;
use crate::commit::replies::Retention;
use crate::execute::attempt::Execution;
use crate::execute::task::Started;
use crate::ids::{Generation, OperatorId, RequestId, Round, SequencerCounter, WorkerId};
use crate::modes::Modes;
use crate::sequence::transaction::Request;
use crate::state::entity::Layout;
use crate::wire::mail::Mail;

/// The first of two workers.
fn worker() -> Worker<u64> {
    worker_with(false)
}

/// The same, of which snapshots are taken or not.
fn worker_with(snapshots: bool) -> Worker<u64> {
    worker_of(Config { snapshots, ..config() })
}

fn config() -> Config {
    Config {
        layout: Layout::new(1, 4),
        modes: Modes::default(),
        epoch_size_max: 10,
        epoch_fuel_max: 1 << 40,
        record_bytes_max: 1 << 20,
        backlog_max: 10,
        suspended_max: 100,
        long_max: 4,
        retention: Retention::default(),
        generation: Generation(1),
        snapshots: false,
        step_max: STEP_MAX,
        piece_bytes: PIECE_BYTES,
        claim_order: false,
    }
}

fn worker_of(config: Config) -> Worker<u64> {
    let placement = Arc::new(Placement::round_robin(config.layout.partitions, 2));
    Worker::new(config, LocalView { me: WorkerId(0), placement })
}

fn step(worker: &mut Worker<u64>, input: Input<u64>) -> Vec<Action<u64>> {
    told(&input);
    let mut actions = Vec::new();
    worker.step(input, &mut actions);
    actions.iter().for_each(did);
    actions
}

fn say(worker: &mut Worker<u64>, from: Node, message: Message) -> Vec<Action<u64>> {
    step(worker, Input::Message { from, message })
}

fn submit(worker: &mut Worker<u64>, waiter: u64) -> Vec<Action<u64>> {
    let request = Request {
        id: RequestId(u128::from(waiter)),
        operator: OperatorId(0),
        function: "f".into(),
        key: "a".into(),
        args: b"[]"[..].into(),
        retained: true,
        origin: None,
    };
    let request = ClientRequest::Submit { request: Arc::new(request), waiter, receipt: false };
    step(worker, Input::Client(request))
}

fn begin(round: u64) -> Message {
    Message::Begin(Begin {
        round: Round(round),
        epoch: Epoch(1),
        time: Timestamp(9),
        counter: SequencerCounter(0),
        before: Chain::default(),
        controls: vec![],
        room: 1 << 10,
        replay: None,
    })
}

fn settle(round: u64) -> Message {
    Message::Settle { round: Round(round), logged: true, ends: vec![], queries: vec![] }
}

fn decide(round: u64) -> Message {
    Message::Decide { round: Round(round), bits: vec![] }
}

/// A worker in each phase with what fits next from the coordinator: idle, while it executes, when it has.
fn phases() -> Vec<(&'static str, Worker<u64>, Vec<Message>)> {
    let mut idle = worker();
    submit(&mut idle, 1);
    let mut executing = worker();
    submit(&mut executing, 1);
    say(&mut executing, Node::Coordinator, begin(1));
    let mut executed = worker();
    submit(&mut executed, 1);
    say(&mut executed, Node::Coordinator, begin(1));
    let transactions = vec![Started::Local(Execution::default())];
    step(&mut executed, Input::Executed(Executed { transactions, queries: vec![] }));
    vec![
        ("idle", idle, vec![begin(1), begin(2), begin(u64::MAX), Message::Snapshot]),
        ("executing", executing, vec![]),
        ("executed", executed, vec![settle(1)]),
    ]
}

/// The message is a fault of its sender, and changes nothing.
fn is_fault(name: &str, worker: &mut Worker<u64>, from: Node, message: Message) {
    let before = format!("{worker:?}");
    let actions = say(worker, from, message.clone());
    let blamed = matches!(&actions[..], [Action::Fault(fault)] if fault.from == from && fault.what == message.name());
    assert!(blamed, "{name}: {message:?}: {actions:?}");
    assert_eq!(before, format!("{worker:?}"), "{name}: {message:?}");
}

#[test]
fn a_message_in_another_phase_is_a_fault() {
    let _transcript = scenario!("worker");
    for (name, mut worker, fitting) in phases() {
        let mut all = vec![Message::Snapshot, Message::WorkAvailable, Message::Graphs(Mail::default())];
        for round in [0, 1, 2, u64::MAX] {
            all.extend([begin(round), settle(round), decide(round)]);
            all.push(Message::Share { round: Round(round), requests: vec![], carried: vec![] });
            all.push(Message::Executed { round: Round(round), ends: vec![], queries: vec![] });
            all.push(Message::Bits { round: Round(round), bits: vec![] });
        }
        for message in all {
            if !matches!(message, Message::Graphs(_)) {
                is_fault(name, &mut worker, Node::Worker(WorkerId(1)), message.clone());
            }
            if !fitting.contains(&message) {
                is_fault(name, &mut worker, Node::Coordinator, message);
            }
        }
    }
}

#[test]
fn a_snapshot_is_not_begun_before_the_last_one_has_left() {
    let _transcript = scenario!("worker");
    let mut worker = worker_with(true);
    for _ in 0..2 {
        let begun = say(&mut worker, Node::Coordinator, Message::Snapshot);
        assert!(matches!(&begun[..], [Action::WorkerSnapshot(_)]), "{begun:?}");
        is_fault("handing over", &mut worker, Node::Coordinator, Message::Snapshot);
        let left = step(&mut worker, Input::HandOver);
        assert!(matches!(&left[..], [Action::Changes { last: true, .. }]), "{left:?}");
    }
}

/// A worker between two rounds, of which so many transactions need more than their slice, and one runs at a time.
fn with_longs(longs: u64) -> Worker<u64> {
    let mut worker = worker_of(Config { snapshots: true, long_max: 1, ..config() });
    (1..=longs).for_each(|waiter| drop(submit(&mut worker, waiter)));
    say(&mut worker, Node::Coordinator, begin(1));
    let long = |_| Started::Local(Execution { postponed: true, ..Execution::default() });
    step(&mut worker, Input::Executed(Executed { transactions: (0..longs).map(long).collect(), queries: vec![] }));
    let begun = say(&mut worker, Node::Coordinator, settle(1));
    assert_eq!(begun.iter().filter(|action| matches!(action, Action::StartLong(_))).count(), 1, "{begun:?}");
    worker
}

#[test]
fn what_a_snapshot_carries_stands_in_tid_order_whether_it_runs_or_waits() {
    let mut worker = with_longs(3);
    let begun = say(&mut worker, Node::Coordinator, Message::Snapshot);
    let [Action::WorkerSnapshot(part)] = &begun[..] else { panic!("{begun:?}") };
    assert_eq!(part.carried.len(), 3);
    assert!(part.carried.is_sorted_by_key(|carried| carried.tid), "{:?}", part.carried);
}

#[test]
fn a_request_that_no_record_can_hold_is_refused_and_not_waited_for() {
    let mut worker = worker();
    let request = Request {
        id: RequestId(1),
        operator: OperatorId(0),
        function: "f".into(),
        key: "a".into(),
        args: vec![b' '; 1 << 20].into(),
        retained: true,
        origin: None,
    };
    let submit = ClientRequest::Submit { request: Arc::new(request), waiter: 7, receipt: false };
    let actions = step(&mut worker, Input::Client(submit));
    let [Action::Respond(responses)] = &actions[..] else { panic!("{actions:?}") };
    let [ClientResponse::Reply { waiter: 7, reply }] = &responses[..] else { panic!("{responses:?}") };
    assert_eq!(reply.outcome.as_ref().map_err(|abort| abort.code), Err(Code::TooLarge));
    assert_eq!(worker.backlog(), 0);
}

#[test]
fn what_does_not_stand_in_tid_order_is_a_fault() {
    let _transcript = scenario!("worker");
    let (name, mut worker, _) = phases().swap_remove(2);
    let bits = vec![(crate::ids::Tid(2), Default::default()), (crate::ids::Tid(1), Default::default())];
    is_fault(name, &mut worker, Node::Coordinator, Message::Decide { round: Round(1), bits });
}

#[test]
fn a_placement_that_does_not_follow_is_a_fault() {
    let _transcript = scenario!("worker");
    let (name, mut worker, _) = phases().swap_remove(0);
    let own = worker.view().placement.as_ref().clone();
    let other = own.next(vec![WorkerId(1); 4]);
    for control in [Control::Place(own), Control::Place(other)] {
        let Message::Begin(begin) = begin(1) else { unreachable!() };
        let message = Message::Begin(Begin { controls: vec![control], ..begin });
        is_fault(name, &mut worker, Node::Coordinator, message);
    }
}

#[test]
fn a_reply_waits_for_its_record_and_leaves_with_others() {
    let _transcript = scenario!("worker");
    let mut worker = worker();
    (1..=3).for_each(|waiter| drop(submit(&mut worker, waiter)));
    assert!(submit(&mut worker, 2).is_empty(), "who brings the key again waits as well");
    say(&mut worker, Node::Coordinator, begin(1));
    let transactions = (0..3).map(|_| Started::Local(Execution::default())).collect();
    step(&mut worker, Input::Executed(Executed { transactions, queries: vec![] }));
    let ended = say(&mut worker, Node::Coordinator, settle(1));
    assert!(!ended.iter().any(|action| matches!(action, Action::Respond(_))), "{ended:?}");
    let durable = say(&mut worker, Node::Coordinator, Message::Durable(Epoch(1)));
    assert!(matches!(&durable[..], [Action::Respond(responses)] if responses.len() == 4), "{durable:?}");
}
