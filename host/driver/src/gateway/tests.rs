mod everything;

use std::sync::Arc;

use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::Digest;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{EngineHash, Epoch, Generation, OperatorId, PlacementVersion, RequestId, WorkerId};
use styx_protocol::machine::worker::ClientRequest;
use styx_protocol::placement::Placement;
use styx_protocol::route::memory_of;
use styx_protocol::transaction::Request;
use styx_transcript::{did, scenario, told};

use super::router::{ADMIN_PATIENCE, GRACE, REVIEW};
use super::*;
use crate::admission::LogCondition;
use crate::client::Failure;
use crate::fullness::Full;
use crate::testing::shop;
use crate::wire::{AdminQuery, Bytes, Member, Overview, Reply, TicketedResponse, View, WorkerStatus};

const LAYOUT: Layout = Layout::new(7, 8);
const WORKERS: [NodeId; 2] = [NodeId(10), NodeId(20)];

/// A gateway and everything around it. Clients are numbers, and so are those who wait for admin queries.
struct Rig {
    gateway: GatewayDriver<u64, u64>,
    now: Instant,
    clients: u64,
    unreachable: Vec<NodeId>,
    connected: Vec<NodeId>,
    asked: Vec<(NodeId, Query)>,
    sent: Vec<Envelope>,
    answers: Vec<(u64, Answer)>,
    responses: Vec<(u64, Response)>,
    admitted: Option<(LogCondition, Full)>,
    informed: u32,
    peer_errors: u32,
}

impl Rig {
    fn new(backlog_max: usize) -> Rig {
        Rig {
            gateway: GatewayDriver::new(Instant(1), vec!["a:1".into()], backlog_max),
            now: Instant(1),
            clients: 0,
            unreachable: Vec::new(),
            connected: Vec::new(),
            asked: Vec::new(),
            sent: Vec::new(),
            answers: Vec::new(),
            responses: Vec::new(),
            admitted: None,
            informed: 0,
            peer_errors: 0,
        }
    }

    /// A rig whose cluster serves.
    fn live() -> Rig {
        let mut rig = Rig::new(100);
        rig.view(view(1, true, &WORKERS));
        rig
    }

