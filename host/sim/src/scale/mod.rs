//! The scale study: what limits a cluster of many workers.
//!
//! [`Cluster`] runs the real machines of up to 64 workers in one thread, counts what they tell each
//! other and times their steps; [`load::expected`] says the same counts by formula. From the costs
//! of steps ([`Costs`]) and from what is assumed of machines and networks ([`Machines`]),
//! [`model::play`] plays epochs of up to a thousand workers. `docs/scaling.md` says what comes out.

pub mod bank;
mod center;
pub mod cluster;
pub mod cost;
mod crew;
pub mod load;
pub mod machines;
pub mod measured;
pub mod model;
mod round;
pub mod study;
mod waiting;

pub use cluster::Cluster;
pub use cost::Costs;
pub use load::Load;
pub use machines::{Design, Machines};
