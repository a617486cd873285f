//! Clients of the process that a driver is in: what they ask, and what they are told.

use styx_protocol::abort::Abort;
use styx_protocol::ids::RequestId;
use styx_protocol::machine::worker::{ClientRequest, ClientResponse};
use styx_protocol::replies::Reply;

use crate::wire::AdminQuery;

/// A message of a client. `W` names whoever waits for an [`Answer`], `R` whoever waits for a response
/// to an admin query; a driver that drops one of them will not answer.
#[derive(Debug)]
pub enum ClientMessage<W, R> {
    Request(ClientRequest<W>),
    /// An admin query; answered once all that the answer tells is durable.
    Read(AdminQuery, R),
}

impl<W, R> ClientMessage<W, R> {
    /// The same message of somebody who goes by another name.
    pub fn map_waiter<V>(self, name: impl FnOnce(W) -> V) -> ClientMessage<V, R> {
        match self {
            ClientMessage::Request(request) => ClientMessage::Request(request.map_waiter(name)),
            ClientMessage::Read(query, to) => ClientMessage::Read(query, to),
        }
    }
}

/// Answer to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The end of its request, or why it was refused.
    Reply(Reply),
    /// The end of a request that somebody has asked before under the same id.
    Replayed(Reply),
    /// Its request is durable and will be carried out.
    Accepted(RequestId),
    /// Nothing is known of the request that it asked for.
    Unknown,
    /// Its deployment took effect, or was refused.
    Controlled(Result<(), Abort>),
    /// The cluster cannot say.
    Failed(Failure),
}

/// Reason for which there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No worker serves, for longer than a request waits. Nothing has happened.
    Unavailable,
    /// The worker that had the request was lost before it answered, and whether the request was
    /// carried out is not known. Those that can be asked again are asked again instead.
    OutcomeUnknown,
    /// The disk of the log is nearly full. Nothing has happened.
    DiskFull,
    /// The log waits for its brokers. Nothing has happened.
    LogStalled,
    /// A worker holds as much state as it may. Nothing has happened.
    StateFull,
    /// The app has as much state as it may. Nothing has happened.
    AppStateFull,
}

impl Answer {
    /// The client, and the answer that a machine's response is to it.
    pub fn of<W>(response: ClientResponse<W>) -> (W, Answer) {
        match response {
            ClientResponse::Reply { waiter, reply } => (waiter, Answer::Reply(reply)),
            ClientResponse::Replayed { waiter, reply } => (waiter, Answer::Replayed(reply)),
            ClientResponse::Accepted { waiter, id } => (waiter, Answer::Accepted(id)),
            ClientResponse::Unknown { waiter } => (waiter, Answer::Unknown),
            ClientResponse::Returned { waiter } => (waiter, Answer::Failed(Failure::Unavailable)),
        }
    }

    /// Refuses a request because too many wait. Nothing has happened.
    pub fn overloaded(id: RequestId) -> Answer {
        let outcome = Err(Abort::backlog_full());
        Answer::Reply(Reply { id, tid: Default::default(), epoch: Default::default(), outcome })
    }
}
