mod everything;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use styx_protocol::abort::Code;
use styx_protocol::catalog::Catalog;
use styx_protocol::deployment::{Component, Deployment, Digest, Limits};
use styx_protocol::entity::Layout;
use styx_protocol::ids::{EngineHash, Epoch, LogPosition, NodeId, PartitionId, PlacementVersion, RequestId, Timestamp};
use styx_protocol::machine::Worker;
use styx_protocol::machine::worker::{self, Executed};
use styx_protocol::membership::{Beat, Build, Hello, Patience};
use styx_protocol::message::{Message, Node};
use styx_protocol::quarantine::Subject;
use styx_protocol::record::EpochRecord;
use styx_protocol::replies::{RestoredReplies, Retention};
use styx_protocol::snapshot::{RestoredState, SnapshotHeader};
use styx_protocol::state::StateHash;
use styx_protocol::task::LocalView;
use styx_transcript::{did, scenario, told};

use super::*;
use crate::client::{Answer, Failure};
use crate::fullness::Full;
use crate::network::NetworkEvent;
use crate::snapshots::{ManifestPut, SnapshotConfig, StoreFailure};
use crate::wire::Invite;
use crate::wire::WrittenPart;

mod members;

type Driver = CoordinatorDriver<&'static str, &'static str>;
type Effects = Vec<Effect<&'static str, &'static str>>;

const LAYOUT: Layout = Layout::new(1, 4);
const PATIENCE: Patience = Patience { silent_us: 1_000_000, settle_us: 500_000, drain_us: 5_000_000 };
const GATEWAY: NodeId = NodeId(100);

fn build() -> Build {
    Build { version: "1".into(), engine: EngineHash(7) }
}

fn config(snapshots: bool) -> CoordinatorConfig {
    CoordinatorConfig {
        layout: LAYOUT,
        build: build(),
        workers: 2,
        retention: Retention::default(),
        record_bytes_max: 1 << 20,
        admin: None,
        snapshots: snapshots.then(|| SnapshotSettings {
            schedule: SnapshotConfig::default(),
            place: "memory:".into(),
            identity: 1,
        }),
        patience: PATIENCE,
        backlog_max: 100,
        epoch_max_wait: Duration::from_millis(1),
        quarantine_after: 3,
        migration_rate: None,
        app_state_max: Some(1000),
        seating: None,
        shares: true,
        timing: Timing::default(),
    }
}

/// A member with its machine.
struct Member {
    machine: Worker<()>,
    node: NodeId,
}

/// A coordinator, its workers, and a log that is durable at once unless told otherwise.
struct Rig {
    driver: Driver,
    now: Now,
    members: Vec<Member>,
    /// Processes that say hello, and those of them that want to leave.
    nodes: Vec<NodeId>,
    leaving: Vec<NodeId>,
    /// What workers tell each other arrives; otherwise it is on its way for ever.
    mail: bool,
    heard: BTreeMap<NodeId, Beat>,
    /// What workers say was under way when they ended.
    suspects: BTreeMap<NodeId, Vec<Suspect>>,
    holdings: BTreeMap<NodeId, Holdings>,
    /// What the last invitation says of where members are.
    addresses: Vec<String>,
    log: Vec<Arc<EpochRecord>>,
    /// Appended and not durable.
    appended: VecDeque<(Generation, Epoch)>,
    slow_log: bool,
    /// Workers that do not say that components are ready.
    slow_compilers: bool,
    /// Workers that hear nothing of the machine.
    slow_workers: bool,
    /// Workers that do not say that they are ready for the log.
    slow_joins: bool,
    /// A worker that has deployed something else than the others.
    other_deployments: Option<NodeId>,
    reading: Option<(Generation, usize)>,
    /// The log is read, and does nothing else.
    log_is_busy: bool,
    /// Records that are asked for do not come.
    slow_reads: bool,
    generation: Generation,
    /// What the store will say of snapshots to begin with; then that there is none. And what it was asked for.
    store: VecDeque<Result<Option<SnapshotFound>, StoreFailure>>,
    found_before: Vec<Option<Epoch>>,
    /// All that was neither for the log nor for a worker's machine.
    effects: Effects,
}

