//! Partitions that other workers follow, and how far each of those is.

use std::collections::{BTreeMap, VecDeque};

use styx_planted::{Bug, planted};

use super::shadow::Shadows;
use crate::cluster::placement::Placement;
use crate::commit::replies::{ReplyChange, ReplyTable};
use crate::ids::{OperatorId, PartitionId, PlacementVersion, RequestId, WorkerId};
use crate::pieces::in_pieces;
use crate::sequence::route::partition_of;
use crate::sequence::system::{self, is_system};
use crate::sequence::writes::PackedWrites;
use crate::state::entity::{Entity, Key};
use crate::state::{Partition, State};
use crate::wire::fault::why;
use crate::wire::moving::{Moving, MovingMail, MovingMode, PartitionChanges};

/// Pieces of a copy that are on their way to one worker at a time.
pub(super) const PIECES_MAX: usize = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The placement with which they go; none if nothing goes.
    version: Option<PlacementVersion>,
    mode: MovingMode,
    partitions: BTreeMap<PartitionId, Leaving>,
    followers: BTreeMap<WorkerId, Follower>,
    /// The coordinator knows that all is copied.
    told: bool,
    /// Pieces of copies that were given up, of which nobody has said yet that they are there.
    stale: BTreeMap<WorkerId, usize>,
    allowance: Allowance,
    /// Nothing is copied of what begins to leave before it is allowed.
    asks: bool,
    progress: Option<CopyProgress>,
    /// What is another worker's already, and not all there.
    shadows: Shadows,
}

/// How much of what leaves a worker is copied. What there is of it was counted when it began; what is written meanwhile
/// makes it more or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct CopyProgress {
    /// The placement with which it goes.
    pub version: PlacementVersion,
    pub partitions: CopiedOf,
    pub entities: CopiedOf,
    /// Of keys and values.
    pub bytes: CopiedOf,
}

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct CopiedOf {
    pub done: u64,
    pub of: u64,
}

/// How much of what leaves may be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyAllowance {
    /// All.
    Unlimited,
    /// So many bytes from now on. The piece that exceeds them is taken off the next ones.
    Bytes(u64),
}

/// Bytes that may still be copied; below 0, if the last piece took more.
#[derive(Debug, Default)]
pub(super) struct Allowance(Option<i64>);

impl Allowance {
    pub fn set(&mut self, allowance: CopyAllowance) {
        self.0 = match allowance {
            CopyAllowance::Unlimited => None,
            CopyAllowance::Bytes(bytes) => {
                let owed = self.0.unwrap_or_default().min(0);
                Some(owed.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX)))
            }
        };
    }

    pub fn is_used_up(&self) -> bool {
        self.0.is_some_and(|left| left <= 0)
    }

    pub fn take(&mut self, bytes: usize) {
        self.0 = self.0.map(|left| left.saturating_sub(bytes as i64));
    }
}

#[derive(Debug)]
struct Leaving {
    to: WorkerId,
    copied: Copied,
}

/// What of a partition is copied. Entities first, then replies.
#[derive(Debug)]
enum Copied {
    Nothing,
    Entities((OperatorId, Key)),
    Replies(Option<RequestId>),
    All,
}

#[derive(Debug, Default)]
struct Follower {
    /// What is not copied yet, the next one in front.
    left: VecDeque<PartitionId>,
    /// Pieces of which it has not said that it has them.
    pieces: usize,
    /// What was written since to what it has.
    written: PackedWrites,
}

impl Copied {
    fn covers(&self, entity: &Entity) -> bool {
        match self {
            Copied::Nothing => false,
            Copied::Entities((operator, key)) => (entity.operator(), entity.key()) <= (*operator, key),
            Copied::Replies(_) | Copied::All => true,
        }
    }
}

impl Outgoing {
    pub fn is_empty(&self) -> bool {
        self.version.is_none() && self.shadows.is_empty()
    }

    pub fn mode(&self) -> MovingMode {
        self.mode
    }

    pub fn shadows_mut(&mut self) -> &mut Shadows {
        &mut self.shadows
    }

    /// The placement with which partitions go, if any do.
    pub fn version(&self) -> Option<PlacementVersion> {
        self.version
    }

