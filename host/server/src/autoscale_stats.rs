//! What is known of the autoscaler of this process: written by it alone and read by anybody.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use styx_driver::autoscale::{AutoscaleConfig, Decision, Wish};
use styx_driver::coordinator::MigrationId;
use styx_protocol::ids::Timestamp;

/// Decisions that are remembered.
const REMEMBERED: usize = 50;

/// What has become of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    Done,
    /// Why; it is run again.
    Failed(String),
}

/// A decision, and what was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    pub at: Timestamp,
    pub decision: Decision,
    /// Of the command, the last time, and how often it was run.
    pub ran: Option<(Ran, u32)>,
    /// Of a balance: its migration, or why there is none.
    pub balanced: Option<Result<MigrationId, String>>,
}

/// What is known of an autoscaler.
#[derive(Debug, Default)]
pub struct Autoscaling {
    known: Mutex<Arc<Known>>,
}

#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its bounds, and whether it performs what it wants; none, where nothing scales.
    pub bounds: Option<(AutoscaleConfig, bool)>,
    /// The last look.
    pub last: Option<Decided>,
    /// Those that wanted a change, the newest last.
    pub decisions: VecDeque<Decided>,
}

impl Autoscaling {
    /// What is known now.
    pub fn known(&self) -> Arc<Known> {
        self.known.lock().expect("nobody panics while it is held").clone()
    }

    /// It begins to look.
    pub(crate) fn begin(&self, policy: AutoscaleConfig, performs: bool) {
        self.change(|known| known.bounds = Some((policy, performs)));
    }

    /// It has looked.
    pub(crate) fn looked(&self, decided: Decided) {
        self.change(|known| {
            known.last = Some(decided.clone());
            if decided.decision.wish != Wish::Stay {
                known.decisions.push_back(decided);
                if known.decisions.len() > REMEMBERED {
                    known.decisions.pop_front();
                }
            }
        });
    }

    /// The command was run for the last decision that wanted a change, for the so-manieth time.
    pub(crate) fn ran(&self, ran: Ran, tries: u32) {
        self.change(|known| {
            if let Some(last) = known.decisions.back_mut() {
                last.ran = Some((ran, tries));
            }
        });
    }

    /// A balance, which the last decision wanted, has begun, or why it has not.
    pub(crate) fn balanced(&self, begun: Result<MigrationId, String>) {
        self.change(|known| {
            if let Some(last) = known.decisions.back_mut() {
                last.balanced = Some(begun);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.known.lock().expect("nobody panics while it is held");
        let mut next = (**known).clone();
        change(&mut next);
        *known = Arc::new(next);
    }
}
