//! Scatter-gather: an admin query that several workers answer together.

use crate::admin_query::merge;
use crate::time::Instant;
use crate::wire::{AdminQuery, Response};

/// A query under way, and what of its answer has come.
#[derive(Debug)]
pub(super) struct ScatterGather<R> {
    pub(super) since: Instant,
    pub(super) query: AdminQuery,
    pub(super) to: R,
    missing: usize,
    responses: Vec<Response>,
}

impl<R> ScatterGather<R> {
    pub(super) fn new(since: Instant, query: AdminQuery, to: R, workers: usize) -> Self {
        ScatterGather { since, query, to, missing: workers, responses: Vec::new() }
    }

    /// Adds a worker's response; gives whether it was the last.
    pub(super) fn add(&mut self, response: Response) -> bool {
        self.missing -= 1;
        self.responses.push(response);
        self.missing == 0
    }

    /// One response made of all of them; none if they do not answer the query.
    pub(super) fn finish(self) -> Option<(R, Response)> {
        let ScatterGather { query, to, responses, .. } = self;
        merge(&query, responses).map(|response| (to, response))
    }
}
