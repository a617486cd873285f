//! Instance pool: the warm instances of one executor. There are no locks, and no instance is in two calls at once.
//!
//! A nested call to the component that is already running takes another instance, so re-entrancy cannot happen. Apps do
//! not share instances, even of the same component: what one app leaves in its globals no other app can see.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_protocol::catalog::{Catalog, Operator};
use styx_protocol::deployment::Digest;
use styx_protocol::ids::OperatorId;
use styx_protocol::system::SystemFunction;

use crate::component::LinkedComponent;
use crate::instance::{Instance, Stack};
use crate::limits::IdleInstances;
use crate::tally::{Tallies, Tally};

/// The instances of one component for one app.
struct InstanceSet {
    app: Arc<str>,
    component: Arc<LinkedComponent>,
    /// In the order of their last calls, by the stack that they run on.
    idle: [VecDeque<Box<Instance>>; 2],
    /// The time of its last call, counted in calls of this executor.
    used: u64,
    /// Number of operators that it serves.
    operators: usize,
}

/// An operator that the executor has met: compared by pointer with the catalog's on each call.
struct KnownOperator {
    operator: Arc<Operator>,
    set: usize,
    functions: Vec<Arc<KnownFunction>>,
    /// Of each of them.
    waits: Vec<Waits>,
}

/// A function of an operator that the executor has met: of this executor alone, so that threads share no counts.
#[derive(Debug)]
pub(crate) struct KnownFunction {
    /// `operator.function`.
    pub qualified: Arc<str>,
    pub tally: Arc<Tally>,
}

/// How often a function has had to wait for other workers of late. Nothing but time depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits(u8);

impl Waits {
    /// Of a function that is not likely to, if it has fewer.
    const LIKELY: u8 = 4;
    const MOST: u8 = 8;
    /// Of one that calls what runs on fibers only.
    const ALWAYS: u8 = u8::MAX;

    /// A call of which more than one in three waits costs less on a fiber from the beginning.
    fn note(&mut self, waited: bool) {
        self.0 = match self.0 {
            Waits::ALWAYS => Waits::ALWAYS,
            waits if waited => (waits + 2).min(Waits::MOST),
            waits => waits.saturating_sub(1),
        };
    }
}

pub(crate) struct Pool {
    operators: Vec<Option<KnownOperator>>,
    sets: Vec<Option<InstanceSet>>,
    idle: IdleInstances,
    idle_max: IdleInstances,
    clock: u64,
    /// The version of the catalog by which operators were forgotten last.
    reviewed: u64,
    tallies: Arc<Tallies>,
}

/// Index of an operator's instances in the pool.
#[derive(Clone, Copy)]
pub(crate) struct InstanceSetId(usize);

impl Pool {
    /// An empty pool that will keep so many idle instances.
    pub fn new(idle_max: IdleInstances, tallies: Arc<Tallies>) -> Self {
        let (operators, sets) = (Vec::new(), Vec::new());
        Pool { operators, sets, idle: IdleInstances::default(), idle_max, clock: 0, reviewed: 0, tallies }
    }

    /// The instances and the function for a call, if the operator is known.
    pub fn find(&self, operator: &Arc<Operator>, function: u16) -> Option<(InstanceSetId, &Arc<KnownFunction>)> {
        let known = self.operators.get(operator.id.0 as usize)?.as_ref()?;
        Arc::ptr_eq(&known.operator, operator)
            .then(|| (InstanceSetId(known.set), &known.functions[usize::from(function)]))
    }

    /// Whether a function that is known can run on the stack of its thread, and is not likely to have to wait for other
    /// workers.
    pub fn prefers_stack(&self, operator: OperatorId, function: u16) -> bool {
        self.operators[operator.0 as usize].as_ref().is_some_and(|known| {
            known.waits[usize::from(function)].0 < Waits::LIKELY
                && self.component(InstanceSetId(known.set)).runs_on_stack()
        })
    }

    /// Notes whether a call of a function had to wait, or needs a fiber whatever it waits for.
    pub fn note_waits(&mut self, operator: OperatorId, function: u16, waited: bool, always: bool) {
        // It may have been forgotten meanwhile.
        let known = self.operators.get_mut(operator.0 as usize).and_then(Option::as_mut);
        if let Some(waits) = known.and_then(|known| known.waits.get_mut(usize::from(function))) {
            waits.note(waited);
            if always {
                *waits = Waits(Waits::ALWAYS);
            }
        }
    }

