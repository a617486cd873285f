//! All that can happen to a coordinator, in each state that it can be in; what it does stands in its transcript.

use styx_protocol::ids::WorkerId;
use styx_protocol::machine::worker::{CopiedOf, CopyProgress};
use styx_protocol::message::Message;
use styx_transcript::quietly;

use super::*;
use crate::fullness::Holdings;
use crate::network::Refusal;
use crate::wire::{Query, Question, TicketedResponse};

const ONE: NodeId = NodeId(11);
const STRANGER: NodeId = NodeId(40);

fn why() -> String {
    "why".into()
}

type Happens = Event<&'static str, &'static str>;

fn network() -> Vec<NetworkEvent> {
    let refused = |peer| NetworkEvent::Refused { peer, refusal: Refusal::Other, reason: "r".into(), message: why() };
    let mut events = Vec::new();
    for peer in [ONE, NodeId(12), GATEWAY, STRANGER] {
        events.extend([
            NetworkEvent::Connected { peer, restarted: false },
            NetworkEvent::Connected { peer, restarted: true },
            NetworkEvent::Lost { peer, why: why() },
            NetworkEvent::Unreached { peer, gone: false, why: why() },
            NetworkEvent::Unreached { peer, gone: true, why: why() },
            NetworkEvent::Control { from: peer, message: Envelope::decode(&[9]).map(Box::new) },
            refused(peer),
        ]);
        for generation in [0, 1, 2].map(Generation) {
            events.push(NetworkEvent::Broken { peer, generation, why: why() });
            events.push(NetworkEvent::Message { from: peer, generation, message: Err(why()) });
            for message in [Message::WorkAvailable, Message::Drain] {
                events.push(NetworkEvent::Message { from: peer, generation, message: Ok(Box::new(message)) });
            }
        }
    }
    events
}

fn envelopes() -> Vec<Envelope> {
    let digest = Digest([4; 32]);
    let mut envelopes = vec![
        Envelope::Refused(why()),
        Envelope::Released,
        Envelope::FetchComponent(digest),
        Envelope::Component(digest, None),
        Envelope::PrepareComponent(digest),
        Envelope::ComponentPrepared(digest, Ok(())),
        Envelope::ComponentPrepared(digest, Err(why())),
        Envelope::ComponentPrepared(Digest([9; 32]), Err(why())),
        Envelope::Responses(vec![TicketedResponse { ticket: 1, response: Response::Workers(vec![]) }]),
    ];
    for version in [0, 1, 9] {
        envelopes.push(Envelope::Watch { known: CatalogVersion { version, hash: version } });
    }
    let questions =
        [Question::Admin(AdminQuery::Cluster), Question::Admin(AdminQuery::Workers), Question::Await(RequestId(1))];
    for generation in [0, 1, 2].map(Generation) {
        envelopes.extend([
            Envelope::Beat(Beat { number: 1, generation, answers: 0 }),
            Envelope::Joined { generation },
            Envelope::ResendPart { generation },
            Envelope::RestoreFailed { generation, why: why(), damaged: true },
            Envelope::RestoreFailed { generation, why: why(), damaged: false },
            Envelope::CopyPace { generation, version: PlacementVersion::FIRST, pace: CopyPace::default() },
        ]);
        for (epoch, partition) in [(0, 0), (1, 0), (1, 1), (2, 0)] {
            let hashes = vec![(PartitionId(partition), StateHash(7))];
            let part = WrittenPart { epoch: Epoch(epoch), objects: vec![1], hashes, carried: vec![] };
            envelopes.push(Envelope::PartWritten { generation, part });
        }
        for question in questions.clone() {
            let query = Query { ticket: 3, generation, placement: PlacementVersion::FIRST, question };
            envelopes.push(Envelope::Queries(vec![query]));
        }
        for (life, leaving, silent) in [(1, false, vec![]), (1, true, vec![]), (2, false, vec![]), (1, false, vec![1])]
        {
            let silent = silent.into_iter().map(WorkerId).collect();
            let hello = Hello { life, build: build(), generation, heard: 0, silent, leaving };
            let of = |done| CopiedOf { done, of: 10 };
            let version = PlacementVersion(2);
            let copied = CopyProgress { version, partitions: of(1), entities: of(2), bytes: of(3) };
            let suspects = vec![];
            let holds = Some(Holdings { bytes: 10, most: 10, apps: vec![("app".into(), 10)] });
            envelopes.push(Envelope::Hello { hello, address: "host:9".into(), suspects, copied: Some(copied), holds });
        }
    }
    let build = Build { version: "2".into(), engine: EngineHash(7) };
    let hello = Hello { life: 1, build, generation: Generation(0), heard: 0, silent: vec![], leaving: false };
    envelopes.push(Envelope::Hello { hello, address: "host:9".into(), suspects: vec![], copied: None, holds: None });
    envelopes
}

