//! The Styx server: everything around the pure protocol and the engine.
//!
//! Threads, network, HTTP, configuration and the clock live here and nowhere
//! else. Nothing here decides the outcome of a transaction.

pub mod admin;
pub mod allocator;
pub mod cluster;
pub mod components;
pub mod config;
pub mod error;
pub mod gateway;
pub mod http;
pub mod kafka;
pub mod server;
pub mod services;
pub mod snapshots;
pub mod worker;
