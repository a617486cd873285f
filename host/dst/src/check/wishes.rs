//! Snapshots that an administrator wants: each is told once, of one that holds all that had happened, and in the end at last.

use std::collections::BTreeMap;

use styx_driver::snapshots::{NoSnapshot, SnapshotSummary};
use styx_protocol::ids::Epoch;

use super::{Checked, Failure, ensure};
use crate::event::Life;

#[derive(Debug, Default)]
pub struct Wishes {
    asked: usize,
    /// Whom each was asked, and the last epoch that had ended there.
    open: BTreeMap<usize, (Life, Epoch)>,
}

impl Wishes {
    /// A process is asked, in which so many epochs have ended; the number of the wish.
    pub fn ask(&mut self, life: Life, reached: Epoch) -> usize {
        self.asked += 1;
        self.open.insert(self.asked, (life, reached));
        self.asked
    }

    /// It was answered; `snapshots` are taken, or not.
    pub fn answered(&mut self, wish: usize, answer: &Result<SnapshotSummary, NoSnapshot>, snapshots: bool) -> Checked {
        let Some((life, reached)) = self.open.remove(&wish) else {
            return Err(Failure::new("snapshot", format!("wish {wish} is answered twice: {answer:?}")));
        };
        let right = match answer {
            Ok(summary) => snapshots && Epoch(summary.epoch) >= reached,
            Err(NoSnapshot::Off) => !snapshots,
            Err(_) => snapshots,
        };
        ensure(right, "snapshot", || format!("{life} was asked for a snapshot at epoch {reached}, and says {answer:?}"))
    }

    /// Whether somebody waits for an answer of a process.
    pub fn wait_for(&self, life: Life) -> bool {
        self.open.values().any(|(asked, _)| *asked == life)
    }
}
