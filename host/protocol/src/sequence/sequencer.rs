//! TIDs without communication between sequencers.

use crate::ids::{SequencerCounter, Tid};

/// Assigns `TID = sid + lc · n_seq` (Styx §5.1, Equation 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequencer {
    /// This sequencer, from 1.
    sid: u64,
    /// Sequencers in the cluster.
    n_seq: u64,
    /// Local counter: TIDs assigned so far.
    lc: SequencerCounter,
}

impl Sequencer {
    /// Sequencer `sid` (from 1) of `n_seq`.
    pub fn new(sid: u64, n_seq: u64) -> Self {
        assert!((1..=n_seq).contains(&sid), "a sequencer id lies in 1..=n_seq");
        Sequencer { sid, n_seq, lc: SequencerCounter(0) }
    }

    /// The TID that [`Sequencer::assign`] gives next.
    pub fn peek(&self) -> Tid {
        Tid(self.sid + self.lc.0 * self.n_seq)
    }

    /// The next TID.
    pub fn assign(&mut self) -> Tid {
        let tid = self.peek();
        self.lc.0 += 1;
        debug_assert!(
            tid < self.peek() && tid.0 % self.n_seq == self.sid % self.n_seq,
            "TIDs ascend, and nobody else's is given"
        );
        tid
    }

    /// This sequencer's counter, for [`Sequencer::level`].
    pub fn counter(&self) -> SequencerCounter {
        self.lc
    }

    /// Raises the counter to the highest of all sequencers at an epoch's end, so that a busy
    /// sequencer's transactions do not rank behind a quiet one's (Styx §5.1, mitigating sequence imbalance).
    pub fn level(&mut self, highest: SequencerCounter) {
        self.lc = self.lc.max(highest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequencers_interleave_and_level() {
        let mut sequencers = [1, 2, 3].map(|sid| Sequencer::new(sid, 3));
        let tids: Vec<u64> = (0..6).map(|i| sequencers[i % 3].assign().0).collect();
        assert_eq!(tids, [1, 2, 3, 4, 5, 6]);
        sequencers[0].assign();
        let highest = sequencers.iter().map(Sequencer::counter).max().unwrap();
        sequencers.iter_mut().for_each(|sequencer| sequencer.level(highest));
        assert_eq!(sequencers.map(|mut sequencer| sequencer.assign().0), [10, 11, 12]);
    }
}
