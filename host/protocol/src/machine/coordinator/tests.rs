use styx_transcript::{did, scenario, told};

use super::*;
use crate::cluster::worker_set::WorkerSet;
use crate::commit::validate::{Bits, Kind};
use crate::execute::task::GraphId;
use crate::ids::{EngineHash, Generation};
use crate::quarantine::{Quarantined, Subject};
use crate::sequence::transaction::Request;
use crate::state::StateHash;
use crate::state::entity::Layout;
use crate::wire::mail::Mail;
use crate::wire::message::{Counts, Finished, GraphEnd, QueryEnd};

const WORKERS: u16 = 2;

fn coordinator() -> Coordinator<u64> {
    let layout = Layout::new(1, 4);
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
    let input = Input::Message { from: WorkerId(from), message };
    told(&input);
    coordinator.step(input, &mut actions);
    actions.iter().for_each(did);
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
    Message::Executed { round: Round(round), ends: vec![end], queries: vec![] }
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
        Message::Settle { round: Round(1), logged: true, ends: vec![], queries: vec![] },
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
    let _transcript = scenario!("coordinator");
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
    let _transcript = scenario!("coordinator");
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
    let _transcript = scenario!("coordinator");
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
    let _transcript = scenario!("coordinator");
    for workers in [WorkerSet::only(WorkerId(1)), WorkerSet::default(), WorkerSet::only(WorkerId(9))] {
        let Message::Executed { round, mut ends, queries } = executed(1) else { unreachable!() };
        ends[0].workers = workers;
        let (name, mut coordinator, _) = phases().swap_remove(1);
        is_fault(name, &mut coordinator, 0, Message::Executed { round, ends, queries });
    }
}

/// A query of two workers, the first of which is its root.
fn query_end(root: u16, place: usize, other: u16) -> QueryEnd {
    let mut workers = WorkerSet::only(WorkerId(root));
    workers.merge(&WorkerSet::only(WorkerId(other)));
    QueryEnd { graph: GraphId::of_query(WorkerId(root), place), number: 2, workers }
}

#[test]
fn queries_of_others_or_of_workers_that_there_are_not_are_a_fault() {
    let _transcript = scenario!("coordinator");
    let transaction = QueryEnd { graph: GraphId(7), ..query_end(0, 0, 1) };
    for end in [query_end(1, 0, 0), query_end(0, 0, 9), transaction] {
        let (name, mut coordinator, _) = phases().swap_remove(1);
        let queries = vec![query_end(0, 1, 1), end];
        is_fault(name, &mut coordinator, 0, Message::Executed { round: Round(1), ends: vec![], queries });
    }
}

#[test]
fn a_round_ends_whatever_workers_count() {
    let _transcript = scenario!("coordinator");
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
    let _transcript = scenario!("coordinator");
    for (name, mut coordinator, _) in phases() {
        assert!(!coordinator.is_drained(), "{name}: nobody has told it to");
        coordinator.step(Input::Drain, &mut Vec::new());
        assert!(!coordinator.is_drained(), "{name}: nobody has heard of it");
    }
    let mut waited_for = coordinator();
    waited_for.step(Input::Drain, &mut Vec::new());
    for (more, is_drained) in [(true, false), (false, true)] {
        waited_for.step(Input::Tick { now: Timestamp(1) }, &mut Vec::new());
        let round = waited_for.round.0;
        for worker in 0..WORKERS {
            let nothing = Message::Share { round: Round(round), requests: Vec::new(), carried: Vec::new() };
            say(&mut waited_for, worker, nothing);
        }
        for worker in 0..WORKERS {
            say(&mut waited_for, worker, Message::Executed { round: Round(round), ends: Vec::new(), queries: vec![] });
        }
        for worker in 0..WORKERS {
            assert!(!waited_for.is_drained(), "a round is under way");
            let Message::Finished(end) = finished(&waited_for, round) else { unreachable!() };
            say(&mut waited_for, worker, Message::Finished(Finished { more: more && worker == 0, ..end }));
        }
        assert!(waited_for.is_idle());
        assert_eq!(waited_for.is_drained(), is_drained, "{more}: as the workers say");
    }
    say(&mut waited_for, 0, Message::WorkAvailable);
    assert!(!waited_for.is_drained(), "a worker has found more");
}

