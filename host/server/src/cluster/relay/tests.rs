use std::sync::Mutex;

use crossbeam_channel::{Receiver, unbounded};
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, RequestId};
use styx_protocol::placement::Placement;
use styx_protocol::transaction::Request;

use super::*;
use crate::stats::Stats;
use styx_driver::wire::{Member, Overview, WorkerStatus};

const LAYOUT: Layout = Layout { seed: 7, partitions: 8 };
const WORKERS: [NodeId; 2] = [NodeId(10), NodeId(20)];

/// What was sent, and who cannot be reached.
#[derive(Default)]
struct Wire {
    sent: Mutex<Vec<(NodeId, Query)>>,
    unreachable: Mutex<Vec<NodeId>>,
    dialed: Mutex<Vec<NodeId>>,
}

impl Outlet for Wire {
    fn send(&self, to: NodeId, envelope: &Envelope) -> Result<(), SendError> {
        if self.unreachable.lock().unwrap().contains(&to) {
            return Err(SendError::UnknownPeer(to));
        }
        // As it arrives.
        let Ok(Envelope::Queries(asks)) = Envelope::decode(&envelope.encode()) else { panic!("{envelope:?}") };
        self.sent.lock().unwrap().extend(asks.into_iter().map(|ask| (to, ask)));
        Ok(())
    }
    fn connect(&self, to: NodeId, _: &str) {
        self.dialed.lock().unwrap().push(to);
    }
    fn forget(&self, node: NodeId) {
        self.dialed.lock().unwrap().retain(|dialed| *dialed != node);
    }
}

/// A gateway's relay and everything around it.
struct Rig {
    wire: Arc<Wire>,
    handle: Handle,
    inbox: Receiver<ClientMessage>,
    relay: Relay,
}

type Ending = oneshot::Receiver<handle::Answer>;

impl Rig {
    fn new(backlog_max: usize) -> Rig {
        let (to, inbox) = unbounded();
        let (wire, handle) = (Arc::new(Wire::default()), Handle::new(to, 1000, Arc::new(Stats::default())));
        let relay = Relay::of_gateway(wire.clone(), handle.clone(), backlog_max);
        Rig { wire, handle, inbox, relay }
    }

    /// A rig whose cluster serves.
    fn live() -> Rig {
        let mut rig = Rig::new(100);
        rig.relay.view(view(1, true, &WORKERS));
        rig
    }

    /// Hands over what the handle has sent, and what that came to.
    fn pass(&mut self) -> Vec<(NodeId, Query)> {
        while let Ok(message) = self.inbox.try_recv() {
            self.relay.take(message);
        }
        self.relay.flush();
        std::mem::take(&mut *self.wire.sent.lock().unwrap())
    }

    fn submit(&mut self, id: u128, key: &str, retained: bool) -> Ending {
        let (to, ending) = oneshot::channel();
        self.handle.submit(Arc::new(request(id, key, retained)), Waiter::Once(to), false);
        ending
    }

    fn query(&mut self, key: &str) -> Ending {
        let (to, ending) = oneshot::channel();
        self.handle.query(request(1, key, false), Waiter::Once(to));
        ending
    }

    fn inquire(&mut self, query: AdminQuery) -> oneshot::Receiver<Response> {
        let (to, answer) = oneshot::channel();
        self.relay.take(ClientMessage::Read(query, to));
        answer
    }

    fn later(&mut self, time: Duration) -> Vec<(NodeId, Query)> {
        self.relay.tick(Instant::now() + time);
        self.pass()
    }
}

fn request(id: u128, key: &str, retained: bool) -> Request {
    let (id, operator) = (RequestId(id), OperatorId(0));
    Request { id, operator, function: "f".into(), key: key.into(), args: b"[]"[..].into(), retained }
}

fn view(generation: u64, live: bool, members: &[NodeId]) -> View {
    View {
        generation,
        live,
        full: false,
        stalled: false,
        members: members.iter().map(|node| Member { node: *node, address: format!("127.0.0.1:{}", node.0) }).collect(),
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
    Response::Reply(styx_driver::wire::Reply { id: RequestId(id), tid: Default::default(), epoch: Epoch(3), outcome })
}

/// What a client was told, in a word.
fn word(ending: &mut Ending) -> &'static str {
    match ending.try_recv() {
        Ok(handle::Answer::Reply(reply)) => match reply.outcome {
            Ok(_) => "reply",
            Err(abort) => abort.code.as_str(),
        },
        Ok(handle::Answer::Failed(Failure::Unavailable)) => "unavailable",
        Ok(handle::Answer::Failed(Failure::OutcomeUnknown)) => "unknown outcome",
        Ok(handle::Answer::Failed(Failure::DiskFull)) => "disk full",
        Ok(handle::Answer::Failed(Failure::LogStalled)) => "log stalled",
        Ok(_) => "something else",
        Err(oneshot::error::TryRecvError::Empty) => "nothing",
        Err(oneshot::error::TryRecvError::Closed) => "closed",
    }
}

