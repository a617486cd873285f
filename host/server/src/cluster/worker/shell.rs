//! The driver's thread: takes events of the network, of the threads that execute and write, and of clients,
//! and carries out what the driver wants done. Guests never run here: heartbeats are said here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, Sender};
use styx_driver::network::NetworkEvent;
use styx_driver::time::Now;
use styx_driver::wire::{AdminQuery, Envelope, Query, Question, Reply, Response, TicketedResponse};
use styx_driver::worker::{RestoreFailure, WorkerDriver, WorkerEffect, WorkerEvent};
use styx_durability::components::Components;
use styx_durability::recovery::Opened;
use styx_engine::Engine;
use styx_protocol::catalog::Catalog;
use styx_protocol::deployment::Digest;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Generation, NodeId, Timestamp};
use styx_protocol::message::Message;
use styx_protocol::task::RunId;
use styx_storage::snapshot::SnapshotStore;
use styx_transport::Network;
use tokio::sync::{oneshot, watch};

use super::restore::{discard, free, restore};
use crate::clock::{MonotonicClock, now};
use crate::cluster::COORDINATOR;
use crate::components::ComponentStore;
use crate::diagnostics;
use crate::executing::{Executing, Noted};
use crate::execution::{Completion, Dispatcher, Finished, LongEvent, LongPool};
use crate::fatal::fatal;
use crate::guest_logs::GuestLogs;
use crate::handle::{ClientMessage, Handle, Waiter};
use crate::observe::Traced;
use crate::snapshots::DeltaWriter;
use crate::stats::{Phases, Stats};

/// Messages taken before what they made possible is sent.
const BATCH_MAX: usize = 1024;

/// Events and effects of this process's driver.
type DriverEvent = WorkerEvent<Waiter, oneshot::Sender<Response>>;
type DriverEffect = WorkerEffect<Waiter, oneshot::Sender<Response>>;

/// An event for the driver's thread.
#[allow(clippy::large_enum_variant, reason = "each is moved through a channel once, and most are of the large kinds")]
pub(super) enum Event {
    /// Something has come from the network.
    Network(NetworkEvent),
    /// A thread of the pool has done its share.
    Completed(Completion),
    /// A run of a long transaction has something to say.
    Long(LongEvent<(Generation, RunId)>),
    /// What a generation begins with has been read.
    Opened(Generation, Result<Opened, RestoreFailure>),
    /// Something that the driver takes as it is.
    Driver(DriverEvent),
    /// End now.
    Stop,
}

pub(super) struct Shell {
    pub(super) driver: WorkerDriver<Waiter, oneshot::Sender<Response>>,
    pub(super) clock: MonotonicClock,
    pub(super) inbox: Receiver<Event>,
    pub(super) events: Sender<Event>,
    pub(super) requests: Receiver<ClientMessage>,
    pub(super) handle: Handle,
    pub(super) stats: Arc<Stats>,
    pub(super) network: Arc<Network>,
    pub(super) execution: Execution,
    pub(super) executing: Arc<Executing>,
    pub(super) guest_logs: GuestLogs,
    pub(super) compiler: Compiler,
    pub(super) parts: Parts,
    /// Says why the coordinator does not want this worker.
    pub(super) refused: watch::Sender<Option<String>>,
    pub(super) has_ended: bool,
}

/// Execution of guests, beside the driver.
pub(super) struct Execution {
    pub(super) dispatcher: Dispatcher<Noted<Traced<styx_engine::Executor>>>,
    /// What is out is to be forgotten.
    pub(super) forgetting: bool,
    /// When the pool was given the batch that it has.
    pub(super) batch_out: Instant,
    /// What runs beside the epochs.
    pub(super) long: LongPool<Noted<Traced<styx_engine::Executor>>, (Generation, RunId)>,
}

impl Execution {
    fn completed(&mut self, completion: Completion) -> Option<DriverEvent> {
        if self.forgetting {
            self.dispatcher.discard(completion);
            return self.forgotten();
        }
        self.dispatcher.take(completion).map(event_of)
    }

    fn forget(&mut self) -> Option<DriverEvent> {
        self.forgetting = true;
        self.long.forget();
        self.forgotten()
    }

    fn forgotten(&mut self) -> Option<DriverEvent> {
        if self.dispatcher.is_owed() {
            return None;
        }
        self.dispatcher.forget();
        self.forgetting = false;
        Some(WorkerEvent::ExecutionForgotten)
    }
}

