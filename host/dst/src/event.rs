//! Events of a world, and what they carry.

use std::fmt;
use std::sync::Arc;

use styx_driver::client::{Answer as DriverAnswer, Failure};
use styx_driver::suspicion::Suspect;
use styx_driver::wire::{AdminQuery, Response as Seen};
use styx_protocol::abort::Abort;
use styx_protocol::control::Control;
use styx_protocol::deployment::Digest;
use styx_protocol::ids::RequestId;
use styx_protocol::quarantine::Subject;
use styx_protocol::replies::Reply;
use styx_protocol::transaction::Request;

use crate::network::{Dial, Frame, Happening};
use crate::process::Input;
use crate::records::Call;
use crate::store::{Deletion, Put};
use crate::thread::Answer;
use crate::topic;

/// An event of the world.
#[derive(Debug)]
pub enum Event {
    /// A process takes what has come, and does what is due.
    Run(Life),
    /// A thread of a process goes on.
    Thread(Life, ThreadId, Answer),
    /// An execution thread of a process is done with something.
    Work(Life, Work),
    /// A component is compiled in a process, or was not there.
    Compiled(Life, Digest),
    /// Something happens to a process's connections.
    Network(Life, Happening),
    /// A node is called by a process.
    Call(Life, Dial),
    /// A frame arrives at the end of a connection.
    Frame(Life, u64, Frame),
    /// Nothing has come on a connection for long.
    Silence(u64),
    /// An object reaches the store; a thread waits for the answer.
    Put(Life, ThreadId, Put, Fate),
    /// A deletion reaches the store.
    Delete(Life, ThreadId, Deletion, Fate),
    /// Something that a process asks for reaches the brokers of records.
    Called(Life, ThreadId, Box<Call>, Fate),
    /// A process is told something by them.
    Told(Life, Box<Input>),
    /// The group of fronts is looked at.
    ReviewGroup,
    /// Clients send records.
    Produce,
    /// A message of a process reaches the topic.
    Append(Life, topic::Message),
    /// The topic's answer reaches the process.
    Confirmed(topic::Sender, i64),
    /// A client's message (the attempt, and what it says) reaches a node.
    Message(usize, usize, Message),
    /// An answer from a life of a node (or from its kernel) reaches the client of an attempt.
    Response(Option<Life>, usize, Response),
    /// A client has waited long enough.
    Timeout(usize),
    /// A client's slot goes on.
    Wake(usize),
    /// The administrator deploys.
    Deploy,
    /// The administrator has something executed again that was set aside, as what it met is mended.
    Release(Subject),
    /// A run beside the epochs ends its process.
    Poisoned(Life, Suspect),
    /// A node starts (again).
    Start(usize),
    /// A node's disk is quick again.
    Quick(usize),
    /// A machine loses power.
    Outage(usize),
    /// There is room on a node's disk again.
    Emptied(usize),
    /// A worker is asked to end.
    Retire(usize),
    /// Somebody wants a snapshot of a process.
    TakeSnapshot(usize),
    /// A process goes on that stood still.
    Awake(usize),
    Fault(usize),
}

/// Who waits for an answer in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiter {
    /// The client of an attempt.
    Client(usize),
    /// The front for records: its session, and the ticket of a request.
    Front(u32, u64),
}

/// What becomes of something on its way to the store and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives, and so does the answer, after so long.
    Answered(u64),
    /// It arrives, and the answer is lost: the sender gives up after so long.
    Unanswered(u64),
}

/// A thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// Something that execution threads have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A thread's share of a batch.
    Share(u64, usize),
    Task(u64),
}

/// A life of a node: from a start to a crash. What is meant for an earlier one reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    pub node: usize,
    /// Starts.
    pub number: u32,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.node, self.number)
    }
}

/// A message from a client to a node.
#[derive(Clone, Debug)]
pub enum Message {
    /// A request that may write; a receipt is enough if so.
    Submit(Arc<Request>, bool),
    /// A read-only request.
    Query(Arc<Request>),
    /// The question for a request's end.
    Await(RequestId),
    Control(Control),
    /// A look at how things are.
    Look(AdminQuery),
}

/// A message from a node, or its kernel, to a client.
#[derive(Clone, Debug)]
pub enum Response {
    Reply(Reply),
    Accepted,
    /// Nothing is known.
    Unknown,
    /// A deployment is done, or refused.
    Controlled(Result<(), Abort>),
    /// Nobody can say.
    Failed(Failure),
    /// What was looked at.
    Seen(Box<Seen>),
    /// The connection broke.
    Broken,
}

impl From<DriverAnswer> for Response {
    fn from(answer: DriverAnswer) -> Self {
        match answer {
            DriverAnswer::Reply(reply) | DriverAnswer::Replayed(reply) => Response::Reply(reply),
            DriverAnswer::Accepted(_) => Response::Accepted,
            DriverAnswer::Unknown => Response::Unknown,
            DriverAnswer::Controlled(result) => Response::Controlled(result),
            DriverAnswer::Failed(failure) => Response::Failed(failure),
        }
    }
}
