//! Seeded simulation: clients, nodes, the network between them, a disk and clocks in one thread, all
//! faults by chance, and checkers of everything that Styx promises.
//!
//! Everything comes from one `u64`; the same seed gives the same run for ever. A run is many small
//! worlds, each with a [`plan::Plan`] of its own. Nothing here reads a clock (but to tell its own
//! speed), starts a thread or touches a disk.

pub mod check;
pub mod clients;
pub mod disk;
pub mod environment;
pub mod event;
pub mod export;
pub mod figures;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod node;
pub mod plan;
pub mod queue;
pub mod random;
pub mod replay;
pub mod run;
pub mod store;
pub mod threads;
pub mod toy;
pub mod trace;
pub mod wire;
pub mod world;
