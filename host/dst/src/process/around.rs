//! Surroundings of a process: its threads, connections and clients, and the world around them, as far as it may reach.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use styx_driver::client::Answer as ClientAnswer;
use styx_driver::diagnostic::{Diagnostic, Level};
use styx_driver::single::SingleEvent;
use styx_driver::time::{Instant, Now};
use styx_driver::wire::{Envelope, Response as Seen};
use styx_driver::worker::WorkerEvent;
use styx_protocol::attempt::RemoteResponse;
use styx_protocol::ids::{Generation, NodeId, Timestamp};
use styx_protocol::message::Message;
use styx_protocol::task::RunId;

use super::Input;
use super::directory::Directory;
use super::front::FrontInput;
use crate::check::Checked;
use crate::clock::Clock;
use crate::environment::Environment;
use crate::event::{Event, Life, Response, ThreadId, Waiter};
use crate::network::{Happening, Outgoing, Peers, Unsent};
use crate::thread::{Answer, Thread, Wait};

/// What has come for a process, and what its threads have to say.
pub type Inbox = Rc<RefCell<VecDeque<Input>>>;

/// Bytes of a message that are told of it.
const MESSAGE_TEXT_MAX: usize = 500;
/// A frame that takes longer is a reason why a worker may be missed, µs: some may come in a row.
const SLOW: u64 = 50_000;

/// What a process has, whatever its role.
#[derive(Debug)]
pub struct Own {
    pub life: Life,
    /// What has come.
    pub inbox: Inbox,
    pub peers: Peers,
    /// What is on its disk.
    pub directory: Directory,
    threads: BTreeMap<ThreadId, Slot>,
    /// Threads that wait for what a run of a long transaction reads.
    readers: BTreeMap<(Option<Generation>, RunId), ThreadId>,
    next_thread: u32,
}

#[derive(Debug)]
struct Slot {
    thread: Thread,
    /// It waits for an order.
    is_idle: bool,
}

impl Own {
    /// A process that has just started.
    pub fn new(life: Life, peers: Peers, directory: Directory) -> Self {
        let (inbox, threads, readers) = (Inbox::default(), BTreeMap::new(), BTreeMap::new());
        Own { life, inbox, peers, directory, threads, readers, next_thread: 0 }
    }

    pub fn has_come(&self) -> bool {
        !self.inbox.borrow().is_empty()
    }
}

/// The process as its role sees it, in the midst of the world.
pub struct Around<'a> {
    pub own: &'a mut Own,
    pub environment: &'a mut Environment,
    /// The clocks of its machine.
    pub clock: &'a Clock,
    /// How long the thread of its driver has worked since it was woken, µs.
    pub spent: u64,
}

