//! One client's way into a system: calls in, answers out, many under way at a time.
//!
//! Everything that is measured is behind this trait: a WebSocket, keep-alive connections, records
//! of a broker, sessions of a database. Nothing here reads a clock.

use std::task::{Context, Poll};

use bytes::Bytes;

use crate::workload::Call;

/// A way into a system.
pub trait Connection: Send {
    /// Calls that may be under way.
    fn capacity(&self) -> usize;

    /// Takes a call; it is on its way once the connection is polled. Never more than the capacity are
    /// under way. The answer names the ticket.
    fn send(&mut self, ticket: u64, call: &Call) -> anyhow::Result<()>;

    /// Sends what was taken and appends answers that have come; ready if there are any.
    fn poll(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answered>) -> Poll<anyhow::Result<()>>;
}

/// The end of one call.
#[derive(Clone, Debug)]
pub struct Answered {
    pub ticket: u64,
    pub end: End,
    /// How often the client had to ask again, since the system left that to it.
    pub retries: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With a result: JSON, if the connection was asked for results.
    Done(Bytes),
    /// Without effect, as far as is known.
    Failed { code: String, message: String },
}

impl End {
    pub fn failed(code: impl Into<String>, message: impl Into<String>) -> End {
        End::Failed { code: code.into(), message: message.into() }
    }
}
