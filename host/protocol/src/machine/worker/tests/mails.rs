//! What another worker says of call graphs and cannot be true: each mail is refused for its own reason, and changes nothing.

use super::*;
use crate::cluster::worker_set::WorkerSet;
use crate::commit::share::Share;
use crate::commit::validate::{Bits, Kind};
use crate::execute::attempt::{
    Mode, Operation, Path, RemoteRequest, RemoteRequests, RemoteResponse, Report, Scan, Stamp, Target, Usage,
};
use crate::execute::task::{GraphId, Progress, RunId, SuspendedId};
use crate::ids::{PartitionId, PlacementVersion, Tid};
use crate::sequence::deployment::{
    Component, Consistency, Deployment, Digest, Function, Isolation, Limits, OperatorSpec,
};
use crate::state::entity::Entity;
use crate::state::range::KeyRange;
use crate::wire::long::{LongAnswer, LongMail};
use crate::wire::mail::{
    Ack, CachedResult, Decision, Ending, Header, Join, JoinWrite, Joined, Order, OrderReply, Question,
};
use crate::wire::message::GraphEnd;
use crate::wire::moving::MovingMode;

const LAYOUT: Layout = Layout::new(1, 4);
const PEER: WorkerId = WorkerId(1);

fn deployment() -> Deployment {
    let function = Function {
        name: "f".into(),
        parameters: vec![],
        returns: "{}".into(),
        read_only: false,
        consistency: Consistency::Serializable,
        doc: String::new(),
    };
    Deployment {
        id: "dp_1".into(),
        app: "app".into(),
        created: Timestamp(0),
        components: vec![Component { name: "c".into(), digest: Digest([1; 32]), size: 0, sdk: "none".into() }],
        operators: vec![OperatorSpec {
            name: "o".into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::Warm,
            doc: String::new(),
            state: Default::default(),
            functions: vec![function],
        }],
        limits: Limits::default(),
        interface: Default::default(),
    }
}

/// The first of two workers in its first round, with something deployed and a transaction of its own.
fn in_a_round() -> Worker<u64> {
    begun().0
}

/// The same, and its transaction.
fn begun() -> (Worker<u64>, Tid) {
    let (worker, batch) = executing();
    (worker, batch.transactions[0].tid)
}

/// The same, and what it executes.
fn executing() -> (Worker<u64>, Batch) {
    let mut worker = worker();
    submit(&mut worker, 1);
    let Message::Begin(first) = begin(1) else { unreachable!() };
    let first = Begin { controls: vec![Control::Deploy(deployment())], ..first };
    let actions = say(&mut worker, Node::Coordinator, Message::Begin(first));
    let batch = actions.into_iter().find_map(|action| match action {
        Action::Execute(batch) => Some(batch),
        _ => None,
    });
    (worker, batch.expect("it is executed"))
}

fn operator(worker: &Worker<u64>) -> OperatorId {
    worker.ground.catalog().find("app", "o").unwrap().id
}

/// An entity of a worker.
fn entity_of(worker: &Worker<u64>, owner: WorkerId) -> Entity {
    entity_of_operator(operator(worker), worker, owner)
}

fn entity_of_operator(operator: OperatorId, worker: &Worker<u64>, owner: WorkerId) -> Entity {
    let entities = (0..100).map(|number| Entity::new(&LAYOUT, operator, false, number.to_string().as_str().into()));
    let placement = worker.view().placement.clone();
    entities.into_iter().find(|entity| placement.owner(entity.partition()) == owner).unwrap()
}

fn header(tid: u64) -> Header {
    Header {
        graph: GraphId(tid),
        number: 1,
        mode: Mode::Parallel,
        root: PEER,
        tid: Tid(tid),
        time: Timestamp(9),
        request: RequestId(77),
        operator: OperatorId(0),
        query: false,
    }
}

fn stamp() -> Stamp {
    Stamp::from_parts(&[], 0)
}