#[test]
fn requests_go_to_their_worker_and_answers_to_their_client() {
    let mut rig = Rig::live();
    let mut endings: Vec<Ending> = ["a", "b", "c", "d"].iter().map(|key| rig.submit(1, key, false)).collect();
    let sent = rig.pass();
    let mut expect: Vec<_> = ["a", "b", "c", "d"].iter().map(|key| owner(key)).collect();
    expect.sort();
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), expect, "one batch to each");
    for (from, ask) in &sent {
        // Somebody else's answer to it is not believed.
        let other = WORKERS[usize::from(*from == WORKERS[0])];
        rig.relay.told(other, vec![TicketedResponse { ticket: ask.ticket, response: reply(1) }]);
    }
    assert!(endings.iter_mut().all(|ending| word(ending) == "nothing"));
    for (from, ask) in sent {
        rig.relay.told(from, vec![TicketedResponse { ticket: ask.ticket, response: reply(1) }]);
    }
    assert!(endings.iter_mut().all(|ending| word(ending) == "reply"));
}

#[test]
fn remembered_requests_go_where_they_are_remembered() {
    let mut rig = Rig::live();
    let placement = Placement::round_robin(LAYOUT.partitions, 2);
    for id in 0..8 {
        let _ending = rig.submit(id, "a", true);
        let memory = memory_of(RequestId(id), &placement);
        assert_eq!(rig.pass()[0].0, WORKERS[usize::from(memory.0)]);
    }
}

#[test]
fn a_new_generation_repeats_what_can_be_repeated() {
    let mut rig = Rig::live();
    let (mut plain, mut keyed, mut read) = (rig.submit(1, "a", false), rig.submit(2, "a", true), rig.query("a"));
    assert_eq!(rig.pass().len(), 3);
    rig.relay.view(view(2, false, &WORKERS));
    assert_eq!(rig.pass().len(), 0, "nobody is asked before the generation is live");
    rig.relay.view(view(2, true, &WORKERS[..1]));
    let again = rig.pass();
    assert_eq!(again.len(), 2);
    for (to, ask) in again {
        assert_eq!((to, ask.generation), (WORKERS[0], 2));
        rig.relay.told(to, vec![TicketedResponse { ticket: ask.ticket, response: reply(2) }]);
    }
    assert_eq!((word(&mut keyed), word(&mut read), word(&mut plain)), ("reply", "reply", "nothing"));
    assert!(rig.later(GRACE * 2).is_empty());
    assert_eq!(word(&mut plain), "unknown outcome");
    assert_eq!(*rig.wire.dialed.lock().unwrap().last().unwrap(), WORKERS[0]);
    assert!(!rig.wire.dialed.lock().unwrap().contains(&WORKERS[1]), "who is no longer a member is forgotten");
}

#[test]
fn what_a_worker_still_answers_counts() {
    let mut rig = Rig::live();
    let (mut ended, mut refused) = (rig.submit(1, "a", false), rig.submit(2, "a", false));
    let sent = rig.pass();
    rig.relay.view(view(2, true, &WORKERS));
    let (from, ticket) = (sent[0].0, sent[0].1.ticket);
    rig.relay.told(from, vec![TicketedResponse { ticket, response: reply(1) }]);
    rig.relay.told(from, vec![TicketedResponse { ticket: sent[1].1.ticket, response: Response::WrongGeneration }]);
    assert_eq!(word(&mut ended), "reply");
    // It was not carried out there, so it is carried out here.
    let again = rig.pass();
    assert_eq!((again.len(), again[0].1.generation), (1, 2));
    rig.relay.told(again[0].0, vec![TicketedResponse { ticket: again[0].1.ticket, response: reply(2) }]);
    assert_eq!(word(&mut refused), "reply");
}

#[test]
fn a_worker_that_is_ahead_is_asked_again_when_the_view_has_come() {
    let mut rig = Rig::live();
    let mut ending = rig.submit(1, "a", false);
    let (from, ask) = rig.pass().remove(0);
    rig.relay.told(from, vec![TicketedResponse { ticket: ask.ticket, response: Response::WrongGeneration }]);
    assert!(rig.pass().is_empty(), "not at once, over and over");
    rig.relay.view(view(2, true, &WORKERS));
    assert_eq!(rig.pass()[0].1.generation, 2);
    assert_eq!(word(&mut ending), "nothing");
}

