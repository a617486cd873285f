//! What Styx makes durable: the log of what was accepted, and the store of snapshots.
//!
//! Nothing here knows what a transaction is: records and parts of snapshots are bytes with a place,
//! and what is read back is checked before it is believed.

pub mod log;
pub mod snapshot;
