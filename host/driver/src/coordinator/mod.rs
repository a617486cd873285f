//! Coordinator driver: begins generations, replays the log through their workers, cuts epochs, has deployments made
//! ready before they are sequenced, takes snapshots and trims the log behind them.
//!
//! | part | decides |
//! |---|---|
//! | [`Leadership`] | whether this process may act now |
//! | `Workers` | who can be a member, and who is lost |
//! | `Recovery` | what the next generation begins with |
//! | `LeaderState` | how far the generation under way is, and when an epoch is cut |
//! | `Deployments`, `Gateways` | when a deployment is sequenced, and when its waiter is told |
//! | [`Router`] | whom this process's own endpoints ask |
//! | [`SnapshotScheduler`] | when a snapshot is taken, and how far the log is trimmed |
//!
//! What a worker sends that cannot be read or applied ends its membership, and with that the generation; what
//! anybody else sends is dropped. Both are counted. A broken invariant of this process is an assertion.

mod config;
mod deployments;
mod gateways;
mod io;
mod leader;
mod recovery;
#[cfg(test)]
mod tests;
mod workers;

use std::collections::VecDeque;
use std::sync::Arc;

pub use config::{CoordinatorConfig, SnapshotSettings, Timing};
pub use io::{Effect, Event, SnapshotFound};

use styx_protocol::abort::{Abort, Code};
use styx_protocol::catalog::Control;
use styx_protocol::ids::{Generation, LogPosition, NodeId};
use styx_protocol::machine::coordinator::{Action, Input};
use styx_protocol::membership::{self, Seated};
use styx_protocol::message::{Message, Node};
use styx_protocol::placement::Placement;

use self::deployments::Deployments;
use self::gateways::Gateways;
use self::leader::{Drained, LeaderState, Next, SnapshotWaiter};
use self::recovery::Recovery;
use self::workers::{Actions, Workers};
use crate::admission::LogCondition;
use crate::client::{Answer, ClientMessage};
use crate::diagnostic::Diagnostic;
use crate::gateway::{Place, Router, RouterEffect};
use crate::leadership::Leadership;
use crate::network::NetworkEvent;
use crate::snapshots::{SnapshotEffect, SnapshotScheduler, SnapshotSummary, StoreFailure};
use crate::time::{Instant, Now, earliest};
use crate::wire::{AdminQuery, CatalogVersion, Envelope, Invite, Member, Overview, Query, Question};
use crate::wire::{Response, SnapshotPlace, TicketedResponse, View};

/// Decides for a coordinator. `W` names somebody in this process who waits.
#[derive(Debug)]
pub struct CoordinatorDriver<W, R> {
    config: CoordinatorConfig,
    leadership: Leadership,
    /// What has happened while this process might not act.
    deferred: VecDeque<Event<W, R>>,
    workers: Workers,
    recovery: Recovery,
    leader: Option<Box<LeaderState<W>>>,
    deployments: Deployments<W>,
    gateways: Gateways,
    /// For queries of this process's admin endpoints.
    router: Router<W, R>,
    log: LogCondition,
    /// The last snapshot that this process has taken.
    last_snapshot: Option<SnapshotSummary>,
    reviewed: Instant,
    stopping: Option<Stopping>,
    ended: bool,
}

/// The process is to end.
#[derive(Debug)]
struct Stopping {
    since: Instant,
    /// What was sent is awaited to arrive.
    awaiting: bool,
}

/// What a step may do: the time that it is, and where effects go.
struct Step<'a, W, R> {
    now: Now,
    effects: &'a mut Vec<Effect<W, R>>,
}

impl<W, R> Step<'_, W, R> {
    fn time(&self) -> Instant {
        self.now.monotonic
    }

    fn push(&mut self, effect: Effect<W, R>) {
        self.effects.push(effect);
    }

    fn log(&mut self, diagnostic: Diagnostic) {
        self.push(Effect::Diagnostic(diagnostic));
    }

    fn control(&mut self, to: NodeId, envelope: Envelope) {
        self.push(Effect::SendControl { to, envelope });
    }
}

