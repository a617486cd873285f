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
