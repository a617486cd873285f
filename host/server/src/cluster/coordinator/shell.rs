//! The thread that owns the coordinator's driver: hands it what comes from the network, the log, the store of
//! snapshots and this process's endpoints, and carries out what it says. It decides nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, Select, Sender, TryRecvError};
use styx_driver::coordinator::{CoordinatorDriver, Effect, Event};
use styx_driver::leadership;
use styx_driver::network::NetworkEvent;
use styx_driver::snapshots::{NoSnapshot, SnapshotSummary, StoreFailure};
use styx_driver::time::Now;
use styx_driver::wire::{Envelope, Query, Response};
use styx_durability::components::{Components, is_lost};
use styx_durability::log::LogReport;
use styx_durability::recovery::{Found, take_over};
use styx_protocol::deployment::Digest;
use styx_protocol::ids::{Epoch, Generation, NodeId};
use styx_protocol::record::{EpochRecord, Genesis};
use styx_storage::snapshot::SnapshotStore;
use styx_transport::{Network, SendError};
use tokio::sync::oneshot;

use super::shares::share_out;
use super::{Leadership, Request};
use crate::clock;
use crate::components::ComponentStore;
use crate::diagnostics;
use crate::fatal::fatal;
use crate::handle::{Handle, OperatorMessage, Waiter};
use crate::log::LogThread;
use crate::quarantine;
use crate::snapshots::{SnapshotOptions, StoreReport, StoreThread};

/// Events taken before what they made possible is done.
const BATCH_MAX: usize = 1024;

/// What other threads say.
#[derive(Debug)]
pub(super) enum Input {
    Network(NetworkEvent),
    Log(LogReport),
    Store(Generation, StoreReport),
    /// The store, about what a generation begins with.
    Found(Generation, Result<Option<Box<Found>>, StoreFailure>),
}

/// Somebody in this process who waits.
#[derive(Debug)]
pub(super) enum Requester {
    Client(Waiter),
    Snapshot(oneshot::Sender<Result<SnapshotSummary, NoSnapshot>>),
}

/// Somebody in this process who waits for an admin query.
type Reader = oneshot::Sender<Response>;

/// All that the driver's effects are done with.
pub(super) struct Surroundings {
    pub(super) leadership: Leadership,
    pub(super) network: Arc<Network>,
    pub(super) handle: Handle,
    pub(super) components: ComponentStore,
    pub(super) snapshots: Option<(SnapshotStore, SnapshotOptions)>,
    pub(super) genesis: Genesis,
    pub(super) events: Sender<Input>,
    pub(super) log: LogThread,
    pub(super) runtime: tokio::runtime::Handle,
}

/// The driver and what it is connected to. Fields are dropped in this order: the store's thread may be in the middle
/// of something, and the log goes last.
pub(super) struct Shell {
    driver: CoordinatorDriver<Requester, Reader>,
    store: Option<StoreThread>,
    /// The snapshot that was found last.
    found: Option<Box<Found>>,
    /// The log, while a generation reads it; whether the next record is asked for.
    reader: Option<(Generation, Receiver<Arc<EpochRecord>>)>,
    next_record: bool,
    /// Nodes that shall have received everything.
    awaited: Vec<NodeId>,
    ended: bool,
    around: Surroundings,
}

impl Shell {
    pub(super) fn new(driver: CoordinatorDriver<Requester, Reader>, around: Surroundings) -> Self {
        if let Some((store, options)) = &around.snapshots {
            let _ = around.handle.stats().snapshots.interval.set(options.interval);
            // Only one store is ever used.
            let _ = around.handle.stats().snapshots.store.set(store.clone());
        }
        let awaited = Vec::new();
        Shell { driver, store: None, found: None, reader: None, next_record: false, awaited, ended: false, around }
    }

