mod everything;

use std::sync::Arc;
use std::time::Duration;

use styx_protocol::attempt::Execution;
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::{Component, Deployment, Digest, OperatorSpec};
use styx_protocol::entity::Layout;
use styx_protocol::ids::{EngineHash, Epoch, OperatorId, PlacementVersion, RequestId, Timestamp, WorkerId};
use styx_protocol::machine::worker::{Batch, ClientRequest, Executed, PIECE_BYTES, STEP_MAX};
use styx_protocol::machine::{Coordinator, coordinator};
use styx_protocol::membership::{Beat, Build, Hello};
use styx_protocol::modes::Modes;
use styx_protocol::placement::Placement;
use styx_protocol::quarantine::{Quarantined, Subject};
use styx_protocol::replies::{RestoredReplies, Retention};
use styx_protocol::snapshot::{RestoredState, SnapshotHeader};
use styx_protocol::task::Started;
use styx_protocol::transaction::Request;
use styx_transcript::{did, scenario, told};

use super::answers::READ_MAX;
use super::heartbeat::{HEARTBEAT, HURRY, LEAVE_MAX, LINGER, SILENT};
use super::*;
use crate::client::{Answer, ClientMessage};
use crate::suspicion::Suspect;
use crate::testing::shop;
use crate::wire::{AdminQuery, Member, Query, Question, SnapshotPlace, WrittenPart};

const LAYOUT: Layout = Layout::new(7, 4);
const ME: NodeId = NodeId(10);
const OTHER: NodeId = NodeId(20);
const GATEWAY: NodeId = NodeId(30);
const LIFE: u64 = 77;

fn build() -> Build {
    Build { version: "1".into(), engine: EngineHash(5) }
}

const RECORD_BYTES_MAX: usize = 1 << 20;

/// A worker, and everything around it. The coordinator's machine is a real one; guests do nothing.
struct Rig {
    worker: WorkerDriver<u64, u64>,
    coordinator: Option<Coordinator<u64>>,
    now: Now,
    /// Batches that are out.
    batches: Vec<Batch>,
    /// Records that are not durable.
    records: Vec<Epoch>,
    hellos: Vec<Hello>,
    controls: Vec<(NodeId, Envelope)>,
    answers: Vec<(u64, Answer)>,
    responses: Vec<(u64, Response)>,
    /// What was said at once of an epoch's changes, in bytes.
    changes: Vec<usize>,
    /// Everything else, in a word each.
    others: Vec<String>,
}

impl Rig {
    fn new() -> Rig {
        Rig::suspecting(Vec::new())
    }

    fn suspecting(suspects: Vec<Suspect>) -> Rig {
        let config = WorkerConfig {
            build: build(),
            address: "127.0.0.1:10".into(),
            coordinators: vec!["127.0.0.1:1".into()],
            modes: Modes::default(),
            epoch_size_max: 100,
            epoch_fuel_max: 1 << 40,
            backlog_max: 100,
            frame_bytes: 1000,
            suspended_max: 10,
            long_max: 2,
            step_max: STEP_MAX,
            piece_bytes: PIECE_BYTES,
            state_max: 1 << 40,
            suspects,
            claim_order: false,
        };
        let now = Now { monotonic: Instant(1), wall: Timestamp(LIFE) };
        Rig {
            worker: WorkerDriver::new(now, config),
            coordinator: None,
            now,
            batches: Vec::new(),
            records: Vec::new(),
            hellos: Vec::new(),
            controls: Vec::new(),
            answers: Vec::new(),
            responses: Vec::new(),
            changes: vec![],
            others: Vec::new(),
        }
    }

    /// A worker that is alone in its first generation, which is live.
    fn live() -> Rig {
        Rig::new().alone()
    }