impl Rig {
    fn new(config: CoordinatorConfig, leadership: Leadership) -> Self {
        let now = Now { monotonic: Instant(1), wall: Timestamp(1_000) };
        Rig {
            driver: Driver::new(config, leadership, Generation(0), now.monotonic),
            now,
            members: Vec::new(),
            nodes: vec![NodeId(11), NodeId(12)],
            leaving: Vec::new(),
            mail: false,
            heard: BTreeMap::new(),
            suspects: BTreeMap::new(),
            holdings: BTreeMap::new(),
            addresses: Vec::new(),
            log: Vec::new(),
            appended: VecDeque::new(),
            slow_log: false,
            slow_compilers: false,
            slow_workers: false,
            slow_joins: false,
            other_deployments: None,
            reading: None,
            log_is_busy: false,
            slow_reads: false,
            generation: Generation(0),
            store: VecDeque::new(),
            found_before: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Two workers and an empty log, live.
    fn live(snapshots: bool) -> Self {
        let mut rig = Rig::new(config(snapshots), Leadership::Forever);
        rig.beats(4);
        assert!(rig.driver.leader.as_ref().is_some_and(|leader| leader.serves()), "{:?}", rig.driver.leader);
        rig.effects.clear();
        rig
    }

    fn step(&mut self, event: Event<&'static str, &'static str>) {
        // Heartbeats come and go all the time.
        if !matches!(&event, Event::Network(NetworkEvent::Control { message: Ok(envelope), .. }) if matches!(**envelope, Envelope::Hello { .. }))
        {
            told(&(self.now.monotonic.0, &event));
        }
        let mut effects = Vec::new();
        self.driver.step(self.now, event, &mut effects);
        self.perform(effects);
    }

    fn envelope(&mut self, from: NodeId, envelope: Envelope) {
        self.step(Event::Network(NetworkEvent::Control { from, message: Ok(Box::new(envelope)) }));
    }

    /// Time goes on; heartbeats come every 10 ms.
    fn beats(&mut self, beats: usize) {
        for _ in 0..beats {
            self.now.monotonic = self.now.monotonic.after(Duration::from_millis(10));
            for node in self.nodes.clone() {
                let heard = self.heard.get(&node).map_or(0, |beat| beat.number);
                let generation = self.members.iter().find(|member| member.node == node).map(|_| self.generation);
                let suspects = self.suspects.get(&node).cloned().unwrap_or_default();
                let hello = Hello {
                    life: 1,
                    build: build(),
                    generation: generation.unwrap_or_default(),
                    heard,
                    silent: Vec::new(),
                    leaving: self.leaving.contains(&node),
                };
                let (address, holds) = (format!("host:{node}"), self.holdings.get(&node).cloned());
                self.envelope(node, Envelope::Hello { hello, address, suspects, copied: None, holds });
            }
            self.advance();
        }
    }

    fn advance(&mut self) {
        let mut effects = Vec::new();
        self.driver.advance(self.now, &mut effects);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Effects) {
        for effect in effects {
            if !matches!(effect, Effect::SendControl { envelope: Envelope::Beat(_), .. }) {
                did(&effect);
            }
            match effect {
                Effect::Send { .. } if self.slow_workers => {}
                Effect::Send { to, message } => self.work(to, message),
                Effect::SendControl { to, envelope: Envelope::Beat(beat) } => drop(self.heard.insert(to, beat)),
                Effect::SendControl { to, envelope: Envelope::Invite(invite) } => self.join(to, invite),
                Effect::SendControl { to, envelope: Envelope::PrepareComponent(digest) } if !self.slow_compilers => {
                    self.envelope(to, Envelope::ComponentPrepared(digest, Ok(())));
                }
                Effect::Raise(generation) => {
                    assert!(!self.log_is_busy, "who reads the log is not there any more");
                    let position = self.end();
                    self.step(Event::Raised { generation, position });
                }
                Effect::FindSnapshot { generation, before } => {
                    self.found_before.push(before);
                    let found = self.store.pop_front().unwrap_or(Ok(None));
                    self.step(Event::SnapshotFound { generation, found });
                }
                Effect::ReadLog { generation, after, .. } => {
                    let passed = self.log.iter().take_while(|record| record.epoch <= after).count();
                    (self.reading, self.log_is_busy) = (Some((generation, passed)), true);
                }
                Effect::StopReading => self.log_is_busy = false,
                Effect::NextRecord if self.slow_reads => {}
                Effect::NextRecord => {
                    let (generation, at) = self.reading.expect("the log is open");
                    self.reading = Some((generation, at + 1));
                    let record = self.log.get(at).cloned();
                    self.log_is_busy = record.is_some();
                    self.step(Event::Record { generation, record });
                    self.advance();
                }
                Effect::Append { generation, record } => {
                    self.appended.push_back((generation, record.epoch));
                    self.log.push(record);
                    if !self.slow_log {
                        self.sync();
                    }
                }
                effect => self.effects.push(effect),
            }
        }
    }

    /// The end of the log; its first record is what was decided at the beginning.
    fn end(&self) -> LogPosition {
        LogPosition(1 + self.log.len() as u64)
    }

    /// What was appended becomes durable.
    fn sync(&mut self) {
        while let Some((generation, epoch)) = self.appended.pop_front() {
            let position = LogPosition(self.end().0 - self.appended.len() as u64);
            self.step(Event::Synced { generation, epoch, position });
        }
    }

    fn join(&mut self, node: NodeId, invite: Invite) {
        if invite.generation > self.generation {
            (self.members, self.generation) = (Vec::new(), invite.generation);
        }
        self.addresses = invite.members.iter().map(|member| member.address.clone()).collect();
        let config = worker::Config {
            layout: invite.layout,
            modes: Default::default(),
            epoch_size_max: 10,
            epoch_fuel_max: 1 << 40,
            record_bytes_max: 1 << 20,
            backlog_max: 10,
            suspended_max: 10,
            long_max: 2,
            retention: invite.retention,
            generation: self.generation,
            snapshots: invite.store.is_some(),
            step_max: worker::STEP_MAX,
            piece_bytes: worker::PIECE_BYTES,
            claim_order: false,
        };
        let seat = LocalView { me: invite.me, placement: Arc::new(invite.placement) };
        let mut machine = Worker::new(config, seat);
        if let Some(epoch) = invite.store.and_then(|store| store.begin) {
            let SnapshotFound { header: frame, partitions: laid_in, .. } = found(epoch);
            let (partitions, carried) = (Vec::new(), Vec::new());
            let replies = RestoredReplies::new(Vec::new(), invite.layout);
            machine.restore(RestoredState { frame, laid_in, partitions, carried, replies });
        }
        self.members.push(Member { machine, node });
        if !self.slow_joins {
            self.envelope(node, Envelope::Joined { generation: invite.generation });
        }
    }

    /// A worker takes a message; it has nothing to execute.
    fn work(&mut self, node: NodeId, message: Message) {
        let Some(at) = self.members.iter().position(|member| member.node == node) else { return };
        self.feed(at, worker::Input::Message { from: Node::Coordinator, message });
    }

    fn feed(&mut self, at: usize, input: worker::Input<()>) {
        let Some(node) = self.members.get(at).map(|member| member.node) else { return };
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut actions = Vec::new();
            let Some(member) = self.members.get_mut(at) else { return };
            member.machine.step(input, &mut actions);
            for action in actions {
                match action {
                    worker::Action::Send { to: Node::Coordinator, mut message } => {
                        if let Message::Finished(finished) = &mut message
                            && self.other_deployments == Some(node)
                        {
                            finished.deployment += 1;
                        }
                        let (generation, message) = (self.generation, Ok(Box::new(message)));
                        self.step(Event::Network(NetworkEvent::Message { from: node, generation, message }));
                    }
                    worker::Action::Execute(batch) => {
                        assert!(batch.transactions.is_empty());
                        inputs.push_back(worker::Input::Executed(Executed::default()));
                    }
                    worker::Action::WorkerSnapshot(_) | worker::Action::Changes { last: false, .. } => {
                        inputs.push_back(worker::Input::HandOver);
                    }
                    worker::Action::Changes { last: true, .. } | worker::Action::Finished(_) => {}
                    worker::Action::Send { to: Node::Worker(to), message } if self.mail => {
                        let from = Node::Worker(styx_protocol::ids::WorkerId(at as u16));
                        self.feed(usize::from(to.0), worker::Input::Message { from, message });
                    }
                    worker::Action::Send { to: Node::Worker(_), .. } | worker::Action::Discard(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn deploy(&mut self, app: &str, waiter: &'static str) {
        let component =
            Component { name: "c".into(), digest: Digest([app.len() as u8; 32]), size: 1, sdk: String::new() };
        let control = Control::Deploy(Deployment {
            id: format!("dp_{app}"),
            app: app.into(),
            created: Timestamp(1),
            components: vec![component],
            operators: Vec::new(),
            limits: Limits::default(),
            interface: Default::default(),
        });
        self.step(Event::Deploy { control, waiter });
        self.advance();
    }

    fn part(&mut self, worker: u16, epoch: u64) {
        let (node, generation) = (self.members[usize::from(worker)].node, self.generation);
        let part =
            WrittenPart { epoch: Epoch(epoch), objects: vec![worker as u8], hashes: Vec::new(), carried: Vec::new() };
        self.envelope(node, Envelope::PartWritten { generation, part });
    }

    /// Who was told that a deployment is done.
    fn deployed(&self) -> Vec<&'static str> {
        let done = |effect: &Effect<&'static str, &'static str>| match effect {
            Effect::Answer(waiter, Answer::Controlled(Ok(()))) => Some(*waiter),
            _ => None,
        };
        self.effects.iter().filter_map(done).collect()
    }

    fn has(&self, what: impl Fn(&Effect<&'static str, &'static str>) -> bool) -> bool {
        self.effects.iter().any(what)
    }
}

#[test]
fn a_deployment_is_sequenced_when_all_workers_have_compiled_it_and_told_when_gateways_know_it() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.slow_compilers = true;
    rig.envelope(GATEWAY, Envelope::Watch { known: CatalogVersion::default() });
    rig.deploy("shop", "admin");
    let digest = Digest([4; 32]);
    rig.envelope(NodeId(11), Envelope::ComponentPrepared(digest, Ok(())));
    rig.advance();
    assert!(rig.log.is_empty(), "a worker still compiles");
    rig.envelope(NodeId(12), Envelope::ComponentPrepared(digest, Ok(())));
    rig.advance();
    assert_eq!(rig.log.len(), 1);
    assert_eq!(rig.deployed(), [""; 0], "the gateway knows the catalog before it only");
    let known = CatalogVersion::of(rig.driver.leader.as_ref().unwrap().catalog());
    rig.envelope(GATEWAY, Envelope::Watch { known });
    assert_eq!(rig.deployed(), ["admin"]);
}

#[test]
fn what_several_workers_ended_of_is_set_aside_once_before_a_generation_begins() {
    let _transcript = scenario!("coordinator");
    let suspect = |lives| Suspect {
        request: RequestId(7),
        app: "shop".into(),
        function: "pay".into(),
        lives,
        said: Some("boom".into()),
        app_set_aside: false,
    };
    let subject = Subject::Request(RequestId(7));
    let logged = |rig: &Rig| {
        let controls = rig.log.iter().flat_map(|record| record.controls.iter());
        controls.filter(|control| matches!(control, Control::Quarantine(one) if one.subject == subject)).count()
    };
    let mut rig = Rig::new(config(false), Leadership::Forever);
    rig.suspects.insert(NodeId(11), vec![suspect(1)]);
    rig.suspects.insert(NodeId(12), vec![suspect(1)]);
    rig.beats(4);
    assert!(rig.driver.leader.as_ref().unwrap().serves());

    // The third death is told of, and before the log says what comes of it the generation is over.
    rig.slow_workers = true;
    rig.suspects.insert(NodeId(12), vec![suspect(2)]);
    rig.beats(2);
    assert_eq!(logged(&rig), 0);
    rig.slow_workers = false;
    rig.driver.suspects.insert(NodeId(13), vec![suspect(1)]);
    let gone = NetworkEvent::Unreached { peer: NodeId(12), gone: true, why: "killed".into() };
    rig.step(Event::Network(gone));
    rig.beats(4);
    assert!(rig.driver.leader.as_ref().unwrap().serves());
    assert_eq!(logged(&rig), 1, "the next generation begins with it, though nobody has said anything new");
    assert!(rig.log[0].controls.iter().any(|control| matches!(control, Control::Quarantine(_))));
    let silent = rig.driver.suspects.get(&NodeId(13));
    assert!(silent.is_none_or(Vec::is_empty), "who does not come back says nothing any more of what is set aside");
    assert!(rig.driver.leader.as_ref().unwrap().catalog().quarantine().get(&subject).is_some());

    // What is said again adds nothing, and once it is released, only what ends a process then counts.
    rig.suspects.insert(NodeId(11), vec![suspect(2)]);
    rig.beats(4);
    assert_eq!(logged(&rig), 1);
    rig.suspects.clear();
    rig.beats(1);
    rig.step(Event::Deploy { control: Control::Release(subject.clone()), waiter: "admin" });
    rig.suspects.insert(NodeId(11), vec![suspect(2)]);
    rig.beats(4);
    assert_eq!(logged(&rig), 1);
    assert!(rig.driver.leader.as_ref().unwrap().catalog().quarantine().is_empty());
}

#[test]
fn a_worker_that_is_connected_anew_is_told_again_what_it_has_not_compiled() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.slow_compilers = true;
    rig.deploy("shop", "admin");
    rig.envelope(NodeId(11), Envelope::ComponentPrepared(Digest([4; 32]), Ok(())));
    rig.effects.clear();
    for (node, restarted) in [(11, true), (12, false), (12, true)] {
        rig.step(Event::Network(NetworkEvent::Connected { peer: NodeId(node), restarted }));
        let told =
            rig.has(|effect| matches!(effect, Effect::SendControl { envelope: Envelope::PrepareComponent(_), .. }));
        assert_eq!(told, (node, restarted) == (12, true), "{node} {restarted}");
    }
}

#[test]
fn members_are_told_where_the_others_are_and_gateways_when_the_log_is_full() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    assert_eq!(rig.addresses, [NodeId(11), NodeId(12)].map(|node| format!("host:{node}")));
    rig.envelope(GATEWAY, Envelope::Watch { known: CatalogVersion::default() });
    let shown = |rig: &mut Rig, full: bool| {
        rig.effects.clear();
        rig.step(Event::LogCondition(LogCondition { full, ..LogCondition::default() }));
        let views = rig.effects.iter().filter_map(|effect| match effect {
            Effect::SendControl { to: GATEWAY, envelope: Envelope::View(view) } => Some(view.full),
            _ => None,
        });
        views.collect::<Vec<_>>()
    };
    assert_eq!(shown(&mut rig, false), [] as [bool; 0], "it was not full before");
    assert_eq!(shown(&mut rig, true), [true]);
    assert_eq!(shown(&mut rig, false), [false]);
}

#[test]
fn gateways_are_told_whose_state_is_full_and_when_there_is_room_again() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.envelope(GATEWAY, Envelope::Watch { known: CatalogVersion::default() });
    let shown = |rig: &mut Rig, of_one: u64, of_other: u64| {
        rig.effects.clear();
        for (node, bytes) in [(11, of_one), (12, of_other)] {
            let holdings = Holdings { bytes, most: 2000, apps: vec![("shop".into(), bytes)] };
            rig.holdings.insert(NodeId(node), holdings);
        }
        rig.beats(2);
        let views = rig.effects.iter().filter_map(|effect| match effect {
            Effect::SendControl { to: GATEWAY, envelope: Envelope::View(view) } => Some(view.state.clone()),
            _ => None,
        });
        let views: Vec<Full> = views.collect();
        let own = rig.effects.iter().filter_map(|effect| match effect {
            Effect::Full(full) => Some(full.clone()),
            _ => None,
        });
        assert_eq!(own.collect::<Vec<_>>(), views, "here as well");
        views
    };
    assert_eq!(shown(&mut rig, 600, 300), []);
    let of_shop = Full { all: false, apps: vec!["shop".into()] };
    assert_eq!(shown(&mut rig, 600, 400), std::slice::from_ref(&of_shop), "both together");
    assert_eq!(shown(&mut rig, 600, 400), [], "it is known");
    assert_eq!(shown(&mut rig, 2000, 400), [Full { all: true, ..of_shop }]);
    assert_eq!(shown(&mut rig, 100, 100), [Full::default()]);
}

#[test]
fn what_is_asked_of_the_coordinator_itself_goes_to_the_workers() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.step(Event::Client(ClientMessage::Read(AdminQuery::Workers, "reader")));
    rig.advance();
    let mut asked: Vec<NodeId> = rig
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Ask { to, queries } if queries.len() == 1 => Some(*to),
            _ => None,
        })
        .collect();
    asked.sort();
    assert_eq!(asked, [NodeId(11), NodeId(12)], "{:?}", rig.effects);

    // What could not be sent is asked again.
    let undelivered = rig.effects.drain(..).find_map(|effect| match effect {
        Effect::Ask { to: NodeId(12), queries } => Some(queries),
        _ => None,
    });
    rig.advance();
    assert!(!rig.has(|effect| matches!(effect, Effect::Ask { .. })), "both are on their way: {:?}", rig.effects);
    rig.step(Event::Undelivered(undelivered.unwrap()));
    rig.beats(40);
    let again = |effect: &Effect<_, _>| matches!(effect, Effect::Ask { to: NodeId(12), queries } if queries.len() == 1);
    assert!(rig.has(again), "{:?}", rig.effects);
}