fn order(operation: Operation) -> Order {
    let is_call = matches!(operation, Operation::Call(_));
    Order {
        header: header(1002),
        asked: RemoteRequest { operation, stamp: stamp(), used: Usage::default() },
        question: Some(Question { fragment: 0, index: 0 }),
        share: is_call.then_some(Share(1)),
        report: Report::of(PEER),
    }
}

fn target(worker: &Worker<u64>) -> Target {
    Target {
        entity: entity_of(worker, WorkerId(0)),
        function: 0,
        args: b"[]"[..].into(),
        read_only: false,
        depth: 1,
        place: 1,
        path: Some(Path::ROOT),
    }
}

fn scan(operator: OperatorId, partition: Option<u16>) -> Operation {
    let range = KeyRange { lower: std::ops::Bound::Unbounded, upper: std::ops::Bound::Unbounded };
    Operation::Scan(Scan { operator, range, partition: partition.map(PartitionId), limit: 1, reverse: false })
}

fn reply(graph: u64, number: u32) -> OrderReply {
    OrderReply {
        graph: GraphId(graph),
        number,
        question: Question { fragment: 0, index: 0 },
        answer: RemoteResponse::Noted,
        share: None,
        used: Usage::default(),
        report: Report::of(PEER),
    }
}

fn ack(graph: u64, number: u32) -> Ack {
    Ack { graph: GraphId(graph), number, share: Some(Share(1)), report: Report::of(PEER) }
}

/// Of a graph of both workers.
fn end(tid: u64, kind: Kind) -> GraphEnd {
    let mut workers = WorkerSet::only(WorkerId(0));
    workers.merge(&WorkerSet::only(PEER));
    GraphEnd { tid: Tid(tid), number: 1, kind, snapshot: false, long: false, cacheable: true, workers }
}

fn join(header: Header, writes: Vec<JoinWrite>) -> Join {
    Join { header, run: RunId(1), writes, last: true }
}

fn first_round() -> Mail {
    Mail { round: Round(1), ..Mail::default() }
}

fn tell(worker: &mut Worker<u64>, mail: Mail) -> Vec<Action<u64>> {
    say(worker, Node::Worker(PEER), Message::Graphs(mail))
}

fn is_taken(worker: &mut Worker<u64>, mail: Mail) {
    let actions = tell(worker, mail.clone());
    assert!(!actions.iter().any(|action| matches!(action, Action::Fault(_))), "{mail:?}: {actions:?}");
}

fn is_refused(worker: &mut Worker<u64>, mail: Mail, why: &str) {
    let before = format!("{worker:?}");
    let actions = tell(worker, mail.clone());
    let refused = matches!(&actions[..], [Action::Fault(fault)] if fault.why == why);
    assert!(refused, "{why}: {mail:?}: {actions:?}");
    assert_eq!(before, format!("{worker:?}"), "{why}: {mail:?}");
}

fn orders(orders: Vec<Order>) -> Mail {
    Mail { orders, ..first_round() }
}

