//! Watermarks: which records of topics were executed, so that none is executed twice, however often and however much
//! later it is read again.
//!
//! Entities of a system operator, one for each partition of a topic in each partition of the state. A record always comes
//! under the same id, hence to the same partition, whose owner alone decides whether it is executed. So a watermark
//! needs no message, and goes where its partition goes: into snapshots, the state hash and other memberships. It says
//! of records below what everybody knows to be answered that they are over, and names those above it that were executed,
//! which lie within the distance that records under way may have from each other.

use std::collections::{BTreeMap, BTreeSet};

use styx_planted::{Bug, planted};

use crate::ids::{PartitionId, RequestId};
use crate::sequence::origin::Origin;
use crate::sequence::system::WATERMARKS;
use crate::state::entity::{Entity, Layout, Value};
use crate::state::{State, Write};

/// What is known of one partition of a topic.
#[derive(Debug, Default)]
struct Watermark {
    /// Everything below was answered.
    answered: u64,
    /// What was executed beyond.
    executed: BTreeSet<u64>,
}

/// Whether the record that a request comes from was executed or answered.
pub fn is_over(state: &State, id: RequestId, origin: &Origin) -> bool {
    let watermark = Watermark::read(state.get(&entity(state.layout(), id, origin)));
    let is_over = origin.offset < watermark.answered || watermark.executed.contains(&origin.offset);
    is_over && !planted(Bug::RecordsForgotten)
}

/// The writes that keep in mind what was executed.
pub fn writes(state: &State, executed: &[(RequestId, Origin)]) -> Vec<Write> {
    let mut changed: BTreeMap<(PartitionId, u128, u32), (Entity, Watermark)> = BTreeMap::new();
    for (id, origin) in executed {
        let entity = entity(state.layout(), *id, origin);
        let place = (entity.partition(), origin.topic, origin.partition);
        let read = || (entity.clone(), Watermark::read(state.get(&entity)));
        changed.entry(place).or_insert_with(read).1.add(origin);
    }
    changed.into_values().map(|(entity, watermark)| (entity, Some(watermark.write()))).collect()
}

fn entity(layout: Layout, id: RequestId, origin: &Origin) -> Entity {
    let memory = layout.memory(id);
    let key = format!("{:032x}:{}@{memory}", origin.topic, origin.partition);
    Entity::within(&layout, WATERMARKS.id, layout.of_memory(memory), key.into())
}

impl Watermark {
    fn read(value: Option<&Value>) -> Watermark {
        let (numbers, rest) = value.map_or((&[][..], &[][..]), |value| value.as_chunks::<8>());
        debug_assert!(rest.is_empty(), "a watermark is written as numbers");
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        Watermark { answered: numbers.next().unwrap_or(0), executed: numbers.collect() }
    }

    fn write(&self) -> Value {
        let numbers = [self.answered].into_iter().chain(self.executed.iter().copied());
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    fn add(&mut self, origin: &Origin) {
        self.executed.insert(origin.offset);
        self.answered = self.answered.max(origin.answered);
        self.executed = self.executed.split_off(&self.answered);
    }
}
