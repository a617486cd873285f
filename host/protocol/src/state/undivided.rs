//! Partitions as they were in another number, until everything in them is dealt out to those that there are now.

use crate::ids::{OperatorId, PartitionId};
use crate::state::entity::{Entity, Layout, Value};
use crate::state::partition::Partition;
use crate::state::{Totals, Write};

/// See the module. What is here is not in the partitions that there are now.
pub(super) struct Undivided {
    layout: Layout,
    partitions: Vec<Partition>,
    /// All before this one are empty.
    next: usize,
}

impl Undivided {
    pub fn new(layout: Layout, partitions: Vec<Partition>) -> Self {
        Undivided { layout, partitions, next: 0 }
    }

    /// Those that may have something of what is one partition now.
    fn of(&self, partition: PartitionId, now: &Layout) -> impl Iterator<Item = usize> + use<> {
        self.layout.parts_of(partition, now).map(|id| usize::from(id.0))
    }

    pub fn get(&self, entity: &Entity, now: &Layout) -> Option<&Value> {
        self.of(entity.partition(), now).find_map(|at| self.partitions[at].get(entity))
    }

    /// Parts with an entity, which is about to be written: it goes to where it belongs now.
    pub fn take(&mut self, entity: &Entity, now: &Layout, totals: &mut Totals) {
        for at in self.of(entity.partition(), now) {
            let partition = &mut self.partitions[at];
            let before = Totals::of(partition);
            if partition.take(entity).is_some() {
                return totals.follow(before, Totals::of(partition));
            }
        }
    }

    /// Parts with an entity of the next partition that has one, as it is to be written now.
    pub fn take_next(
        &mut self,
        now: &Layout,
        is_composite: impl Fn(OperatorId) -> bool,
        totals: &mut Totals,
    ) -> Option<Write> {
        while let Some(partition) = self.partitions.get_mut(self.next) {
            let before = Totals::of(partition);
            if let Some((entity, value)) = partition.take_first() {
                totals.follow(before, Totals::of(partition));
                let operator = (entity.operator(), is_composite(entity.operator()));
                let entity = Entity::relaid(now, &self.layout, operator, entity.partition(), entity.key().clone());
                return Some((entity, Some(value)));
            }
            self.next += 1;
        }
        None
    }

    /// Those that a scan has to look at: what may have something of a partition, or all.
    pub fn scanned(&self, partition: Option<PartitionId>, now: &Layout) -> impl Iterator<Item = &Partition> {
        let some = partition.map(|partition| self.of(partition, now).collect::<Vec<_>>());
        let all = self.partitions.iter().enumerate();
        all.filter(move |(at, _)| some.as_ref().is_none_or(|some| some.contains(at))).map(|(_, partition)| partition)
    }

    /// Whether everything is dealt out.
    pub fn is_empty(&self) -> bool {
        self.partitions[self.next..].iter().all(Partition::is_empty)
    }

    /// Whether nothing of a delta is left here that was cut off before.
    pub fn is_handed_over(&self) -> bool {
        self.partitions.iter().all(Partition::is_handed_over)
    }

    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    pub fn partitions_mut(&mut self) -> &mut [Partition] {
        &mut self.partitions
    }
}
