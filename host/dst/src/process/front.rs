//! The front for records of a topic, in a gateway or a single process: the product's driver, how it begins and how it
//! writes; and around them, threads and a session that begins again when it fails.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use styx_driver::client::Answer as ClientAnswer;
use styx_driver::kafka::beginning::{Begun, Brokers, Right, Writers, begin};
use styx_driver::kafka::progress::Progress;
use styx_driver::kafka::recovery::ReplyMark;
use styx_driver::kafka::writing::{Sent, WriteProblem, write_all};
use styx_driver::kafka::{Ending, FrontDriver, FrontEffect, FrontEvent, Place};
use styx_driver::time::Instant;
use styx_protocol::catalog::Catalog;
use styx_protocol::transaction::Request;

use super::Input;
use super::around::{Around, Inbox};
use crate::check::Checked;
use crate::environment::TOPIC;
use crate::event::{Message, ThreadId, Waiter};
use crate::records::{Answered, Call, Content, Name, Record, Told};
use crate::thread::{Answer, Wait, wait};
use crate::toy;

/// Something for a front.
#[derive(Debug)]
pub enum FrontInput {
    /// It is to serve these partitions, or those that it will be told.
    Assigned(Option<Vec<i32>>),
    /// What a session found.
    Begun(u32, Option<Begun<Name>>),
    /// Records, and how many partitions there are.
    Records(u32, Vec<(Place, Record)>, usize),
    Sent(u32, Sent<()>),
    Answered(u32, u64, ClientAnswer),
}

/// See the module.
#[derive(Debug)]
pub struct Front {
    assigned: Option<Vec<i32>>,
    /// Sessions that began.
    sessions: u32,
    state: State,
    /// Partitions of requests that it knows of.
    partitions: usize,
    /// It is one of a group.
    is_shared: bool,
}

#[derive(Debug)]
enum State {
    /// For partitions, and until then.
    Waits(Instant),
    /// Whether it was told of other partitions meanwhile.
    Begins {
        reassigned: bool,
    },
    Serves(Box<Session>),
}

#[derive(Debug)]
struct Session {
    driver: FrontDriver<Record, Answered>,
    writers: Writers<Writer>,
    reading: Rc<RefCell<Reading>>,
}

/// Replies on their way to the thread that writes them.
#[derive(Debug)]
struct Writer {
    waiting: Rc<RefCell<Waiting>>,
    thread: ThreadId,
}

#[derive(Debug, Default)]
struct Waiting {
    replies: VecDeque<(Answered, i64)>,
    is_closed: bool,
}

/// What the thread that reads has been told.
#[derive(Debug, Default)]
struct Reading {
    positions: BTreeMap<i32, i64>,
    paused: Vec<i32>,
    has_room: bool,
    is_over: bool,
}

/// Replies of a partition that wait for its writer.
const WAITING_MAX: usize = 5;
/// Longest pause between two steps.
const TICK: Duration = Duration::from_millis(20);
/// Pause before a session that failed begins again.
const PAUSE: Duration = Duration::from_millis(100);
/// Pause between two reads.
const POLL: Duration = Duration::from_millis(5);

type DriverEvent = FrontEvent<Record, Answered>;
type DriverEffect = FrontEffect<Record, Answered>;
/// What a front asks its process for.
type Asked = Vec<(Waiter, Message)>;

impl Front {
    /// A front that is alone, or is told what to serve.
    pub fn new(is_shared: bool, around: &Around<'_>) -> Self {
        let partitions = around.environment.brokers.partitions();
        let assigned = (!is_shared).then(|| (0..partitions as i32).collect());
        Front { assigned, sessions: 0, state: State::Waits(around.instant()), partitions, is_shared }
    }

    /// Records that it has taken and that have no reply.
    pub fn under_way(&self) -> usize {
        match &self.state {
            State::Serves(session) => session.driver.under_way(),
            _ => 0,
        }
    }

