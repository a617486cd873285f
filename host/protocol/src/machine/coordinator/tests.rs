use super::*;
use crate::cluster::worker_set::WorkerSet;
use crate::commit::validate::{Bits, Kind};
use crate::ids::{EngineHash, Generation};
use crate::sequence::transaction::Request;
use crate::state::StateHash;
use crate::state::entity::Layout;
use crate::wire::message::{Counts, Finished, GraphEnd, Mail};

const WORKERS: u16 = 2;

fn coordinator() -> Coordinator<u64> {
    let layout = Layout { seed: 1, partitions: 4 };
    let config = Config {
        layout,
        record_bytes_max: 1 << 20,
        engine: EngineHash(0),
        generation: Generation(1),
        snapshots: false,
    };
    Coordinator::new(config, Arc::new(Placement::round_robin(layout.partitions, WORKERS)))
}

fn say(coordinator: &mut Coordinator<u64>, from: u16, message: Message) -> Vec<Action<u64>> {
    let mut actions = Vec::new();
    coordinator.step(Input::Message { from: WorkerId(from), message }, &mut actions);
    actions
}

/// What fits from a worker in a phase, in this order of phases.
fn share(round: u64) -> Message {
    let request = Request {
        id: crate::ids::RequestId(7),
        operator: crate::ids::OperatorId(0),
        function: "f".into(),
        key: "a".into(),
        args: b"[]"[..].into(),
        retained: false,
        origin: None,
    };
    Message::Share { round: Round(round), requests: vec![Arc::new(request)], carried: vec![] }
}

fn executed(round: u64) -> Message {
    let mut workers = WorkerSet::only(WorkerId(0));
    workers.merge(&WorkerSet::only(WorkerId(1)));
    let end =
        GraphEnd { tid: Tid(1), number: 1, kind: Kind::Wrote, snapshot: false, long: false, cacheable: true, workers };
    Message::Executed { round: Round(round), ends: vec![end] }
}

fn bits(round: u64) -> Message {
    Message::Bits { round: Round(round), bits: vec![(Tid(1), Bits { waw: true, ..Bits::default() })] }
}

fn finished(coordinator: &Coordinator<u64>, round: u64) -> Message {
    Message::Finished(Finished {
        round: Round(round),
        hash: StateHash::default(),
        deployment: coordinator.catalog().hash(),
        carried: vec![],
        more: false,
        counts: Counts { fuel: u64::MAX, ..Counts::default() },
    })
}

/// A coordinator before each message that fits next from worker 0, with that message: idle, and every phase of
/// its first round.
fn phases() -> Vec<(&'static str, Coordinator<u64>, Vec<Message>)> {
    let begin = |coordinator: &mut Coordinator<u64>| {
        say(coordinator, 0, Message::WorkAvailable);
        coordinator.step(Input::Tick { now: Timestamp(5) }, &mut Vec::new());
    };
    let mut phases = vec![("idle", coordinator(), vec![])];
    let fitting = [vec![share(1), executed(1)], vec![executed(1)], vec![bits(1)], vec![finished(&coordinator(), 1)]];
    for (at, (name, fitting)) in ["cut", "execute", "validate", "finish"].into_iter().zip(fitting).enumerate() {
        let mut coordinator = coordinator();
        begin(&mut coordinator);
        for message in [share(1), executed(1), bits(1)].into_iter().take(at) {
            for worker in 0..WORKERS {
                let actions = say(&mut coordinator, worker, message.clone());
                assert!(!actions.iter().any(|action| matches!(action, Action::Fault(_))), "{name}: {actions:?}");
            }
        }
        phases.push((name, coordinator, fitting));
    }
    phases
}

fn all_messages(coordinator: &Coordinator<u64>) -> Vec<Message> {
    let begin = Begin {
        round: Round(1),
        epoch: Epoch(1),
        time: Timestamp(0),
        counter: SequencerCounter(0),
        before: Chain::default(),
        controls: vec![],
        room: 0,
        replay: None,
    };
    let mut all = vec![
        Message::Begin(begin),
        Message::Settle { round: Round(1), logged: true, ends: vec![] },
        Message::Decide { round: Round(1), bits: vec![] },
        Message::Durable(Epoch(1)),
        Message::Snapshot,
        Message::Drain,
        Message::Graphs(Mail::default()),
    ];
    for round in [0, 1, 2, u64::MAX] {
        all.extend([share(round), executed(round), bits(round), finished(coordinator, round)]);
    }
    all
}