    fn alone(self) -> Rig {
        let mut rig = self;
        rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false });
        rig.invite(1, &[ME]);
        rig.go_live(1);
        rig
    }

    fn step(&mut self, event: WorkerEvent<u64, u64>) {
        told(&(self.now.monotonic.0, &event));
        let mut effects = Vec::new();
        self.worker.step(self.now, event, &mut effects);
        did(&self.worker.wake());
        for effect in effects {
            did(&effect);
            match effect {
                WorkerEffect::Send { to: COORDINATOR, message } => {
                    if let Message::Changes { changes, .. } = &message {
                        self.changes.push(changes.weight());
                    }
                    self.coordinate(coordinator::Input::Message { from: WorkerId(0), message });
                }
                WorkerEffect::Execute(batch) => self.batches.push(batch),
                WorkerEffect::SendControl { to: COORDINATOR, envelope: Envelope::Hello { hello, .. } } => {
                    self.hellos.push(hello);
                }
                WorkerEffect::SendControl { to, envelope } => self.controls.push((to, envelope)),
                WorkerEffect::Answer(client, answer) => self.answers.push((client, answer)),
                WorkerEffect::Respond(client, response) => self.responses.push((client, response)),
                WorkerEffect::KeepSuspects(suspects) => self.others.push(format!("{} suspects", suspects.len())),
                WorkerEffect::ForgetExecution => self.others.push("forget execution".into()),
                WorkerEffect::SetGeneration(generation) => self.others.push(format!("generation {}", generation.0)),
                WorkerEffect::Disconnect(node) => self.others.push(format!("disconnect {}", node.0)),
                WorkerEffect::PeerError => self.others.push("peer error".into()),
                WorkerEffect::Refused(why) => self.others.push(format!("refused: {why}")),
                WorkerEffect::PublishCatalog(catalog) => {
                    self.others.push(format!("publish {} apps", catalog.apps().count()));
                }
                WorkerEffect::End => self.others.push("end".into()),
                WorkerEffect::Halt(why) => self.others.push(format!("halt: {why}")),
                _ => {}
            }
        }
    }

    /// Steps the coordinator's machine.
    fn coordinate(&mut self, input: coordinator::Input<u64>) {
        let Some(machine) = &mut self.coordinator else { return };
        let mut actions = Vec::new();
        machine.step(input, &mut actions);
        let generation = self.worker.generation().expect("its worker is a member");
        for action in actions {
            match action {
                coordinator::Action::Send { message, .. } => self.message(COORDINATOR, generation.0, message),
                coordinator::Action::Append(record) => self.records.push(record.epoch),
                _ => {}
            }
        }
    }

    fn network(&mut self, event: NetworkEvent) {
        self.step(WorkerEvent::Network(event));
    }

    fn message(&mut self, from: NodeId, generation: u64, message: Message) {
        let (generation, message) = (Generation(generation), Ok(Box::new(message)));
        self.network(NetworkEvent::Message { from, generation, message });
    }

    fn control(&mut self, from: NodeId, envelope: Envelope) {
        self.network(NetworkEvent::Control { from, message: Ok(Box::new(envelope)) });
    }

    fn invite(&mut self, generation: u64, members: &[NodeId]) {
        self.invite_with(generation, members, None);
    }

    fn invite_with(&mut self, generation: u64, members: &[NodeId], store: Option<SnapshotPlace>) {
        let member = |node: &NodeId| Member { node: *node, address: format!("127.0.0.1:{}", node.0) };
        let invite = Invite {
            generation: Generation(generation),
            life: LIFE,
            me: WorkerId(0),
            members: members.iter().map(member).collect(),
            placement: Placement::round_robin(LAYOUT.partitions, members.len() as u16),
            layout: LAYOUT,
            retention: Retention::default(),
            record_bytes_max: RECORD_BYTES_MAX as u64,
            store,
        };
        let config = coordinator::Config {
            snapshots: true,
            layout: LAYOUT,
            record_bytes_max: RECORD_BYTES_MAX,
            engine: EngineHash(5),
            generation: Generation(generation),
        };
        self.coordinator = Some(Coordinator::new(config, Arc::new(invite.placement.clone())));
        self.control(COORDINATOR, Envelope::Invite(invite));
    }

    fn go_live(&mut self, generation: u64) {
        self.message(COORDINATOR, generation, Message::Durable(Epoch(0)));
    }

    /// A gateway asks; the answers that it gets at once.
    fn ask(&mut self, ticket: u64, generation: u64, question: Question) -> Vec<Response> {
        self.control(
            GATEWAY,
            Envelope::Queries(vec![Query {
                ticket,
                generation: Generation(generation),
                placement: PlacementVersion::FIRST,
                question,
            }]),
        );
        self.settle()
    }

    /// What the gateway is told.
    fn settle(&mut self) -> Vec<Response> {
        self.step(WorkerEvent::Settled);
        let mut told = Vec::new();
        for (to, envelope) in std::mem::take(&mut self.controls) {
            match envelope {
                Envelope::Responses(responses) if to == GATEWAY => {
                    told.extend(responses.into_iter().map(|ticketed| ticketed.response));
                }
                envelope => self.controls.push((to, envelope)),
            }
        }
        told
    }

    fn later(&mut self, time: Duration) {
        self.now.monotonic = self.now.monotonic.after(time);
        self.step(WorkerEvent::Tick);
    }

    /// An epoch is cut.
    fn cut(&mut self) {
        self.coordinate(coordinator::Input::Tick { now: Timestamp(1000) });
    }

    /// The batch that is out is done.
    fn execute(&mut self) {
        self.execute_to(b"null");
    }

    /// Everything comes to this.
    fn execute_to(&mut self, outcome: &[u8]) {
        self.execute_as(|| Execution { outcome: Ok(outcome.into()), ..Execution::default() });
    }

    fn execute_as(&mut self, execution: impl Fn() -> Execution) {
        let batch = self.batches.remove(0);
        let run = |_: &_| Started::Local(execution());
        let transactions = batch.transactions.iter().map(run).collect();
        let queries = batch.queries.iter().map(run).collect();
        drop(batch);
        self.step(WorkerEvent::Executed(Executed { transactions, queries }));
    }

    fn beat(&mut self, number: u64, generation: u64, answers: u64) {
        self.control(COORDINATOR, Envelope::Beat(Beat { number, generation: Generation(generation), answers }));
    }

    fn has(&self, other: &str) -> usize {
        self.others.iter().filter(|found| *found == other).count()
    }
}

