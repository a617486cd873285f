//! Worker driver: says heartbeats, is a member of one generation after the other, and runs the protocol's
//! machine in each.
//!
//! | part | decides |
//! |---|---|
//! | `Heartbeat` | when a word to the coordinator is due and what it says; when a process that leaves may end |
//! | [`LeaderSearch`] | at which address the coordinator is looked for |
//! | `Membership` | what a message of the generation, a gateway's question or a client's request comes to |
//! | `Answers` | when what was read, or that nothing is known, may be told |
//! | `Components` | what has to be compiled before a deployment takes effect |
//!
//! Guests run beside it: heartbeats go out whatever is executed. What another worker sends that cannot be
//! read has that worker reported to the coordinator, which then begins a new generation; where it comes
//! from the coordinator, this worker begins a new life, with the same result. What anybody else sends is
//! dropped. All of it is counted.

mod answers;
mod busy;
mod components;
mod copying;
mod heartbeat;
mod io;
mod mailbox;
mod membership;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, btree_map};
use std::time::Duration;

use styx_planted::{Bug, planted};
use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::RemoteResponse;
use styx_protocol::deployment::Digest;
use styx_protocol::ids::{Generation, NodeId};
use styx_protocol::machine::Worker;
use styx_protocol::machine::worker::Input;
use styx_protocol::message::Message;

pub use io::{Asker, FRAME_BYTES, FormerMachine, RestoreFailure, WorkerConfig, WorkerEffect, WorkerEvent};

use self::components::Components;
use self::heartbeat::Heartbeat;
use self::membership::Membership;
use crate::COORDINATOR;
use crate::diagnostic::Diagnostic;
use crate::leader_search::{LeaderSearch, SearchEffect};
use crate::network::{NetworkEvent, Refusal};
use crate::suspicion::Suspects;
use crate::time::{Instant, Now};
use crate::wire::{Envelope, Invite, Response, TicketedResponse};

/// See the module. `L` names a client of this process, `R` somebody in it who waits for an admin query.
#[derive(Debug)]
pub struct WorkerDriver<L, R> {
    config: WorkerConfig,
    search: LeaderSearch,
    heartbeat: Heartbeat,
    components: Components,
    membership: Option<Box<Membership<L, R>>>,
    handover: Handover<L>,
    /// Gateways to which answers could not be sent, and since when. What waits for them already gets this time to leave:
    /// cut off at once, a gateway that asks for more than fits would ask for the same for ever.
    overfull: BTreeMap<NodeId, Instant>,
    /// Something could not be sent to the coordinator, perhaps that a component is wanted.
    unsent: bool,
    /// When components were asked for last: an answer may be lost with a connection of which only the coordinator knows
    /// that it broke.
    fetched: Instant,
    suspects: Suspects,
}

/// How long a gateway may take what waits for it before it is made to ask again for the rest.
const DRAIN: Duration = Duration::from_millis(500);

/// What lies between two memberships.
#[derive(Debug)]
struct Handover<L> {
    /// What was executed in the last one may still run.
    is_executing: bool,
    /// The invitation to the next one, which waits for that.
    invite: Option<Invite>,
    /// Messages of the next one, in order.
    postponed: Vec<(NodeId, Message)>,
    /// The machine of the last one.
    former: Option<FormerMachine<L>>,
}

type Effects<L, R> = Vec<WorkerEffect<L, R>>;

impl<L, R> WorkerDriver<L, R> {
    /// A worker that nobody has invited, and that dials the first of its coordinators.
    pub fn new(now: Now, mut config: WorkerConfig) -> Self {
        let suspects = Suspects::new(std::mem::take(&mut config.suspects));
        WorkerDriver {
            suspects,
            search: LeaderSearch::new(now.monotonic, config.coordinators.clone()),
            heartbeat: Heartbeat::new(now.monotonic, now.wall.0, config.build.clone()),
            components: Components::default(),
            membership: None,
            handover: Handover { is_executing: false, invite: None, postponed: Vec::new(), former: None },
            overfull: BTreeMap::new(),
            unsent: false,
            fetched: now.monotonic,
            config,
        }
    }

