//! The state machines: inputs in, actions out.
//!
//! One epoch at a time: cut, Execute, validate, commit, fall back (Styx §4.2, §6). Drivers execute
//! batches on threads, append records, carry messages and tell what has become durable; they decide
//! nothing. Execution does not wait for durability; replies do: those of epoch *e* are held until
//! the record of *e* is durable.
//!
//! A cluster has one [`Coordinator`] and several [`Worker`]s. Where one process does everything,
//! [`Machine`] is both.

mod coordinator;
mod drain;
mod epoch;
mod fall_back;
mod io;
pub mod message;
mod outbox;
mod worker;

use std::sync::Arc;

pub use coordinator::{Coordinator, Stage};
pub use io::{Action, Batch, Config, EpochSummary, Executed, FallbackBatch, Input, Rank};
pub use worker::Worker;

use crate::attempt::Placement;
use crate::catalog::Catalog;
use crate::ids::{Epoch, WorkerId};
use crate::record::Chain;
use crate::snapshot::RestoredState;
use crate::state::State;
use crate::task::LocalView;
use message::Node;

/// A coordinator and its only worker. `W` names a waiting client; it is handed back with the
/// reply, never looked at.
#[derive(Debug)]
pub struct Machine<W> {
    coordinator: Coordinator<W>,
    worker: Worker<W>,
    /// The worker's part of the summary, until the coordinator adds the chain.
    summary: EpochSummary,
}

/// The only worker.
const ONLY: WorkerId = WorkerId(0);

impl<W> Machine<W> {
    /// A machine with an empty state.
    pub fn new(config: Config) -> Self {
        let placement = Arc::new(Placement::round_robin(config.layout.partitions, 1));
        let seat = LocalView { me: ONLY, placement: placement.clone() };
        Machine {
            coordinator: Coordinator::new(config.clone(), placement),
            worker: Worker::new(config, seat),
            summary: EpochSummary::default(),
        }
    }

    /// Begins where a snapshot was taken, instead of with nothing.
    pub fn restore(&mut self, restored: RestoredState) {
        let carried = restored.carried.iter().map(|carried| carried.tid).collect();
        self.coordinator.restore(&restored.frame, carried);
        self.worker.restore(restored);
    }

    /// Hands over at most so many changes at once from now on; by default a millisecond's work.
    pub fn hand_over_most(&mut self, changes: usize) {
        self.worker.hand_over_most(changes);
    }

    /// The committed state.
    pub fn state(&self) -> &Arc<State> {
        self.worker.state()
    }
    /// What is deployed.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.worker.catalog()
    }
    /// The last epoch that ended, and the state hash chain after it.
    pub fn position(&self) -> (Epoch, Chain) {
        self.coordinator.position()
    }
    /// Whether no epoch is under way.
    pub fn is_idle(&self) -> bool {
        self.coordinator.is_idle()
    }
    /// Whether a cut would find anything to do.
    pub fn has_work(&self) -> bool {
        self.coordinator.has_work() || self.worker.has_work()
    }
    /// Requests that wait for an epoch.
    pub fn backlog(&self) -> usize {
        self.worker.backlog()
    }
    /// Replies remembered.
    pub fn remembered(&self) -> usize {
        self.worker.remembered()
    }

    /// Takes one input; pushes what is to be done.
    ///
    /// # Panics
    /// When the driver breaks the protocol, or replay meets another state than the log was written on.
    pub fn step(&mut self, input: Input<W>, actions: &mut Vec<Action<W>>) {
        let node = match input {
            Input::Control { .. } | Input::Tick { .. } | Input::Replay(_) | Input::Durable(_) | Input::Snapshot => {
                Node::Coordinator
            }
            _ => Node::Worker(ONLY),
        };
        self.step_at(node, input, actions);
    }

    /// Steps one of the two, and hands on at once what they tell each other.
    fn step_at(&mut self, node: Node, input: Input<W>, actions: &mut Vec<Action<W>>) {
        let before = actions.len();
        match node {
            Node::Coordinator => self.coordinator.step(input, actions),
            Node::Worker(_) => self.worker.step(input, actions),
        }
        // What comes before anything that they tell each other stays where it is: an epoch's replies do.
        let told = |action: &Action<W>| matches!(action, Action::Send { .. } | Action::Finished(_));
        let Some(first) = actions[before..].iter().position(told) else { return };
        for action in actions.split_off(before + first) {
            match (node, action) {
                (_, Action::Send { to, message }) => self.step_at(to, Input::Message { from: node, message }, actions),
                (Node::Worker(_), Action::Finished(summary)) => self.summary = summary,
                (Node::Coordinator, Action::Finished(EpochSummary { epoch, time, chain, .. })) => {
                    let summary = std::mem::take(&mut self.summary);
                    actions.push(Action::Finished(EpochSummary { epoch, time, chain, ..summary }));
                }
                (_, action) => actions.push(action),
            }
        }
    }
}