    /// Takes what has come; `catalog` is what is deployed, as far as its process knows.
    pub fn take(&mut self, input: FrontInput, catalog: &Catalog, around: &mut Around<'_>) -> Checked<Asked> {
        match input {
            FrontInput::Assigned(assigned) => {
                self.assigned = assigned;
                match &mut self.state {
                    State::Waits(_) => {}
                    State::Begins { reassigned } => *reassigned = true,
                    State::Serves(_) => self.ends(Duration::ZERO, around),
                }
            }
            FrontInput::Begun(session, begun) if session == self.sessions => {
                let reassigned = matches!(self.state, State::Begins { reassigned: true });
                match begun {
                    _ if reassigned => self.ends(Duration::ZERO, around),
                    Some(begun) => self.state = State::Serves(Box::new(self.serve(begun, around))),
                    None => self.ends(PAUSE, around),
                }
            }
            FrontInput::Records(session, records, partitions) if session == self.sessions => {
                let mut asked = self.step(FrontEvent::Read(records), catalog, around)?;
                if matches!(self.state, State::Serves(_)) && partitions > self.partitions {
                    asked.extend(self.step(FrontEvent::End(Ending::Repartitioned), catalog, around)?);
                }
                return Ok(asked);
            }
            FrontInput::Sent(session, sent) if session == self.sessions => match sent {
                Sent::Reply(place) => return self.step(FrontEvent::Written(place), catalog, around),
                Sent::Failed(()) => self.ends(PAUSE, around),
            },
            FrontInput::Answered(session, ticket, answer) if session == self.sessions => {
                return self.step(FrontEvent::Answered(ticket, answer), catalog, around);
            }
            // Of a session that is over.
            _ => {}
        }
        Ok(Vec::new())
    }

    /// The session is over; another begins after a pause.
    fn ends(&mut self, pause: Duration, around: &mut Around<'_>) {
        let state = std::mem::replace(&mut self.state, State::Waits(around.instant().after(pause)));
        if let State::Serves(session) = state {
            session.reading.borrow_mut().is_over = true;
            for writer in session.writers.into_values() {
                // What waits is still written, if it can be.
                writer.waiting.borrow_mut().is_closed = true;
                around.wake(writer.thread);
            }
        }
    }

    /// Time goes on.
    pub fn tick(&mut self, catalog: &Catalog, around: &mut Around<'_>) -> Checked<Asked> {
        match (&self.state, &self.assigned) {
            (State::Waits(until), Some(assigned)) if *until <= around.instant() => {
                self.sessions += 1;
                start(self.sessions, assigned.clone(), self.partitions as i32, around);
                self.state = State::Begins { reassigned: false };
                Ok(Vec::new())
            }
            (State::Serves(_), _) => self.step(FrontEvent::Tick, catalog, around),
            _ => Ok(Vec::new()),
        }
    }

    /// When it wants to be woken.
    pub fn wake(&self, ticked: Instant) -> Option<Instant> {
        match &self.state {
            State::Waits(until) => self.assigned.as_ref().map(|_| *until),
            State::Begins { .. } => None,
            State::Serves(_) => Some(ticked.after(TICK)),
        }
    }

    fn serve(&self, begun: Begun<Name>, around: &mut Around<'_>) -> Session {
        let limits = around.environment.plan.records.expect("there are records").limits;
        let mut reading = Reading { has_room: true, ..Reading::default() };
        let Begun { progress, writers } = begun;
        let position = |(partition, of): (&i32, &Progress)| (*partition, of.watermark());
        reading.positions = progress.iter().map(position).collect();
        let Ok(writers) = writers.try_map(|name| Ok::<_, Infallible>(Writer::start(self.sessions, name, around)));
        let reading = Rc::new(RefCell::new(reading));
        read(self.sessions, reading.clone(), around);
        Session { driver: FrontDriver::new(TOPIC, limits, progress), writers, reading }
    }

    fn step(&mut self, event: DriverEvent, catalog: &Catalog, around: &mut Around<'_>) -> Checked<Asked> {
        let State::Serves(session) = &mut self.state else { return Ok(Vec::new()) };
        let mut asked = Vec::new();
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            session.driver.step(around.instant(), event, &mut effects);
            for effect in effects {
                events.extend(session.perform(self.sessions, effect, catalog, &mut asked, around)?);
            }
        }
        session.reading.borrow_mut().has_room = session.driver.has_room();
        if session.driver.ended(around.instant()).is_some() {
            self.ends(PAUSE, around);
            self.partitions = around.environment.brokers.partitions();
            if !self.is_shared {
                self.assigned = Some((0..self.partitions as i32).collect());
            }
        }
        Ok(asked)
    }
}

