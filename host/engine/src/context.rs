//! A transaction on its way through Stores: the attempt, and the instances that it may use.
//!
//! It moves, as one pointer, from the executor into the Store of the instance that runs, from
//! there into the Store of a callee, and back; so guests reach it without locks or unsafe code.

use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Attempt, Functions, Next};
use styx_protocol::catalog::Isolation;
use styx_protocol::entity::Value;

use crate::config;
use crate::engine::Engine;
use crate::instance::{Call, Ended, Instance};
use crate::parking::Exchange;
use crate::pool::{KindId, Pool};
use crate::room::Guests;

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
    /// Boxed for good: it is large, and goes from hand to hand.
    pub attempt: Box<Attempt>,
    pub means: Box<Means>,
}

/// What an executor lends to one attempt after another.
pub(crate) struct Means {
    engine: Arc<Engine>,
    pub pool: Pool,
    pub exchange: Exchange,
    pub instances: Instances,
    /// Whether the attempt used an instance that had served a call before.
    pub reused: bool,
    /// Whether it knows something of other workers, whose instances may have had a past.
    pub apart: bool,
    /// Whether the attempt's outcome may be due to such a past, so that it must not be believed.
    pub suspect: bool,
    /// Guests under way, each in an instance.
    pub guests: Guests,
}

impl Means {
    pub fn new(engine: Arc<Engine>, exchange: Exchange) -> Self {
        Means {
            pool: Pool::new(engine.idle_max()),
            engine,
            exchange,
            instances: Instances::Warm,
            reused: false,
            apart: false,
            suspect: false,
            guests: Guests::default(),
        }
    }

    /// For a piece of work that begins.
    pub fn renew(&mut self, instances: Instances, apart: bool, guests: Guests) {
        (self.instances, self.apart, self.guests) = (instances, apart, guests);
        (self.reused, self.suspect) = (false, false);
    }
}

/// How a function is to be run.
struct Job {
    kind: KindId,
    call: Call,
    /// Its operator wants a new instance for each call.
    always_fresh: bool,
}

impl Context {
    /// Whether nothing that the guests still do can matter.
    pub fn is_decided(&self) -> bool {
        self.means.suspect || self.attempt.is_settled()
    }

    /// Runs the function of the attempt's frame in an instance of its component.
    fn invoke(mut self: Box<Self>) -> (Box<Self>, Result<Value, Abort>) {
        let (job, idle) = match self.prepare() {
            Ok(prepared) => prepared,
            Err(abort) => return (self, Err(abort)),
        };
        let started = match idle {
            Some(instance) => Ok(instance),
            None => Instance::start(self.means.pool.component(job.kind), &job.call),
        };
        let mut instance = match started {
            Ok(instance) => instance,
            Err(abort) => return (self, Err(abort)),
        };
        self.enter(&instance);
        let (mut context, ended) = instance.call(self, &job.call);
        let result = context.leave(&job, instance, ended);
        (context, result)
    }

    /// The same on a fiber of its own, so that the guest can wait. The host's own stack does not
    /// grow with the nesting of calls.
    async fn invoke_on_fiber(mut self: Box<Self>) -> (Box<Self>, Result<Value, Abort>) {
        let (job, idle) = match self.prepare() {
            Ok(prepared) => prepared,
            Err(abort) => return (self, Err(abort)),
        };
        let started = match idle {
            Some(instance) => Ok(instance),
            None => Instance::start_on_fiber(self.means.pool.component(job.kind), &job.call).await,
        };
        let mut instance = match started {
            Ok(instance) => instance,
            Err(abort) => return (self, Err(abort)),
        };
        self.enter(&instance);
        let (mut context, ended) = instance.call_on_fiber(self, &job.call).await;
        let result = context.leave(&job, instance, ended);
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
                Next::AwaitRemote(ask) => {
                    let (context, answers) = Exchange::ask(self, ask).await;
                    self = context;
                    self.attempt.answered(answers)
                }
                Next::Done(result) => return (self, result),
            }
        }
    }

    /// How to run the function of the attempt's frame, and an instance if one is idle.
    fn prepare(&mut self) -> Result<(Job, Option<Instance>), Abort> {
        let (kind, function) = self.locate();
        let operator = self.attempt.operator();
        let always_fresh = operator.isolation == Isolation::Fresh;
        let memory_max = operator.limits.memory.min(config::MEMORY_BYTES_MAX) as usize;
        if self.attempt.frame().depth >= config::CALL_DEPTH_MAX {
            let message = format!(
                "calls are nested deeper than {} (the host's bound on limits.call_depth)",
                config::CALL_DEPTH_MAX
            );
            return Err(Abort::new(Code::LimitExceeded, message));
        }
        let idle =
            if always_fresh || self.means.instances != Instances::Warm { None } else { self.means.pool.take(kind) };
        Ok((Job { kind, call: Call { function, memory_max }, always_fresh }, idle))
    }

    /// A guest begins.
    fn enter(&mut self, instance: &Instance) {
        self.means.reused |= instance.is_warm();
        self.means.guests.enter(instance.bytes());
    }

    /// A guest has ended.
    fn leave(&mut self, job: &Job, instance: Instance, ended: Ended) -> Result<Value, Abort> {
        self.means.guests.leave(instance.bytes_at_entry());
        let past = self.means.reused || (self.means.apart && !self.attempt.mode().fresh);
        if ended.doubtful && past && !self.is_decided() {
            self.means.suspect = true;
        }
        if ended.healthy && !job.always_fresh {
            match self.means.instances {
                Instances::Warm | Instances::FreshKept => self.means.pool.give(job.kind, instance),
                Instances::Fresh => self.means.pool.offer(job.kind, instance),
            }
        }
        if self.means.suspect {
            // Nothing comes of this attempt: it need not reach for anybody any more.
            Err(Abort::new(Code::Aborted, "the attempt is made again in fresh instances"))
        } else {
            ended.result
        }
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