/// What the process itself says, and those who ask it.
fn own() -> Vec<Happens> {
    let control = |app: &str| Control::Remove(app.to_owned());
    let mut events = vec![
        Event::Delivered,
        Event::Deploy { control: control("shop"), waiter: "remover" },
        Event::Deploy { control: control("nothing"), waiter: "remover" },
        Event::CancelMigration { waiter: Some("w") },
        Event::CancelMigration { waiter: None },
        Event::TakeSnapshot { waiter: "keeper" },
        Event::LeaseLost,
        Event::Stop,
    ];
    for change in [PaceChange::Pause, PaceChange::Resume] {
        events.push(Event::PaceMigration { change, waiter: Some("w") });
    }
    let goals = [Goal::Balance, Goal::Empty(ONE), Goal::Empty(STRANGER), Goal::Only(vec![ONE]), Goal::Move(vec![])];
    for goal in goals {
        for wait in [false, true] {
            let options = MigrationOptions { wait, rate: Some(7), ..Default::default() };
            events.push(Event::Migrate { goal: goal.clone(), options, gains: vec![], waiter: Some("mover") });
        }
    }
    for (full, stalled) in [(false, false), (true, false), (false, true)] {
        events.push(Event::LogCondition(LogCondition { full, stalled }));
    }
    for query in [AdminQuery::Cluster, AdminQuery::Workers, AdminQuery::Partitions] {
        events.push(Event::Client(ClientMessage::Read(query, "reader")));
    }
    // Of generations that are not under way.
    for generation in [0, 7].map(Generation) {
        let put = ManifestPut { sequence: 1, bytes: 2, written_bytes: 2 };
        events.extend([
            Event::ManifestPut { generation, result: Ok(put) },
            Event::Maintained { generation, result: Ok(Some(LogPosition(1))) },
            Event::Synced { generation, epoch: Epoch(1), position: LogPosition(2) },
            Event::Record { generation, record: None },
        ]);
    }
    events
}

fn events() -> Vec<Happens> {
    let control = |from, envelope| Event::Network(NetworkEvent::Control { from, message: Ok(Box::new(envelope)) });
    let from = |node| envelopes().into_iter().map(move |envelope| control(node, envelope));
    let network = network().into_iter().map(Event::Network);
    own().into_iter().chain(network).chain(from(ONE)).chain(from(GATEWAY)).collect()
}

/// Each event in a state of its own, and what follows from it in a while.
fn each_in(state: impl Fn() -> Rig) {
    for event in events() {
        let mut rig = quietly(&state);
        rig.step(event);
        rig.advance();
        for beats in [1, 5, 30] {
            rig.beats(beats);
            did(&(rig.driver.due(rig.now), rig.driver.under_way(), &rig.heard));
        }
        did(&rig.driver.leader.as_ref().map(|leader| (leader.generation(), leader.position(), leader.serves())));
    }
}

fn deployed(snapshots: bool) -> Rig {
    let mut rig = Rig::live(snapshots);
    rig.deploy("shop", "admin");
    rig.envelope(GATEWAY, Envelope::Watch { known: CatalogVersion::default() });
    rig
}

#[test]
fn everything_happens_to_a_coordinator_of_nobody() {
    let _transcript = scenario!("coordinator");
    each_in(|| Rig::new(config(true), Leadership::Forever));
}

#[test]
fn everything_happens_to_a_coordinator_whose_workers_restore() {
    let _transcript = scenario!("coordinator");
    each_in(|| {
        let mut rig = Rig::new(config(true), Leadership::Forever);
        rig.store.push_back(Ok(Some(found(9))));
        rig.slow_joins = true;
        rig.beats(4);
        rig
    });
}

#[test]
fn everything_happens_to_a_coordinator_that_replays() {
    let _transcript = scenario!("coordinator");
    each_in(|| {
        let mut rig = deployed(false);
        rig.slow_reads = true;
        let lost = NetworkEvent::Unreached { peer: NodeId(12), gone: true, why: why() };
        rig.step(Event::Network(lost));
        rig.beats(4);
        rig
    });
}

#[test]
fn everything_happens_to_a_leader() {
    let _transcript = scenario!("coordinator");
    each_in(|| deployed(true));
}

#[test]
fn everything_happens_to_a_leader_that_waits_for_the_log_and_for_compilers() {
    let _transcript = scenario!("coordinator");
    each_in(|| {
        let mut rig = deployed(false);
        rig.slow_log = true;
        rig.deploy("a", "first");
        rig.slow_compilers = true;
        rig.deploy("abcd", "second");
        rig
    });
}

#[test]
fn everything_happens_to_a_leader_that_takes_a_snapshot() {
    let _transcript = scenario!("coordinator");
    each_in(|| {
        let mut rig = deployed(true);
        rig.step(Event::TakeSnapshot { waiter: "first" });
        rig.part(1, 1);
        rig
    });
}

#[test]
fn everything_happens_to_a_leader_whose_partitions_move() {
    let _transcript = scenario!("coordinator");
    each_in(|| {
        let mut rig = deployed(true);
        rig.members.iter_mut().for_each(|member| member.machine.copy_as_allowed());
        rig.step(Event::Migrate {
            goal: Goal::Empty(ONE),
            options: Default::default(),
            gains: vec![],
            waiter: Some("first"),
        });
        rig
    });
}

#[test]
fn everything_happens_to_a_leader_that_is_to_end() {
    let _transcript = scenario!("coordinator");
    each_in(|| {
        let mut rig = deployed(true);
        rig.step(Event::Stop);
        rig.advance();
        rig
    });
}

#[test]
fn everything_happens_to_a_leader_whose_lease_has_run_out() {
    let _transcript = scenario!("coordinator");
    each_in(|| {
        let mut rig = Rig::new(config(true), Leadership::Until(Instant(60_000)));
        rig.beats(4);
        rig.now.monotonic = Instant(60_000);
        rig
    });
}
