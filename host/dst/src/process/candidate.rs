//! A process that may coordinate and does not yet: it stands by until it holds the lease.

use super::around::Around;
use super::booting::Booting;
use super::leasing::LeaseThread;
use super::{Process, Role};
use crate::check::Checked;

#[derive(Debug)]
pub struct Candidate {
    lease: LeaseThread,
    failed: bool,
}

impl Candidate {
    /// One that claims the lease.
    pub fn new(around: &mut Around<'_>) -> Self {
        Candidate { lease: LeaseThread::start(around), failed: false }
    }

    pub fn leads(&self) -> bool {
        self.lease.leadership().is_some()
    }

    /// The process that follows, once it leads.
    pub fn lead(&self, around: &mut Around<'_>) -> Option<Process> {
        self.leads().then(|| {
            around.environment.leads(around.own.life);
            Process::Booting(Box::new(Booting::start(Role::Coordinator, Some(self.lease.clone()), around)))
        })
    }

    /// What its thread has said.
    ///
    /// # Errors
    /// It cannot go on, and nothing was done to it.
    pub fn listen(&mut self, around: &mut Around<'_>) -> Checked {
        let Some(why) = self.lease.failure().filter(|_| !std::mem::replace(&mut self.failed, true)) else {
            return Ok(());
        };
        // The store did not answer at the start: whoever starts it tries again.
        around.environment.excuse(around.own.life);
        around.environment.halts(around.own.life, &why)
    }

    /// Gives up.
    pub fn stop(&self) {
        self.lease.stop();
    }

    /// Whether it has given up.
    pub fn has_ended(&self) -> bool {
        self.lease.has_ended()
    }
}
