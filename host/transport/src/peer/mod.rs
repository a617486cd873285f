//! A peer as others see it: the queue that they fill, and how much waits in it.

mod task;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::hello::Hello;
use super::network::{Context, SendError};
use super::{Incoming, NodeId};

pub(super) use task::Task;

/// What a message weighs besides its body.
const MESSAGE_BYTES: usize = 64;

/// Which of the two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Data,
    Control,
}

/// What a peer's task is told.
pub(super) enum Command {
    Send { lane: Lane, generation: u64, body: Bytes },
    Generation(u64),
    Adopt(Box<Adoption>),
}

/// A connection that both sides have greeted on.
pub(super) struct Adoption {
    pub(super) connection: Connection,
    pub(super) hello: Hello,
    pub(super) dialer: NodeId,
    /// Dropped when the connection was taken or refused.
    pub(super) settled: Option<oneshot::Sender<()>>,
}

/// What others see of a peer.
pub(super) struct Peer {
    pub(super) id: NodeId,
    /// See [`Hello::session`].
    pub(super) session: u64,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) connected: watch::Sender<bool>,
    pub(super) stop: CancellationToken,
    /// Bytes queued or not acknowledged.
    held_bytes: AtomicUsize,
    /// One more than the generation that is broken; 0 for none.
    broken: AtomicU64,
}

impl Peer {
    pub(super) fn new(id: NodeId, commands: mpsc::UnboundedSender<Command>, stop: CancellationToken) -> Self {
        Peer {
            id,
            session: rand::random(),
            commands,
            connected: watch::Sender::new(false),
            stop,
            held_bytes: AtomicUsize::new(0),
            broken: AtomicU64::new(0),
        }
    }

    pub(super) fn send(&self, lane: Lane, context: &Context, body: Bytes) -> Result<(), SendError> {
        let (peer, most) = (self.id, context.options.body_bytes_max);
        if body.len() > most {
            return Err(SendError::TooLarge { bytes: body.len(), most });
        }
        let generation = context.generation.load(Ordering::Acquire);
        if lane == Lane::Data && self.broken.load(Ordering::Acquire) == generation + 1 {
            return Err(SendError::Broken { peer, generation });
        }
        let weight = weight(&body);
        let held = self.held_bytes.fetch_add(weight, Ordering::Relaxed);
        if held > 0 && held + weight > context.options.outstanding_bytes_max {
            self.release(weight);
            if lane == Lane::Data {
                // What comes after a message that is missing must not arrive.
                self.breaks(context, generation, format!("{held} bytes wait for this peer, and more are not kept"));
            }
            return Err(SendError::Backlogged { peer, bytes: held });
        }
        let sent = self.commands.send(Command::Send { lane, generation, body });
        sent.map_err(|_| SendError::Stopped)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    fn release(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn breaks(&self, context: &Context, generation: u64, why: String) {
        if self.broken.swap(generation + 1, Ordering::AcqRel) != generation + 1 {
            (context.deliver)(Incoming::Broken { peer: self.id, generation, why });
        }
    }
}

fn weight(body: &Bytes) -> usize {
    body.len() + MESSAGE_BYTES
}