#[test]
fn without_workers_requests_wait_within_bounds() {
    let mut rig = Rig::new(2);
    let (mut first, mut second, mut third) = (rig.submit(1, "a", false), rig.submit(2, "a", true), rig.query("a"));
    assert!(rig.pass().is_empty());
    assert_eq!(word(&mut third), "OVERLOADED");
    assert!(rig.later(PATIENCE / 2).is_empty());
    assert_eq!((word(&mut first), word(&mut second)), ("nothing", "nothing"));
    assert!(rig.later(PATIENCE + REVIEW).is_empty());
    assert_eq!((word(&mut first), word(&mut second)), ("unavailable", "unavailable"));
}

#[test]
fn a_request_that_may_have_happened_never_ends_as_if_it_had_not() {
    let mut rig = Rig::live();
    let mut keyed = rig.submit(1, "a", true);
    assert_eq!(rig.pass().len(), 1);
    rig.relay.view(view(2, false, &WORKERS));
    assert!(rig.later(PATIENCE + REVIEW).is_empty());
    assert_eq!(word(&mut keyed), "unknown outcome");
}

#[test]
fn what_could_not_be_sent_is_sent_later() {
    let mut rig = Rig::live();
    rig.wire.unreachable.lock().unwrap().extend(WORKERS);
    let mut ending = rig.submit(1, "a", false);
    assert!(rig.pass().is_empty());
    rig.wire.unreachable.lock().unwrap().clear();
    assert_eq!(rig.later(REVIEW).len(), 1);
    assert_eq!(word(&mut ending), "nothing");
}

#[test]
fn inquiries_are_asked_of_all_and_their_answers_merged() {
    let mut rig = Rig::live();
    let standing = |worker: u16| WorkerStatus {
        worker: WorkerId(worker),
        epoch: Epoch(1),
        waiting: 0,
        remembered: 0,
        partitions: 4,
        entities: 2,
        bytes: 9,
    };
    let mut workers = rig.inquire(AdminQuery::Workers);
    let sent = rig.pass();
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), WORKERS);
    // The second answers first; then a new generation begins, and all are asked again.
    rig.relay.told(
        WORKERS[1],
        vec![TicketedResponse { ticket: sent[1].1.ticket, response: Response::Workers(vec![standing(1)]) }],
    );
    rig.relay.view(view(2, true, &WORKERS));
    rig.relay.told(
        WORKERS[0],
        vec![TicketedResponse { ticket: sent[0].1.ticket, response: Response::Workers(vec![standing(0)]) }],
    );
    assert!(workers.try_recv().is_err());
    for (worker, (from, ask)) in rig.pass().into_iter().enumerate() {
        let answer = Response::Workers(vec![standing(worker as u16)]);
        rig.relay.told(from, vec![TicketedResponse { ticket: ask.ticket, response: answer }]);
    }
    assert_eq!(workers.try_recv(), Ok(Response::Workers(vec![standing(0), standing(1)])));

    let mut one = rig.inquire(AdminQuery::Get { operator: 0, key: "a".into() });
    let sent = rig.pass();
    assert_eq!((sent.len(), sent[0].0), (1, owner("a")));
    let value = Response::Value { value: None, partition: 1, epoch: Epoch(1) };
    rig.relay.told(sent[0].0, vec![TicketedResponse { ticket: sent[0].1.ticket, response: value.clone() }]);
    assert_eq!(one.try_recv(), Ok(value));
}

#[test]
fn the_coordinator_is_asked_even_while_no_worker_serves() {
    let mut rig = Rig::new(10);
    let (mut cluster, mut workers) = (rig.inquire(AdminQuery::Cluster), rig.inquire(AdminQuery::Workers));
    let (to, ask) = rig.pass().remove(0);
    assert_eq!(to, COORDINATOR);
    let overview = Overview {
        single: false,
        generation: 1,
        live: false,
        epoch: Epoch(0),
        chain: Default::default(),
        members: Vec::new(),
        partitions: 8,
        engine: 1,
        admin: None,
    };
    rig.relay.told(to, vec![TicketedResponse { ticket: ask.ticket, response: Response::Cluster(overview.clone()) }]);
    assert_eq!(cluster.try_recv(), Ok(Response::Cluster(overview)));
    assert!(rig.later(INQUIRY_PATIENCE + REVIEW).is_empty());
    assert_eq!(workers.try_recv(), Err(oneshot::error::TryRecvError::Closed));
}

#[test]
fn a_view_that_contradicts_itself_or_is_old_changes_nothing() {
    let mut rig = Rig::live();
    rig.relay.view(View { members: Vec::new(), ..view(5, true, &WORKERS) });
    rig.relay.view(View { layout: Layout { partitions: 9, ..LAYOUT }, ..view(5, true, &WORKERS) });
    rig.relay.view(view(0, true, &WORKERS[..1]));
    let _ending = rig.submit(1, "a", false);
    assert_eq!(rig.pass()[0].1.generation, 1);
}