#[test]
fn a_deployment_waits_neither_for_a_gateway_that_is_silent_nor_for_one_for_ever() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.envelope(GATEWAY, Envelope::Watch { known: CatalogVersion::default() });
    rig.deploy("shop", "first");
    rig.beats(99);
    assert_eq!(rig.deployed(), [""; 0]);
    rig.beats(3);
    assert_eq!(rig.deployed(), ["first"], "after a second");
    rig.beats(200);
    rig.deploy("other", "second");
    assert_eq!(rig.deployed(), ["first", "second"], "nobody has heard of the gateway for three seconds");
}

#[test]
fn a_deployment_that_a_worker_cannot_compile_fails_and_the_next_one_goes_on() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.slow_compilers = true;
    rig.deploy("shop", "broken");
    rig.deploy("other", "good");
    rig.envelope(NodeId(11), Envelope::ComponentPrepared(Digest([4; 32]), Err("no memory".into())));
    assert!(rig.has(|effect| matches!(effect, Effect::Answer("broken", Answer::Controlled(Err(abort))) if abort.message.contains("no memory"))));
    for node in [11, 12] {
        rig.envelope(NodeId(node), Envelope::ComponentPrepared(Digest([5; 32]), Ok(())));
    }
    rig.advance();
    assert_eq!(rig.deployed(), ["good"]);
}

