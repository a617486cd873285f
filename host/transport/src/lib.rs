//! The transport between nodes: opaque messages, each exactly once and in order, over one connection
//! per pair that may break and come back.
//!
//! A [`Network`] knows peers. Each peer has a task of its own that owns the connection and two [links](styx_protocol::link): one for
//! messages of the current generation, which a new generation replaces, and one for *control* messages, which
//! generations do not concern (how else would a node hear of a new one). A link numbers messages and keeps them until
//! they are acknowledged. A connection neither loses nor reorders, so that messages are sent again only when a
//! connection has ended, on the next one; what has arrived twice by that is dropped by its number.
//!
//! What comes in is checked before it is used, and refused with a counted [`Reason`] that the other side is told once.
//! A connection that brings what it should not is ended. Streams are anything that reads and writes bytes: TCP, or TLS over it.
//!
//! Nothing here knows what the messages say; heartbeats and timeouts of nodes are the protocol's.

pub mod addresses;
pub mod authority;
mod compression;
mod connection;
mod context;
pub mod frame;
mod handshake;
mod hello;
mod holder;
mod inner;
pub mod listen;
mod network;
mod outgoing;
mod peer;
mod reason;
mod send_error;
pub mod tls;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

pub use hello::{Hello, NodeKind, Versions, same_build};
pub use network::Network;
pub use reason::{Counters, Reason, Refusal};
pub use send_error::SendError;
pub use styx_protocol::ids::NodeId;
pub use tls::Certificates;

/// When messages are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Compress {
    /// While the network is slower than the process
    #[default]
    Auto,
    /// All long ones
    Always,
    /// None
    Never,
}

/// Options of a node's network.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address on which connections are accepted; a node may only dial.
    pub listen: Option<SocketAddr>,
    /// What the node shows and believes; without, connections are plain TCP.
    pub certificates: Option<Certificates>,
    /// When bodies are compressed.
    pub compress: Compress,
    /// Bodies of more bytes are.
    pub compress_above_bytes: usize,
    /// Longest body, as it travels and decompressed.
    pub body_bytes_max: usize,
    /// Most bytes that may wait for one peer before messages to it are refused; each message
    /// counts 64 bytes more than its body.
    pub outstanding_bytes_max: usize,
    /// Time in which a new connection must greet.
    pub hello_timeout: Duration,
    /// A connection is given up when something waits for an acknowledgement and nothing at all has
    /// come for so long.
    pub silence_max: Duration,
    /// Whoever connects under the id of a peer that is connected, and is another process, is refused if anything has come
    /// from that peer since so long: it lives.
    pub takeover_after: Duration,
    /// First pause before a peer is dialed again; it doubles, with some randomness.
    pub redial_min: Duration,
    /// Longest pause.
    pub redial_max: Duration,
    /// Most connections that have not greeted yet.
    pub unauthenticated_max: usize,
    /// Most connections that one address has dialed.
    pub connections_per_address: usize,
    /// Nodes that are known before those that are neither connected nor dialed are forgotten: whoever has greeted is known
    /// until somebody says that it is gone, and where there is no TLS, anybody may greet by any id.
    pub peers_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: None,
            certificates: None,
            compress: Compress::Auto,
            compress_above_bytes: 4 << 10,
            body_bytes_max: 256 << 20,
            outstanding_bytes_max: 1 << 30,
            hello_timeout: Duration::from_secs(5),
            silence_max: Duration::from_secs(10),
            takeover_after: Duration::ZERO,
            redial_min: Duration::from_millis(20),
            redial_max: Duration::from_secs(2),
            unauthenticated_max: 256,
            connections_per_address: 1024,
            peers_max: 4096,
        }
    }
}

/// Events for the node. Everything about one peer comes in order.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// A message of a generation. One of an earlier generation than the node's may still come
    /// while the node begins a new one.
    Message {
        /// The sender.
        peer: NodeId,
        /// The generation that it belongs to.
        generation: u64,
        /// The message.
        body: Bytes,
    },
    /// A message outside generations.
    Control {
        /// The sender.
        peer: NodeId,
        /// The generation that the sender was in.
        generation: u64,
        /// The message.
        body: Bytes,
    },
    /// There is a connection to a peer.
    Connected {
        /// The peer.
        peer: NodeId,
        /// Its greeting.
        hello: Box<Hello>,
        /// It has forgotten what was under way: it is another process than before. What was not
        /// acknowledged is dropped, and if there was anything, the generation is [`Incoming::Broken`].
        restarted: bool,
    },
    /// The connection to a peer has ended; nothing is lost yet.
    Lost {
        /// The peer.
        peer: NodeId,
        /// The cause.
        why: String,
    },
    /// A peer was dialed, and there is no connection to it. It is dialed on.
    Unreached {
        /// The peer.
        peer: NodeId,
        /// Its machine says that nobody listens there: the process is gone.
        gone: bool,
        /// The cause.
        why: String,
    },
    /// Messages of this generation to or from this peer are lost; only a new one helps.
    Broken {
        /// The peer.
        peer: NodeId,
        /// The generation.
        generation: u64,
        /// The cause.
        why: String,
    },
    /// A peer has refused something that this node sent.
    Refused {
        /// The peer.
        peer: NodeId,
        /// A name of a [`Reason`], perhaps of another version.
        reason: String,
        /// The problem and the remedy.
        message: String,
    },
}
