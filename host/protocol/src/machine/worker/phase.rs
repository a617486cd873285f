//! Phase of a round: what mail between workers belongs to.

use crate::ids::Round;
use crate::wire::mail::Mail;

/// A round up to its fallback, or its fallback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Phase {
    pub round: Round,
    pub fallback: bool,
}

impl Phase {
    /// The phase that mail belongs to.
    pub fn of(mail: &Mail) -> Phase {
        Phase { round: mail.round, fallback: mail.fallback }
    }

    /// The next one: others are at most one ahead.
    pub fn next(self) -> Phase {
        if self.fallback {
            Phase { round: Round(self.round.0 + 1), fallback: false }
        } else {
            Phase { fallback: true, ..self }
        }
    }
}
