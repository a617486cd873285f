//! Placeholder.

pub mod log;
