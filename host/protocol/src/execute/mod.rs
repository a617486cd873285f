//! Execution: attempts at transactions on the state of the epoch's start, on one worker or on several.

pub mod attempt;
pub mod effect;
pub mod executor;
pub mod task;
