//! Rekeying: keys of an operator have a prefix from an epoch on, or none any more, so its entities live elsewhere. Before
//! that epoch is cut, each worker deals out what it has of the operator, and waits for what others deal to it.
//!
//! Where entities are is no part of what an epoch has written: the log says what is deployed, and whoever replays it deals
//! out again, in whatever placement.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use styx_planted::{Bug, planted};

use super::Action;
use super::ground::Ground;
use crate::cluster::worker_set::WorkerSet;
use crate::ids::{OperatorId, PartitionId, Round, WorkerId};
use crate::sequence::writes::PackedWrites;
use crate::state::Write;
use crate::state::entity::{Entity, Key, Value};
use crate::state::range::KeyRange;
use crate::wire::fault::why;
use crate::wire::message::{Message, Node};

/// Pieces that are on their way to another worker at a time.
const UNDER_WAY_MAX: usize = 2;

/// Entities that are looked up at a time: their values are kept as long.
const FOUND_AT_ONCE: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Rekeying {
    dealing: Option<Box<Dealing>>,
    /// What has come of other workers and is not in its place; also before the round has begun here.
    arrived: VecDeque<Arrived>,
}

/// A piece of another worker.
#[derive(Debug)]
struct Arrived {
    from: WorkerId,
    entities: VecDeque<Write>,
    last: bool,
}

/// A round that is not cut before everything is where it is to be.
#[derive(Debug)]
struct Dealing {
    round: Round,
    /// Each with whether its keys are composite now.
    operators: Vec<(OperatorId, bool)>,
    next: Next,
    pieces: BTreeMap<WorkerId, Piece>,
    /// All that was here has been dealt out.
    is_dealt: bool,
    /// Workers that have not said their last.
    awaited: WorkerSet,
}

/// Where dealing goes on.
#[derive(Debug, Default)]
struct Next {
    /// Of the operators that are dealt out.
    operator: usize,
    partition: u32,
    /// Behind this key.
    after: Option<Key>,
}

/// What another worker is to have.
#[derive(Debug, Default)]
struct Piece {
    entities: PackedWrites,
    /// Pieces that are on their way.
    under_way: usize,
}

impl Rekeying {
    /// A round begins for which these operators are to be dealt out, if there are any.
    pub fn begin<W>(
        &mut self,
        round: Round,
        operators: Vec<(OperatorId, bool)>,
        others: WorkerSet,
        actions: &mut Vec<Action<W>>,
    ) {
        if operators.is_empty() {
            let came = self.arrived.drain(..).map(|arrived| arrived.from);
            return actions.extend(came.map(|from| Action::fault(Node::Worker(from), "Dealt", why::NOT_ASKED)));
        }
        self.dealing = Some(Box::new(Dealing {
            round,
            operators,
            next: Next::default(),
            pieces: others.iter().map(|worker| (worker, Piece::default())).collect(),
            is_dealt: false,
            awaited: others,
        }));
    }

    /// Whether nothing is dealt out.
    pub fn is_resting(&self) -> bool {
        self.dealing.is_none()
    }

    /// Whether a step could go on, without another message.
    pub fn is_unfinished(&self) -> bool {
        let has_more = |dealing: &Dealing| !self.arrived.is_empty() || (!dealing.is_dealt && dealing.may_send());
        self.dealing.as_deref().is_some_and(has_more)
    }

