//! The state machines: inputs in, actions out.
//!
//! One epoch at a time: cut, Execute, validate, commit, fall back (Styx §4.2, §6). Drivers execute
//! batches on threads, append records, carry messages and tell what has become durable; they decide
//! nothing. Execution does not wait for durability; replies do: those of epoch *e* are held until
//! the record of *e*, which says what it came to, is durable. A recovery applies records and executes nothing.
//!
//! A cluster has one [`Coordinator`] and several [`Worker`]s, each with inputs, actions and settings
//! of its own. Where one process does everything, [`Machine`] is both.

pub mod coordinator;
mod outbox;
mod summary;
pub mod worker;

use std::sync::Arc;

pub use coordinator::{Coordinator, Stage};
pub use summary::{EpochSummary, Rank};
pub use worker::Worker;

use crate::cluster::placement::Placement;
use crate::commit::replies::Retention;
use crate::execute::task::LocalView;
use crate::ids::{EngineHash, Epoch, Generation, PartitionId, Tid, Timestamp, WorkerId};
use crate::modes::Modes;
use crate::sequence::catalog::Catalog;
use crate::sequence::record::{Chain, EpochRecord};
use crate::snapshot::RestoredState;
use crate::state::State;
use crate::state::entity::Layout;
use crate::wire::message::Node;

/// Settings of a whole cluster, or of the one process that is all of it.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How keys are spread over partitions.
    pub layout: Layout,
    /// Parts of the protocol that are on.
    pub modes: Modes,
    /// Most transactions of an epoch, per worker.
    pub epoch_size_max: usize,
    /// Fuel that what an epoch takes is expected to use; one request is always taken.
    pub epoch_fuel_max: u64,
    /// The longest record that the log takes, in bytes.
    pub record_bytes_max: usize,
    /// Most requests that may wait, per worker.
    pub backlog_max: usize,
    /// Most functions that may wait for other workers, per worker.
    pub suspended_max: usize,
    /// Most long transactions that may run at a time, per worker.
    pub long_max: usize,
    /// How long replies are remembered.
    pub retention: Retention,
    /// Hash of the engine's configuration.
    pub engine: EngineHash,
    /// Fencing generation.
    pub generation: Generation,
    /// Track changes, so that snapshots can be taken.
    pub snapshots: bool,
    /// Most entities that a step of a worker changes, or hands over for a snapshot: [`worker::STEP_MAX`].
    pub step_max: usize,
    /// Bytes of what is told in pieces, such as the copy of a partition, that a message holds, about: [`worker::PIECE_BYTES`].
    pub piece_bytes: usize,
    /// Put the claimed serial order into each [`EpochSummary`], for checkers.
    pub claim_order: bool,
}

impl Config {
    /// Settings of the coordinator.
    pub fn coordinator(&self) -> coordinator::Config {
        coordinator::Config {
            layout: self.layout,
            record_bytes_max: self.record_bytes_max,
            engine: self.engine,
            generation: self.generation,
            snapshots: self.snapshots,
        }
    }

    /// Settings of each worker.
    pub fn worker(&self) -> worker::Config {
        worker::Config {
            layout: self.layout,
            modes: self.modes,
            epoch_size_max: self.epoch_size_max,
            epoch_fuel_max: self.epoch_fuel_max,
            record_bytes_max: self.record_bytes_max,
            backlog_max: self.backlog_max,
            suspended_max: self.suspended_max,
            long_max: self.long_max,
            retention: self.retention,
            generation: self.generation,
            snapshots: self.snapshots,
            step_max: self.step_max,
            piece_bytes: self.piece_bytes,
            claim_order: self.claim_order,
        }
    }
}

/// Input of a [`Machine`]: of one of its two.
#[derive(Debug)]
pub enum Input<W> {
    Coordinator(coordinator::Input<W>),
    Worker(worker::Input<W>),
}

/// Action of a [`Machine`]: of one of its two. No [`coordinator::Action::Send`] nor
/// [`worker::Action::Send`]: what they tell each other stays inside.
#[derive(Debug)]
pub enum Action<W> {
    /// Of its coordinator, except that an epoch has ended.
    Coordinator(coordinator::Action<W>),
    /// Of its worker, except that an epoch has ended.
    Worker(worker::Action<W>),
    /// An epoch, or a round of read-only requests, has ended on both.
    Finished(EpochSummary),
}

impl<W> From<coordinator::Input<W>> for Input<W> {
    fn from(input: coordinator::Input<W>) -> Self {
        Input::Coordinator(input)
    }
}

impl<W> From<worker::Input<W>> for Input<W> {
    fn from(input: worker::Input<W>) -> Self {
        Input::Worker(input)
    }
}

impl<W> From<worker::ClientRequest<W>> for Input<W> {
    fn from(request: worker::ClientRequest<W>) -> Self {
        Input::Worker(worker::Input::Client(request))
    }
}

/// A coordinator and its only worker. `W` names a waiting client; it is handed back with the
/// reply, never looked at.
#[derive(Debug)]
pub struct Machine<W> {
    coordinator: Coordinator<W>,
    worker: Worker<W>,
    /// The worker's part of the summary, until the coordinator adds the chain.
    summary: EpochSummary,
    /// Empty between steps; kept for its memory.
    worker_actions: Vec<worker::Action<W>>,
}

