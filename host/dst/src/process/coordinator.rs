//! A process that coordinates: the product's driver, and what its shell does for it.

use std::sync::Arc;
use std::time::Duration;

use styx_driver::admission::LogCondition;
use styx_driver::client::ClientMessage;
use styx_driver::coordinator::{
    CoordinatorConfig, CoordinatorDriver, Effect, Event, Goal, MigrationOptions, MigrationState, SnapshotSettings,
};
use styx_driver::leadership::Leadership;
use styx_driver::snapshots::SnapshotConfig;
use styx_driver::time::Instant;
use styx_driver::wire::Envelope;
use styx_durability::log::LogReport;
use styx_protocol::ids::NodeId;
use styx_protocol::membership::Build;
use styx_protocol::message::Message as Told;
use styx_protocol::record::EpochRecord;

use super::Input;
use super::around::Around;
use super::booting::Booted;
use super::leasing::LeaseThread;
use super::log::LogThread;
use super::storing::{Finding, StoreThread};
use crate::check::Checked;
use crate::event::Message;

type DriverEvent = Event<usize, usize>;
type DriverEffect = Effect<usize, usize>;

#[derive(Debug)]
pub struct Coordinator {
    driver: CoordinatorDriver<usize, usize>,
    log: LogThread,
    /// Where others may lead.
    lease: Option<LeaseThread>,
    store: Option<StoreThread>,
    /// What a generation begins with, being looked for; and what was found last.
    finding: Finding,
    next_record: bool,
    /// The record that was cut last.
    cut: Option<Arc<EpochRecord>>,
    /// Nodes that shall have received everything.
    awaited: Vec<NodeId>,
    has_ended: bool,
}

impl Coordinator {
    /// A coordinator that has opened its log.
    pub fn new(booted: Booted, lease: Option<LeaseThread>, around: &mut Around<'_>) -> Self {
        let Booted { log, genesis, layout, store, generation, seating, .. } = booted;
        let plan = &around.environment.plan;
        let config = CoordinatorConfig {
            layout,
            build: Build { version: "1".into(), engine: plan.config.engine },
            workers: plan.cluster.workers,
            retention: plan.config.retention,
            record_bytes_max: log.record_bytes_max(),
            admin: None,
            snapshots: store.as_ref().map(|store| SnapshotSettings {
                schedule: SnapshotConfig { interval: plan.snapshotting.interval, ..SnapshotConfig::default() },
                place: store.location().url().to_owned(),
                identity: store.identity(),
            }),
            patience: plan.cluster.patience,
            backlog_max: plan.config.backlog_max,
            epoch_max_wait: plan.epoch_max_wait,
            quarantine_after: plan.poison.map_or(0, |plan| plan.after),
            migration_rate: None,
            app_state_max: Some(plan.cluster.app_state_max),
            seating,
            shares: true,
            timing: plan.cluster.timing,
        };
        let leadership = lease.as_ref().and_then(LeaseThread::leadership).unwrap_or(Leadership::Forever);
        let driver = CoordinatorDriver::new(config, leadership, generation, around.instant());
        let log = LogThread::start(log, around);
        let finding = Finding::new(store, genesis);
        let awaited = Vec::new();
        Coordinator {
            driver,
            log,
            lease,
            store: None,
            finding,
            next_record: false,
            cut: None,
            awaited,
            has_ended: false,
        }
    }

    /// Whether it may act now, and so receives others.
    pub fn holds(&self, now: Instant) -> bool {
        self.leadership().is_none_or(|leadership| leadership.holds(now))
    }

    fn leadership(&self) -> Option<Leadership> {
        self.lease.as_ref().and_then(LeaseThread::leadership)
    }

