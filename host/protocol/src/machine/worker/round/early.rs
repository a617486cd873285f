//! Mail of a phase that this worker has not reached.

use super::super::phase::Phase;
use crate::ids::WorkerId;
use crate::wire::mail::Mail;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EarlyMail(Vec<(WorkerId, Mail)>);

impl EarlyMail {
    pub fn keep(&mut self, from: WorkerId, mail: Mail) {
        self.0.push((from, mail));
    }

    /// Takes the mail of a phase that has just begun, in the order in which it came.
    pub fn take(&mut self, phase: Phase) -> Vec<(WorkerId, Mail)> {
        self.0.extract_if(.., |(_, mail)| Phase::of(mail) == phase).collect()
    }

    /// What holds between steps.
    pub fn invariants(&self, here: Phase) -> Result<(), &'static str> {
        let next = here.next();
        if self.0.iter().all(|(_, mail)| Phase::of(mail) == next) {
            Ok(())
        } else {
            Err("early mail is of the next phase")
        }
    }
}
