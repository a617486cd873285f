//! Records that were executed, as anybody would keep them in mind, and the entities in which they must be found.

use std::collections::{BTreeMap, BTreeSet};

use styx_protocol::entity::{Entity, Layout};
use styx_protocol::ids::RequestId;
use styx_protocol::origin::Origin;
use styx_protocol::state::Write;
use styx_protocol::system::WATERMARKS;

/// Offsets by memory, topic and its partition; with the highest below which all are said to be answered.
#[derive(Debug, Default)]
pub struct Records(BTreeMap<(u32, u128, u32), (u64, BTreeSet<u64>)>);

impl Records {
    pub fn executed(&mut self, layout: Layout, id: RequestId, origin: &Origin) {
        let memory = layout.memory(id);
        let (answered, offsets) = self.0.entry((memory, origin.topic, origin.partition)).or_default();
        *answered = origin.answered.max(*answered);
        offsets.insert(origin.offset);
    }

    /// The entities that say so.
    pub fn entities(&self, layout: Layout) -> impl Iterator<Item = Write> + '_ {
        self.0.iter().map(move |((memory, topic, partition), (answered, offsets))| {
            let key = format!("{topic:032x}:{partition}@{memory}");
            let numbers = std::iter::once(answered).chain(offsets.range(answered..));
            let value = numbers.flat_map(|number| number.to_le_bytes()).collect();
            (Entity::within(&layout, WATERMARKS.id, layout.of_memory(*memory), key.into()), Some(value))
        })
    }

    /// Number of these entities.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
