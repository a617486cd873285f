//! Mail for other workers, gathered until a step is over.

use std::collections::BTreeMap;

use super::super::phase::Phase;
use crate::ids::WorkerId;
use crate::wire::mail::Mail;

#[derive(Debug, Default)]
pub(super) struct Mails {
    phase: Phase,
    mails: BTreeMap<WorkerId, Mail>,
}

impl Mails {
    /// What is added from here on belongs to a phase.
    pub fn begin(&mut self, phase: Phase) {
        debug_assert!(self.mails.is_empty(), "mail of the phase before has left");
        self.phase = phase;
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The mail for a worker, to be added to.
    pub fn to(&mut self, worker: WorkerId) -> &mut Mail {
        let Phase { round, fallback } = self.phase;
        self.mails.entry(worker).or_insert_with(|| Mail { round, fallback, ..Mail::default() })
    }

    pub fn take(&mut self) -> BTreeMap<WorkerId, Mail> {
        std::mem::take(&mut self.mails)
    }
}
