//! A worker gives and takes partitions: its own part in a [migration](super::migration).

use std::collections::BTreeMap;

use styx_planted::{Bug, planted};

use super::ingress::Slot;
use super::io::{Action, Discarded};
use super::migration::{Arrived, Followed};
use super::{Worker, discard, give_back};
use crate::ids::{PartitionId, PlacementVersion, WorkerId};
use crate::sequence::control::Control;
use crate::sequence::route::partition_of;
use crate::sequence::transaction::{CarriedTransaction, Request};
use crate::wire::fault::why;
use crate::wire::message::{Message, Node};
use crate::wire::moving::{HandedOver, Moving, MovingMail, MovingMode, PartitionChanges};

impl<W> Worker<W> {
    /// Deals out some of what is in former partitions; with the last of it the coordinator is told.
    pub(super) fn divide(&mut self, actions: &mut Vec<Action<W>>) {
        self.ground.divide();
        if self.divides && self.ground.state().is_divided() {
            self.divides = false;
            let version = self.ground.view().placement.version();
            actions.push(Action::Send { to: Node::Coordinator, message: Message::Complete(version) });
        }
    }

    pub(super) fn changes_owners(&self, control: &Control) -> bool {
        let now = &self.ground.view().placement;
        matches!(control, Control::Place(next) if next.partitions() == now.partitions() && next.owners() != now.owners())
    }

    /// Whether all that was written in partitions that are to go is part of a snapshot, if such are taken.
    pub(super) fn may_depart(&self) -> bool {
        let state = self.ground.state();
        !self.config.snapshots
            || planted(Bug::MigrationBetweenSnapshots)
            || self.ground.outgoing().partitions().all(|id| state.partitions()[usize::from(id.0)].is_cut())
    }