const ONLY: WorkerId = WorkerId(0);

impl<W> Machine<W> {
    /// A machine with an empty state.
    pub fn new(config: Config) -> Self {
        let placement = Arc::new(Placement::round_robin(config.layout.partitions, 1));
        let view = LocalView { me: ONLY, placement: placement.clone() };
        Machine {
            coordinator: Coordinator::new(config.coordinator(), placement),
            worker: Worker::new(config.worker(), view),
            summary: EpochSummary::default(),
            worker_actions: Vec::new(),
        }
    }

    /// Begins where a snapshot was taken, instead of with nothing.
    pub fn restore(&mut self, restored: RestoredState) {
        let carried = restored.carried.iter().map(|carried| carried.tid).collect();
        self.coordinator.restore(&restored.frame, carried, restored.laid_in);
        self.worker.restore(restored);
    }

    /// The committed state.
    pub fn state(&self) -> &Arc<State> {
        self.worker.state()
    }
    /// The catalog of the last epoch that began.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.worker.catalog()
    }
    /// The last epoch that ended, and the state hash chain after it.
    pub fn position(&self) -> (Epoch, Chain) {
        self.coordinator.position()
    }
    /// Transactions that were moved to a later epoch, in TID order.
    pub fn carried(&self) -> &[Tid] {
        self.coordinator.carried()
    }
    /// The time of the last epoch that ended.
    pub fn time(&self) -> Timestamp {
        self.coordinator.time()
    }
    /// The record of the round under way without what it comes to, once it is known that it will have one.
    pub fn cut(&self) -> Option<&Arc<EpochRecord>> {
        self.coordinator.cut()
    }
    /// Whether no epoch is under way.
    pub fn is_idle(&self) -> bool {
        self.coordinator.is_idle()
    }
    /// Whether a cut would find anything to do.
    pub fn has_work(&self) -> bool {
        self.coordinator.has_work() || self.worker.has_work()
    }
    /// What a partition has been asked to do.
    pub fn work(&self, partition: PartitionId) -> worker::Work {
        self.worker.work(partition)
    }
    /// Requests that wait for an epoch.
    pub fn backlog(&self) -> usize {
        self.worker.backlog()
    }
    /// Replies remembered.
    pub fn remembered(&self) -> usize {
        self.worker.remembered()
    }
    /// Replies forgotten before their age was reached.
    pub fn forgotten_early(&self) -> u64 {
        self.worker.forgotten_early()
    }
    /// Apps of which requests wait for an epoch.
    pub fn waiting_apps(&self) -> usize {
        self.worker.waiting_apps()
    }

    /// Takes one input; pushes what is to be done.
    ///
    /// # Panics
    /// When the driver breaks the protocol, or replay meets another state than the log was written on.
    #[inline]
    pub fn step(&mut self, input: impl Into<Input<W>>, actions: &mut Vec<Action<W>>) {
        match input.into() {
            Input::Coordinator(input) => self.step_coordinator(input, actions),
            Input::Worker(input) => self.step_worker(input, actions),
        }
    }

    /// Steps the coordinator, and hands on at once what it tells the worker.
    fn step_coordinator(&mut self, input: coordinator::Input<W>, actions: &mut Vec<Action<W>>) {
        let mut asked = Vec::new();
        self.coordinator.step(input, &mut asked);
        for action in asked {
            match action {
                coordinator::Action::Send { message, .. } => {
                    self.step_worker(worker::Input::Message { from: Node::Coordinator, message }, actions);
                }
                coordinator::Action::Finished(EpochSummary { epoch, time, chain, .. }) => {
                    let summary = std::mem::take(&mut self.summary);
                    actions.push(Action::Finished(EpochSummary { epoch, time, chain, ..summary }));
                }
                action => actions.push(Action::Coordinator(action)),
            }
        }
    }

    /// Steps the worker, and hands on at once what it tells the coordinator.
    #[inline]
    fn step_worker(&mut self, input: worker::Input<W>, actions: &mut Vec<Action<W>>) {
        // Steps nest while the two speak with each other; only the outermost list keeps its memory.
        let mut asked = std::mem::take(&mut self.worker_actions);
        self.worker.step(input, &mut asked);
        // Nobody waits for a heartbeat.
        while self.worker.is_unfinished() {
            self.worker.step(worker::Input::Continue, &mut asked);
        }
        // An epoch's replies stand before anything that the two tell each other: they move as one.
        let told =
            |action: &worker::Action<W>| matches!(action, worker::Action::Send { .. } | worker::Action::Finished(_));
        let first = asked.iter().position(told).unwrap_or(asked.len());
        actions.extend(asked.drain(..first).map(Action::Worker));
        for action in asked.drain(..) {
            match action {
                worker::Action::Send { message, .. } => {
                    self.step_coordinator(coordinator::Input::Message { from: ONLY, message }, actions);
                }
                worker::Action::Finished(summary) => self.summary = summary,
                action => actions.push(Action::Worker(action)),
            }
        }
        self.worker_actions = asked;
    }
}
