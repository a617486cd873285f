//! Migrations: partitions change their owners while everything goes on, because an operator wants it.

use styx_protocol::abort::{Abort, Code};
use styx_protocol::ids::NodeId;
use styx_protocol::machine::coordinator::Input;
use styx_protocol::placement::Placement;

use super::CoordinatorDriver;
use super::io::Effect;
use super::leader::LeaderState;
use super::placing::{self, Goal};
use super::snapshots::SnapshotWaiter;
use super::step::Step;
use crate::client::Answer;
use crate::diagnostic::Diagnostic;
use crate::snapshots::NoSnapshot;

impl<W, R> CoordinatorDriver<W, R> {
    pub(super) fn migrate(&mut self, goal: &Goal, waiter: Option<W>, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref().filter(|leader| leader.serves()) else {
            let abort = Abort::new(Code::Overloaded, "the cluster does not serve yet; try again in a moment");
            return step.extend(waiter.map(|waiter| Effect::Answer(waiter, Answer::Controlled(Err(abort)))));
        };
        match placing::reach(goal, leader.placement().owners(), &leader.nodes()) {
            Ok(owners) => self.machine(Input::Migrate { owners, waiter }, step),
            Err(why) => {
                let abort = Abort::new(Code::BadArguments, why);
                step.extend(waiter.map(|waiter| Effect::Answer(waiter, Answer::Controlled(Err(abort)))));
            }
        }
    }

    pub(super) fn cancel_migration(&mut self, waiter: Option<W>, step: &mut Step<'_, W, R>) {
        let migrates =
            |migrating: bool| migrating.then_some(()).ok_or("no migration is under way that can be cancelled");
        let before = self.leader.as_deref().is_some_and(|leader| leader.is_migrating());
        self.machine(Input::CancelMigration, step);
        let after = self.leader.as_deref().is_some_and(|leader| leader.is_migrating());
        let result = migrates(before && !after).map_err(|why| Abort::new(Code::BadArguments, why));
        step.extend(waiter.map(|waiter| Effect::Answer(waiter, Answer::Controlled(result))));
    }

    /// Owners to be that have all that is to be theirs wait for a snapshot, if such are taken.
    pub(super) fn proceed_with_migration(&mut self, step: &mut Step<'_, W, R>) {
        if self.leader.as_deref_mut().is_some_and(LeaderState::wants_snapshot_to_migrate) {
            self.snapshots(step, |scheduler, now, effects| scheduler.want(SnapshotWaiter::Migration, now, effects));
        }
    }

    /// The snapshot that a migration wanted was taken, or there is nothing that it would hold.
    pub(super) fn snapshot_to_migrate(&mut self, result: Result<(), NoSnapshot>, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref_mut() else { return };
        leader.snapshot_to_migrate_ended();
        if result == Err(NoSnapshot::NothingHappened) {
            self.machine(Input::Place, step);
        }
    }

    /// Partitions have other owners.
    pub(super) fn placed(&mut self, placement: &Placement, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref() else { return };
        let message = format!("partitions have other owners: placement {}", placement.version());
        step.log(Diagnostic::info(message).generation(leader.generation()));
        self.remember_owners();
        self.show_all(step);
    }

    /// Keeps in mind who has which partition, for the next generation.
    pub(super) fn remember_owners(&mut self) {
        let Some(leader) = self.leader.as_deref() else { return };
        let nodes = leader.nodes();
        let owners = leader.placement().owners().iter();
        self.owners = Some(owners.map(|owner| nodes[usize::from(owner.0)]).collect::<Vec<NodeId>>());
    }
}
