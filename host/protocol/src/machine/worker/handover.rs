//! Handover: changed entities that leave for a snapshot, some at a time, while nobody reads the state.

use super::Action;
use crate::state::State;

#[derive(Debug)]
pub(super) struct Handover {
    stage: Stage,
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
        Handover { stage: Stage::Done, most }
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

    /// Hands over what is taken.
    pub fn go_on<W>(&mut self, state: &mut State) -> Action<W> {
        let mut changes = Vec::new();
        let last = state.hand_over(self.most, &mut changes);
        self.stage = if last { Stage::Done } else { Stage::Offered };
        Action::Changes { changes, last }
    }
}