#[test]
fn a_share_of_more_than_its_worker_may_add_is_a_fault() {
    let _transcript = scenario!("coordinator");
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
    let _transcript = scenario!("coordinator");
    let remove = |bytes: usize| Control::Remove("x".repeat(bytes));
    let most = RecordBudget::new(1 << 20).control_max();
    let (mut coordinator, mut actions) = (coordinator(), Vec::new());
    coordinator.step(Input::Control { control: remove(most), waiter: Some(0) }, &mut actions);
    let refused =
        matches!(&actions[..], [Action::Controlled { result: Err(abort), .. }] if abort.code == Code::TooLarge);
    assert!(refused, "{actions:?}");
    coordinator.controls.extend([most - 1000, most - 1000, most / 2].map(|bytes| (remove(bytes), Some(0))));
    coordinator.step(Input::Tick { now: Timestamp(5) }, &mut actions);
    let begun = actions.iter().find_map(|action| match action {
        Action::Send { message: Message::Begin(begin), .. } => Some(begin.controls.len()),
        _ => None,
    });
    assert_eq!((begun, coordinator.controls.len()), (Some(2), 1));
}

#[test]
fn what_is_to_be_set_aside_is_so_before_anything_else() {
    let _transcript = scenario!("coordinator");
    let (mut coordinator, mut actions) = (coordinator(), Vec::new());
    let subject = Subject::Request(crate::ids::RequestId(7));
    let quarantined = Quarantined { subject, app: None, function: None, reason: "boom".into(), since: Timestamp(1) };
    coordinator.controls.push_back((Control::Remove("shop".into()), None));
    coordinator.step(Input::Control { control: Control::Quarantine(quarantined), waiter: None }, &mut actions);
    coordinator.step(Input::Tick { now: Timestamp(5) }, &mut actions);
    let begun = actions.iter().find_map(|action| match action {
        Action::Send { message: Message::Begin(begin), .. } => Some(&begin.controls[..]),
        _ => None,
    });
    assert!(matches!(begun, Some([Control::Quarantine(_), Control::Remove(_)])), "{begun:?}");
}

/// What is refused, and why.
fn is_refused(coordinator: &mut Coordinator<u64>, from: u16, message: Message, why: &str) {
    let before = format!("{coordinator:?}");
    let actions = say(coordinator, from, message.clone());
    assert!(matches!(&actions[..], [Action::Fault(fault)] if fault.why == why), "{why}: {message:?}: {actions:?}");
    assert_eq!(before, format!("{coordinator:?}"), "{message:?}");
}

#[test]
fn transactions_that_no_epoch_has_left_over_are_not_taken() {
    let _transcript = scenario!("coordinator");
    for carried in [vec![Tid(4)], vec![Tid(6), Tid(5)]] {
        let (_, mut coordinator, _) = phases().swap_remove(1);
        coordinator.carried = vec![Tid(5), Tid(6)];
        let share = |carried| Message::Share { round: Round(1), requests: vec![], carried };
        say(&mut coordinator, 0, share(carried.clone()));
        let actions = say(&mut coordinator, 1, share(vec![Tid(5)]));
        let refused = matches!(&actions[..], [Action::Fault(fault)] if fault.why == why::NOT_CARRIED);
        assert!(refused, "{carried:?}: {actions:?}");
        assert_eq!(coordinator.carried, [Tid(5), Tid(6)]);
    }
    let (_, mut coordinator, _) = phases().swap_remove(1);
    coordinator.carried = vec![Tid(5), Tid(6), Tid(7)];
    say(&mut coordinator, 0, Message::Share { round: Round(1), requests: vec![], carried: vec![Tid(7)] });
    let actions = say(&mut coordinator, 1, Message::Share { round: Round(1), requests: vec![], carried: vec![Tid(5)] });
    assert!(!actions.iter().any(|action| matches!(action, Action::Fault(_))), "{actions:?}");
    assert_eq!(coordinator.carried, [Tid(6)]);
}

