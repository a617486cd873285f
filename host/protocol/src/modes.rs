//! Which parts of the protocol are on: data, so that the papers' ablations can be run.

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
}

impl Default for Modes {
    fn default() -> Self {
        Modes::CACHING
    }
}
