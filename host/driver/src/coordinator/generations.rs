//! Generations: what the membership wants done, from the beginning of one to its end.

use styx_planted::{Bug, planted};
use styx_protocol::ids::{Generation, LogPosition, NodeId};
use styx_protocol::membership::{self, Seated};

use super::CoordinatorDriver;
use super::io::{Effect, SnapshotFound};
use super::leader::{Drained, LeaderState};
use super::restarting::Restarting;
use super::snapshots::SnapshotWaiter;
use super::step::Step;
use super::workers::Actions;
use super::{recovery, snapshots};
use crate::client::{Answer, Failure};
use crate::diagnostic::Diagnostic;
use crate::snapshots::StoreFailure;
use crate::wire::Envelope;

impl<W, R> CoordinatorDriver<W, R> {
    pub(super) fn membership(&mut self, input: membership::Input<NodeId>, step: &mut Step<'_, W, R>) {
        let actions = self.workers.step(step.time(), input);
        self.perform_membership(actions, step);
    }

    pub(super) fn perform_membership(&mut self, actions: Actions, step: &mut Step<'_, W, R>) {
        for action in actions {
            match action {
                membership::Action::Beat(to, beat) => {
                    step.control(to, Envelope::Beat(beat));
                    self.repeat_pace(to, step);
                }
                membership::Action::Drain(generation) => self.drain(generation, step),
                membership::Action::Release(to) => step.control(to, Envelope::Released),
                membership::Action::Refuse(to, why) => {
                    step.log(Diagnostic::error(format!("refused: {why}")).node(to));
                    step.control(to, Envelope::Refused(why));
                }
                membership::Action::Persist(generation) => {
                    self.close(step);
                    step.push(Effect::Raise(generation));
                }
                membership::Action::Begin { generation, members } => self.begin(generation, members, step),
                membership::Action::Invite(seated) => self.invite(&seated, step),
                membership::Action::Suspend => self.close(step),
                membership::Action::Depose(generation) => step.push(Effect::Halt(format!(
                    "another coordinator has begun generation {generation}: two processes coordinate one cluster"
                ))),
            }
        }
    }

    pub(super) fn on_raised(&mut self, generation: Generation, position: LogPosition, step: &mut Step<'_, W, R>) {
        self.recovery.raised(position);
        match self.config.snapshots {
            Some(_) => self.find_snapshot(generation, step),
            None => self.membership(membership::Input::Persisted(generation), step),
        }
    }

    pub(super) fn find_snapshot(&mut self, generation: Generation, step: &mut Step<'_, W, R>) {
        step.push(Effect::FindSnapshot { generation, before: self.recovery.usable_before() });
    }

    pub(super) fn on_snapshot_found(
        &mut self,
        generation: Generation,
        found: Result<Option<SnapshotFound>, StoreFailure>,
        step: &mut Step<'_, W, R>,
    ) {
        match self.recovery.found(generation, found, self.config.timing.find_again, step.time()) {
            Ok(true) => self.membership(membership::Input::Persisted(generation), step),
            Ok(false) => step.push(Effect::Halt(
                "the newest snapshot goes on behind the end of the log: they do not belong together".to_owned(),
            )),
            Err(recovery::NotFound::Later(why)) => {
                let message = format!("the store of snapshots is awaited: {why}");
                step.log(Diagnostic::error(message).code("SNAPSHOT_STORE"));
            }
            Err(recovery::NotFound::Never(why)) => {
                step.push(Effect::Halt(format!("no snapshot can be read: {why}")));
            }
        }
    }

    fn begin(&mut self, generation: Generation, members: Vec<Seated<NodeId>>, step: &mut Step<'_, W, R>) {
        let message = format!("a generation begins with {} workers", members.len());
        step.log(Diagnostic::info(message).generation(generation));
        step.push(Effect::SetGeneration(generation));
        // Workers dial; a process that was replaced must not take them away from the next one.
        if !self.leadership.is_shared() {
            for member in &members {
                if let Some(address) = self.workers.address(member.place) {
                    step.push(Effect::Connect { node: member.place, address: address.to_owned() });
                }
            }
        }
        let (found, position) = self.recovery.begin();
        let restarting = self.restarting.as_ref().filter(|restarting| restarting.is_to_begin());
        if let Some(restarting) = restarting {
            self.layout = restarting.layout();
        }
        let wanted = restarting.map(Restarting::seating);
        let (last, which) = (wanted.or(self.seating.as_ref()), (generation, self.layout));
        let leader = LeaderState::new(&self.config, which, members.clone(), last, found, position, step.time());
        self.joining.begin(&leader.nodes());
        self.leader = Some(Box::new(leader));
        self.remember_owners();
        members.iter().for_each(|member| self.invite(member, step));
        self.show_all(step);
        self.deployments.restart();
        self.prepare(step);
    }

    fn invite(&mut self, seated: &Seated<NodeId>, step: &mut Step<'_, W, R>) {
        if let Some(invite) = self.views().invite(seated) {
            step.control(seated.place, Envelope::Invite(invite));
        }
    }

    /// The generation is to end, without haste: no gateway shall send it anything more.
    pub(super) fn drain(&mut self, generation: Generation, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leads(generation) else { return };
        let Some(input) = leader.drain() else { return };
        step.log(Diagnostic::info("the generation drains").generation(generation));
        self.machine(input, step);
        self.show_all(step);
    }

    pub(super) fn proceed_with_drain(&mut self, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref_mut() else { return };
        let generation = leader.generation();
        match leader.drained() {
            Drained::No => {}
            // The next generation shall not have to replay.
            Drained::Snapshot => {
                self.snapshots(step, |scheduler, now, effects| scheduler.want(SnapshotWaiter::Drain, now, effects));
            }
            Drained::Yes => self.membership(membership::Input::Drained(generation), step),
        }
    }

    /// The generation is over: nobody appends any more.
    fn close(&mut self, step: &mut Step<'_, W, R>) {
        let Some(mut leader) = self.leader.take() else { return };
        let generation = leader.generation();
        self.restarting.iter_mut().for_each(Restarting::generation_ended);
        for waiter in leader.abandon().into_iter().filter(|_| !planted(Bug::DeploymentForgotten)) {
            step.push(Effect::Answer(waiter, Answer::Failed(Failure::OutcomeUnknown)));
        }
        if leader.is_replaying() {
            step.push(Effect::StopReading);
        }
        if let Some(effects) = leader.close() {
            for effect in effects {
                if let Ok(effect) = snapshots::effect(effect) {
                    step.push(effect);
                }
            }
            // The store may be in the middle of something that takes time, and is waited for by nobody.
            step.push(Effect::EndSnapshots);
        }
        step.log(Diagnostic::info("the generation is over").generation(generation));
        self.review_migration(step);
        self.show_all(step);
    }
}
