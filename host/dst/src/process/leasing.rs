//! The thread that claims the lease of a coordinator beside which others may lead: the product's claim, on the
//! simulated store.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use styx_driver::leadership::{Leadership, LeaseEffect};
use styx_driver::time::Instant;
use styx_durability::lease::Claim;
use styx_storage::snapshot::{Leases, SnapshotError};

use super::around::Around;
use crate::thread::{Wait, wait};

/// How often the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// The lease as the thread sees it. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LeaseThread(Rc<RefCell<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    leadership: Option<Leadership>,
    failure: Option<String>,
    /// It is to be given back.
    stopping: bool,
    has_ended: bool,
}

impl LeaseThread {
    pub fn start(around: &mut Around<'_>) -> Self {
        let seen = LeaseThread::default();
        let (directory, clock, told) = (around.own.directory.clone(), around.monotonic(), seen.clone());
        let (holder, term) = (format!("{}", around.own.life), around.environment.plan.cluster.lease_term);
        around.spawn(move || {
            let claimed = Leases::open(&directory.place, &directory.runtime).and_then(|leases| {
                let claim = Claim::new(leases, holder, term, clock());
                told.keep(claim, &clock)
            });
            let mut seen = told.0.borrow_mut();
            seen.failure = claimed.err().map(|error| error.to_string());
            seen.has_ended = true;
        });
        seen
    }

    /// Claims, and renews, until it is told to give the lease back, or another one has it.
    fn keep(&self, mut claim: Claim, clock: &dyn Fn() -> Instant) -> Result<(), SnapshotError> {
        while let Some(due) = claim.due() {
            if self.0.borrow().stopping {
                if let Some(leadership) = &mut self.0.borrow_mut().leadership {
                    leadership.lose();
                }
                // Otherwise it runs out.
                let _ = claim.release();
                return Ok(());
            }
            let pause = due.since(clock());
            if pause > Duration::ZERO {
                wait(Wait::Pause(pause.min(LOOK)));
                continue;
            }
            for effect in claim.step(clock)? {
                let leadership = &mut self.0.borrow_mut().leadership;
                match effect {
                    LeaseEffect::Lead(until) => leadership.get_or_insert(Leadership::Until(until)).extend(until),
                    LeaseEffect::Lost(_) => *leadership = Some(Leadership::Lost),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// For how long this process may lead, if it ever could.
    pub fn leadership(&self) -> Option<Leadership> {
        self.0.borrow().leadership.clone()
    }

    /// Why the lease cannot even be asked for, if so.
    pub fn failure(&self) -> Option<String> {
        self.0.borrow().failure.clone()
    }

    /// Gives the lease back.
    pub fn stop(&self) {
        self.0.borrow_mut().stopping = true;
    }

    /// Whether that is done, or there is nothing to be given back.
    pub fn has_ended(&self) -> bool {
        self.0.borrow().has_ended
    }
}