fn submit(id: u128) -> Question {
    Question::Submit(Arc::new(request(id)), false)
}

fn request(id: u128) -> Request {
    let (id, operator) = (RequestId(id), OperatorId(0));
    Request {
        id,
        operator,
        function: "f".into(),
        key: "a".into(),
        args: b"[]"[..].into(),
        retained: false,
        origin: None,
    }
}

#[test]
fn a_worker_outside_of_a_generation_or_in_another_one_says_so_and_does_nothing() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::new();
    assert_eq!(rig.ask(1, 1, submit(1)), [Response::WrongGeneration], "nobody's worker");
    rig.invite(1, &[ME]);
    assert_eq!(rig.ask(2, 1, submit(1)), [Response::WrongGeneration], "the log is not replayed yet");
    rig.go_live(1);
    for other in [0, 2] {
        assert_eq!(rig.ask(3, other, submit(1)), [Response::WrongGeneration], "{other}");
    }
    rig.cut();
    assert!(rig.batches.is_empty(), "nothing was taken");
    assert_eq!(rig.ask(4, 1, submit(1)), []);
    rig.cut();
    assert_eq!(rig.batches.len(), 1);
}

#[test]
fn heartbeats_go_out_while_a_batch_is_out_and_while_it_is_awaited_between_generations() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    rig.ask(1, 1, submit(1));
    rig.cut();
    assert_eq!(rig.batches.len(), 1);
    let before = rig.hellos.len();
    for _ in 0..10 {
        assert!(rig.worker.wake() <= rig.now.monotonic.after(HEARTBEAT));
        rig.later(HEARTBEAT);
    }
    assert_eq!(rig.hellos.len(), before + 10);
    rig.beat(1, 2, 0);
    assert_eq!(rig.has("forget execution"), 1);
    // Events alone bring the time, too.
    for _ in 0..10 {
        rig.now.monotonic = rig.now.monotonic.after(HEARTBEAT);
        rig.network(NetworkEvent::Connected { peer: OTHER, restarted: false });
    }
    assert_eq!(rig.hellos.len(), before + 20);
    assert_eq!(rig.hellos.last().unwrap().generation, Generation(0));
}

#[test]
fn what_an_epoch_changed_is_told_in_pieces_also_by_one_who_is_alone() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    for id in 1..=9 {
        let request = Request { retained: true, ..request(id) };
        rig.ask(id as u64, 1, Question::Submit(Arc::new(request), false));
    }
    rig.cut();
    rig.execute_to(&[b'7'; 50_000]);
    assert!(rig.changes.iter().sum::<usize>() > 9 * 50_000 && rig.changes.len() > 2, "{:?}", rig.changes);
    assert!(rig.changes.iter().all(|weight| *weight < 200_000), "{:?}", rig.changes);
    assert_eq!(rig.records, [Epoch(1)]);
}

