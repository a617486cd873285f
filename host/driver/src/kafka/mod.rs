//! Front driver: takes records of a topic as requests, and gives each its reply exactly once.
//!
//! Every request has an id under which its reply is remembered, so that it may be asked again, which happens
//! whenever nobody can say what became of it. Every reply says which record it answers and below which offset
//! all have been answered ([`progress`]); a front that starts reads the last replies ([`recovery`]) and goes
//! on from there.
//!
//! Nothing here knows brokers, headers or JSON: records and replies are opaque.

pub mod progress;
pub mod recovery;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use styx_protocol::abort::Code;
use styx_protocol::ids::RequestId;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Request;

use self::progress::{Admission, Progress};
use crate::client::Answer;
use crate::time::Instant;

/// Requests under way, and bytes of their arguments; past that no more are taken.
const IN_FLIGHT_MAX: usize = 4096;
const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;

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
#[derive(Clone, Debug)]
pub enum Prepared<C> {
    Request {
        /// The request; its reply is remembered.
        request: Arc<Request>,
        /// Its function only reads.
        read_only: bool,
    },
    /// The record is no request now; it may have been one and have ended when another front read it.
    Refused {
        /// What its request's id was.
        request: RequestId,
        record: C,
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
    /// [`FrontEffect::Prepare`]: this is to be asked; with the id in the client's words, or one made of the record's place.
    Prepared(Place, String, Prepared<C>),
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
    /// Make a request of a record: say [`FrontEvent::Prepared`] or [`FrontEvent::TooEarly`], or keep it as what cannot
    /// have been a request, and later [`FrontEvent::Write`] its refusal.
    Prepare {
        place: Place,
        record: C,
        /// Everything below this offset of its partition has been answered.
        watermark: i64,
    },
    /// The same of a record of which nothing is known: it may be kept as no request.
    Refuse(Place, C),
    /// Ask for a request to be carried out; then say [`FrontEvent::Answered`].
    Ask {
        /// Comes back with the answer.
        ticket: u64,
        request: Arc<Request>,
        read_only: bool,
    },
    /// Ask for the end of an earlier request; then say [`FrontEvent::Answered`].
    AskEnd {
        /// Comes back with the answer.
        ticket: u64,
        request: RequestId,
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
struct InFlight<C> {
    place: Place,
    id: String,
    prepared: Prepared<C>,
    started: Instant,
}

impl<C> InFlight<C> {
    fn bytes(&self) -> usize {
        match &self.prepared {
            Prepared::Request { request, .. } => request.args.len(),
            Prepared::Refused { .. } => 0,
        }
    }
}

#[derive(Debug)]
pub struct FrontDriver<C, P> {
    partitions: BTreeMap<i32, Partition<C>>,
    in_flight: BTreeMap<u64, InFlight<C>>,
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
    pub fn new(partitions: impl IntoIterator<Item = (i32, Progress)>) -> Self {
        let partition = |(number, progress)| (number, Partition { progress, held: VecDeque::new(), paused: false });
        FrontDriver {
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

    /// Tells whether records may be given.
    pub fn has_room(&self) -> bool {
        let held = self.partitions.values().map(|partition| partition.held.len()).sum::<usize>();
        self.ending.is_none()
            && self.in_flight.len() + self.unwritten.len() + held + self.postponed.len() < IN_FLIGHT_MAX
            && self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
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
            FrontEvent::Prepared(place, id, prepared) => {
                self.next_ticket += 1;
                let in_flight = InFlight { place, id, prepared, started: now };
                self.in_flight_bytes += in_flight.bytes();
                self.in_flight.insert(self.next_ticket, in_flight);
                self.ask(self.next_ticket, effects);
            }
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
                    self.prepare(place, record, effects);
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
            Admission::Taken => self.prepare(place, record, effects),
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
                    let (place, watermark) = (Place { partition: number, offset }, partition.progress.watermark());
                    effects.push(FrontEffect::Prepare { place, record, watermark });
                }
            }
        }
        if std::mem::take(&mut partition.paused) {
            effects.push(FrontEffect::Resume(number));
        }
    }

    fn prepare(&self, place: Place, record: C, effects: &mut Effects<C, P>) {
        let Some(partition) = self.partitions.get(&place.partition) else { return };
        let watermark = partition.progress.watermark();
        effects.push(FrontEffect::Prepare { place, record, watermark });
    }

    fn ask(&self, ticket: u64, effects: &mut Effects<C, P>) {
        let Some(in_flight) = self.in_flight.get(&ticket) else { return };
        effects.push(match &in_flight.prepared {
            Prepared::Request { request, read_only } => {
                FrontEffect::Ask { ticket, request: request.clone(), read_only: *read_only }
            }
            Prepared::Refused { request, .. } => FrontEffect::AskEnd { ticket, request: *request },
        });
    }

    fn answered(&mut self, now: Instant, ticket: u64, answer: Answer, effects: &mut Effects<C, P>) {
        let Some(in_flight) = self.in_flight.remove(&ticket) else { return };
        let bytes = in_flight.bytes();
        let InFlight { place, id, prepared, started } = in_flight;
        let duration = now.since(started);
        effects.push(match (answer, prepared) {
            (Answer::Reply(reply), prepared) if !is_overloaded(&reply) => {
                let (request, read_only) = match prepared {
                    Prepared::Request { request, read_only } => (Some(request), read_only),
                    Prepared::Refused { .. } => (None, false),
                };
                FrontEffect::Reply { place, id, reply, request, read_only, duration }
            }
            (Answer::Unknown, Prepared::Refused { record, .. }) => FrontEffect::Refuse(place, record),
            // What nobody can say is asked again, under the same id.
            (_, prepared) => {
                self.in_flight.insert(ticket, InFlight { place, id, prepared, started });
                return self.again.push_back((now.after(ASK_AGAIN), ticket));
            }
        });
        self.in_flight_bytes -= bytes;
    }

    fn write(&mut self, place: Place, reply: P, effects: &mut Effects<C, P>) {
        let Some(partition) = self.partitions.get(&place.partition) else { return };
        let watermark = partition.progress.watermark();
        effects.push(FrontEffect::Write { place, reply, watermark });
    }
}

fn is_overloaded(reply: &Reply) -> bool {
    matches!(&reply.outcome, Err(abort) if abort.code == Code::Overloaded)
}