impl<W, R> CoordinatorDriver<W, R> {
    /// The driver of a coordinator whose log is known up to `generation`.
    pub fn new(config: CoordinatorConfig, leadership: Leadership, generation: Generation, now: Instant) -> Self {
        CoordinatorDriver {
            leadership,
            deferred: VecDeque::new(),
            workers: Workers::new(&config, generation, now),
            recovery: Recovery::default(),
            leader: None,
            deployments: Deployments::default(),
            gateways: Gateways::default(),
            router: Router::new(Place::Coordinator, config.backlog_max),
            log: LogCondition::default(),
            last_snapshot: None,
            reviewed: now,
            stopping: None,
            ended: false,
            config,
        }
    }

    /// Something has happened. The driver says what is to be done at once; what it made possible, [`Self::advance`] says.
    pub fn step(&mut self, now: Now, event: Event<W, R>, effects: &mut Vec<Effect<W, R>>) {
        let mut step = Step { now, effects };
        match event {
            Event::LeaseHeld { until } => {
                self.leadership.extend(until);
                if self.leadership.holds(now.monotonic) {
                    for event in std::mem::take(&mut self.deferred) {
                        self.take(event, &mut step);
                    }
                }
            }
            Event::LeaseLost => {
                self.leadership.lose();
                self.end(&mut step);
            }
            // Nobody waits for what may not be done.
            Event::Stop if !self.leadership.holds(now.monotonic) => self.end(&mut step),
            event if self.leadership.holds(now.monotonic) => self.take(event, &mut step),
            event => self.deferred.push_back(event),
        }
    }

    /// No more events are at hand: does what those before have made possible, and what is due.
    pub fn advance(&mut self, now: Now, effects: &mut Vec<Effect<W, R>>) {
        if self.ended || !self.leadership.holds(now.monotonic) {
            return;
        }
        let mut step = Step { now, effects };
        self.route(&mut step, |router, now, effects| router.tick(now, effects));
        if step.time() >= self.reviewed.after(self.config.timing.tick) {
            self.review(&mut step);
        }
        if let Some(generation) = self.recovery.find_again(step.time()) {
            self.find_snapshot(generation, &mut step);
        }
        self.snapshots(&mut step, |scheduler, now, effects| scheduler.tick(now, effects));
        self.proceed(&mut step);
        self.proceed_with_drain(&mut step);
        self.route(&mut step, |router, _, effects| router.flush(effects));
        if self.may_end(&mut step) {
            self.end(&mut step);
        }
    }

    /// When [`Self::advance`] has something to do though nothing happens.
    pub fn due(&mut self, now: Now) -> Instant {
        if !self.leadership.holds(now.monotonic) {
            return now.monotonic.after(self.config.timing.tick);
        }
        let hurry = self.stopping.is_some();
        let review = self.reviewed.after(self.config.timing.tick);
        let of_leader = self.leader.as_mut().and_then(|leader| leader.due(&self.config, hurry, now.monotonic));
        earliest(Some(review), earliest(of_leader, self.recovery.due())).expect("a review is always due")
    }

