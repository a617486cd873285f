//! What is read of a snapshot becomes partitions again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use styx_protocol::entity::{Entity, Layout};
use styx_protocol::ids::{OperatorId, PartitionId};
use styx_protocol::replies::Kept;
use styx_protocol::state::Partition;
use styx_storage::snapshot::{Batch, Sink};

use crate::parts::{REPLIES, decode};

/// A partition, and the replies that are remembered in it.
#[derive(Debug, Default)]
pub(super) struct Rebuilt {
    pub(super) partition: Partition,
    pub(super) replies: BTreeMap<Box<[u8]>, Kept>,
}

/// Partitions that batches of several threads are applied to.
pub(super) struct Rebuilding {
    layout: Layout,
    partitions: Vec<Mutex<Rebuilt>>,
}

impl Rebuilding {
    pub(super) fn new(layout: Layout) -> Self {
        Rebuilding { layout, partitions: (0..layout.partitions).map(|_| Mutex::default()).collect() }
    }

    pub(super) fn into_partitions(self) -> impl Iterator<Item = (PartitionId, Rebuilt)> {
        let partitions = self.partitions.into_iter();
        (0..)
            .map(PartitionId)
            .zip(partitions.map(|rebuilt| rebuilt.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    fn partition(&self, id: PartitionId) -> anyhow::Result<MutexGuard<'_, Rebuilt>> {
        let rebuilt = self.partitions.get(usize::from(id.0));
        let rebuilt = rebuilt.with_context(|| format!("this cluster has no partition {id}"))?;
        Ok(rebuilt.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for Rebuilding {
    fn apply(&self, batch: &Batch<'_>) -> anyhow::Result<()> {
        let id = PartitionId(batch.partition());
        // Batches of a partition come one after the other: nobody waits here.
        let mut rebuilt = self.partition(id)?;
        for entry in batch.entries() {
            match entry.operator {
                REPLIES => match entry.value {
                    Some(value) => drop(rebuilt.replies.insert(entry.key.into(), decode(entry.key, value)?)),
                    None => drop(rebuilt.replies.remove(entry.key)),
                },
                operator => {
                    let key = std::str::from_utf8(entry.key).context("a key is not text")?;
                    let entity = Entity::within(&self.layout, OperatorId(operator), id, key.into());
                    rebuilt.partition.apply(entity, entry.value.map(Into::into));
                }
            }
        }
        Ok(())
    }
}
