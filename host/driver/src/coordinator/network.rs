//! What comes from other nodes.

use styx_protocol::ids::{Generation, NodeId};
use styx_protocol::machine::coordinator::Input;
use styx_protocol::membership::{self, Hello};
use styx_protocol::message::Message;

use super::CoordinatorDriver;
use super::io::Effect;
use super::step::Step;
use crate::diagnostic::Diagnostic;
use crate::network::NetworkEvent;
use crate::wire::Envelope;

impl<W, R> CoordinatorDriver<W, R> {
    pub(super) fn on_network(&mut self, event: NetworkEvent, step: &mut Step<'_, W, R>) {
        match event {
            NetworkEvent::Message { from, generation, message } => self.on_message(from, generation, message, step),
            NetworkEvent::Control { from, message: Ok(envelope) } => self.on_envelope(from, *envelope, step),
            NetworkEvent::Control { from, message: Err(why) } => self.dropped(from, &why.to_string(), step),
            NetworkEvent::Connected { peer, restarted } => {
                step.log(Diagnostic::debug("connected").node(peer));
                self.workers.connected(peer);
                if restarted {
                    // What it was told before may be lost.
                    for digest in self.deployments.missing(peer) {
                        step.control(peer, Envelope::PrepareComponent(digest));
                    }
                }
                self.route(step, |router, now, effects| router.connected(now, peer, restarted, effects));
            }
            NetworkEvent::Lost { peer, why } => {
                step.log(Diagnostic::info(format!("connection lost: {why}")).node(peer));
                self.workers.disconnected(peer, step.time());
            }
            NetworkEvent::Unreached { peer, gone, why } => {
                step.log(Diagnostic::debug(why.clone()).node(peer));
                if gone {
                    self.lost(peer, &why, step);
                }
            }
            NetworkEvent::Broken { peer, generation, why } => {
                let message = format!("messages are lost: {why}");
                step.log(Diagnostic::warn(message).node(peer).generation(generation));
                if self.leads(generation).is_some() {
                    self.membership(membership::Input::Lost(peer), step);
                }
            }
            NetworkEvent::Refused { peer, reason, message, .. } => {
                step.log(Diagnostic::error(format!("refused ({reason}): {message}")).node(peer));
            }
        }
    }

    fn on_message(
        &mut self,
        from: NodeId,
        generation: Generation,
        message: Result<Box<Message>, String>,
        step: &mut Step<'_, W, R>,
    ) {
        let Some(worker) = self.leads(generation).and_then(|leader| leader.worker(from)) else { return };
        match message {
            Ok(message) => self.machine(Input::Message { from: worker, message: *message }, step),
            Err(why) => self.misbehaved(from, &why, step),
        }
    }

    fn on_envelope(&mut self, from: NodeId, envelope: Envelope, step: &mut Step<'_, W, R>) {
        match envelope {
            Envelope::Hello { hello, address, suspects, copied, holds } => {
                if let Some(progress) = copied {
                    self.copied(from, hello.generation, progress, step);
                }
                if let Some(holdings) = holds {
                    self.holds(from, holdings, step);
                }
                self.suspected(from, suspects, step);
                self.candidate(from, &hello, step);
                let hello = Hello { leaving: self.may_leave(from, &hello, step), ..hello };
                let actions = self.workers.hello(step.time(), from, hello, address);
                self.perform_membership(actions, step);
            }
            Envelope::Joined { generation } => {
                let Some((position, after)) = self.leads(generation).and_then(|leader| leader.joined(from)) else {
                    return;
                };
                step.push(Effect::ReadLog { generation, from: position, after });
            }
            Envelope::RestoreFailed { generation, why, damaged } => {
                let Some(leader) = self.leads(generation) else { return };
                let found = leader.found().cloned();
                let message = format!("a worker cannot begin: {why}");
                step.log(Diagnostic::error(message).code("SNAPSHOT_DAMAGED").node(from));
                if let Some(found) = found.filter(|_| damaged) {
                    self.recovery.unusable(found.header.epoch);
                }
                self.membership(membership::Input::Lost(from), step);
            }
            Envelope::PartWritten { generation, part } => {
                let Some(leader) = self.leads(generation) else { return };
                let Some(worker) = leader.worker(from) else { return };
                if !leader.admits_part(worker, &part) {
                    return self.misbehaved(from, "it has written partitions that are not its own", step);
                }
                self.snapshots(step, |scheduler, now, effects| scheduler.part(worker, part, now, effects));
            }
            Envelope::FetchComponent(digest) => step.push(Effect::SendComponent { to: from, digest }),
            Envelope::ComponentPrepared(digest, result) => {
                match &result {
                    Ok(()) => self.joining.compiled(from, digest),
                    Err(why) => {
                        let message = format!("a worker cannot compile component {digest}: {why}");
                        step.log(Diagnostic::warn(message).node(from));
                    }
                }
                for (waiter, abort) in self.deployments.prepared(from, digest, result) {
                    step.controlled(Some(waiter), Err(abort));
                }
                self.sequence(step);
            }
            Envelope::Watch { known } => {
                self.gateways.watch(from, known, step.time());
                step.control(from, Envelope::View(self.views().view(known)));
                self.announce(step);
            }
            Envelope::Queries(queries) => step.control(from, Envelope::Responses(self.views().answer(queries))),
            Envelope::Responses(responses) => {
                self.route(step, |router, _, effects| router.responses(from, responses, effects));
            }
            // Whoever shows it to people has it.
            Envelope::Report(_) => {}
            Envelope::Beat(_)
            | Envelope::Refused(_)
            | Envelope::Released
            | Envelope::Invite(_)
            | Envelope::ResendPart { .. }
            | Envelope::CopyPace { .. }
            | Envelope::Component(..)
            | Envelope::PrepareComponent(_)
            | Envelope::View(_) => self.dropped(from, "it is not for a coordinator", step),
        }
    }

    /// A control message that cannot be read, or is not for a coordinator. What matters is said again.
    fn dropped(&mut self, peer: NodeId, why: &str, step: &mut Step<'_, W, R>) {
        step.push(Effect::PeerError);
        step.log(Diagnostic::warn(format!("a message was dropped: {why}")).node(peer));
    }

    /// A worker's word in its generation that cannot be read or applied: without it the generation cannot go on.
    pub(super) fn misbehaved(&mut self, worker: NodeId, why: &str, step: &mut Step<'_, W, R>) {
        step.push(Effect::PeerError);
        step.log(Diagnostic::error(format!("a worker is given up: {why}")).node(worker));
        self.membership(membership::Input::Lost(worker), step);
    }

    /// A worker need not be silent for long to be lost.
    pub(super) fn lost(&mut self, peer: NodeId, why: &str, step: &mut Step<'_, W, R>) {
        if self.leader.as_ref().is_some_and(|leader| leader.worker(peer).is_some()) {
            step.log(Diagnostic::warn(format!("a worker is gone: {why}")).node(peer));
            self.membership(membership::Input::Lost(peer), step);
        }
    }
}
