//! A set of workers, as one number: who took part in a graph is noted, sent and merged for every
//! graph that several share.

use crate::ids::WorkerId;

/// Most workers of a cluster.
pub const WORKERS_MAX: u16 = 64;

/// Some of the workers of a cluster. See [`WORKERS_MAX`].
#[derive(Clone, Copy, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct WorkerSet(u64);

impl WorkerSet {
    /// Only this one.
    pub fn only(worker: WorkerId) -> Self {
        WorkerSet(bit(worker))
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: WorkerSet) {
        self.0 |= other.0;
    }

    /// Takes one out, if it is there.
    pub fn remove(&mut self, worker: WorkerId) {
        self.0 &= !bit(worker);
    }

    /// Whether one is there.
    pub fn contains(self, worker: WorkerId) -> bool {
        self.0 & bit(worker) != 0
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All of them, ascending.
    pub fn iter(self) -> impl Iterator<Item = WorkerId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| left.trailing_zeros() as u16)?;
            left &= left - 1;
            Some(WorkerId(next))
        })
    }
}

fn bit(worker: WorkerId) -> u64 {
    assert!(worker.0 < WORKERS_MAX, "a cluster has at most {WORKERS_MAX} workers");
    1 << worker.0
}

impl std::fmt::Debug for WorkerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<WorkerId> for WorkerSet {
    fn from_iter<I: IntoIterator<Item = WorkerId>>(workers: I) -> Self {
        WorkerSet(workers.into_iter().fold(0, |bits, worker| bits | bit(worker)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_set() {
        let ids = [63, 0, 7].map(WorkerId);
        let mut set: WorkerSet = ids.into_iter().collect();
        set.merge(WorkerSet::only(WorkerId(7)));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 7, 63].map(WorkerId));
        assert_eq!((set.len(), set.contains(WorkerId(7)), set.contains(WorkerId(8))), (3, true, false));
        ids.into_iter().for_each(|worker| set.remove(worker));
        assert!(set.is_empty());
    }
}