/// The message is a fault of its sender, and changes nothing.
fn is_fault(name: &str, coordinator: &mut Coordinator<u64>, from: u16, message: Message) {
    let before = format!("{coordinator:?}");
    let actions = say(coordinator, from, message.clone());
    let from = Node::Worker(WorkerId(from));
    let blamed = matches!(&actions[..], [Action::Fault(fault)] if fault.from == from && fault.what == message.name());
    assert!(blamed, "{name}: {message:?}: {actions:?}");
    assert_eq!(before, format!("{coordinator:?}"), "{name}: {message:?}");
}

#[test]
fn a_message_in_another_phase_is_a_fault() {
    for (name, mut coordinator, fitting) in phases() {
        for message in all_messages(&coordinator) {
            if !fitting.contains(&message) {
                is_fault(name, &mut coordinator, 0, message);
            }
        }
    }
}

#[test]
fn what_is_said_twice_is_a_fault() {
    for (name, mut coordinator, fitting) in phases() {
        for message in fitting {
            let actions = say(&mut coordinator, 0, message.clone());
            assert!(!actions.iter().any(|action| matches!(action, Action::Fault(_))), "{name}: {actions:?}");
            is_fault(name, &mut coordinator, 0, message);
        }
    }
}

#[test]
fn what_no_member_says_is_a_fault() {
    for (name, mut coordinator, _) in phases() {
        for message in all_messages(&coordinator).into_iter().chain([Message::WorkAvailable]) {
            for from in [WORKERS, u16::MAX] {
                is_fault(name, &mut coordinator, from, message.clone());
            }
        }
    }
}

#[test]
fn graphs_of_workers_that_there_are_not_are_a_fault() {
    for workers in [WorkerSet::only(WorkerId(1)), WorkerSet::default(), WorkerSet::only(WorkerId(9))] {
        let Message::Executed { round, mut ends } = executed(1) else { unreachable!() };
        ends[0].workers = workers;
        let (name, mut coordinator, _) = phases().swap_remove(1);
        is_fault(name, &mut coordinator, 0, Message::Executed { round, ends });
    }
}

#[test]
fn a_round_ends_whatever_workers_count() {
    let (_, mut coordinator, _) = phases().swap_remove(4);
    for worker in 0..WORKERS {
        let finished = finished(&coordinator, 1);
        say(&mut coordinator, worker, finished);
    }
    assert!(coordinator.is_idle());
    assert_eq!(coordinator.position().0, Epoch(1));
}

#[test]
fn it_is_drained_when_it_was_told_to_and_nothing_is_under_way() {
    for (name, mut coordinator, _) in phases() {
        assert!(!coordinator.is_drained(), "{name}: nobody has told it to");
        coordinator.step(Input::Drain, &mut Vec::new());
        assert_eq!(coordinator.is_drained(), name == "idle", "{name}");
    }
    let mut waited_for = coordinator();
    waited_for.step(Input::Drain, &mut Vec::new());
    say(&mut waited_for, 0, Message::WorkAvailable);
    assert!(!waited_for.is_drained());
}

#[test]
fn a_share_of_more_than_its_worker_may_add_is_a_fault() {
    let (name, mut coordinator, _) = phases().swap_remove(1);
    let Message::Share { requests, .. } = share(1) else { unreachable!() };
    let most = RecordBudget::new(1 << 20).room(2, 0) / requests[0].weight();
    is_fault(
        name,
        &mut coordinator,
        0,
        Message::Share { round: Round(1), requests: vec![requests[0].clone(); most], carried: vec![] },
    );
}

#[test]
fn what_is_too_much_for_one_record_waits_for_the_next_and_what_is_for_any_is_refused() {
    let remove = |bytes: usize| Control::Remove("x".repeat(bytes));
    let most = RecordBudget::new(1 << 20).control_max();
    let (mut coordinator, mut actions) = (coordinator(), Vec::new());
    coordinator.step(Input::Control { control: remove(most), waiter: 0 }, &mut actions);
    let refused =
        matches!(&actions[..], [Action::Controlled { result: Err(abort), .. }] if abort.code == Code::TooLarge);
    assert!(refused, "{actions:?}");
    coordinator.controls.extend([most - 1000, most - 1000, most / 2].map(|bytes| (remove(bytes), 0)));
    coordinator.step(Input::Tick { now: Timestamp(5) }, &mut actions);
    let begun = actions.iter().find_map(|action| match action {
        Action::Send { message: Message::Begin(begin), .. } => Some(begin.controls.len()),
        _ => None,
    });
    assert_eq!((begun, coordinator.controls.len()), (Some(2), 1));
}
