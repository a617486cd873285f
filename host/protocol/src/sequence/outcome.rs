//! Outcome of an epoch: what it changed, as it stands in its record. Recovery applies it and runs no function, so
//! what was told never depends on what a function would do if it ran again.

use crate::abort::Abort;
use crate::ids::{RequestId, Tid};
use crate::pieces::in_pieces;
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

    /// The same in pieces of about so many bytes that can be told one by one.
    pub fn into_pieces(self, bytes: usize) -> Vec<EpochChanges> {
        if self.is_empty() {
            return Vec::new();
        }
        if self.weight() <= bytes {
            return vec![self];
        }
        let EpochChanges { writes, ends, carried } = self;
        let mut pieces = Vec::new();
        let writes = writes.into_pieces(bytes).into_iter();
        pieces.extend(writes.map(|writes| EpochChanges { writes, ..EpochChanges::default() }));
        in_pieces(ends, usize::MAX, bytes, RetainedEnd::weight, |ends| {
            pieces.push(EpochChanges { ends, ..EpochChanges::default() });
        });
        in_pieces(
            carried,
            usize::MAX,
            bytes,
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::{OperatorId, Timestamp};
    use crate::sequence::transaction::Request;
    use crate::state::entity::{Entity, Layout};

    fn changes() -> EpochChanges {
        let layout = Layout::new(7, 4);
        let mut changes = EpochChanges::default();
        for number in 0..5 {
            let entity = Entity::new(&layout, OperatorId(1), false, number.to_string().into());
            changes.writes.push(&entity, Some(&[7; 100]));
            let id = RequestId(u128::from(number));
            let outcome = Ok(Payload(vec![3; 100].into()));
            changes.ends.push(RetainedEnd { fell_back: false, tid: Tid(number), id, outcome });
            let request = Request {
                id,
                operator: OperatorId(1),
                function: "f".into(),
                key: "k".into(),
                args: [1; 100][..].into(),
                retained: true,
                origin: None,
            };
            let (tid, time) = (Tid(10 + number), Timestamp(1));
            changes.carried.push(CarriedTransaction { tid, time, request: Arc::new(request) });
        }
        changes
    }

    #[test]
    fn pieces_come_to_the_same_and_none_is_much_longer_than_asked_for() {
        let all = changes();
        for (bytes, pieces) in [(all.weight(), 1..=1), (500, 6..=9), (1, 15..=15)] {
            let told = all.clone().into_pieces(bytes);
            assert!(pieces.contains(&told.len()), "{bytes}: {}", told.len());
            assert!(told.iter().all(|piece| piece.weight() <= bytes.max(300)), "{bytes}");
            let mut whole = EpochChanges::default();
            told.into_iter().for_each(|piece| whole.append(piece));
            assert_eq!(whole, all);
        }
        assert_eq!(EpochChanges::default().into_pieces(0), []);
    }
}