    /// When it wants to be stepped at the latest: at once, while a step of the machine is not at its end.
    pub fn wake(&self) -> Instant {
        if self.is_unfinished() { Instant(0) } else { self.heartbeat.wake() }
    }

    fn is_unfinished(&self) -> bool {
        self.machine().is_some_and(Worker::is_unfinished)
    }

    /// The generation that it is a member of.
    pub fn generation(&self) -> Option<Generation> {
        self.membership.as_ref().map(|membership| membership.generation())
    }

    /// The machine of the generation that it is a member of, to be looked at.
    pub fn machine(&self) -> Option<&Worker<Asker<L>>> {
        self.membership.as_ref().map(|membership| membership.machine())
    }

    /// What waits to be sequenced, compiled or told: nothing when all is quiet.
    pub fn under_way(&self) -> usize {
        self.handover.postponed.len() + self.membership.as_ref().map_or(0, |membership| membership.under_way())
    }

    /// Takes one event; pushes what is to be done.
    ///
    /// # Panics
    /// When an invariant of this process is broken.
    pub fn step(&mut self, now: Now, event: WorkerEvent<L, R>, effects: &mut Effects<L, R>) {
        self.say_hello(now.monotonic, effects);
        let drained = self.overfull.extract_if(.., |_, since| now.monotonic.since(*since) >= DRAIN);
        effects.extend(drained.map(|(gateway, _)| WorkerEffect::Disconnect(gateway)));
        match event {
            WorkerEvent::Client(message) => {
                if let Some(membership) = &mut self.membership {
                    membership.client(now.monotonic, message, effects);
                }
            }
            WorkerEvent::Network(event) => self.network(now, event, effects),
            WorkerEvent::Unsent { to, why } => {
                effects.push(WorkerEffect::Diagnostic(
                    Diagnostic::warn(format!("a message cannot be sent: {why}")).node(to),
                ));
                self.lose(now, to, effects);
            }
            WorkerEvent::ControlUnsent { to, why } => {
                // The coordinator is told again. A gateway asks again on its next connection what it may.
                if to == COORDINATOR {
                    self.unsent = true;
                } else if let btree_map::Entry::Vacant(since) = self.overfull.entry(to) {
                    since.insert(now.monotonic);
                    let diagnostic =
                        Diagnostic::warn(format!("answers are dropped, it must ask again: {why}")).node(to);
                    effects.push(WorkerEffect::Diagnostic(diagnostic));
                }
            }
            WorkerEvent::Executed(executed) => self.step_machine(now, Input::Executed(executed), effects),
            WorkerEvent::TaskProgress(progress) => self.step_machine(now, Input::TaskProgress(progress), effects),
            WorkerEvent::FellBack(outcomes) => self.step_machine(now, Input::FellBack(outcomes), effects),
            WorkerEvent::LongRead(generation, run, operation) => {
                if self.generation() == Some(generation) {
                    self.step_machine(now, Input::LongRead { run, operation }, effects);
                } else {
                    let over = Abort::new(Code::Aborted, "the generation is over");
                    effects.push(WorkerEffect::AnswerLong(generation, run, RemoteResponse::Failed(over)));
                }
            }
            WorkerEvent::LongEnded(generation, run, execution) => {
                if self.generation() == Some(generation) {
                    self.step_machine(now, Input::LongEnded { run, execution }, effects);
                }
            }
            WorkerEvent::ExecutionForgotten => self.execution_forgotten(now, effects),
            WorkerEvent::ComponentAbsent(digest) => {
                self.components.fetch(digest);
                self.fetched = now.monotonic;
                fetch(digest, effects);
            }
            WorkerEvent::ComponentPrepared(digest, result) => self.prepared(now, digest, result, effects),
            WorkerEvent::Restored { generation, result } => {
                if self.generation() == Some(generation) {
                    self.restored(generation, result, effects);
                }
            }
            WorkerEvent::HandOver(generation) => {
                if self.generation() == Some(generation) {
                    self.step_machine(now, Input::HandOver, effects);
                }
            }
            WorkerEvent::PartWritten(generation, part) => {
                if let Some(membership) = self.member_of(generation) {
                    membership.part_written(*part, effects);
                }
            }
            WorkerEvent::Leave => {
                effects.push(WorkerEffect::Diagnostic(Diagnostic::info("leaves the cluster")));
                self.heartbeat.leave(now.monotonic);
                self.say_hello(now.monotonic, effects);
            }
            WorkerEvent::Settled => self.settle(now, effects),
            WorkerEvent::Tick => {
                let mut found = Vec::new();
                self.search.review(now.monotonic, &mut found);
                effects.extend(found.into_iter().map(WorkerEffect::from));
                self.settle(now, effects);
            }
        }
    }

