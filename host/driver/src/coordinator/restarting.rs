//! Restarting: a migration for which everything stops. The generation drains, and the next one begins with the owners that
//! are wanted, who read what is theirs from the snapshot.

use styx_protocol::abort::{Abort, Code};
use styx_protocol::entity::Layout;
use styx_protocol::ids::WorkerId;
use styx_protocol::machine::coordinator::{MIGRATION_UNDER_WAY, MigrationStage};
use styx_protocol::membership;
use styx_protocol::placement::{Seating, repartition};

use super::CoordinatorDriver;
use super::migration_history::{Begun, MigrationState};
use super::migrations::{MigrationMode, MigrationOptions, transfers};
use super::step::Step;

/// `W` names whoever waits for it.
#[derive(Debug)]
pub(super) struct Restarting<W> {
    seating: Seating,
    layout: Layout,
    waiter: Option<W>,
}

impl<W> Restarting<W> {
    /// How keys are to be spread.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Who is to have which partition.
    pub(super) fn seating(&self) -> &Seating {
        &self.seating
    }
}

impl<W, R> CoordinatorDriver<W, R> {
    pub(super) fn restart(
        &mut self,
        (layout, owners): (Layout, Vec<WorkerId>),
        options: MigrationOptions,
        waiter: Option<W>,
        step: &mut Step<'_, W, R>,
    ) {
        let Some(leader) = self.leader.as_deref() else { return };
        let placement = leader.placement().clone();
        let why = match self.restarting {
            Some(_) => Some(MIGRATION_UNDER_WAY),
            None if layout != self.layout => leader.refuses_end(),
            None => leader.refuses_migration(&owners),
        };
        if let Some(why) = why {
            return step.controlled(waiter, Err(Abort::new(Code::BadArguments, why)));
        }
        let begun = Begun {
            generation: leader.generation(),
            ticket: options.ticket,
            version: leader.announced().next(),
            mode: MigrationMode::StopAndRestart,
            transfers: if layout == self.layout { transfers(&placement, &owners) } else { Vec::new() },
            repartitioned: (layout != self.layout).then_some(layout.partitions),
            rate: None,
        };
        let before = repartition(placement.owners(), layout.partitions);
        let seats = Seating::seats_after(leader.seats(), &before, &owners);
        self.migrations.begin(begun, step.now.monotonic, step.now.wall);
        self.migrations.reached(MigrationStage::Flipping, step.now.monotonic);
        let (now, later) = if options.wait { (None, waiter) } else { (waiter, None) };
        self.restarting = Some(Restarting { seating: Seating { seats, owners }, layout, waiter: later });
        self.show_migrations(true, step);
        step.controlled(now, Ok(()));
        self.membership(membership::Input::Restart, step);
    }

    /// A generation is live: if it was wanted for other owners, it has them, unless its members are others too.
    pub(super) fn restarted(&mut self, step: &mut Step<'_, W, R>) {
        let Some(Restarting { seating, waiter, .. }) = self.restarting.take() else { return };
        let Some(leader) = self.leader.as_deref() else { return };
        let nodes = leader.nodes();
        let owner = |worker: &WorkerId| nodes[usize::from(worker.0)];
        let wanted = seating.owners.iter().map(|owner| seating.seats[usize::from(owner.0)].node);
        let (state, result) = if leader.placement().owners().iter().map(owner).eq(wanted) {
            (MigrationState::Done, Ok(()))
        } else {
            let why = "the members of the cluster have changed: plan it again";
            (MigrationState::Failed(why.to_owned()), Err(Abort::new(Code::Aborted, why)))
        };
        self.migrations.end(state, step.now.monotonic, step.now.wall);
        self.show_migrations(true, step);
        step.controlled(waiter, result);
    }
}