    /// Has other workers follow partitions.
    pub(super) fn migrate(
        &mut self,
        version: PlacementVersion,
        mode: MovingMode,
        moves: &[(PartitionId, WorkerId)],
    ) -> Result<(), &'static str> {
        let placement = &self.ground.view().placement;
        let goes = |(partition, to): &(PartitionId, WorkerId)| {
            placement.owner_of(*partition) == Some(self.ground.me())
                && *to != self.ground.me()
                && to.0 < placement.workers()
        };
        if version <= placement.version() || !moves.iter().all(goes) {
            return Err(why::PLACEMENT);
        }
        if !self.ground.outgoing().is_empty() || !self.ground.fetching().is_empty() {
            return Err(why::TWICE);
        }
        let state = self.ground.state().clone();
        self.ground.outgoing_mut().begin(version, mode, moves, &state, self.egress.replies_mut());
        Ok(())
    }

    pub(super) fn cancel_migration(&mut self, version: PlacementVersion, actions: &mut Vec<Action<W>>) {
        let followers = self.ground.outgoing_mut().cancel(version, self.egress.replies_mut());
        actions.extend(followers.into_iter().map(|to| moving(to, version, Moving::Cancelled)));
    }

    /// Tells whoever follows what there is to tell.
    pub(super) fn tell_followers(&mut self, actions: &mut Vec<Action<W>>) {
        if self.ground.outgoing().is_empty() {
            return;
        }
        let (mails, sent) = self.ground.outgoing_mut().take_pieces(self.config.piece_bytes);
        actions.extend(mails.into_iter().map(|(to, mail)| moving(to, mail.version, mail.moving)));
        if !sent.is_empty() {
            let partitions = self.handover.depart(sent);
            discard(Discarded { partitions, ..Discarded::default() }, actions);
        }
        let state = self.ground.state().clone();
        let mails = self.ground.outgoing_mut().take_mails(&state, self.egress.replies_mut(), self.config.piece_bytes);
        actions.extend(mails.into_iter().map(|(to, mail)| moving(to, mail.version, mail.moving)));
        if let Some(version) = self.ground.outgoing_mut().take_copied() {
            actions.push(Action::Send { to: Node::Coordinator, message: Message::Copied(version) });
        }
    }

    pub(super) fn on_moving(
        &mut self,
        from: WorkerId,
        MovingMail { version, moving: told }: MovingMail,
        actions: &mut Vec<Action<W>>,
    ) -> Result<(), &'static str> {
        match told {
            Moving::Taken => self.ground.outgoing_mut().taken(from)?,
            Moving::Cancelled => discard(self.incoming.cancel(from, version), actions),
            Moving::Wanted(wanted) => {
                let shadows = self.ground.outgoing_mut().shadows_mut();
                if version != shadows.version() {
                    return Err(why::PLACEMENT);
                }
                shadows.want(from, wanted)?;
            }
            Moving::Fetched(writes) => self.ground.fetching_mut().fetched(from, version, writes),
            Moving::Pieces(pieces) => self.ground.fetching_mut().pieces(from, version, pieces),
            Moving::Copied(changes) => {
                self.follow(from, version, changes)?;
                actions.push(moving(from, version, Moving::Taken));
            }
            Moving::Followed(changes) => self.follow(from, version, changes)?,
            Moving::Handed(_) if self.is_given_up(version) => return Err(why::PLACEMENT),
            Moving::Handed(handed) => self.incoming.hand(from, version, handed)?,
        }
        Ok(())
    }

    /// Whether a migration was given up, another one having come to be since.
    fn is_given_up(&self, version: PlacementVersion) -> bool {
        let now = self.ground.view().placement.version();
        version < now || (version == now && !self.incoming.is_awaited())
    }

    fn follow(
        &mut self,
        from: WorkerId,
        version: PlacementVersion,
        changes: PartitionChanges,
    ) -> Result<(), &'static str> {
        if self.is_given_up(version) {
            return Ok(());
        }
        let placement = self.ground.view().placement.clone();
        // Once the placement has changed, the old one's owner is not known here any more.
        let owns = |partition| version == placement.version() || placement.owner(partition) == from;
        let layout = self.layout();
        self.incoming.follow(from, version, changes, &layout, owns)
    }

    /// Partitions are other workers' from now on.
    pub(super) fn depart(&mut self, actions: &mut Vec<Action<W>>) {
        // What was written up to now comes first.
        self.tell_followers(actions);
        let Some(version) = self.ground.outgoing().version() else { return };
        let moves = self.ground.outgoing_mut().end();
        let mut discarded = Discarded::default();
        let mut handed: BTreeMap<WorkerId, HandedOver> = BTreeMap::new();
        let (mut partitions, mut shadows, mut to) = (Vec::new(), Vec::new(), BTreeMap::new());
        let follows = self.ground.outgoing().mode() == MovingMode::Immediate;
        for (id, worker) in moves {
            let partition = self.ground.state_mut().take(id);
            let handed = handed.entry(worker).or_default();
            let follow = follows.then(|| handed.shadows.get_or_insert_default());
            match follow.filter(|_| !partition.is_empty()) {
                Some(announced) => {
                    announced.push((id, partition.inventory()));
                    shadows.push((id, worker, partition));
                }
                None => partitions.push(partition),
            }
            self.ground.forget_work(id);
            discarded.replies.push(self.egress.replies_mut().take(id));
            to.insert(id, worker);
        }
        if !shadows.is_empty() {
            self.ground.outgoing_mut().shadows_mut().begin(version, shadows);
        }
        let layout = self.layout();
        let goes_to = |request: &Request| {
            let to = to.get(&partition_of(request.id, &layout)).filter(|_| request.retained);
            to.copied().filter(|_| !planted(Bug::MigrationKeepsCarried))
        };
        let mut waiters = Vec::new();
        let departs = |slot: &mut Slot<W>| goes_to(&slot.transaction.request).is_some();
        let mut departing: Vec<Slot<W>> = self.carried.extract_if(.., departs).collect();
        departing.extend(self.longs.depart(|request| goes_to(request).is_some(), &mut self.ground));
        for mut slot in departing {
            let request = &slot.transaction.request;
            waiters.extend(self.egress.take_waiting(request.id));
            if let Some(to) = goes_to(request) {
                handed.entry(to).or_default().carried.push(slot.carried());
            }
            waiters.extend(slot.waiter.take());
        }
        let departs = |id| to.contains_key(&partition_of(id, &layout));
        waiters.extend(self.ingress.depart(departs, &mut self.egress));
        for (to, mut handed) in handed {
            handed.carried.sort_unstable_by_key(|carried| carried.tid);
            actions.push(moving(to, version, Moving::Handed(handed)));
        }
        discarded.partitions = self.handover.depart(partitions);
        discard(discarded, actions);
        give_back(waiters, actions);
    }

    /// Whatever was awaited of partitions is here: they are this worker's.
    pub(super) fn arrive(&mut self, actions: &mut Vec<Action<W>>) {
        let Arrived { partitions, carried, mut shadows, discarded } = self.incoming.take();
        let mut sources = BTreeMap::new();
        for (id, Followed { mut partition, replies }) in partitions {
            if self.config.snapshots {
                partition.track();
            }
            if let Some((from, inventory)) = shadows.as_mut().and_then(|shadows| shadows.remove(&id)) {
                sources.insert(id, from);
                if partition.announce(inventory).is_err() {
                    actions.push(Action::fault(Node::Worker(from), "Moving", why::NOT_ANNOUNCED));
                }
            }
            self.ground.state_mut().restore(id, partition);
            if !planted(Bug::MigrationForgetsReplies) {
                self.egress.replies_mut().adopt(id, replies);
            }
        }
        if shadows.is_some() {
            let version = self.ground.view().placement.version();
            self.ground.fetching_mut().begin(version, sources);
        }
        if !carried.is_empty() {
            for CarriedTransaction { tid, time, request } in carried {
                self.egress.begin(request.id, request.body_hash());
                self.carried.push(Slot::unattended(tid, time, request));
            }
            self.carried.sort_unstable_by_key(|slot| slot.transaction.tid);
        }
        discard(discarded, actions);
        std::mem::take(&mut self.early).into_iter().for_each(|request| self.client(request, actions));
    }
}

pub(super) fn moving<W>(to: WorkerId, version: PlacementVersion, moving: Moving) -> Action<W> {
    Action::Send { to: Node::Worker(to), message: Message::Moving(MovingMail { version, moving }) }
}
