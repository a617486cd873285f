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
        let owners = match self.leader.as_deref().filter(|leader| leader.serves()) {
            Some(leader) => placing::reach(goal, leader.placement().owners(), &leader.nodes())
                .map_err(|why| Abort::new(Code::BadArguments, why)),
            None => Err(Abort::new(Code::Overloaded, "the cluster does not serve yet; try again in a moment")),
        };
        match owners {
            Ok(owners) => self.machine(Input::Migrate { owners, waiter }, step),
            Err(abort) => step.extend(waiter.map(|waiter| Effect::Answer(waiter, Answer::Controlled(Err(abort))))),
        }
    }

    pub(super) fn cancel_migration(&mut self, waiter: Option<W>, step: &mut Step<'_, W, R>) {
        let is_migrating = |driver: &Self| driver.leader.as_deref().is_some_and(LeaderState::is_migrating);
        let before = is_migrating(self);
        self.machine(Input::CancelMigration, step);
        let result = if before && !is_migrating(self) {
            Ok(())
        } else {
            Err(Abort::new(Code::BadArguments, "no migration is under way that can be cancelled"))
        };
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