    /// Whether the process has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.has_ended && self.lease.as_ref().is_none_or(LeaseThread::has_ended)
    }

    /// What somebody waits for in it.
    pub fn under_way(&self) -> usize {
        self.driver.under_way()
    }

    /// Takes a client's message.
    pub fn hear(&mut self, attempt: usize, message: Message, around: &mut Around<'_>) -> Checked {
        let event = match message {
            Message::Control(control) => {
                around.own.directory.keep_components(&control);
                Event::Deploy { control, waiter: attempt }
            }
            Message::Look(query) => Event::Client(ClientMessage::Read(query, attempt)),
            other => panic!("requests go to gateways: {other:?}"),
        };
        self.step(event, around)
    }

    /// What its threads have said since they were looked at last.
    pub fn listen(&mut self, around: &mut Around<'_>) -> Checked {
        while let Some(report) = self.log.report() {
            let event = match report {
                LogReport::Synced { generation, epoch, position } => {
                    around.environment.durable(around.own.life, epoch);
                    Event::Synced { generation, epoch, position }
                }
                LogReport::Raised { generation, position } => Event::Raised { generation, position },
            };
            around.own.inbox.borrow_mut().push_back(Input::Coordinator(Box::new(event)));
        }
        Ok(())
    }

    /// Why its log has ended, if it has.
    pub fn failure(&self) -> Option<String> {
        self.log.failure()
    }

    /// Everything that has come was taken.
    pub fn settle(&mut self, around: &mut Around<'_>) -> Checked {
        match self.leadership() {
            None | Some(Leadership::Forever) => {}
            Some(Leadership::Until(until)) => self.step(Event::LeaseHeld { until }, around)?,
            Some(Leadership::Lost) => self.step(Event::LeaseLost, around)?,
        }
        let stalled = around.environment.is_stalled(around.own.life.node);
        self.step(Event::LogCondition(LogCondition { full: around.own.directory.is_full(), stalled }), around)?;
        if !self.awaited.is_empty() && self.awaited.iter().all(|node| around.own.peers.outstanding(*node) == 0) {
            self.awaited.clear();
            self.step(Event::Delivered, around)?;
        }
        self.read(around)?;
        let mut effects = Vec::new();
        self.driver.advance(around.now(), &mut effects);
        self.perform_all(effects, around)?;
        self.read(around)
    }

    /// Gives the driver the next record of the log, if it asks for one and it is there.
    fn read(&mut self, around: &mut Around<'_>) -> Checked {
        while self.next_record
            && let Some(record) = self.log.next_record(around)
        {
            self.next_record = false;
            if let Some(record) = &record {
                around.environment.replayed(around.own.life, record)?;
            }
            let generation = self.finding.reader();
            self.step(Event::Record { generation, record }, around)?;
            let mut effects = Vec::new();
            self.driver.advance(around.now(), &mut effects);
            self.perform_all(effects, around)?;
        }
        Ok(())
    }

    /// When it wants to be woken: at once, if it waits for a record that is there.
    pub fn wake(&mut self, around: &Around<'_>) -> Instant {
        if self.has_ended {
            // The lease is being given back.
            return around.instant().after(Duration::from_millis(1));
        }
        if self.next_record && self.log.has_record() { around.instant() } else { self.driver.due(around.now()) }
    }

    /// Steps the driver, and does what it says.
    pub fn step(&mut self, event: DriverEvent, around: &mut Around<'_>) -> Checked {
        let mut effects = Vec::new();
        self.driver.step(around.now(), event, &mut effects);
        self.perform_all(effects, around)
    }

    fn perform_all(&mut self, effects: Vec<DriverEffect>, around: &mut Around<'_>) -> Checked {
        effects.into_iter().try_for_each(|effect| self.perform(effect, around))
    }

    /// Tells of a cut that is new.
    fn note_cut(&mut self, around: &mut Around<'_>) -> Checked {
        if let Some(record) = self.driver.cut()
            && self.cut.as_ref().is_none_or(|known| !Arc::ptr_eq(known, record))
        {
            around.environment.cut(around.own.life, record)?;
            self.cut = Some(record.clone());
        }
        Ok(())
    }

    fn perform(&mut self, effect: DriverEffect, around: &mut Around<'_>) -> Checked {
        let life = around.own.life;
        match effect {
            Effect::Send { to, message } => {
                if let Told::Settle { .. } = message {
                    self.note_cut(around)?;
                    around.environment.settles(life);
                }
                if around.send(to, &message).is_err() {
                    around.environment.figures.unsent += 1;
                }
            }
            Effect::SendControl { to, envelope } => {
                if let Envelope::Invite(invite) = &envelope {
                    around.environment.invites(life, invite)?;
                }
                // Who cannot be reached is told again, or is no longer there.
                let _ = around.send_control(to, &envelope);
            }
            Effect::Ask { to, queries } => {
                let envelope = Envelope::Queries(queries);
                if around.send_control_now(to, &envelope).is_err()
                    && let Envelope::Queries(queries) = envelope
                {
                    self.step(Event::Undelivered(queries), around)?;
                }
            }
            Effect::SendComponent { to, digest } => {
                let component = around.own.directory.component(digest);
                let _ = around.send_control(to, &Envelope::Component(digest, component));
            }
            Effect::SetGeneration(generation) => {
                around.environment.begins(life, generation)?;
                around.set_generation(generation.0);
            }
            Effect::Connect { node, address } => around.connect(node, &address),
            Effect::Forget(node) => around.forget(node),
            Effect::AwaitDelivery(nodes) => self.awaited = nodes,

            Effect::Append { record, .. } => {
                around.environment.appends(life, &record)?;
                self.log.append(record, around);
            }
            Effect::Raise(generation) => self.log.raise(generation, around),
            Effect::ReadLog { generation, from, after } => {
                self.finding.reads(generation);
                self.log.read(from, after, around);
                self.next_record = false;
            }
            Effect::NextRecord => self.next_record = true,
            Effect::StopReading => {
                self.log.stop_reading(around);
                self.next_record = false;
            }
            Effect::TrimLog(until) => {
                around.environment.trims(until)?;
                self.log.trim(until, around);
            }

            Effect::FindSnapshot { generation, before } => self.finding.start(generation, before, around),
            Effect::BeginSnapshots(generation) => {
                self.store = Some(StoreThread::of_coordinator(&self.finding, generation, around));
            }
            Effect::EndSnapshots => {
                if let Some(store) = self.store.take() {
                    store.abandon();
                }
            }
            Effect::PutManifest(draft) => self.store().put(draft, around),
            Effect::MaintainSnapshots => self.store().maintain(around),
            Effect::CutMaintenanceShort => self.store().cut_short(),

            Effect::Full(_) => {}
            Effect::Answer(attempt, answer) => around.answer(attempt, answer)?,
            Effect::Respond(attempt, seen) => around.show(attempt, seen)?,
            Effect::SnapshotAnswer { waiter, result } => {
                let snapshots = around.environment.plan.config.snapshots;
                around.environment.wishes.answered(waiter, &result, snapshots)?;
            }
            Effect::SnapshotTaken(_) => {}
            Effect::ShareOut { nodes, planned_on } => {
                let sharers: Vec<usize> = nodes.iter().map(|node| node.0 as usize - 1).collect();
                around.environment.placements.shares(&sharers)?;
                // Nobody has measured anything: by number.
                let options = MigrationOptions { planned_on: Some(planned_on), ..MigrationOptions::default() };
                self.step(Event::Migrate { goal: Goal::Only(nodes), options, gains: vec![], waiter: None }, around)?;
            }
            Effect::ShowMigrations(migrations) => {
                if let Some(newest) = migrations.reports.last().filter(|newest| newest.state == MigrationState::Done) {
                    around.environment.placements.done(life, newest.id, around.environment.durable)?;
                }
            }
            Effect::PublishCatalog(catalog) => around.environment.learn(&catalog),

            Effect::EpochEnded { summary, .. } => around.environment.ended(life, &summary)?,
            Effect::StageEnded { .. } | Effect::Durable(_) => {}
            Effect::Recovered(epoch) => around.environment.live(life, epoch),
            Effect::PeerError => around.environment.peer_error(life),
            Effect::Diagnostic(diagnostic) => around.tell(&diagnostic),
            Effect::Halt(why) => return around.environment.halts(life, &why),
            Effect::End => {
                self.has_ended = true;
                self.lease.iter().for_each(LeaseThread::stop);
            }
        }
        Ok(())
    }

    fn store(&self) -> &StoreThread {
        self.store.as_ref().expect("a generation that takes snapshots has one")
    }
}
