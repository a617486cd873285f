//! Ground: what attempts rest on, which is the placement of the epoch under way, the state of its
//! start, and what is deployed. A step changes so many entities at most, so that heartbeats come in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::long::{Reads, Runner};
use super::migration::{Fetching, Outgoing};
use super::work::{PartitionWork, Work};
use crate::cluster::placement::repartition_in_place;
use crate::cluster::worker_set::WorkerSet;
use crate::execute::attempt::{Execution, Operation, RemoteResponse};
use crate::execute::task::LocalView;
use crate::ids::{OperatorId, PartitionId, Tid, WorkerId};
use crate::sequence::catalog::Catalog;
use crate::sequence::control::Control;
use crate::sequence::deployment::Consistency;
use crate::sequence::transaction::Transaction;
use crate::sequence::writes::PackedWrites;
use crate::state::entity::{Entity, Layout};
use crate::state::{Partition, Removal, State, Write};
use crate::wire::fault::why;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ground {
    view: LocalView,
    state: Arc<State>,
    catalog: Arc<Catalog>,
    /// Operators of removed apps, whose entities are not all forgotten yet.
    removal: Removal,
    /// What the epoch under way has written.
    written: PackedWrites,
    /// Bytes of it that are in the state.
    applied: usize,
    /// Most entities that a step changes.
    step_max: usize,
    /// Entities that this step may still change: 0, if something is left to be changed.
    left: usize,
    /// What long transactions have read.
    reads: Reads,
    /// Partitions that other workers follow.
    outgoing: Outgoing,
    /// What is here of partitions that are this worker's, and not all here.
    fetching: Fetching,
    /// What partitions have been asked to do.
    work: PartitionWork,
}

impl Ground {
    /// An empty state, on which nothing is deployed.
    pub fn new(view: LocalView, layout: Layout, step_max: usize) -> Self {
        Ground {
            view,
            state: Arc::new(State::new(layout)),
            catalog: Arc::default(),
            removal: Removal::default(),
            written: PackedWrites::default(),
            applied: 0,
            step_max,
            left: step_max,
            reads: Reads::default(),
            outgoing: Outgoing::default(),
            fetching: Fetching::default(),
            work: PartitionWork::new(layout.partitions),
        }
    }

    /// What attempts rest on, for those that need nothing else.
    pub fn lend(&self) -> Ground {
        let (view, state, catalog) = (self.view.clone(), self.state.clone(), self.catalog.clone());
        Ground {
            view,
            state,
            catalog,
            removal: Removal::default(),
            written: PackedWrites::default(),
            reads: Reads::default(),
            outgoing: Outgoing::default(),
            fetching: Fetching::default(),
            work: PartitionWork::default(),
            applied: 0,
            step_max: 0,
            left: 0,
        }
    }

    pub fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    pub fn outgoing_mut(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }

    pub fn fetching(&self) -> &Fetching {
        &self.fetching
    }

    pub fn fetching_mut(&mut self) -> &mut Fetching {
        &mut self.fetching
    }

    /// Whether all is here that something touches of this worker's partitions; what is not is asked for.
    pub fn has(&mut self, operation: &Operation) -> bool {
        self.fetching.is_empty() || self.fetching.want(&self.state, operation)
    }

    /// An attempt of a transaction lacked an entity; of a query `tid` is 0.
    pub fn lacked(&mut self, tid: Tid, entity: Entity) {
        self.fetching.lacked(tid, entity, &self.state);
    }