#[test]
fn who_is_silent_about_a_component_is_told_again_and_not_waited_for_for_ever() {
    let _transcript = scenario!("coordinator");
    let timing = Timing { prepare_max: Duration::from_secs(7), ..Timing::default() };
    let mut rig = Rig::new(CoordinatorConfig { timing, ..config(false) }, Leadership::Forever);
    rig.beats(4);
    rig.slow_compilers = true;
    rig.deploy("shop", "admin");
    rig.envelope(NodeId(11), Envelope::ComponentPrepared(Digest([4; 32]), Ok(())));
    rig.effects.clear();
    let told = |rig: &Rig| -> Vec<NodeId> {
        let told = rig.effects.iter().filter_map(|effect| match effect {
            Effect::SendControl { to, envelope: Envelope::PrepareComponent(_) } => Some(*to),
            _ => None,
        });
        told.collect()
    };
    rig.beats(499);
    assert_eq!(told(&rig), []);
    rig.beats(5);
    assert_eq!(told(&rig), [NodeId(12)]);
    let failed = |effect: &Effect<_, _>| matches!(effect, Effect::Answer("admin", Answer::Controlled(Err(abort))) if abort.code == Code::Overloaded);
    rig.beats(190);
    assert!(!rig.has(failed));
    rig.beats(10);
    assert!(rig.has(failed), "{:?}", rig.effects);
    assert_eq!(rig.driver.under_way(), 0);
}

