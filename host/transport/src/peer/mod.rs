//! A peer: its links, which its task and those who send to it share, and what waits for the task.
//!
//! Whoever sends a short message writes it into the connection by itself, if that takes it at once: to wake the task for
//! it would take as long as that, and another thread's time besides. What is long, what has to wait for others, and whatever comes
//! after that, is the task's.

mod links;
mod task;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;

use self::links::Links;
use super::connection::Connection;
use super::context::Context;
use super::hello::Hello;
use super::send_error::SendError;
use super::{Incoming, NodeId};

pub(super) use task::Task;

/// Weight of a message besides its body.
const MESSAGE_BYTES: usize = 64;
/// What is longer is not written by who sends it: to copy it takes long.
const SHORT_BYTES: usize = 32 << 10;

/// The two links of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkKind {
    Data,
    Control,
}

/// A message to be sent.
pub(super) struct Outbound {
    link: LinkKind,
    generation: u64,
    body: Bytes,
}

/// What a peer's task is to do.
enum Command {
    Send(Outbound),
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

/// See the module.
pub(super) struct Peer {
    pub(super) id: NodeId,
    /// See [`Hello::session`].
    pub(super) session: u64,
    pub(super) connected: watch::Sender<bool>,
    pub(super) stop: CancellationToken,
    context: Arc<Context>,
    shared: Mutex<Shared>,
    /// Wakes the task.
    called: Notify,
    /// Bytes queued or not acknowledged.
    held_bytes: AtomicUsize,
    /// One more than the generation that is broken; 0 for none.
    broken: AtomicU64,
}

/// What a task and those who send share. Nothing waits while it is locked.
struct Shared {
    links: Links,
    /// For the task, in order.
    waiting: VecDeque<Command>,
    /// The task has ended.
    ended: bool,
}

impl Shared {
    /// Nobody takes anything any more.
    fn end(&mut self) {
        self.ended = true;
        self.waiting.clear();
    }
}

impl Peer {
    pub(super) fn new(id: NodeId, context: Arc<Context>, generation: u64) -> Self {
        let links = Links::new(generation, context.options.compress_above_bytes);
        Peer {
            id,
            session: rand::random(),
            connected: watch::Sender::new(false),
            stop: context.stop.child_token(),
            context,
            shared: Mutex::new(Shared { links, waiting: VecDeque::new(), ended: false }),
            called: Notify::new(),
            held_bytes: AtomicUsize::new(0),
            broken: AtomicU64::new(0),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn send(&self, link: LinkKind, body: Bytes) -> Result<(), SendError> {
        let (peer, context) = (self.id, &self.context);
        let most = context.options.body_bytes_max;
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
                self.breaks(generation, format!("{held} bytes wait for this peer, and more are not kept"));
            }
            return Err(SendError::Backlogged { peer, bytes: held });
        }
        self.leave(Outbound { link, generation, body })
    }

    /// Has a message leave: now, if it is short and nothing is before it.
    fn leave(&self, message: Outbound) -> Result<(), SendError> {
        let mut shared = self.shared();
        if shared.ended {
            self.release(weight(&message.body));
            return Err(SendError::Stopped);
        }
        let short = message.body.len() <= SHORT_BYTES;
        let call = if short && shared.waiting.is_empty() && shared.links.is_free(self) {
            shared.links.send(self, message);
            if let Err(ending) = shared.links.write() {
                shared.links.lose(self, ending);
            }
            shared.links.needs_task()
        } else {
            shared.waiting.push_back(Command::Send(message));
            true
        };
        drop(shared);
        if call {
            self.called.notify_one();
        }
        Ok(())
    }

    /// A new generation has begun.
    pub(super) fn begin(&self, generation: u64) {
        self.give(Command::Generation(generation));
    }

    /// Gives it a connection, which ends if the peer was forgotten meanwhile.
    pub(super) fn adopt(&self, adoption: Adoption) {
        self.give(Command::Adopt(Box::new(adoption)));
    }

    fn give(&self, command: Command) {
        let mut shared = self.shared();
        if !shared.ended {
            shared.waiting.push_back(command);
            drop(shared);
            self.called.notify_one();
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    fn release(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn breaks(&self, generation: u64, why: String) {
        if self.broken.swap(generation + 1, Ordering::AcqRel) != generation + 1 {
            (self.context.deliver)(Incoming::Broken { peer: self.id, generation, why });
        }
    }
}

fn weight(body: &Bytes) -> usize {
    body.len() + MESSAGE_BYTES
}
