//! Placement: the worker that owns each partition.
//!
//! A generation is a membership; a placement says which of its members owns what. A generation
//! begins with one, and another may take effect with any of its epochs: the log's record of that
//! epoch says so ([`Control::Place`](crate::sequence::control::Control::Place)). Who routes by a
//! placement says by which version of it, and is told when that is no longer the newest.

use crate::ids::{NodeId, PartitionId, PlacementVersion, WorkerId};

/// Owner of every partition, from some epoch of a generation on.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Placement {
    version: PlacementVersion,
    owners: Vec<WorkerId>,
    workers: u16,
}

impl Placement {
    /// The first placement of a generation: partition *p* belongs to `owners[p]`.
    ///
    /// # Panics
    /// An owner is not among the `workers`, or there are more partitions than ids of partitions.
    pub fn new(owners: Vec<WorkerId>, workers: u16) -> Self {
        assert!(!owners.is_empty() && owners.len() <= 1 << 16, "partitions are numbered by 16 bits");
        assert!(owners.iter().all(|owner| owner.0 < workers), "a partition's owner is a member");
        Placement { version: PlacementVersion::FIRST, owners, workers }
    }

    /// Partitions in turn to each worker.
    pub fn round_robin(partitions: u32, workers: u16) -> Self {
        let owner = |partition: u32| WorkerId((partition % u32::from(workers)) as u16);
        Placement::new((0..partitions).map(owner).collect(), workers)
    }

    /// The placement of these owners that follows on this one in the same generation, and on all up to version `announced`:
    /// of those that did not come to be, something may still be under way.
    ///
    /// # Panics
    /// The partitions or the members are not the same.
    #[must_use]
    pub fn next_after(&self, announced: PlacementVersion, owners: Vec<WorkerId>) -> Self {
        let version = self.version.max(announced).next();
        Placement { version, ..self.next(owners) }
    }

    /// The placement of these owners that follows on this one in the same generation.
    ///
    /// # Panics
    /// The partitions or the members are not the same.
    #[must_use]
    pub fn next(&self, owners: Vec<WorkerId>) -> Self {
        assert_eq!(owners.len(), self.owners.len(), "the number of partitions stays");
        let version = self.version.next();
        debug_assert!(version > self.version, "versions ascend");
        Placement { version, ..Placement::new(owners, self.workers) }
    }

    /// The placement of so many partitions that follows on this one in the same generation, and on all up to version
    /// `announced`, if each is made of what one worker has.
    pub fn repartitioned(&self, announced: PlacementVersion, partitions: u32) -> Option<Self> {
        let version = self.version.max(announced).next();
        let owners = repartition_in_place(&self.owners, partitions)?;
        Some(Placement { version, ..Placement::new(owners, self.workers) })
    }

    /// Whether it places so many partitions on so many members: another process may have said something else.
    pub fn is_sound(&self, partitions: u32, members: usize) -> bool {
        let places = self.owners.len() == partitions as usize && (1..=1 << 16).contains(&partitions);
        places && usize::from(self.workers) == members && self.owners.iter().all(|owner| owner.0 < self.workers)
    }

    /// Its version, counted in its generation.
    pub fn version(&self) -> PlacementVersion {
        self.version
    }

    pub fn owner(&self, partition: PartitionId) -> WorkerId {
        self.owners[usize::from(partition.0)]
    }

    /// The same, if there is such a partition: another process may have named it.
    pub fn owner_of(&self, partition: PartitionId) -> Option<WorkerId> {
        self.owners.get(usize::from(partition.0)).copied()
    }

    /// The owners, by partition.
    pub fn owners(&self) -> &[WorkerId] {
        &self.owners
    }

    pub fn partitions(&self) -> u32 {
        self.owners.len() as u32
    }

    pub fn workers(&self) -> u16 {
        self.workers
    }
}

/// Owners of another number of partitions: whoever has what most of each was.
pub fn repartition(owners: &[WorkerId], partitions: u32) -> Vec<WorkerId> {
    let before = |id: u32| (u64::from(id) * owners.len() as u64 / u64::from(partitions)) as usize;
    (0..partitions).map(|id| owners[before(id)]).collect()
}

/// The same, if each is made of what one worker has.
pub fn repartition_in_place(owners: &[WorkerId], partitions: u32) -> Option<Vec<WorkerId>> {
    let next = repartition(owners, partitions);
    let (before, after) = (owners.len() as u64, u64::from(partitions));
    let is_of_one = |(id, owner): (u64, &WorkerId)| {
        let made_of = (id * before / after) as usize..((id + 1) * before).div_ceil(after) as usize;
        owners[made_of].iter().all(|one| one == owner)
    };
    (0..).zip(&next).all(is_of_one).then_some(next)
}

