//! Checkers of everything that must hold whatever happens, and how they report what does not.

pub mod checker;
pub mod conflicts;
pub mod generations;
pub mod history;
pub mod lines;
pub mod looks;
pub mod manifests;
pub mod placements;
pub mod records;
pub mod snapshot;
pub mod state;
pub mod waits;
pub mod wishes;

pub use styx_sim::check::{Checked, Failure, catalog, ensure, expected_replies, oracle, order};
