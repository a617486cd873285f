//! A peer as other tasks see it: its queue, and the bytes that wait for it.

mod task;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::context::Context;
use super::hello::Hello;
use super::send_error::SendError;
use super::{Incoming, NodeId};

pub(super) use task::Task;

/// Weight of a message besides its body.
const MESSAGE_BYTES: usize = 64;

/// The two links of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkKind {
    Data,
    Control,
}

/// Commands to a peer's task.
pub(super) enum Command {
    Send { link: LinkKind, generation: u64, body: Bytes },
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

/// The part of a peer that other tasks see.
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

    pub(super) fn send(&self, link: LinkKind, context: &Context, body: Bytes) -> Result<(), SendError> {
        let (peer, most) = (self.id, context.options.body_bytes_max);
        if body.len() > most {
            return Err(SendError::TooLarge { bytes: body.len(), most });
        }
        let generation = context.generation.load(Ordering::Acquire);
        if link == LinkKind::Data && self.broken.load(Ordering::Acquire) == generation + 1 {
            return Err(SendError::Broken { peer, generation });
        }
        let weight = weight(&body);
        let held = self.held_bytes.fetch_add(weight, Ordering::Relaxed);
        if held > 0 && held + weight > context.options.outstanding_bytes_max {
            self.release(weight);
            if link == LinkKind::Data {
                // What comes after a message that is missing must not arrive.
                self.breaks(context, generation, format!("{held} bytes wait for this peer, and more are not kept"));
            }
            return Err(SendError::Backlogged { peer, bytes: held });
        }
        let sent = self.commands.send(Command::Send { link, generation, body });
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
