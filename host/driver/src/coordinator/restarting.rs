//! Restarting: a migration for which everything stops. The generation drains, and the next one begins with the owners that
//! are wanted, who read what is theirs from the snapshot. It is done when the log knows of them: who begins anew after that
//! begins with them.

use styx_planted::{Bug, planted};
use styx_protocol::abort::{Abort, Code};
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, WorkerId};
use styx_protocol::machine::coordinator::{Input, MigrationStage};
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
    /// There is to be another number of partitions.
    repartitions: bool,
    waiter: Option<W>,
    /// A generation has been live with it.
    live: bool,
    /// The epoch whose record says it, once the generation under way is live.
    logged_with: Option<Epoch>,
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

    /// Whether no generation has been live with it yet. One that comes after such a one goes on from there.
    pub(super) fn is_to_begin(&self) -> bool {
        !self.live
    }

    /// The generation is over, and its log with it.
    pub(super) fn generation_ended(&mut self) {
        self.logged_with = None;
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
        let repartitions = layout != self.layout;
        let why = if repartitions { leader.refuses_end() } else { leader.refuses_migration(&owners) };
        if let Some(why) = why {
            return step.controlled(waiter, Err(Abort::new(Code::BadArguments, why)));
        }
        let begun = Begun {
            generation: leader.generation(),
            ticket: options.ticket,
            version: leader.announced().next(),
            mode: MigrationMode::StopAndRestart,
            transfers: if repartitions { Vec::new() } else { transfers(&placement, &owners) },
            repartitioned: repartitions.then_some(layout.partitions),
            rate: None,
        };
        let before = repartition(placement.owners(), layout.partitions);
        let seats = Seating::seats_after(leader.seats(), &before, &owners);
        self.migrations.begin(begun, step.now.monotonic, step.now.wall);
        self.migrations.reached(MigrationStage::Flipping, step.now.monotonic);
        let (now, later) = if options.wait { (None, waiter) } else { (waiter, None) };
        let seating = Seating { seats, owners };
        self.restarting =
            Some(Restarting { seating, layout, repartitions, waiter: later, live: false, logged_with: None });
        self.show_migrations(true, step);
        step.controlled(now, Ok(()));
        self.membership(membership::Input::Restart, step);
    }

    /// A generation is live, and perhaps one that was wanted for other owners: the log is told of them, though nothing happens.
    pub(super) fn restarted(&mut self, step: &mut Step<'_, W, R>) {
        let (Some(restarting), Some(leader)) = (&mut self.restarting, self.leader.as_deref()) else { return };
        let (reached, _) = leader.position();
        restarting.live = true;
        if planted(Bug::RestartUnlogged) {
            restarting.logged_with = Some(reached);
            return self.restart_logged(reached, step);
        }
        restarting.logged_with = Some(reached.next());
        self.machine(Input::LogPlacement, step);
    }

    /// The log is durable up to an epoch. If that says who has what: it is who was wanted, unless members are others too.
    pub(super) fn restart_logged(&mut self, durable: Epoch, step: &mut Step<'_, W, R>) {
        let is_logged = |restarting: &mut Restarting<W>| restarting.logged_with.is_some_and(|with| with <= durable);
        let Some(leader) = self.leader.as_deref() else { return };
        let Some(Restarting { seating, repartitions, waiter, .. }) = self.restarting.take_if(is_logged) else { return };
        let nodes = leader.nodes();
        let owner = |worker: &WorkerId| nodes[usize::from(worker.0)];
        let wanted = seating.owners.iter().map(|owner| seating.seats[usize::from(owner.0)].node);
        let (state, result) = if repartitions || leader.placement().owners().iter().map(owner).eq(wanted) {
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
