//! Coordinator driver: begins generations, replays the log through their workers, cuts epochs, has deployments made
//! ready before they are sequenced, takes snapshots and trims the log behind them.
//!
//! | part | decides |
//! |---|---|
//! | [`Leadership`] | whether this process may act now |
//! | `Workers` | who can be a member, and who is lost |
//! | `Recovery` | what the next generation begins with |
//! | `LeaderState` | how far the generation under way is, and when an epoch is cut |
//! | `Joining`, `Leaving` | when a worker may become a member, when it gets its share, when it may go |
//! | `Deployments`, `Gateways` | when a deployment is sequenced, and when its waiter is told |
//! | [`Router`] | whom this process's own endpoints ask |
//! | `Views` | what gateways, members and administrators are shown |
//! | [`SnapshotScheduler`](crate::snapshots::SnapshotScheduler) | when a snapshot is taken, and how far the log is trimmed |
//! | `Shutdown` | when the process may end |
//!
//! What a worker sends that cannot be read or applied ends its membership, and with that the generation; what
//! anybody else sends is dropped. Both are counted. A broken invariant of this process is an assertion.

mod balance;
mod config;
mod deployments;
mod gateways;
mod generations;
mod io;
mod joining;
mod leader;
mod leaving;
mod migration_history;
mod migrations;
mod network;
mod placing;
mod recovery;
mod restarting;
mod rounds;
mod shutdown;
mod snapshots;
mod step;
#[cfg(test)]
mod tests;
mod views;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use balance::Load;
pub use config::{CoordinatorConfig, SnapshotSettings, Timing};
pub use io::{Effect, Event, SnapshotFound};
pub use migration_history::{
    MigrationId, MigrationPhase, MigrationReport, MigrationState, MigrationTotals, Migrations, Transfer,
};
pub use migrations::{MigrationMode, MigrationOptions, NO_ROOM, NONE_TO_CANCEL, PLACEMENT_CHANGED, PaceChange};
pub use placing::{Goal, plan};

use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Generation, NodeId};
use styx_protocol::machine::coordinator::Input;
use styx_protocol::membership;
use styx_protocol::placement::Seating;
use styx_protocol::record::EpochRecord;

