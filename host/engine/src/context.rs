//! A transaction on its way through Stores: the attempt, and the instances that it may use.
//!
//! It moves, as one pointer, from the executor into the Store of the instance that runs, from
//! there into the Store of a callee, and back; so guests reach it without locks or unsafe code.

use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Attempt, Functions};
use styx_protocol::catalog::Isolation;
use styx_protocol::entity::Value;

use crate::config;
use crate::engine::Engine;
use crate::instance::{Call, Instance};
use crate::pool::{KindId, Pool};

/// Which instances an attempt may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instances {
    /// Those of the pool.
    Warm,
    /// A new one for every call.
    Fresh,
    /// A new one for every call, all of them kept for the next attempt: the innermost is the last to be taken.
    FreshKept,
}

/// The attempt and its means.
pub(crate) struct Context {
    pub attempt: Attempt,
    pub means: Box<Means>,
}

/// What an executor lends to one attempt after another.
pub(crate) struct Means {
    engine: Arc<Engine>,
    pub pool: Pool,
    pub instances: Instances,
    /// Whether the attempt used an instance that had served a call before.
    pub reused: bool,
    /// Whether the attempt's outcome may be due to that, so that it must not be believed.
    pub suspect: bool,
}

impl Means {
    pub fn new(engine: Arc<Engine>) -> Self {
        Means { engine, pool: Pool::default(), instances: Instances::Warm, reused: false, suspect: false }
    }
}

impl Context {
    /// Whether nothing that the guests still do can matter.
    pub fn is_decided(&self) -> bool {
        self.means.suspect || self.attempt.is_settled()
    }

    /// Runs the function of the attempt's frame in an instance of its component.
    fn invoke(mut self: Box<Self>) -> (Box<Self>, Result<Value, Abort>) {
        let (kind, function) = self.locate();
        let operator = self.attempt.operator();
        let always_fresh = operator.isolation == Isolation::Fresh;
        let memory_max = operator.limits.memory.min(config::MEMORY_BYTES_MAX) as usize;
        if self.attempt.frame().depth >= config::CALL_DEPTH_MAX {
            let message = format!(
                "calls are nested deeper than {} (the host's bound on limits.call_depth)",
                config::CALL_DEPTH_MAX
            );
            return (self, Err(Abort::new(Code::LimitExceeded, message)));
        }
        let pooled =
            if always_fresh || self.means.instances != Instances::Warm { None } else { self.means.pool.take(kind) };
        let mut instance = match pooled {
            Some(instance) => instance,
            None => match Instance::start(self.means.pool.component(kind), memory_max, &function) {
                Ok(instance) => instance,
                Err(abort) => return (self, Err(abort)),
            },
        };
        self.means.reused |= instance.is_warm();
        let (mut context, ended) = instance.call(self, &Call { function: &function, memory_max });
        if ended.doubtful && context.means.reused && !context.is_decided() {
            context.means.suspect = true;
        }
        if ended.healthy && !always_fresh {
            match context.means.instances {
                Instances::Warm | Instances::FreshKept => context.means.pool.give(kind, instance),
                Instances::Fresh => context.means.pool.offer(kind, instance),
            }
        }
        (context, ended.result)
    }

    /// The instances and the name of the frame's function.
    fn locate(&mut self) -> (KindId, Arc<str>) {
        let (operator, function) = (self.attempt.operator(), self.attempt.frame().function);
        if let Some((kind, name)) = self.means.pool.find(operator, function) {
            return (kind, name.clone());
        }
        let means = &mut *self.means;
        means.pool.learn(operator, |digest| means.engine.ready(digest));
        let (kind, name) = means.pool.find(operator, function).expect("just learned");
        (kind, name.clone())
    }
}

/// Holds the context while the protocol runs functions with it.
pub(crate) struct Carrier(Option<Box<Context>>);

impl Carrier {
    pub fn new(context: Box<Context>) -> Self {
        Carrier(Some(context))
    }
    pub fn into_inner(self) -> Box<Context> {
        self.0.expect("each invocation brings the context back")
    }
}

impl Functions for Carrier {
    fn attempt(&mut self) -> &mut Attempt {
        &mut self.0.as_mut().expect("each invocation brings the context back").attempt
    }

    fn invoke(&mut self) -> Result<Value, Abort> {
        let context = self.0.take().expect("each invocation brings the context back");
        let (context, result) = context.invoke();
        self.0 = Some(context);
        result
    }
}
