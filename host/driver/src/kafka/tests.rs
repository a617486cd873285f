use std::collections::BTreeSet;

use styx_protocol::abort::Abort;
use styx_protocol::ids::{OperatorId, RequestId};
use styx_transcript::{did, scenario, told};

use super::*;
use crate::client::Failure;

const WINDOW: i64 = 4096;

/// A front whose records are their offsets, and whose replies are words. Replies are durable when the test says so.
struct Rig {
    front: FrontDriver<i64, String>,
    now: Instant,
    deployed: bool,
    full: bool,
    asked: Vec<(u64, RequestId)>,
    /// What requests say of the records that they come from: offsets, and what is answered.
    origins: Vec<(u64, u64)>,
    refused: Vec<(Place, i64)>,
    written: Vec<(Place, i64)>,
    paused: Vec<i32>,
}

fn place(offset: i64) -> Place {
    Place { partition: 0, offset }
}

impl Rig {
    fn new() -> Rig {
        let progress = Progress::new(0, BTreeSet::new(), WINDOW);
        Rig {
            front: FrontDriver::new(1, FrontLimits::default(), [(0, progress)]),
            now: Instant(1),
            deployed: true,
            full: false,
            asked: Vec::new(),
            origins: Vec::new(),
            refused: Vec::new(),
            written: Vec::new(),
            paused: Vec::new(),
        }
    }

    fn step(&mut self, event: FrontEvent<i64, String>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            told(&event);
            let mut effects = Vec::new();
            self.front.step(self.now, event, &mut effects);
            for effect in effects {
                did(&effect);
                match effect {
                    FrontEffect::Prepare(place, record) if record < 0 => {
                        let (id, refusal) = (record.to_string(), format!("refused {record}"));
                        let request = Some(RequestId(7));
                        events.push_back(FrontEvent::Unfit { place, id, request, refusal });
                    }
                    FrontEffect::Prepare(place, record) if self.deployed => {
                        events.push_back(prepared(place, record));
                    }
                    FrontEffect::Prepare(place, record) => events.push_back(FrontEvent::TooEarly(place, record)),
                    FrontEffect::Ask { ticket, request, .. } => {
                        let origin = request.origin.as_deref().expect("it comes from a record");
                        self.origins.push((origin.offset, origin.answered));
                        self.asked.push((ticket, request.id));
                    }
                    FrontEffect::Reply { place, id, .. } => events.push_back(FrontEvent::Write(place, id)),
                    FrontEffect::Write { place, reply, .. } if self.full => {
                        events.push_back(FrontEvent::Unwritten(place, reply));
                    }
                    FrontEffect::Write { place, reply, watermark } => {
                        self.refused
                            .extend(reply.strip_prefix("refused ").map(|record| (place, record.parse().unwrap())));
                        self.written.push((place, watermark));
                    }
                    FrontEffect::Pause(partition) => self.paused.push(partition),
                    FrontEffect::Resume(partition) => self.paused.retain(|paused| *paused != partition),
                }
            }
            if self.full {
                // The shell comes back to it at the next tick.
                events.retain(|event| !matches!(event, FrontEvent::Tick));
            }
        }
    }

    fn read(&mut self, offsets: impl IntoIterator<Item = i64>) {
        let records = offsets.into_iter().map(|offset| (place(offset), offset)).collect();
        self.step(FrontEvent::Read(records));
    }

    fn answer(&mut self, ticket: u64, answer: Answer) {
        self.step(FrontEvent::Answered(ticket, answer));
    }

    fn later(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.step(FrontEvent::Tick);
    }
}

fn prepared(place: Place, record: i64) -> FrontEvent<i64, String> {
    let (id, operator) = (RequestId(record as u128), OperatorId(0));
    let (function, key, args) = ("f".into(), "a".into(), b"[]"[..].into());
    let request = Request { id, operator, function, key, args, retained: true, origin: None };
    FrontEvent::Prepared { place, id: record.to_string(), request, read_only: false }
}