    fn step(&mut self, event: GatewayEvent<u64, u64>) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            told(&(self.now.0, &event));
            let mut effects = Vec::new();
            self.gateway.step(self.now, event, &mut effects);
            for effect in effects {
                did(&effect);
                match effect {
                    GatewayEffect::Ask { to, queries } if self.unreachable.contains(&to) => {
                        events.push(GatewayEvent::Undelivered { to, queries });
                    }
                    GatewayEffect::Ask { to, queries } => {
                        // As they arrive.
                        let bytes = Envelope::Queries(queries).encode();
                        let Ok(Envelope::Queries(queries)) = Envelope::decode(&bytes) else { panic!("{bytes:?}") };
                        self.asked.extend(queries.into_iter().map(|query| (to, query)));
                    }
                    GatewayEffect::Send(envelope) => self.sent.push(envelope),
                    GatewayEffect::Connect { node, .. } => self.connected.push(node),
                    GatewayEffect::Disconnect(node) => self.connected.retain(|connected| *connected != node),
                    GatewayEffect::Answer(client, answer) => self.answers.push((client, answer)),
                    GatewayEffect::Respond(client, response) => self.responses.push((client, response)),
                    GatewayEffect::Admit(condition, full) => self.admitted = Some((condition, full)),
                    GatewayEffect::Informed => self.informed += 1,
                    GatewayEffect::PeerError => self.peer_errors += 1,
                    GatewayEffect::Catalog(_) | GatewayEffect::Redirect(_) | GatewayEffect::Diagnostic(_) => {}
                }
            }
        }
    }

    fn view(&mut self, view: View) {
        self.control(COORDINATOR, Envelope::View(view));
    }

    fn control(&mut self, from: NodeId, envelope: Envelope) {
        self.step(GatewayEvent::Network(NetworkEvent::Control { from, message: Ok(Box::new(envelope)) }));
    }

    fn respond(&mut self, from: NodeId, ticket: u64, response: Response) {
        self.control(from, Envelope::Responses(vec![TicketedResponse { ticket, response }]));
    }

    fn client(&mut self, message: impl FnOnce(u64) -> ClientMessage<u64, u64>) -> u64 {
        self.clients += 1;
        self.step(GatewayEvent::Client(message(self.clients)));
        self.clients
    }

    fn submit(&mut self, id: u128, key: &str, retained: bool) -> u64 {
        let request = Arc::new(request(id, key, retained));
        self.client(|waiter| ClientMessage::Request(ClientRequest::Submit { request, waiter, receipt: false }))
    }

    fn query(&mut self, key: &str) -> u64 {
        let request = Arc::new(request(1, key, false));
        self.client(|waiter| ClientMessage::Request(ClientRequest::Query { request, waiter }))
    }

    fn read(&mut self, query: AdminQuery) -> u64 {
        self.client(|client| ClientMessage::Read(query, client))
    }

    /// What was asked since it was looked at last.
    fn pass(&mut self) -> Vec<(NodeId, Query)> {
        self.step(GatewayEvent::Settled);
        std::mem::take(&mut self.asked)
    }

    fn later(&mut self, time: Duration) -> Vec<(NodeId, Query)> {
        self.now = self.now.after(time);
        self.step(GatewayEvent::Tick);
        self.pass()
    }

    /// What a client was told, in a word.
    fn word(&self, client: u64) -> &'static str {
        let mut told = self.answers.iter().filter(|(told, _)| *told == client);
        let answer = told.next().map(|(_, answer)| answer);
        assert!(told.next().is_none(), "told once");
        match answer {
            None => "nothing",
            Some(Answer::Reply(reply)) => match &reply.outcome {
                Ok(_) => "reply",
                Err(abort) => abort.code.as_str(),
            },
            Some(Answer::Failed(Failure::Unavailable)) => "unavailable",
            Some(Answer::Failed(Failure::OutcomeUnknown)) => "unknown outcome",
            Some(_) => "something else",
        }
    }

    fn response(&self, client: u64) -> Option<Response> {
        self.responses.iter().find(|(told, _)| *told == client).map(|(_, response)| response.clone())
    }
}

fn request(id: u128, key: &str, retained: bool) -> Request {
    let (id, operator) = (RequestId(id), OperatorId(0));
    Request { id, operator, function: "f".into(), key: key.into(), args: b"[]"[..].into(), retained, origin: None }
}

fn view(generation: u64, live: bool, members: &[NodeId]) -> View {
    let member = |node: &NodeId| Member { node: *node, address: format!("127.0.0.1:{}", node.0) };
    View {
        generation: Generation(generation),
        live,
        full: false,
        stalled: false,
        state: Full::default(),
        members: members.iter().map(member).collect(),
        placement: Placement::round_robin(LAYOUT.partitions, members.len() as u16),
        layout: LAYOUT,
        catalog: None,
    }
}

fn owner(key: &str) -> NodeId {
    WORKERS[usize::from(LAYOUT.partition(key, false).0 % 2)]
}

fn reply(id: u128) -> Response {
    let outcome = Ok(Bytes(b"1"[..].into()));
    Response::Reply(Reply { id: RequestId(id), tid: Default::default(), epoch: Epoch(3), outcome })
}

#[test]
fn questions_that_are_many_or_long_leave_before_they_are_flushed() {
    let mut rig = Rig::live();
    let long = Request { args: vec![b' '; 1 << 20].into(), ..request(1, "a", false) };
    rig.client(|waiter| ClientMessage::Request(ClientRequest::Query { request: Arc::new(long), waiter }));
    assert_eq!(rig.asked.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [owner("a")]);
    assert_eq!(rig.pass().len(), 1, "and not again");
}

