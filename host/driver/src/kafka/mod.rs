//! Front driver: takes records of a topic as requests, and gives each its reply exactly once.
//!
//! Every request has an id under which its reply is remembered, so that it may be asked again, which happens
//! whenever nobody can say what became of it. Every reply says which record it answers and below which offset
//! all have been answered ([`progress`]); a front that starts takes the right to answer ([`beginning`]), reads the last
//! replies ([`recovery`]) and goes on from there. Replies are written in batches, each whole or not at all ([`writing`]).
//!
//! Nothing here knows brokers, headers or JSON: records and replies are opaque.

pub mod beginning;
pub mod progress;
pub mod recovery;
#[cfg(test)]
mod tests;
pub mod writing;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use styx_planted::{Bug, planted};
use styx_protocol::abort::Code;
use styx_protocol::ids::RequestId;
use styx_protocol::origin::Origin;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Request;

use self::progress::{Admission, Progress};
use crate::client::Answer;
use crate::time::Instant;

/// How much a front takes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontLimits {
    /// How far apart the first and the last request under way of a partition may lie. It bounds how many replies a front
    /// has to read when it starts, and what is kept in the state of records that were executed.
    pub window: i64,
    /// Requests under way, and bytes of their arguments; past that no more are taken.
    pub in_flight_max: usize,
    pub in_flight_bytes_max: usize,
}

impl Default for FrontLimits {
    fn default() -> Self {
        FrontLimits { window: 4096, in_flight_max: 4096, in_flight_bytes_max: 64 << 20 }
    }
}

/// Pause before a request is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How long a front that ends waits for replies: at a shutdown, and before another begins.
const LAST_REPLIES: Duration = Duration::from_secs(5);
const ALL_REPLIES: Duration = Duration::from_secs(60);

/// Place of a record in the topic of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub partition: i32,
    pub offset: i64,
}

/// What is asked for a record.
#[derive(Debug)]
enum Asked<P> {
    Request {
        request: Arc<Request>,
        read_only: bool,
    },
    /// The record is no request now, but may have been one when another front read it: one that comes to nothing is asked in
    /// its place, under its id, so that it is known whether it was executed, and it never is from then on.
    Nothing {
        request: Arc<Request>,
        refusal: P,
    },
}

/// Reason for which a front ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process is to end.
    Shutdown,
    /// The topic has other partitions now: another front begins.
    Repartitioned,
}

/// Something that happens to a front. `C` is a record, `P` a reply as it is written.
#[derive(Debug)]
pub enum FrontEvent<C, P> {
    /// Records were read, in order.
    Read(Vec<(Place, C)>),
    /// [`FrontEffect::Prepare`]: this is to be asked.
    Prepared {
        place: Place,
        /// In the client's words, or made of the record's place.
        id: String,
        /// Its reply is remembered. From which record it comes is said here.
        request: Request,
        /// Its function only reads.
        read_only: bool,
    },
    /// [`FrontEffect::Prepare`]: this is no request.
    Unfit {
        place: Place,
        id: String,
        /// The id of the request that it may have been once.
        request: Option<RequestId>,
        refusal: P,
    },
    /// [`FrontEffect::Prepare`]: nothing has been deployed yet, so that nobody knows what is unknown.
    TooEarly(Place, C),
    /// A request was answered.
    Answered(u64, Answer),
    /// A reply is to be written that is not one to a request.
    Write(Place, P),
    /// [`FrontEffect::Write`]: there is no room at the moment.
    Unwritten(Place, P),
    /// The reply to a record is durable.
    Written(Place),
    /// The front is to end.
    End(Ending),
    /// Time goes on.
    Tick,
}

/// Something that a front wants done.
#[derive(Debug)]
pub enum FrontEffect<C, P> {
    /// Make a request of a record: say [`FrontEvent::Prepared`], [`FrontEvent::Unfit`] or [`FrontEvent::TooEarly`].
    Prepare(Place, C),
    /// Ask for a request to be carried out; then say [`FrontEvent::Answered`].
    Ask {
        /// Comes back with the answer.
        ticket: u64,
        request: Arc<Request>,
        read_only: bool,
    },
    /// A request has ended: write its reply, by [`FrontEvent::Write`].
    Reply {
        place: Place,
        /// The request's id, in the client's words.
        id: String,
        reply: Reply,
        /// What was asked, if the record was a request.
        request: Option<Arc<Request>>,
        read_only: bool,
        /// From the record's coming to its end.
        duration: Duration,
    },
    /// Write a reply; say [`FrontEvent::Written`] when it is durable, or [`FrontEvent::Unwritten`].
    Write {
        /// The record that it answers.
        place: Place,
        reply: P,
        /// Everything below this offset of the record's partition has been answered.
        watermark: i64,
    },
    /// Read no more records of a partition, until [`FrontEffect::Resume`].
    Pause(i32),
    /// Read on.
    Resume(i32),
}

