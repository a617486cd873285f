//! Events of a process's connections to others, as every driver of a cluster hears them.
//!
//! A message that cannot be read is an event like any other: what a peer sends is an operating
//! error, and each driver says what it does about it. A malformed control message is dropped, like one
//! that was lost; a malformed message of the protocol is a hole in an ordered stream, which only a new
//! generation mends.

use styx_protocol::ids::{Generation, NodeId};
use styx_protocol::message::Message;

use crate::wire::{DecodeError, Envelope};

/// Something that happened on a connection.
#[derive(Debug)]
pub enum NetworkEvent {
    /// A message of the protocol, in order within its generation.
    Message {
        from: NodeId,
        generation: Generation,
        /// The message, or why it cannot be read.
        message: Result<Box<Message>, String>,
    },
    /// A control message, which may have been lost or overtaken.
    Control {
        from: NodeId,
        /// The message, or why it cannot be read.
        message: Result<Box<Envelope>, DecodeError>,
    },
    /// A connection was made.
    Connected {
        peer: NodeId,
        /// It is another process than before: no control message of before arrives any more.
        restarted: bool,
    },
    /// A connection has ended; the network tries to make it again.
    Lost { peer: NodeId, why: String },
    /// A peer could not be connected to.
    Unreached {
        peer: NodeId,
        /// Its machine answers, and nobody listens there any more.
        gone: bool,
        why: String,
    },
    /// Messages of a generation were lost.
    Broken { peer: NodeId, generation: Generation, why: String },
    /// A peer will not have this process.
    Refused {
        peer: NodeId,
        refusal: Refusal,
        /// The peer's own word for it.
        reason: String,
        /// The peer's explanation.
        message: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A coordinator that does not lead.
    Standby,
    /// Another release or engine: it will never be otherwise.
    Build,
    /// Anything else.
    Other,
}
