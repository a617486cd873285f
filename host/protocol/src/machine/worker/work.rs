//! What the partitions of a worker have been asked to do, since it has them. Nothing is decided by it.

use crate::cluster::placement::Placement;
use crate::execute::attempt::Execution;
use crate::ids::{PartitionId, WorkerId};

/// What one partition has been asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Functions called on its entities; one that runs again in the fallback counts once.
    pub calls: u64,
    /// Fuel of the graphs that came to this worker by a call to one of its entities, as far as they ran here.
    pub fuel: u64,
}

/// The work of all partitions, by partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionWork(Vec<Work>);

impl PartitionWork {
    pub fn new(partitions: u32) -> Self {
        PartitionWork(vec![Work::default(); partitions as usize])
    }

    pub fn of(&self, partition: PartitionId) -> Work {
        self.0.get(usize::from(partition.0)).copied().unwrap_or_default()
    }

    /// A graph was executed, as far as it came to this worker.
    pub fn count(&mut self, execution: &Execution, me: WorkerId, placement: &Placement) {
        let issued = execution.calls.iter().map(|call| call.entity.partition());
        // The root stands among those that were issued, too.
        let entered = execution.entered.iter().filter(|call| call.issuer.is_some());
        let mut fuel = execution.fuel;
        for partition in issued.chain(entered.map(|call| call.target.entity.partition())) {
            if placement.owner(partition) == me {
                let work = &mut self.0[usize::from(partition.0)];
                work.calls += 1;
                work.fuel += std::mem::take(&mut fuel);
            }
        }
    }

    /// There are so many partitions, none of which has done anything.
    pub fn begin_anew(&mut self, partitions: u32) {
        *self = PartitionWork::new(partitions);
    }

    /// A partition is another worker's.
    pub fn forget(&mut self, partition: PartitionId) {
        self.0[usize::from(partition.0)] = Work::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_partition_was_asked_to_do_ends_with_it() {
        let one = Work { calls: 3, fuel: 70 };
        let mut work = PartitionWork(vec![one; 3]);
        work.forget(PartitionId(1));
        assert_eq!([0, 1, 2, 3].map(|at| work.of(PartitionId(at))), [one, Work::default(), one, Work::default()]);
    }
}
