//! The deterministic transaction protocol of Styx, as a pure state machine.
//!
//! *Styx: Transactional Stateful Functions on Streaming Dataflows* describes the protocol, grown
//! from Aria and Calvin. Records go in, actions come out; **nothing here** reads a clock, draws a
//! random number, does IO, starts a thread, awaits, or walks a hash table. Every interleaving,
//! crash and lost message can therefore be reached from a seed.

pub mod abort;
pub mod attempt;
pub mod catalog;
pub mod entity;
pub mod fallback;
mod graphs;
pub mod ids;
pub mod link;
pub mod locks;
pub mod machine;
pub mod membership;
pub mod modes;
pub mod mutants;
pub mod range;
pub mod record;
pub mod replies;
pub mod route;
pub mod sequencer;
pub mod share;
pub mod shared;
pub mod snapshot;
pub mod state;
pub mod task;
pub mod transaction;
pub mod validate;
pub mod worker_set;
