//! The ledger of a run: what its calls must have added to the state, figure by figure.
//!
//! A figure is a number that the state holds, or that follows from what it holds, under an index that the
//! workload gives it. What is answered counts, whenever it was asked: a check that knows no more than sums
//! would believe a system that answers everything and does nothing.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::ops::{Add, AddAssign, Mul};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::ensure;
use smallvec::SmallVec;

/// What a call adds to figures, if it commits. Most calls change one or two, and cost no memory of their own.
pub type Amounts = SmallVec<[(u32, i64); 2]>;

/// Codes of failures that do not say that nothing has happened.
const UNKNOWN: [&str; 2] = ["OUTCOME_UNKNOWN", "REPLY_FORGOTTEN"];

/// What was answered to all connections of a run.
pub struct Ledger {
    sure: Vec<AtomicI64>,
    /// What may have been added besides, by calls of which nobody knows.
    unknown: Mutex<BTreeMap<u32, Due>>,
}

impl Ledger {
    /// A ledger of so many figures to which nothing was added.
    pub fn new(figures: usize) -> Ledger {
        Ledger { sure: (0..figures).map(|_| AtomicI64::new(0)).collect(), unknown: Mutex::default() }
    }

    /// A call was answered, by its result or by a failure with this code.
    pub fn answered(&self, amounts: &Amounts, failure: Option<&str>) {
        match failure {
            None => amounts.iter().for_each(|(figure, amount)| {
                self.sure[*figure as usize].fetch_add(*amount, Ordering::Relaxed);
            }),
            Some(code) if UNKNOWN.contains(&code) => self.unanswered(amounts),
            Some(_) => {}
        }
    }

    /// Nobody knows what has become of a call.
    pub fn unanswered(&self, amounts: &Amounts) {
        let mut unknown = self.lock();
        for (figure, amount) in amounts {
            *unknown.entry(*figure).or_default() += Due { least: (*amount).min(0), most: (*amount).max(0) };
        }
    }

    /// What must have been added to a figure.
    pub fn due(&self, figure: u32) -> Due {
        let sure = Due::from(self.sure[figure as usize].load(Ordering::Relaxed));
        self.lock().get(&figure).map_or(sure, |unknown| sure + *unknown)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Due>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a number must be: one, or between two if calls were not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    pub least: i64,
    pub most: i64,
}

impl Due {
    /// An error if it is another one; `what` are the words before it.
    pub fn demand(self, what: impl Display, found: i64) -> anyhow::Result<()> {
        ensure!(self.least <= found && found <= self.most, "{what} {found}, not {self}");
        Ok(())
    }

    /// The one number that is due, if all calls were answered.
    pub fn exact(self) -> Option<i64> {
        (self.least == self.most).then_some(self.least)
    }
}

impl Display for Due {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        match self.exact() {
            Some(number) => write!(out, "{number}"),
            None => write!(out, "{} to {}", self.least, self.most),
        }
    }
}

impl From<i64> for Due {
    fn from(number: i64) -> Due {
        Due { least: number, most: number }
    }
}

impl Add for Due {
    type Output = Due;

    fn add(self, more: Due) -> Due {
        Due { least: self.least.saturating_add(more.least), most: self.most.saturating_add(more.most) }
    }
}

impl AddAssign for Due {
    fn add_assign(&mut self, more: Due) {
        *self = *self + more;
    }
}

impl Mul<i64> for Due {
    type Output = Due;

    fn mul(self, factor: i64) -> Due {
        let (one, other) = (self.least * factor, self.most * factor);
        Due { least: one.min(other), most: one.max(other) }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    #[test]
    fn what_is_answered_is_sure_and_what_nobody_knows_is_between() {
        let ledger = Ledger::new(3);
        ledger.answered(&smallvec![(0, -1), (1, 1)], None);
        ledger.answered(&smallvec![(0, -1), (1, 1)], None);
        ledger.answered(&smallvec![(0, -1), (1, 1)], Some("ABORTED"));
        ledger.answered(&smallvec![(0, -1), (1, 1)], Some("OUTCOME_UNKNOWN"));
        ledger.unanswered(&smallvec![(0, 5)]);
        assert_eq!(ledger.due(0), Due { least: -3, most: 3 });
        assert_eq!(ledger.due(1), Due { least: 2, most: 3 });
        assert_eq!(ledger.due(2).exact(), Some(0));
        assert_eq!(ledger.due(1) * -2 + Due::from(10), Due { least: 4, most: 6 });
        let error = (ledger.due(1) + Due::from(10)).demand("a balance of", 14).unwrap_err();
        assert_eq!(error.to_string(), "a balance of 14, not 12 to 13");
    }
}
