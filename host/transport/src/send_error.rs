//! Why a message is not sent.

use super::NodeId;

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nobody has connected under this id, and nobody was to be dialed.
    #[error("node {0} is not known; connect to it first")]
    UnknownPeer(NodeId),
    /// There is no connection to the peer now.
    #[error("there is no connection to node {0}")]
    NotConnected(NodeId),
    /// The message is longer than messages may be.
    #[error("the message has {bytes} bytes; at most {most} travel at once")]
    TooLarge { bytes: usize, most: usize },
    /// Too much waits for the peer. In a generation this breaks the order: see [`Incoming::Broken`].
    #[error("{bytes} bytes wait for node {peer}; it is too slow or gone")]
    Backlogged {
        peer: NodeId,
        /// Bytes that wait.
        bytes: usize,
    },
    /// Messages of this generation were lost; only a new one helps.
    #[error("messages of generation {generation} to node {peer} were lost; begin a new generation")]
    Broken { peer: NodeId, generation: u64 },
    /// The network has stopped.
    #[error("the network has stopped")]
    Stopped,
}
