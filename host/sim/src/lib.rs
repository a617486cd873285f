//! What simulated worlds have in common with tests of single machines: guests that are toys, an oracle and checks,
//! execution threads, replays, chance and virtual time.
//!
//! Everything comes from one `u64`; the same seed gives the same run for ever. Nothing here reads a clock, starts a
//! thread or touches a disk.

pub mod check;
pub mod queue;
pub mod random;
pub mod replay;
pub mod threads;
pub mod toy;
pub mod trace;
