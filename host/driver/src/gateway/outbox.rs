//! Outbox: questions that gather until a step is over, and then travel together.

use std::collections::BTreeMap;

use styx_protocol::ids::NodeId;

use crate::wire::{Query, Question};

/// Questions and bytes of arguments that travel together at most.
const BATCH_MAX: usize = 4096;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Questions by the node that is asked.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    batches: BTreeMap<NodeId, Batch>,
}

#[derive(Debug, Default)]
struct Batch {
    queries: Vec<Query>,
    bytes: usize,
}

impl Outbox {
    /// Adds a question; gives all those to the same node if they are enough.
    pub(super) fn push(&mut self, to: NodeId, query: Query) -> Option<Vec<Query>> {
        let batch = self.batches.entry(to).or_default();
        batch.bytes += match &query.question {
            Question::Submit(request, _) | Question::Query(request) => request.args.len() + request.key.len(),
            Question::Await(_) | Question::Admin(_) => 0,
        };
        batch.queries.push(query);
        let full = batch.queries.len() >= BATCH_MAX || batch.bytes >= BATCH_BYTES_MAX;
        if full { self.batches.remove(&to).map(|batch| batch.queries) } else { None }
    }

    /// Takes everything, by node.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (NodeId, Vec<Query>)> {
        std::mem::take(&mut self.batches).into_iter().map(|(to, batch)| (to, batch.queries))
    }
}