#[test]
fn nothing_is_told_before_it_is_durable() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    rig.ask(1, 1, submit(1));
    rig.cut();
    rig.execute();
    assert_eq!(rig.records, [Epoch(1)]);
    assert_eq!(rig.ask(2, 1, Question::Admin(AdminQuery::Workers)), [], "what is read is of an epoch that may be lost");
    rig.step(WorkerEvent::Client(ClientMessage::Read(AdminQuery::Workers, 9)));
    assert!(rig.responses.is_empty());
    rig.coordinate(coordinator::Input::Durable(Epoch(1)));
    let told = rig.settle();
    assert!(matches!(&told[..], [Response::Workers(_), Response::Reply(reply)] if reply.outcome.is_ok()), "{told:?}");
    assert_eq!(rig.responses.len(), 1);
}

#[test]
fn a_worker_is_busy_with_batches_and_with_what_runs_beside_the_epochs() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    let busy = |rig: &mut Rig, ticket| {
        let told = rig.ask(ticket, 1, Question::Admin(AdminQuery::Workers));
        let [Response::Workers(workers)] = &told[..] else { panic!("{told:?}") };
        workers[0].busy_us
    };
    rig.later(Duration::from_millis(5));
    assert_eq!(busy(&mut rig, 1), 0);
    rig.ask(2, 1, submit(1));
    rig.cut();
    rig.later(Duration::from_millis(10));
    rig.execute_as(|| Execution { postponed: true, ..Execution::default() });
    rig.coordinate(coordinator::Input::Durable(Epoch(1)));
    assert_eq!(busy(&mut rig, 3), 10_000);
    rig.later(Duration::from_millis(100));
    assert_eq!(busy(&mut rig, 4), 60_000, "one of two that may run");
}

#[test]
fn that_nothing_is_known_is_told_when_the_coordinator_shows_that_nobody_else_can_know() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    assert_eq!(rig.ask(1, 1, Question::Await(RequestId(5))), []);
    assert_eq!(rig.ask(2, 1, Question::Admin(AdminQuery::Workers)), [], "a later read must not come first");
    rig.beat(10, 1, 0);
    assert_eq!(rig.settle(), [], "the beat may have been on its way before");
    rig.beat(11, 1, 10);
    let told = rig.settle();
    assert!(matches!(told[..], [Response::Unknown, Response::Workers(_)]), "{told:?}");
}

#[test]
fn entities_are_shown_between_rounds_when_the_coordinator_has_shown_that_they_are_not_of_the_past() {
    let _transcript = scenario!("worker");
    let get = || Question::Admin(AdminQuery::Get { operator: 0, key: "a".into() });
    let mut rig = Rig::live();
    assert_eq!(rig.ask(1, 1, get()), [], "another generation may have begun elsewhere");
    let hellos = rig.hellos.len();
    rig.later(HURRY);
    assert_eq!(rig.hellos.len(), hellos + 1, "the coordinator is asked at once");
    rig.beat(10, 1, 0);
    rig.beat(11, 1, 10);
    assert!(matches!(rig.settle()[..], [Response::Value { epoch: Epoch(0), .. }]));
    rig.ask(2, 1, submit(1));
    rig.cut();
    assert_eq!(rig.ask(3, 1, get()), []);
    rig.coordinate(coordinator::Input::Durable(Epoch(1)));
    rig.beat(12, 1, 11);
    rig.beat(13, 1, 12);
    assert_eq!(rig.settle(), [], "some of what the round writes may be there already");
    rig.execute();
    rig.beat(14, 1, 13);
    rig.beat(15, 1, 14);
    assert!(matches!(rig.settle()[..], [Response::Reply(_), Response::Value { epoch: Epoch(1), .. }]));
    assert_eq!(rig.ask(4, 1, get()), []);
    rig.later(READ_MAX);
    rig.beat(16, 1, 15);
    rig.beat(17, 1, 16);
    assert_eq!(rig.settle(), [], "nobody waits any more");
}

