//! Partitions that other workers follow, and how far each of those is.

use std::collections::{BTreeMap, VecDeque};

use styx_planted::{Bug, planted};

use crate::cluster::placement::Placement;
use crate::commit::replies::{ReplyChange, ReplyTable};
use crate::ids::{OperatorId, PartitionId, PlacementVersion, RequestId, WorkerId};
use crate::pieces::{PIECE_BYTES, in_pieces};
use crate::sequence::route::partition_of;
use crate::sequence::writes::PackedWrites;
use crate::state::State;
use crate::state::entity::{Entity, Key};
use crate::wire::fault::why;
use crate::wire::message::{Moving, MovingMail, PartitionChanges};

/// Pieces of a copy that are on their way to one worker at a time.
const PIECES_MAX: usize = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The placement with which they go; none if nothing goes.
    version: Option<PlacementVersion>,
    partitions: BTreeMap<PartitionId, Leaving>,
    followers: BTreeMap<WorkerId, Follower>,
    /// The coordinator knows that all is copied.
    told: bool,
    /// Pieces of copies that were given up, of which nobody has said yet that they are there.
    stale: BTreeMap<WorkerId, usize>,
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
        self.version.is_none()
    }

    /// The placement with which partitions go, if any do.
    pub fn version(&self) -> Option<PlacementVersion> {
        self.version
    }

    /// What goes.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.partitions.keys().copied()
    }

    /// Partitions are to go with a placement, each to a worker.
    pub fn begin(&mut self, version: PlacementVersion, moves: &[(PartitionId, WorkerId)], replies: &mut ReplyTable) {
        self.version = Some(version);
        for (partition, to) in moves.iter().copied() {
            self.partitions.insert(partition, Leaving { to, copied: Copied::Nothing });
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

    /// What there is to tell: what was written, and more of the copy.
    pub fn take_mails(&mut self, state: &State, replies: &mut ReplyTable) -> Vec<(WorkerId, MovingMail)> {
        let Some(version) = self.version else { return Vec::new() };
        let mut mails = Vec::new();
        let partitions = state.layout().partitions;
        let mut told: BTreeMap<WorkerId, Vec<ReplyChange>> = BTreeMap::new();
        for change in replies.take_told() {
            if let Some(leaving) = self.partitions.get(&partition_of(change.id(), partitions)) {
                told.entry(leaving.to).or_default().push(change);
            }
        }
        for (to, follower) in &mut self.followers {
            let replies = told.remove(to).unwrap_or_default();
            for changes in in_pieces_of(std::mem::take(&mut follower.written), replies) {
                mails.push((*to, MovingMail { version, moving: Moving::Followed(changes) }));
            }
        }
        for (to, follower) in &mut self.followers {
            while follower.pieces < PIECES_MAX && !follower.left.is_empty() {
                let changes = copy(follower, &mut self.partitions, state, replies);
                follower.pieces += 1;
                mails.push((*to, MovingMail { version, moving: Moving::Copied(changes) }));
            }
        }
        mails
    }

    /// The partitions go, each to a worker.
    pub fn end(&mut self) -> Vec<(PartitionId, WorkerId)> {
        let Outgoing { partitions, stale, .. } = std::mem::take(self);
        self.stale = stale;
        partitions.into_iter().map(|(id, leaving)| (id, leaving.to)).collect()
    }

    /// They do not go; who is to be told.
    pub fn cancel(&mut self, version: PlacementVersion, replies: &mut ReplyTable) -> Vec<WorkerId> {
        if self.version != Some(version) {
            return Vec::new();
        }
        replies.unfollow();
        let Outgoing { followers, mut stale, .. } = std::mem::take(self);
        followers.iter().for_each(|(to, follower)| *stale.entry(*to).or_default() += follower.pieces);
        self.stale = stale;
        followers.into_keys().collect()
    }
}

/// The next piece for a worker.
fn copy(
    follower: &mut Follower,
    partitions: &mut BTreeMap<PartitionId, Leaving>,
    state: &State,
    replies: &ReplyTable,
) -> PartitionChanges {
    let mut changes = PartitionChanges::default();
    let mut weight = 0;
    while weight < PIECE_BYTES
        && let Some(id) = follower.left.front().copied()
        && let Some(leaving) = partitions.get_mut(&id)
    {
        let partition = &state.partitions()[usize::from(id.0)];
        leaving.copied = match &leaving.copied {
            Copied::Replies(after) => {
                let (copied, last) = replies.copy(id, *after, PIECE_BYTES - weight);
                weight += copied.iter().map(|kept| kept.weight()).sum::<usize>();
                let behind = copied.last().map(|kept| kept.id).or(*after);
                changes.replies.extend(copied.into_iter().map(ReplyChange::Kept));
                if last { Copied::All } else { Copied::Replies(behind) }
            }
            before => {
                let after = if let Copied::Entities(after) = before { Some(after) } else { None };
                let taken = changes.writes.bytes().len();
                let last = partition.copy(after, taken + PIECE_BYTES - weight, &mut changes.writes);
                weight += changes.writes.bytes().len() - taken;
                last.map_or(Copied::Replies(None), Copied::Entities)
            }
        };
        if matches!(leaving.copied, Copied::All) {
            follower.left.pop_front();
        }
    }
    changes
}

fn in_pieces_of(writes: PackedWrites, replies: Vec<ReplyChange>) -> Vec<PartitionChanges> {
    let writes = writes.into_pieces(PIECE_BYTES).into_iter();
    let mut pieces: Vec<_> = writes.map(|writes| PartitionChanges { writes, replies: Vec::new() }).collect();
    in_pieces(replies, usize::MAX, PIECE_BYTES, ReplyChange::weight, |replies| {
        pieces.push(PartitionChanges { writes: PackedWrites::default(), replies });
    });
    pieces
}