use self::deployments::Deployments;
use self::gateways::Gateways;
use self::joining::Joining;
use self::leader::LeaderState;
use self::leaving::Leaving;
use self::migration_history::MigrationHistory;
use self::recovery::Recovery;
use self::restarting::Restarting;
use self::shutdown::Shutdown;
use self::step::Step;
use self::views::Views;
use self::workers::Workers;
use crate::admission::LogCondition;
use crate::client::ClientMessage;
use crate::fullness::{Fullness, Holdings};
use crate::gateway::{Router, RouterEffect};
use crate::leadership::Leadership;
use crate::log_time::LogTime;
use crate::snapshots::SnapshotSummary;
use crate::suspicion::{Suspect, is_set_aside, judge};
use crate::time::{Instant, Now, earliest};
use crate::wire::{AdminQuery, CatalogVersion, CopyPace, Envelope, Response};

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
    fullness: Fullness,
    log_time: LogTime,
    /// As the generation under way has it, or the last one had.
    layout: Layout,
    /// Who had which partition last.
    seating: Option<Seating>,
    joining: Joining,
    leaving: Leaving,
    /// A migration for which everything stops.
    restarting: Option<Restarting<W>>,
    migrations: MigrationHistory,
    /// How fast partitions are copied that are on their way.
    pace: CopyPace,
    /// The placement that is on its way has taken effect, and is not durable yet.
    migration_placed: bool,
    /// The last snapshot that this process has taken.
    last_snapshot: Option<SnapshotSummary>,
    /// What workers say was under way when they ended.
    suspects: BTreeMap<NodeId, Vec<Suspect>>,
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
            router: Router::new(config.backlog_max),
            log: LogCondition::default(),
            fullness: Fullness::default(),
            log_time: LogTime::default(),
            layout: config.layout,
            seating: config.seating.clone(),
            joining: Joining::default(),
            leaving: Leaving::default(),
            restarting: None,
            migrations: MigrationHistory::default(),
            pace: CopyPace::default(),
            migration_placed: false,
            last_snapshot: None,
            suspects: BTreeMap::new(),
            reviewed: now,
            shutdown: Shutdown::default(),
            config,
        }
    }

    /// What somebody here waits for: nothing when all is quiet.
    pub fn under_way(&self) -> usize {
        let migrates = self.leader.as_deref().is_some_and(LeaderState::is_migrating);
        self.deferred.len() + self.deployments.len() + self.router.under_way() + usize::from(migrates)
    }

    /// The record of the round under way without what it comes to, once it is known that it will have one.
    pub fn cut(&self) -> Option<&Arc<EpochRecord>> {
        self.leader.as_ref().and_then(|leader| leader.record_cut())
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
        self.proceed_with_migration(&mut step);
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
                self.restart_logged(epoch, step);
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
            Event::Migrate { goal, options, gains, waiter } => self.migrate(&goal, options, &gains, waiter, step),
            Event::PaceMigration { change, waiter } => self.change_pace(change, waiter, step),
            Event::CancelMigration { waiter } => {
                self.joining.decline_shares();
                self.cancel_migration(waiter, step);
            }
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
        for (worker, digest) in self.deployments.overdue(now) {
            step.control(worker, Envelope::PrepareComponent(digest));
        }
        for (waiter, abort) in self.deployments.expire(self.config.timing.prepare_max, now) {
            step.controlled(Some(waiter), Err(abort));
        }
        self.proceed_with_leaving(step);
        self.proceed_with_shares(step);
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
        for (node, digest) in self.deployments.prepare(&leader.nodes(), step.time()) {
            step.control(node, Envelope::PrepareComponent(digest));
        }
        self.sequence(step);
    }

    /// Sequences deployments, in order, whose components are compiled everywhere.
    fn sequence(&mut self, step: &mut Step<'_, W, R>) {
        while self.leader.as_ref().is_some_and(|leader| leader.serves())
            && let Some((control, waiter)) = self.deployments.next_ready()
        {
            self.machine(Input::Control { control, waiter: Some(waiter) }, step);
        }
    }

    /// Answers those whose deployments the gateways know by now: whoever calls next finds them.
    fn announce(&mut self, step: &mut Step<'_, W, R>) {
        let (timing, now) = (self.config.timing, step.time());
        let known = self.gateways.oldest_known(timing.gateway_slow, now);
        while let Some((waiter, result)) = self.deployments.announced(known, timing.announce_max, now) {
            step.controlled(Some(waiter), result);
        }
    }

    // Suspicion.

    /// A worker says what was under way when it ended, before it can be a member again.
    fn suspected(&mut self, worker: NodeId, suspects: Vec<Suspect>, step: &mut Step<'_, W, R>) {
        if self.suspects.get(&worker).map_or(&[][..], Vec::as_slice) == suspects {
            return;
        }
        self.suspects.insert(worker, suspects);
        self.set_aside(step);
    }

    /// Has the epoch that is cut next set aside what workers have said enough of. Each generation begins with it: what one
    /// has set aside that was over before its record was durable, nobody has.
    fn set_aside(&mut self, step: &mut Step<'_, W, R>) {
        let Some(leader) = self.leader.as_ref().filter(|leader| leader.serves()) else { return };
        let all = self.suspects.values().flatten();
        for quarantined in judge(all, leader.catalog(), self.config.quarantine_after, step.now.wall) {
            self.machine(Input::Control { control: Control::Quarantine(quarantined), waiter: None }, step);
        }
    }

    /// Forgets who is in quarantine by now: once released, they are as good as any.
    fn review_suspects(&mut self, catalog: &Catalog) {
        self.suspects.values_mut().for_each(|suspects| suspects.retain(|suspect| !is_set_aside(suspect, catalog)));
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
        }));
    }

    fn views(&self) -> Views<'_, W> {
        let CoordinatorDriver { config, workers, log, fullness, .. } = self;
        Views {
            config,
            layout: self.layout,
            workers,
            leader: self.leader.as_deref(),
            log: *log,
            state: fullness.full(),
        }
    }

    /// A worker has said what state it holds.
    fn holds(&mut self, from: NodeId, holdings: Holdings, step: &mut Step<'_, W, R>) {
        let leader = self.leader.as_deref();
        self.fullness.told(from, holdings, |node| leader.is_some_and(|leader| leader.worker(node).is_some()));
        if let Some(full) = self.fullness.review(self.config.app_state_max) {
            step.push(Effect::Full(full.clone()));
            self.show_all(step);
        }
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
