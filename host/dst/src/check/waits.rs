//! Waits of transactions that are moved to later epochs: each epoch ends the oldest one at least, and new ones are younger,
//! so that nobody waits for longer than there were older ones.

use std::collections::BTreeMap;

use styx_protocol::ids::{Epoch, Tid};

use super::{Checked, Failure};

#[derive(Debug, Default)]
pub struct Waits {
    /// Of those that were moved: their first epoch, and the last one in which they may end.
    moved: BTreeMap<Tid, (Epoch, Epoch)>,
    /// The most epochs that one was moved.
    pub longest: u64,
}

impl Waits {
    /// An epoch has ended that ran `live` and moves `carried`, both in TID order.
    ///
    /// # Errors
    /// One of them has waited too long.
    pub fn ended(&mut self, epoch: Epoch, live: &[Tid], carried: &[Tid]) -> Checked {
        self.moved.retain(|tid, _| carried.binary_search(tid).is_ok());
        for tid in carried {
            let older = || live.binary_search(tid).unwrap_or_else(|at| at) as u64;
            let (first, last) = *self.moved.entry(*tid).or_insert_with(|| (epoch, Epoch(epoch.0 + older())));
            self.longest = self.longest.max(epoch.0 - first.0 + 1);
            if epoch >= last {
                let message = format!("transaction {tid} of epoch {first} was to end by epoch {last}, and does not");
                return Err(Failure::new("starved", message).about(&[*tid]));
            }
        }
        Ok(())
    }
}