    fn take(&mut self, event: Event<W, R>, step: &mut Step<'_, W, R>) {
        match event {
            Event::Network(event) => self.on_network(event, step),
            Event::Client(ClientMessage::Read(AdminQuery::Cluster, to)) => {
                step.push(Effect::Respond(to, Response::Cluster(self.overview())));
            }
            Event::Client(message) => self.route(step, |router, now, effects| router.client(now, message, effects)),
            Event::Undelivered(queries) => self.router.undelivered(queries.iter().map(|query| query.ticket)),
            Event::Delivered => {
                if let Some(Stopping { awaiting: true, .. }) = self.stopping {
                    self.end(step);
                }
            }
            Event::Raised { generation, position } => self.on_raised(generation, position, step),
            Event::SnapshotFound { generation, found } => self.on_snapshot_found(generation, found, step),
            Event::Synced { generation, epoch, position } => {
                let Some(leader) = self.leads(generation) else { return };
                leader.synced(epoch, position);
                step.push(Effect::Durable(epoch));
                self.machine(Input::Durable(epoch), step);
                self.snapshots(step, |scheduler, _, effects| scheduler.durable(epoch, effects));
            }
            Event::Record { generation, record } => {
                let Some(leader) = self.leads(generation) else { return };
                match record {
                    Some(record) => {
                        let input = leader.record(record);
                        self.machine(input, step);
                    }
                    None => self.go_live(step),
                }
            }
            Event::ManifestPut { generation, result } => {
                if self.leads(generation).is_some() {
                    self.snapshots(step, |scheduler, now, effects| scheduler.manifest_put(result, now, effects));
                }
            }
            Event::Maintained { generation, result } => {
                if self.leads(generation).is_some() {
                    self.snapshots(step, |scheduler, now, effects| scheduler.maintained(result, now, effects));
                }
            }
            Event::Deploy { control, waiter } => self.deploy(control, waiter, step),
            Event::TakeSnapshot { waiter } => self.take_snapshot(waiter, step),
            Event::LogCondition(condition) => {
                if std::mem::replace(&mut self.log, condition) != condition {
                    self.show_all(step);
                }
            }
            Event::Stop => self.stop(step),
            Event::LeaseHeld { .. } | Event::LeaseLost => unreachable!("taken before"),
        }
    }