#[test]
fn a_gateway_that_is_silent_for_long_is_gone() {
    let _transcript = scenario!("coordinator");
    let timing = Timing { gateway_gone: Duration::from_secs(4), ..Timing::default() };
    let mut rig = Rig::new(CoordinatorConfig { timing, ..config(false) }, Leadership::Forever);
    rig.beats(4);
    rig.envelope(GATEWAY, Envelope::Watch { known: CatalogVersion::default() });
    rig.effects.clear();
    rig.beats(399);
    assert!(rig.effects.is_empty(), "{:?}", rig.effects);
    rig.beats(5);
    assert!(matches!(rig.effects[..], [Effect::Forget(GATEWAY)]), "once: {:?}", rig.effects);
}

#[test]
fn a_worker_that_has_deployed_something_else_is_told_what_to_do_and_no_member_any_more() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.other_deployments = Some(NodeId(12));
    let generation = rig.generation;
    rig.deploy("shop", "admin");
    let refused = rig.effects.iter().find_map(|effect| match effect {
        Effect::SendControl { to: NodeId(12), envelope: Envelope::Refused(why) } => Some(why.clone()),
        _ => None,
    });
    assert!(refused.is_some_and(|why| why.contains("empty data directory")), "{:?}", rig.effects);
    rig.nodes.retain(|node| *node != NodeId(12));
    rig.beats(4);
    let leader = rig.driver.leader.as_ref().unwrap();
    assert_eq!((leader.generation(), leader.nodes()), (generation.next(), vec![NodeId(11)]));
}

#[test]
fn the_log_is_read_once_all_members_are_ready_for_it_and_nobody_else_counts() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::new(config(false), Leadership::Forever);
    rig.slow_joins = true;
    rig.beats(4);
    let generation = rig.generation;
    for node in [NodeId(40), NodeId(11), NodeId(11)] {
        rig.envelope(node, Envelope::Joined { generation });
        assert_eq!(rig.reading, None, "{node}");
    }
    rig.envelope(NodeId(12), Envelope::Joined { generation });
    assert_eq!(rig.reading, Some((generation, 0)));
}

#[test]
fn a_deployment_is_told_when_it_is_durable_and_epochs_fill_while_two_wait_for_the_log() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.slow_log = true;
    rig.deploy("a", "first");
    rig.deploy("bb", "second");
    assert_eq!((rig.log.len(), rig.deployed()), (2, vec![]));
    rig.deploy("ccc", "third");
    assert_eq!(rig.log.len(), 2, "two epochs wait for one fsync: the next one fills");
    let due = rig.driver.due(rig.now);
    assert_eq!(due.since(rig.now.monotonic), Duration::from_millis(1));
    rig.now.monotonic = due;
    rig.advance();
    assert_eq!(rig.log.len(), 3);
    rig.sync();
    assert_eq!(rig.deployed(), ["first", "second", "third"]);
}