#[test]
fn dependencies_of_others_than_were_asked_about_are_refused() {
    let _transcript = scenario!("coordinator");
    let (_, mut coordinator, _) = phases().swap_remove(3);
    let bits = |tid, bits| Message::Bits { round: Round(1), bits: vec![(Tid(tid), bits)] };
    is_refused(&mut coordinator, 0, bits(2, Bits::default()), why::NO_BITS);
    let mut all = [0, 1].map(|from| say(&mut coordinator, from, bits(1, Bits::default())));
    assert!(all[0].is_empty(), "two are asked");
    let decided = all[1].drain(..).filter(|action| match action {
        Action::Send { message: Message::Decide { bits, .. }, .. } => bits.is_empty(),
        _ => false,
    });
    assert_eq!(decided.count(), usize::from(WORKERS), "what depends on nothing is not told");
}

/// Whoever took part in none of them is told that there are any: it decides with the others.
#[test]
fn ends_and_dependencies_of_graphs_are_told_to_who_took_part_in_them() {
    let (layout, workers) = (Layout::new(1, 8), [0, 1, 2, 3]);
    let config = Config { layout, ..coordinator().config };
    let mut coordinator = Coordinator::new(config, Arc::new(Placement::round_robin(layout.partitions, 4)));
    let end = |tid, [root, other]: [u16; 2]| {
        let mut workers = WorkerSet::only(WorkerId(root));
        workers.merge(&WorkerSet::only(WorkerId(other)));
        let (number, kind, snapshot, long, cacheable) = (1, Kind::Wrote, false, false, true);
        GraphEnd { tid: Tid(tid), number, kind, snapshot, long, cacheable, workers }
    };
    let ends_of = |worker| match worker {
        0 => vec![end(1, [0, 1])],
        1 => vec![end(2, [1, 2]), end(6, [1, 0])],
        _ => vec![],
    };
    // In the order in which they have ended, which is any.
    let queries_of = |worker| match worker {
        1 => vec![query_end(1, 4, 3), query_end(1, 2, 3), query_end(1, 3, 2)],
        3 => vec![query_end(3, 0, 2)],
        _ => vec![],
    };
    say(&mut coordinator, 0, Message::WorkAvailable);
    coordinator.step(Input::Tick { now: Timestamp(5) }, &mut Vec::new());
    let mut told = Vec::new();
    for worker in workers {
        let message = if worker == 0 {
            share(1)
        } else {
            Message::Share { round: Round(1), requests: Vec::new(), carried: Vec::new() }
        };
        say(&mut coordinator, worker, message);
        told.extend(say(
            &mut coordinator,
            worker,
            Message::Executed { round: Round(1), ends: ends_of(worker), queries: queries_of(worker) },
        ));
    }
    let shows = told.iter().filter_map(|action| match action {
        Action::Send { to, message: Message::Settle { queries, .. } } => Some((to.0, queries.clone())),
        _ => None,
    });
    let [second, third] = [(1, 3), (3, 0)].map(|(root, place)| (query_end(root, place, 2).graph, 2));
    let [first, last] = [2, 4].map(|place| (query_end(1, place, 3).graph, 2));
    let expected = [(0, vec![]), (1, vec![]), (2, vec![second, third]), (3, vec![first, last])];
    assert_eq!(shows.collect::<Vec<_>>(), expected, "the root knows its own");
    let settled = told.drain(..).filter_map(|action| match action {
        Action::Send { to, message: Message::Settle { ends, .. } } => {
            Some((to.0, ends.iter().map(|end| end.tid.0).collect::<Vec<_>>()))
        }
        _ => None,
    });
    let expected = [(0, vec![1, 6]), (1, vec![1, 2, 6]), (2, vec![2]), (3, vec![1])];
    assert_eq!(settled.collect::<Vec<_>>(), expected);

    let seen = |tid| (Tid(tid), Bits { waw: true, ..Bits::default() });
    is_refused(&mut coordinator, 2, Message::Bits { round: Round(1), bits: vec![seen(1)] }, why::NO_BITS);
    for (worker, bits) in [(0, vec![seen(1), seen(6)]), (1, vec![]), (2, vec![seen(2)]), (3, vec![])] {
        told = say(&mut coordinator, worker, Message::Bits { round: Round(1), bits });
    }
    let decided = told.into_iter().filter_map(|action| match action {
        Action::Send { to, message: Message::Decide { bits, .. } } => {
            Some((to.0, bits.iter().map(|(tid, _)| tid.0).collect::<Vec<_>>()))
        }
        _ => None,
    });
    let expected = [(0, vec![1, 6]), (1, vec![1, 2, 6]), (2, vec![2]), (3, vec![])];
    assert_eq!(decided.collect::<Vec<_>>(), expected);
}