    /// Sends what has gathered, and ends if it is time to.
    fn settle(&mut self, now: Now, effects: &mut Effects<L, R>) {
        if self.is_unfinished() {
            self.step_machine(now, Input::Continue, effects);
            self.give_up_faulty(now, effects);
        }
        if let Some(membership) = &mut self.membership {
            membership.flush(effects);
            if membership.awaits_beat(now.monotonic) {
                self.heartbeat.hurry();
            }
        }
        if self.heartbeat.may_end(now.monotonic) {
            self.leave(now, effects);
            effects.push(WorkerEffect::End);
        }
    }

    /// Forgets suspects that are in quarantine by now.
    fn review_suspects(&mut self, effects: &mut Effects<L, R>) {
        let Some(live) = self.membership.as_ref().filter(|membership| membership.is_live()) else { return };
        let (machine, (ended, _)) = (live.machine(), live.machine().position());
        let epoch = if machine.is_idle() { ended } else { ended.next() };
        let left = self.suspects.review(machine.catalog(), epoch, live.durable());
        effects.extend(left.map(WorkerEffect::KeepSuspects));
    }

    fn say_hello(&mut self, now: Instant, effects: &mut Effects<L, R>) {
        if !self.suspects.all().is_empty() {
            self.review_suspects(effects);
        }
        let nobody = BTreeMap::new();
        let workers = self.membership.as_ref().map_or(&nobody, |membership| membership.workers());
        if let Some(hello) = self.heartbeat.hello(now, workers)
            && !(planted(Bug::SilentWhileRestoring)
                && self.membership.as_ref().is_some_and(|membership| membership.is_beginning()))
        {
            let copied = self.membership.as_ref().and_then(|membership| membership.machine().copying());
            let holds = self.membership.as_mut().and_then(|membership| membership.holds(now, self.config.state_max));
            let (address, suspects) = (self.config.address.clone(), self.suspects.all().to_vec());
            let envelope = Envelope::Hello { hello, address, suspects, copied, holds };
            effects.push(WorkerEffect::SendControl { to: COORDINATOR, envelope });
            if let Some(membership) = &mut self.membership {
                membership.copy_on(now, effects);
            }
            let again = now.since(self.fetched) >= FETCH_AGAIN && !planted(Bug::ComponentAskedOnce);
            if std::mem::take(&mut self.unsent) || again {
                self.fetched = now;
                self.components.fetching().for_each(|digest| fetch(digest, effects));
            }
        }
    }

    fn member_of(&mut self, generation: Generation) -> Option<&mut Membership<L, R>> {
        self.membership.as_deref_mut().filter(|membership| membership.generation() == generation)
    }

    fn step_machine(&mut self, now: Now, input: Input<Asker<L>>, effects: &mut Effects<L, R>) {
        if let Some(membership) = &mut self.membership {
            membership.step(now.monotonic, input, effects);
        }
    }

