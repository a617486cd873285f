//! All that can happen to a worker, in each state that it can be in; what it does stands in its transcript.

use styx_protocol::task::RunId;
use styx_transcript::quietly;

use super::*;
use crate::network::Refusal;
use crate::wire::{CatalogVersion, CopyPace, Overview, TicketedResponse};

const STRANGER: NodeId = NodeId(40);

fn why() -> String {
    "why".into()
}

fn overview() -> Overview {
    Overview {
        single: false,
        generation: Generation(1),
        live: true,
        epoch: Epoch(1),
        chain: Default::default(),
        members: vec![],
        placement: PlacementVersion::FIRST,
        partitions: 4,
        created: 4,
        engine: EngineHash(5),
        admin: None,
    }
}

fn network() -> Vec<NetworkEvent> {
    let refused = |peer, refusal| NetworkEvent::Refused { peer, refusal, reason: "r".into(), message: "m".into() };
    let mut events = Vec::new();
    for peer in [COORDINATOR, OTHER, GATEWAY, STRANGER] {
        events.extend([
            NetworkEvent::Connected { peer, restarted: false },
            NetworkEvent::Connected { peer, restarted: true },
            NetworkEvent::Lost { peer, why: why() },
            NetworkEvent::Unreached { peer, gone: false, why: why() },
            NetworkEvent::Unreached { peer, gone: true, why: why() },
            NetworkEvent::Broken { peer, generation: Generation(1), why: why() },
            NetworkEvent::Control { from: peer, message: Envelope::decode(&[9]).map(Box::new) },
        ]);
        events.extend([Refusal::Standby, Refusal::Build, Refusal::Other].map(|refusal| refused(peer, refusal)));
        for generation in [0, 1, 2] {
            let generation = Generation(generation);
            events.push(NetworkEvent::Message { from: peer, generation, message: Err(why()) });
            events.push(NetworkEvent::Message {
                from: peer,
                generation,
                message: Ok(Box::new(Message::Durable(Epoch(0)))),
            });
        }
    }
    events
}

fn envelopes() -> Vec<Envelope> {
    let digest = Digest([3; 32]);
    let part = WrittenPart { epoch: Epoch(1), objects: vec![1], hashes: vec![], carried: vec![] };
    let mut envelopes = vec![
        Envelope::Refused(why()),
        Envelope::Released,
        Envelope::RestoreFailed { generation: Generation(1), why: why(), damaged: true },
        Envelope::FetchComponent(digest),
        Envelope::Component(digest, None),
        Envelope::Component(digest, Some(vec![1])),
        Envelope::PrepareComponent(digest),
        Envelope::ComponentPrepared(digest, Ok(())),
        Envelope::Watch { known: CatalogVersion::default() },
        Envelope::Responses(vec![TicketedResponse { ticket: 1, response: Response::Cluster(overview()) }]),
        Envelope::Queries(vec![]),
    ];
    for generation in [0, 1, 2].map(Generation) {
        let pace = CopyPace { rate: Some(5), paused: false };
        envelopes.extend([
            Envelope::Joined { generation },
            Envelope::ResendPart { generation },
            Envelope::PartWritten { generation, part: part.clone() },
            Envelope::CopyPace { generation, version: PlacementVersion::FIRST, pace },
        ]);
        for answers in [0, 1] {
            envelopes.push(Envelope::Beat(Beat { number: 3, generation, answers }));
        }
        for (ticket, question) in questions().into_iter().enumerate() {
            for placement in [0, 1, 2].map(PlacementVersion) {
                let ticket = ticket as u64;
                let query = Query { ticket, generation, placement, question: question.clone() };
                envelopes.push(Envelope::Queries(vec![query]));
            }
        }
    }
    envelopes
}

fn questions() -> Vec<Question> {
    let mut questions = vec![submit(1), Question::Query(Arc::new(request(3)))];
    for id in [1, 2, 3, 4] {
        let retained = Arc::new(Request { retained: true, ..request(id) });
        questions.extend([Question::Await(RequestId(id)), Question::Submit(retained, id > 2)]);
    }
    questions.extend(admin().map(Question::Admin));
    questions
}

fn admin() -> [AdminQuery; 6] {
    [
        AdminQuery::Cluster,
        AdminQuery::Workers,
        AdminQuery::Partitions,
        AdminQuery::Get { operator: 0, key: "a".into() },
        AdminQuery::Scan { operator: 0, prefix: String::new(), after: None, limit: 3, bytes: 100 },
        AdminQuery::Sample { operator: 0, limit: 3, bytes: 100 },
    ]
}