fn event_of(finished: Finished) -> DriverEvent {
    match finished {
        Finished::Executed(executed) => WorkerEvent::Executed(executed),
        Finished::TaskProgress(progress) => WorkerEvent::TaskProgress(progress),
        Finished::FellBack(outcomes) => WorkerEvent::FellBack(outcomes),
    }
}

/// Compilation of components, each on a thread of its own.
pub(super) struct Compiler {
    pub(super) engine: Arc<Engine>,
    pub(super) components: ComponentStore,
}

impl Compiler {
    /// Compiles what is on the disk; otherwise says what is the matter.
    fn prepare(&self, digest: Digest, events: &Sender<Event>) -> Option<DriverEvent> {
        if self.engine.is_loaded(digest) {
            return Some(WorkerEvent::ComponentPrepared(digest, Ok(())));
        }
        if !self.components.want(digest) {
            return Some(WorkerEvent::ComponentAbsent(digest));
        }
        self.load(digest, events);
        None
    }

    fn keep(&self, digest: Digest, bytes: &[u8], events: &Sender<Event>) -> Option<DriverEvent> {
        if ComponentStore::digest(bytes) != digest {
            let why = format!("the coordinator has no component {digest}");
            return Some(WorkerEvent::ComponentPrepared(digest, Err(why)));
        }
        if let Err(error) = self.components.put(bytes) {
            let why = format!("cannot keep component {digest}: {error}");
            return Some(WorkerEvent::ComponentPrepared(digest, Err(why)));
        }
        self.load(digest, events);
        None
    }

    /// Deletes what no version of an app has named for a while: the coordinator has it, should it be wanted again.
    fn collect(&self, catalog: &Catalog) {
        const KEPT: Duration = Duration::from_secs(3600);
        // Between two generations nothing is named.
        if catalog.version() == 0 {
            return;
        }
        let (components, needed) = (self.components.clone(), catalog.image().components().collect());
        let before = Timestamp(now().0.saturating_sub(KEPT.as_micros() as u64));
        spawn("styx-collect", move || {
            if let Err(error) = components.collect(&needed, before) {
                tracing::warn!(%error, "components of no deployment cannot be deleted");
            }
        });
    }

    fn load(&self, digest: Digest, events: &Sender<Event>) {
        let (engine, path, events) = (self.engine.clone(), self.components.path(digest), events.clone());
        spawn("styx-load", move || {
            let result = engine.load(digest, &path).map_err(|error| error.to_string());
            // The driver has ended only when the process is about to.
            let _ = events.send(Event::Driver(WorkerEvent::ComponentPrepared(digest, result)));
        });
    }
}

/// This worker's part of snapshots: where it is read from and written to.
pub(super) struct Parts {
    /// The store that was used last.
    pub(super) store: Option<SnapshotStore>,
    pub(super) writer: Option<DeltaWriter>,
    pub(super) runtime: tokio::runtime::Handle,
    /// Threads that read.
    pub(super) threads: usize,
}

impl Parts {
    fn begin(&mut self, generation: Generation, layout: Layout, builds_on: bool, events: &Sender<Event>) {
        let store = self.store.clone().expect("parts are written where a generation's beginning was read");
        let (to_hand_over, to_tell) = (events.clone(), events.clone());
        let writer = DeltaWriter::start(
            store,
            layout,
            generation,
            builds_on,
            move || {
                let _ = to_hand_over.send(Event::Driver(WorkerEvent::HandOver(generation)));
            },
            move |written| {
                let written = Box::new(written);
                let _ = to_tell.send(Event::Driver(WorkerEvent::PartWritten(generation, written)));
            },
        );
        self.writer = Some(writer.unwrap_or_else(|error| fatal(&format!("cannot start a thread: {error}"))));
    }

    fn writer(&self) -> &DeltaWriter {
        self.writer.as_ref().expect("parts are written between the beginning and the end of a generation")
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.into()).spawn(work) {
        fatal(&format!("cannot start a thread: {error}"));
    }
}

impl Shell {
    /// Serves until the driver has ended, or it is told to stop.
    pub(super) fn serve(mut self) {
        let mut effects = Vec::new();
        while !self.has_ended {
            // The driver may only judge how silent others were when it has heard everything.
            let idle = self.inbox.is_empty() && self.requests.is_empty();
            self.step(if idle { WorkerEvent::Tick } else { WorkerEvent::Settled }, &mut effects);
            let until = self.driver.wake();
            let patience = until.since(self.clock.now());
            let mut select = Select::new();
            select.recv(&self.inbox);
            select.recv(&self.requests);
            if select.ready_timeout(patience.max(Duration::from_micros(1))).is_err() {
                continue;
            }
            for _ in 0..BATCH_MAX {
                let (event, request) = (self.inbox.try_recv().ok(), self.requests.try_recv().ok());
                if event.is_none() && request.is_none() || self.has_ended {
                    break;
                }
                if let Some(event) = event {
                    self.take(event, &mut effects);
                }
                if let Some(request) = request {
                    self.handle.taken(&request);
                    self.step(WorkerEvent::Client(request), &mut effects);
                }
            }
        }
    }

