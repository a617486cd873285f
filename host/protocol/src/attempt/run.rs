//! The order of calls inside a transaction.
//!
//! Defined, and independent of placement and timing: as if every `call-async` ran when its caller
//! had returned, in issue order, depth first.

use super::frame::mix;
use super::{Attempt, CallRecord, Frame, Target};
use crate::abort::{Abort, Code};
use crate::entity::{Entity, Key, Value};
use crate::mutants::{Bug, planted};

/// Something that can run functions: the engine, or a toy language. It carries the attempt, so
/// that an implementor may move it to where a running guest can reach it, and back.
pub trait Functions {
    /// The attempt in progress.
    fn attempt(&mut self) -> &mut Attempt;

    /// Runs the function of [`Attempt::frame`] and returns its result. State, calls and the rest
    /// go through the attempt; synchronous calls through [`call`].
    ///
    /// # Errors
    /// A logic abort, a trap or an exceeded limit; each ends the transaction without effect.
    fn invoke(&mut self) -> Result<Value, Abort>;
}

/// Runs a whole transaction: its root function and everything that it calls.
///
/// # Errors
/// Why the transaction ended without effect.
pub fn run<F: Functions + ?Sized>(functions: &mut F) -> Result<Value, Abort> {
    let root = functions.attempt().root()?;
    run_target(functions, root)
}

/// A synchronous call from the running function, inside the same transaction.
///
/// # Errors
/// The callee's failure. The transaction is doomed then: the caller may add to the message, not more.
pub fn call<F: Functions + ?Sized>(
    functions: &mut F,
    operator: &str,
    key: &str,
    function: &str,
    args: &[u8],
) -> Result<Value, Abort> {
    let target = functions.attempt().target(operator, key, function, args)?;
    run_target(functions, target).map_err(|abort| functions.attempt().doom(abort))
}

fn run_target<F: Functions + ?Sized>(functions: &mut F, target: Target) -> Result<Value, Abort> {
    let queued_from = functions.attempt().queued.len();
    let result = run_one(functions, target)?;
    // Depth first without recursion: what a call issued runs before what was issued before it, so
    // the queue is kept in reverse, next call last.
    if !planted(Bug::CallsReversed) {
        functions.attempt().queued[queued_from..].reverse();
    }
    while functions.attempt().queued.len() > queued_from {
        let attempt = functions.attempt();
        let next = attempt.queued.pop().expect("longer than its start");
        let issued_from = attempt.queued.len();
        run_one(functions, next)?;
        functions.attempt().queued[issued_from..].reverse();
    }
    Ok(result)
}

fn run_one<F: Functions + ?Sized>(functions: &mut F, target: Target) -> Result<Value, Abort> {
    functions.attempt().enter(target)?;
    let result = functions.invoke();
    let attempt = functions.attempt();
    attempt.leave();
    match result {
        Ok(value) => match &attempt.doom {
            Some(doom) => Err(doom.clone()),
            None if value.len() > attempt.limits.payload as usize => {
                let message = format!(
                    "a result of {} bytes is over the limit of {} (limits.payload)",
                    value.len(),
                    attempt.limits.payload
                );
                Err(attempt.doom(Abort::new(Code::LimitExceeded, message)))
            }
            None => Ok(value),
        },
        Err(abort) => {
            attempt.reword(&abort);
            Err(attempt.doom(abort))
        }
    }
}

impl Attempt {
    /// The call that the request asks for.
    fn root(&self) -> Result<Target, Abort> {
        let request = &self.transaction.request;
        let Some(operator) = self.catalog.operator(request.operator) else {
            return Err(Abort::new(Code::UnknownOperator, "the operator is no longer deployed"));
        };
        let Some(function) = operator.function_index(&request.function) else {
            let message = format!("operator \"{}\" has no function \"{}\"", operator.name, request.function);
            return Err(Abort::new(Code::UnknownFunction, message));
        };
        let read_only = operator.function(function).read_only || self.transaction.query;
        let entity = Entity::new(&self.layout, operator.id, operator.composite, request.key.clone());
        Ok(Target { entity, function, args: request.args.clone(), read_only, depth: 0 })
    }