    /// Puts what has arrived into its place, while nobody reads the state.
    pub fn settle(&mut self) -> (Vec<WorkerId>, Option<(WorkerId, &'static str)>) {
        self.fetching.settle(alone(&mut self.state))
    }

    /// The state, while nobody reads it, and partitions of which another worker does not have all yet.
    pub fn parts_mut(&mut self) -> (&mut State, impl Iterator<Item = &mut Partition>) {
        (alone(&mut self.state), self.outgoing.shadows_mut().partitions_mut())
    }

    /// What a partition has been asked to do.
    pub fn work(&self, partition: PartitionId) -> Work {
        self.work.of(partition)
    }

    /// A graph was executed, as far as it came here.
    pub fn count(&mut self, execution: &Execution) {
        self.work.count(execution, self.view.me, &self.view.placement);
    }

    /// A partition is another worker's: what it has done is no more this worker's to say.
    pub fn forget_work(&mut self, partition: PartitionId) {
        self.work.forget(partition);
    }

    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    pub fn reads_mut(&mut self) -> &mut Reads {
        &mut self.reads
    }

    /// Reads for a run of a long transaction, if it still counts.
    pub fn read_for(&mut self, run: Runner, operation: Operation) -> Option<RemoteResponse> {
        self.reads.read(run, operation, &self.state, &self.catalog)
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

    /// All workers but this one.
    pub fn others(&self) -> WorkerSet {
        let mut others = WorkerSet::default();
        (0..self.view.placement.workers()).for_each(|worker| others.merge(&WorkerSet::only(WorkerId(worker))));
        others.remove(self.me());
        others
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

    /// Whether a partition is here; another worker may have named one that there is not.
    pub fn owns(&self, partition: PartitionId) -> bool {
        self.view.placement.owner_of(partition) == Some(self.view.me)
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

    /// Applies writes of the epoch under way, as far as this step may.
    pub fn write(&mut self, writes: impl Iterator<Item = Write>) {
        let state = alone(&mut self.state);
        let watched = !self.reads.is_empty();
        for (entity, value) in writes {
            self.written.push(&entity, value.as_deref());
            if self.left > 0 {
                self.left -= 1;
                self.applied = self.written.bytes().len();
                if watched {
                    self.reads.writes(&entity, state);
                }
                self.outgoing.writes(&entity, value.as_deref());
                state.apply((entity, value));
            }
        }
    }

    /// Applies what an epoch of the log has written, which was checked, as far as this step may.
    pub fn apply_written(&mut self, writes: PackedWrites) {
        self.written = writes;
        self.change_on();
    }

    /// A step begins, which changes nothing before what is left is changed.
    pub fn begin_step(&mut self) {
        self.left = if self.is_changing() { 0 } else { self.step_max };
    }

    /// Changes what earlier steps did not get to, as far as this one may.
    pub fn go_on(&mut self) {
        self.left = self.step_max;
        // By now a message may have had it done.
        if self.is_changing() {
            self.change_on();
        }
    }

    /// Whether something is left to be changed.
    pub fn is_changing(&self) -> bool {
        self.applied < self.written.bytes().len() || !self.removal.is_empty()
    }

    fn change_on(&mut self) {
        let state = alone(&mut self.state);
        let outgoing = &mut self.outgoing;
        self.left -= state.remove(&mut self.removal, self.left, |entity| outgoing.writes(entity, None));
        let layout = state.layout();
        for write in self.written.from(self.applied).take(self.left) {
            let write = write.expect("what was packed or checked is writes");
            self.applied += write.bytes().len();
            self.left -= 1;
            let write = write.unpack(&layout).expect("to partitions that are there");
            if !self.reads.is_empty() {
                self.reads.writes(&write.0, state);
            }
            self.outgoing.writes(&write.0, write.1.as_deref());
            state.apply(write);
        }
    }

    /// What the epoch under way has written, all of which is applied.
    pub fn take_written(&mut self) -> PackedWrites {
        debug_assert!(!self.is_changing());
        self.applied = 0;
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
    /// partitions leave only with their state. One that comes is another worker's to refuse.
    pub fn refuses(&self, controls: &[Control]) -> Option<&'static str> {
        let mut now = &*self.view.placement;
        for control in controls {
            let Control::Place(next) = control else { continue };
            let follows = next.version() > now.version() && next.workers() == now.workers();
            if follows && next.partitions() != now.partitions() {
                let layout = self.state.layout().repartitioned(next.partitions());
                let stays =
                    repartition_in_place(now.owners(), next.partitions()).is_some_and(|made| made == next.owners());
                if layout.is_err() || !stays || !self.rests() {
                    return Some(why::PLACEMENT);
                }
                now = next;
                continue;
            }
            let leaves = |id: &PartitionId| now.owner(*id) == self.me() && next.owner(*id) != self.me();
            let leaving = (0..now.partitions()).map(|id| PartitionId(id as u16)).filter(leaves);
            if !follows || !self.outgoing.is_complete(next, leaving) {
                return Some(why::PLACEMENT);
            }
            now = next;
        }
        None
    }

    /// Operators whose keys get a prefix with these changes, or lose theirs; and whether they have one then.
    pub fn rekeyed_by(&self, controls: &[Control]) -> Vec<(OperatorId, bool)> {
        if !controls.iter().any(Control::may_rekey) {
            return Vec::new();
        }
        let mut after = Catalog::clone(&self.catalog);
        controls.iter().for_each(|control| drop(after.apply(control)));
        after.rekeyed_since(&self.catalog)
    }

    /// Entities that this step may still change.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Changes where an entity is; of what the epoch has written that is nothing.
    pub fn place(&mut self, write: Write) {
        self.left = self.left.saturating_sub(1);
        // A migration may have begun since the round did.
        self.outgoing.writes(&write.0, write.1.as_deref());
        alone(&mut self.state).apply(write);
    }

    /// Whether all that is here is of the partitions that there are, and is going nowhere.
    pub fn rests(&self) -> bool {
        let nothing_moves = self.outgoing.is_empty() && self.fetching.is_empty();
        nothing_moves && self.state.is_divided() && !self.is_changing()
    }

    /// Deals out some of what is in former partitions.
    pub fn divide(&mut self) {
        if self.state.has_former_partitions() {
            let catalog = &self.catalog;
            alone(&mut self.state).divide(DIVIDED_AT_ONCE, |operator| catalog.is_composite(operator));
        }
    }

    fn repartition(&mut self, partitions: u32, tracked: bool) {
        let before = self.state.layout();
        if partitions != before.partitions {
            alone(&mut self.state).repartition(Layout { partitions, ..before }, tracked);
            self.work.begin_anew(partitions);
        }
    }

    /// Changes take effect: all that routes or executes from here on goes by them. The state of removed apps goes as
    /// far as this step may.
    pub fn apply(&mut self, controls: &[Control], tracked: bool) {
        for control in controls {
            match control {
                Control::Place(placement) => {
                    self.repartition(placement.partitions(), tracked);
                    self.view.placement = Arc::new(placement.clone());
                }
                control => self.removal.extend(Arc::make_mut(&mut self.catalog).apply(control)),
            }
        }
        if self.is_changing() {
            self.change_on();
        }
    }
}

/// Entities that are dealt out to other partitions at a time: about half a millisecond.
const DIVIDED_AT_ONCE: usize = 512;

/// The state, while nobody else has it.
fn alone(state: &mut Arc<State>) -> &mut State {
    Arc::get_mut(state).expect("no execution keeps the state beyond its batch")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::placement::Placement;

    #[test]
    fn a_step_changes_so_much_and_what_is_left_comes_before_anything_new() {
        let layout = Layout::new(1, 4);
        let placement = Arc::new(Placement::round_robin(layout.partitions, 1));
        let mut ground = Ground::new(LocalView { me: WorkerId(0), placement }, layout, 5);
        let write = |number: u32| {
            let entity = Entity::new(&layout, OperatorId(1), false, number.to_string().as_str().into());
            (entity, Some(b"1"[..].into()))
        };
        ground.write((0..8).map(write));
        assert_eq!((ground.state().len(), ground.is_changing()), (5, true));
        ground.begin_step();
        ground.write([write(8)].into_iter());
        assert_eq!(ground.state().len(), 5, "others come first");
        ground.go_on();
        assert_eq!((ground.state().len(), ground.is_changing()), (9, false));
        ground.write((9..12).map(write));
        assert_eq!((ground.state().len(), ground.is_changing()), (10, true), "the step had changed four");
        ground.go_on();
        assert_eq!((ground.state().len(), ground.is_changing()), (12, false));
        ground.begin_step();
        ground.write((12..18).map(write));
        assert_eq!((ground.state().len(), ground.is_changing()), (17, true), "another step");
    }
}
