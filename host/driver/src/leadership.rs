//! Leadership: for how long this process may act in the coordinator's name, and when it asks for that.
//!
//! Where it is the only coordinator, for ever; otherwise for as long as it holds the lease that it shares with those
//! that stand by. A process that was paused, or that cannot renew its lease, finds at its next step that it holds
//! nothing, and does nothing until it holds it again. So it says nothing that is no longer true.

use std::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::time::{Instant, micros};

#[cfg(test)]
mod tests;

/// For how long this process may act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// There is no other coordinator.
    Forever,
    /// The lease is held until then.
    Until(Instant),
    /// Another process has the lease, or this one has given it back.
    Lost,
}

impl Leadership {
    /// This process may act now.
    pub fn holds(&self, now: Instant) -> bool {
        match self {
            Leadership::Forever => true,
            Leadership::Until(until) => now < *until,
            Leadership::Lost => false,
        }
    }

    /// There are other processes that may lead.
    pub fn is_shared(&self) -> bool {
        *self != Leadership::Forever
    }

    /// The lease was acquired or renewed. One that was lost is not held again.
    pub fn extend(&mut self, until: Instant) {
        if let Leadership::Until(held) = self {
            *held = until.max(*held);
        }
    }

    /// Another one has the lease.
    pub fn lose(&mut self) {
        *self = Leadership::Lost;
    }
}

/// Pause between two attempts to get the lease.
const ACQUIRE_EVERY: Duration = Duration::from_millis(200);

/// Renewals in a term: some may fail.
const RENEWALS: u32 = 4;

/// The store's answer about the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It is this process's for a term from when it was asked for.
    Ours,
    /// Another process has it; nobody, if it was given back.
    Theirs(String),
    /// The store does not answer.
    Unavailable(String),
}

/// What a candidate wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Try to get the lease, then say [`Candidate::answered`].
    Acquire,
    /// Renew the lease, then say [`Candidate::answered`].
    Renew,
    /// The lease is held until then: lead, or lead on.
    Lead(Instant),
    /// Another process leads: stand by.
    StandBy(String),
    /// Another process has taken the lease: end.
    Lost(String),
    /// The store did not answer even once: it may not be the right one.
    GiveUp(String),
    /// Something for people.
    Diagnostic(Diagnostic),
}

/// A process that leads when it can: asks for the lease, then renews it.
#[derive(Debug)]
pub struct Candidate {
    term: Duration,
    standing: Standing,
    due: Instant,
    /// When the store was asked: whoever sees the answer sees it later.
    asked: Option<Instant>,
    /// It was said that the store does not answer.
    complained: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing is known.
    New,
    /// Another one leads.
    Standby(String),
    Leading,
    /// It has led, or cannot.
    Over,
}

impl Candidate {
    /// A candidate for leases of this term.
    pub fn new(term: Duration, now: Instant) -> Self {
        Candidate { term, standing: Standing::New, due: now, asked: None, complained: false }
    }

    /// When [`Self::tick`] has something to do; never again, if it is over.
    pub fn due(&self) -> Option<Instant> {
        (self.standing != Standing::Over && self.asked.is_none()).then_some(self.due)
    }

    /// Time has gone on.
    pub fn tick(&mut self, now: Instant, effects: &mut Vec<LeaseEffect>) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        self.asked = Some(now);
        effects.push(if self.standing == Standing::Leading { LeaseEffect::Renew } else { LeaseEffect::Acquire });
    }

    /// The store has answered.
    pub fn answered(&mut self, answer: LeaseAnswer, now: Instant, effects: &mut Vec<LeaseEffect>) {
        let asked = self.asked.take().expect("the store answers what it was asked");
        let leads = self.standing == Standing::Leading;
        let pause = if leads { self.term / RENEWALS } else { ACQUIRE_EVERY };
        self.due = now.after(pause);
        match answer {
            LeaseAnswer::Ours => {
                if std::mem::take(&mut self.complained) && leads {
                    effects.push(LeaseEffect::Diagnostic(Diagnostic::info("the lease is renewed again")));
                }
                self.standing = Standing::Leading;
                self.due = now.after(self.term / RENEWALS);
                // From before it was asked for.
                effects.push(LeaseEffect::Lead(Instant(asked.0.saturating_add(micros(self.term)))));
            }
            LeaseAnswer::Theirs(holder) if leads => {
                self.standing = Standing::Over;
                let holder = if holder.is_empty() { "nobody: it was given back".to_owned() } else { holder };
                effects.push(LeaseEffect::Lost(holder));
            }
            LeaseAnswer::Theirs(holder) => {
                self.complained = false;
                if self.standing != Standing::Standby(holder.clone()) {
                    self.standing = Standing::Standby(holder.clone());
                    effects.push(LeaseEffect::StandBy(holder));
                }
            }
            LeaseAnswer::Unavailable(why) if self.standing == Standing::New => {
                self.standing = Standing::Over;
                effects.push(LeaseEffect::GiveUp(why));
            }
            LeaseAnswer::Unavailable(why) => {
                if !std::mem::replace(&mut self.complained, true) {
                    let message = if leads {
                        format!("the lease cannot be renewed, and nothing is done without it: {why}")
                    } else {
                        format!("the lease cannot be asked for: {why}")
                    };
                    effects.push(LeaseEffect::Diagnostic(Diagnostic::error(message).code("SNAPSHOT_STORE")));
                }
            }
        }
    }
}