    /// Serves until the driver says that it is over.
    pub(super) fn serve(mut self, inputs: &Receiver<Input>, requests: &Receiver<Request>) {
        loop {
            self.observe();
            let mut effects = Vec::new();
            self.driver.advance(self.now(), &mut effects);
            self.perform_all(effects);
            if self.ended {
                return;
            }
            self.wait(inputs, requests);
            for _ in 0..BATCH_MAX {
                let (input, request) = (inputs.try_recv().ok(), requests.try_recv().ok());
                let record = self.read();
                if input.is_none() && request.is_none() && record.is_none() {
                    break;
                }
                record.into_iter().for_each(|event| self.step(event));
                input.into_iter().for_each(|input| self.take(input));
                request.into_iter().for_each(|request| self.serve_one(request));
                if self.ended {
                    return;
                }
            }
        }
    }

    fn now(&self) -> Now {
        Now { monotonic: self.around.leadership.now(), wall: clock::now() }
    }

    fn step(&mut self, event: Event<Requester, Reader>) {
        let mut effects = Vec::new();
        self.driver.step(self.now(), event, &mut effects);
        self.perform_all(effects);
    }

    /// Tells the driver what no thread says: the lease, the log's condition, what has been delivered.
    fn observe(&mut self) {
        match self.around.leadership.view() {
            leadership::Leadership::Forever => {}
            leadership::Leadership::Until(until) => self.step(Event::LeaseHeld { until }),
            leadership::Leadership::Lost => self.step(Event::LeaseLost),
        }
        self.step(Event::LogCondition(self.around.handle.admission().condition()));
        let network = &self.around.network;
        if !self.awaited.is_empty() && self.awaited.iter().all(|node| network.outstanding_bytes(*node) == 0) {
            self.awaited.clear();
            self.step(Event::Delivered);
        }
    }

    /// Until something has come, or something is due.
    fn wait(&mut self, inputs: &Receiver<Input>, requests: &Receiver<Request>) {
        let now = self.now();
        let due: Duration = self.driver.due(now).since(now.monotonic);
        let mut select = Select::new();
        select.recv(inputs);
        select.recv(requests);
        if let Some((_, records)) = self.reader.as_ref().filter(|_| self.next_record) {
            select.recv(records);
        }
        // Whichever it is: all are looked at.
        let _ = select.ready_timeout(due);
    }

