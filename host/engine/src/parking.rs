//! Guests that wait for other workers: where they leave their questions, and where they stay.
//!
//! A task of a graph is a future. Its imports answer at once while all that they need is here;
//! otherwise the transaction leaves the Store through the [`Exchange`], and the future, with every
//! guest on its stack, is kept in the [`Parking`] until the answers come. Nothing polls it
//! meanwhile, and no runtime is needed: whoever brings the answers polls once.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Waker};

use styx_protocol::abort::Abort;
use styx_protocol::attempt::{Fragment, RemoteRequests, RemoteResponse};
use styx_protocol::entity::Value;
use styx_protocol::task::SuspendedId;

use crate::context::{Context, Instances};
use crate::room::Suspended;

/// A task under way.
pub(crate) type Running = Pin<Box<dyn Future<Output = (Box<Context>, Result<Value, Abort>)> + Send>>;

/// Goes on with a task. Who waits is not woken but resumed, so nobody need be told.
pub(crate) fn poll(running: &mut Running) -> Poll<(Box<Context>, Result<Value, Abort>)> {
    running.as_mut().poll(&mut task::Context::from_waker(Waker::noop()))
}

/// Between an executor and the one guest that it runs. The lock is never contended: both are on
/// the executor's thread.
#[derive(Clone, Default)]
pub(crate) struct Exchange(Arc<Mutex<Left>>);

#[derive(Default)]
enum Left {
    #[default]
    Nothing,
    Question(Box<Context>, RemoteRequests),
    Answers(Box<Context>, Vec<RemoteResponse>),
}

impl Exchange {
    /// Leaves a question, with the transaction, and waits for the answers to it.
    pub async fn ask(context: Box<Context>, ask: RemoteRequests) -> (Box<Context>, Vec<RemoteResponse>) {
        let exchange = context.means.exchange.clone();
        exchange.leave(Left::Question(context, ask));
        std::future::poll_fn(|_| match exchange.take() {
            Left::Answers(context, answers) => Poll::Ready((context, answers)),
            other => {
                exchange.leave(other);
                Poll::Pending
            }
        })
        .await
    }

    /// The question of a guest that waits.
    pub fn question(&self) -> (Box<Context>, RemoteRequests) {
        match self.take() {
            Left::Question(context, ask) => (context, ask),
            Left::Nothing | Left::Answers(..) => panic!("a guest waits for something that was not asked"),
        }
    }

    /// Leaves the answers for the guest that is resumed next.
    pub fn answer(&self, context: Box<Context>, answers: Vec<RemoteResponse>) {
        self.leave(Left::Answers(context, answers));
    }

    fn leave(&self, left: Left) {
        *self.0.lock().expect("no panic under the lock") = left;
    }

    fn take(&self) -> Left {
        std::mem::take(&mut *self.0.lock().expect("no panic under the lock"))
    }
}

/// A task that waits. Dropped, its guests end where they stand.
pub(crate) struct Waiting {
    pub running: Running,
    pub fragment: Fragment,
    pub instances: Instances,
    pub room: Suspended,
}

/// Bits of a name that one executor counts in; its number is above them.
const NAMES_BITS: u32 = 48;

/// The number of the executor in which a task waits: only there can it go on.
pub fn home(parked: SuspendedId) -> u64 {
    parked.0 >> NAMES_BITS
}

/// The tasks of one executor that wait.
pub(crate) struct Parking {
    next: u64,
    waiting: HashMap<u64, Waiting>,
}

impl Parking {
    pub fn new(executor: u64) -> Self {
        Parking { next: executor << NAMES_BITS, waiting: HashMap::new() }
    }

    pub fn park(&mut self, waiting: Waiting) -> SuspendedId {
        let name = self.next;
        self.next += 1;
        self.waiting.insert(name, waiting);
        SuspendedId(name)
    }

    pub fn take(&mut self, parked: SuspendedId) -> Waiting {
        self.waiting.remove(&parked.0).unwrap_or_else(|| panic!("{parked:?} does not wait in this executor"))
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}
