//! What the scheduler of snapshots wants done in a cluster: by the shell, or by the driver itself.

use styx_planted::{Bug, planted};
use styx_protocol::ids::WorkerId;
use styx_protocol::machine::coordinator::Input;
use styx_protocol::membership;

use super::CoordinatorDriver;
use super::io::Effect;
use super::leader::LeaderState;
use super::step::Step;
use crate::snapshots::{NoSnapshot, SnapshotEffect, SnapshotScheduler};
use crate::time::Instant;
use crate::wire::Envelope;

/// Who wants a snapshot.
#[derive(Debug)]
pub(super) enum SnapshotWaiter<W> {
    Client(W),
    /// The generation itself, which is to end.
    Drain,
    /// Partitions that are to have other owners behind it.
    Migration,
}

pub(super) type Scheduler<W> = SnapshotScheduler<SnapshotWaiter<W>>;
pub(super) type SchedulerEffect<W> = SnapshotEffect<SnapshotWaiter<W>>;

/// What the driver itself does.
#[derive(Debug)]
pub(super) enum Order {
    /// Has the machine begin a snapshot.
    Begin,
    /// Has workers say again what they have written.
    ResendParts,
    /// The snapshot that the end of the generation waits for was taken, or cannot be.
    EndDrain,
    /// The snapshot that a migration wanted was taken, or cannot be: the machine knows, or another one is to be wanted.
    AwaitNoSnapshot,
    /// The snapshot that a migration wanted is there already: owners may change, if it is of these partitions.
    Migrate,
    /// Gives a worker up.
    Expel(WorkerId, String),
}

/// The driver's effect, or its order.
pub(super) fn effect<W, R>(effect: SchedulerEffect<W>) -> Result<Effect<W, R>, Order> {
    Ok(match effect {
        SnapshotEffect::Begin => return Err(Order::Begin),
        SnapshotEffect::ResendParts => return Err(Order::ResendParts),
        SnapshotEffect::Expel(worker, why) => return Err(Order::Expel(worker, why)),
        SnapshotEffect::Answer(SnapshotWaiter::Drain, _) | SnapshotEffect::IsNewest(SnapshotWaiter::Drain, _) => {
            return Err(Order::EndDrain);
        }
        SnapshotEffect::Answer(SnapshotWaiter::Migration, _) => return Err(Order::AwaitNoSnapshot),
        SnapshotEffect::IsNewest(SnapshotWaiter::Migration, _) if planted(Bug::IdleNotMigrated) => {
            return Err(Order::AwaitNoSnapshot);
        }
        SnapshotEffect::IsNewest(SnapshotWaiter::Migration, _) => return Err(Order::Migrate),
        SnapshotEffect::IsNewest(SnapshotWaiter::Client(waiter), newest) => {
            Effect::SnapshotAnswer { waiter, result: newest.ok_or(NoSnapshot::NothingHappened) }
        }
        SnapshotEffect::Answer(SnapshotWaiter::Client(waiter), result) => Effect::SnapshotAnswer { waiter, result },
        SnapshotEffect::Put(draft) => Effect::PutManifest(draft),
        SnapshotEffect::Maintain => Effect::MaintainSnapshots,
        SnapshotEffect::CutMaintenanceShort => Effect::CutMaintenanceShort,
        SnapshotEffect::TrimLog(position) => Effect::TrimLog(position),
        SnapshotEffect::Taken(summary) => Effect::SnapshotTaken(summary),
        SnapshotEffect::Diagnostic(diagnostic) => Effect::Diagnostic(diagnostic),
        SnapshotEffect::Halt(why) => Effect::Halt(why),
    })
}

impl<W, R> CoordinatorDriver<W, R> {
    pub(super) fn schedule_snapshots(&mut self, step: &mut Step<'_, W, R>) {
        let (Some(leader), Some(settings)) = (self.leader.as_deref_mut(), &self.config.snapshots) else { return };
        leader.schedule_snapshots(settings.schedule, self.last_snapshot.clone(), step.time());
        step.push(Effect::BeginSnapshots(leader.generation()));
    }

    pub(super) fn take_snapshot(&mut self, waiter: W, step: &mut Step<'_, W, R>) {
        let why = match &self.leader {
            Some(leader) if leader.takes_snapshots() => {
                let waiter = SnapshotWaiter::Client(waiter);
                return self.snapshots(step, |scheduler, now, effects| scheduler.want(waiter, now, effects));
            }
            _ if self.config.snapshots.is_some() => NoSnapshot::NotServing,
            _ => NoSnapshot::Off,
        };
        step.push(Effect::SnapshotAnswer { waiter, result: Err(why) });
    }

    /// Steps the scheduler of the generation under way, if it has one, and does what that says.
    pub(super) fn snapshots(
        &mut self,
        step: &mut Step<'_, W, R>,
        run: impl FnOnce(&mut Scheduler<W>, Instant, &mut Vec<SchedulerEffect<W>>),
    ) {
        let Some(leader) = self.leader.as_deref_mut() else { return };
        for effect in leader.step_snapshots(step.time(), run) {
            match self::effect(effect) {
                Err(order) => self.carry_out(order, step),
                Ok(Effect::SnapshotAnswer { waiter, result }) => step.push(Effect::SnapshotAnswer { waiter, result }),
                // An order before may have ended the generation.
                Ok(_) if self.leader.is_none() => {}
                Ok(effect) => {
                    if let Effect::SnapshotTaken(summary) = &effect {
                        self.last_snapshot = Some(summary.clone());
                    }
                    step.push(effect);
                }
            }
        }
    }

    fn carry_out(&mut self, order: Order, step: &mut Step<'_, W, R>) {
        // An order before may have ended the generation.
        let Some(leader) = self.leader.as_deref_mut() else { return };
        let generation = leader.generation();
        match order {
            Order::Begin => self.machine(Input::Snapshot, step),
            Order::ResendParts => {
                for node in leader.nodes() {
                    step.control(node, Envelope::ResendPart { generation });
                }
            }
            Order::AwaitNoSnapshot => leader.snapshot_to_migrate_ended(),
            Order::Migrate => {
                leader.snapshot_to_migrate_ended();
                // What is here was dealt out anew and is in no snapshot: there is one to be cut behind an epoch.
                let whole = self.leader.as_deref().is_some_and(LeaderState::is_in_snapshot);
                self.machine(if whole { Input::Place } else { Input::LogPlacement }, step);
            }
            Order::EndDrain => {
                leader.drain_done();
                self.membership(membership::Input::Drained(generation), step);
            }
            Order::Expel(worker, why) => {
                let node = leader.node(worker);
                self.misbehaved(node, &why, step);
            }
        }
    }
}
