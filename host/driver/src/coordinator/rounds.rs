//! Rounds: what the machine of the generation under way is told, and what it wants done.

use std::sync::Arc;

use styx_planted::{Bug, planted};
use styx_protocol::control::Control;
use styx_protocol::machine::coordinator::{Action, Input};
use styx_protocol::membership;
use styx_protocol::message::Node;

use super::CoordinatorDriver;
use super::io::Effect;
use super::leader::Next;
use super::step::Step;
use crate::diagnostic::Diagnostic;
use crate::wire::Envelope;

impl<W, R> CoordinatorDriver<W, R> {
    /// Replays what is left of the log, or cuts an epoch, if it is time.
    pub(super) fn proceed(&mut self, step: &mut Step<'_, W, R>) {
        let hurry = self.shutdown.has_begun();
        while let Some(leader) = self.leader.as_deref_mut() {
            match leader.next(&self.config, hurry, step.time()) {
                Next::Wait => return,
                Next::Read => return step.push(Effect::NextRecord),
                Next::Cut => {
                    let time = self.log_time.at(step.now, leader.log_time());
                    let input = leader.cut(step.time(), time);
                    self.machine(input, step);
                }
            }
        }
    }

    pub(super) fn go_live(&mut self, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref_mut() else { return };
        let (epoch, chain) = leader.go_live();
        let generation = leader.generation();
        let catalog = Arc::new(leader.catalog().clone());
        step.push(Effect::Recovered(epoch));
        let carried = Diagnostic::carried(leader.carried());
        step.log(Diagnostic::info(format!("live at epoch {epoch}, chain {chain}")).generation(generation));
        step.extend(carried.map(|carried| Effect::Diagnostic(carried.generation(generation))));
        self.machine(Input::Durable(epoch), step);
        step.push(Effect::PublishCatalog(catalog));
        self.restarted(step);
        self.membership(membership::Input::Live(generation), step);
        self.show_all(step);
        if !planted(Bug::SetAsideOnce) {
            self.set_aside(step);
        }
        self.sequence(step);
        self.schedule_snapshots(step);
    }

    pub(super) fn machine(&mut self, input: Input<W>, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref_mut() else { return };
        let mut actions = Vec::new();
        if let Some((stage, spent)) = leader.step(input, step.time(), &mut actions) {
            step.push(Effect::StageEnded { stage, spent });
        }
        // Whoever is told of its end finds it ended.
        self.review_migration(step);
        for action in actions {
            self.perform(action, step);
        }
    }

    fn perform(&mut self, action: Action<W>, step: &mut Step<'_, W, R>) {
        // An action before may have ended the generation.
        let Some(leader) = self.leader.as_deref_mut() else { return };
        match action {
            Action::Append(record) => {
                assert!(leader.is_live(), "a replay appends nothing");
                let catalog = (!record.controls.is_empty()).then(|| Arc::new(leader.catalog().clone()));
                let places = record.controls.iter().any(Control::is_placement);
                step.push(Effect::Append { generation: leader.generation(), record });
                if places {
                    // Who reads the log knows them now, whatever becomes of this generation.
                    self.remember_owners();
                }
                if let Some(catalog) = catalog {
                    self.review_suspects(&catalog);
                    step.push(Effect::PublishCatalog(catalog));
                    self.show_all(step);
                }
            }
            Action::Placed(placement) => self.placed(&placement, step),
            Action::Send { to, message } => step.push(Effect::Send { to: leader.node(to), message }),
            Action::Controlled { waiter, result } => {
                let version = leader.catalog().version();
                self.deployments.controlled(waiter, result, version, step.time());
                self.announce(step);
            }
            Action::Fault(fault) => {
                if let Node::Worker(worker) = fault.from {
                    let node = leader.node(worker);
                    self.misbehaved(node, &fault.to_string(), step);
                }
            }
            Action::Expel { worker, expected, found } => {
                let node = leader.node(worker);
                let why = format!(
                    "this worker has deployed {found:016x}, its coordinator {expected:016x}: restart it with an empty data directory"
                );
                step.log(Diagnostic::error(format!("expelled: {why}")).node(node));
                step.control(node, Envelope::Refused(why));
                self.membership(membership::Input::Lost(node), step);
            }
            Action::Snapshot(header) => {
                let position = leader.log_position();
                assert!(leader.takes_snapshots(), "nobody else asks for snapshots");
                leader.note_snapshot();
                self.snapshots(step, |scheduler, now, effects| scheduler.header(header, position, now, effects));
            }
            Action::Finished(summary) => {
                leader.round_ended();
                step.push(Effect::EpochEnded { summary, duration: leader.round_took(step.time()) });
            }
        }
    }
}