    fn network(&mut self, now: Now, event: NetworkEvent, effects: &mut Effects<L, R>) {
        let mut found = Vec::new();
        self.search.on_event(now.monotonic, &event, &mut found);
        effects.extend(found.into_iter().map(WorkerEffect::from));
        let mut say = |diagnostic: Diagnostic| effects.push(WorkerEffect::Diagnostic(diagnostic));
        match event {
            NetworkEvent::Message { from, generation, message } => {
                self.message(now, from, generation, message, effects);
            }
            NetworkEvent::Control { from, message: Ok(envelope) } => self.envelope(now, from, *envelope, effects),
            NetworkEvent::Control { from, message: Err(error) } => {
                say(Diagnostic::warn(format!("a message that cannot be read was dropped: {error}")).node(from));
                effects.push(WorkerEffect::PeerError);
            }
            NetworkEvent::Connected { peer: node, .. } => {
                self.heartbeat.connected(node);
                if node == COORDINATOR && !planted(Bug::ComponentAskedOnce) {
                    // The one that was asked before may have been another process.
                    self.components.fetching().for_each(|digest| fetch(digest, effects));
                }
                if node == COORDINATOR
                    && let Some(membership) = &self.membership
                {
                    membership.report(effects);
                }
            }
            NetworkEvent::Lost { peer, why } => {
                say(Diagnostic::info(format!("connection lost: {why}")).node(peer));
                self.heartbeat.lost(now.monotonic, peer);
            }
            NetworkEvent::Broken { peer, generation, why } => {
                say(Diagnostic::warn(format!("messages are lost: {why}")).node(peer).generation(generation));
                self.heartbeat.broken(peer);
            }
            NetworkEvent::Unreached { peer, why, .. } => say(Diagnostic::debug(why).node(peer)),
            NetworkEvent::Refused { peer: COORDINATOR, refusal: Refusal::Build, message, .. } => {
                effects.push(WorkerEffect::Refused(message));
            }
            NetworkEvent::Refused { refusal: Refusal::Standby, .. } => {}
            NetworkEvent::Refused { peer, reason, message, .. } => {
                say(Diagnostic::error(format!("refused ({reason}): {message}")).node(peer));
            }
        }
    }

    /// Takes a message of a generation; those of one that is over are dropped.
    fn message(
        &mut self,
        now: Now,
        from: NodeId,
        generation: Generation,
        message: Result<Box<Message>, String>,
        effects: &mut Effects<L, R>,
    ) {
        let next = self.handover.invite.as_ref().map(|invite| invite.generation);
        let is_other = self.generation() != Some(generation) && next != Some(generation);
        if is_other && !(planted(Bug::OldGenerationDelivered) && self.generation() > Some(generation)) {
            return;
        }
        let message = match message {
            Ok(message) => *message,
            Err(why) => return self.unreadable(now, from, &why, effects),
        };
        if next == Some(generation) {
            return self.handover.postponed.push((from, message));
        }
        let Some(membership) = &mut self.membership else { return };
        let Some(sender) = membership.sender(from) else {
            let message = "a node that is no member sent a message, which was dropped";
            effects.push(WorkerEffect::Diagnostic(Diagnostic::warn(message).node(from).generation(generation)));
            return effects.push(WorkerEffect::PeerError);
        };
        let wanted = membership.on_message(now.monotonic, sender, message, &self.components, effects);
        self.prepare(wanted, effects);
        self.give_up_faulty(now, effects);
    }

    /// A peer sent in the generation what cannot be read: what it said is lost to this worker, so that only a
    /// new generation helps.
    fn unreadable(&mut self, now: Now, from: NodeId, why: &str, effects: &mut Effects<L, R>) {
        self.give_up(now, from, &format!("sent a message that cannot be read, and is given up: {why}"), effects);
    }

    /// A peer sent what can be read and not applied: as bad as what cannot be read.
    fn give_up_faulty(&mut self, now: Now, effects: &mut Effects<L, R>) {
        if let Some((from, fault)) = self.membership.as_mut().and_then(|membership| membership.take_fault()) {
            self.give_up(now, from, &fault.to_string(), effects);
        }
    }

    fn give_up(&mut self, now: Now, from: NodeId, message: &str, effects: &mut Effects<L, R>) {
        effects.push(WorkerEffect::PeerError);
        effects.push(WorkerEffect::Diagnostic(Diagnostic::error(message).node(from)));
        self.lose(now, from, effects);
    }

