//! Invocation: runs one function of a transaction, with all that it calls, in instances of their components.
//!
//! The [`Context`] (the attempt and what the executor lends to it) moves, as one pointer, from the executor into the Store
//! of the instance that runs, from there into the Store of a callee, and back; so guests reach it without locks or unsafe
//! code. Therefore the modules `guest`, `instance`, `component`, `pool` and this one know each other's types: a Store
//! carries the transaction, and the transaction carries the instances, each with a Store, that it may call into.
//!
//! **There are two ways to run a guest, and both are written out.** A single worker has nobody to wait for: its guests run
//! on the thread's own stack ([`Context::invoke`], [`Instance::call`], `func_wrap`), nested calls through the protocol's
//! [`finish`](styx_protocol::attempt::finish). A worker of a cluster can run every guest on a fiber
//! ([`Context::invoke_on_fiber`], [`Instance::call_on_fiber`], `func_wrap_async`), so that it can be suspended until other
//! workers respond; the imports that may have to wait are added by `imports::remote`. A fiber costs about half a
//! microsecond per call and each asynchronous import an allocation, which a single worker need not pay, and Rust cannot
//! abstract over `async`. So each pair is two short functions around the same steps: `prepare`, `enter`, `leave`.
//!
//! Most calls in a cluster find all that they need on their worker, and who is a module runs faster on the thread's stack.
//! There such a guest is tried first ([`Context::prefers_stack`]); if it needs a fiber after all ([`FiberNeed`]), nothing of
//! the attempt counts, and it is made again on one.

use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Attempt, Functions, Locality, Next, RemoteRequests, RemoteResponse};
use styx_protocol::deployment::Isolation;
use styx_protocol::entity::Value;

use crate::budget::GuestUsage;
use crate::component::Components;
use crate::instance::{Call, Ended, Instance, Stack};
use crate::limits;
use crate::memory::{GuestMemory, MemoryShare};
use crate::pool::{InstanceSetId, KnownFunction, Pool};
use crate::profile::{Begun, Profile};
use crate::rendezvous::Rendezvous;

/// Instances that an attempt may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstancePolicy {
    /// Instances of the pool.
    Warm,
    /// A new instance for every call.
    Fresh,
    /// A new instance for every call, all of them kept for the next attempt: the innermost is the last to be taken.
    FreshKept,
}

/// A transaction on its way through Stores: the attempt, and what the executor lends to it.
pub(crate) struct Context {
    /// Boxed, for it is large and moves often.
    pub attempt: Box<Attempt>,
    pub resources: Box<ExecutorResources>,
}

/// Why an attempt needs a fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FiberNeed {
    /// To wait for other workers.
    Waits,
    /// A guest that it calls is no module, and runs on fibers only.
    Guest,
}

/// Resources that an executor lends to one attempt after another.
pub(crate) struct ExecutorResources {
    components: Arc<Components>,
    pub pool: Pool,
    pub rendezvous: Rendezvous<Box<Context>>,
    pub instances: InstancePolicy,
    /// Whether the attempt used an instance that had served a call before.
    pub reused: bool,
    /// Whether it depends on other workers, whose instances may have served calls before.
    pub distributed: bool,
    /// Whether the outcome may be due to such an earlier call, so that it has to be confirmed in fresh instances.
    pub unconfirmed: bool,
    /// Whether it needs a fiber, and runs on the stack of its thread: it has to be made again.
    pub needs_fiber: Option<FiberNeed>,
    /// Guests under way, each in an instance.
    pub guests: GuestUsage,
    /// Whether they may wait for memory: no epoch waits for them.
    pub patient: bool,
    memory: Arc<GuestMemory>,
    /// The executor's number.
    executor: u64,
    /// What calls have taken, if somebody watches.
    pub profile: Option<Box<Profile>>,
}

impl ExecutorResources {
    /// Of the executor with this number.
    pub fn new(
        executor: u64,
        components: Arc<Components>,
        pool: Pool,
        memory: Arc<GuestMemory>,
        rendezvous: Rendezvous<Box<Context>>,
    ) -> Self {
        ExecutorResources {
            pool,
            components,
            patient: false,
            memory,
            executor,
            rendezvous,
            instances: InstancePolicy::Warm,
            reused: false,
            distributed: false,
            unconfirmed: false,
            needs_fiber: None,
            guests: GuestUsage::default(),
            profile: None,
        }
    }

    /// What a new instance of a set gets of the memory of all.
    fn share(&self, set: InstanceSetId) -> MemoryShare {
        MemoryShare::new(self.memory.clone(), self.pool.app(set).clone(), self.executor, self.patient)
    }