/// A partition of requests.
#[derive(Debug)]
struct Partition<C> {
    progress: Progress,
    /// Records that are too far ahead of one that has no reply yet.
    held: VecDeque<(i64, C)>,
    paused: bool,
}

/// A request under way.
#[derive(Debug)]
struct InFlight<P> {
    place: Place,
    id: String,
    asked: Asked<P>,
    started: Instant,
}

impl<P> InFlight<P> {
    fn bytes(&self) -> usize {
        match &self.asked {
            Asked::Request { request, .. } => request.args.len(),
            Asked::Nothing { .. } => 0,
        }
    }
}

#[derive(Debug)]
pub struct FrontDriver<C, P> {
    /// Id of the topic of requests.
    topic: u128,
    limits: FrontLimits,
    partitions: BTreeMap<i32, Partition<C>>,
    in_flight: BTreeMap<u64, InFlight<P>>,
    in_flight_bytes: usize,
    next_ticket: u64,
    /// Requests to be asked again, and when.
    again: VecDeque<(Instant, u64)>,
    /// Records whose app may be deployed any moment.
    postponed: VecDeque<(Place, C)>,
    /// Replies that there was no room for.
    unwritten: VecDeque<(Place, P)>,
    ending: Option<(Ending, Instant)>,
}

type Effects<C, P> = Vec<FrontEffect<C, P>>;

impl<C, P> FrontDriver<C, P> {
    /// A front that goes on from where each partition's replies end.
    pub fn new(topic: u128, limits: FrontLimits, partitions: impl IntoIterator<Item = (i32, Progress)>) -> Self {
        let partition = |(number, progress)| (number, Partition { progress, held: VecDeque::new(), paused: false });
        FrontDriver {
            topic,
            limits,
            partitions: partitions.into_iter().map(partition).collect(),
            in_flight: BTreeMap::new(),
            in_flight_bytes: 0,
            next_ticket: 0,
            again: VecDeque::new(),
            postponed: VecDeque::new(),
            unwritten: VecDeque::new(),
            ending: None,
        }
    }

    /// Records that have no reply yet, as far as they are known.
    pub fn under_way(&self) -> usize {
        self.partitions.values().map(|partition| partition.progress.open() + partition.held.len()).sum()
    }

    /// Tells whether records may be given.
    pub fn has_room(&self) -> bool {
        let held = self.partitions.values().map(|partition| partition.held.len()).sum::<usize>();
        self.ending.is_none()
            && self.in_flight.len() + self.unwritten.len() + held + self.postponed.len() < self.limits.in_flight_max
            && self.in_flight_bytes < self.limits.in_flight_bytes_max
    }

    /// Tells why it is over, if it is: everything has been answered, or waited for long enough.
    pub fn ended(&self, now: Instant) -> Option<Ending> {
        let answered = || self.partitions.values().all(|partition| partition.progress.is_done());
        self.ending.filter(|(_, until)| *until <= now || answered()).map(|(ending, _)| ending)
    }

    /// Takes one event; pushes what is to be done.
    pub fn step(&mut self, now: Instant, event: FrontEvent<C, P>, effects: &mut Effects<C, P>) {
        match event {
            FrontEvent::Read(records) => {
                records.into_iter().for_each(|(place, record)| self.read(place, record, effects));
            }
            FrontEvent::Prepared { place, id, mut request, read_only } => {
                let Some(origin) = self.origin(place) else { return };
                request.origin = Some(origin);
                self.begin(now, place, id, Asked::Request { request: Arc::new(request), read_only }, effects);
            }
            FrontEvent::Unfit { place, id, request: Some(request), refusal } if !planted(Bug::FrontRefusesAtOnce) => {
                let Some(origin) = self.origin(place) else { return };
                let request = Request::of_nothing(request, *origin);
                self.begin(now, place, id, Asked::Nothing { request: Arc::new(request), refusal }, effects);
            }
            FrontEvent::Unfit { place, refusal, .. } => self.write(place, refusal, effects),
            FrontEvent::TooEarly(place, record) => self.postponed.push_back((place, record)),
            FrontEvent::Answered(ticket, answer) => self.answered(now, ticket, answer, effects),
            FrontEvent::Write(place, reply) => self.write(place, reply, effects),
            FrontEvent::Unwritten(place, reply) => self.unwritten.push_back((place, reply)),
            FrontEvent::Written(place) => {
                if let Some(partition) = self.partitions.get_mut(&place.partition) {
                    partition.progress.done(place.offset);
                }
                self.take_held(place.partition, effects);
            }
            FrontEvent::End(Ending::Shutdown) => self.ending = Some((Ending::Shutdown, now.after(LAST_REPLIES))),
            FrontEvent::End(Ending::Repartitioned) => {
                self.ending.get_or_insert((Ending::Repartitioned, now.after(ALL_REPLIES)));
            }
            FrontEvent::Tick => {
                while let Some((_, ticket)) = self.again.pop_front_if(|(when, _)| *when <= now) {
                    self.ask(ticket, effects);
                }
                for (place, record) in std::mem::take(&mut self.postponed) {
                    effects.push(FrontEffect::Prepare(place, record));
                }
                for (place, reply) in std::mem::take(&mut self.unwritten) {
                    self.write(place, reply, effects);
                }
            }
        }
    }

