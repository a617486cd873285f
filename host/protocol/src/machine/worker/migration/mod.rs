//! Migration: partitions that go to another worker while everything goes on (*State Migration in Styx*, §8; here the new
//! owner follows first, and takes over when it has everything).
//!
//! The owner copies a partition piece by piece, and tells what it writes to what it has copied. Both go the same way, in
//! order, so whoever follows has at any time what the owner had a moment before. When all who follow are that far, the
//! coordinator changes the placement with an epoch. Until that has begun the partition is the old owner's alone; what
//! it says then is the last that there is to say, and the new owner begins the epoch behind it. So no epoch
//! is longer than that message takes.
//!
//! With snapshots, the placement changes right behind the cut of one: what was written before is part of the old
//! owner's delta, what is written later of the new one's.
//!
//! Where a partition is to change its owner at once, only what the system itself keeps of it is followed: entities of
//! system operators, and replies. The entities of apps stay with the old owner as a shadow, and are handed over
//! afterwards. Who needs one that has not arrived is executed anew when it has: its attempt ends where it lacks the first,
//! and who lacks one after the other gets the partition as a whole.
//!
//! Entities, the replies that are remembered, and transactions whose end is to be remembered go. Others stay, and run
//! where they are.

mod fetching;
mod incoming;
mod outgoing;
mod shadow;
#[cfg(test)]
mod tests;

pub(super) use self::fetching::{Fetching, LACKS_MAX};
pub(super) use self::incoming::{Arrived, Followed, Incoming};
pub(super) use self::outgoing::Outgoing;
pub use self::outgoing::{CopiedOf, CopyAllowance, CopyProgress};