#[test]
fn an_order_that_cannot_be_is_refused() {
    let _transcript = scenario!("worker");
    let (mut worker, tid) = begun();
    let (here, there) = (entity_of(&worker, WorkerId(0)), entity_of(&worker, PEER));
    let get = || order(Operation::Get(here.clone()));
    let with = |header: Header| Order { header, ..get() };
    let call = |target| order(Operation::Call(target));
    let (fine, operator) = (target(&worker), operator(&worker));
    let other = OperatorId(operator.0 + 100);
    let cases = [
        (with(Header { root: WorkerId(2), ..header(1002) }), why::OTHER_WORKERS),
        (Order { report: Report::of(WorkerId(2)), ..get() }, why::OTHER_WORKERS),
        (with(Header { tid: Tid(1004), ..header(1002) }), why::ANOTHER_GRAPH),
        (with(Header { query: true, ..header(1002) }), why::ANOTHER_GRAPH),
        (with(Header { graph: GraphId::of_query(PEER, 3), ..header(1002) }), why::ANOTHER_GRAPH),
        (with(Header { graph: GraphId::of_query(WorkerId(0), 3), query: true, ..header(1002) }), why::ANOTHER_GRAPH),
        (Order { question: None, ..get() }, why::NOBODY_WAITS),
        (Order { share: Some(Share(1)), ..get() }, why::SHARES),
        (Order { share: None, ..call(fine.clone()) }, why::SHARES),
        (Order { share: Some(Share(u32::MAX)), ..call(fine.clone()) }, why::SHARES),
        (Order { header: Header { mode: Mode::STRICT, ..header(1002) }, ..call(fine.clone()) }, why::SHARES),
        (with(Header { mode: Mode::Cached, ..header(1002) }), why::SHARES),
        (order(Operation::Get(there.clone())), why::NO_TARGET),
        (order(Operation::Put(there.clone(), None)), why::NO_TARGET),
        (order(scan(other, None)), why::NO_TARGET),
        (order(scan(operator, Some(4))), why::NO_TARGET),
        (call(Target { entity: there, ..fine.clone() }), why::NO_TARGET),
        (call(Target { function: 3, ..fine.clone() }), why::NO_TARGET),
        (call(Target { path: None, ..fine.clone() }), why::NO_TARGET),
        (call(Target { depth: u32::MAX, ..fine.clone() }), why::NO_TARGET),
        (with(Header { root: WorkerId(0), ..header(1002) }), why::ROOTED_HERE),
        (with(Header { graph: GraphId(tid.0), tid, ..header(1002) }), why::ROOTED_HERE),
    ];
    for (order, why) in cases {
        is_refused(&mut worker, orders(vec![order]), why);
    }
    is_taken(&mut worker, orders(vec![get()]));
    is_taken(&mut worker, orders(vec![order(scan(operator, Some(3)))]));
    let query = Header { graph: GraphId::of_query(PEER, 3), query: true, ..header(1002) };
    is_taken(&mut worker, orders(vec![with(query)]));
    // What is known of a graph is not contradicted.
    let cases = [
        (with(Header { time: Timestamp(10), ..header(1002) }), why::ANOTHER_GRAPH),
        (with(Header { operator: OperatorId(1), ..header(1002) }), why::ANOTHER_GRAPH),
        (with(Header { number: 0, ..header(1002) }), why::ANOTHER_ATTEMPT),
        (with(Header { mode: Mode::STRICT, ..header(1002) }), why::ANOTHER_ATTEMPT),
    ];
    for (order, why) in cases {
        is_refused(&mut worker, orders(vec![order]), why);
    }
    let whole = |target| Order { share: Some(Share::WHOLE), ..call(target) };
    let mut worker = in_a_round();
    is_taken(&mut worker, orders(vec![whole(fine.clone())]));
    is_refused(&mut worker, orders(vec![whole(fine)]), why::SHARES);
}

#[test]
fn an_answer_that_nobody_has_asked_for_is_refused() {
    let _transcript = scenario!("worker");
    let mut worker = in_a_round();
    let replies = |reply| Mail { replies: vec![reply], ..first_round() };
    let acks = |ack| Mail { acks: vec![ack], ..first_round() };
    let decisions = |graph| Mail {
        decisions: vec![Decision { graph: GraphId(graph), number: 1, ending: Ending::Commits }],
        ..first_round()
    };
    let joined = Mail { joined: vec![Joined { run: RunId(1), current: true }], ..first_round() };
    is_refused(&mut worker, replies(reply(1002, 1)), why::UNKNOWN_GRAPH);
    is_refused(&mut worker, acks(ack(1002, 1)), why::UNKNOWN_GRAPH);
    is_refused(&mut worker, decisions(1002), why::UNKNOWN_GRAPH);
    let fine = target(&worker);
    is_taken(&mut worker, orders(vec![order(Operation::Call(fine))]));
    is_refused(
        &mut worker,
        replies(OrderReply { report: Report::of(WorkerId(2)), ..reply(1002, 1) }),
        why::OTHER_WORKERS,
    );
    is_refused(&mut worker, replies(reply(1002, 2)), why::ANOTHER_ATTEMPT);
    is_refused(&mut worker, replies(reply(1002, 1)), why::NOT_ASKED);
    let question = Question { fragment: 7, index: 0 };
    is_refused(&mut worker, replies(OrderReply { question, ..reply(1002, 1) }), why::NOT_ASKED);
    is_refused(&mut worker, acks(Ack { report: Report::of(WorkerId(2)), ..ack(1002, 1) }), why::OTHER_WORKERS);
    is_refused(&mut worker, acks(ack(1002, 2)), why::ANOTHER_ATTEMPT);
    is_refused(&mut worker, acks(ack(1002, 1)), why::NOT_ROOTED);
    is_refused(&mut worker, decisions(1002), why::ANOTHER_PHASE);
    is_refused(&mut worker, joined.clone(), why::NOT_ASKED);
    let mut settled = settled();
    is_refused(&mut settled, joined.clone(), why::ANOTHER_PHASE);
    let mut between = worker_with(false);
    let before_the_first = Mail { round: Round(0), fallback: true, ..joined };
    is_refused(&mut between, before_the_first, why::NO_ROUND);
}