    /// Resets them for the next task.
    pub fn reset(&mut self, instances: InstancePolicy, distributed: bool, guests: GuestUsage) {
        (self.instances, self.distributed, self.guests) = (instances, distributed, guests);
        (self.reused, self.unconfirmed, self.needs_fiber) = (false, false, None);
        if let Some(profile) = &mut self.profile {
            profile.calls.clear();
        }
    }
}

/// A function to be run, and the instances that can run it.
struct Prepared {
    set: InstanceSetId,
    call: Call,
    /// The operator requires a new instance for each call.
    always_fresh: bool,
}

impl Context {
    /// Whether nothing that the guests still do can change the outcome.
    pub fn is_decided(&self) -> bool {
        self.resources.unconfirmed || self.attempt.is_settled()
    }

    /// Runs the function of the attempt's frame in an instance of its component.
    fn invoke(mut self: Box<Self>) -> (Box<Self>, Result<Value, Abort>) {
        let (mut prepared, idle) = match self.prepare(Stack::Thread) {
            Ok(found) => found,
            Err(abort) => return (self, Err(abort)),
        };
        let started = match idle {
            Some(instance) => Ok(instance),
            None if !self.resources.pool.component(prepared.set).runs_on_stack() => {
                let abort = self.need_fiber(FiberNeed::Guest);
                return (self, Err(abort));
            }
            None => Instance::start(self.resources.pool.component(prepared.set), &mut prepared.call),
        };
        let mut instance = match started {
            Ok(instance) => instance,
            Err(abort) => return (self.not_started(&abort), Err(abort)),
        };
        self.enter(&instance);
        let begun = self.begun();
        let (mut context, ended) = instance.call(self, prepared.call);
        if let Some(begun) = begun {
            context.note(begun);
        }
        let result = context.leave(prepared.set, prepared.always_fresh, instance, ended);
        (context, result)
    }

    /// As [`Context::invoke`], on a fiber, so that the guest can be suspended. The host's own stack does not grow with the
    /// nesting of calls.
    async fn invoke_on_fiber(mut self: Box<Self>) -> (Box<Self>, Result<Value, Abort>) {
        let (mut prepared, idle) = match self.prepare(Stack::Fiber) {
            Ok(found) => found,
            Err(abort) => return (self, Err(abort)),
        };
        let started = match idle {
            Some(instance) => Ok(instance),
            None => Instance::start_on_fiber(self.resources.pool.component(prepared.set), &mut prepared.call).await,
        };
        let mut instance = match started {
            Ok(instance) => instance,
            Err(abort) => return (self.not_started(&abort), Err(abort)),
        };
        self.enter(&instance);
        let begun = self.begun();
        let (mut context, ended) = instance.call_on_fiber(self, prepared.call).await;
        if let Some(begun) = begun {
            context.note(begun);
        }
        let result = context.leave(prepared.set, prepared.always_fresh, instance, ended);
        (context, result)
    }

    /// Runs a call to its end, with all that it calls, and waits for other workers where it must.
    pub async fn finish(mut self: Box<Self>, mut next: Next) -> (Box<Self>, Result<Value, Abort>) {
        loop {
            next = match next {
                Next::Invoke => {
                    let (context, result) = self.invoke_on_fiber().await;
                    self = context;
                    self.attempt.invoked(result)
                }
                Next::AwaitRemote(requests) => {
                    let (context, responses) = self.request(requests).await;
                    self = context;
                    self.attempt.answered(responses)
                }
                Next::Done(result) => return (self, result),
            }
        }
    }

    /// Sends requests to other workers and waits for the responses.
    pub async fn request(self: Box<Self>, requests: RemoteRequests) -> (Box<Self>, Vec<RemoteResponse>) {
        let rendezvous = self.resources.rendezvous.clone();
        rendezvous.request(self, requests).await
    }

    /// Whether the function of the attempt's frame, which is about to begin, had better run on the stack of its thread.
    pub fn prefers_stack(&mut self) -> bool {
        self.locate();
        let (operator, function) = (self.attempt.operator().id, self.attempt.frame().function);
        self.resources.pool.prefers_stack(operator, function)
    }

    /// What an operation has found on this worker. If others are needed, the attempt is made again on a fiber.
    pub fn here<T: Default>(&mut self, found: Locality<T>) -> T {
        match found {
            Locality::Local(found) => found,
            Locality::Remote(_) => {
                self.need_fiber(FiberNeed::Waits);
                T::default()
            }
        }
    }

    /// The attempt cannot go on as it runs: whatever its guests still do, it is made again.
    #[cold]
    fn need_fiber(&mut self, need: FiberNeed) -> Abort {
        self.resources.needs_fiber.get_or_insert(need);
        self.attempt
            .doom(Abort::new(Code::Overloaded, "the transaction runs again where it can wait for other workers"))
    }

