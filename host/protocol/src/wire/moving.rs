//! What workers tell each other of partitions that change their owner (*State Migration in Styx*, §8).

use super::mail::ENTRY;
use crate::commit::replies::ReplyChange;
use crate::ids::{PartitionId, PlacementVersion};
use crate::sequence::transaction::CarriedTransaction;
use crate::sequence::writes::PackedWrites;
use crate::state::Inventory;
use crate::state::entity::Entity;

/// When partitions that move change their owner (*State Migration in Styx*, §8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum MovingMode {
    /// When the new owner has followed them: it has everything.
    #[default]
    Online,
    /// At once: entities follow, those first that are needed (Algorithm 4).
    Immediate,
}

/// What one worker tells another of partitions that go there.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct MovingMail {
    /// The placement with which they go.
    pub version: PlacementVersion,
    /// What is told.
    pub moving: Moving,
}

#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Moving {
    Copied(
        /// A piece of what is in them; answered with [`Moving::Taken`].
        PartitionChanges,
    ),
    Followed(
        /// What has become of what is copied.
        PartitionChanges,
    ),
    /// To the owner: a piece is there.
    Taken,
    Handed(
        /// All is said: they are the receiver's.
        HandedOver,
    ),
    /// They do not go.
    Cancelled,
    Wanted(
        /// To the former owner of partitions: what of them is needed at once.
        Vec<Wanted>,
    ),
    Fetched(
        /// What was wanted; a delete, where there is no such entity.
        PackedWrites,
    ),
    Pieces(
        /// More of partitions that are the receiver's already; answered with [`Moving::Taken`].
        Vec<ShadowPiece>,
    ),
}

impl Moving {
    pub(super) fn weight(&self) -> usize {
        match self {
            Moving::Copied(changes) | Moving::Followed(changes) => {
                changes.writes.bytes().len() + changes.replies.iter().map(ReplyChange::weight).sum::<usize>()
            }
            Moving::Handed(HandedOver { carried, shadows }) => {
                let carried = carried.iter().map(|carried| carried.request.weight());
                carried.chain(shadows.iter().flatten().map(|(_, of)| ENTRY + of.sizes.len() * ENTRY)).sum()
            }
            Moving::Fetched(writes) => writes.bytes().len(),
            Moving::Pieces(pieces) => pieces.iter().map(|piece| ENTRY + piece.writes.bytes().len()).sum(),
            Moving::Wanted(wanted) => wanted.iter().map(Wanted::weight).sum(),
            Moving::Taken | Moving::Cancelled => 0,
        }
    }
}

/// What goes with partitions that change their owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct HandedOver {
    /// Transactions.
    pub carried: Vec<CarriedTransaction>,
    /// In mode immediate: partitions of which entities follow, and what they add up to.
    pub shadows: Option<Vec<(PartitionId, Inventory)>>,
}

/// What a new owner needs at once.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Wanted {
    Entity(Entity),
    /// All of it, as soon as may be.
    Partition(PartitionId),
}

impl Wanted {
    pub fn partition(&self) -> PartitionId {
        match self {
            Wanted::Entity(entity) => entity.partition(),
            Wanted::Partition(id) => *id,
        }
    }

    fn weight(&self) -> usize {
        match self {
            Wanted::Entity(entity) => ENTRY + entity.key().len(),
            Wanted::Partition(_) => ENTRY,
        }
    }
}

/// A piece of a partition that has changed its owner.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct ShadowPiece {
    pub partition: PartitionId,
    /// The next entities, in their order.
    pub writes: PackedWrites,
    /// Whether that is all.
    pub last: bool,
}

/// Changes in partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PartitionChanges {
    /// New values of entities.
    pub writes: PackedWrites,
    /// What is remembered of requests.
    pub replies: Vec<ReplyChange>,
}