#[test]
fn a_worker_says_what_is_its_own_and_only_until_it_has_finished() {
    let _transcript = scenario!("coordinator");
    let entity_of = |coordinator: &Coordinator<u64>, owner: u16| {
        let layout = Layout::new(1, 4);
        let entities = (0..100).map(|number: u32| {
            let key = number.to_string().as_str().into();
            crate::state::entity::Entity::new(&layout, crate::ids::OperatorId(0), false, key)
        });
        let mut owned = entities.filter(|entity| coordinator.placement().owner(entity.partition()) == WorkerId(owner));
        owned.next().unwrap()
    };
    let (_, mut coordinator, _) = phases().swap_remove(4);
    let changes = |entity| {
        let mut changes = EpochChanges::default();
        changes.writes.push(&entity, Some(b"1"));
        Message::Changes { round: Round(1), changes }
    };
    let (own, other) = (entity_of(&coordinator, 0), entity_of(&coordinator, 1));
    is_refused(&mut coordinator, 0, changes(other), why::NO_WRITES);
    assert!(say(&mut coordinator, 0, changes(own.clone())).is_empty());
    let end = finished(&coordinator, 1);
    say(&mut coordinator, 0, end);
    is_refused(&mut coordinator, 0, changes(own), why::TWICE);
}

/// As who takes it into a record, or skips one of it by its TID, looks for it.
#[test]
fn what_is_carried_is_in_the_order_of_tids_whoever_says_so_first() {
    let (_, mut coordinator, _) = phases().swap_remove(4);
    let Message::Finished(end) = finished(&coordinator, 1) else { unreachable!() };
    for (worker, tids) in [(1, [2, 7]), (0, [1, 5])] {
        let carried = tids.map(Tid).to_vec();
        say(&mut coordinator, worker, Message::Finished(Finished { carried, ..end.clone() }));
    }
    assert_eq!(coordinator.carried(), [1, 2, 5, 7].map(Tid));
}

#[test]
fn only_what_waits_for_an_epoch_is_set_aside_by_its_tid() {
    let (_, mut coordinator, _) = phases().swap_remove(4);
    let Message::Finished(end) = finished(&coordinator, 1) else { unreachable!() };
    for worker in 0..WORKERS {
        let carried = vec![Tid(10 + u64::from(worker))];
        say(&mut coordinator, worker, Message::Finished(Finished { carried, ..end.clone() }));
    }
    for (tid, waits) in [(10, true), (11, true), (1, false)] {
        let quarantined = Quarantined {
            subject: Subject::Transaction(Tid(tid)),
            app: None,
            function: None,
            reason: "it ended two processes".into(),
            since: Timestamp(1),
        };
        let mut actions = Vec::new();
        coordinator.step(Input::Control { control: Control::Quarantine(quarantined), waiter: Some(tid) }, &mut actions);
        let refused = |action: &Action<u64>| match action {
            Action::Controlled { waiter, result: Err(abort) } => *waiter == tid && abort.code == Code::BadArguments,
            _ => false,
        };
        assert_eq!(!actions.iter().any(refused), waits, "{tid}: {actions:?}");
    }
}

#[test]
fn who_knows_of_other_deployments_is_expelled() {
    let _transcript = scenario!("coordinator");
    let (_, mut coordinator, _) = phases().swap_remove(4);
    let Message::Finished(end) = finished(&coordinator, 1) else { unreachable!() };
    let expected = end.deployment;
    let actions = say(&mut coordinator, 1, Message::Finished(Finished { deployment: expected + 1, ..end.clone() }));
    let expelled = |action: &Action<u64>| match action {
        Action::Expel { worker, expected: known, found } => {
            (*worker, *known, *found) == (WorkerId(1), expected, expected + 1)
        }
        _ => false,
    };
    assert!(actions.iter().any(expelled), "{actions:?}");
    let actions = say(&mut coordinator, 0, Message::Finished(end));
    assert!(!actions.iter().any(|action| matches!(action, Action::Expel { .. })), "{actions:?}");
}