    fn read(&mut self, place: Place, record: C, effects: &mut Effects<C, P>) {
        let Some(partition) = self.partitions.get_mut(&place.partition) else { return };
        if !partition.held.is_empty() {
            return partition.held.push_back((place.offset, record));
        }
        match partition.progress.meet(place.offset) {
            Admission::Taken => effects.push(FrontEffect::Prepare(place, record)),
            Admission::Answered => {}
            Admission::Held => {
                partition.held.push_back((place.offset, record));
                partition.paused = true;
                effects.push(FrontEffect::Pause(place.partition));
            }
        }
    }

    /// Takes what was too far ahead, as far as it is not any more.
    fn take_held(&mut self, number: i32, effects: &mut Effects<C, P>) {
        let Some(partition) = self.partitions.get_mut(&number) else { return };
        while let Some((offset, record)) = partition.held.pop_front() {
            match partition.progress.meet(offset) {
                Admission::Held => return partition.held.push_front((offset, record)),
                Admission::Answered => {}
                Admission::Taken => {
                    let place = Place { partition: number, offset };
                    effects.push(FrontEffect::Prepare(place, record));
                }
            }
        }
        if std::mem::take(&mut partition.paused) {
            effects.push(FrontEffect::Resume(number));
        }
    }

    fn begin(&mut self, now: Instant, place: Place, id: String, asked: Asked<P>, effects: &mut Effects<C, P>) {
        self.next_ticket += 1;
        let in_flight = InFlight { place, id, asked, started: now };
        self.in_flight_bytes += in_flight.bytes();
        self.in_flight.insert(self.next_ticket, in_flight);
        self.ask(self.next_ticket, effects);
    }

    fn ask(&self, ticket: u64, effects: &mut Effects<C, P>) {
        let Some(in_flight) = self.in_flight.get(&ticket) else { return };
        effects.push(match &in_flight.asked {
            Asked::Request { request, read_only } => {
                FrontEffect::Ask { ticket, request: request.clone(), read_only: *read_only }
            }
            Asked::Nothing { request, .. } => FrontEffect::Ask { ticket, request: request.clone(), read_only: false },
        });
    }

    /// What a request says of the record that it comes from.
    fn origin(&self, place: Place) -> Option<Box<Origin>> {
        let answered = self.watermark(place.partition)? as u64;
        let (topic, partition, offset) = (self.topic, place.partition as u32, place.offset as u64);
        Some(Box::new(Origin { topic, partition, offset, answered }))
    }

    /// Everything below this offset of a partition has been answered.
    fn watermark(&self, partition: i32) -> Option<i64> {
        self.partitions.get(&partition).map(|partition| partition.progress.watermark())
    }

    fn answered(&mut self, now: Instant, ticket: u64, answer: Answer, effects: &mut Effects<C, P>) {
        let Some(in_flight) = self.in_flight.remove(&ticket) else { return };
        let bytes = in_flight.bytes();
        let InFlight { place, id, asked, started } = in_flight;
        let duration = now.since(started);
        let effect = match (answer, asked) {
            (Answer::Reply(reply) | Answer::Replayed(reply), asked) if !is_overloaded(&reply) => {
                let (request, read_only) = match asked {
                    Asked::Request { request, read_only } => (Some(request), read_only),
                    Asked::Nothing { refusal, .. } if is_nothing(&reply) => return self.write(place, refusal, effects),
                    Asked::Nothing { .. } => (None, false),
                };
                FrontEffect::Reply { place, id, reply, request, read_only, duration }
            }
            // What nobody can say is asked again, under the same id.
            (_, asked) => {
                self.in_flight.insert(ticket, InFlight { place, id, asked, started });
                if planted(Bug::FrontAsksOnce) {
                    return;
                }
                return self.again.push_back((now.after(ASK_AGAIN), ticket));
            }
        };
        self.in_flight_bytes -= bytes;
        effects.push(effect);
    }

    fn write(&mut self, place: Place, reply: P, effects: &mut Effects<C, P>) {
        let Some(watermark) = self.watermark(place.partition) else { return };
        effects.push(FrontEffect::Write { place, reply, watermark });
    }
}

/// Whether a reply to what was asked in the place of a record says that this was never a request.
fn is_nothing(reply: &Reply) -> bool {
    let code = reply.outcome.as_ref().err().map(|abort| abort.code);
    matches!(code, Some(Code::UnknownOperator | Code::IdempotencyMismatch))
}

fn is_overloaded(reply: &Reply) -> bool {
    matches!(&reply.outcome, Err(abort) if abort.code == Code::Overloaded)
}
