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
//! | `Views` | what gateways, members and administrators are shown |
//! | [`SnapshotScheduler`](crate::snapshots::SnapshotScheduler) | when a snapshot is taken, and how far the log is trimmed |
//! | `Shutdown` | when the process may end |
//!
//! What a worker sends that cannot be read or applied ends its membership, and with that the generation; what
//! anybody else sends is dropped. Both are counted. A broken invariant of this process is an assertion.

mod config;
mod deployments;
mod gateways;
mod io;
mod leader;
mod recovery;
mod shutdown;
mod snapshots;
mod step;
#[cfg(test)]
mod tests;
mod views;
mod workers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use config::{CoordinatorConfig, SnapshotSettings, Timing};
pub use io::{Effect, Event, SnapshotFound};

use styx_protocol::catalog::Control;
use styx_protocol::ids::{Generation, LogPosition, NodeId};
use styx_protocol::machine::coordinator::{Action, Input};
use styx_protocol::membership::{self, Seated};
use styx_protocol::message::{Message, Node};

use self::deployments::Deployments;
use self::gateways::Gateways;
use self::leader::{Drained, LeaderState, Next};
use self::recovery::Recovery;
use self::shutdown::Shutdown;
use self::snapshots::{Scheduler, SchedulerEffect, SnapshotWaiter};
use self::step::Step;
use self::views::Views;
use self::workers::{Actions, Workers};
use crate::admission::LogCondition;
use crate::client::{Answer, ClientMessage};
use crate::diagnostic::Diagnostic;
use crate::gateway::{Place, Router, RouterEffect};
use crate::leadership::Leadership;
use crate::network::NetworkEvent;
use crate::snapshots::{NoSnapshot, SnapshotSummary, StoreFailure};
use crate::time::{Instant, Now, earliest};
use crate::wire::{AdminQuery, CatalogVersion, Envelope, Response};

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
    shutdown: Shutdown,
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
            shutdown: Shutdown::default(),
            config,
        }
    }

    /// Something has happened. The driver says what is to be done at once; what it made possible, [`Self::advance`] says.
    pub fn step(&mut self, now: Now, event: Event<W, R>, effects: &mut Vec<Effect<W, R>>) {
        let may_act = self.leadership.holds(now.monotonic);
        let mut step = Step::new(now, effects);
        match event {
            Event::LeaseHeld { .. } | Event::LeaseLost => self.take(event, &mut step),
            event if may_act => self.take(event, &mut step),
            // Nobody waits for what may not be done.
            Event::Stop => self.end(&mut step),
            event => self.deferred.push_back(event),
        }
    }

    /// No more events are at hand: does what those before have made possible, and what is due.
    pub fn advance(&mut self, now: Now, effects: &mut Vec<Effect<W, R>>) {
        if self.shutdown.has_ended() || !self.leadership.holds(now.monotonic) {
            return;
        }
        let mut step = Step::new(now, effects);
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
        let hurry = self.shutdown.has_begun();
        let review = self.reviewed.after(self.config.timing.tick);
        let of_leader = self.leader.as_mut().and_then(|leader| leader.due(&self.config, hurry, now.monotonic));
        earliest(Some(review), earliest(of_leader, self.recovery.due())).expect("a review is always due")
    }

    fn take(&mut self, event: Event<W, R>, step: &mut Step<'_, W, R>) {
        match event {
            Event::Network(event) => self.on_network(event, step),
            Event::Client(ClientMessage::Read(AdminQuery::Cluster, to)) => {
                step.push(Effect::Respond(to, Response::Cluster(self.views().overview())));
            }
            Event::Client(message) => self.route(step, |router, now, effects| router.client(now, message, effects)),
            Event::Undelivered(queries) => self.router.undelivered(queries.iter().map(|query| query.ticket)),
            Event::Delivered => {
                if self.shutdown.is_awaiting() {
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
            Event::LeaseHeld { until } => self.on_lease(until, step),
            Event::LeaseLost => {
                self.leadership.lose();
                self.end(step);
            }
        }
    }

    /// What has happened while this process might not act is taken as soon as it may again.
    fn on_lease(&mut self, until: Instant, step: &mut Step<'_, W, R>) {
        self.leadership.extend(until);
        if self.leadership.holds(step.time()) {
            for event in std::mem::take(&mut self.deferred) {
                self.take(event, step);
            }
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
        for (waiter, abort) in self.deployments.expire(self.config.timing.prepare_max, now) {
            step.push(Effect::Answer(waiter, Answer::Controlled(Err(abort))));
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
                step.control(from, Envelope::View(self.views().view(known)));
                self.announce(step);
            }
            Envelope::Queries(queries) => step.control(from, Envelope::Responses(self.views().answer(queries))),
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
        let Some(leader) = self.leader.take() else { return };
        let generation = leader.generation();
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
        if let Some(invite) = self.views().invite(seated) {
            step.control(seated.place, Envelope::Invite(invite));
        }
    }

    // Rounds.

    /// Replays what is left of the log, or cuts an epoch, if it is time.
    fn proceed(&mut self, step: &mut Step<'_, W, R>) {
        let hurry = self.shutdown.has_begun();
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
                assert!(leader.takes_snapshots(), "nobody else asks for snapshots");
                self.snapshots(step, |scheduler, now, effects| scheduler.header(header, position, now, effects));
            }
            Action::Finished(summary) => {
                leader.round_ended();
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
        if !self.shutdown.begin(step.time()) {
            return;
        }
        if let Some(generation) =
            self.leader.as_ref().filter(|leader| leader.serves()).map(|leader| leader.generation())
        {
            self.drain(generation, step);
        }
    }

    /// It was told to stop, and nothing more need be waited for.
    fn may_end(&mut self, step: &mut Step<'_, W, R>) -> bool {
        if !self.shutdown.has_begun() {
            return false;
        }
        let Some(leader) = self.leader.as_ref().filter(|leader| leader.is_live()) else { return true };
        if leader.is_drained() && self.shutdown.await_delivery() {
            step.push(Effect::AwaitDelivery(leader.nodes()));
        }
        self.shutdown.is_overdue(Duration::from_micros(self.config.patience.drain_us), step.time())
    }

    fn end(&mut self, step: &mut Step<'_, W, R>) {
        if self.shutdown.end() {
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
        leader.schedule_snapshots(settings.schedule, self.last_snapshot.clone(), step.time());
        step.push(Effect::BeginSnapshots(leader.generation()));
    }

    fn take_snapshot(&mut self, waiter: W, step: &mut Step<'_, W, R>) {
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
    fn snapshots(
        &mut self,
        step: &mut Step<'_, W, R>,
        run: impl FnOnce(&mut Scheduler<W>, Instant, &mut Vec<SchedulerEffect<W>>),
    ) {
        let Some(leader) = self.leader.as_deref_mut() else { return };
        for effect in leader.step_snapshots(step.time(), run) {
            match snapshots::effect(effect) {
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

    fn carry_out(&mut self, order: snapshots::Order, step: &mut Step<'_, W, R>) {
        // An order before may have ended the generation.
        let Some(leader) = self.leader.as_deref_mut() else { return };
        let generation = leader.generation();
        match order {
            snapshots::Order::Begin => self.machine(Input::Snapshot, step),
            snapshots::Order::ResendParts => {
                for node in leader.nodes() {
                    step.control(node, Envelope::ResendPart { generation });
                }
            }
            snapshots::Order::EndDrain => {
                leader.drain_done();
                self.membership(membership::Input::Drained(generation), step);
            }
            snapshots::Order::Expel(worker, why) => {
                let node = leader.node(worker);
                self.misbehaved(node, &why, step);
            }
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
        step.extend(effects.into_iter().map(|effect| match effect {
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

    fn views(&self) -> Views<'_, W> {
        let CoordinatorDriver { config, workers, log, .. } = self;
        Views { config, workers, leader: self.leader.as_deref(), log: *log }
    }

    fn show_all(&mut self, step: &mut Step<'_, W, R>) {
        let view = self.views().view(CatalogVersion::default());
        self.route(step, |router, now, effects| {
            router.view(now, view, effects);
        });
        for (gateway, known) in self.gateways.known() {
            step.control(gateway, Envelope::View(self.views().view(known)));
        }
    }
}
