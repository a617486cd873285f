//! Compares what the workers hold with what the log says they must: state, its hash, replies.

use styx_protocol::entity::Entity;
use styx_protocol::ids::{Epoch, PartitionId};
use styx_protocol::placement::Placement;
use styx_protocol::record::Chain;
use styx_protocol::state::{State, StateHash};

use super::checker::Checker;
use super::{Checked, Failure, ensure};

#[derive(Debug)]
pub struct WorkerState<'a> {
    /// Committed state.
    pub state: &'a State,
    /// Replies remembered.
    pub remembered: usize,
}

impl Checker {
    /// Compares workers that have just ended an epoch with what they must be.
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
        if thoroughly { self.compare_entities(epoch, workers) } else { Ok(()) }
    }

    fn compare_entities(&self, epoch: Epoch, workers: &[WorkerState<'_>]) -> Checked {
        workers.iter().for_each(|worker| worker.state.check());
        let expected = self.oracle.as_state(workers[0].state.layout());
        let placement: &Placement = self.remembered.placement();
        for (id, partition) in (0..).map(PartitionId).zip(expected.partitions()) {
            // Who is alone has all, whatever their number is in its life.
            let owner = if let [alone] = workers { alone } else { &workers[usize::from(placement.owner(id).0)] };
            // What all of them hold together was compared before.
            if !owner.state.is_divided() {
                continue;
            }
            let found = owner.state.partitions()[usize::from(id.0)].hash();
            if found != partition.hash() {
                let (operator, key) = self.difference(owner.state, id);
                let message = format!("partition {id} differs after epoch {epoch}, first at operator {operator} {key}");
                return Err(Failure::new("state", message).about(&self.touching(operator, key)));
            }
        }
        Ok(())
    }

    /// The first entity of a partition that a state holds otherwise than the oracle, if it is one of the oracle's.
    fn difference(&self, state: &State, id: PartitionId) -> (u32, &'static str) {
        let expected = self.oracle.as_state(state.layout());
        let entities = self.oracle.entities(state.layout()).filter(|(entity, ..)| entity.partition() == id);
        let differs = |entity: &Entity| expected.get(entity) != state.get(entity);
        let mut found = entities.filter(|(entity, ..)| differs(entity));
        found.next().map_or((0, "(none)"), |(_, operator, key)| (operator, key))
    }
}
