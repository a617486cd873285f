//! The Styx server: everything around the pure protocol and the engine.
//!
//! Logs, threads, network, HTTP, command line, configuration and the clock live here and nowhere
//! else. Nothing here decides the outcome of a transaction.

pub mod build;
pub mod config;
pub mod error;
pub mod log;
pub mod worker;
