//! What a build tells while it runs.

/// Receives the steps of a build.
pub trait Progress {
    /// A step begins: one line.
    fn step(&self, line: &str);

    /// Something is most likely wrong, and the build goes on: one line.
    fn warning(&self, _line: &str) {}

    /// A line of the tool at work, for a person who wants to see it move.
    fn detail(&self, _line: &str) {}
}

/// Tells nobody.
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _: &str) {}
}
