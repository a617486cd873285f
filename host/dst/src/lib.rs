//! Deterministic simulation of whole processes: the drivers, the log, snapshots and recovery that the server runs,
//! each as they are, on a network, disks, a store and clocks that are simulated, in one thread.
//!
//! Everything comes from one `u64`; the same seed gives the same run for ever. A run is many small worlds, each with a
//! [`plan::Plan`] of its own. What a process does beside its driver (execution, writing the log and snapshots) runs on
//! stacks of its own, one at a time, which [`thread`] switches where the real ones would wait. Guests, random numbers
//! and general checks are those of [`styx_sim`], with which machines are also tested without their drivers.

pub mod campaign;
pub mod check;
pub mod clients;
pub mod clock;
pub mod disk;
pub mod environment;
pub mod event;
pub mod explain;
pub mod export;
pub mod figures;
pub mod minimise;
#[cfg(debug_assertions)]
pub mod mutants;
pub mod network;
pub mod node;
pub mod plan;
pub mod poison;
pub mod process;
pub mod records;
pub mod run;
pub mod store;
pub mod thread;
pub mod topic;
pub mod trace;
pub mod world;

pub(crate) use styx_sim::{queue, random, replay, threads, toy};
