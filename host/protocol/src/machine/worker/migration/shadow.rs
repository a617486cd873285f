//! Shadows: partitions that are another worker's by now, and of which it does not have all yet (*State Migration in
//! Styx*, Algorithm 4). They stay as they were when they changed their owner, and are handed over piece by piece; what
//! the new owner needs at once it asks for.

use std::collections::{BTreeMap, VecDeque};

use super::outgoing::{Allowance, CopyProgress, PIECES_MAX};
use crate::ids::{OperatorId, PartitionId, PlacementVersion, WorkerId};
use crate::sequence::writes::PackedWrites;
use crate::state::Partition;
use crate::state::entity::Key;
use crate::wire::fault::why;
use crate::wire::moving::{Moving, MovingMail, ShadowPiece, Wanted};

/// Pieces that are on their way to one worker while it needs a partition as a whole. They are put into their place between
/// two epochs, however long those are.
pub(super) const URGENT_MAX: usize = 16;
/// What a piece takes besides its entities.
const ENTRY: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    version: PlacementVersion,
    partitions: BTreeMap<PartitionId, Shadow>,
    takers: BTreeMap<WorkerId, Taker>,
}

#[derive(Debug)]
struct Shadow {
    to: WorkerId,
    partition: Partition,
    /// The last entity that was handed over in order.
    after: Option<(OperatorId, Key)>,
}

#[derive(Debug, Default)]
struct Taker {
    /// Partitions that it needs as a whole, in the order in which it has asked for them: however little may be copied.
    urgent: VecDeque<PartitionId>,
    /// What else is left, the next one in front.
    left: VecDeque<PartitionId>,
    /// Pieces of which it has not said that it has them.
    pieces: usize,
    /// What it has asked for, and gets first.
    wanted: Vec<Wanted>,
}

impl Taker {
    /// What it gets next, if it may have more now.
    fn next(&self, allowance: &Allowance) -> Option<PartitionId> {
        match self.urgent.front() {
            Some(id) => Some(*id).filter(|_| self.pieces < URGENT_MAX),
            None => self.left.front().copied().filter(|_| self.pieces < PIECES_MAX && !allowance.is_used_up()),
        }
    }
}

impl Shadows {
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The placement with which they went.
    pub fn version(&self) -> PlacementVersion {
        self.version
    }

    /// Partitions have changed their owner.
    pub fn begin(&mut self, version: PlacementVersion, partitions: Vec<(PartitionId, WorkerId, Partition)>) {
        self.version = version;
        for (id, to, partition) in partitions {
            self.partitions.insert(id, Shadow { to, partition, after: None });
            self.takers.entry(to).or_default().left.push_back(id);
        }
    }

    /// Those of which a snapshot has something to be handed over.
    pub fn partitions_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.partitions.values_mut().map(|shadow| &mut shadow.partition)
    }

    /// The new owner needs something at once.
    ///
    /// # Errors
    /// It is not its own.
    pub fn want(&mut self, from: WorkerId, wanted: Vec<Wanted>) -> Result<(), &'static str> {
        // What is over has been sent.
        let is_its = |wanted: &Wanted| self.partitions.get(&wanted.partition()).is_none_or(|shadow| shadow.to == from);
        if !wanted.iter().all(is_its) {
            return Err(why::PLACEMENT);
        }
        if let Some(taker) = self.takers.get_mut(&from) {
            taker.wanted.extend(wanted);
        }
        Ok(())
    }

    /// A worker has a piece; whether one was on its way.
    pub fn taken(&mut self, by: WorkerId) -> bool {
        let Some(taker) = self.takers.get_mut(&by).filter(|taker| taker.pieces > 0) else { return false };
        taker.pieces -= 1;
        true
    }

    /// What there is to send, in pieces of about so many `bytes`; and those of which all has been sent.
    pub(super) fn take_mails(
        &mut self,
        allowance: &mut Allowance,
        progress: &mut Option<CopyProgress>,
        bytes: usize,
    ) -> (Vec<(WorkerId, MovingMail)>, Vec<Partition>) {
        let (mut mails, mut sent) = (Vec::new(), Vec::new());
        let version = self.version;
        let mut mail = |to, moving| mails.push((to, MovingMail { version, moving }));
        for (to, taker) in &mut self.takers {
            let mut fetched = PackedWrites::default();
            for wanted in std::mem::take(&mut taker.wanted) {
                match wanted {
                    Wanted::Entity(entity) => {
                        let Some(shadow) = self.partitions.get(&entity.partition()) else { continue };
                        fetched.push(&entity, shadow.partition.get(&entity).map(|value| &**value));
                    }
                    Wanted::Partition(id) => {
                        if let Some(at) = taker.left.iter().position(|left| *left == id) {
                            taker.left.remove(at);
                            taker.urgent.push_back(id);
                        }
                    }
                }
            }
            for fetched in fetched.into_pieces(bytes) {
                mail(*to, Moving::Fetched(fetched));
            }
            loop {
                let mut pieces = Vec::new();
                let mut weight = 0;
                while weight < bytes
                    && let Some(id) = taker.next(allowance)
                {
                    let is_urgent = !taker.urgent.is_empty();
                    let shadow = self.partitions.get_mut(&id).expect("what is left is here");
                    let mut writes = PackedWrites::default();
                    let copied = shadow.partition.copy(shadow.after.as_ref(), bytes - weight, &mut writes);
                    let last = copied.last.is_none();
                    if let Some(progress) = progress {
                        progress.entities.done += copied.entities;
                        progress.bytes.done += copied.bytes;
                        progress.partitions.done += u64::from(last);
                    }
                    weight += ENTRY + writes.bytes().len();
                    if !is_urgent {
                        allowance.take(writes.bytes().len());
                    }
                    pieces.push(ShadowPiece { partition: id, writes, last });
                    if last {
                        if is_urgent { &mut taker.urgent } else { &mut taker.left }.pop_front();
                        sent.extend(self.partitions.remove(&id).map(|shadow| shadow.partition));
                    } else {
                        shadow.after = copied.last;
                    }
                }
                if pieces.is_empty() {
                    break;
                }
                taker.pieces += 1;
                mail(*to, Moving::Pieces(pieces));
            }
        }
        (mails, sent)
    }
}
