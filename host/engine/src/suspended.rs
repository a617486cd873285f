//! Suspended calls: the tasks of one executor that wait for other workers.
//!
//! A task of a graph is a future. Its imports complete at once while all that they need is on this worker; otherwise
//! the transaction leaves the Store through the [`Rendezvous`](crate::rendezvous::Rendezvous), and the future, with every
//! guest on its stack, is kept in [`SuspendedCalls`] until the responses come. Nothing polls it meanwhile, and no runtime
//! is needed: the executor that brings the responses polls once.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{self, Poll, Waker};

use styx_protocol::abort::Abort;
use styx_protocol::attempt::Fragment;
use styx_protocol::entity::Value;
use styx_protocol::task::SuspendedId;

use crate::budget::Reservation;
use crate::invocation::{Context, InstancePolicy};

/// The future of a task.
pub(crate) type Running = Pin<Box<dyn Future<Output = (Box<Context>, Result<Value, Abort>)> + Send>>;

/// Runs a task until it ends or is suspended. A suspended task is resumed, never woken, so its waker does nothing.
pub(crate) fn poll(running: &mut Running) -> Poll<(Box<Context>, Result<Value, Abort>)> {
    running.as_mut().poll(&mut task::Context::from_waker(Waker::noop()))
}

/// A task that waits. When it is dropped, its guests end where they stand.
pub(crate) struct SuspendedCall {
    pub running: Running,
    pub fragment: Fragment,
    pub instances: InstancePolicy,
    pub reservation: Reservation,
}

/// Low bits of a [`SuspendedId`], which one executor counts; the executor's number is above them.
const COUNTER_BITS: u32 = 48;

/// Number of the executor in which a task is suspended: only there can it be resumed.
pub fn home(suspended: SuspendedId) -> u64 {
    suspended.0 >> COUNTER_BITS
}

/// The suspended tasks of one executor.
pub(crate) struct SuspendedCalls {
    next: u64,
    calls: HashMap<u64, SuspendedCall>,
}

impl SuspendedCalls {
    pub fn new(executor: u64) -> Self {
        SuspendedCalls { next: executor << COUNTER_BITS, calls: HashMap::new() }
    }

    pub fn insert(&mut self, call: SuspendedCall) -> SuspendedId {
        let id = self.next;
        self.next += 1;
        self.calls.insert(id, call);
        SuspendedId(id)
    }

    pub fn remove(&mut self, id: SuspendedId) -> SuspendedCall {
        self.calls.remove(&id.0).unwrap_or_else(|| panic!("{id:?} is not suspended in this executor"))
    }

    pub fn clear(&mut self) {
        self.calls.clear();
    }
}
