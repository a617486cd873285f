//! Ground: what attempts rest on, which is the placement of the epoch under way, the state of its
//! start, and what is deployed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::placement::Placement;
use crate::execute::task::LocalView;
use crate::ids::{PartitionId, WorkerId};
use crate::sequence::catalog::{Catalog, Consistency, Control};
use crate::sequence::transaction::Transaction;
use crate::sequence::writes::{NoWrites, PackedWrites};
use crate::state::entity::Layout;
use crate::state::{Partition, State, Write};
use crate::wire::fault::why;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    view: LocalView,
    state: Arc<State>,
    catalog: Arc<Catalog>,
    /// What the epoch under way has written.
    written: PackedWrites,
}

impl Ground {
    /// An empty state, on which nothing is deployed.
    pub fn new(view: LocalView, layout: Layout) -> Self {
        Ground { view, state: Arc::new(State::new(layout)), catalog: Arc::default(), written: PackedWrites::default() }
    }

    pub fn view(&self) -> &LocalView {
        &self.view
    }

    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// This worker.
    pub fn me(&self) -> WorkerId {
        self.view.me
    }

    /// Whether there are other workers.
    pub fn is_shared(&self) -> bool {
        self.view.placement.workers() > 1
    }

    /// The partitions that are here.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, &Partition)> {
        let all = self.state.partitions().iter().enumerate();
        let all = all.map(|(at, partition)| (PartitionId(at as u16), partition));
        all.filter(|(id, _)| self.owns(*id))
    }

    pub fn owns(&self, partition: PartitionId) -> bool {
        self.view.placement.owner(partition) == self.view.me
    }

    /// Whether the reads of a transaction are not validated.
    pub fn reads_snapshot(&self, transaction: &Transaction) -> bool {
        let request = &transaction.request;
        self.catalog.operator(request.operator).is_some_and(|operator| {
            let function = operator.function_index(&request.function);
            function.is_some_and(|at| operator.function(at).consistency == Consistency::Snapshot)
        })
    }

    /// The state, while nobody reads it.
    pub fn state_mut(&mut self) -> &mut State {
        alone(&mut self.state)
    }

    /// Applies writes of the epoch under way.
    pub fn write(&mut self, writes: impl Iterator<Item = Write>) {
        let state = alone(&mut self.state);
        for (entity, value) in writes {
            self.written.push(&entity, value.as_deref());
            state.apply((entity, value));
        }
    }

    /// Applies what an epoch of the log has written.
    ///
    /// # Errors
    /// It is no writes.
    pub fn apply_written(&mut self, writes: &PackedWrites) -> Result<(), NoWrites> {
        let layout = self.state.layout();
        let state = self.state_mut();
        for write in writes.iter() {
            state.apply(write?.unpack(&layout)?);
        }
        Ok(())
    }

    /// What the epoch under way has written.
    pub fn take_written(&mut self) -> PackedWrites {
        std::mem::take(&mut self.written)
    }

    pub fn restore(&mut self, catalog: Catalog, partitions: Vec<(PartitionId, Partition)>) {
        self.catalog = Arc::new(catalog);
        let state = self.state_mut();
        partitions.into_iter().for_each(|(id, partition)| state.restore(id, partition));
    }

    /// The partitions that are here, without the changes that were tracked of them.
    pub fn into_partitions(mut self) -> BTreeMap<PartitionId, Partition> {
        let empty = State::new(self.state.layout());
        let state = std::mem::replace(self.state_mut(), empty);
        state.into_snapshots().filter(|(id, _)| self.owns(*id)).collect()
    }

    /// Why changes cannot take effect here, if they cannot: placements follow on each other, and
    /// partitions change their owner only with their state.
    pub fn refuses(&self, controls: &[Control]) -> Option<&'static str> {
        let mut now = &*self.view.placement;
        for control in controls {
            let Control::Place(next) = control else { continue };
            if next.version() != now.version().next() || next.owners() != now.owners() {
                return Some(why::PLACEMENT);
            }
            now = next;
        }
        None
    }

    /// A change takes effect: all that routes or executes from here on goes by it.
    pub fn apply(&mut self, control: &Control) {
        if let Control::Place(placement) = control {
            self.place(placement);
            return;
        }
        for operator in Arc::make_mut(&mut self.catalog).apply(control) {
            self.state_mut().remove_operator(operator);
        }
    }

    fn place(&mut self, placement: &Placement) {
        self.view.placement = Arc::new(placement.clone());
    }
}

/// The state, while nobody else has it.
fn alone(state: &mut Arc<State>) -> &mut State {
    Arc::get_mut(state).expect("no execution keeps the state beyond its batch")
}
