//! Generations against the faults that call for them: a cluster that begins them without a cause never serves for long.

use super::{Checked, Failure, ensure};

/// Generations that a cause may call for: one without whoever is lost, one with who comes back, and as many again where
/// something else is found lost on the way.
const PER_CAUSE: u64 = 4;
/// Those with which a cluster begins, as its workers come one after the other.
const FIRST: u64 = 8;
/// Within this time after the last fault, somebody serves, µs.
const SERVES_AFTER: u64 = 30_000_000;

#[derive(Debug, Default)]
pub struct Generations {
    begun: u64,
    causes: u64,
    /// The last fault is over since then, and nobody has served yet.
    waiting_since: Option<u64>,
    /// The longest that it took.
    pub longest_us: u64,
}

impl Generations {
    /// Something happens that may call for another one.
    pub fn caused(&mut self) {
        self.causes += 1;
    }

    /// The last fault is over at this time.
    pub fn calm(&mut self, at: u64) {
        self.waiting_since = Some(at);
    }

    /// Another one begins.
    pub fn begins(&mut self) -> Checked {
        self.begun += 1;
        ensure(self.begun <= FIRST + PER_CAUSE * self.causes, "flapping", || {
            format!("{} generations have begun, and {} things have happened", self.begun, self.causes)
        })
    }

    /// How things are: whether somebody serves.
    pub fn look(&mut self, now: u64, serves: bool) -> Checked {
        let Some(since) = self.waiting_since.filter(|since| *since <= now) else { return Ok(()) };
        self.longest_us = self.longest_us.max(now - since);
        if serves {
            self.waiting_since = None;
        } else if now - since > SERVES_AFTER {
            return Err(Failure::new(
                "flapping",
                format!("nobody serves {} s after the last fault", (now - since) / 1_000_000),
            ));
        }
        Ok(())
    }
}