#[test]
fn requests_go_to_their_worker_and_answers_to_their_client() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    let clients: Vec<u64> = ["a", "b", "c", "d"].iter().map(|key| rig.submit(1, key, false)).collect();
    let sent = rig.pass();
    let mut expect: Vec<_> = ["a", "b", "c", "d"].iter().map(|key| owner(key)).collect();
    expect.sort();
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), expect, "one batch to each");
    for (from, query) in &sent {
        // Somebody else's answer to it is not believed.
        let other = WORKERS[usize::from(*from == WORKERS[0])];
        rig.respond(other, query.ticket, reply(1));
    }
    assert!(clients.iter().all(|client| rig.word(*client) == "nothing"));
    for (from, query) in sent {
        rig.respond(from, query.ticket, reply(1));
    }
    assert!(clients.iter().all(|client| rig.word(*client) == "reply"));
}

#[test]
fn remembered_requests_go_where_they_are_remembered() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    let placement = Placement::round_robin(LAYOUT.partitions, 2);
    for id in 0..8 {
        rig.submit(id, "a", true);
        let memory = memory_of(RequestId(id), &LAYOUT, &placement);
        assert_eq!(rig.pass()[0].0, WORKERS[usize::from(memory.0)]);
    }
}

#[test]
fn a_new_generation_repeats_only_what_may_be_repeated() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    let (plain, keyed, read) = (rig.submit(1, "a", false), rig.submit(2, "a", true), rig.query("a"));
    assert_eq!(rig.pass().len(), 3);
    rig.view(view(2, false, &WORKERS));
    assert_eq!(rig.pass().len(), 0, "nobody is asked before the generation is live");
    rig.view(view(2, true, &WORKERS[..1]));
    let again = rig.pass();
    assert_eq!(again.len(), 2);
    for (to, query) in again {
        assert_eq!((to, query.generation), (WORKERS[0], Generation(2)));
        rig.respond(to, query.ticket, reply(2));
    }
    assert_eq!((rig.word(keyed), rig.word(read), rig.word(plain)), ("reply", "reply", "nothing"));
    assert!(rig.later(GRACE * 2).is_empty());
    assert_eq!(rig.word(plain), "unknown outcome");
    assert_eq!(*rig.connected.last().unwrap(), WORKERS[0]);
    assert!(!rig.connected.contains(&WORKERS[1]), "a node that is no longer a member is forgotten");
}

#[test]
fn what_a_worker_still_answers_counts() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    let (ended, refused) = (rig.submit(1, "a", false), rig.submit(2, "a", false));
    let sent = rig.pass();
    rig.view(view(2, true, &WORKERS));
    rig.respond(sent[0].0, sent[0].1.ticket, reply(1));
    rig.respond(sent[1].0, sent[1].1.ticket, Response::WrongGeneration);
    assert_eq!(rig.word(ended), "reply");
    // It was not carried out there, so it is carried out here.
    let again = rig.pass();
    assert_eq!((again.len(), again[0].1.generation), (1, Generation(2)));
    rig.respond(again[0].0, again[0].1.ticket, reply(2));
    assert_eq!(rig.word(refused), "reply");
}

#[test]
fn a_worker_that_is_ahead_is_asked_again_when_the_view_has_come() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    let client = rig.submit(1, "a", false);
    let (from, query) = rig.pass().remove(0);
    rig.respond(from, query.ticket, Response::WrongGeneration);
    assert!(rig.pass().is_empty(), "not at once, over and over");
    rig.view(view(2, true, &WORKERS));
    assert_eq!(rig.pass()[0].1.generation, Generation(2));
    assert_eq!(rig.word(client), "nothing");
}

#[test]
fn without_workers_requests_wait_within_bounds() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::new(2);
    let (first, second, third) = (rig.submit(1, "a", false), rig.submit(2, "a", true), rig.query("a"));
    assert!(rig.pass().is_empty());
    assert_eq!(rig.word(third), "OVERLOADED");
    assert!(rig.later(PATIENCE / 2).is_empty());
    assert_eq!((rig.word(first), rig.word(second)), ("nothing", "nothing"));
    assert!(rig.later(PATIENCE + REVIEW).is_empty());
    assert_eq!((rig.word(first), rig.word(second)), ("unavailable", "unavailable"));
}

