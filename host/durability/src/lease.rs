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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use styx_storage::snapshot::{LeaseRecord, Memory, Numbered, Runtime, StoreLocation};

    use super::*;

    const TERM: Duration = Duration::from_millis(1);

    fn leases(memory: &Memory) -> Leases {
        Leases::open(&StoreLocation::in_memory(memory), Runtime::Inline(Arc::new(Numbered))).unwrap()
    }

    fn claim(memory: &Memory, holder: &str) -> Claim {
        Claim::new(leases(memory), holder.to_owned(), TERM, Instant(0))
    }

    fn step(claim: &mut Claim, now: u64) -> Vec<LeaseEffect> {
        claim.step(&|| Instant(now)).unwrap()
    }

    #[test]
    fn the_store_is_asked_when_that_is_due_and_not_before() {
        let memory = Memory::default();
        let stored = || -> LeaseRecord { leases(&memory).read().unwrap().unwrap() };
        let mut claim = claim(&memory, "a");
        assert_eq!(step(&mut claim, 0), [LeaseEffect::Lead(Instant(1000))]);
        let acquired = stored();
        assert_eq!((acquired.holder.as_str(), acquired.generation, acquired.expires_us), ("a", 1, 1000));
        assert_eq!(claim.due(), Some(Instant(250)));
        for now in [1, 249] {
            assert_eq!(step(&mut claim, now), []);
            assert_eq!(stored(), acquired);
        }
        assert_eq!(step(&mut claim, 250), [LeaseEffect::Lead(Instant(1250))]);
        assert_eq!((stored().generation, stored().expires_us), (1, 1250));
    }

    #[test]
    fn it_stands_by_until_the_lease_is_given_back() {
        let memory = Memory::default();
        let (mut first, mut second) = (claim(&memory, "a"), claim(&memory, "b"));
        assert_eq!(step(&mut first, 0), [LeaseEffect::Lead(Instant(1000))]);
        assert_eq!(step(&mut second, 0), [LeaseEffect::StandBy("a".to_owned())]);
        first.release().unwrap();
        let due = second.due().unwrap();
        assert_eq!(step(&mut second, due.0), [LeaseEffect::Lead(Instant(due.0 + 1000))]);
        // Who has never had it has nothing to give back.
        claim(&memory, "c").release().unwrap();
        assert_eq!(leases(&memory).read().unwrap().unwrap().holder, "b");
    }

    #[test]
    fn who_has_lost_the_lease_is_told_to_whom_and_asks_no_more() {
        let memory = Memory::default();
        let (mut first, mut second) = (claim(&memory, "a"), claim(&memory, "b"));
        assert_eq!(step(&mut first, 0), [LeaseEffect::Lead(Instant(1000))]);
        assert_eq!(step(&mut second, 0), [LeaseEffect::StandBy("a".to_owned())]);
        // It was not renewed for a term and a quarter.
        assert_eq!(step(&mut second, 500_000), [LeaseEffect::Lead(Instant(501_000))]);
        assert_eq!(step(&mut first, 500_001), [LeaseEffect::Lost("b".to_owned())]);
        assert_eq!((first.due(), step(&mut first, 900_000)), (None, Vec::new()));
        assert!(matches!(first.release(), Err(SnapshotError::LeaseLost { ours: 1, theirs: 2, .. })));
    }
    #[test]
    fn a_store_that_does_not_answer_ends_who_has_never_heard_of_it_and_is_waited_for_by_others() {
        let directory = tempfile::tempdir().unwrap();
        let (store, away) = (directory.path().join("store"), directory.path().join("away"));
        let claim = |holder: &str| {
            let location = StoreLocation::new(store.to_str().unwrap());
            let leases = Leases::open(&location, Runtime::Inline(Arc::new(Numbered))).unwrap();
            Claim::new(leases, holder.to_owned(), TERM, Instant(0))
        };
        let (mut leader, mut standby, mut new) = (claim("a"), claim("b"), claim("c"));
        assert_eq!(step(&mut leader, 0), [LeaseEffect::Lead(Instant(1000))]);
        assert_eq!(step(&mut standby, 0), [LeaseEffect::StandBy("a".to_owned())]);
        std::fs::rename(&store, &away).unwrap();
        std::fs::write(&store, b"no directory").unwrap();
        let error = new.step(&|| Instant(0)).unwrap_err();
        assert!(matches!(error, SnapshotError::Store { .. }), "{error:?}");
        assert_eq!(new.due(), None);
        for claim in [&mut leader, &mut standby] {
            let due = claim.due().unwrap();
            let told = step(claim, due.0);
            assert!(matches!(told[..], [LeaseEffect::Diagnostic(_)]), "{told:?}");
        }
        std::fs::remove_file(&store).unwrap();
        std::fs::rename(&away, &store).unwrap();
        let due = leader.due().unwrap();
        assert!(step(&mut leader, due.0).contains(&LeaseEffect::Lead(Instant(due.0 + 1000))));
        // A record that cannot be read ends all but its holder, who has until it runs out.
        for file in std::fs::read_dir(&store).unwrap() {
            std::fs::write(file.unwrap().path(), b"?").unwrap();
        }
        for claim in [&mut claim("d"), &mut standby] {
            let due = claim.due().unwrap();
            let error = claim.step(&|| due).unwrap_err();
            assert!(matches!(error, SnapshotError::Damaged { .. }), "{error:?}");
        }
        let due = leader.due().unwrap();
        assert!(leader.step(&|| due).is_ok());
    }
}