impl Session {
    fn perform(
        &self,
        number: u32,
        effect: DriverEffect,
        catalog: &Catalog,
        asked: &mut Asked,
        around: &mut Around<'_>,
    ) -> Checked<Option<DriverEvent>> {
        match effect {
            FrontEffect::Prepare(place, record) => return Ok(Some(prepare(place, record, catalog, around))),
            FrontEffect::Ask { ticket, request, read_only } => {
                let message = if read_only { Message::Query(request) } else { Message::Submit(request, false) };
                asked.push((Waiter::Front(number, ticket), message));
            }
            FrontEffect::Reply { place, reply, read_only, .. } => {
                around.environment.answers_record(around.own.life, place, &reply, read_only)?;
                let is_long = around.environment.brokers.record(place).is_long;
                let answered = Answered { place, reply: Some(reply), has_letter: false, is_long };
                return Ok(Some(FrontEvent::Write(place, answered)));
            }
            FrontEffect::Write { place, reply, watermark } => {
                let writer = self.writers.of(place.partition).expect("it is served");
                if writer.waiting.borrow().replies.len() >= WAITING_MAX {
                    return Ok(Some(FrontEvent::Unwritten(place, reply)));
                }
                writer.waiting.borrow_mut().replies.push_back((reply, watermark));
                around.wake(writer.thread);
            }
            FrontEffect::Pause(partition) => self.reading.borrow_mut().paused.push(partition),
            FrontEffect::Resume(partition) => {
                self.reading.borrow_mut().paused.retain(|paused| *paused != partition);
            }
        }
        Ok(None)
    }
}

/// Makes a request of a record, as far as what is deployed is known.
fn prepare(place: Place, record: Record, catalog: &Catalog, around: &Around<'_>) -> DriverEvent {
    if catalog.version() == 0 {
        return FrontEvent::TooEarly(place, record);
    }
    let id = format!("{place:?}");
    let refusal = Answered { place, reply: None, has_letter: true, is_long: record.is_long };
    let (of, operator) = match record.what {
        Content::Request(of, operator) => (of, operator),
        Content::Nonsense(of) => {
            let request = of.map(|of| around.environment.history.requests[of].request.id);
            return FrontEvent::Unfit { place, id, request, refusal };
        }
    };
    let request: Arc<Request> = around.environment.history.requests[of].request.clone();
    let found = catalog.find(toy::APP, toy::OPERATORS[operator]).ok().and_then(|found| {
        let function = found.function(found.function_index(&request.function)?);
        Some((found.id, function.read_only))
    });
    match found {
        Some((operator, read_only)) => {
            let request = Request { operator, ..Request::clone(&request) };
            FrontEvent::Prepared { place, id, request, read_only }
        }
        None => FrontEvent::Unfit { place, id, request: Some(request.id), refusal },
    }
}

fn call(call: Call) -> Result<Told, ()> {
    match wait(Wait::Call(Box::new(call))) {
        Answer::Told(told) => Ok(*told),
        _ => Err(()),
    }
}

/// The brokers, as a thread sees them.
struct FromThread;

impl Brokers for FromThread {
    type Writer = Name;
    type Error = ();

    fn take(&self, rights: &[Right]) -> Result<Vec<Name>, ()> {
        let take = |right: &Right| match call(Call::Take(*right))? {
            Told::Taken(name) => Ok(name),
            _ => Err(()),
        };
        rights.iter().map(take).collect()
    }

    fn end_of_sent(&self, egress: i32) -> Result<i64, ()> {
        match call(Call::EndOfSent(egress))? {
            Told::Offset(offset) => Ok(offset),
            _ => Err(()),
        }
    }

    fn decided(&self, egress: i32) -> Result<(i64, i64), ()> {
        range(Call::Decided(egress))
    }