#[test]
fn the_next_generation_waits_for_what_is_executed_and_its_messages_keep_their_order() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    rig.ask(1, 1, submit(1));
    rig.cut();
    rig.invite(2, &[ME]);
    assert_eq!((rig.has("forget execution"), rig.has("generation 2")), (1, 0));
    assert_eq!(rig.worker.generation(), None);
    rig.go_live(2);
    rig.message(COORDINATOR, 2, Message::Durable(Epoch(3)));
    rig.message(COORDINATOR, 1, Message::Durable(Epoch(9)));
    rig.step(WorkerEvent::ExecutionForgotten);
    assert_eq!((rig.worker.generation(), rig.has("generation 2")), (Some(Generation(2)), 1));
    assert_eq!(rig.ask(2, 2, submit(2)), [], "it is live: the messages that came meanwhile were heard");
    assert!(rig.controls.contains(&(COORDINATOR, Envelope::Joined { generation: Generation(2) })));
    // A third that comes before the second has begun takes its place.
    rig.invite(3, &[ME]);
    assert_eq!(rig.settle(), [Response::WrongGeneration], "what was taken and not begun is returned");
    rig.go_live(3);
    rig.invite(4, &[ME]);
    rig.step(WorkerEvent::ExecutionForgotten);
    assert_eq!(rig.worker.generation(), Some(Generation(4)));
    assert_eq!(rig.ask(3, 4, submit(3)), [Response::WrongGeneration], "it has not heard that it is live");
}

#[test]
fn a_member_that_sends_noise_is_reported_and_noise_of_others_is_dropped() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::new();
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false });
    rig.invite(1, &[ME, OTHER]);
    let noise = |from| NetworkEvent::Message { from, generation: Generation(1), message: Err("noise".into()) };
    rig.network(noise(OTHER));
    rig.later(HEARTBEAT);
    assert_eq!(rig.hellos.last().unwrap().silent, [WorkerId(1)]);
    let control = Envelope::decode(&[1, 0, 9, 9, 9]).map(Box::new);
    rig.network(NetworkEvent::Control { from: GATEWAY, message: control });
    rig.message(GATEWAY, 1, Message::Drain);
    assert_eq!((rig.has("peer error"), rig.worker.generation()), (3, Some(Generation(1))));
    // The coordinator's own: this worker is as good as restarted.
    rig.now.wall = Timestamp(LIFE + 1);
    rig.network(noise(COORDINATOR));
    rig.later(HEARTBEAT);
    let hello = rig.hellos.last().unwrap();
    assert_eq!((rig.worker.generation(), hello.generation, hello.life), (None, Generation(0), LIFE + 1));
}

#[test]
fn an_invitation_that_contradicts_itself_is_not_followed() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::new();
    let sound = |members: &[u64]| Invite {
        generation: Generation(1),
        life: LIFE,
        me: WorkerId(0),
        members: members.iter().map(|node| Member { node: NodeId(*node), address: String::new() }).collect(),
        placement: Placement::round_robin(LAYOUT.partitions, 2),
        layout: LAYOUT,
        retention: Retention::default(),
        record_bytes_max: RECORD_BYTES_MAX as u64,
        store: None,
    };
    let unsound = [
        sound(&[10]),
        Invite { me: WorkerId(2), ..sound(&[10, 20]) },
        Invite { layout: Layout::new(LAYOUT.seed, 5), ..sound(&[10, 20]) },
    ];
    for (at, invite) in unsound.into_iter().enumerate() {
        rig.control(COORDINATOR, Envelope::Invite(invite));
        assert_eq!((rig.worker.generation(), rig.has("peer error")), (None, at + 1));
    }
    rig.control(COORDINATOR, Envelope::Invite(sound(&[10, 20])));
    assert_eq!(rig.worker.generation(), Some(Generation(1)));
}

#[test]
fn lost_messages_are_reported_although_a_connection_follows() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::new();
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false });
    rig.invite(1, &[ME, OTHER]);
    let why = "the peer has started anew".to_owned();
    rig.network(NetworkEvent::Broken { peer: OTHER, generation: Generation(1), why });
    rig.network(NetworkEvent::Connected { peer: OTHER, restarted: true });
    rig.later(HEARTBEAT);
    assert_eq!(rig.hellos.last().unwrap().silent, [WorkerId(1)]);
}

fn snapshots() -> Option<SnapshotPlace> {
    Some(SnapshotPlace { place: "memory:".into(), identity: 1, begin: Some(9) })
}

