//! Steps of a worker's machine: what it is told, and what it says is to be done.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

use styx_protocol::machine::EpochSummary;
use styx_protocol::machine::worker::{Action, ClientResponse, Input};
use styx_protocol::membership::Doubt;
use styx_protocol::message::{Mail, Message, Node};

use super::serving::{Asker, Doubtful, Looker};
use super::{Driver, SILENT};
use crate::cluster::COORDINATOR;
use crate::guest_logs::show;
use crate::handle::{self, Failure};
use crate::stats::Phases;
use styx_driver::wire::{Bytes, Reply, Response};
use styx_transport::NodeId;

/// Parts of graphs that wait for others to travel with.
const MAIL_MAX: usize = 512;

impl Driver {
    pub(super) fn step(&mut self, input: Input<Asker>) {
        let mut next = Some(input);
        // What follows, if a step has several consequences at once.
        let mut inputs = VecDeque::new();
        let mut actions = std::mem::take(&mut self.actions);
        while let Some(input) = next {
            let Some(serving) = self.serving.as_mut() else { break };
            let phases = &self.stats.phases;
            let phase = match &input {
                Input::Message { message: Message::Begin(_), .. } => Some(&phases.cut),
                Input::Message { message: Message::Settle { .. }, .. } => Some(&phases.validate),
                Input::Message { message: Message::Decide { .. }, .. } => Some(&phases.commit),
                Input::Executed(_) => {
                    Phases::add(&phases.execute, self.batch_out);
                    Some(&phases.execute)
                }
                Input::FellBack(_) => {
                    Phases::add(&phases.fallback, self.batch_out);
                    Some(&phases.commit)
                }
                _ => None,
            };
            let begun = phase.map(|_| Instant::now());
            serving.machine.step(input, &mut actions);
            if let (Some(phase), Some(begun)) = (phase, begun) {
                Phases::add(phase, begun);
            }
            for action in actions.drain(..) {
                inputs.extend(self.perform(action));
            }
            next = inputs.pop_front();
        }
        self.actions = actions;
    }

    /// Does what the machine says; what was done at once is its next input.
    pub(super) fn perform(&mut self, action: Action<Asker>) -> Option<Input<Asker>> {
        match action {
            Action::Send { to, message } => {
                let serving = self.serving.as_ref()?;
                let node = match to {
                    Node::Coordinator => COORDINATOR,
                    Node::Worker(worker) => serving.invite.members[usize::from(worker.0)].node,
                };
                match message {
                    Message::Graphs(mail) => self.post(node, mail),
                    message => self.send(node, &message),
                }
                None
            }
            Action::Execute(batch) => {
                self.batch_out = Instant::now();
                self.dispatcher.execute(batch)
            }
            Action::RunTasks(pieces) => self.dispatcher.advance(pieces),
            Action::FallBack(batch) => {
                self.batch_out = Instant::now();
                self.dispatcher.fall_back(batch)
            }
            Action::Respond(ClientResponse::Reply { waiter: Asker::Local(waiter), reply }) => {
                waiter.answer(handle::Answer::Reply(reply));
                None
            }
            Action::Respond(ClientResponse::Reply { waiter: Asker::Remote(node, ticket), reply }) => {
                let outcome = reply.outcome.map(Bytes);
                let reply = Reply { id: reply.id, tid: reply.tid, epoch: reply.epoch, outcome };
                self.serving.as_mut()?.tell(Looker::Remote(node, ticket), Response::Reply(reply));
                None
            }
            Action::Respond(ClientResponse::Accepted { waiter, id }) => {
                self.answer(waiter, Response::Accepted(id), || handle::Answer::Accepted(id));
                None
            }
            Action::Respond(ClientResponse::Unknown { waiter }) => {
                self.serving.as_mut()?.doubts.push_back((Doubt::default(), Doubtful::Unknown(waiter)));
                None
            }
            Action::Respond(ClientResponse::Returned { waiter }) => {
                self.answer(waiter, Response::WrongGeneration, || handle::Answer::Failed(Failure::Unavailable));
                None
            }
            Action::Logs { tid, lines } => {
                let catalog = self.serving.as_ref()?.machine.catalog().clone();
                lines.iter().for_each(|line| show(&catalog, tid, line));
                None
            }
            Action::Finished(summary) => {
                self.finished(&summary);
                None
            }
            Action::WorkerSnapshot(part) => {
                let serving = self.serving.as_mut()?;
                serving.written = None;
                serving.collector.as_ref()?.part(part);
                None
            }
            Action::Changes { changes, last } => {
                self.serving.as_ref()?.collector.as_ref()?.changes(changes, last);
                None
            }
        }
    }

    /// Keeps mail until the burst is over, unless there is much.
    fn post(&mut self, node: NodeId, mail: Mail) {
        let Some(serving) = self.serving.as_mut() else { return };
        let held = serving.mails.entry(node).or_insert_with(|| Mail {
            round: mail.round,
            fallback: mail.fallback,
            ..Mail::default()
        });
        let next = held.append(mail);
        if next.is_none() && held.len() < MAIL_MAX {
            return;
        }
        let full = match next {
            Some(next) => std::mem::replace(held, next),
            None => serving.mails.remove(&node).expect("just seen"),
        };
        self.send(node, &Message::Graphs(full));
    }

    pub(super) fn send(&mut self, node: NodeId, message: &Message) {
        if let Err(error) = self.network.send(node, message.encode()) {
            tracing::warn!(node = node.0, "a message cannot be sent: {error}");
            self.lost.insert(node, Instant::now() - SILENT);
        }
    }

    fn finished(&mut self, summary: &EpochSummary) {
        let Some(serving) = &self.serving else { return };
        if self.handle.catalog().version() != serving.machine.catalog().version() {
            self.handle.show_catalog(serving.machine.catalog().clone());
        }
        self.stats.finished(summary, serving.started.elapsed().as_micros() as u64);
        self.stats.entities.store(serving.machine.state().len() as u64, Ordering::Relaxed);
        self.stats.state_bytes.store(serving.machine.state().bytes(), Ordering::Relaxed);
    }
}
