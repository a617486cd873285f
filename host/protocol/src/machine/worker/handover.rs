//! Handover: changed entities that leave for a snapshot, some at a time, while nobody reads the state.

use super::Action;
use super::io::Discarded;
use crate::state::{Partition, State};

#[derive(Debug)]
pub(super) struct Handover {
    stage: Stage,
    /// Partitions that another worker has by now, with what of them belongs to the snapshot.
    departed: Vec<Partition>,
    /// Changes that leave at once.
    most: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Done,
    /// Whenever the driver takes more.
    Offered,
    /// The driver takes more as soon as nobody reads the state.
    Asked,
}

impl Handover {
    /// One in which at most so many changes leave at once.
    pub fn new(most: usize) -> Self {
        Handover { stage: Stage::Done, departed: Vec::new(), most }
    }

    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// There is a snapshot.
    pub fn begin(&mut self) {
        assert!(self.is_done(), "one snapshot after the other is handed over");
        self.stage = Stage::Offered;
    }

    /// The driver takes more.
    pub fn ask(&mut self) {
        assert!(!self.is_done(), "all is handed over");
        self.stage = Stage::Asked;
    }

    /// Whether the driver takes more.
    pub fn is_asked(&self) -> bool {
        self.stage == Stage::Asked
    }

    /// Partitions are another worker's from now on; keeps those of which something is left to be handed over.
    pub fn depart(&mut self, partitions: Vec<Partition>) -> Vec<Partition> {
        let is_left = |partition: &Partition| !self.is_done() && !partition.is_handed_over();
        let (kept, discarded) = partitions.into_iter().partition::<Vec<_>, _>(is_left);
        self.departed.extend(kept);
        discarded
    }

    /// Hands over what is taken: of the state, and of partitions of which another worker does not have all yet.
    pub fn go_on<'a, W>(
        &mut self,
        state: &mut State,
        mut shadows: impl Iterator<Item = &'a mut Partition>,
        actions: &mut Vec<Action<W>>,
    ) {
        let mut changes = Vec::new();
        let mut discarded = Discarded::default();
        while let Some(departed) = self.departed.last_mut()
            && departed.hand_over(self.most - changes.len(), &mut changes)
        {
            discarded.partitions.extend(self.departed.pop());
        }
        let most = self.most;
        let last = self.departed.is_empty()
            && shadows.all(|shadow| shadow.hand_over(most - changes.len(), &mut changes))
            && state.hand_over(self.most - changes.len(), &mut changes);
        self.stage = if last { Stage::Done } else { Stage::Offered };
        actions.push(Action::Changes { changes, last });
        if !discarded.is_empty() {
            actions.push(Action::Discard(discarded));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{OperatorId, PartitionId};
    use crate::state::entity::{Entity, Layout};

    const LAYOUT: Layout = Layout::new(1, 4);

    /// A state of which so many entities of each partition belong to a snapshot.
    fn cut(each: usize) -> State {
        let mut state = State::new(LAYOUT);
        state.track();
        let entity = |number: usize| Entity::new(&LAYOUT, OperatorId(1), false, number.to_string().as_str().into());
        for id in 0..LAYOUT.partitions as u16 {
            let of_it = (0..).map(entity).filter(|entity| entity.partition() == PartitionId(id));
            of_it.take(each).for_each(|entity| state.apply((entity, Some(b"1"[..].into()))));
        }
        state.cut_delta();
        state
    }

    #[test]
    fn what_departs_and_what_others_fetch_is_handed_over_before_the_state_and_no_more_at_once_than_may() {
        let mut state = cut(5);
        let mut handover = Handover::new(3);
        let untouched = Handover::new(3).depart(vec![cut(5).take(PartitionId(0))]);
        assert_eq!(untouched.len(), 1, "nobody takes a snapshot");
        handover.begin();
        let departed = [0, 1].map(|id| state.take(PartitionId(id)));
        assert!(handover.depart(departed.into()).is_empty(), "they are kept until all of them is handed over");
        let mut shadows = [state.take(PartitionId(2))];
        let (mut handed, mut discarded, mut pieces) = (Vec::new(), 0, Vec::new());
        while !handover.is_done() {
            assert!(!handover.is_asked());
            handover.ask();
            let mut actions: Vec<Action<u64>> = Vec::new();
            handover.go_on(&mut state, shadows.iter_mut(), &mut actions);
            for action in actions {
                match action {
                    Action::Changes { changes, last } => {
                        assert_eq!(last, handover.is_done());
                        pieces.push(changes.len());
                        handed.extend(changes.into_iter().map(|(entity, _)| entity.partition().0));
                    }
                    Action::Discard(parts) => discarded += parts.partitions.len(),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(discarded, 2);
        assert!(pieces.iter().all(|piece| *piece <= 3), "{pieces:?}");
        assert_eq!(handed, [[1; 5], [0; 5], [2; 5], [3; 5]].concat());
        assert!(shadows.iter().all(Partition::is_handed_over));
    }
}