    /// Something that a node said, or was to be told, is lost: only a new generation helps.
    fn lose(&mut self, now: Now, node: NodeId, effects: &mut Effects<L, R>) {
        if node == COORDINATOR {
            self.leave(now, effects);
            self.heartbeat.begin_life(now.wall.0);
        } else {
            self.heartbeat.broken(node);
        }
    }

    fn envelope(&mut self, now: Now, from: NodeId, envelope: Envelope, effects: &mut Effects<L, R>) {
        match envelope {
            Envelope::Beat(beat) if from == COORDINATOR => {
                if self.heartbeat.beat(beat) {
                    self.leave(now, effects);
                }
                if let Some(membership) = &mut self.membership {
                    membership.beat(beat, effects);
                }
            }
            Envelope::Refused(why) if from == COORDINATOR => effects.push(WorkerEffect::Refused(why)),
            Envelope::Released if from == COORDINATOR => self.heartbeat.released(now.monotonic),
            Envelope::Invite(invite) if from == COORDINATOR && invite.is_sound() => {
                if self.heartbeat.invited(invite.generation, invite.life) {
                    self.leave(now, effects);
                    self.handover.invite = Some(invite);
                    self.join(now, effects);
                }
            }
            Envelope::CopyPace { generation, version, pace } if from == COORDINATOR => {
                if let Some(membership) = self.member_of(generation) {
                    membership.copy_at(now.monotonic, version, pace, effects);
                }
            }
            Envelope::ResendPart { generation } => {
                if let Some(membership) = self.member_of(generation) {
                    membership.resend_part(effects);
                }
            }
            Envelope::PrepareComponent(digest) => {
                if self.components.is_prepared(digest) {
                    self.prepared(now, digest, Ok(()), effects);
                } else {
                    self.prepare(vec![digest], effects);
                }
            }
            Envelope::Component(digest, Some(bytes)) => effects.push(WorkerEffect::KeepComponent(digest, bytes)),
            Envelope::Component(digest, None) => {
                let why = format!("the coordinator has no component {digest}");
                self.prepared(now, digest, Err(why), effects);
            }
            Envelope::Queries(queries) => match &mut self.membership {
                Some(membership) => {
                    queries.into_iter().for_each(|query| membership.query(now.monotonic, from, query, effects));
                }
                None => {
                    let moved = |ticket| TicketedResponse { ticket, response: Response::WrongGeneration };
                    let responses = queries.into_iter().map(|query| moved(query.ticket)).collect();
                    let envelope = Envelope::Responses(responses);
                    effects.push(WorkerEffect::SendControl { to: from, envelope });
                }
            },
            other => {
                let message = format!("a message that a worker cannot follow was dropped: {other:?}");
                effects.push(WorkerEffect::Diagnostic(Diagnostic::warn(message).node(from)));
                effects.push(WorkerEffect::PeerError);
            }
        }
    }

    /// Has components compiled that are not on their way.
    fn prepare(&mut self, wanted: Vec<Digest>, effects: &mut Effects<L, R>) {
        let news = wanted.into_iter().filter(|digest| self.components.begin(*digest));
        effects.extend(news.map(WorkerEffect::PrepareComponent));
    }

    fn prepared(&mut self, now: Now, digest: Digest, result: Result<(), String>, effects: &mut Effects<L, R>) {
        self.components.end(digest, result.is_ok());
        let envelope = Envelope::ComponentPrepared(digest, result.clone());
        effects.push(WorkerEffect::SendControl { to: COORDINATOR, envelope });
        let Some(membership) = self.membership.as_mut().filter(|membership| membership.misses(digest)) else { return };
        if let Err(error) = result {
            // It runs on others, or ran once: this worker is not fit.
            return effects.push(WorkerEffect::Halt(format!("a deployed component cannot be loaded: {error}")));
        }
        let wanted = membership.prepared(now.monotonic, digest, &self.components, effects);
        self.prepare(wanted, effects);
        self.give_up_faulty(now, effects);
    }