#[test]
fn who_cannot_restore_a_snapshot_tells_the_coordinator_and_begins_nothing() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::new();
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false });
    rig.invite_with(1, &[ME, OTHER], snapshots());
    let result = Err(RestoreFailure { why: "a flipped bit".into(), damaged: true });
    rig.step(WorkerEvent::Restored { generation: Generation(1), result });
    let [(COORDINATOR, Envelope::RestoreFailed { generation: Generation(1), why, damaged: true })] = &rig.controls[..]
    else {
        panic!("{:?}", rig.controls)
    };
    assert_eq!(why, "a flipped bit");
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: true });
    assert_eq!(rig.controls.len(), 2, "the first may be lost: {:?}", rig.controls);
}

/// A snapshot of epoch 9, of nothing but what is deployed.
fn restored(deployment: Deployment) -> Box<RestoredState> {
    let mut catalog = Catalog::default();
    catalog.apply(&Control::Deploy(deployment));
    let frame = SnapshotHeader {
        generation: Generation(0),
        epoch: Epoch(9),
        chain: Default::default(),
        time: Timestamp(1),
        highest: Default::default(),
        catalog: catalog.image(),
        seating: None,
    };
    let replies = RestoredReplies::new(vec![], LAYOUT);
    let laid_in = LAYOUT.partitions;
    Box::new(RestoredState { frame, laid_in, partitions: vec![], carried: vec![], replies })
}

#[test]
fn who_has_restored_a_snapshot_joins_once_its_components_are_compiled() {
    let _transcript = scenario!("worker");
    let digest = Digest([3; 32]);
    let mut rig = Rig::new();
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false });
    rig.invite_with(1, &[ME], snapshots());
    rig.step(WorkerEvent::Restored { generation: Generation(1), result: Ok(Some(restored(shop(digest)))) });
    assert!(rig.controls.is_empty(), "a component is missing: {:?}", rig.controls);
    rig.step(WorkerEvent::ComponentPrepared(digest, Ok(())));
    let joined = |(to, envelope): &(NodeId, Envelope)| {
        *to == COORDINATOR && matches!(envelope, Envelope::Joined { generation: Generation(1) })
    };
    assert_eq!(rig.controls.iter().filter(|control| joined(control)).count(), 1, "{:?}", rig.controls);
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: true });
    assert_eq!(rig.controls.iter().filter(|control| joined(control)).count(), 2, "what was told before may be lost");

    // What it has written of a snapshot is told when it is, and when the coordinator asks again; not in other generations.
    let written = WrittenPart { epoch: Epoch(10), objects: vec![5], hashes: vec![], carried: vec![] };
    for (generation, told) in [(2, 0), (1, 1)] {
        rig.controls.clear();
        rig.step(WorkerEvent::PartWritten(Generation(generation), Box::new(written.clone())));
        assert_eq!(rig.controls.len(), told);
        rig.control(COORDINATOR, Envelope::ResendPart { generation: Generation(generation) });
        assert_eq!(rig.controls.len(), 2 * told);
        let own = Envelope::PartWritten { generation: Generation(1), part: written.clone() };
        assert!(rig.controls.iter().all(|control| *control == (COORDINATOR, own.clone())), "{:?}", rig.controls);
    }
}

#[test]
fn who_has_restored_a_snapshot_joins_when_the_last_component_is_compiled_and_ends_if_one_cannot_be() {
    let _transcript = scenario!("worker");
    let digests = [Digest([3; 32]), Digest([4; 32])];
    for fails in [false, true] {
        let mut deployment = shop(digests[0]);
        let second = Component { name: "d".into(), digest: digests[1], ..deployment.components[0].clone() };
        deployment.components.push(second);
        let operator = OperatorSpec { name: "pay".into(), component: 1, ..deployment.operators[0].clone() };
        deployment.operators.push(operator);
        let mut rig = Rig::new();
        rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false });
        rig.invite_with(1, &[ME], snapshots());
        rig.step(WorkerEvent::Restored { generation: Generation(1), result: Ok(Some(restored(deployment))) });
        let joins = |rig: &Rig| {
            let joins = |(_, envelope): &&(NodeId, Envelope)| matches!(envelope, Envelope::Joined { .. });
            rig.controls.iter().filter(joins).count()
        };
        rig.step(WorkerEvent::ComponentPrepared(digests[1], Ok(())));
        assert_eq!(joins(&rig), 0, "one is missing");
        let result = if fails { Err("no memory".into()) } else { Ok(()) };
        rig.step(WorkerEvent::ComponentPrepared(digests[0], result));
        let halts = rig.has("halt: a deployed component cannot be loaded: no memory");
        assert_eq!((joins(&rig), halts), if fails { (0, 1) } else { (1, 0) });
    }
}