#[test]
fn a_leader_whose_lease_has_run_out_says_nothing_until_it_is_renewed() {
    let _transcript = scenario!("coordinator");
    let lease = Instant(60_000);
    let mut rig = Rig::new(config(false), Leadership::Until(lease));
    rig.beats(4);
    assert!(rig.driver.leader.as_ref().is_some_and(|leader| leader.serves()));
    rig.now.monotonic = lease;
    rig.effects.clear();
    let beats = rig.heard.clone();
    rig.step(Event::Client(ClientMessage::Read(AdminQuery::Cluster, "reader")));
    rig.deploy("shop", "admin");
    rig.beats(3);
    assert!(rig.effects.is_empty() && rig.log.is_empty(), "{:?}", rig.effects);
    assert_eq!(rig.heard, beats);
    assert!(rig.driver.due(rig.now) > rig.now.monotonic, "nobody spins meanwhile");

    let until = rig.now.monotonic.after(Duration::from_secs(1));
    rig.step(Event::LeaseHeld { until });
    rig.advance();
    assert!(rig.has(|effect| matches!(effect, Effect::Respond("reader", Response::Cluster(_)))));
    assert_eq!(rig.deployed(), ["admin"], "what has happened meanwhile is done now");

    rig.effects.clear();
    rig.step(Event::LeaseLost);
    rig.step(Event::LeaseHeld { until: until.after(Duration::from_secs(9)) });
    rig.deploy("other", "late");
    assert!(matches!(rig.effects[..], [Effect::End]), "{:?}", rig.effects);
}

#[test]
fn a_manifest_is_put_when_the_log_is_durable_and_the_log_trimmed_when_the_store_has_said_how_far() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(true);
    assert!(rig.driver.leader.as_ref().unwrap().takes_snapshots());
    rig.slow_log = true;
    rig.deploy("shop", "admin");
    rig.step(Event::TakeSnapshot { waiter: "keeper" });
    rig.part(0, 1);
    rig.part(1, 1);
    let put = |effect: &Effect<_, _>| matches!(effect, Effect::PutManifest(_));
    assert!(!rig.has(put), "epoch 1 is not durable");
    rig.sync();
    assert!(rig.has(put));
    let generation = rig.generation;
    let result = Ok(ManifestPut { sequence: 1, bytes: 2, written_bytes: 2 });
    rig.step(Event::ManifestPut { generation, result });
    assert!(rig.has(|effect| matches!(effect, Effect::SnapshotAnswer { waiter: "keeper", result: Ok(_) })));
    assert!(!rig.has(|effect| matches!(effect, Effect::TrimLog(_))));
    rig.step(Event::Maintained { generation, result: Ok(Some(LogPosition(1))) });
    assert!(rig.has(|effect| matches!(effect, Effect::TrimLog(LogPosition(1)))));
}

#[test]
fn a_worker_that_has_written_what_is_not_its_own_is_given_up() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(true);
    rig.deploy("shop", "admin");
    rig.step(Event::TakeSnapshot { waiter: "keeper" });
    let (node, generation) = (rig.members[0].node, rig.generation);
    let hashes = vec![(PartitionId(LAYOUT.partitions as u16), StateHash(7))];
    let part = WrittenPart { epoch: Epoch(1), objects: Vec::new(), hashes, carried: Vec::new() };
    rig.envelope(node, Envelope::PartWritten { generation, part });
    assert!(rig.has(|effect| matches!(effect, Effect::PeerError)));
    assert!(!rig.has(|effect| matches!(effect, Effect::PutManifest(_))));
}

/// The owners may have changed since, and what it says again is on its way for long.
#[test]
fn what_a_worker_says_again_of_a_snapshot_that_there_is_is_not_held_against_it() {
    let mut rig = Rig::live(true);
    rig.deploy("shop", "admin");
    rig.step(Event::TakeSnapshot { waiter: "keeper" });
    rig.part(0, 1);
    rig.part(1, 1);
    let (node, generation) = (rig.members[0].node, rig.generation);
    rig.step(Event::ManifestPut { generation, result: Ok(ManifestPut { sequence: 1, bytes: 2, written_bytes: 2 }) });
    let foreign = vec![(PartitionId(LAYOUT.partitions as u16), StateHash(7))];
    let part = WrittenPart { epoch: Epoch(1), objects: Vec::new(), hashes: foreign, carried: Vec::new() };
    rig.envelope(node, Envelope::PartWritten { generation, part });
    assert!(!rig.has(|effect| matches!(effect, Effect::PeerError)));
}

#[test]
fn what_the_store_says_to_a_generation_that_is_over_is_not_heard() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(true);
    rig.deploy("shop", "admin");
    rig.step(Event::TakeSnapshot { waiter: "keeper" });
    rig.part(0, 1);
    rig.part(1, 1);
    let old = rig.generation;
    let why = "cable".to_owned();
    rig.step(Event::Network(NetworkEvent::Unreached { peer: NodeId(12), gone: true, why }));
    assert!(rig.has(|effect| matches!(effect, Effect::SnapshotAnswer { waiter: "keeper", result: Err(_) })));
    assert!(rig.has(|effect| matches!(effect, Effect::EndSnapshots)));
    rig.beats(4);
    assert!(rig.generation > old);
    rig.effects.clear();
    let put = Ok(ManifestPut { sequence: 1, bytes: 2, written_bytes: 2 });
    rig.step(Event::ManifestPut { generation: old, result: put });
    rig.step(Event::Maintained { generation: old, result: Ok(Some(LogPosition(2))) });
    rig.step(Event::Synced { generation: old, epoch: Epoch(9), position: LogPosition(99) });
    assert!(rig.effects.is_empty(), "{:?}", rig.effects);
}