/// A worker of a generation, by what outlives that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Seat {
    pub node: NodeId,
    /// Its partitions were given to others, and it is to stay without any until it is given some.
    pub emptied: bool,
}

/// Who had which partition, as log and snapshot remember it for the generations that follow.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Seating {
    /// By [`WorkerId`].
    pub seats: Vec<Seat>,
    /// By partition.
    pub owners: Vec<WorkerId>,
}

impl Seating {
    /// The node that had a partition.
    pub fn node(&self, partition: PartitionId) -> Option<NodeId> {
        let owner = self.owners.get(usize::from(partition.0))?;
        self.seats.get(usize::from(owner.0)).map(|seat| seat.node)
    }

    /// The seats when partitions go from these owners to others: whoever gives the last away is emptied, whoever is given
    /// one is not.
    #[must_use]
    pub fn seats_after(seats: &[Seat], before: &[WorkerId], after: &[WorkerId]) -> Vec<Seat> {
        if seats.is_empty() {
            return Vec::new();
        }
        let has = |owners: &[WorkerId]| {
            let mut has = vec![false; seats.len()];
            owners.iter().for_each(|owner| has[usize::from(owner.0)] = true);
            has
        };
        let (had, has) = (has(before), has(after));
        let seat = |(at, seat): (usize, &Seat)| Seat { emptied: !has[at] && (had[at] || seat.emptied), ..*seat };
        seats.iter().enumerate().map(seat).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_partitions_are_made_in_place_where_each_is_of_one_worker() {
        let owners = |of: &[u16]| of.iter().map(|owner| WorkerId(*owner)).collect::<Vec<_>>();
        assert_eq!(repartition(&owners(&[0, 1]), 6), owners(&[0, 0, 0, 1, 1, 1]));
        assert_eq!(repartition_in_place(&owners(&[0, 1]), 6), Some(owners(&[0, 0, 0, 1, 1, 1])));
        assert_eq!(repartition_in_place(&owners(&[0, 0, 1, 1]), 2), Some(owners(&[0, 1])));
        assert_eq!(repartition_in_place(&owners(&[0, 1, 1, 1]), 2), None, "the first would be of two");
        assert_eq!(repartition_in_place(&owners(&[0, 1]), 3), None, "the second would be of two");
        assert_eq!(repartition(&owners(&[0, 1]), 3), owners(&[0, 0, 1]));
    }

    #[test]
    fn what_another_process_says_of_a_placement_can_be_wrong_in_every_number() {
        let said = |owners: &[u16], workers| Placement {
            version: PlacementVersion::FIRST,
            owners: owners.iter().map(|owner| WorkerId(*owner)).collect(),
            workers,
        };
        assert!(said(&[0, 1, 0], 2).is_sound(3, 2) && Placement::round_robin(4, 3).is_sound(4, 3));
        assert!(!said(&[0, 2, 0], 2).is_sound(3, 2), "an owner that is no member");
        assert!(!said(&[0, 1], 2).is_sound(3, 2), "a partition is missing");
        assert!(!said(&[0, 1, 0], 2).is_sound(3, 3), "other members");
        assert!(!said(&[], 2).is_sound(0, 2), "no partitions");
        let most = 1 << 16;
        assert!(said(&vec![0; most], 1).is_sound(most as u32, 1));
        assert!(!said(&vec![0; most + 1], 1).is_sound(most as u32 + 1, 1), "more than have a number");
    }

    #[test]
    fn whoever_gives_its_last_partition_away_is_emptied_and_a_newcomer_is_not() {
        let seat = |node, emptied| Seat { node: NodeId(node), emptied };
        let owners = |of: &[u16]| of.iter().map(|owner| WorkerId(*owner)).collect::<Vec<_>>();
        let seats = [seat(7, false), seat(3, false), seat(9, false)];
        let emptied = Seating::seats_after(&seats, &owners(&[0, 1, 0]), &owners(&[0, 0, 0]));
        assert_eq!(emptied, [seat(7, false), seat(3, true), seat(9, false)]);
        let still = Seating::seats_after(&emptied, &owners(&[0, 0, 0]), &owners(&[0, 2, 0]));
        assert_eq!(still, [seat(7, false), seat(3, true), seat(9, false)]);
        let again = Seating::seats_after(&still, &owners(&[0, 2, 0]), &owners(&[1, 2, 0]));
        assert_eq!(again, seats);
        let seating = Seating { seats: again, owners: owners(&[1, 2, 0]) };
        assert_eq!(seating.node(PartitionId(1)), Some(NodeId(9)));
        assert_eq!(seating.node(PartitionId(3)), None);
    }
}