    fn take(&mut self, event: Event, effects: &mut Vec<DriverEffect>) {
        let event = match event {
            Event::Network(mut event) => {
                if let NetworkEvent::Control { from, message: Ok(message) } = &mut event
                    && let Envelope::Queries(queries) = &mut **message
                {
                    self.observe(*from, queries);
                }
                Some(WorkerEvent::Network(event))
            }
            Event::Completed(completion) => self.execution.completed(completion),
            Event::Long(LongEvent::Read((generation, run), operation)) => {
                Some(WorkerEvent::LongRead(generation, run, operation))
            }
            Event::Long(LongEvent::Ended((generation, run), execution)) => {
                self.execution.long.ended((generation, run));
                Some(WorkerEvent::LongEnded(generation, run, execution))
            }
            Event::Opened(generation, opened) => {
                let result = opened.map(|Opened { store, restored }| {
                    self.parts.store = Some(store);
                    restored.map(Box::new)
                });
                Some(WorkerEvent::Restored { generation, result })
            }
            Event::Driver(event) => Some(event),
            Event::Stop => {
                self.has_ended = true;
                None
            }
        };
        if let Some(event) = event {
            self.step(event, effects);
        }
    }

    /// Answers questions about what this process has seen: no driver knows of it.
    fn observe(&self, from: NodeId, queries: &mut Vec<Query>) {
        let mut responses = Vec::new();
        queries.retain(|query| {
            let Question::Admin(AdminQuery::Observed(question)) = &query.question else { return true };
            let response = Response::Observed(vec![self.stats.observed.answer(question)]);
            responses.push(TicketedResponse { ticket: query.ticket, response });
            false
        });
        if !responses.is_empty() {
            // Whoever cannot be told asks again.
            let _ = self.network.send_control(from, Envelope::Responses(responses).encode());
        }
    }

    /// Notes how requests have ended whose answers leave.
    fn note_ends(&self, envelope: &Envelope) {
        let Envelope::Responses(responses) = envelope else { return };
        for TicketedResponse { response, .. } in responses {
            if let Response::Reply(reply) | Response::Replayed(reply) = response {
                let Reply { id, tid, epoch, outcome } = reply;
                self.stats.observed.ended_as(*id, *tid, *epoch, outcome.as_ref().err());
            }
        }
    }