    /// Drops everything of the generation.
    fn leave(&mut self, now: Now, effects: &mut Effects<L, R>) {
        (self.handover.invite, self.handover.postponed) = (None, Vec::new());
        let Some(membership) = self.membership.take() else { return };
        let generation = membership.generation();
        if let Some(machine) = membership.end(now.monotonic, effects) {
            self.handover.former = Some(FormerMachine(machine));
        }
        effects.push(WorkerEffect::Diagnostic(Diagnostic::info("the generation is over").generation(generation)));
        effects.push(WorkerEffect::ForgetExecution);
        self.handover.is_executing = true;
    }

    fn execution_forgotten(&mut self, now: Now, effects: &mut Effects<L, R>) {
        self.handover.is_executing = false;
        self.join(now, effects);
    }

    /// Becomes a member of the generation that it was invited to, once nothing of the last one runs.
    fn join(&mut self, now: Now, effects: &mut Effects<L, R>) {
        if self.handover.is_executing {
            return;
        }
        let Some(invite) = self.handover.invite.take() else { return };
        let (generation, place) = (invite.generation, invite.store.clone());
        let message = format!("joined as worker {} of {}", invite.me.0, invite.members.len());
        effects.push(WorkerEffect::Diagnostic(Diagnostic::info(message).generation(generation)));
        effects.push(WorkerEffect::SetGeneration(generation));
        self.heartbeat.restart();
        let others = invite.members.iter().enumerate().filter(|(worker, _)| *worker != usize::from(invite.me.0));
        effects.extend(
            others.map(|(_, member)| WorkerEffect::Connect { node: member.node, address: member.address.clone() }),
        );
        let mut membership = Box::new(Membership::new(now.monotonic, &self.config, invite));
        let former = self.handover.former.take();
        match place {
            Some(place) => {
                let (view, layout) = (membership.view().clone(), membership.layout());
                effects.push(WorkerEffect::Restore { generation, place, view, layout, former });
            }
            None => {
                effects.extend(former.map(WorkerEffect::Discard));
                membership.join(effects);
            }
        }
        self.membership = Some(membership);
        self.suspects.begin_again();
        for (from, message) in std::mem::take(&mut self.handover.postponed) {
            self.message(now, from, generation, Ok(Box::new(message)), effects);
        }
    }

    fn restored(
        &mut self,
        generation: Generation,
        result: Result<Option<Box<styx_protocol::snapshot::RestoredState>>, RestoreFailure>,
        effects: &mut Effects<L, R>,
    ) {
        let Some(membership) = &mut self.membership else { return };
        match result {
            Ok(restored) => {
                if let Some(restored) = &restored {
                    let message = format!("a snapshot was restored, that of epoch {}", restored.frame.epoch);
                    effects.push(WorkerEffect::Diagnostic(Diagnostic::info(message).generation(generation)));
                }
                let missing = membership.restored(restored, &self.components, effects);
                if missing.is_empty() {
                    membership.join(effects);
                }
                self.prepare(missing, effects);
            }
            Err(failure) => {
                let message = format!("this worker cannot begin: {}", failure.why);
                let diagnostic = Diagnostic::error(message).code("SNAPSHOT_STORE").generation(generation);
                effects.push(WorkerEffect::Diagnostic(diagnostic));
                membership.fail(failure, effects);
            }
        }
    }
}

/// After so long without an answer a component is asked for again.
const FETCH_AGAIN: Duration = Duration::from_secs(2);

fn fetch<L, R>(digest: Digest, effects: &mut Effects<L, R>) {
    effects.push(WorkerEffect::SendControl { to: COORDINATOR, envelope: Envelope::FetchComponent(digest) });
}

impl<L, R> From<SearchEffect> for WorkerEffect<L, R> {
    fn from(effect: SearchEffect) -> Self {
        match effect {
            SearchEffect::Redirect(address) => WorkerEffect::Redirect(address),
            SearchEffect::Diagnostic(diagnostic) => WorkerEffect::Diagnostic(diagnostic),
        }
    }
}
