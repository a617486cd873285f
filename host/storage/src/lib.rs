//! Durable storage: the log of accepted requests, and the store of snapshots.
//!
//! Nothing here knows what a transaction is: records are bytes in order, objects of a snapshot are bytes with a name,
//! and both are verified when they are read back.
//!
//! No result depends on a clock: times that are stored or compared come with the calls. Clocks are read for timeouts
//! and pauses only, of Kafka's brokers ([`log::kafka`]) and of object stores. Environment variables are not read:
//! settings are arguments.

pub mod files;
pub mod log;
pub mod snapshot;
