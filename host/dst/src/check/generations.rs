//! Generations against the faults that call for them: a cluster that begins them without a cause never serves for long.

use std::collections::BTreeMap;

use super::{Checked, Failure, ensure};

/// Generations that a cause may call for: one without whoever is lost, one with who comes back, and as many again where
/// something else is found lost on the way.
const PER_CAUSE: u64 = 4;
/// Those with which a cluster begins, as its workers come one after the other.
const FIRST: u64 = 8;
/// So long after something has happened to a worker it may still be taken for lost, µs: until it is missed, and until those
/// who are left have settled.
const MISSED_FOR: u64 = 3_000_000;
/// Within this time after the last fault, somebody serves, µs.
const SERVES_AFTER: u64 = 30_000_000;

#[derive(Debug, Default)]
pub struct Generations {
    begun: u64,
    causes: u64,
    /// When the last one began, µs.
    since: u64,
    /// Until when something happens to a node, µs.
    affected: BTreeMap<usize, u64>,
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

    /// Something happens to a node until this time: it stands still, or does not reach another one or the store.
    pub fn affects(&mut self, node: usize, until: u64) {
        let affected = self.affected.entry(node).or_default();
        *affected = until.max(*affected);
    }

    /// A generation of these members follows, maybe one of the same coordinator: then nobody is left out of it to whom nothing
    /// has happened since that began, or shortly before.
    pub fn follows(&mut self, now: u64, before: Option<&[usize]>, members: &[usize]) -> Checked {
        let since = std::mem::replace(&mut self.since, now);
        for lost in before.unwrap_or_default().iter().filter(|member| !members.contains(member)) {
            let affected = self.affected.get(lost).copied();
            ensure(affected.is_some_and(|until| until + MISSED_FOR >= since), "flapping", || {
                format!("n{lost} is lost since {since}, and what happened to it last was over at {affected:?}")
            })?;
        }
        Ok(())
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
