//! Which parts of the protocol are on: data, so that the papers' ablations can be run.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use crate::ids::EngineHash;

/// How conflicts are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// Commit what deterministic reordering allows to commit (Aria).
    pub reordering: bool,
    /// Run conflicting transactions again in the same epoch, under locks (Styx §6.2); otherwise in
    /// the next epoch.
    pub fallback: bool,
    /// In the fallback, start the functions of one call graph at once, with the parameters of its
    /// first execution (Styx §6.3); otherwise one calls the other.
    pub caching: bool,
}

impl Modes {
    /// Aria alone: who conflicts waits for the next epoch.
    pub const ARIA: Modes = Modes { reordering: false, fallback: false, caching: false };
    /// With deterministic reordering.
    pub const REORDERING: Modes = Modes { reordering: true, ..Modes::ARIA };
    /// With the fallback as well.
    pub const FALLBACK: Modes = Modes { fallback: true, ..Modes::REORDERING };
    /// With everything.
    pub const CACHING: Modes = Modes { caching: true, ..Modes::FALLBACK };

    /// Each adds one part of the protocol to the one before.
    pub const LADDER: [(&str, Modes); 4] = [
        ("aria", Modes::ARIA),
        ("reordering", Modes::REORDERING),
        ("fallback", Modes::FALLBACK),
        ("caching", Modes::CACHING),
    ];

    /// An engine's hash where these are on: what they let commit depends on them as what functions do depends on the engine.
    /// The standard ones leave it as it is.
    pub fn hash(self, engine: u64) -> EngineHash {
        let Modes { reordering, fallback, caching } = self;
        let off = u64::from(!reordering) | u64::from(!fallback) << 1 | u64::from(!caching) << 2;
        EngineHash(engine ^ off)
    }
}

impl Default for Modes {
    fn default() -> Self {
        Modes::CACHING
    }
}

impl FromStr for Modes {
    type Err = String;

    /// One of the ladder, by its name.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Modes::LADDER.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, modes)| modes).ok_or_else(|| "it can be aria, reordering, fallback or caching".into())
    }
}

/// The name in the ladder; of others what is on.
impl Display for Modes {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        match Modes::LADDER.into_iter().find(|(_, known)| known == self) {
            Some((name, _)) => out.write_str(name),
            None => write!(out, "{self:?}"),
        }
    }
}