fn failed(code: Code) -> Answer {
    let outcome = Err(Abort::new(code, "why"));
    Answer::Reply(Reply { id: RequestId(7), tid: Default::default(), epoch: Default::default(), outcome })
}

fn reply() -> Answer {
    let outcome = Ok(b"1"[..].into());
    Answer::Reply(Reply { id: RequestId(0), tid: Default::default(), epoch: Default::default(), outcome })
}

#[test]
fn what_nobody_can_say_is_asked_again_under_the_same_id_and_answered_once() {
    let _transcript = scenario!("front");
    let mut rig = Rig::new();
    rig.read([0]);
    for unsure in [
        Answer::Failed(Failure::OutcomeUnknown),
        Answer::Failed(Failure::Unavailable),
        Answer::overloaded(RequestId(0)),
        Answer::Unknown,
    ] {
        let asked = rig.asked.len();
        rig.answer(1, unsure);
        rig.later(ASK_AGAIN / 2);
        assert_eq!(rig.asked.len(), asked, "not at once, over and over");
        rig.later(ASK_AGAIN);
        assert_eq!(rig.asked.len(), asked + 1);
    }
    assert!(rig.asked.iter().all(|asked| *asked == (1, RequestId(0))));
    rig.answer(1, reply());
    rig.answer(1, reply());
    assert_eq!(rig.written, [(place(0), 0)]);
}

#[test]
fn what_is_no_request_any_more_has_the_reply_that_it_had() {
    let _transcript = scenario!("front");
    let mut rig = Rig::new();
    rig.step(FrontEvent::Read(vec![(place(0), -1), (place(1), -2)]));
    assert_eq!(rig.asked, [(1, RequestId(7)), (2, RequestId(7))]);
    rig.answer(1, reply());
    assert_eq!((rig.written.len(), rig.refused.len()), (1, 0));
    rig.answer(2, Answer::Failed(Failure::Unavailable));
    rig.later(ASK_AGAIN);
    assert_eq!((rig.asked.len(), rig.refused.len()), (3, 0), "nobody can say yet");
    rig.answer(2, failed(Code::UnknownOperator));
    assert_eq!(rig.refused, [(place(1), -2)]);
    assert_eq!(rig.origins, [(0, 0), (1, 0), (1, 0)], "it is never executed from then on");
    // It was one, and what it came to is forgotten.
    rig.step(FrontEvent::Read(vec![(place(2), -3)]));
    rig.answer(3, failed(Code::ReplyForgotten));
    assert_eq!((rig.written.len(), rig.refused.len()), (3, 1));
    assert_eq!(rig.front.in_flight_bytes, 0);
}

#[test]
fn before_anything_is_deployed_records_wait() {
    let _transcript = scenario!("front");
    let mut rig = Rig::new();
    rig.deployed = false;
    rig.read([0, 1]);
    assert!(rig.asked.is_empty());
    rig.deployed = true;
    rig.later(Duration::ZERO);
    assert_eq!(rig.asked.len(), 2);
}

#[test]
fn records_too_far_ahead_wait_in_order_and_their_partition_is_paused() {
    let _transcript = scenario!("front");
    let mut rig = Rig::new();
    rig.read([0, WINDOW, WINDOW + 1]);
    assert_eq!((rig.asked.len(), &rig.paused[..]), (1, &[0][..]));
    assert_eq!(rig.front.under_way(), 3);
    rig.answer(1, reply());
    assert_eq!(rig.asked.len(), 1, "the reply is not durable yet");
    rig.step(FrontEvent::Written(place(0)));
    let ids: Vec<u128> = rig.asked.iter().map(|(_, id)| id.0).collect();
    assert_eq!(ids, [0, WINDOW as u128, WINDOW as u128 + 1]);
    assert!(rig.paused.is_empty());
}

#[test]
fn a_reply_says_below_which_offset_all_have_been_answered() {
    let _transcript = scenario!("front");
    let mut rig = Rig::new();
    rig.read([0, 1, 2]);
    rig.answer(2, reply());
    rig.step(FrontEvent::Written(place(1)));
    rig.answer(1, reply());
    rig.step(FrontEvent::Written(place(0)));
    rig.answer(3, reply());
    assert_eq!(rig.written, [(place(1), 0), (place(0), 0), (place(2), 2)]);
    rig.read([5]);
    assert_eq!(rig.origins, [(0, 0), (1, 0), (2, 0), (5, 2)], "requests say it as well");
}

