//! The load generator: calls to a system at a pace, and what is seen of it.
//!
//! A [`Connection`] is a way into a system, a [`Pace`] says when calls are due, a [`Tally`] keeps what was
//! seen, and a ledger of the workload's what must have come of it. A *trial* is one run at one pace; a *ramp* looks for
//! the highest rate that a system bears.

mod ask;
mod booked;
mod connection;
mod drive;
mod pace;
mod pool;
mod ramp;
mod tally;
mod timer;
mod trial;

pub use ask::ask;
pub use booked::Booked;
pub use connection::{Answered, Connection, End};
pub use pace::Pace;
pub use pool::{Pool, Session};
pub use ramp::Ramp;
pub use tally::{Counts, SLOT, coarse};
pub use trial::{Measured, Trial, fill};
