//! The parts of graphs that a worker knows, found by graph in a step or two: something happens to
//! one many times in each round.

use hashbrown::HashTable;

use super::Part;
use crate::execute::task::GraphId;

/// Parts by graph.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Never moved: they are large.
    slots: Vec<Option<Box<Part>>>,
    free: Vec<u32>,
    places: HashTable<(GraphId, u32)>,
}

/// TIDs follow each other: spread over the table by an odd factor.
fn hash(graph: GraphId) -> u64 {
    graph.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Parts {
    fn place(&self, graph: GraphId) -> Option<usize> {
        self.places.find(hash(graph), |(known, _)| *known == graph).map(|(_, place)| *place as usize)
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn get(&self, graph: GraphId) -> Option<&Part> {
        self.slots[self.place(graph)?].as_deref()
    }

    pub fn get_mut(&mut self, graph: GraphId) -> Option<&mut Part> {
        let place = self.place(graph)?;
        self.slots[place].as_deref_mut()
    }

    /// Adds the part of a graph that was not known.
    pub fn insert(&mut self, graph: GraphId, part: Part) {
        debug_assert!(self.place(graph).is_none(), "a graph has one part here");
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[place as usize] = Some(Box::new(part));
        self.places.insert_unique(hash(graph), (graph, place), |(graph, _)| hash(*graph));
    }

    pub fn remove(&mut self, graph: GraphId) -> Option<Box<Part>> {
        let found = self.places.find_entry(hash(graph), |(known, _)| *known == graph).ok()?;
        let ((_, place), _) = found.remove();
        self.free.push(place);
        self.slots[place as usize].take()
    }

    /// The lowest graph of those that are wanted.
    pub fn lowest(&self, wanted: impl Fn(&Part) -> bool) -> Option<GraphId> {
        self.slots.iter().flatten().filter(|part| wanted(part)).map(|part| part.header.graph).min()
    }

    /// Takes all of them out, the lowest first.
    #[allow(clippy::vec_box, reason = "they are boxed already, and large")]
    pub fn take(&mut self) -> Vec<Box<Part>> {
        let mut parts: Vec<Box<Part>> = self.slots.drain(..).flatten().collect();
        parts.sort_unstable_by_key(|part| part.header.graph);
        self.free.clear();
        self.places.clear();
        parts
    }
}
