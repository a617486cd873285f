//! Placement: the worker that owns each partition.

use crate::cluster::worker_set::WORKERS_MAX;
use crate::ids::{PartitionId, WorkerId};

/// Which worker owns which partition, for one generation.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Placement {
    owners: Vec<WorkerId>,
    workers: u16,
}

impl Placement {
    /// Partition *p* belongs to `owners[p]`.
    ///
    /// # Panics
    /// An owner is not among the `workers`, or there are too many of these.
    pub fn new(owners: Vec<WorkerId>, workers: u16) -> Self {
        assert!(workers <= WORKERS_MAX, "a cluster has at most {WORKERS_MAX} workers");
        assert!(owners.iter().all(|owner| owner.0 < workers), "a partition's owner is a member");
        Placement { owners, workers }
    }

    /// Partitions in turn to each worker.
    pub fn round_robin(partitions: u16, workers: u16) -> Self {
        Placement::new((0..partitions).map(|partition| WorkerId(partition % workers)).collect(), workers)
    }

    /// Who owns a partition.
    pub fn owner(&self, partition: PartitionId) -> WorkerId {
        self.owners[usize::from(partition.0)]
    }

    /// Number of partitions.
    pub fn partitions(&self) -> u16 {
        self.owners.len() as u16
    }

    /// Number of workers.
    pub fn workers(&self) -> u16 {
        self.workers
    }
}
