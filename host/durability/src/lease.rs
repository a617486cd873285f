//! The claim of a process to the lease on leadership: it asks the store for the lease, and renews what it has got.

use std::time::Duration;

use styx_driver::leadership::{Candidate, LeaseAnswer, LeaseEffect};
use styx_driver::time::{Instant, micros};
use styx_storage::snapshot::{Acquired, Lease, Leases, SnapshotError};

#[derive(Debug)]
pub struct Claim {
    leases: Leases,
    holder: String,
    term: Duration,
    candidate: Candidate,
    held: Option<Lease>,
}

impl Claim {
    /// The claim of `holder`, a name that no other process has, to leases of this term.
    pub fn new(leases: Leases, holder: String, term: Duration, now: Instant) -> Self {
        Claim { leases, holder, term, candidate: Candidate::new(term, now), held: None }
    }

    /// When [`Self::step`] has something to do; never again, if another process has taken the lease.
    pub fn due(&self) -> Option<Instant> {
        self.candidate.due()
    }

    /// Asks the store, if that is due, and says what follows. `now` is a clock that only goes forward.
    ///
    /// # Errors
    /// The store did not answer even once, or the lease cannot be read.
    pub fn step(&mut self, now: &dyn Fn() -> Instant) -> Result<Vec<LeaseEffect>, SnapshotError> {
        let (asked, mut effects) = (now(), Vec::new());
        self.candidate.tick(asked, &mut effects);
        if effects.pop().is_none() {
            return Ok(effects);
        }
        let (answer, problem) = match self.ask(asked) {
            Ok(answer) => (answer, None),
            Err(error) if self.held.is_some() || matches!(error, SnapshotError::Store { .. }) => {
                (LeaseAnswer::Unavailable(error.to_string()), Some(error))
            }
            Err(error) => return Err(error),
        };
        self.candidate.answered(answer, now(), &mut effects);
        match problem {
            Some(error) if matches!(effects[..], [LeaseEffect::GiveUp(_)]) => Err(error),
            _ => Ok(effects),
        }
    }

    fn ask(&mut self, asked: Instant) -> Result<LeaseAnswer, SnapshotError> {
        if let Some(lease) = &mut self.held {
            return match lease.renew(asked.0) {
                Ok(()) => Ok(LeaseAnswer::Ours),
                Err(SnapshotError::LeaseLost { holder, .. }) => Ok(LeaseAnswer::Theirs(holder)),
                Err(error) => Err(error),
            };
        }
        Ok(match self.leases.acquire(&self.holder, micros(self.term), asked.0)? {
            Acquired::Ours(lease) => {
                self.held = Some(lease);
                LeaseAnswer::Ours
            }
            Acquired::Theirs(record) => LeaseAnswer::Theirs(record.holder),
        })
    }

    /// Gives the lease back, if it is held, so that nobody has to wait for its end.
    ///
    /// # Errors
    /// Another process has it now, or the store does not answer.
    pub fn release(self) -> Result<(), SnapshotError> {
        self.held.map_or(Ok(()), Lease::release)
    }
}