    fn wait_for_decision(&self, _: i32) -> Result<(), ()> {
        wait(Wait::Pause(PAUSE));
        Ok(())
    }

    fn replies(&self, egress: i32, from: i64, until: i64) -> Result<Vec<ReplyMark>, ()> {
        match call(Call::Replies { egress, from, until })? {
            Told::Marks(marks) => Ok(marks),
            _ => Err(()),
        }
    }

    fn requests(&self, partition: i32) -> Result<(i64, i64), ()> {
        range(Call::Requests(partition))
    }

    fn was_created_anew(&self, partition: i32, answered: i64, end: i64) {
        panic!("partition {partition} ends at {end}, and {answered} were answered");
    }
}

fn range(of: Call) -> Result<(i64, i64), ()> {
    match call(of)? {
        Told::Range(first, end) => Ok((first, end)),
        _ => Err(()),
    }
}

/// The thread in which a session begins.
fn start(session: u32, partitions: Vec<i32>, of: i32, around: &mut Around<'_>) {
    let plan = around.environment.plan.records.expect("there are records");
    let inbox = around.own.inbox.clone();
    around.spawn(move || {
        let begun = begin(&FromThread, &partitions, of, plan.egress as i32, plan.limits.window).ok();
        tell(&inbox, FrontInput::Begun(session, begun));
    });
}

/// The thread that reads records.
fn read(session: u32, reading: Rc<RefCell<Reading>>, around: &mut Around<'_>) {
    let inbox = around.own.inbox.clone();
    around.spawn(move || {
        while !reading.borrow().is_over {
            let positions = {
                let reading = reading.borrow();
                let is_read = |(partition, _): &(&i32, &i64)| !reading.paused.contains(partition);
                reading.positions.iter().filter(is_read).map(|(partition, offset)| (*partition, *offset)).collect()
            };
            let told = if reading.borrow().has_room { call(Call::Fetch(positions)) } else { Err(()) };
            if let Ok(Told::Records(records, partitions)) = told {
                for (place, _) in &records {
                    reading.borrow_mut().positions.insert(place.partition, place.offset + 1);
                }
                tell(&inbox, FrontInput::Records(session, records, partitions));
            }
            wait(Wait::Pause(POLL));
        }
    });
}

impl Writer {
    /// The thread that writes replies under a right.
    fn start(session: u32, name: Name, around: &mut Around<'_>) -> Self {
        let waiting: Rc<RefCell<Waiting>> = Rc::default();
        let (taken, inbox) = (waiting.clone(), around.own.inbox.clone());
        let thread = around.spawn(move || {
            let next = |most: usize| loop {
                let mut waiting = taken.borrow_mut();
                if !waiting.replies.is_empty() {
                    let count = waiting.replies.len().min(most);
                    return Some(waiting.replies.drain(..count).collect());
                }
                if waiting.is_closed {
                    return None;
                }
                drop(waiting);
                wait(Wait::Order);
            };
            write_all(next, |batch| append(name, batch), |sent| tell(&inbox, FrontInput::Sent(session, sent)));
        });
        Writer { waiting, thread }
    }
}

/// Writes a batch in a transaction.
fn append(name: Name, batch: &[(Answered, i64)]) -> Result<(), WriteProblem<()>> {
    let letters = batch.iter().filter(|(answered, _)| answered.has_letter);
    let long_letter = letters.clone().position(|(answered, _)| answered.is_long);
    let long_reply = batch.iter().position(|(answered, _)| answered.is_long && answered.reply.is_some());
    if let Some(at) = long_letter.or(long_reply.map(|at| letters.count() + at)) {
        return Err(WriteProblem::TooLarge(at));
    }
    for step in [Call::Produce(name, batch.to_vec()), Call::Commit(name)] {
        match call(step) {
            Ok(Told::Done) => {}
            _ => return Err(WriteProblem::Failed(())),
        }
    }
    Ok(())
}

fn tell(inbox: &Inbox, input: FrontInput) {
    inbox.borrow_mut().push_back(Input::Front(Box::new(input)));
}