    /// Makes an operator of a catalog known; `component` finds what implements it. Those are forgotten that another catalog
    /// had: of apps that were removed, and of versions that were replaced.
    pub fn learn(
        &mut self,
        operator: &Arc<Operator>,
        catalog: &Catalog,
        component: impl FnOnce(Digest) -> Arc<LinkedComponent>,
    ) {
        let at = operator.id.0 as usize;
        if self.operators.len() <= at {
            self.operators.resize_with(at + 1, || None);
        }
        self.forget(operator.id);
        let same = |set: &InstanceSet| set.component.digest == operator.component && set.app == operator.app;
        let known = self.sets.iter().position(|set| set.as_ref().is_some_and(same));
        let set = known.unwrap_or_else(|| {
            let set = InstanceSet {
                app: operator.app.clone(),
                component: component(operator.component),
                idle: Default::default(),
                used: self.clock,
                operators: 0,
            };
            let free = self.sets.iter().position(Option::is_none).unwrap_or_else(|| {
                self.sets.push(None);
                self.sets.len() - 1
            });
            self.sets[free] = Some(set);
            free
        });
        self.set_mut(set).operators += 1;
        let functions = operator.functions().map(|entry| {
            // The host does what others of the system's are for.
            let is_run = entry.system.is_none_or(|system| system == SystemFunction::Migrate);
            let tally = is_run.then(|| self.tallies.tally(&operator.app, &operator.name, &entry.name));
            Arc::new(KnownFunction { qualified: (&*entry.qualified).into(), tally: tally.unwrap_or_default() })
        });
        let functions: Vec<_> = functions.collect();
        let waits = vec![Waits::default(); functions.len()];
        self.operators[at] = Some(KnownOperator { operator: operator.clone(), set, functions, waits });
        if self.reviewed != catalog.version() {
            self.reviewed = catalog.version();
            self.review(catalog);
        }
    }

    /// Forgets operators that a catalog does not have. What is the same in another version, and is known of it, stays warm.
    fn review(&mut self, catalog: &Catalog) {
        for id in (0..self.operators.len() as u32).map(OperatorId) {
            let is_current =
                |known: &KnownOperator| catalog.operator(id).is_some_and(|it| Arc::ptr_eq(it, &known.operator));
            if self.operators[id.0 as usize].as_ref().is_some_and(|known| !is_current(known)) {
                self.forget(id);
            }
        }
    }

    /// Forgets an operator, and its component's instances with the last operator.
    fn forget(&mut self, operator: OperatorId) {
        if let Some(known) = self.operators[operator.0 as usize].take() {
            let set = self.set_mut(known.set);
            set.operators -= 1;
            if set.operators == 0 {
                let set = self.sets[known.set].take().expect("was there");
                set.idle.iter().flatten().for_each(|instance| self.idle.remove(instance.bytes()));
            }
        }
    }

    fn set_mut(&mut self, at: usize) -> &mut InstanceSet {
        self.sets[at].as_mut().expect("a known operator's set exists")
    }

    pub fn component(&self, InstanceSetId(set): InstanceSetId) -> &Arc<LinkedComponent> {
        &self.sets[set].as_ref().expect("a known operator's set exists").component
    }

    /// The app that has the instances.
    pub fn app(&self, InstanceSetId(set): InstanceSetId) -> &Arc<str> {
        &self.sets[set].as_ref().expect("a known operator's set exists").app
    }

    /// Takes an idle instance for a stack, the most recently used first: its pages are in the caches.
    pub fn take(&mut self, InstanceSetId(set): InstanceSetId, stack: Stack) -> Option<Box<Instance>> {
        self.clock += 1;
        let now = self.clock;
        let set = self.set_mut(set);
        set.used = now;
        let instance = set.idle[stack as usize].pop_back()?;
        self.idle.remove(instance.bytes());
        Some(instance)
    }

    /// Gives an instance back after a call.
    pub fn give(&mut self, InstanceSetId(set): InstanceSetId, instance: Box<Instance>) {
        if instance.is_worn() {
            return;
        }
        let room = self.idle_max.bytes.saturating_sub(instance.bytes());
        while self.idle.number >= self.idle_max.number || self.idle.bytes > room {
            if !self.evict() {
                break; // The only one is kept, however large.
            }
        }
        self.idle.add(instance.bytes());
        self.set_mut(set).idle[instance.stack() as usize].push_back(instance);
    }

    /// Gives an instance that was made for one call only; it is kept if none waits.
    pub fn offer(&mut self, InstanceSetId(set): InstanceSetId, instance: Box<Instance>) {
        if self.set_mut(set).idle[instance.stack() as usize].is_empty() {
            self.give(InstanceSetId(set), instance);
        }
    }

    /// Drops all idle instances.
    pub fn clear(&mut self) {
        self.sets.iter_mut().flatten().flat_map(|set| &mut set.idle).for_each(VecDeque::clear);
        self.idle = IdleInstances::default();
    }

    /// Drops an idle instance of the set that was used least recently, if there is one.
    fn evict(&mut self) -> bool {
        let has_idle = |set: &&mut InstanceSet| set.idle.iter().any(|idle| !idle.is_empty());
        let Some(set) = self.sets.iter_mut().flatten().filter(has_idle).min_by_key(|set| set.used) else {
            return false;
        };
        let most = set.idle.iter_mut().max_by_key(|idle| idle.len());
        let instance = most.and_then(VecDeque::pop_front).expect("just seen");
        self.idle.remove(instance.bytes());
        true
    }

    pub fn idle(&self) -> usize {
        self.idle.number
    }
}
