//! What has changed up to a snapshot, in the order in which a store takes it.
//!
//! Remembered replies go with the partition of their id, under an operator number that no operator
//! has: they are found again under any placement, and deltas and bases treat them like entities.

use rkyv::rancor;
use styx_protocol::archive::aligned;
use styx_protocol::entity::{Key, Layout, Value};
use styx_protocol::ids::PartitionId;
use styx_protocol::replies::{Kept, ReplyChange};
use styx_protocol::route::partition_of;
use styx_protocol::state::Write;

/// The operator number of remembered replies.
pub(crate) const REPLIES: u32 = u32::MAX;

#[derive(Debug)]
enum Name {
    Entity(Key),
    Reply([u8; 16]),
}

impl Name {
    fn bytes(&self) -> &[u8] {
        match self {
            Name::Entity(key) => key.as_bytes(),
            Name::Reply(id) => id,
        }
    }
}

/// An entry of a delta.
#[derive(Debug)]
pub(super) struct Change {
    pub operator: u32,
    name: Name,
    /// `None` if it was deleted.
    pub value: Option<Value>,
}

impl Change {
    pub fn key(&self) -> &[u8] {
        self.name.bytes()
    }

    pub fn bytes(&self) -> usize {
        self.key().len() + self.value.as_ref().map_or(0, |value| value.len())
    }
}

/// Changes by partition.
#[derive(Debug)]
pub(super) struct Changes {
    layout: Layout,
    partitions: Vec<Vec<Change>>,
}

impl Changes {
    pub fn new(layout: Layout) -> Self {
        Changes { layout, partitions: (0..layout.partitions).map(|_| Vec::new()).collect() }
    }

    /// Adds changes of entities; of one entity the last counts.
    pub fn entities(&mut self, changes: Vec<Write>) {
        for (entity, value) in changes {
            let (operator, name) = (entity.operator().0, Name::Entity(entity.key().clone()));
            self.partitions[usize::from(entity.partition().0)].push(Change { operator, name, value });
        }
    }

    /// Adds changes of remembered replies; of one reply the last counts.
    pub fn replies(&mut self, changes: Vec<ReplyChange>) {
        for change in changes {
            let id = change.id();
            let partition = partition_of(id, &self.layout);
            let value = match change {
                ReplyChange::Kept(kept) => Some(encode(&kept)),
                ReplyChange::Forgotten(_) => None,
            };
            let name = Name::Reply(id.0.to_be_bytes());
            self.partitions[usize::from(partition.0)].push(Change { operator: REPLIES, name, value });
        }
    }

    /// Puts each partition's changes in order, once each, and gives those that have any.
    pub fn sorted(&mut self) -> impl Iterator<Item = (PartitionId, &[Change])> {
        for changes in &mut self.partitions {
            // Stable, and backwards: the last of several comes first, and stays.
            changes.reverse();
            changes.sort_by(|a, b| (a.operator, a.key()).cmp(&(b.operator, b.key())));
            changes.dedup_by(|b, a| (a.operator, a.key()) == (b.operator, b.key()));
        }
        // Up to the last one there can be: an open range would count on beyond it.
        let ids = (0..=u16::MAX).map(PartitionId);
        ids.zip(self.partitions.iter().map(Vec::as_slice)).filter(|(_, changes)| !changes.is_empty())
    }
}

fn encode(kept: &Kept) -> Value {
    let bytes = rkyv::to_bytes::<rancor::Error>(kept).expect("a reply in memory can be written to memory");
    bytes.as_slice().into()
}

/// A remembered reply as it stands in a snapshot, checked before it is believed.
pub(crate) fn decode(key: &[u8], bytes: &[u8]) -> anyhow::Result<Kept> {
    let kept = rkyv::from_bytes::<Kept, rancor::Error>(&aligned(bytes))?;
    anyhow::ensure!(kept.id.0.to_be_bytes() == key, "a reply of {} stands under another id", kept.id);
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use styx_protocol::entity::Entity;
    use styx_protocol::ids::{Epoch, OperatorId, RequestId, Tid, Timestamp};

    use super::*;

    #[test]
    fn changes_come_in_order_and_the_last_one_counts() {
        let layout = Layout::new(3, 2);
        let entity = |key: &str| Entity::within(&layout, OperatorId(1), PartitionId(1), key.into());
        let value = |byte: u8| Some(Value::from([byte].as_slice()));
        let mut changes = Changes::new(layout);
        changes.entities(vec![(entity("b"), None), (entity("a"), value(1)), (entity("c"), value(2))]);
        changes.entities(vec![(entity("b"), value(3)), (entity("c"), None)]);
        let found: Vec<_> = changes.sorted().collect();
        assert_eq!(found.len(), 1, "nothing is said of partitions that have not changed");
        assert_eq!(found[0].0, PartitionId(1));
        let found: Vec<_> = found[0].1.iter().map(|change| (change.key(), change.value.as_deref())).collect();
        assert_eq!(found, [(&b"a"[..], Some(&[1u8][..])), (b"b", Some(&[3])), (b"c", None)]);
    }

    const LAYOUT: Layout = Layout::new(3, 8);

    #[test]
    fn a_reply_is_found_under_its_id() {
        let outcome = Err(styx_protocol::abort::Abort::new(styx_protocol::abort::Code::Aborted, "no"));
        let (id, ended) = (RequestId(77), Timestamp(5));
        let kept = Kept { id, body: 9, tid: Tid(4), epoch: Epoch(2), ended, outcome };
        let mut changes = Changes::new(LAYOUT);
        changes.replies(vec![ReplyChange::Forgotten(kept.id), ReplyChange::Kept(kept.clone())]);
        let (partition, found) = changes.sorted().next().expect("it is there");
        assert_eq!((partition, found.len(), found[0].operator), (partition_of(kept.id, &LAYOUT), 1, REPLIES));
        let value = found[0].value.as_ref().expect("it was not deleted");
        assert_eq!(decode(found[0].key(), value).unwrap(), kept);
        assert!(decode(&[0; 16], value).is_err(), "another id");
        assert!(decode(found[0].key(), &value[1..]).is_err(), "cut off");
    }
}