    /// Issues an asynchronous call: it runs after the running function has returned.
    pub fn call_async(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) {
        if self.calls.len() + self.queued.len() >= self.limits.calls as usize {
            self.doom_calls();
            return;
        }
        if let Ok(target) = self.target(operator, key, function, args) {
            self.queued.push(target);
        }
    }

    /// Resolves a call from the running function; one that cannot be made dooms the transaction.
    fn target(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<Target, Abort> {
        if let Some(doom) = &self.doom {
            return Err(doom.clone());
        }
        if self.drifted {
            return Err(Abort::new(Code::Aborted, "the transaction is rescheduled"));
        }
        if !self.room_for_bytes(args.len()) {
            return Err(self.doom.clone().expect("there was no room"));
        }
        self.resolve(operator, key, function, args).map_err(|abort| self.doom(abort))
    }

    fn resolve(&self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<Target, Abort> {
        let found = self.catalog.find(&self.app, operator)?;
        let index = found.function_index(function).ok_or_else(|| {
            Abort::new(Code::UnknownFunction, format!("operator \"{operator}\" has no function \"{function}\""))
        })?;
        if key.len() > super::KEY_BYTES_MAX {
            return Err(Abort::new(
                Code::LimitExceeded,
                format!("a key of {} bytes is over the limit of {}", key.len(), super::KEY_BYTES_MAX),
            ));
        }
        if args.len() > self.limits.payload as usize {
            let message = format!(
                "arguments of {} bytes are over the limit of {} (limits.payload)",
                args.len(),
                self.limits.payload
            );
            return Err(Abort::new(Code::LimitExceeded, message));
        }
        let caller = self.frame();
        let read_only = caller.read_only;
        if read_only && !found.function(index).read_only {
            let message = format!(
                "{} is declared read-only and called {}, which is not",
                self.running(),
                found.function(index).qualified
            );
            return Err(Abort::new(Code::ReadOnly, message));
        }
        Ok(Target {
            entity: Entity::new(&self.layout, found.id, found.composite, Key::from(key)),
            function: index,
            args: args.into(),
            read_only: read_only || found.function(index).read_only,
            depth: caller.depth + 1,
        })
    }

    /// Starts a call: counts it, records it, checks it against the cached call graph.
    fn enter(&mut self, target: Target) -> Result<(), Abort> {
        if let Some(doom) = &self.doom {
            return Err(doom.clone());
        }
        if target.depth >= self.limits.call_depth {
            let message = format!("calls are nested deeper than {} (limits.call_depth)", self.limits.call_depth);
            return Err(self.doom(Abort::new(Code::LimitExceeded, message)));
        }
        if self.calls.len() >= self.limits.calls as usize {
            return Err(self.doom_calls());
        }
        let record = CallRecord { entity: target.entity.clone(), function: target.function, args: target.args.clone() };
        let at = self.calls.len();
        if !self.admits(|cached| cached.calls.get(at) == Some(&record)) {
            return Err(Abort::new(Code::Aborted, "the transaction is rescheduled"));
        }
        // Every call has a generator of its own: the same whatever ran before it, and where.
        let seed =
            mix(self.layout.seed ^ mix(self.transaction.tid.0) ^ (at as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93));
        self.calls.push(record);
        self.frames.push(Frame::new(target, seed));
        Ok(())
    }

    fn leave(&mut self) {
        self.frames.pop().expect("a function was running");
    }

    fn doom_calls(&mut self) -> Abort {
        let message = format!("the transaction makes more than {} calls (limits.calls)", self.limits.calls);
        self.doom(Abort::new(Code::LimitExceeded, message))
    }
}