#[test]
fn a_log_is_replayed_by_the_next_generation_before_it_serves() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.deploy("shop", "admin");
    rig.deploy("other", "admin");
    let before = rig.driver.leader.as_ref().unwrap().position();
    let why = "gone".to_owned();
    rig.step(Event::Network(NetworkEvent::Unreached { peer: NodeId(11), gone: true, why }));
    rig.beats(4);
    let leader = rig.driver.leader.as_ref().unwrap();
    assert!(leader.serves() && leader.generation() == Generation(2));
    assert_eq!((leader.position(), rig.reading), (before, Some((Generation(2), 3))));
}

#[test]
fn a_generation_that_ends_amid_its_replay_leaves_the_log_to_the_next_one() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.deploy("shop", "admin");
    rig.slow_reads = true;
    let lose = |node| NetworkEvent::Unreached { peer: NodeId(node), gone: true, why: "gone".to_owned() };
    rig.step(Event::Network(lose(11)));
    rig.beats(4);
    assert!(rig.log_is_busy && rig.driver.leader.as_ref().is_some_and(|leader| !leader.serves()));
    rig.slow_reads = false;
    rig.step(Event::Network(lose(12)));
    rig.beats(4);
    assert!(rig.driver.leader.as_ref().is_some_and(|leader| leader.serves()), "{:?}", rig.driver.leader);
}

#[test]
fn a_worker_that_cannot_be_understood_in_its_generation_ends_it_and_anybody_elses_noise_is_dropped() {
    let _transcript = scenario!("coordinator");
    for (from, unreadable, ends) in [(11, true, true), (11, false, false), (100, true, false)] {
        let mut rig = Rig::live(false);
        let (from, generation) = (NodeId(from), rig.generation);
        let event = if unreadable {
            NetworkEvent::Message { from, generation, message: Err("noise".into()) }
        } else {
            NetworkEvent::Control { from, message: Ok(Box::new(Envelope::Released)) }
        };
        rig.step(Event::Network(event));
        assert_eq!(rig.generation > generation, ends, "{from} {unreadable}");
        assert!(!rig.has(|effect| matches!(effect, Effect::Halt(_))));
    }
    let mut rig = Rig::live(true);
    rig.deploy("shop", "admin");
    rig.part(0, 7);
    assert_eq!(rig.generation, Generation(2), "nobody has begun a snapshot of epoch 7");
}

#[test]
fn who_is_told_to_stop_drains_takes_a_snapshot_and_waits_until_all_is_delivered() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(true);
    rig.deploy("shop", "admin");
    rig.step(Event::Stop);
    rig.advance();
    // Workers say first what is left.
    rig.advance();
    rig.part(0, 1);
    rig.part(1, 1);
    assert!(!rig.has(|effect| matches!(effect, Effect::AwaitDelivery(_))));
    let generation = rig.generation;
    let put = Ok(ManifestPut { sequence: 1, bytes: 2, written_bytes: 2 });
    rig.step(Event::ManifestPut { generation, result: put });
    rig.advance();
    assert!(rig.has(|effect| matches!(effect, Effect::AwaitDelivery(nodes) if nodes.len() == 2)));
    assert!(!rig.has(|effect| matches!(effect, Effect::End)));
    rig.step(Event::Delivered);
    assert!(rig.has(|effect| matches!(effect, Effect::End)));
}

fn found(epoch: u64) -> SnapshotFound {
    let header = SnapshotHeader {
        generation: Generation(0),
        epoch: Epoch(epoch),
        chain: Default::default(),
        time: Timestamp(1),
        highest: Default::default(),
        catalog: Catalog::default().image(),
        seating: None,
    };
    let partitions = LAYOUT.partitions;
    SnapshotFound { sequence: epoch, log_position: LogPosition(1), header, partitions, carried: Vec::new() }
}

#[test]
fn a_snapshot_that_a_worker_finds_damaged_is_not_begun_with_again() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::new(config(true), Leadership::Forever);
    rig.store = [Ok(Some(found(9))), Ok(Some(found(5))), Ok(None)].into();
    rig.beats(4);
    for (damaged, expected) in [(true, Some(Epoch(9))), (true, Some(Epoch(5))), (false, Some(Epoch(5)))] {
        let (from, generation) = (rig.members[0].node, rig.generation);
        rig.envelope(from, Envelope::RestoreFailed { generation, why: "a flipped bit".into(), damaged });
        rig.beats(4);
        assert_eq!(rig.found_before.last(), Some(&expected));
    }
}

#[test]
fn a_store_that_does_not_answer_is_asked_again_before_a_generation_begins() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::new(config(true), Leadership::Forever);
    let failure = || Err(StoreFailure::Unavailable("no answer".into()));
    rig.store = [failure(), failure(), Ok(None)].into();
    rig.beats(4);
    assert_eq!((rig.generation, rig.found_before.len()), (Generation(0), 1));
    rig.beats(101);
    assert_eq!((rig.generation, rig.found_before.len()), (Generation(0), 2));
    rig.beats(101);
    assert_eq!((rig.generation, rig.found_before.len()), (Generation(1), 3));
}

