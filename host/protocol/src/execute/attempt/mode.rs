//! Modes: how a graph of several workers is run.

use crate::archive::Flagged;

/// How a graph is run. Each attempt at it is stricter than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Asynchronous calls on several workers run beside each other.
    #[default]
    Parallel,
    /// In the fallback: the calls of the cached call graph run at once, each where it belongs.
    Cached,
    /// One thread of control: each asynchronous call runs to its end before the next begins.
    Strict {
        /// In new instances only.
        fresh: bool,
        /// May suspend beyond the budget; one such graph per worker at a time.
        reserved: bool,
    },
}

impl Mode {
    /// Strict, and no more than that.
    pub const STRICT: Mode = Mode::Strict { fresh: false, reserved: false };

    /// Whether there is one thread of control.
    pub fn is_strict(self) -> bool {
        matches!(self, Mode::Strict { .. })
    }

    /// Whether the cached call graph runs at once.
    pub fn is_cached(self) -> bool {
        self == Mode::Cached
    }

    /// Whether instances must be new.
    pub fn is_fresh(self) -> bool {
        matches!(self, Mode::Strict { fresh: true, .. })
    }

    /// Whether functions may suspend beyond the budget.
    pub fn is_reserved(self) -> bool {
        matches!(self, Mode::Strict { reserved: true, .. })
    }

    /// Strict, and in new instances only.
    #[must_use]
    pub fn in_fresh_instances(self) -> Mode {
        Mode::Strict { fresh: true, reserved: self.is_reserved() }
    }

    /// Strict, and beyond the budget.
    #[must_use]
    pub fn in_reserve(self) -> Mode {
        Mode::Strict { fresh: self.is_fresh(), reserved: true }
    }
}

impl Flagged for Mode {
    type Flags = [bool; 4];

    fn flags(self) -> [bool; 4] {
        [self.is_strict(), self.is_cached(), self.is_fresh(), self.is_reserved()]
    }

    fn of(&[strict, cached, fresh, reserved]: &[bool; 4]) -> Self {
        match () {
            () if strict => Mode::Strict { fresh, reserved },
            () if cached => Mode::Cached,
            () => Mode::Parallel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_what_its_flags_say() {
        let strict = [(false, false), (false, true), (true, false), (true, true)];
        let strict = strict.map(|(fresh, reserved)| Mode::Strict { fresh, reserved });
        for mode in [Mode::Parallel, Mode::Cached].into_iter().chain(strict) {
            assert_eq!(Mode::of(&mode.flags()), mode);
            assert!(mode.in_reserve().is_strict() && mode.in_reserve().is_fresh() == mode.is_fresh());
        }
        assert_eq!(Mode::STRICT.flags(), [true, false, false, false]);
    }
}