    /// The next record of the log, if the driver asks for it and it is there.
    fn read(&mut self) -> Option<Event<Requester, Reader>> {
        let (generation, records) = self.reader.as_ref().filter(|_| self.next_record)?;
        let record = match records.try_recv() {
            Ok(record) => Some(record),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => return None,
        };
        self.next_record = false;
        Some(Event::Record { generation: *generation, record })
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Network(mut event) => {
                self.overhear(&mut event);
                self.step(Event::Network(event));
            }
            Input::Log(LogReport::Synced { generation, epoch, position }) => {
                self.step(Event::Synced { generation, epoch, position });
            }
            Input::Log(LogReport::Raised { generation, position }) => self.step(Event::Raised { generation, position }),
            Input::Store(generation, StoreReport::Put(result)) => self.step(Event::ManifestPut { generation, result }),
            Input::Store(generation, StoreReport::Maintained(result)) => {
                self.step(Event::Maintained { generation, result });
            }
            Input::Found(generation, found) => {
                let described = match &found {
                    Ok(found) => Ok(found.as_ref().map(|found| found.described())),
                    Err(failure) => Err(failure.clone()),
                };
                self.found = found.ok().flatten();
                self.step(Event::SnapshotFound { generation, found: described });
            }
        }
    }

    /// Notes who is there and what they report, for people: no driver reads it.
    fn overhear(&self, event: &mut NetworkEvent) {
        let NetworkEvent::Control { from, message: Ok(message) } = event else { return };
        let stats = self.around.handle.stats();
        match &mut **message {
            Envelope::Hello { .. } | Envelope::Watch { .. } => stats.nodes.beat(*from),
            Envelope::Report(report) => {
                let wrong = !stats.nodes.heard(*from, std::mem::take(report));
                stats.peer_errors.fetch_add(u64::from(wrong), Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Takes what this process's endpoints ask for.
    fn serve_one(&mut self, request: Request) {
        match request {
            Request::Operator(OperatorMessage::Deploy(control, waiter)) => {
                self.step(Event::Deploy { control: *control, waiter: Requester::Client(waiter) });
            }
            Request::Operator(OperatorMessage::Migrate(goal, options, gains, waiter)) => {
                self.step(Event::Migrate { goal, options, gains, waiter: Some(Requester::Client(waiter)) });
            }
            Request::Operator(OperatorMessage::CancelMigration(waiter)) => {
                self.step(Event::CancelMigration { waiter: Some(Requester::Client(waiter)) });
            }
            Request::Operator(OperatorMessage::PaceMigration(change, waiter)) => {
                self.step(Event::PaceMigration { change, waiter: Some(Requester::Client(waiter)) });
            }
            Request::Operator(OperatorMessage::Snapshot(to)) => {
                self.step(Event::TakeSnapshot { waiter: Requester::Snapshot(to) });
            }
            Request::Client(message) => {
                self.around.handle.taken(&message);
                self.step(Event::Client(message.map_waiter(Requester::Client)));
            }
            Request::Stop => self.step(Event::Stop),
        }
    }

    fn perform_all(&mut self, effects: Vec<Effect<Requester, Reader>>) {
        for effect in effects {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect<Requester, Reader>) {
        let stats = self.around.handle.stats();
        match effect {
            Effect::Send { to, message } => {
                if self.around.leadership.hold()
                    && let Err(error) = self.around.network.send(to, message.encode())
                {
                    tracing::warn!(node = to.0, "a message cannot be sent: {error}");
                }
            }
            Effect::SendControl { to, envelope } => {
                if envelope == Envelope::Released {
                    stats.nodes.left(to);
                }
                self.send_control(to, &envelope);
            }
            Effect::Ask { to, queries } => self.ask(to, queries),
            Effect::SendComponent { to, digest } => {
                match self.around.components.get(digest) {
                    // To be told that there is none ends a worker.
                    Err(error) if !is_lost(&error) => self.put_off(to, digest, &error),
                    found => self.send_control(to, &Envelope::Component(digest, found.ok())),
                }
            }
            Effect::SetGeneration(generation) => self.around.network.set_generation(generation.0),
            Effect::Connect { node, address } => self.around.network.connect(node, address),
            Effect::Forget(node) => self.around.network.forget(node),
            Effect::AwaitDelivery(nodes) => self.awaited = nodes,

            Effect::Append { record, .. } => self.around.log.append(record),
            Effect::Raise(generation) => self.around.log.raise(generation),
            Effect::ReadLog { generation, from, after } => {
                (self.reader, self.next_record) = (Some((generation, self.around.log.read(from, after))), false);
            }
            Effect::NextRecord => self.next_record = true,
            Effect::StopReading => (self.reader, self.next_record) = (None, false),
            Effect::TrimLog(until) => self.around.log.trim(until),

            Effect::FindSnapshot { generation, before } => self.find_snapshot(generation, before),
            Effect::BeginSnapshots(generation) => self.begin_snapshots(generation),
            Effect::EndSnapshots => {
                if let Some(store) = self.store.take() {
                    store.abandon();
                }
            }
            Effect::PutManifest(draft) => self.store().put(draft),
            Effect::MaintainSnapshots => self.store().maintain(),
            Effect::CutMaintenanceShort => self.store().cut_short(),

            Effect::Answer(Requester::Client(waiter), answer) => waiter.answer(answer),
            Effect::Respond(to, response) => {
                // Whoever asked may be gone; the same below.
                let _ = to.send(response);
            }
            Effect::SnapshotAnswer { waiter: Requester::Snapshot(to), result } => {
                let _ = to.send(result);
            }
            Effect::Answer(..) | Effect::SnapshotAnswer { .. } => unreachable!("everybody is told what they asked for"),
            Effect::ShareOut { nodes, planned_on } => {
                drop(self.around.runtime.spawn(share_out(self.around.handle.clone(), nodes, planned_on)));
            }
            Effect::ShowMigrations(migrations) => stats.show_migrations(migrations),
            Effect::PublishCatalog(catalog) => {
                quarantine::tell(&self.around.handle.catalog(), &catalog);
                self.around.handle.show_catalog(catalog);
            }
            Effect::Full(full) => self.around.handle.admission().show_state(full),
            Effect::EpochEnded { summary, duration } => stats.finished(&summary, duration.as_micros() as u64),
            Effect::StageEnded { stage, spent } => stats.rounds.add(stage, spent),
            Effect::Durable(epoch) => stats.durable.store(epoch.0, Ordering::Relaxed),
            Effect::Recovered(epoch) => {
                stats.epoch.store(epoch.0, Ordering::Relaxed);
                stats.durable.store(epoch.0, Ordering::Relaxed);
            }
            Effect::SnapshotTaken(summary) => stats.snapshots.add(summary),
            Effect::PeerError => {
                stats.peer_errors.fetch_add(1, Ordering::Relaxed);
            }
            Effect::Diagnostic(diagnostic) => diagnostics::show(&diagnostic),
            Effect::Halt(why) => fatal(&why),
            Effect::End => self.ended = true,
        }
    }

    fn send_control(&self, to: NodeId, envelope: &Envelope) {
        if self.around.leadership.hold() {
            // Who cannot be reached will be told again, or is no longer there.
            let _ = self.around.network.send_control(to, envelope.encode());
        }
    }

    /// Hears in a second once more that a worker wants a component, which cannot be read now.
    fn put_off(&self, peer: NodeId, digest: Digest, error: &std::io::Error) {
        tracing::warn!(node = peer.0, "component {digest} cannot be read, which is tried again: {error}");
        let (events, message) = (self.around.events.clone(), Ok(Box::new(Envelope::FetchComponent(digest))));
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(1));
            // The shell has ended otherwise.
            let _ = events.send(Input::Network(NetworkEvent::Control { from: peer, message }));
        });
    }

    fn ask(&mut self, to: NodeId, queries: Vec<Query>) {
        let envelope = Envelope::Queries(queries);
        let Err(error) = self.around.network.send_control_now(to, envelope.encode()) else { return };
        if !matches!(error, SendError::NotConnected(_)) {
            tracing::warn!(node = to.0, "questions cannot be sent: {error}");
        }
        if let Envelope::Queries(queries) = envelope {
            self.step(Event::Undelivered(queries));
        }
    }

    fn store(&self) -> &StoreThread {
        self.store.as_ref().expect("a generation that takes snapshots has one")
    }

    /// Asks the store beside everything else: it may take its time.
    fn find_snapshot(&self, generation: Generation, before: Option<Epoch>) {
        let (store, _) = self.around.snapshots.clone().expect("snapshots are on");
        let events = self.around.events.clone();
        let find = move || {
            let found = take_over(&store, before, generation, clock::now()).map(|found| found.map(Box::new));
            // A shell that has ended begins nothing.
            let _ = events.send(Input::Found(generation, found));
        };
        if let Err(error) = std::thread::Builder::new().name("styx-find".into()).spawn(find) {
            fatal(&format!("cannot start a thread: {error}"));
        }
    }

    fn begin_snapshots(&mut self, generation: Generation) {
        let (store, options) = self.around.snapshots.clone().expect("snapshots are on");
        let events = self.around.events.clone();
        let tell = move |report| {
            // A shell that has ended takes no snapshots.
            let _ = events.send(Input::Store(generation, report));
        };
        let found = self.found.as_deref();
        match StoreThread::start(store, options, self.around.genesis, generation, found, tell) {
            Ok(thread) => self.store = Some(thread),
            Err(error) => fatal(&format!("cannot start a thread: {error}")),
        }
    }
}