#[test]
fn questions_that_are_ahead_of_the_placement_are_returned_when_the_generation_ends() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    let query =
        Query { ticket: 1, generation: Generation(1), placement: PlacementVersion::FIRST.next(), question: submit(1) };
    rig.control(GATEWAY, Envelope::Queries(vec![query]));
    assert_eq!(rig.settle(), [], "the epoch that brings it is on its way");
    rig.beat(1, 2, 0);
    assert_eq!(rig.settle(), [Response::WrongGeneration]);
}

#[test]
fn what_is_deployed_is_shown_to_clients_once_each_time_that_it_changes() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    let digest = Digest([3; 32]);
    rig.step(WorkerEvent::ComponentPrepared(digest, Ok(())));
    rig.control(COORDINATOR, Envelope::PrepareComponent(digest));
    rig.step(WorkerEvent::ComponentPrepared(digest, Ok(())));
    let control = Control::Deploy(shop(digest));
    rig.coordinate(coordinator::Input::Control { control, waiter: None });
    rig.cut();
    assert_eq!(rig.has("publish 1 apps"), 1, "{:?}", rig.others);
    rig.ask(1, 1, submit(1));
    rig.cut();
    rig.execute();
    assert_eq!((rig.records.len(), rig.has("publish 1 apps")), (2, 1), "the next epoch deploys nothing");
}

#[test]
fn a_member_that_is_cut_off_is_reported_after_a_while_and_not_when_it_is_back() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::new();
    rig.invite(1, &[ME, OTHER]);
    rig.network(NetworkEvent::Lost { peer: OTHER, why: "gone".into() });
    rig.later(SILENT);
    assert_eq!(rig.hellos.last().unwrap().silent, []);
    rig.later(HEARTBEAT);
    assert_eq!(rig.hellos.last().unwrap().silent, [WorkerId(1)]);
    rig.network(NetworkEvent::Connected { peer: OTHER, restarted: false });
    rig.later(HEARTBEAT);
    assert_eq!(rig.hellos.last().unwrap().silent, []);
}

#[test]
fn a_worker_that_leaves_waits_to_be_released_but_not_for_nobody_and_not_for_ever() {
    let _transcript = scenario!("worker");
    for released in [true, false] {
        let mut rig = Rig::live();
        rig.step(WorkerEvent::Leave);
        assert!(rig.hellos.last().unwrap().leaving);
        rig.later(LEAVE_MAX / 2);
        assert_eq!(rig.has("end"), 0);
        if released {
            rig.control(COORDINATOR, Envelope::Released);
            rig.later(LINGER);
        } else {
            rig.later(LEAVE_MAX / 2);
        }
        assert_eq!(rig.has("end"), 1);
    }
    let mut alone = Rig::new();
    alone.step(WorkerEvent::Leave);
    alone.step(WorkerEvent::Settled);
    assert_eq!(alone.has("end"), 1);
}

#[test]
fn requests_of_this_process_are_answered_here_and_returned_when_the_generation_ends() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    let ask = |waiter, id| {
        let request = Arc::new(request(id));
        WorkerEvent::Client(ClientMessage::Request(ClientRequest::Submit { request, waiter, receipt: false }))
    };
    rig.step(ask(1, 1));
    rig.cut();
    rig.execute();
    rig.coordinate(coordinator::Input::Durable(Epoch(1)));
    assert!(matches!(&rig.answers[..], [(1, Answer::Reply(reply))] if reply.outcome.is_ok()), "{:?}", rig.answers);
    rig.step(ask(2, 2));
    rig.beat(1, 2, 0);
    let returned = Answer::Failed(crate::client::Failure::Unavailable);
    assert_eq!(rig.answers[1..], [(2, returned)]);
    rig.step(ask(3, 3));
    assert_eq!(rig.answers.len(), 2, "outside of a generation it is dropped");
}