    /// Steps the driver; `effects` is empty before and after.
    fn step(&mut self, event: DriverEvent, effects: &mut Vec<DriverEffect>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let begun = self.begin_phase(&event);
            self.driver.step(Now { monotonic: self.clock.now(), wall: now() }, event, effects);
            if let Some((phase, begun)) = begun {
                Phases::add(phase(&self.stats.phases), begun);
            }
            for effect in effects.drain(..) {
                events.extend(self.perform(effect));
            }
        }
    }

    /// The phase of an epoch that an event's step belongs to, and when it began.
    fn begin_phase(&self, event: &DriverEvent) -> Option<(Phase, Instant)> {
        let phases = &self.stats.phases;
        let phase: Phase = match event {
            WorkerEvent::Network(NetworkEvent::Message { message: Ok(message), .. }) => match **message {
                Message::Begin(_) => |phases| &phases.cut,
                Message::Settle { .. } => |phases| &phases.validate,
                Message::Decide { .. } => |phases| &phases.commit,
                _ => return None,
            },
            WorkerEvent::Executed(_) => {
                Phases::add(&phases.execute, self.execution.batch_out);
                |phases| &phases.execute
            }
            WorkerEvent::FellBack(_) => {
                Phases::add(&phases.fallback, self.execution.batch_out);
                |phases| &phases.commit
            }
            _ => return None,
        };
        Some((phase, Instant::now()))
    }

    /// Carries out what the driver wants done; gives what came of it at once.
    fn perform(&mut self, effect: DriverEffect) -> Option<DriverEvent> {
        match effect {
            WorkerEffect::Send { to, message } => {
                return self
                    .network
                    .send(to, message.encode())
                    .err()
                    .map(|error| WorkerEvent::Unsent { to, why: error.to_string() });
            }
            WorkerEffect::SendControl { to, envelope } => {
                self.note_ends(&envelope);
                return self
                    .network
                    .send_control(to, envelope.encode())
                    .err()
                    .map(|error| WorkerEvent::ControlUnsent { to, why: error.to_string() });
            }
            WorkerEffect::Disconnect(node) => self.network.forget(node),
            WorkerEffect::SetGeneration(generation) => self.network.set_generation(generation.0),
            WorkerEffect::Connect { node, address } => self.network.connect(node, address),
            WorkerEffect::Redirect(address) => self.network.redirect(COORDINATOR, address),
            WorkerEffect::Execute(batch) => {
                self.execution.batch_out = Instant::now();
                return self.execution.dispatcher.execute(batch).map(event_of);
            }
            WorkerEffect::RunTasks(tasks) => return self.execution.dispatcher.advance(tasks).map(event_of),
            WorkerEffect::FallBack(batch) => {
                self.execution.batch_out = Instant::now();
                return self.execution.dispatcher.fall_back(batch).map(event_of);
            }
            WorkerEffect::StartLong(generation, task) => {
                let (run, events) = ((generation, task.run), self.events.clone());
                self.execution.long.start(run, task, move |event| events.send(Event::Long(event)).is_ok());
            }
            WorkerEffect::AnswerLong(generation, run, answer) => self.execution.long.answer((generation, run), answer),
            WorkerEffect::ForgetExecution => return self.execution.forget(),
            WorkerEffect::PrepareComponent(digest) => return self.compiler.prepare(digest, &self.events),
            WorkerEffect::KeepComponent(digest, bytes) => return self.compiler.keep(digest, &bytes, &self.events),
            WorkerEffect::Restore { generation, place, view, layout, former } => {
                let Parts { store, runtime, threads, .. } = &self.parts;
                let (known, runtime, threads) = (store.clone(), runtime.clone(), *threads);
                let events = self.events.clone();
                spawn("styx-restore", move || {
                    let opened = restore(&place, (&view, layout), former, known, &runtime, threads);
                    let _ = events.send(Event::Opened(generation, opened));
                });
            }
            WorkerEffect::Discard(former) => discard(former),
            WorkerEffect::DiscardPartitions(discarded) => free(discarded),
            WorkerEffect::BeginParts { generation, layout, builds_on } => {
                self.parts.begin(generation, layout, builds_on, &self.events);
            }
            WorkerEffect::WritePart(part) => self.parts.writer().part(part),
            WorkerEffect::WriteChanges { changes, last } => self.parts.writer().changes(changes, last),
            WorkerEffect::AbandonParts => {
                if let Some(writer) = self.parts.writer.take() {
                    writer.abandon();
                }
            }
            WorkerEffect::Answer(waiter, answer) => waiter.answer(answer),
            WorkerEffect::Respond(to, response) => {
                // Whoever asked may be gone.
                let _ = to.send(response);
            }
            WorkerEffect::PublishCatalog(catalog) => {
                self.compiler.collect(&catalog);
                self.handle.show_catalog(catalog);
            }
            WorkerEffect::KeepSuspects(suspects) => self.executing.keep(suspects),
            WorkerEffect::Logs { catalog, tid, lines } => {
                self.guest_logs.show(&self.stats.observed, &catalog, tid, &lines, &self.stats.guest_lines_left_out);
            }
            WorkerEffect::EpochEnded { summary, duration, entities, state_bytes, forgotten_early, waiting_apps } => {
                self.stats.finished(&summary, duration.as_micros() as u64);
                self.stats.entities.store(entities as u64, Ordering::Relaxed);
                self.stats.state_bytes.store(state_bytes, Ordering::Relaxed);
                self.stats.replies_forgotten_early.store(forgotten_early, Ordering::Relaxed);
                self.stats.waiting_apps.store(waiting_apps as u64, Ordering::Relaxed);
            }
            WorkerEffect::PeerError => {
                self.stats.peer_errors.fetch_add(1, Ordering::Relaxed);
            }
            WorkerEffect::Diagnostic(diagnostic) => diagnostics::show(&diagnostic),
            WorkerEffect::Refused(why) => {
                self.refused.send_replace(Some(why));
                self.has_ended = true;
            }
            WorkerEffect::End => self.has_ended = true,
            WorkerEffect::Halt(why) => fatal(&why),
        }
        None
    }
}

/// A counter of time among those of an epoch's phases.
type Phase = fn(&Phases) -> &std::sync::atomic::AtomicU64;
