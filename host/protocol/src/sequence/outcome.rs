//! Outcome of an epoch: what it changed, as it stands in its record. Recovery applies it and runs no function, so
//! what was told never depends on what a function would do if it ran again.

use crate::abort::Abort;
use crate::ids::{RequestId, Tid};
use crate::pieces::{PIECE_BYTES, in_pieces};
use crate::sequence::record::Chain;
use crate::sequence::transaction::CarriedTransaction;
use crate::sequence::writes::PackedWrites;
use crate::state::entity::Payload;

#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct EpochOutcome {
    /// State hash chain after the epoch.
    pub chain: Chain,
    pub changes: EpochChanges,
}

/// Changes of an epoch, of all workers or of some: besides its requests and controls, all that the next epoch depends
/// on.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct EpochChanges {
    /// New values of entities.
    pub writes: PackedWrites,
    /// Ends of requests whose replies are kept, in the order in which they are kept.
    pub ends: Vec<RetainedEnd>,
    /// Transactions that move to the next epoch.
    pub carried: Vec<CarriedTransaction>,
}

/// The end of a request whose reply is kept.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct RetainedEnd {
    /// It ended in the fallback.
    pub fell_back: bool,
    pub tid: Tid,
    pub id: RequestId,
    /// The result, or why there is none.
    pub outcome: Result<Payload, Abort>,
}

/// Bytes of an item besides what it carries.
const ITEM: usize = 96;

impl EpochChanges {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.ends.is_empty() && self.carried.is_empty()
    }

    /// Adds the changes of another worker, or more of the same one's.
    pub fn append(&mut self, mut other: EpochChanges) {
        if self.is_empty() {
            *self = other;
            return;
        }
        self.writes.extend(other.writes.bytes());
        self.ends.append(&mut other.ends);
        self.carried.append(&mut other.carried);
    }

    /// Brings what several workers said into the order that it has whichever worker says what.
    pub fn sort(&mut self) {
        self.ends.sort_unstable_by_key(|end| (end.fell_back, end.tid));
        self.carried.sort_unstable_by_key(|carried| carried.tid);
    }

    /// About as many bytes as they take.
    pub fn weight(&self) -> usize {
        let ends: usize = self.ends.iter().map(RetainedEnd::weight).sum();
        let carried: usize = self.carried.iter().map(|carried| carried.request.weight()).sum();
        self.writes.bytes().len() + ends + carried
    }

    /// The same in pieces that can be told one by one.
    pub fn into_pieces(self) -> Vec<EpochChanges> {
        if self.is_empty() {
            return Vec::new();
        }
        if self.weight() <= PIECE_BYTES {
            return vec![self];
        }
        let EpochChanges { writes, ends, carried } = self;
        let mut pieces = Vec::new();
        let writes = writes.into_pieces(PIECE_BYTES).into_iter();
        pieces.extend(writes.map(|writes| EpochChanges { writes, ..EpochChanges::default() }));
        in_pieces(ends, usize::MAX, PIECE_BYTES, RetainedEnd::weight, |ends| {
            pieces.push(EpochChanges { ends, ..EpochChanges::default() });
        });
        in_pieces(
            carried,
            usize::MAX,
            PIECE_BYTES,
            |carried| carried.request.weight(),
            |carried| {
                pieces.push(EpochChanges { carried, ..EpochChanges::default() });
            },
        );
        pieces
    }
}

impl RetainedEnd {
    fn weight(&self) -> usize {
        ITEM + self.outcome.as_ref().map_or_else(Abort::size, |value| value.0.len())
    }
}