    /// Another worker has sent a piece.
    ///
    /// # Errors
    /// It has sent more than may be on their way.
    pub fn dealt(&mut self, from: WorkerId, entities: Vec<Write>, last: bool) -> Result<(), &'static str> {
        if self.arrived.iter().filter(|arrived| arrived.from == from).count() > UNDER_WAY_MAX {
            return Err(why::TOO_MUCH);
        }
        self.arrived.push_back(Arrived { from, entities: entities.into(), last });
        Ok(())
    }

    /// A piece has arrived there.
    ///
    /// # Errors
    /// None was on its way.
    pub fn taken(&mut self, by: WorkerId) -> Result<(), &'static str> {
        // Nobody waits for the last ones.
        let Some(dealing) = self.dealing.as_deref_mut() else { return Ok(()) };
        let piece = dealing.pieces.get_mut(&by).filter(|piece| piece.under_way > 0).ok_or(why::NOT_ASKED)?;
        piece.under_way -= 1;
        Ok(())
    }

    /// Puts into its place what has come, and deals out more, as far as a step may.
    pub fn go_on<W>(&mut self, ground: &mut Ground, piece_bytes: usize, step_max: usize, actions: &mut Vec<Action<W>>) {
        let Some(dealing) = self.dealing.as_deref_mut() else { return };
        while ground.left() > 0
            && let Some(arrived) = self.arrived.front_mut()
        {
            let from = Node::Worker(arrived.from);
            let Some((entity, value)) = arrived.entities.pop_front() else {
                if arrived.last {
                    dealing.awaited.remove(arrived.from);
                }
                actions.push(Action::Send { to: from, message: Message::DealtTaken(dealing.round) });
                self.arrived.pop_front();
                continue;
            };
            if value.is_some() && dealing.admits(&entity, ground) {
                ground.place((entity, value));
            } else {
                actions.push(Action::fault(from, "Dealt", why::NO_WRITES));
            }
        }
        let mut looks = step_max;
        while looks > 0 && ground.left() > 0 && !dealing.is_dealt && dealing.may_send() {
            dealing.deal(ground, &mut looks, piece_bytes, actions);
        }
        if dealing.is_dealt && dealing.awaited.is_empty() && self.arrived.is_empty() {
            self.dealing = None;
        }
    }
}

impl Piece {
    fn send<W>(&mut self, to: WorkerId, round: Round, last: bool) -> Action<W> {
        self.under_way += 1;
        let entities = std::mem::take(&mut self.entities);
        Action::Send { to: Node::Worker(to), message: Message::Dealt { round, entities, last } }
    }
}

impl Dealing {
    fn may_send(&self) -> bool {
        self.pieces.values().all(|piece| piece.under_way < UNDER_WAY_MAX)
    }

    /// Whether an entity of another worker belongs here.
    fn admits(&self, entity: &Entity, ground: &Ground) -> bool {
        let operator = self.operators.iter().find(|(operator, _)| *operator == entity.operator());
        let is_placed = |(_, composite): &(_, bool)| entity.is_sound(&ground.state().layout(), *composite);
        operator.is_some_and(is_placed) && ground.owns(entity.partition())
    }

    /// Deals out some entities of the next partition that has any.
    fn deal<W>(&mut self, ground: &mut Ground, looks: &mut usize, piece_bytes: usize, actions: &mut Vec<Action<W>>) {
        let layout = ground.state().layout();
        let Some(&(operator, composite)) = self.operators.get(self.next.operator) else {
            self.is_dealt = true;
            let round = self.round;
            return actions.extend(self.pieces.iter_mut().map(|(to, piece)| piece.send(*to, round, true)));
        };
        if self.next.partition == layout.partitions {
            self.next = Next { operator: self.next.operator + 1, ..Next::default() };
            return;
        }
        let here = PartitionId(self.next.partition as u16);
        for (key, value) in self.found(operator, here, ground) {
            *looks = looks.saturating_sub(1);
            self.next.after = Some(key.clone());
            let there = layout.partition(&key, composite);
            if there == here {
                continue;
            }
            if !planted(Bug::RekeyedKept) {
                ground.place((Entity::within(&layout, operator, here, key.clone()), None));
            }
            let owner = ground.view().placement.owner(there);
            let entity = Entity::within(&layout, operator, there, key);
            let Some(piece) = self.pieces.get_mut(&owner) else {
                ground.place((entity, Some(value)));
                if ground.left() == 0 {
                    return;
                }
                continue;
            };
            piece.entities.push(&entity, Some(&value));
            if piece.entities.bytes().len() >= piece_bytes {
                actions.push(piece.send(owner, self.round, false));
                if !self.may_send() {
                    return;
                }
            }
            if ground.left() == 0 {
                return;
            }
        }
    }

    /// The next entities of an operator in a partition. If there are none, the next partition is next.
    fn found(&mut self, operator: OperatorId, here: PartitionId, ground: &Ground) -> Vec<(Key, Value)> {
        let lower = self.next.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let range = KeyRange { lower, upper: Bound::Unbounded };
        let found = ground.state().scan(operator, &range, Some(here), FOUND_AT_ONCE, false);
        if found.is_empty() {
            self.next = Next { operator: self.next.operator, partition: self.next.partition + 1, after: None };
        }
        found
    }
}
