//! The deterministic transaction protocol of Styx, as a pure state machine.
//!
//! *Styx: Transactional Stateful Functions on Streaming Dataflows* describes the protocol, grown
//! from Aria and Calvin. Records go in, actions come out; **nothing here** reads a clock, draws a
//! random number, does IO, starts a thread, awaits, or walks a hash table. Every interleaving,
//! crash and lost message can therefore be reached from a seed.
//!
//! The story of a transaction, in the order in which it is told:
//!
//! | | |
//! |---|---|
//! | [`state`] | entities, partitions and their changes: what transactions read and write |
//! | [`cluster`] | members, placement of partitions, links between nodes |
//! | [`sequence`] | requests get TIDs; epochs and deployments become records of the log |
//! | [`execute`] | attempts at transactions, on one worker or on several |
//! | [`commit`] | conflicts, ack shares, remembered replies |
//! | [`fallback`] | conflicting transactions run again, under locks |
//! | [`wire`] | messages between coordinator and workers |
//! | [`machine`] | coordinator and worker: inputs in, actions out |
//!
//! Each uses only those above it. Modules are reached by their own names: [`catalog`], [`record`], ….

pub mod abort;
pub mod archive;
pub mod format;
pub mod ids;
pub mod modes;
pub mod pieces;

pub mod cluster;
pub mod commit;
pub mod execute;
pub mod fallback;
pub mod machine;
pub mod sequence;
pub mod snapshot;
pub mod state;
pub mod wire;

pub use cluster::{link, membership, placement, worker_set};
pub use commit::{replies, share, validate, watermark};
pub use execute::{attempt, effect, executor, task};
pub use sequence::{
    budget, catalog, control, deployment, interface, origin, outcome, quarantine, record, route, sequencer, system,
    token, transaction, writes,
};
pub use state::{entity, range};
pub use wire::{fault, long, mail, message, moving};
