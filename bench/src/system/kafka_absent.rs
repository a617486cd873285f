//! Calls as records in builds without the feature `kafka`: refused.

use std::task::{Context, Poll};

use crate::load::{Answered, Connection};
use crate::workload::Call;

/// A producer of calls and a consumer of answers, of which there is none.
pub enum Records {}

impl Records {
    pub fn open(_brokers: &str, _app: &str, _results: bool) -> anyhow::Result<Records> {
        anyhow::bail!("this build has no Kafka; `./x build` makes one that has")
    }
}

impl Connection for Records {
    fn capacity(&self) -> usize {
        match *self {}
    }

    fn send(&mut self, _ticket: u64, _call: &Call) -> anyhow::Result<()> {
        match *self {}
    }

    fn poll(&mut self, _context: &mut Context<'_>, _answers: &mut Vec<Answered>) -> Poll<anyhow::Result<()>> {
        match *self {}
    }
}