#[test]
fn a_component_is_asked_for_again_when_the_coordinator_that_was_asked_may_not_have_heard() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    let fetches = |rig: &Rig| {
        let is_fetch = |(_, envelope): &&(NodeId, Envelope)| matches!(envelope, Envelope::FetchComponent(_));
        rig.controls.iter().filter(is_fetch).count()
    };
    let digest = Digest([7; 32]);
    rig.step(WorkerEvent::ComponentAbsent(digest));
    assert_eq!(fetches(&rig), 1);
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: true });
    assert_eq!(fetches(&rig), 2);
    rig.step(WorkerEvent::ComponentPrepared(digest, Ok(())));
    rig.network(NetworkEvent::Connected { peer: COORDINATOR, restarted: true });
    assert_eq!(fetches(&rig), 2, "it is there");
}

#[test]
fn many_answers_travel_in_several_frames() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    let (generation, placement) = (Generation(9), PlacementVersion::FIRST);
    let query = |ticket| Query { ticket, generation, placement, question: submit(ticket.into()) };
    rig.control(GATEWAY, Envelope::Queries((0..40).map(query).collect()));
    rig.step(WorkerEvent::Settled);
    let lengths = rig.controls.iter().filter_map(|(_, envelope)| match envelope {
        Envelope::Responses(responses) => Some(responses.len()),
        _ => None,
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [15, 15, 10]);
}

#[test]
fn a_gateway_whose_answers_are_not_taken_is_made_to_ask_again() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    let unsent = |to| WorkerEvent::ControlUnsent { to, why: "too much waits".into() };
    rig.step(unsent(COORDINATOR));
    rig.step(unsent(GATEWAY));
    assert!(!rig.others.iter().any(|other| other.starts_with("disconnect")), "what waits may leave first");
    rig.now.monotonic = rig.now.monotonic.after(DRAIN);
    rig.step(unsent(GATEWAY));
    let expected = format!("disconnect {}", GATEWAY.0);
    assert_eq!(rig.others.iter().filter(|other| other.starts_with("disconnect")).collect::<Vec<_>>(), [&expected]);
}

#[test]
fn a_component_is_asked_for_again_when_the_coordinator_could_not_be_told() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    rig.step(WorkerEvent::ComponentAbsent(Digest([7; 32])));
    let asked =
        |rig: &Rig| rig.controls.iter().filter(|(_, envelope)| matches!(envelope, Envelope::FetchComponent(_))).count();
    let before = asked(&rig);
    rig.step(WorkerEvent::ControlUnsent { to: COORDINATOR, why: "too much waits".into() });
    rig.now.monotonic = rig.now.monotonic.after(HEARTBEAT);
    rig.step(WorkerEvent::Tick);
    assert_eq!((before, asked(&rig)), (1, 2));
}

#[test]
fn what_cannot_be_sent_to_the_coordinator_ends_the_membership() {
    let _transcript = scenario!("worker");
    let mut rig = Rig::live();
    let life = rig.hellos.last().expect("it has said hello").life;
    rig.now.wall.0 += 5;
    rig.step(WorkerEvent::Unsent { to: COORDINATOR, why: "too much waits".into() });
    assert_eq!(rig.worker.generation(), None);
    rig.now.monotonic = rig.now.monotonic.after(HEARTBEAT);
    rig.step(WorkerEvent::Tick);
    assert_ne!(rig.hellos.last().expect("it says hello").life, life, "the coordinator counts on nothing of it");
}

#[test]
fn a_suspect_is_forgotten_once_it_is_in_quarantine() {
    let _transcript = scenario!("worker");
    let suspect = |request| Suspect {
        request: RequestId(request),
        app: "shop".into(),
        function: "pay".into(),
        lives: 1,
        said: None,
        app_set_aside: false,
    };
    let mut rig = Rig::suspecting(vec![suspect(7), suspect(8)]).alone();
    rig.later(HEARTBEAT);
    assert_eq!(rig.worker.suspects.all().len(), 2);
    assert!(!rig.others.iter().any(|other| other.ends_with("suspects")), "nothing new is to be kept: {:?}", rig.others);
    let quarantined = Quarantined {
        subject: Subject::Request(RequestId(7)),
        app: None,
        function: None,
        reason: "it ended two processes".into(),
        since: Timestamp(1),
    };
    rig.coordinate(coordinator::Input::Control { control: Control::Quarantine(quarantined), waiter: Some(1) });
    rig.cut();
    rig.coordinate(coordinator::Input::Durable(Epoch(1)));
    rig.later(HEARTBEAT);
    assert_eq!((rig.has("1 suspects"), rig.worker.suspects.all()), (1, &[suspect(8)][..]), "{:?}", rig.others);
}