#[test]
fn the_log_is_told_once_who_has_what_though_nothing_happens_if_that_is_wanted() {
    let _transcript = scenario!("coordinator");
    let mut coordinator = coordinator();
    assert!(!coordinator.has_work());
    coordinator.step(Input::LogPlacement, &mut Vec::new());
    for (round, logs) in [(1, true), (2, false)] {
        coordinator.step(Input::Tick { now: Timestamp(1) }, &mut Vec::new());
        let mut said = Vec::new();
        let share = Message::Share { round: Round(round), requests: Vec::new(), carried: Vec::new() };
        let executed = Message::Executed { round: Round(round), ends: Vec::new(), queries: vec![] };
        for message in [share, executed, finished(&coordinator, round)] {
            for worker in 0..WORKERS {
                said.extend(say(&mut coordinator, worker, message.clone()));
            }
        }
        let records = said.iter().filter_map(|action| match action {
            Action::Append(record) => Some(&record.controls[..]),
            _ => None,
        });
        let records: Vec<_> = records.collect();
        let expected = [Control::Place((**coordinator.placement()).clone())];
        assert_eq!(records, if logs { vec![&expected[..]] } else { Vec::new() });
        assert_eq!(coordinator.position().0, Epoch(1));
        coordinator.step(Input::LogPlacement, &mut Vec::new());
        assert!(!coordinator.has_work(), "it knows");
        say(&mut coordinator, 0, Message::WorkAvailable);
    }
}