#[test]
fn replies_without_room_are_written_later() {
    let _transcript = scenario!("front");
    let mut rig = Rig::new();
    rig.read([0]);
    rig.full = true;
    rig.answer(1, reply());
    assert!(rig.written.is_empty());
    rig.full = false;
    rig.later(Duration::ZERO);
    assert_eq!(rig.written.len(), 1);
}

#[test]
fn a_front_takes_no_more_than_it_may_and_ends_when_all_is_answered_or_it_takes_too_long() {
    let _transcript = scenario!("front");
    let mut rig = Rig::new();
    rig.read(0..FrontLimits::default().in_flight_max as i64);
    assert!(!rig.front.has_room());
    let mut rig = Rig::new();
    rig.read([0]);
    rig.step(FrontEvent::End(Ending::Repartitioned));
    assert!(!rig.front.has_room());
    assert_eq!(rig.front.ended(rig.now), None);
    assert_eq!(rig.front.ended(rig.now.after(ALL_REPLIES)), Some(Ending::Repartitioned));
    rig.step(FrontEvent::End(Ending::Shutdown));
    assert_eq!(rig.front.ended(rig.now.after(LAST_REPLIES)), Some(Ending::Shutdown));
    rig.answer(1, reply());
    rig.step(FrontEvent::Written(place(0)));
    assert_eq!(rig.front.ended(rig.now), Some(Ending::Shutdown));
}

#[test]
fn what_is_still_too_far_ahead_keeps_its_place() {
    let _transcript = scenario!("front");
    let mut rig = Rig::new();
    rig.read([0, 1, WINDOW + 1, WINDOW + 2]);
    rig.answer(1, reply());
    rig.answer(2, reply());
    rig.step(FrontEvent::Written(place(0)));
    assert_eq!((rig.asked.len(), &rig.paused[..]), (2, &[0][..]), "one more must be answered first");
    rig.step(FrontEvent::Written(place(1)));
    let ids: Vec<u128> = rig.asked.iter().map(|(_, id)| id.0).collect();
    assert_eq!(ids, [0, 1, WINDOW as u128 + 1, WINDOW as u128 + 2]);
    assert!(rig.paused.is_empty());
    // It comes once: what was read again of it is passed over.
    rig.read([0, 1]);
    assert_eq!(rig.asked.len(), 4);
}

#[test]
fn a_front_takes_no_more_bytes_than_it_may() {
    let _transcript = scenario!("front");
    let mut rig = Rig::new();
    let ask = |rig: &mut Rig, offset: i64, bytes: usize| {
        let mut event = prepared(place(offset), offset);
        if let FrontEvent::Prepared { request, .. } = &mut event {
            request.args = vec![b' '; bytes].into();
        }
        rig.front.partitions.get_mut(&0).unwrap().progress.meet(offset);
        rig.step(event);
    };
    ask(&mut rig, 0, FrontLimits::default().in_flight_bytes_max - 1);
    assert!(rig.front.has_room());
    ask(&mut rig, 1, 1);
    assert!(!rig.front.has_room());
    rig.answer(2, reply());
    assert!(rig.front.has_room());
}

#[test]
fn records_that_wait_for_a_deployment_or_for_room_count_against_what_may_be_read() {
    let _transcript = scenario!("front");
    let most = FrontLimits::default().in_flight_max as i64;
    let mut rig = Rig::new();
    rig.deployed = false;
    rig.read(0..most - 1);
    assert!(rig.front.has_room());
    rig.read([most - 1]);
    assert!(!rig.front.has_room());
    let mut rig = Rig::new();
    rig.read(0..most - 1);
    rig.full = true;
    rig.answer(1, reply());
    assert!(rig.front.has_room(), "it waits for room instead");
    rig.read([most]);
    assert!(!rig.front.has_room());
}