#[test]
fn an_app_for_which_too_many_wait_keeps_no_other_out() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::new(32);
    let mut catalog = Catalog::default();
    catalog.apply(&Control::Deploy(shop(Digest([1; 32]))));
    rig.view(View { catalog: Some(catalog.image()), ..view(1, true, &WORKERS) });
    let ask = |rig: &mut Rig, operator| {
        let request = Arc::new(Request { operator: OperatorId(operator), ..request(1, "a", false) });
        rig.client(|waiter| ClientMessage::Request(ClientRequest::Query { request, waiter }))
    };
    let of_shop: Vec<u64> = (0..33).map(|_| ask(&mut rig, 0)).collect();
    let of_others: Vec<u64> = (0..3).map(|_| ask(&mut rig, 7)).collect();
    let refused = |rig: &Rig, all: &[u64]| all.iter().position(|client| rig.word(*client) == "OVERLOADED");
    assert_eq!((refused(&rig, &of_shop), refused(&rig, &of_others)), (Some(32), Some(2)), "one part in sixteen is few");
    for (from, query) in rig.pass() {
        rig.respond(from, query.ticket, reply(1));
    }
    let again = ask(&mut rig, 0);
    assert_eq!(rig.word(again), "nothing", "who has been answered waits no more");
}

#[test]
fn a_request_that_may_have_happened_never_ends_as_if_it_had_not() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    let keyed = rig.submit(1, "a", true);
    assert_eq!(rig.pass().len(), 1);
    rig.view(view(2, false, &WORKERS));
    assert!(rig.later(PATIENCE + REVIEW).is_empty());
    assert_eq!(rig.word(keyed), "unknown outcome");
}

#[test]
fn what_could_not_be_sent_is_sent_later() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    rig.unreachable.extend(WORKERS);
    let client = rig.submit(1, "a", false);
    assert!(rig.pass().is_empty());
    rig.unreachable.clear();
    assert_eq!(rig.later(REVIEW).len(), 1);
    assert_eq!(rig.word(client), "nothing");
}

#[test]
fn admin_queries_are_asked_of_all_and_their_answers_merged() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    let status = |worker: u16| WorkerStatus {
        worker: WorkerId(worker),
        epoch: Epoch(1),
        waiting: 0,
        remembered: 0,
        partitions: 4,
        entities: 2,
        bytes: 9,
        calls: 3,
        fuel: 4,
        busy_us: 5,
    };
    let workers = rig.read(AdminQuery::Workers);
    let sent = rig.pass();
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), WORKERS);
    // The second answers first; then a new generation begins, and all are asked again.
    rig.respond(WORKERS[1], sent[1].1.ticket, Response::Workers(vec![status(1)]));
    rig.view(view(2, true, &WORKERS));
    rig.respond(WORKERS[0], sent[0].1.ticket, Response::Workers(vec![status(0)]));
    assert_eq!(rig.response(workers), None);
    for (worker, (from, query)) in rig.pass().into_iter().enumerate() {
        rig.respond(from, query.ticket, Response::Workers(vec![status(worker as u16)]));
    }
    assert_eq!(rig.response(workers), Some(Response::Workers(vec![status(0), status(1)])));

    let one = rig.read(AdminQuery::Get { operator: 0, key: "a".into() });
    let sent = rig.pass();
    assert_eq!((sent.len(), sent[0].0), (1, owner("a")));
    let value = Response::Value { value: None, partition: 1, epoch: Epoch(1) };
    rig.respond(sent[0].0, sent[0].1.ticket, value.clone());
    assert_eq!(rig.response(one), Some(value));
}