    fn on_network(&mut self, event: NetworkEvent, step: &mut Step<'_, W, R>) {
        match event {
            NetworkEvent::Message { from, generation, message } => self.on_message(from, generation, message, step),
            NetworkEvent::Control { from, message: Ok(envelope) } => self.on_envelope(from, *envelope, step),
            NetworkEvent::Control { from, message: Err(why) } => self.dropped(from, &why.to_string(), step),
            NetworkEvent::Connected(peer) => {
                step.log(Diagnostic::debug("connected").node(peer));
                self.workers.connected(peer);
                self.route(step, |router, _, effects| router.resume(effects));
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

    /// The generation under way, if it is this one.
    fn leads(&mut self, generation: Generation) -> Option<&mut LeaderState<W>> {
        self.leader.as_deref_mut().filter(|leader| leader.generation() == generation)
    }

    /// Time has gone on.
    fn review(&mut self, step: &mut Step<'_, W, R>) {
        let now = step.time();
        self.reviewed = now;
        self.membership(membership::Input::Tick, step);
        for peer in self.workers.given_up(self.config.timing.cut_off_max, now) {
            self.lost(peer, "it does not connect again", step);
        }
        self.announce(step);
        for gateway in self.gateways.expire(self.config.timing.gateway_gone, now) {
            step.push(Effect::Forget(gateway));
        }
        while let Some(waiter) = self.deployments.expired(self.config.timing.prepare_max, now) {
            let message = "workers took too long to make the deployment's components ready; try again";
            step.push(Effect::Answer(waiter, Answer::Controlled(Err(Abort::new(Code::Overloaded, message)))));
        }
    }

    /// A control message that cannot be read, or is not for a coordinator. What matters is said again.
    fn dropped(&mut self, peer: NodeId, why: &str, step: &mut Step<'_, W, R>) {
        step.push(Effect::PeerError);
        step.log(Diagnostic::warn(format!("a message was dropped: {why}")).node(peer));
    }

    /// A worker's word in its generation that cannot be read or applied: without it the generation cannot go on.
    fn misbehaved(&mut self, worker: NodeId, why: &str, step: &mut Step<'_, W, R>) {
        step.push(Effect::PeerError);
        step.log(Diagnostic::error(format!("a worker is given up: {why}")).node(worker));
        self.membership(membership::Input::Lost(worker), step);
    }

    /// A worker need not be silent for long to be lost.
    fn lost(&mut self, peer: NodeId, why: &str, step: &mut Step<'_, W, R>) {
        if self.leader.as_ref().is_some_and(|leader| leader.worker(peer).is_some()) {
            step.log(Diagnostic::warn(format!("a worker is gone: {why}")).node(peer));
            self.membership(membership::Input::Lost(peer), step);
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
            Envelope::Hello { hello, address } => {
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
                let Some(worker) = self.leads(generation).and_then(|leader| leader.worker(from)) else {
                    return;
                };
                self.snapshots(step, |scheduler, now, effects| scheduler.part(worker, part, now, effects));
            }
            Envelope::FetchComponent(digest) => step.push(Effect::SendComponent { to: from, digest }),
            Envelope::ComponentPrepared(digest, result) => {
                for (waiter, abort) in self.deployments.prepared(from, digest, result) {
                    step.push(Effect::Answer(waiter, Answer::Controlled(Err(abort))));
                }
                self.sequence(step);
            }
            Envelope::Watch { known } => {
                self.gateways.watch(from, known, step.time());
                let view = self.view(known);
                step.control(from, Envelope::View(view));
                self.announce(step);
            }
            Envelope::Queries(queries) => {
                let responses = queries.into_iter().map(|Query { ticket, question, .. }| {
                    let response = match question {
                        Question::Admin(AdminQuery::Cluster) => Response::Cluster(self.overview()),
                        // The rest is the workers' to say.
                        _ => Response::WrongGeneration,
                    };
                    TicketedResponse { ticket, response }
                });
                let responses = responses.collect();
                step.control(from, Envelope::Responses(responses));
            }
            Envelope::Responses(responses) => {
                self.route(step, |router, _, effects| router.responses(from, responses, effects));
            }
            Envelope::Beat(_)
            | Envelope::Refused(_)
            | Envelope::Released
            | Envelope::Invite(_)
            | Envelope::ResendPart { .. }
            | Envelope::Component(..)
            | Envelope::PrepareComponent(_)
            | Envelope::View(_) => self.dropped(from, "it is not for a coordinator", step),
        }
    }

    // The membership and its generations.

    fn membership(&mut self, input: membership::Input<NodeId>, step: &mut Step<'_, W, R>) {
        let actions = self.workers.step(step.time(), input);
        self.perform_membership(actions, step);
    }

    fn perform_membership(&mut self, actions: Actions, step: &mut Step<'_, W, R>) {
        for action in actions {
            match action {
                membership::Action::Beat(to, beat) => step.control(to, Envelope::Beat(beat)),
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

    fn on_raised(&mut self, generation: Generation, position: LogPosition, step: &mut Step<'_, W, R>) {
        self.recovery.raised(position);
        match self.config.snapshots {
            Some(_) => self.find_snapshot(generation, step),
            None => self.membership(membership::Input::Persisted(generation), step),
        }
    }

    fn find_snapshot(&mut self, generation: Generation, step: &mut Step<'_, W, R>) {
        step.push(Effect::FindSnapshot { generation, before: self.recovery.usable_before() });
    }

    fn on_snapshot_found(
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

    /// The generation is over: nobody appends any more.
    fn close(&mut self, step: &mut Step<'_, W, R>) {
        let Some(mut leader) = self.leader.take() else { return };
        if let Some(scheduler) = leader.snapshots.take() {
            let mut effects = Vec::new();
            scheduler.close(&mut effects);
            for effect in effects {
                // That the generation wanted one itself is over with it.
                if let SnapshotEffect::Answer(SnapshotWaiter::Client(waiter), result) = effect {
                    step.push(Effect::SnapshotAnswer { waiter, result });
                }
            }
            // The store may be in the middle of something that takes time, and is waited for by nobody.
            step.push(Effect::EndSnapshots);
        }
        step.log(Diagnostic::info("the generation is over").generation(leader.generation()));
        self.show_all(step);
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
        let leader = LeaderState::new(&self.config, generation, members.clone(), found, position, step.time());
        self.leader = Some(Box::new(leader));
        members.iter().for_each(|member| self.invite(member, step));
        self.show_all(step);
        self.deployments.restart();
        self.prepare(step);
    }

    fn invite(&mut self, seated: &Seated<NodeId>, step: &mut Step<'_, W, R>) {
        let Some(leader) = &self.leader else { return };
        let Some(me) = leader.worker(seated.place) else { return };
        let begin = leader.found().map(|found| found.sequence);
        let store = self.config.snapshots.as_ref().map(|snapshots| SnapshotPlace {
            place: snapshots.place.clone(),
            identity: snapshots.identity,
            begin,
        });
        let invite = Invite {
            generation: leader.generation(),
            life: seated.life,
            me,
            members: self.members(),
            placement: (**leader.placement()).clone(),
            layout: self.config.genesis.layout,
            retention: self.config.retention,
            store,
        };
        step.control(seated.place, Envelope::Invite(invite));
    }

    // Rounds.

    /// Replays what is left of the log, or cuts an epoch, if it is time.
    fn proceed(&mut self, step: &mut Step<'_, W, R>) {
        let hurry = self.stopping.is_some();
        while let Some(leader) = self.leader.as_deref_mut() {
            match leader.next(&self.config, hurry, step.time()) {
                Next::Wait => return,
                Next::Read => return step.push(Effect::NextRecord),
                Next::Cut => {
                    let input = leader.cut(step.time(), step.now.wall);
                    self.machine(input, step);
                }
            }
        }
    }

    fn go_live(&mut self, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref_mut() else { return };
        let (epoch, chain) = leader.go_live();
        let generation = leader.generation();
        let catalog = Arc::new(leader.catalog().clone());
        step.push(Effect::Recovered(epoch));
        step.log(Diagnostic::info(format!("live at epoch {epoch}, chain {chain}")).generation(generation));
        self.machine(Input::Durable(epoch), step);
        step.push(Effect::PublishCatalog(catalog));
        self.membership(membership::Input::Live(generation), step);
        self.show_all(step);
        self.sequence(step);
        self.schedule_snapshots(step);
    }

    fn machine(&mut self, input: Input<W>, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_deref_mut() else { return };
        let mut actions = Vec::new();
        if let Some((stage, spent)) = leader.step(input, step.time(), &mut actions) {
            step.push(Effect::StageEnded { stage, spent });
        }
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
                step.push(Effect::Append { generation: leader.generation(), record });
                if let Some(catalog) = catalog {
                    step.push(Effect::PublishCatalog(catalog));
                    self.show_all(step);
                }
            }
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
                assert!(leader.snapshots.is_some(), "nobody else asks for snapshots");
                self.snapshots(step, |scheduler, now, effects| scheduler.header(header, position, now, effects));
            }
            Action::Finished(summary) => {
                let (ended, _) = leader.position();
                if let Some(scheduler) = &mut leader.snapshots {
                    scheduler.ended(ended);
                }
                step.push(Effect::EpochEnded { summary, duration: leader.round_took(step.time()) });
            }
        }
    }

    // The end of a generation, and of the process.

    /// The generation is to end, without haste: no gateway shall send it anything more.
    fn drain(&mut self, generation: Generation, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leads(generation) else { return };
        let input = leader.drain();
        step.log(Diagnostic::info("the generation drains").generation(generation));
        self.machine(input, step);
        self.show_all(step);
    }

    fn proceed_with_drain(&mut self, step: &mut Step<'_, W, R>) {
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

    /// To end: what is under way comes to its end first, and nobody notices but by waiting for whoever leads next.
    fn stop(&mut self, step: &mut Step<'_, W, R>) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(Stopping { since: step.time(), awaiting: false });
        if let Some(generation) =
            self.leader.as_ref().filter(|leader| leader.serves()).map(|leader| leader.generation())
        {
            self.drain(generation, step);
        }
    }

    /// It was told to stop, and nothing more need be waited for.
    fn may_end(&mut self, step: &mut Step<'_, W, R>) -> bool {
        let Some(stopping) = &mut self.stopping else { return false };
        let Some(leader) = self.leader.as_ref().filter(|leader| leader.is_live()) else { return true };
        if leader.is_drained() && !std::mem::replace(&mut stopping.awaiting, true) {
            step.push(Effect::AwaitDelivery(leader.nodes()));
        }
        step.time().since(stopping.since).as_micros() >= u128::from(self.config.patience.drain_us)
    }

    fn end(&mut self, step: &mut Step<'_, W, R>) {
        if !std::mem::replace(&mut self.ended, true) {
            step.push(Effect::End);
        }
    }

    // Deployments.

    /// Has every worker compile a deployment's components; then it is sequenced.
    fn deploy(&mut self, control: Control, waiter: W, step: &mut Step<'_, W, R>) {
        self.deployments.add(control, waiter, step.time());
        self.prepare(step);
    }

    fn prepare(&mut self, step: &mut Step<'_, W, R>) {
        let Some(leader) = &self.leader else { return };
        for (node, digest) in self.deployments.prepare(&leader.nodes()) {
            step.control(node, Envelope::PrepareComponent(digest));
        }
        self.sequence(step);
    }

    /// Sequences deployments, in order, whose components are compiled everywhere.
    fn sequence(&mut self, step: &mut Step<'_, W, R>) {
        while self.leader.as_ref().is_some_and(|leader| leader.serves())
            && let Some((control, waiter)) = self.deployments.next_ready()
        {
            self.machine(Input::Control { control, waiter }, step);
        }
    }

    /// Answers those whose deployments the gateways know by now: whoever calls next finds them.
    fn announce(&mut self, step: &mut Step<'_, W, R>) {
        let (timing, now) = (self.config.timing, step.time());
        let known = self.gateways.oldest_known(timing.gateway_slow, now);
        while let Some((waiter, result)) = self.deployments.announced(known, timing.announce_max, now) {
            step.push(Effect::Answer(waiter, Answer::Controlled(result)));
        }
    }

    // Snapshots.

    fn schedule_snapshots(&mut self, step: &mut Step<'_, W, R>) {
        let (Some(leader), Some(settings)) = (self.leader.as_deref_mut(), &self.config.snapshots) else { return };
        let newest = leader.found().map(|found| (found.header.epoch, found.log_position));
        leader.snapshots = Some(SnapshotScheduler::new(
            settings.schedule,
            leader.generation(),
            leader.members().len(),
            newest,
            leader.position().0,
            self.last_snapshot.clone(),
            step.time(),
        ));
        step.push(Effect::BeginSnapshots(leader.generation()));
    }

    fn take_snapshot(&mut self, waiter: W, step: &mut Step<'_, W, R>) {
        let why = match &self.leader {
            Some(leader) if leader.snapshots.is_some() => {
                let waiter = SnapshotWaiter::Client(waiter);
                return self.snapshots(step, |scheduler, now, effects| scheduler.want(waiter, now, effects));
            }
            _ if self.config.snapshots.is_some() => "the cluster does not serve yet",
            _ => "snapshots are off: start the coordinator with --store",
        };
        step.push(Effect::SnapshotAnswer { waiter, result: Err(why.to_owned()) });
    }

    /// Steps the scheduler of the generation under way, if it has one, and does what that says.
    fn snapshots(
        &mut self,
        step: &mut Step<'_, W, R>,
        run: impl FnOnce(&mut SnapshotScheduler<SnapshotWaiter<W>>, Instant, &mut Vec<SnapshotEffect<SnapshotWaiter<W>>>),
    ) {
        let Some(scheduler) = self.leader.as_deref_mut().and_then(|leader| leader.snapshots.as_mut()) else { return };
        let mut effects = Vec::new();
        run(scheduler, step.time(), &mut effects);
        for effect in effects {
            self.perform_snapshot(effect, step);
        }
    }

    fn perform_snapshot(&mut self, effect: SnapshotEffect<SnapshotWaiter<W>>, step: &mut Step<'_, W, R>) {
        // An effect before may have ended the generation.
        let Some(leader) = self.leader.as_deref_mut() else {
            if let SnapshotEffect::Answer(SnapshotWaiter::Client(waiter), result) = effect {
                step.push(Effect::SnapshotAnswer { waiter, result });
            }
            return;
        };
        let generation = leader.generation();
        match effect {
            SnapshotEffect::Begin => self.machine(Input::Snapshot, step),
            SnapshotEffect::ResendParts => {
                for node in leader.nodes() {
                    step.control(node, Envelope::ResendPart { generation });
                }
            }
            SnapshotEffect::Put(draft) => step.push(Effect::PutManifest(draft)),
            SnapshotEffect::Maintain => step.push(Effect::MaintainSnapshots),
            SnapshotEffect::CutMaintenanceShort => step.push(Effect::CutMaintenanceShort),
            SnapshotEffect::TrimLog(position) => step.push(Effect::TrimLog(position)),
            SnapshotEffect::Taken(summary) => {
                self.last_snapshot = Some(summary.clone());
                step.push(Effect::SnapshotTaken(summary));
            }
            SnapshotEffect::Answer(SnapshotWaiter::Client(waiter), result) => {
                step.push(Effect::SnapshotAnswer { waiter, result });
            }
            SnapshotEffect::Answer(SnapshotWaiter::Drain, _) => {
                leader.drain_done();
                self.membership(membership::Input::Drained(generation), step);
            }
            SnapshotEffect::Expel(worker, why) => {
                let node = leader.node(worker);
                self.misbehaved(node, &why, step);
            }
            SnapshotEffect::Diagnostic(diagnostic) => step.log(diagnostic),
            SnapshotEffect::Halt(why) => step.push(Effect::Halt(why)),
        }
    }

    // What others are shown.

    /// Steps the router of this process's endpoints, and does what it says.
    fn route(
        &mut self,
        step: &mut Step<'_, W, R>,
        run: impl FnOnce(&mut Router<W, R>, Instant, &mut Vec<RouterEffect<W, R>>),
    ) {
        let mut effects = Vec::new();
        run(&mut self.router, step.time(), &mut effects);
        step.effects.extend(effects.into_iter().map(|effect| match effect {
            RouterEffect::Send { to, queries } => Effect::Ask { to, queries },
            RouterEffect::Answer(waiter, answer) => Effect::Answer(waiter, answer),
            RouterEffect::Respond(to, response) => Effect::Respond(to, response),
            RouterEffect::Catalog(catalog) => Effect::PublishCatalog(catalog),
            RouterEffect::Diagnostic(diagnostic) => Effect::Diagnostic(diagnostic),
            RouterEffect::Connect { .. } | RouterEffect::Disconnect(_) => {
                unreachable!("a coordinator connects to its members itself")
            }
        }));
    }

    fn members(&self) -> Vec<Member> {
        let Some(leader) = &self.leader else { return Vec::new() };
        leader.members().iter().map(|member| self.workers.member(member.place)).collect()
    }

    fn overview(&self) -> Overview {
        let (epoch, chain) = self.leader.as_ref().map(|leader| leader.position()).unwrap_or_default();
        Overview {
            single: false,
            engine: self.config.build.engine,
            generation: self.workers.generation(),
            live: self.leader.as_ref().is_some_and(|leader| leader.serves()),
            epoch,
            chain,
            members: self.members(),
            partitions: self.config.genesis.layout.partitions,
            admin: self.config.admin.clone(),
        }
    }

    fn view(&self, known: CatalogVersion) -> View {
        // A generation replays deployments: until it is live, what was known before stands.
        let live = self.leader.as_ref().filter(|leader| leader.serves());
        let catalog = live.map(|leader| leader.catalog()).filter(|catalog| CatalogVersion::of(catalog) != known);
        let LogCondition { full, stalled } = self.log;
        let layout = self.config.genesis.layout;
        View {
            generation: self.workers.generation(),
            live: live.is_some(),
            full,
            stalled,
            members: self.members(),
            placement: match &self.leader {
                Some(leader) => (**leader.placement()).clone(),
                None => Placement::round_robin(layout.partitions, 1),
            },
            layout,
            catalog: catalog.map(|catalog| catalog.image()),
        }
    }

    fn show_all(&mut self, step: &mut Step<'_, W, R>) {
        let view = self.view(CatalogVersion::default());
        self.route(step, |router, now, effects| {
            router.view(now, view, effects);
        });
        for (gateway, known) in self.gateways.known() {
            step.control(gateway, Envelope::View(self.view(known)));
        }
    }
}
