//! Executor of transactions on one worker: the engine's, or a toy.

use std::sync::Arc;

use crate::execute::attempt::{Execution, Overlay, Reader};
use crate::execute::task::LongTask;
use crate::sequence::catalog::Catalog;
use crate::sequence::transaction::Transaction;
use crate::state::State;

/// Runs attempts at transactions, start to finish on one thread.
pub trait Executor {
    /// One attempt on committed state.
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution;

    /// One attempt of the fallback: reads see the overlay first, and leaving `cached` is drift.
    /// Gives the overlay back unchanged.
    fn fall_back(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        overlay: Box<Overlay>,
        cached: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>);

    /// A run of a long transaction, beside the epochs.
    fn run_long(&mut self, task: &LongTask, reader: Box<dyn Reader>) -> Execution;
}