impl Around<'_> {
    /// The time of the world.
    pub fn time(&self) -> u64 {
        self.environment.queue.now() + self.spent
    }

    /// What the clocks show.
    pub fn now(&self) -> Now {
        self.clock.at(self.time())
    }

    /// The monotonic clock.
    pub fn instant(&self) -> Instant {
        self.now().monotonic
    }

    /// The clock on the wall, for a thread.
    pub fn wall(&self) -> impl Fn() -> Timestamp + use<> {
        let (clock, time) = (self.clock.clone(), self.environment.queue.watch());
        move || clock.at(time.get()).wall
    }

    /// The monotonic clock, for a thread.
    pub fn monotonic(&self) -> impl Fn() -> Instant + use<> {
        let (clock, time) = (self.clock.clone(), self.environment.queue.watch());
        move || clock.at(time.get()).monotonic
    }

    /// The driver's thread works for so long.
    pub fn spend(&mut self, duration: u64) {
        self.spent += duration;
    }

    /// Lets something happen after a delay.
    pub fn later(&mut self, delay: u64, event: Event) {
        self.environment.after(self.spent + delay, event);
    }

    // Threads.

    /// Starts a thread.
    pub fn spawn(&mut self, body: impl FnOnce() + 'static) -> ThreadId {
        self.own.next_thread += 1;
        let id = ThreadId(self.own.next_thread);
        self.own.threads.insert(id, Slot { thread: Thread::new(body), is_idle: false });
        let life = self.own.life;
        self.later(0, Event::Thread(life, id, Answer::Done));
        id
    }

    /// There is an order for a thread.
    pub fn wake(&mut self, id: ThreadId) {
        if let Some(slot) = self.own.threads.get_mut(&id)
            && std::mem::take(&mut slot.is_idle)
        {
            let life = self.own.life;
            self.later(0, Event::Thread(life, id, Answer::Done));
        }
    }

    /// Gives a thread up, wherever it is.
    pub fn abandon(&mut self, id: ThreadId) {
        self.own.threads.remove(&id);
    }

    /// A thread goes on.
    pub fn resume(&mut self, id: ThreadId, answer: Answer) {
        let Some(slot) = self.own.threads.get_mut(&id) else { return };
        let waits = slot.thread.resume(answer);
        match waits {
            None => {
                self.own.threads.remove(&id);
            }
            Some(Wait::Order) => slot.is_idle = true,
            Some(Wait::State(generation, run, operation)) => {
                self.own.readers.insert((generation, run), id);
                let read = match generation {
                    None => Input::Single(Box::new(SingleEvent::LongRead(run, operation))),
                    Some(generation) => Input::Worker(Box::new(WorkerEvent::LongRead(generation, run, operation))),
                };
                self.own.inbox.borrow_mut().push_back(read);
            }
            Some(waits) => self.environment.wait(self.own.life, id, waits),
        }
    }

    /// What a run of a long transaction has read is known.
    pub fn has_read(&mut self, run: (Option<Generation>, RunId), answer: RemoteResponse) {
        let id = self.own.readers.remove(&run).expect("it waits for what it reads");
        let life = self.own.life;
        self.later(0, Event::Thread(life, id, Answer::State(Box::new(answer))));
    }

    // Connections.

    fn network<T>(&mut self, act: impl FnOnce(&mut Peers, &mut Vec<Outgoing>) -> T) -> T {
        let mut out = Vec::new();
        let result = act(&mut self.own.peers, &mut out);
        self.carry_out(out);
        result
    }

    fn carry_out(&mut self, out: Vec<Outgoing>) {
        let life = self.own.life;
        for outgoing in out {
            match outgoing {
                Outgoing::Frame(connection, frame) => {
                    let delay = self.environment.frame_delay();
                    let sent = self.time();
                    if let Some((to, arrives)) = self.environment.network.route(connection, life, sent, delay) {
                        let delay = arrives - self.environment.queue.now();
                        if delay > SLOW {
                            [life, to].into_iter().for_each(|end| self.environment.causes.affects(end.node, arrives));
                        }
                        self.environment.after(delay, Event::Frame(to, connection, frame));
                    }
                }
                Outgoing::Dial(dial) => {
                    let delay = self.environment.frame_delay();
                    self.later(delay, Event::Call(life, dial));
                }
                Outgoing::Later(delay, happening) => self.later(delay, Event::Network(life, happening)),
                Outgoing::Close(connection) => self.environment.close(connection, Some(life), "it was given up"),
                Outgoing::Tell(event) => self.own.inbox.borrow_mut().push_back(Input::Network(event)),
            }
        }
    }

    /// Something has happened to a connection.
    pub fn happened(&mut self, happening: Happening) {
        if let Happening::Frame(connection, frame) = &happening
            && let Some((generation, number)) = frame.message()
            && let Some(from) = self.environment.network.other_end(*connection, self.own.life)
        {
            let (parcel, now) = ((from, self.own.peers.id(), generation, number), self.time());
            self.environment.trace.arrives(parcel, self.own.life.node, now);
        }
        let mut out = Vec::new();
        self.own.peers.take(happening, &mut self.environment.random, &mut out);
        self.carry_out(out);
    }

    /// Sends a message of the generation.
    ///
    /// # Errors
    /// It is not sent, and nothing after it.
    pub fn send(&mut self, to: NodeId, message: &Message) -> Result<(), Unsent> {
        let body = Bytes::from(message.encode());
        self.say(to, message, |peers, out| peers.send(to, body, out))
    }

    /// Sends something, of which nothing is longer than what travels at once, and notes that.
    fn say(
        &mut self,
        to: NodeId,
        said: &dyn std::fmt::Debug,
        send: impl FnOnce(&mut Peers, &mut Vec<Outgoing>) -> Result<(u64, u64), Unsent>,
    ) -> Result<(), Unsent> {
        let (time, life) = (self.time(), self.own.life);
        self.environment.trace.event(time, [24, life.node as u64, to.0], || {
            let mut said = format!("{said:?}");
            said.truncate(said.floor_char_boundary(MESSAGE_TEXT_MAX));
            format!("{life} to {}: {said}", to.0)
        });
        let sent = self.network(send);
        assert_ne!(sent, Err(Unsent::TooLarge), "{life} sends more than travels at once");
        let (generation, number) = sent?;
        self.environment.trace.is_sent((life.node, to, generation, number));
        Ok(())
    }

    /// Sends a control message.
    pub fn send_control(&mut self, to: NodeId, envelope: &Envelope) -> Result<(), Unsent> {
        let body = Bytes::from(envelope.encode());
        self.say(to, envelope, |peers, out| peers.send_control(to, body, out))
    }

    /// Sends a control message over a connection that is there.
    pub fn send_control_now(&mut self, to: NodeId, envelope: &Envelope) -> Result<(), Unsent> {
        let body = Bytes::from(envelope.encode());
        self.say(to, envelope, |peers, out| peers.send_control_now(to, body, out))
    }

    /// From now on messages are of this generation.
    pub fn set_generation(&mut self, generation: u64) {
        self.network(|peers, out| peers.set_generation(generation, out));
    }

    /// Keeps a connection to a node.
    pub fn connect(&mut self, node: NodeId, address: &str) {
        let address = node_at(address);
        self.network(|peers, out| peers.dial(node, address, out));
    }

    /// Looks for a node elsewhere.
    pub fn redirect(&mut self, node: NodeId, address: &str) {
        let address = node_at(address);
        self.network(|peers, out| peers.redirect(node, address, out));
    }

    /// Gives a connection up.
    pub fn forget(&mut self, node: NodeId) {
        self.network(|peers, out| peers.forget(node, out));
    }

    // Clients and people.

    /// Answers whoever waits.
    pub fn answer_to(&mut self, waiter: Waiter, answer: ClientAnswer) -> Checked {
        match waiter {
            Waiter::Client(attempt) => self.answer(attempt, answer),
            Waiter::Front(session, ticket) => {
                let input = FrontInput::Answered(session, ticket, answer);
                self.own.inbox.borrow_mut().push_back(Input::Front(Box::new(input)));
                Ok(())
            }
        }
    }

    /// Answers a client.
    pub fn answer(&mut self, attempt: usize, answer: ClientAnswer) -> Checked {
        let (life, spent) = (self.own.life, self.spent);
        self.environment.answer(life, attempt, Response::from(answer), spent)
    }

    /// Shows somebody what was looked at.
    pub fn show(&mut self, attempt: usize, seen: Seen) -> Checked {
        let (life, spent) = (self.own.life, self.spent);
        self.environment.answer(life, attempt, Response::Seen(Box::new(seen)), spent)
    }

    /// Tells people.
    pub fn tell(&mut self, diagnostic: &Diagnostic) {
        let (now, life) = (self.environment.queue.now(), self.own.life);
        if diagnostic.level == Level::Debug {
            return;
        }
        self.environment.trace.event(now, [21, life.node as u64], || {
            let level = format!("{:?}", diagnostic.level).to_lowercase();
            let generation = diagnostic.generation.map(|generation| format!(" (generation {generation})"));
            let node = diagnostic.node.map(|node| format!(" (node {})", node.0));
            let (node, generation) = (node.unwrap_or_default(), generation.unwrap_or_default());
            format!("{life} {level}: {}{node}{generation}", diagnostic.message)
        });
    }
}

pub fn address_of(node: usize) -> String {
    format!("n{node}")
}

fn node_at(address: &str) -> usize {
    address[1..].parse().expect("nodes have addresses that name them")
}
