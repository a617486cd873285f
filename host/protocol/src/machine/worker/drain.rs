//! The end of a generation that nobody is in a hurry for: what was cut is brought to its end, and
//! what was not goes back to whoever asked.

use super::epoch::Phase;
use super::{Action, ClientResponse, HandingOver, Worker};
use crate::ids::PartitionId;
use crate::mutants::{Bug, planted};
use crate::snapshot::RetainedState;
use crate::state::{Partition, State};

impl<W> Worker<W> {
    /// Gives back everything of which nothing has happened, and takes nothing more that could happen.
    /// Also for a generation that ends without being drained: what was not cut here by its end never is.
    pub(super) fn drain(&mut self, actions: &mut Vec<Action<W>>) {
        self.draining = true;
        let mut waiters: Vec<W> = Vec::new();
        for mut slot in std::mem::take(&mut self.admitted) {
            waiters.extend(slot.waiter.take());
            let id = slot.transaction.request.id;
            if slot.transaction.request.retained {
                self.admitted_bodies.remove(&id);
                waiters.extend(self.waiting.remove(&id).into_iter().flatten());
                waiters.extend(self.receipts.remove(&id).into_iter().flatten());
            }
        }
        waiters.extend(self.queries.drain(..).map(|(_, waiter)| waiter));
        if planted(Bug::CutReturned) {
            waiters.extend(self.carried.iter_mut().filter_map(|slot| slot.waiter.take()));
        }
        actions.extend(waiters.into_iter().map(|waiter| Action::Respond(ClientResponse::Returned { waiter })));
    }

    /// The same, when this worker leaves its generation.
    pub fn leave(&mut self, actions: &mut Vec<Action<W>>) {
        self.drain(actions);
    }

    /// What is left of this worker's part when it has left its generation, if that is where a snapshot
    /// was taken; otherwise itself, which takes a while to be dropped.
    #[expect(clippy::result_large_err, reason = "it is moved once in a generation")]
    pub fn into_retained(mut self) -> Result<RetainedState, Self> {
        let idle = matches!(self.phase, Phase::Idle) && self.carried.is_empty();
        let noted = self.handing_over == HandingOver::Done && self.replies.is_cut();
        if !(self.config.snapshots && idle && noted) {
            return Err(self);
        }
        let empty = State::new(self.config.layout);
        let state = std::mem::replace(self.exclusive_state(), empty);
        let owned = |(id, _): &(PartitionId, Partition)| self.view.placement.owner(*id) == self.view.me;
        let partitions = state.into_snapshots().filter(owned).collect();
        Ok(RetainedState::new(self.config.generation, self.epoch, partitions, self.replies.into_kept()))
    }
}