    /// What goes.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.partitions.keys().copied()
    }

    /// Who is to have a partition, if it goes.
    pub fn leaves_to(&self, partition: PartitionId) -> Option<WorkerId> {
        self.partitions.get(&partition).map(|leaving| leaving.to)
    }

    /// How much is copied of what goes, or of what went last.
    pub fn progress(&self) -> Option<CopyProgress> {
        self.progress
    }

    /// From now on nothing is copied of what begins to leave before it is allowed.
    pub fn ask(&mut self) {
        self.asks = true;
    }

    /// How much may be copied from now on.
    pub fn allow(&mut self, allowance: CopyAllowance) {
        self.allowance.set(allowance);
    }

    /// Partitions are to go with a placement, each to a worker.
    pub fn begin(
        &mut self,
        version: PlacementVersion,
        mode: MovingMode,
        moves: &[(PartitionId, WorkerId)],
        state: &State,
        replies: &mut ReplyTable,
    ) {
        (self.version, self.mode) = (Some(version), mode);
        self.allowance = Allowance(self.asks.then_some(0));
        let all = |of: u64| CopiedOf { done: 0, of };
        let going = moves.iter().map(|(id, _)| &state.partitions()[usize::from(id.0)]);
        let (mut entities, mut bytes) = (0, 0);
        going.for_each(|partition| {
            entities += partition.len() as u64;
            bytes += partition.bytes();
        });
        let partitions = all(moves.len() as u64);
        self.progress = Some(CopyProgress { version, partitions, entities: all(entities), bytes: all(bytes) });
        for (partition, to) in moves.iter().copied() {
            let copied = match mode {
                MovingMode::Online => Copied::Nothing,
                MovingMode::Immediate => Copied::Entities((system::FIRST, "".into())),
            };
            self.partitions.insert(partition, Leaving { to, copied });
            self.followers.entry(to).or_default().left.push_back(partition);
            replies.follow(partition);
        }
    }

    /// An entity is written.
    pub fn writes(&mut self, entity: &Entity, value: Option<&[u8]>) {
        if self.partitions.is_empty() || planted(Bug::MigrationNotFollowed) {
            return;
        }
        if let Some(Leaving { to, copied }) = self.partitions.get(&entity.partition())
            && (self.mode == MovingMode::Online || is_system(entity.operator()))
            && copied.covers(entity)
            && let Some(follower) = self.followers.get_mut(to)
        {
            follower.written.push(entity, value);
        }
    }

    /// A worker has a piece.
    ///
    /// # Errors
    /// None is on its way.
    pub fn taken(&mut self, by: WorkerId) -> Result<(), &'static str> {
        if self.shadows.taken(by) {
            return Ok(());
        }
        let stale = self.stale.get_mut(&by).filter(|pieces| **pieces > 0);
        let pieces = stale.or(self.followers.get_mut(&by).map(|follower| &mut follower.pieces));
        let pieces = pieces.filter(|pieces| **pieces > 0).ok_or(why::NOT_ASKED)?;
        *pieces -= 1;
        Ok(())
    }

    /// Whether this placement is the one that was announced, and takes away what others have a copy of, all of it.
    pub fn is_complete(&self, next: &Placement, mut leaving: impl Iterator<Item = PartitionId>) -> bool {
        let goes = |id: PartitionId| self.partitions.get(&id).is_some_and(|leaving| leaving.to == next.owner(id));
        if !leaving.all(goes) {
            return false;
        }
        self.version.is_none() || (self.version == Some(next.version()) && self.is_copied())
    }

    fn is_copied(&self) -> bool {
        self.followers.values().all(|follower| follower.left.is_empty() && follower.pieces == 0)
    }

    /// Whether all is copied, once.
    pub fn take_copied(&mut self) -> Option<PlacementVersion> {
        let version = self.version.filter(|_| !self.told && self.is_copied())?;
        self.told = true;
        Some(version)
    }

    /// What there is to tell, in pieces of about so many `bytes`: what was written, and more of the copy.
    pub fn take_mails(&mut self, state: &State, replies: &mut ReplyTable, bytes: usize) -> Vec<(WorkerId, MovingMail)> {
        let Some(version) = self.version else { return Vec::new() };
        let mut mails = Vec::new();
        // Nobody is kept waiting for the little that is to be there before.
        let paced = self.mode == MovingMode::Online;
        let layout = state.layout();
        let mut told: BTreeMap<WorkerId, Vec<ReplyChange>> = BTreeMap::new();
        for change in replies.take_told() {
            if let Some(leaving) = self.partitions.get(&partition_of(change.id(), &layout)) {
                told.entry(leaving.to).or_default().push(change);
            }
        }
        for (to, follower) in &mut self.followers {
            let replies = told.remove(to).unwrap_or_default();
            for changes in in_pieces_of(std::mem::take(&mut follower.written), replies, bytes) {
                mails.push((*to, MovingMail { version, moving: Moving::Followed(changes) }));
            }
        }
        for (to, follower) in &mut self.followers {
            while follower.pieces < PIECES_MAX && !follower.left.is_empty() && !(paced && self.allowance.is_used_up()) {
                let Outgoing { partitions, progress, .. } = self;
                let (changes, weight) = copy(follower, partitions, progress, state, replies, (bytes, paced));
                if paced {
                    self.allowance.take(weight);
                }
                follower.pieces += 1;
                mails.push((*to, MovingMail { version, moving: Moving::Copied(changes) }));
            }
        }
        mails
    }

    /// What there is to hand over of partitions that are another worker's; and those of which that was all.
    pub fn take_pieces(&mut self, bytes: usize) -> (Vec<(WorkerId, MovingMail)>, Vec<Partition>) {
        let Outgoing { shadows, allowance, progress, .. } = self;
        shadows.take_mails(allowance, progress, bytes)
    }

    /// The partitions go, each to a worker.
    pub fn end(&mut self) -> Vec<(PartitionId, WorkerId)> {
        let Outgoing { partitions, stale, asks, allowance, progress, mode, shadows, .. } = std::mem::take(self);
        (self.stale, self.asks, self.allowance, self.progress) = (stale, asks, allowance, progress);
        (self.mode, self.shadows) = (mode, shadows);
        partitions.into_iter().map(|(id, leaving)| (id, leaving.to)).collect()
    }

    /// They do not go; who is to be told.
    pub fn cancel(&mut self, version: PlacementVersion, replies: &mut ReplyTable) -> Vec<WorkerId> {
        if self.version != Some(version) {
            return Vec::new();
        }
        replies.unfollow();
        let Outgoing { followers, mut stale, asks, shadows, .. } = std::mem::take(self);
        (self.asks, self.shadows) = (asks, shadows);
        followers.iter().for_each(|(to, follower)| *stale.entry(*to).or_default() += follower.pieces);
        self.stale = stale;
        followers.into_keys().collect()
    }
}

