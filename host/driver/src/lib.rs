//! Drivers: who does what when, in a process that coordinates, works or is a gateway.
//!
//! A driver is a value with one function, `step(now, event, effects)`. Whatever happens to it is an
//! event: a message, a connection that ended, a record that became durable, a clock that went on.
//! Whatever it wants done is an effect: a message to be sent, a record to be appended, a waiter to
//! be answered, the time at which it wants to be stepped again. **Nothing here** starts a thread,
//! reads a clock, owns a channel, a socket or a file, or waits. Around a driver a server puts
//! threads and a network, and a simulator puts chance.
//!
//! What decides whether a transaction commits is `styx_protocol`'s; its machines are inside these
//! drivers.

pub mod admin_query;
pub mod admission;
pub mod autoscale;
pub mod client;
pub mod coordinator;
pub mod diagnostic;
pub mod fullness;
pub mod gateway;
pub mod kafka;
pub mod leader_search;
pub mod leadership;
mod log_time;
pub mod network;
pub mod sample;
pub mod single;
pub mod snapshots;
pub mod suspicion;
#[cfg(test)]
mod testing;
pub mod time;
pub mod wire;
pub mod worker;

use styx_protocol::ids::NodeId;

/// The coordinator's node id.
pub const COORDINATOR: NodeId = NodeId(1);
