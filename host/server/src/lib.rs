//! The Styx server: everything around the pure protocol and the engine.
//!
//! Threads, network, HTTP, configuration and the clock live here and nowhere
//! else. Nothing here decides the outcome of a transaction.

pub mod admin;
pub mod admission;
pub mod allocator;
pub mod auth;
pub mod autoscale_stats;
pub mod autoscaling;
pub mod clock;
pub mod cluster;
pub mod components;
pub mod config;
pub mod diagnostics;
pub mod error;
pub mod executing;
pub(crate) mod execution;
pub(crate) mod fatal;
pub mod gateway;
pub(crate) mod guest_logs;
pub mod handle;
pub mod http;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(not(feature = "kafka"))]
#[path = "kafka/absent.rs"]
pub mod kafka;
pub(crate) mod log;
pub(crate) mod misdirected;
pub mod nodes;
pub mod observe;
pub(crate) mod quarantine;
pub mod server;
pub mod single;
pub mod snapshots;
pub mod stats;
pub mod traces;