/// A worker whose own transaction waits for a call on another one.
fn calling() -> (Worker<u64>, GraphId) {
    let (mut worker, batch) = executing();
    let transaction = batch.transactions[0].clone();
    let attempt = worker.view().attempt(&transaction, &batch.state, &batch.catalog, Mode::Parallel);
    let call = Target { entity: entity_of(&worker, PEER), ..target(&worker) };
    let asked = RemoteRequests { operations: vec![(PEER, call.asked())] };
    let waits = Started::Distributed(Box::new(attempt), Progress::Suspended(SuspendedId(1), asked));
    drop(batch);
    let actions = step(&mut worker, Input::Executed(Executed { transactions: vec![waits], queries: vec![] }));
    let sent = actions.iter().any(|action| matches!(action, Action::Send { to: Node::Worker(PEER), .. }));
    assert!(sent, "it is called there: {actions:?}");
    (worker, GraphId(transaction.tid.0))
}

#[test]
fn an_answer_that_does_not_fit_what_was_asked_is_refused_and_one_that_does_lets_the_function_go_on() {
    let _transcript = scenario!("worker");
    let (mut worker, graph) = calling();
    let called = || RemoteResponse::called(Ok(b"1"[..].into()));
    let answer = |answer, share| {
        let question = Question { fragment: 1, index: 0 };
        Mail { replies: vec![OrderReply { question, answer, share, ..reply(graph.0, 1) }], ..first_round() }
    };
    let before = format!("{worker:?}");
    let settled = say(&mut worker, Node::Coordinator, settle(1));
    let early = matches!(&settled[..], [Action::Fault(fault)] if fault.why == why::ANOTHER_PHASE);
    assert!(early, "something of the round waits: {settled:?}");
    assert_eq!(before, format!("{worker:?}"));
    is_refused(&mut worker, answer(RemoteResponse::Value(None), Some(Share(1))), why::NOT_ASKED);
    is_refused(&mut worker, answer(RemoteResponse::Entries(vec![]), Some(Share(1))), why::NOT_ASKED);
    is_refused(&mut worker, answer(called(), Some(Share(u32::MAX))), why::SHARES);
    is_refused(&mut worker, answer(called(), Some(Share::WHOLE)), why::SHARES);
    let actions = tell(&mut worker, answer(called(), Some(Share(1))));
    assert!(matches!(&actions[..], [Action::RunTasks(tasks)] if tasks.len() == 1), "{actions:?}");
    is_refused(&mut worker, answer(called(), None), why::NOT_ASKED);
}