/// What the process itself says.
fn own() -> Vec<WorkerEvent<u64, u64>> {
    let digest = Digest([3; 32]);
    let part = WrittenPart { epoch: Epoch(1), objects: vec![1], hashes: vec![], carried: vec![] };
    let mut events = vec![
        WorkerEvent::ComponentAbsent(digest),
        WorkerEvent::ComponentPrepared(digest, Ok(())),
        WorkerEvent::ComponentPrepared(digest, Err(why())),
        WorkerEvent::Leave,
        WorkerEvent::Settled,
        WorkerEvent::Tick,
    ];
    for to in [COORDINATOR, OTHER, GATEWAY] {
        events.extend([WorkerEvent::Unsent { to, why: why() }, WorkerEvent::ControlUnsent { to, why: why() }]);
    }
    for generation in [0, 2].map(Generation) {
        events.push(WorkerEvent::LongEnded(generation, RunId(1), Box::default()));
        events.push(WorkerEvent::HandOver(generation));
        events.push(WorkerEvent::Restored { generation, result: Ok(None) });
    }
    for generation in [0, 1, 2].map(Generation) {
        events.push(WorkerEvent::PartWritten(generation, Box::new(part.clone())));
    }
    let ask = |request| WorkerEvent::Client(ClientMessage::Request(request));
    events.push(ask(ClientRequest::Submit { request: Arc::new(request(1)), waiter: 1, receipt: true }));
    events.push(ask(ClientRequest::Query { request: Arc::new(request(1)), waiter: 1 }));
    events.push(ask(ClientRequest::Await { id: RequestId(5), waiter: 1 }));
    events.extend(admin().map(|query| WorkerEvent::Client(ClientMessage::Read(query, 2))));
    events
}

fn events() -> Vec<WorkerEvent<u64, u64>> {
    let control =
        |from, envelope| WorkerEvent::Network(NetworkEvent::Control { from, message: Ok(Box::new(envelope)) });
    let from_coordinator = envelopes().into_iter().map(|envelope| control(COORDINATOR, envelope));
    let from_others = envelopes().into_iter().map(|envelope| control(GATEWAY, envelope));
    let network = network().into_iter().map(WorkerEvent::Network);
    own().into_iter().chain(network).chain(from_coordinator).chain(from_others).collect()
}

/// Each event in a state of its own, and what follows from it in a while.
fn each_in(state: impl Fn() -> Rig) {
    for event in events() {
        let mut rig = quietly(&state);
        rig.step(event);
        rig.step(WorkerEvent::Settled);
        rig.later(HURRY);
        rig.later(HEARTBEAT);
        rig.later(SILENT);
        did(&(rig.worker.under_way(), rig.worker.generation()));
    }
}

/// As `Rig::new`, connected to the coordinator.
fn connected() -> Rig {
    let mut rig = Rig::new();
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false });
    rig
}

fn executing() -> Rig {
    let mut rig = Rig::live();
    rig.ask(1, 1, submit(9));
    rig.cut();
    assert_eq!(rig.batches.len(), 1);
    rig
}

#[test]
fn everything_happens_to_a_worker_that_nobody_has_invited() {
    let _transcript = scenario!("worker");
    each_in(connected);
}

#[test]
fn everything_happens_to_a_worker_that_restores() {
    let _transcript = scenario!("worker");
    each_in(|| {
        let mut rig = connected();
        rig.invite_with(1, &[ME, OTHER], snapshots());
        rig
    });
}

#[test]
fn everything_happens_to_a_worker_that_replays() {
    let _transcript = scenario!("worker");
    each_in(|| {
        let mut rig = connected();
        rig.invite(1, &[ME, OTHER]);
        rig
    });
}

#[test]
fn everything_happens_to_a_member_of_a_live_generation() {
    let _transcript = scenario!("worker");
    each_in(|| {
        let mut rig = connected();
        rig.invite(1, &[ME, OTHER]);
        rig.go_live(1);
        rig
    });
}

#[test]
fn everything_happens_to_a_worker_that_executes() {
    let _transcript = scenario!("worker");
    each_in(executing);
}

#[test]
fn everything_happens_to_a_worker_whose_epoch_is_not_durable() {
    let _transcript = scenario!("worker");
    each_in(|| {
        let mut rig = executing();
        rig.execute();
        rig
    });
}

#[test]
fn everything_happens_to_a_worker_that_waits_for_its_threads() {
    let _transcript = scenario!("worker");
    each_in(|| {
        let mut rig = executing();
        rig.invite(2, &[ME, OTHER]);
        rig
    });
}

#[test]
fn everything_happens_to_a_worker_that_leaves() {
    let _transcript = scenario!("worker");
    each_in(|| {
        let mut rig = executing();
        rig.step(WorkerEvent::Leave);
        rig
    });
}

#[test]
fn a_worker_looks_for_the_coordinator_that_leads() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::new();
    let config = WorkerConfig { coordinators: vec!["a:1".into(), "b:1".into()], ..rig.worker.config.clone() };
    rig.worker = WorkerDriver::new(rig.now, config);
    let refusal = Refusal::Standby;
    rig.network(NetworkEvent::Refused { peer: COORDINATOR, refusal, reason: "r".into(), message: "m".into() });
    (0..9).for_each(|_| rig.later(Duration::from_millis(100)));
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false });
    (0..15).for_each(|_| rig.later(Duration::from_millis(100)));
}

#[test]
fn what_runs_no_more_is_given_back_to_the_next_generation() {
    let _transcript = scenario!("worker");
    let mut rig = executing();
    rig.invite(2, &[ME, OTHER]);
    rig.message(COORDINATOR, 2, Message::Durable(Epoch(0)));
    rig.batches.clear();
    rig.step(WorkerEvent::ExecutionForgotten);
    rig.invite_with(3, &[ME], snapshots());
    rig.step(WorkerEvent::Restored { generation: Generation(3), result: Ok(None) });
}
