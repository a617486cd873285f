//! All that can happen to a gateway, in each state that it can be in; what it does stands in its transcript.

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::Entry;
use styx_protocol::catalog::Catalog;
use styx_transcript::quietly;

use super::*;
use crate::network::Refusal;

fn why() -> String {
    "why".into()
}

type Happens = Box<dyn Fn(&mut Rig)>;

fn network() -> Vec<Happens> {
    let mut events: Vec<Happens> = Vec::new();
    for peer in [COORDINATOR, WORKERS[0], NodeId(40)] {
        let happens = move |event: fn(NodeId) -> NetworkEvent| -> Happens {
            Box::new(move |rig: &mut Rig| rig.step(GatewayEvent::Network(event(peer))))
        };
        events.extend([
            happens(|peer| NetworkEvent::Connected { peer, restarted: false }),
            happens(|peer| NetworkEvent::Connected { peer, restarted: true }),
            happens(|peer| NetworkEvent::Lost { peer, why: why() }),
            happens(|peer| NetworkEvent::Unreached { peer, gone: false, why: why() }),
            happens(|peer| NetworkEvent::Unreached { peer, gone: true, why: why() }),
            happens(|peer| NetworkEvent::Broken { peer, generation: Generation(1), why: why() }),
            happens(|peer| NetworkEvent::Control { from: peer, message: Envelope::decode(&[9]).map(Box::new) }),
            happens(|from| NetworkEvent::Message { from, generation: Generation(1), message: Err(why()) }),
        ]);
        for refusal in [Refusal::Standby, Refusal::Build, Refusal::Other] {
            events.push(Box::new(move |rig: &mut Rig| {
                let refused = NetworkEvent::Refused { peer, refusal, reason: "r".into(), message: "m".into() };
                rig.step(GatewayEvent::Network(refused));
            }));
        }
        for envelope in [Envelope::Released, Envelope::Refused(why()), Envelope::Queries(vec![])] {
            events.push(Box::new(move |rig: &mut Rig| rig.control(peer, envelope.clone())));
        }
    }
    events
}

fn views() -> Vec<Happens> {
    let mut views = Vec::new();
    for generation in [0, 1, 2] {
        for (live, workers) in [(false, 2), (true, 1), (true, 2)] {
            views.push(view(generation, live, &WORKERS[..workers]));
        }
        let first = view(generation, true, &WORKERS);
        let owners = vec![WorkerId(1); LAYOUT.partitions as usize];
        views.push(View { placement: first.placement.next(owners), ..first.clone() });
        views.push(View { full: true, ..first.clone() });
        views.push(View { stalled: true, ..first.clone() });
        views.push(View { catalog: Some(Catalog::default().image()), ..first });
    }
    views.into_iter().map(|view| -> Happens { Box::new(move |rig: &mut Rig| rig.view(view.clone())) }).collect()
}

fn clients() -> Vec<Happens> {
    let mut events: Vec<Happens> = Vec::new();
    for (id, retained) in [(1, false), (1, true), (2, true)] {
        events.push(Box::new(move |rig: &mut Rig| {
            rig.submit(id, "b", retained);
        }));
    }
    events.push(Box::new(|rig: &mut Rig| {
        rig.query("b");
    }));
    events.push(Box::new(|rig: &mut Rig| {
        rig.client(|waiter| ClientMessage::Request(ClientRequest::Await { id: RequestId(3), waiter }));
    }));
    for query in admin() {
        events.push(Box::new(move |rig: &mut Rig| {
            rig.read(query.clone());
        }));
    }
    events
}

fn admin() -> [AdminQuery; 7] {
    let scan =
        |prefix: &str| AdminQuery::Scan { operator: 0, prefix: prefix.into(), after: None, limit: 3, bytes: 100 };
    let get = AdminQuery::Get { operator: 0, key: "a".into() };
    let sample = AdminQuery::Sample { operator: 0, limit: 3, bytes: 100 };
    [AdminQuery::Cluster, AdminQuery::Workers, AdminQuery::Partitions, get, scan(""), scan("a/"), sample]
}

fn responses() -> Vec<Response> {
    let aborted = Err(Abort::new(Code::Aborted, "no"));
    let Response::Reply(Reply { id, tid, epoch, .. }) = reply(1) else { panic!("it is a reply") };
    vec![
        reply(1),
        Response::Reply(Reply { id, tid, epoch, outcome: aborted }),
        Response::Accepted(RequestId(1)),
        Response::Unknown,
        Response::WrongGeneration,
        Response::Workers(vec![]),
        Response::Partitions(vec![]),
        Response::Value { value: Some(Bytes(b"1"[..].into())), partition: 1, epoch: Epoch(4) },
        Response::Entries { entries: vec![Entry("k".into(), b"1"[..].into())], more: true, epoch: Epoch(4) },
        Response::Sample { entries: vec![Entry("k".into(), b"1"[..].into())], entities: 2 },
    ]
}

/// What is answered to all that was asked.
fn answers() -> Vec<Happens> {
    let answer = |response: Response, only: Option<usize>| -> Happens {
        Box::new(move |rig: &mut Rig| {
            let asked = rig.pass();
            for (at, (from, query)) in asked.into_iter().enumerate() {
                if only.is_none_or(|only| only == at) {
                    rig.respond(from, query.ticket, response.clone());
                }
            }
        })
    };
    responses().into_iter().flat_map(|response| [answer(response.clone(), None), answer(response, Some(0))]).collect()
}

/// Each event in a state of its own, and what follows from it until nobody waits any more.
fn each_in(state: impl Fn() -> Rig) {
    let mut events: Vec<Happens> = network();
    events.extend(views());
    events.extend(clients());
    events.extend(answers());
    events.push(Box::new(|rig: &mut Rig| rig.unreachable.extend(WORKERS)));
    for event in events {
        let mut rig = quietly(&state);
        event(&mut rig);
        rig.pass();
        for time in [Duration::ZERO, REVIEW, GRACE, WATCH, ADMIN_PATIENCE, PATIENCE - ADMIN_PATIENCE, PATIENCE] {
            rig.later(time);
            did(&rig.gateway.under_way());
        }
        did(&(&rig.connected, rig.admitted));
    }
}

fn asking(rig: Rig) -> Rig {
    let mut rig = rig;
    rig.submit(1, "a", false);
    rig.submit(2, "b", true);
    rig.query("c");
    for query in admin() {
        rig.read(query);
    }
    rig
}

#[test]
fn everything_happens_to_a_gateway_that_knows_nobody() {
    let _transcript = scenario!("gateway");
    each_in(|| asking(Rig::new(6)));
}

#[test]
fn everything_happens_to_a_gateway_that_waits_for_answers() {
    let _transcript = scenario!("gateway");
    each_in(|| asking(Rig::live()));
}

#[test]
fn everything_happens_to_a_gateway_whose_cluster_recovers() {
    let _transcript = scenario!("gateway");
    each_in(|| {
        let mut rig = asking(Rig::live());
        rig.pass();
        rig.view(view(2, false, &WORKERS));
        rig
    });
}

#[test]
fn everything_happens_to_a_gateway_with_two_coordinators() {
    let _transcript = scenario!("gateway");
    each_in(|| {
        let mut rig = Rig::new(100);
        rig.gateway = GatewayDriver::new(Instant(1), vec!["a:1".into(), "b:1".into()], 100);
        rig.step(GatewayEvent::Network(NetworkEvent::Connected { peer: COORDINATOR, restarted: false }));
        rig.view(view(1, true, &WORKERS));
        rig
    });
}
