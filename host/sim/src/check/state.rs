//! Compares what the workers hold with what the log says they must: state, its hash, replies.

use styx_protocol::entity::Entity;
use styx_protocol::ids::{Epoch, OperatorId};
use styx_protocol::placement::Placement;
use styx_protocol::record::Chain;
use styx_protocol::state::{State, StateHash};

use super::checker::Checker;
use super::{Checked, Failure, ensure};

/// State of a worker.
#[derive(Debug)]
pub struct WorkerState<'a> {
    /// Committed state.
    pub state: &'a State,
    /// Replies remembered.
    pub remembered: usize,
}

impl Checker {
    /// Compares workers that have just ended an epoch with what they must be.
    ///
    /// # Errors
    /// They differ.
    pub fn compare(&self, position: (Epoch, Chain), workers: &[WorkerState<'_>], thoroughly: bool) -> Checked {
        if self.is_lenient() {
            return Ok(());
        }
        let (epoch, chain) = position;
        ensure((epoch, chain) == (self.epoch(), self.chain()), "state hash", || {
            format!(
                "the machine stands at epoch {epoch} with {chain}, its log at {} with {}",
                self.epoch(),
                self.chain()
            )
        })?;
        let counts: Vec<usize> = workers.iter().map(|worker| worker.remembered).collect();
        ensure(counts == self.remembered.counts(), "reply table", || {
            format!("{counts:?} replies are remembered after epoch {epoch}, not {:?}", self.remembered.counts())
        })?;
        let hash = workers.iter().fold(0u128, |sum, worker| sum.wrapping_add(worker.state.hash().0));
        let before = self.ended.len().checked_sub(2).map_or(Chain::default(), |at| self.ended[at].chain);
        ensure(self.ended.is_empty() || chain == before.after(epoch, StateHash(hash)), "state hash", || {
            format!("the chain after epoch {epoch} does not follow from the one before")
        })?;
        let len: usize = workers.iter().map(|worker| worker.state.len()).sum();
        ensure(len == self.oracle.len(), "state", || {
            format!("{len} entities after epoch {epoch}, not {}", self.oracle.len())
        })?;
        if thoroughly { self.compare_entities(epoch, workers, hash) } else { Ok(()) }
    }

    fn compare_entities(&self, epoch: Epoch, workers: &[WorkerState<'_>], hash: u128) -> Checked {
        workers.iter().for_each(|worker| worker.state.check());
        let placement: &Placement = self.remembered.placement();
        let layout = workers[0].state.layout();
        let mut copy = State::new(layout);
        for (operator, entities) in &self.oracle.state {
            for (key, value) in entities {
                // Where an entity lives depends on whether its keys are composite.
                let entity = [false, true]
                    .map(|composite| Entity::new(&layout, OperatorId(*operator), composite, (*key).into()))
                    .into_iter()
                    .find(|entity| {
                        let owner = &workers[usize::from(placement.owner(entity.partition()).0)];
                        owner.state.get(entity).is_some_and(|found| found[..] == value.to_le_bytes())
                    });
                let Some(entity) = entity else {
                    let involved = self.touching(*operator, key);
                    let message = format!("operator {operator} key {key} is not {value:#x} after epoch {epoch}");
                    return Err(Failure::new("state", message).about(&involved));
                };
                copy.apply((entity, Some(value.to_le_bytes().into())));
            }
        }
        ensure(copy.hash().0 == hash, "state hash", || {
            format!("the state after epoch {epoch} is right and its hash is not")
        })
    }
}
