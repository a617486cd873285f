//! The budget of suspended functions: each holds an instance and its memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::execute::attempt::Mode;
use crate::execute::task::GraphId;

/// What becomes of a function that is to start.
pub(super) enum Entry {
    /// It starts.
    Free,
    /// Others that run may come back and give theirs.
    Later,
    /// All of it is taken by functions that wait, perhaps for this one.
    Refused,
}

/// Counts functions that wait and functions that run.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    parked: usize,
    running: usize,
    /// Graphs rooted here that run in the reserve.
    reserved: BTreeSet<GraphId>,
    /// Those that are to.
    next: BTreeMap<GraphId, Mode>,
}

impl Budget {
    pub fn new(most: usize) -> Self {
        Budget { most, parked: 0, running: 0, reserved: BTreeSet::new(), next: BTreeMap::new() }
    }

    pub fn is_quiet(&self) -> bool {
        self.parked == 0 && self.running == 0 && self.reserved.is_empty() && self.next.is_empty()
    }

    pub fn has_room(&self) -> bool {
        self.under_way() < self.most
    }

    /// Functions that wait or run.
    pub fn under_way(&self) -> usize {
        self.parked + self.running
    }

    /// A function is to start.
    pub fn enter(&mut self, reserved: bool) -> Entry {
        if !reserved && !self.has_room() {
            return if self.running > 0 { Entry::Later } else { Entry::Refused };
        }
        self.running += 1;
        Entry::Free
    }

    /// One that waited goes on.
    pub fn resume(&mut self) {
        self.parked -= 1;
        self.running += 1;
    }

    /// One that ran waits.
    pub fn park(&mut self) {
        self.parked += 1;
    }

    /// One that ran is over, or waits.
    pub fn came_back(&mut self) {
        self.running -= 1;
    }

    /// Whether a graph runs in the reserve.
    pub fn is_reserve_free(&self) -> bool {
        self.reserved.is_empty()
    }

    /// A graph is to run in the reserve when its turn comes.
    pub fn line_up(&mut self, graph: GraphId, mode: Mode) {
        self.reserved.remove(&graph);
        self.next.insert(graph, mode);
    }

    /// The next graph for the reserve.
    pub fn next_in_line(&self) -> Option<GraphId> {
        self.next.first_key_value().map(|(graph, _)| *graph)
    }

    /// The next graph enters the reserve.
    pub fn reserve(&mut self) -> Option<(GraphId, Mode)> {
        let (graph, mode) = self.next.pop_first()?;
        self.reserved.insert(graph);
        Some((graph, mode))
    }

    /// A graph is over.
    pub fn release(&mut self, graph: GraphId) {
        self.reserved.remove(&graph);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_quiet_when_nothing_runs_waits_or_is_to_run() {
        let mut budget = Budget::new(4);
        let quiet = |budget: &Budget| budget.is_quiet();
        assert!(quiet(&budget));
        assert!(matches!(budget.enter(false), Entry::Free) && !quiet(&budget));
        budget.park();
        budget.came_back();
        assert!(!quiet(&budget), "it waits");
        budget.resume();
        budget.came_back();
        assert!(quiet(&budget));
        budget.line_up(GraphId(1), Mode::Parallel);
        assert!(!quiet(&budget), "it is to run in the reserve");
        budget.reserve();
        assert!(!quiet(&budget), "it is in the reserve");
        budget.release(GraphId(1));
        assert!(quiet(&budget));
    }
}
