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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use styx_protocol::ids::{Generation, OperatorId, PlacementVersion, RequestId};
    use styx_protocol::transaction::Request;

    use super::*;

    fn query(ticket: u64, question: Question) -> Query {
        Query { ticket, generation: Generation(1), placement: PlacementVersion(1), question }
    }

    fn with_arguments(bytes: usize) -> Query {
        let (id, operator, function, key) = (RequestId(1), OperatorId(1), "f".into(), "k".into());
        let args = vec![7; bytes - 1].into();
        query(
            9,
            Question::Query(Arc::new(Request { id, operator, function, key, args, retained: false, origin: None })),
        )
    }

    #[test]
    fn questions_leave_when_they_are_enough_or_all_are_taken() {
        let mut outbox = Outbox::default();
        let (one, other) = (NodeId(1), NodeId(2));
        assert!(outbox.push(other, query(0, Question::Await(RequestId(1)))).is_none());
        for ticket in 1..BATCH_MAX as u64 {
            assert!(outbox.push(one, query(ticket, Question::Await(RequestId(1)))).is_none());
        }
        let full = outbox.push(one, query(0, Question::Await(RequestId(1)))).unwrap();
        assert_eq!((full.len(), full[0].ticket), (BATCH_MAX, 1));
        assert!(outbox.push(one, with_arguments(BATCH_BYTES_MAX / 2)).is_none());
        assert!(outbox.push(one, with_arguments(BATCH_BYTES_MAX / 2 - 1)).is_none());
        assert_eq!(outbox.push(one, with_arguments(1)).map(|full| full.len()), Some(3));
        assert!(outbox.push(one, with_arguments(1)).is_none(), "it begins anew");
        let left: Vec<_> = outbox.drain().map(|(node, queries)| (node, queries.len())).collect();
        assert_eq!((left, outbox.drain().count()), (vec![(one, 1), (other, 1)], 0));
    }
}