#[test]
fn a_migration_that_cannot_be_is_refused_and_changes_nothing() {
    let _transcript = scenario!("coordinator");
    let owners = |all: [u16; 4]| all.map(WorkerId).to_vec();
    let migrate = |coordinator: &mut Coordinator<u64>, owners| {
        let mut actions = Vec::new();
        coordinator.step(Input::Migrate { owners, mode: MovingMode::Online, waiter: Some(9) }, &mut actions);
        actions
    };
    let refused = |actions: &[Action<u64>]| match actions {
        [Action::Controlled { waiter: 9, result: Err(abort) }] => abort.code == Code::BadArguments,
        _ => false,
    };
    let mut idle = coordinator();
    for wrong in [owners([0, 1, 0, 1]), owners([0, 1, 0, 2]), owners([0, 0, 0, 0])[1..].to_vec()] {
        let actions = migrate(&mut idle, wrong.clone());
        assert!(refused(&actions) && !idle.is_migrating(), "{wrong:?}: {actions:?}");
    }
    let begun = migrate(&mut idle, owners([0, 0, 0, 1]));
    let told = begun.iter().map(|action| match action {
        Action::Send { to, message: Message::Migrate { moves, .. } } => (*to, moves.clone()),
        _ => panic!("{action:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), [(WorkerId(1), vec![(crate::ids::PartitionId(1), WorkerId(0))])]);
    assert!(refused(&migrate(&mut idle, owners([1, 1, 1, 1]))), "one after the other");
    // Who has nothing to copy has copied nothing, and who has copies once.
    // Given up and begun again: what is still said of the first is nobody's fault, and does not count for the second.
    let first = idle.placement().version().next();
    idle.step(Input::CancelMigration, &mut Vec::new());
    migrate(&mut idle, owners([0, 0, 0, 1]));
    assert!(say(&mut idle, 1, Message::Copied(first)).is_empty() && !idle.has_work());
    let version = first.next();
    is_refused(&mut idle, 0, Message::Copied(version), why::NOT_ASKED);
    assert!(!idle.is_copied() && say(&mut idle, 1, Message::Copied(version)).is_empty());
    is_refused(&mut idle, 1, Message::Copied(version), why::NOT_ASKED);
    // One that was given up before is nobody's fault.
    assert!(say(&mut idle, 0, Message::Copied(version.next())).is_empty());
    // Without snapshots nothing else is waited for: the next epoch begins with it, and holds nothing but it.
    assert!(idle.has_work() && !idle.is_copied());
    let mut actions = Vec::new();
    idle.step(Input::Control { control: Control::Remove("app".into()), waiter: Some(3) }, &mut Vec::new());
    idle.step(Input::Tick { now: Timestamp(1) }, &mut actions);
    let controls = actions.iter().find_map(|action| match action {
        Action::Send { message: Message::Begin(begin), .. } => Some(begin.controls.clone()),
        _ => None,
    });
    assert!(matches!(&controls.unwrap()[..], [Control::Place(next)] if next.version() == version));
    assert_eq!(idle.placement().owners(), owners([0, 0, 0, 1]));
    // It has happened: nobody can cancel it.
    let mut actions = Vec::new();
    idle.step(Input::CancelMigration, &mut actions);
    assert!(actions.is_empty() && idle.is_migrating());
    idle.step(Input::Durable(Epoch(1)), &mut actions);
    assert!(!idle.is_migrating());
    let mut draining = coordinator();
    draining.step(Input::Drain, &mut Vec::new());
    assert!(refused(&migrate(&mut draining, owners([1, 1, 1, 1]))));
}

/// Whoever waits for it is told when the last new owner has all, and the log says so.
#[test]
fn a_migration_in_mode_immediate_ends_when_it_is_durable_and_everything_has_arrived() {
    for arrives_first in [false, true] {
        let mut coordinator = coordinator();
        let version = coordinator.placement().version().next();
        let owners = [0, 0, 0, 1].map(WorkerId).to_vec();
        coordinator.step(Input::Migrate { owners, mode: MovingMode::Immediate, waiter: Some(9) }, &mut Vec::new());
        say(&mut coordinator, 1, Message::Copied(version));
        is_refused(&mut coordinator, 0, Message::Complete(version), why::NOT_ASKED);
        coordinator.step(Input::Tick { now: Timestamp(1) }, &mut Vec::new());
        assert_eq!(coordinator.migration_stage(), Some(MigrationStage::Arriving));
        is_refused(&mut coordinator, 0, Message::Complete(version.next()), why::NOT_ASKED);
        let mut told = Vec::new();
        for arrives in [arrives_first, !arrives_first] {
            assert!(told.is_empty() && coordinator.is_migrating());
            if arrives {
                told.extend(say(&mut coordinator, 0, Message::Complete(version)));
            } else {
                coordinator.step(Input::Durable(Epoch(1)), &mut told);
            }
            told.retain(|action| matches!(action, Action::Controlled { .. }));
        }
        assert!(matches!(&told[..], [Action::Controlled { waiter: 9, result: Ok(()) }]), "{told:?}");
        assert!(!coordinator.is_migrating());
    }
}

#[test]
fn a_migration_that_is_cancelled_leaves_everything_where_it_was() {
    let _transcript = scenario!("coordinator");
    let mut coordinator = coordinator();
    let owners = vec![WorkerId(1); 4];
    coordinator.step(Input::Migrate { owners, mode: MovingMode::Online, waiter: Some(9) }, &mut Vec::new());
    let mut actions = Vec::new();
    coordinator.step(Input::CancelMigration, &mut actions);
    let cancelled =
        actions.iter().filter(|action| matches!(action, Action::Send { message: Message::CancelMigration(_), .. }));
    assert_eq!(cancelled.count(), usize::from(WORKERS));
    let answered = |action: &Action<u64>| match action {
        Action::Controlled { waiter: 9, result: Err(abort) } => abort.code == Code::Aborted,
        _ => false,
    };
    assert!(actions.iter().any(answered), "{actions:?}");
    assert!(!coordinator.is_migrating() && !coordinator.has_work());
    assert_eq!(coordinator.placement().owners(), [0, 1, 0, 1].map(WorkerId));
}

#[test]
fn what_waits_for_a_coordinator_that_is_over_is_given_up() {
    let _transcript = scenario!("coordinator");
    let mut coordinator = coordinator();
    coordinator.step(
        Input::Migrate { owners: vec![WorkerId(1); 4], mode: MovingMode::Online, waiter: Some(9) },
        &mut Vec::new(),
    );
    coordinator.controls.push_back((Control::Remove("app".into()), Some(3)));
    assert_eq!(coordinator.abandon(), [3, 9]);
    assert!(coordinator.abandon().is_empty());
}