    /// Finds the function of the attempt's frame, and an instance for it if one is idle.
    fn prepare(&mut self, stack: Stack) -> Result<(Prepared, Option<Box<Instance>>), Abort> {
        let (set, function) = self.locate();
        let operator = self.attempt.operator();
        let always_fresh = operator.isolation == Isolation::Fresh;
        let memory_max = operator.limits.memory.min(limits::MEMORY_BYTES_MAX) as usize;
        if self.attempt.frame().depth >= limits::CALL_DEPTH_MAX {
            let message = format!(
                "calls are nested deeper than {} (the host's bound on limits.call_depth)",
                limits::CALL_DEPTH_MAX
            );
            return Err(Abort::new(Code::LimitExceeded, message));
        }
        let idle = if always_fresh || self.resources.instances != InstancePolicy::Warm {
            None
        } else {
            self.resources.pool.take(set, stack)
        };
        let share = idle.is_none().then(|| self.resources.share(set));
        Ok((Prepared { set, call: Call { function, memory_max, share }, always_fresh }, idle))
    }

    /// An instance did not start. If that is for want of memory, it is tried again beside the epochs.
    fn not_started(mut self: Box<Self>, abort: &Abort) -> Box<Self> {
        if abort.code == Code::Overloaded {
            self.attempt.postpone();
        }
        self
    }

    /// When a call begins, if somebody watches.
    #[inline]
    fn begun(&self) -> Option<Begun> {
        let profile = self.resources.profile.as_ref()?;
        Some(Begun { at: (profile.clock)(), fuel: self.attempt.used().fuel })
    }

    #[cold]
    fn note(&mut self, begun: Begun) {
        if let Some(profile) = &mut self.resources.profile {
            profile.note(&self.attempt, begun);
        }
    }

    /// Accounts for a guest that begins.
    fn enter(&mut self, instance: &Instance) {
        self.resources.reused |= instance.is_warm();
        self.resources.guests.enter(instance.bytes());
    }

    /// Accounts for a guest that has ended, gives its instance back, and decides whether its result counts.
    fn leave(
        &mut self,
        set: InstanceSetId,
        always_fresh: bool,
        instance: Box<Instance>,
        ended: Ended,
    ) -> Result<Value, Abort> {
        self.resources.guests.leave(instance.bytes_at_entry());
        let used_before = self.resources.reused || (self.resources.distributed && !self.attempt.mode().is_fresh());
        if ended.unconfirmed && used_before && !self.is_decided() {
            self.resources.unconfirmed = true;
        }
        if ended.healthy && !always_fresh {
            match self.resources.instances {
                InstancePolicy::Warm | InstancePolicy::FreshKept => self.resources.pool.give(set, instance),
                InstancePolicy::Fresh => self.resources.pool.offer(set, instance),
            }
        }
        if self.resources.unconfirmed {
            // This attempt will not count, so it need not request anything more.
            return Err(Abort::new(Code::Aborted, "the attempt is made again in fresh instances"));
        }
        ended.result
    }

    /// Finds the frame's function, and its instances.
    fn locate(&mut self) -> (InstanceSetId, Arc<KnownFunction>) {
        let (operator, function) = (self.attempt.operator(), self.attempt.frame().function);
        if let Some((set, known)) = self.resources.pool.find(operator, function) {
            return (set, known.clone());
        }
        let resources = &mut *self.resources;
        resources.pool.learn(operator, self.attempt.catalog(), |digest| resources.components.get(digest));
        let (set, known) = resources.pool.find(operator, function).expect("just learned");
        (set, known.clone())
    }
}

/// A transaction whose functions the protocol runs on this thread's own stack.
pub(crate) struct Invocation(Option<Box<Context>>);

impl Invocation {
    pub fn new(context: Box<Context>) -> Self {
        Invocation(Some(context))
    }

    pub fn into_inner(self) -> Box<Context> {
        self.0.expect("each invocation brings the context back")
    }
}

impl Functions for Invocation {
    fn attempt(&mut self) -> &mut Attempt {
        &mut self.0.as_mut().expect("each invocation brings the context back").attempt
    }

    fn invoke(&mut self) -> Result<Value, Abort> {
        let context = self.0.take().expect("each invocation brings the context back");
        let (context, result) = context.invoke();
        self.0 = Some(context);
        result
    }

    fn needs_remote(&mut self) -> Abort {
        self.0.as_mut().expect("each invocation brings the context back").need_fiber(FiberNeed::Waits)
    }
}