#[test]
fn the_coordinator_is_asked_even_while_no_worker_serves() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::new(10);
    let (cluster, workers) = (rig.read(AdminQuery::Cluster), rig.read(AdminQuery::Workers));
    let (to, query) = rig.pass().remove(0);
    assert_eq!(to, COORDINATOR);
    let overview = Overview {
        single: false,
        generation: Generation(1),
        live: false,
        epoch: Epoch(0),
        chain: Default::default(),
        members: Vec::new(),
        placement: PlacementVersion(1),
        partitions: 8,
        created: 8,
        engine: EngineHash(1),
        admin: None,
    };
    rig.respond(to, query.ticket, Response::Cluster(overview.clone()));
    assert_eq!(rig.response(cluster), Some(Response::Cluster(overview)));
    assert!(rig.later(ADMIN_PATIENCE + REVIEW).is_empty());
    rig.view(view(1, true, &WORKERS));
    assert!(rig.pass().is_empty(), "whoever asked has gone");
    assert_eq!(rig.response(workers), None);
}

#[test]
fn a_view_that_contradicts_itself_or_is_old_changes_nothing() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    rig.view(View { members: Vec::new(), full: true, ..view(5, true, &WORKERS) });
    rig.view(View { layout: Layout::new(LAYOUT.seed, 9), ..view(5, true, &WORKERS) });
    rig.view(View { placement: Placement::round_robin(LAYOUT.partitions, 3), ..view(5, true, &WORKERS) });
    rig.view(view(0, true, &WORKERS[..1]));
    rig.submit(1, "a", false);
    assert_eq!(rig.pass()[0].1.generation, Generation(1));
    assert_eq!(rig.admitted, Some((LogCondition::default(), Full::default())));
    let state = Full { all: false, apps: vec!["shop".into()] };
    rig.view(View { full: true, state: state.clone(), ..view(5, true, &WORKERS) });
    assert_eq!(rig.admitted, Some((LogCondition { full: true, stalled: false }, state)));
}

#[test]
fn only_the_coordinator_says_how_the_cluster_is_and_noise_is_dropped() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    rig.control(WORKERS[0], Envelope::View(view(7, true, &WORKERS[..1])));
    let noise = Envelope::decode(&[1, 0, 9, 9, 9]).map(Box::new);
    rig.step(GatewayEvent::Network(NetworkEvent::Control { from: COORDINATOR, message: noise }));
    rig.submit(1, "a", false);
    assert_eq!(rig.pass()[0].1.generation, Generation(1));
    assert_eq!((rig.informed, rig.peer_errors), (1, 2));
}

#[test]
fn the_coordinator_hears_of_a_gateway_again_and_again_and_at_once_after_a_reconnect() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    rig.later(Duration::ZERO);
    rig.later(WATCH / 2);
    assert_eq!(rig.sent.len(), 1);
    rig.step(GatewayEvent::Network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false }));
    rig.later(Duration::ZERO);
    assert_eq!(rig.sent.len(), 2);
    rig.later(WATCH);
    assert_eq!(rig.sent.len(), 3);
}

#[test]
fn what_was_on_its_way_to_a_process_that_is_gone_is_asked_of_the_next_one() {
    let _transcript = scenario!("gateway");
    let mut rig = Rig::live();
    let (_, unretained, _) = (rig.submit(1, "a", true), rig.submit(2, "a", false), rig.query("a"));
    assert_eq!(rig.pass().len(), 3);
    let reconnect = |rig: &mut Rig, restarted: bool| {
        for peer in WORKERS {
            rig.step(GatewayEvent::Network(NetworkEvent::Connected { peer, restarted }));
        }
        rig.pass()
    };
    assert!(reconnect(&mut rig, false).is_empty());
    let again = reconnect(&mut rig, true);
    let ids = |(_, query): &(NodeId, Query)| matches!(&query.question, crate::wire::Question::Submit(request, _) if request.id == RequestId(2));
    assert_eq!((again.len(), again.iter().any(ids)), (2, false), "{again:?}");
    rig.later(GRACE);
    rig.later(REVIEW);
    assert_eq!(rig.answers, [(unretained, Answer::Failed(Failure::OutcomeUnknown))]);
}