#[test]
fn what_another_worker_finds_for_a_long_transaction_is_what_was_asked_for_or_refused() {
    let mut worker = with_longs(1);
    let entity = entity_of_operator(OperatorId(0), &worker, PEER);
    let actions = step(&mut worker, Input::LongRead { run: RunId(1), operation: Operation::Get(entity) });
    let [Action::Send { to: Node::Worker(PEER), message: Message::Long(asked) }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(asked.asks.len(), 1);
    let answer = |run, answer| {
        let answers = vec![LongAnswer { run: RunId(run), answer }];
        Message::Long(LongMail { answers, ..LongMail::default() })
    };
    for other in [RemoteResponse::Entries(vec![]), RemoteResponse::Noted, RemoteResponse::called(Ok(b"1"[..].into()))] {
        let before = format!("{worker:?}");
        let actions = say(&mut worker, Node::Worker(PEER), answer(1, other.clone()));
        let refused = matches!(&actions[..], [Action::Fault(fault)] if fault.why == why::NOT_ASKED);
        assert!(refused, "{other:?}: {actions:?}");
        assert_eq!(before, format!("{worker:?}"));
    }
    let answers = [9, 1].map(|run| LongAnswer { run: RunId(run), answer: RemoteResponse::Noted });
    let both = Message::Long(LongMail { answers: answers.into(), ..LongMail::default() });
    is_fault("waiting", &mut worker, Node::Worker(PEER), both);
    let nobody = say(&mut worker, Node::Worker(PEER), answer(9, RemoteResponse::Value(None)));
    assert!(nobody.is_empty(), "that run may have been given up: {nobody:?}");
    let actions = say(&mut worker, Node::Worker(PEER), answer(1, RemoteResponse::Value(None)));
    let found = matches!(&actions[..], [Action::LongRead { run: RunId(1), answer: RemoteResponse::Value(None) }]);
    assert!(found, "{actions:?}");
}

#[test]
fn an_end_is_decided_once_and_by_dependencies_of_what_several_workers_share() {
    let _transcript = scenario!("worker");
    let mut worker = in_a_round();
    let here = entity_of(&worker, WorkerId(0));
    is_taken(&mut worker, orders(vec![order(Operation::Get(here))]));
    let decision = Decision { graph: GraphId(1002), number: 1, ending: Ending::Aborts };
    is_refused(&mut worker, Mail { decisions: vec![decision], ..first_round() }, why::ANOTHER_PHASE);
    let transactions = vec![Started::Local(Execution::default())];
    step(&mut worker, Input::Executed(Executed { transactions, queries: vec![] }));
    let ends = |kind| vec![end(1002, kind)];
    say(
        &mut worker,
        Node::Coordinator,
        Message::Settle { round: Round(1), logged: true, ends: ends(Kind::Wrote), queries: vec![] },
    );
    let decide =
        |tid| Message::Decide { round: Round(1), bits: vec![(Tid(tid), Bits { waw: true, ..Bits::default() })] };
    for unknown in [1001, 1003] {
        is_fault("settled", &mut worker, Node::Coordinator, decide(unknown));
    }
    let some_unknown = vec![(Tid(1002), Bits::default()), (Tid(1003), Bits::default())];
    is_fault("settled", &mut worker, Node::Coordinator, Message::Decide { round: Round(1), bits: some_unknown });
    say(&mut worker, Node::Coordinator, decide(1002));
    let decided = |decisions| Mail { fallback: true, decisions, ..first_round() };
    let other = Decision { graph: GraphId(1004), ..decision };
    is_refused(&mut worker, decided(vec![other]), why::UNKNOWN_GRAPH);
    let twice = tell(&mut worker, decided(vec![decision, decision]));
    let refused = matches!(&twice[..], [Action::Fault(fault), ..] if fault.why == why::NOT_ROOTED);
    assert!(refused, "{twice:?}");
}

/// A worker whose own transaction has executed.
fn settled() -> Worker<u64> {
    let mut worker = in_a_round();
    let transactions = vec![Started::Local(Execution::default())];
    step(&mut worker, Input::Executed(Executed { transactions, queries: vec![] }));
    worker
}

#[test]
fn who_asks_to_take_part_and_may_not_is_refused() {
    let _transcript = scenario!("worker");
    let (mut worker, tid) = begun();
    let (here, there) = (entity_of(&worker, WorkerId(0)), entity_of(&worker, PEER));
    let joins = |join| Mail { joins: vec![join], ..first_round() };
    let cases = [
        (join(Header { root: WorkerId(0), ..header(1002) }, vec![]), why::OTHER_WORKERS),
        (join(Header { graph: GraphId(1003), ..header(1002) }, vec![]), why::ANOTHER_GRAPH),
        (join(Header { graph: GraphId(tid.0), tid, ..header(1002) }, vec![]), why::ROOTED_HERE),
        (join(header(1002), vec![JoinWrite(here, None), JoinWrite(there, None)]), why::NO_WRITES),
    ];
    for (join, why) in cases {
        is_refused(&mut worker, joins(join), why);
    }
    let fine = joins(join(header(1002), vec![]));
    let actions = tell(&mut worker, fine.clone());
    let joined = |mail: &Mail| mail.joined == [Joined { run: RunId(1), current: true }];
    let answered = actions.iter().any(|action| match action {
        Action::Send { to: Node::Worker(PEER), message: Message::Graphs(mail) } => joined(mail),
        _ => false,
    });
    assert!(answered, "it has read nothing here that was written since: {actions:?}");
    let again = tell(&mut worker, fine);
    assert!(
        again.iter().any(|action| matches!(action, Action::Fault(fault) if fault.why == why::TWICE)),
        "a transaction takes part once: {again:?}"
    );
}

#[test]
fn mail_of_a_phase_that_is_over_or_far_ahead_is_refused() {
    let _transcript = scenario!("worker");
    let result = CachedResult { graph: GraphId(1002), number: 1, place: 1, answer: RemoteResponse::Noted };
    let at = |round, fallback| Mail { round: Round(round), fallback, results: vec![result.clone()], ..Mail::default() };
    let mut worker = in_a_round();
    for late in [at(0, false), at(0, true)] {
        is_taken(&mut worker, late.clone());
        let ack = ack(1002, 1);
        is_refused(&mut worker, Mail { acks: vec![ack.clone()], ..late.clone() }, why::PHASE_OVER);
        is_refused(&mut worker, Mail { acks: vec![ack], results: vec![], ..late }, why::PHASE_OVER);
    }
    is_taken(&mut worker, at(1, false));
    is_taken(&mut worker, at(1, true));
    for early in [at(2, false), at(2, true), at(3, false), at(u64::MAX, true)] {
        is_refused(&mut worker, early, why::TOO_EARLY);
    }
}

#[test]
fn mail_that_came_early_and_cannot_be_is_a_fault_when_its_phase_begins() {
    let _transcript = scenario!("worker");
    let mut worker = worker();
    is_taken(&mut worker, Mail { acks: vec![ack(1002, 1)], ..first_round() });
    let begun = say(&mut worker, Node::Coordinator, begin(1));
    let faults =
        begun.iter().filter(|action| matches!(action, Action::Fault(fault) if fault.from == Node::Worker(PEER)));
    assert_eq!(faults.count(), 1, "{begun:?}");
}

#[test]
fn an_epoch_that_cannot_follow_is_refused() {
    let _transcript = scenario!("worker");
    let mut worker = worker();
    let Message::Begin(fine) = begin(1) else { unreachable!() };
    let counter = SequencerCounter(SequencerCounter::MAX.0 + 1);
    let place = Control::Place(worker.view().placement.next(worker.view().placement.owners().to_vec()));
    let cases = [
        (Begin { epoch: Epoch(0), ..fine.clone() }, why::ANOTHER_EPOCH),
        (Begin { epoch: Epoch(2), ..fine.clone() }, why::ANOTHER_EPOCH),
        (Begin { counter, ..fine.clone() }, why::NO_COUNTER),
        (Begin { controls: vec![place], replay: Some(Replay::Execute(vec![])), ..fine.clone() }, why::PLACEMENT),
    ];
    for (begin, why) in cases {
        let actions = say(&mut worker, Node::Coordinator, Message::Begin(begin));
        assert!(matches!(&actions[..], [Action::Fault(fault)] if fault.why == why), "{why}: {actions:?}");
    }
    let changes = EpochChanges::default();
    for round in [0, 2, u64::MAX] {
        let actions =
            say(&mut worker, Node::Coordinator, Message::Changes { round: Round(round), changes: changes.clone() });
        assert!(matches!(&actions[..], [Action::Fault(fault)] if fault.why == why::ANOTHER_ROUND), "{actions:?}");
    }
    assert!(say(&mut worker, Node::Coordinator, Message::Changes { round: Round(1), changes }).is_empty());
    let begun = say(&mut worker, Node::Coordinator, Message::Begin(Begin { counter: SequencerCounter::MAX, ..fine }));
    assert!(!begun.iter().any(|action| matches!(action, Action::Fault(_))), "{begun:?}");
}

#[test]
fn an_end_of_a_phase_that_cannot_be_is_refused() {
    let _transcript = scenario!("worker");
    let end = |tid: u64, worker: u16| GraphEnd { workers: WorkerSet::only(WorkerId(worker)), ..end(tid, Kind::Wrote) };
    let settle = |ends| Message::Settle { round: Round(1), logged: true, ends, queries: vec![] };
    let settle_queries = |places: [usize; 2]| {
        let queries = places.map(|place| (GraphId::of_query(PEER, place), 1)).into();
        Message::Settle { round: Round(1), logged: true, ends: vec![], queries }
    };
    let mut worker = settled();
    let cases = [
        (settle(vec![end(4, 1), end(2, 1)]), why::DISORDER),
        (settle(vec![end(4, 1), end(4, 1)]), why::DISORDER),
        (settle_queries([5, 3]), why::DISORDER),
        (settle_queries([5, 5]), why::DISORDER),
        (settle(vec![end(4, 2)]), why::OTHER_WORKERS),
        // Something of this worker's is logged.
        (Message::Settle { round: Round(1), logged: false, ends: vec![], queries: vec![] }, why::ANOTHER_PHASE),
        (Message::Settle { round: Round(2), logged: true, ends: vec![], queries: vec![] }, why::ANOTHER_ROUND),
    ];
    for (message, why) in cases {
        let before = format!("{worker:?}");
        let actions = say(&mut worker, Node::Coordinator, message);
        assert!(matches!(&actions[..], [Action::Fault(fault)] if fault.why == why), "{why}: {actions:?}");
        assert_eq!(before, format!("{worker:?}"), "{why}");
    }
    // Something runs here that another worker has called.
    let called = target(&worker);
    is_taken(&mut worker, orders(vec![order(Operation::Call(called))]));
    is_fault("executed", &mut worker, Node::Coordinator, settle(vec![end(1002, 1)]));
}

#[test]
fn a_migration_that_cannot_be_is_refused() {
    let _transcript = scenario!("worker");
    let (mut worker, _) = begun();
    let placement = worker.view().placement.clone();
    let owned =
        |owner| (0..LAYOUT.partitions as u16).map(PartitionId).find(|id| placement.owner(*id) == owner).unwrap();
    let (mine, theirs) = (owned(WorkerId(0)), owned(PEER));
    let migrate = |version: u64, moves: &[(PartitionId, WorkerId)]| Message::Migrate {
        version: PlacementVersion(version),
        mode: MovingMode::Online,
        moves: moves.to_vec(),
    };
    let next = placement.version().0 + 1;
    for message in [
        migrate(next - 1, &[(mine, PEER)]),
        migrate(next, &[(theirs, PEER)]),
        migrate(next, &[(mine, WorkerId(0))]),
        migrate(next, &[(mine, WorkerId(2))]),
        migrate(next, &[(mine, PEER), (PartitionId(LAYOUT.partitions as u16), PEER)]),
    ] {
        let before = format!("{worker:?}");
        let actions = say(&mut worker, Node::Coordinator, message.clone());
        let refused = matches!(&actions[..], [Action::Fault(fault)] if fault.why == why::PLACEMENT);
        assert!(refused, "{message:?}: {actions:?}");
        assert_eq!(before, format!("{worker:?}"), "{message:?}");
    }
    let actions = say(&mut worker, Node::Coordinator, migrate(next, &[(mine, PEER)]));
    assert!(!actions.iter().any(|action| matches!(action, Action::Fault(_))), "{actions:?}");
    let actions = say(&mut worker, Node::Coordinator, migrate(next + 1, &[(mine, PEER)]));
    assert!(matches!(&actions[..], [Action::Fault(fault)] if fault.why == why::TWICE), "{actions:?}");
}
