//! The budget of suspended functions: each holds an instance and its memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::attempt::Mode;
use crate::piece::GraphId;

/// What becomes of a function that is to start.
pub(super) enum Entry {
    /// It starts.
    Free,
    /// Others that run may come back and make room.
    Later,
    /// All of the room is taken by functions that wait, perhaps for this one.
    Refused,
}

/// Counts functions that wait and functions that run.
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    parked: usize,
    running: usize,
    /// Graphs rooted here that run in the reserve.
    reserved: BTreeSet<GraphId>,
    /// Those that are to.
    next: BTreeMap<GraphId, Mode>,
}

impl Room {
    pub fn new(most: usize) -> Self {
        Room { most, parked: 0, running: 0, reserved: BTreeSet::new(), next: BTreeMap::new() }
    }

    pub fn is_quiet(&self) -> bool {
        self.parked == 0 && self.running == 0 && self.reserved.is_empty() && self.next.is_empty()
    }

    pub fn has_room(&self) -> bool {
        self.parked + self.running < self.most
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

    /// Whether a graph may run in the reserve at once: one may at a time. In the fallback it may
    /// also if it ranks before those that do, since they may wait for its locks.
    pub fn reserve(&mut self, graph: GraphId, mode: Mode, fallback: bool) -> bool {
        let first = self.may_enter(graph, fallback);
        match first {
            true => self.reserved.insert(graph),
            false => self.next.insert(graph, mode).is_none(),
        };
        first
    }

    fn may_enter(&self, graph: GraphId, fallback: bool) -> bool {
        self.reserved.first().is_none_or(|first| fallback && graph < *first)
    }

    /// A graph is over; if it ran in the reserve, tells which may run there next.
    pub fn release(&mut self, graph: GraphId, fallback: bool) -> Option<(GraphId, Mode)> {
        if !self.reserved.remove(&graph) {
            return None;
        }
        let (next, _) = self.next.first_key_value()?;
        if !self.may_enter(*next, fallback) {
            return None;
        }
        let (next, mode) = self.next.pop_first()?;
        self.reserved.insert(next);
        Some((next, mode))
    }
}
