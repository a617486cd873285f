//! Warm instances, one set per executor: no locks, no instance in two calls at once.
//!
//! A nested call to the component that is already running takes another instance, so re-entrancy
//! cannot happen. Apps do not share instances, even of the same component: what one leaves in its
//! globals is nobody else's.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_protocol::catalog::{Digest, Operator};
use styx_protocol::ids::OperatorId;

use crate::component::Ready;
use crate::instance::Instance;

/// The instances of one component for one app.
struct Kind {
    app: Arc<str>,
    component: Arc<Ready>,
    /// The one that served last is last.
    idle: VecDeque<Instance>,
    /// When it last served, in calls of this executor.
    used: u64,
    /// Operators that it serves.
    slots: usize,
}

/// What an executor knows of an operator: checked by pointer against the catalog's on each call.
struct Slot {
    operator: Arc<Operator>,
    kind: usize,
    /// The qualified function names, copied so that threads do not share their counts.
    functions: Vec<Arc<str>>,
}

/// All instances of one executor.
pub(crate) struct Pool {
    slots: Vec<Option<Slot>>,
    kinds: Vec<Option<Kind>>,
    idle: Idle,
    idle_max: Idle,
    clock: u64,
}

/// Instances that wait for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Idle {
    pub instances: usize,
    /// Bytes of their linear memories.
    pub bytes: usize,
}

impl Idle {
    fn add(&mut self, instance: &Instance) {
        self.instances += 1;
        self.bytes += instance.bytes();
    }

    fn remove(&mut self, instance: &Instance) {
        self.instances -= 1;
        self.bytes -= instance.bytes();
    }
}

/// Where an operator's instances are.
#[derive(Clone, Copy)]
pub(crate) struct KindId(usize);

impl Pool {
    /// None yet; keeps so many idle instances.
    pub fn new(idle_max: Idle) -> Self {
        Pool { slots: Vec::new(), kinds: Vec::new(), idle: Idle::default(), idle_max, clock: 0 }
    }

    /// The instances and the function's name for a call, if the operator was seen before.
    pub fn find(&self, operator: &Arc<Operator>, function: u16) -> Option<(KindId, &Arc<str>)> {
        let slot = self.slots.get(operator.id.0 as usize)?.as_ref()?;
        Arc::ptr_eq(&slot.operator, operator).then(|| (KindId(slot.kind), &slot.functions[usize::from(function)]))
    }

    /// Makes an operator known; `component` finds what implements it.
    pub fn learn(&mut self, operator: &Arc<Operator>, component: impl FnOnce(Digest) -> Arc<Ready>) {
        let at = operator.id.0 as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.forget(operator.id);
        let same = |kind: &Kind| kind.component.digest == operator.component && kind.app == operator.app;
        let known = self.kinds.iter().position(|kind| kind.as_ref().is_some_and(same));
        let kind = known.unwrap_or_else(|| {
            let kind = Kind {
                app: operator.app.clone(),
                component: component(operator.component),
                idle: VecDeque::new(),
                used: self.clock,
                slots: 0,
            };
            let free = self.kinds.iter().position(Option::is_none).unwrap_or_else(|| {
                self.kinds.push(None);
                self.kinds.len() - 1
            });
            self.kinds[free] = Some(kind);
            free
        });
        self.kind_mut(kind).slots += 1;
        let functions = operator.functions().map(|entry| Arc::from(&*entry.qualified)).collect();
        self.slots[at] = Some(Slot { operator: operator.clone(), kind, functions });
    }

    /// Drops what is known of an operator, and its component's instances with the last operator.
    fn forget(&mut self, operator: OperatorId) {
        if let Some(slot) = self.slots[operator.0 as usize].take() {
            let kind = self.kind_mut(slot.kind);
            kind.slots -= 1;
            if kind.slots == 0 {
                let kind = self.kinds[slot.kind].take().expect("was there");
                kind.idle.iter().for_each(|instance| self.idle.remove(instance));
            }
        }
    }

    fn kind_mut(&mut self, at: usize) -> &mut Kind {
        self.kinds[at].as_mut().expect("a slot's kind exists")
    }

    /// The component of a kind.
    pub fn component(&self, KindId(kind): KindId) -> &Arc<Ready> {
        &self.kinds[kind].as_ref().expect("a slot's kind exists").component
    }

    /// Takes an idle instance, the most recently used first: its pages are in the caches.
    pub fn take(&mut self, KindId(kind): KindId) -> Option<Instance> {
        self.clock += 1;
        let now = self.clock;
        let kind = self.kind_mut(kind);
        kind.used = now;
        let instance = kind.idle.pop_back()?;
        self.idle.remove(&instance);
        Some(instance)
    }

    /// Gives an instance back after a call.
    pub fn give(&mut self, KindId(kind): KindId, instance: Instance) {
        if instance.is_worn() {
            return;
        }
        let room = self.idle_max.bytes.saturating_sub(instance.bytes());
        while self.idle.instances >= self.idle_max.instances || self.idle.bytes > room {
            if !self.evict() {
                break; // The only one is kept, however large.
            }
        }
        self.idle.add(&instance);
        self.kind_mut(kind).idle.push_back(instance);
    }

    /// Gives an instance that was made for one call only; it is kept if none waits.
    pub fn offer(&mut self, KindId(kind): KindId, instance: Instance) {
        if self.kind_mut(kind).idle.is_empty() {
            self.give(KindId(kind), instance);
        }
    }

    /// Drops all idle instances.
    pub fn clear(&mut self) {
        self.kinds.iter_mut().flatten().for_each(|kind| kind.idle.clear());
        self.idle = Idle::default();
    }

    /// Drops an idle instance of the kind that served least recently, if there is one.
    fn evict(&mut self) -> bool {
        let oldest = self.kinds.iter_mut().flatten().filter(|kind| !kind.idle.is_empty()).min_by_key(|kind| kind.used);
        let Some(kind) = oldest else { return false };
        let instance = kind.idle.pop_front().expect("just seen");
        self.idle.remove(&instance);
        true
    }

    /// Idle instances.
    pub fn idle(&self) -> usize {
        self.idle.instances
    }
}