#[test]
fn without_a_snapshot_that_can_be_read_or_with_one_from_behind_the_log_nobody_goes_on() {
    let _transcript = scenario!("coordinator");
    let behind = SnapshotFound { log_position: LogPosition(2), ..found(1) };
    for answer in [Err(StoreFailure::Damaged("a flipped bit".into())), Ok(Some(behind))] {
        let mut rig = Rig::new(config(true), Leadership::Forever);
        rig.store = [answer].into();
        rig.beats(4);
        assert!(rig.has(|effect| matches!(effect, Effect::Halt(_))));
        assert_eq!(rig.generation, Generation(0));
    }
}

#[test]
fn a_deployment_whose_generation_ends_before_it_is_durable_is_not_waited_for_for_ever() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    rig.slow_compilers = true;
    rig.deploy("shop", "admin");
    for worker in [11, 12] {
        rig.envelope(NodeId(worker), Envelope::ComponentPrepared(Digest([4; 32]), Ok(())));
    }
    let is_unknown = |effect: &Effect<&'static str, &'static str>| {
        matches!(effect, Effect::Answer("admin", Answer::Failed(Failure::OutcomeUnknown)))
    };
    assert!(!rig.has(is_unknown));
    let why = "gone".to_owned();
    rig.step(Event::Network(NetworkEvent::Unreached { peer: NodeId(12), gone: true, why }));
    assert!(rig.has(is_unknown), "{:?}", rig.effects);
}

/// What is shown of the newest migration.
fn shown(rig: &Rig) -> Option<MigrationReport> {
    let shown = |effect: &Effect<_, _>| match effect {
        Effect::ShowMigrations(migrations) => migrations.reports.last().cloned(),
        _ => None,
    };
    rig.effects.iter().rev().find_map(shown)
}

fn paces(rig: &mut Rig) -> Vec<(NodeId, CopyPace)> {
    let paces = rig.effects.iter().filter_map(|effect| match effect {
        Effect::SendControl { to, envelope: Envelope::CopyPace { pace, .. } } => Some((*to, *pace)),
        _ => None,
    });
    let paces = paces.collect();
    rig.effects.retain(|effect| !matches!(effect, Effect::SendControl { .. }));
    paces
}

#[test]
fn a_migration_is_told_of_paused_cancelled_and_ended_by_its_generation() {
    let _transcript = scenario!("coordinator");
    let mut rig = Rig::live(false);
    let nodes: Vec<NodeId> = rig.members.iter().map(|member| member.node).collect();
    // What is to leave leaves only when it is allowed.
    rig.members.iter_mut().for_each(|member| member.machine.copy_as_allowed());
    let goal = || Goal::Empty(nodes[0]);
    let refused = |rig: &Rig, who: &str| {
        rig.effects.iter().find_map(|effect| match effect {
            Effect::Answer(waiter, Answer::Controlled(Err(abort))) if *waiter == who => Some(abort.message.clone()),
            _ => None,
        })
    };
    let generation = rig.generation;
    let early = MigrationOptions { planned_on: Some((generation, PlacementVersion(9))), ..Default::default() };
    rig.step(Event::Migrate { goal: goal(), options: early, gains: vec![], waiter: Some("early") });
    assert_eq!(refused(&rig, "early").as_deref(), Some(PLACEMENT_CHANGED));
    assert_eq!(shown(&rig), None);

    let planned_on = Some((generation, PlacementVersion::FIRST));
    let options =
        MigrationOptions { ticket: 5, planned_on, rate: Some(100), wait: false, ..MigrationOptions::default() };
    rig.step(Event::Migrate { goal: goal(), options, gains: vec![], waiter: Some("first") });
    assert_eq!(rig.deployed(), ["first"], "it has begun");
    let begun = shown(&rig).unwrap();
    assert_eq!((begun.ticket, begun.id, begun.rate), (5, MigrationId { generation, number: 1 }, Some(100)));
    assert_eq!((begun.state, begun.partitions.of), (MigrationState::Copying, 2));
    let slow = CopyPace { rate: Some(100), paused: false };
    assert_eq!(paces(&mut rig), [(nodes[0], slow), (nodes[1], slow)]);
    rig.step(Event::Migrate {
        goal: Goal::Balance,
        options: Default::default(),
        gains: vec![],
        waiter: Some("second"),
    });
    assert!(refused(&rig, "second").is_some());
    assert_eq!(paces(&mut rig), [], "one that is refused does not change how fast the other is");
    rig.beats(1);
    assert_eq!(paces(&mut rig), [(NodeId(11), slow), (NodeId(12), slow)], "it is said again");

    rig.step(Event::PaceMigration { change: PaceChange::Pause, waiter: None });
    assert_eq!(shown(&rig).unwrap().state, MigrationState::Paused);
    assert!(paces(&mut rig).iter().all(|(_, pace)| pace.paused));
    rig.step(Event::CancelMigration { waiter: None });
    assert_eq!(shown(&rig).unwrap().state, MigrationState::Cancelled);
    rig.step(Event::PaceMigration { change: PaceChange::Resume, waiter: Some("late") });
    assert!(refused(&rig, "late").is_some());
    rig.beats(1);
    assert_eq!(paces(&mut rig), []);

    rig.step(Event::Migrate {
        goal: goal(),
        options: MigrationOptions { wait: false, ..options },
        gains: vec![],
        waiter: None,
    });
    let gone = NetworkEvent::Unreached { peer: nodes[1], gone: true, why: "killed".into() };
    rig.step(Event::Network(gone));
    let ended = shown(&rig).unwrap();
    assert_eq!(ended.id.number, 2);
    assert!(matches!(ended.state, MigrationState::Failed(_)), "{ended:?}");
}