/// The next piece for a worker, and about as many bytes as it takes.
fn copy(
    follower: &mut Follower,
    partitions: &mut BTreeMap<PartitionId, Leaving>,
    progress: &mut Option<CopyProgress>,
    state: &State,
    replies: &ReplyTable,
    (bytes, counts): (usize, bool),
) -> (PartitionChanges, usize) {
    let mut changes = PartitionChanges::default();
    let mut weight = 0;
    while weight < bytes
        && let Some(id) = follower.left.front().copied()
        && let Some(leaving) = partitions.get_mut(&id)
    {
        let partition = &state.partitions()[usize::from(id.0)];
        leaving.copied = match &leaving.copied {
            Copied::Replies(after) => {
                let (copied, last) = replies.copy(id, *after, bytes - weight);
                weight += copied.iter().map(|kept| kept.weight()).sum::<usize>();
                let behind = copied.last().map(|kept| kept.id).or(*after);
                changes.replies.extend(copied.into_iter().map(ReplyChange::Kept));
                if last { Copied::All } else { Copied::Replies(behind) }
            }
            before => {
                let after = if let Copied::Entities(after) = before { Some(after) } else { None };
                let taken = changes.writes.bytes().len();
                let copied = partition.copy(after, taken + bytes - weight, &mut changes.writes);
                weight += changes.writes.bytes().len() - taken;
                if let Some(progress) = progress.as_mut().filter(|_| counts) {
                    progress.entities.done += copied.entities;
                    progress.bytes.done += copied.bytes;
                }
                copied.last.map_or(Copied::Replies(None), Copied::Entities)
            }
        };
        if matches!(leaving.copied, Copied::All) {
            follower.left.pop_front();
            if let Some(progress) = progress.as_mut().filter(|_| counts) {
                progress.partitions.done += 1;
            }
        }
    }
    (changes, weight)
}

fn in_pieces_of(writes: PackedWrites, replies: Vec<ReplyChange>, bytes: usize) -> Vec<PartitionChanges> {
    let writes = writes.into_pieces(bytes).into_iter();
    let mut pieces: Vec<_> = writes.map(|writes| PartitionChanges { writes, replies: Vec::new() }).collect();
    in_pieces(replies, usize::MAX, bytes, ReplyChange::weight, |replies| {
        pieces.push(PartitionChanges { writes: PackedWrites::default(), replies });
    });
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::replies::Retention;
    use crate::state::entity::Layout;

    #[test]
    fn who_gets_a_partition_is_known_until_it_goes() {
        let (state, mut replies) =
            (State::new(Layout::new(1, 4)), ReplyTable::new(Retention::default(), Layout::new(1, 4)));
        let (goes, to, version) = (PartitionId(2), WorkerId(1), PlacementVersion(3));
        let mut outgoing = Outgoing::default();
        outgoing.begin(version, MovingMode::Online, &[(goes, to)], &state, &mut replies);
        assert_eq!((outgoing.leaves_to(goes), outgoing.leaves_to(PartitionId(1))), (Some(to), None));
        assert!(!outgoing.is_empty() && outgoing.partitions().eq([goes]) && outgoing.version() == Some(version));
        assert_eq!(outgoing.end(), [(goes, to)]);
        assert!(outgoing.is_empty() && outgoing.leaves_to(goes).is_none());
    }

    #[test]
    fn a_copy_covers_what_it_has_come_past() {
        let entity = |operator, key: &str| Entity::new(&Layout::new(1, 1), OperatorId(operator), false, key.into());
        let upto = Copied::Entities((OperatorId(2), "k".into()));
        for (operator, key, covered) in
            [(1, "z", true), (2, "j", true), (2, "k", true), (2, "l", false), (3, "a", false)]
        {
            assert_eq!(upto.covers(&entity(operator, key)), covered, "{operator} {key}");
        }
        let any = entity(1, "a");
        assert!(!Copied::Nothing.covers(&any) && Copied::Replies(None).covers(&any) && Copied::All.covers(&any));
    }
}
