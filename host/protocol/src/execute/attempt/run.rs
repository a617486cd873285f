//! The order of calls inside a transaction.
//!
//! Defined, and independent of placement and timing: as if every `call-async` ran when its caller
//! had returned, in issue order, depth first. Written as steps, so that whoever runs functions can
//! wait between them for other workers.

use super::frame::mix;
use super::site::{CachedCall, RemoteRequests, RemoteResponse, Usage};
use super::{Attempt, CallRecord, Frame, Payload, RemoteRequest, Target, append};
use crate::abort::{Abort, Code};
use crate::ids::WorkerId;
use crate::state::entity::{Entity, Key, Value};

/// What comes next for whoever runs an attempt's functions.
#[derive(Debug)]
pub enum Next {
    /// Run the function of [`Attempt::frame`], then say [`Attempt::invoked`].
    Invoke,
    /// Ask other workers, then say [`Attempt::answered`].
    AwaitRemote(RemoteRequests),
    /// The call and all that it called here is over.
    Done(Result<Value, Abort>),
}

/// A call under way, with the asynchronous calls that follow it.
#[derive(Debug)]
pub(super) struct Level {
    /// Targets queued before it.
    queued_from: usize,
    /// Targets queued before the function that runs.
    issued_from: usize,
    /// What the call came to, once it has returned and its asynchronous calls run.
    result: Option<Value>,
}

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

/// Runs a whole transaction where one worker owns everything: its root function and everything
/// that it calls.
///
/// # Errors
/// Why the transaction ended without effect.
pub fn run<F: Functions + ?Sized>(functions: &mut F) -> Result<Value, Abort> {
    let next = functions.attempt().start();
    finish(functions, next)
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
    let next = functions.attempt().call(operator, key, function, args);
    finish(functions, next)
}

fn finish<F: Functions + ?Sized>(functions: &mut F, mut next: Next) -> Result<Value, Abort> {
    loop {
        next = match next {
            Next::Invoke => {
                let result = functions.invoke();
                functions.attempt().invoked(result)
            }
            Next::Done(result) => return result,
            Next::AwaitRemote(_) => panic!("an attempt of a single worker asked another"),
        }
    }
}

impl Attempt {
    /// Begins with the call that the request asks for.
    pub fn start(&mut self) -> Next {
        match self.root() {
            Ok(root) => {
                self.enter(&root, None);
                self.start_call(root)
            }
            Err(abort) => Next::Done(Err(self.doom(abort))),
        }
    }

    /// Begins a call that was issued on another worker.
    pub fn serve_call(&mut self, target: Target, issuer: WorkerId) -> Next {
        self.enter(&target, Some(issuer));
        self.start_call(target)
    }

    fn enter(&mut self, target: &Target, issuer: Option<WorkerId>) {
        if self.site.is_some() {
            append(&mut self.entered, 1, CachedCall { target: target.clone(), issuer });
        }
    }

    fn start_call(&mut self, target: Target) -> Next {
        self.open_level();
        self.go(target, true)
    }

    /// A synchronous call from the running function.
    pub fn call(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Next {
        match self.target(operator, key, function, args, true) {
            Ok(target) => self.start_call(target),
            Err(abort) => Next::Done(Err(abort)),
        }
    }

    /// Issues an asynchronous call: it runs after the running function has returned.
    pub fn call_async(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) {
        if let Ok(target) = self.target(operator, key, function, args, false) {
            self.fragment.queued.push(target);
        }
    }

    /// The function of [`Attempt::frame`] has ended.
    pub fn invoked(&mut self, result: Result<Value, Abort>) -> Next {
        let result = self.leave(result);
        self.returned(result)
    }

    /// Other workers have answered [`Next::AwaitRemote`].
    pub fn answered(&mut self, answers: Vec<RemoteResponse>) -> Next {
        let result = match self.single(answers) {
            RemoteResponse::Called(Ok(Payload(value))) => match &self.doom {
                Some(doom) => Err(doom.clone()),
                None => Ok(value),
            },
            RemoteResponse::Called(Err(abort)) => {
                self.reword(&abort);
                Err(self.doom(abort))
            }
            RemoteResponse::Failed(abort) => Err(abort),
            RemoteResponse::Value(_) | RemoteResponse::Entries(_) | RemoteResponse::Noted => {
                panic!("a call was answered with something else")
            }
        };
        self.returned(result)
    }

    fn open_level(&mut self) {
        let queued = self.fragment.queued.len();
        self.fragment.levels.push(Level { queued_from: queued, issued_from: queued, result: None });
    }

    fn level(&mut self) -> &mut Level {
        self.fragment.levels.last_mut().expect("a call is under way")
    }

    /// A call of the current level is over: the next of its asynchronous calls runs, or the level ends.
    fn returned(&mut self, result: Result<Value, Abort>) -> Next {
        let value = match result {
            Ok(value) => value,
            Err(abort) => return self.close_level(Err(abort)),
        };
        let level = self.level();
        level.result.get_or_insert(value);
        // Depth first without recursion: what a call issued runs before what was issued before it,
        // so the queue is kept in reverse, next call last.
        let issued_from = level.issued_from;
        self.fragment.queued[issued_from..].reverse();
        self.proceed()
    }

    /// The next queued call of the current level, or its end.
    fn proceed(&mut self) -> Next {
        loop {
            let queued = self.fragment.queued.len();
            let level = self.level();
            if queued == level.queued_from {
                let result = level.result.take().expect("the call itself came first");
                return self.close_level(Ok(result));
            }
            level.issued_from = queued - 1;
            let next = self.fragment.queued.pop().expect("longer than its start");
            // Strictly, or with what it calls running there already, its turn is waited for.
            let mode = self.mode();
            if let Some(owner) = self.elsewhere(&next.entity)
                && !(mode.strict || mode.cached)
                && self.doom.is_none()
            {
                let site = self.site.as_mut().expect("there is an elsewhere");
                site.report.branched = true;
                append(&mut site.outgoing, 1, (owner, next));
                continue;
            }
            return self.go(next, false);
        }
    }

    /// Starts a call, here or elsewhere.
    fn go(&mut self, target: Target, awaited: bool) -> Next {
        if let Some(doom) = &self.doom {
            let doom = doom.clone();
            return self.close_level(Err(doom));
        }
        if self.drifted {
            return self.close_level(Err(rescheduled()));
        }
        if let Some(owner) = self.elsewhere(&target.entity) {
            debug_assert!(awaited || self.mode().strict || self.mode().cached);
            let asked = RemoteRequest { used: self.usage, ..target.asked() };
            return Next::AwaitRemote(RemoteRequests { operations: vec![(owner, asked)] });
        }
        self.fragment.frames.push(Frame::new(target));
        Next::Invoke
    }

    fn close_level(&mut self, result: Result<Value, Abort>) -> Next {
        let level = self.fragment.levels.pop().expect("a call is under way");
        self.fragment.queued.truncate(level.queued_from);
        Next::Done(result)
    }

    fn leave(&mut self, result: Result<Value, Abort>) -> Result<Value, Abort> {
        let frame = self.fragment.frames.pop().expect("a function was running");
        match result {
            Ok(value) => {
                if let Some(doom) = &self.doom {
                    return Err(doom.clone());
                }
                if value.len() > self.limits.payload as usize {
                    let message = format!(
                        "a result of {} bytes is over the limit of {} (limits.payload)",
                        value.len(),
                        self.limits.payload
                    );
                    return Err(self.doom(Abort::new(Code::LimitExceeded, message)));
                }
                let left = (frame.place, frame.issued);
                let mut cursor = self.cursors.1;
                let same = self.admits(|cached| cached.has_left(&mut cursor, left));
                self.cursors.1 = cursor;
                if !same {
                    return Err(rescheduled());
                }
                self.left.push(left);
                Ok(value)
            }
            Err(abort) => {
                self.reword(&abort);
                Err(self.doom(abort))
            }
        }
    }

    /// The call that the request asks for.
    fn root(&mut self) -> Result<Target, Abort> {
        let request = &self.transaction.request;
        let Some(operator) = self.catalog.operator(request.operator) else {
            return Err(Abort::new(Code::UnknownOperator, "the operator is no longer deployed"));
        };
        let Some(function) = operator.function_index(&request.function) else {
            let message = format!("operator \"{}\" has no function \"{}\"", operator.name, request.function);
            return Err(Abort::new(Code::UnknownFunction, message));
        };
        let target = Target {
            entity: Entity::new(&self.layout, operator.id, operator.composite, request.key.clone()),
            function,
            args: request.args.clone(),
            read_only: operator.function(function).read_only || self.transaction.query,
            depth: 0,
            place: mix(self.layout.seed ^ mix(self.transaction.tid.0)),
            path: self.site.is_some().then_some(super::Path::ROOT),
        };
        self.issue(&target)?;
        Ok(target)
    }

    /// Resolves a call from the running function; one that cannot be made dooms the transaction.
    fn target(
        &mut self,
        operator: &str,
        key: &str,
        function: &str,
        args: &[u8],
        synchronous: bool,
    ) -> Result<Target, Abort> {
        if let Some(doom) = &self.doom {
            return Err(doom.clone());
        }
        if self.drifted {
            return Err(rescheduled());
        }
        if !self.room_for_bytes(args.len()) {
            return Err(self.doom.clone().expect("there was no room"));
        }
        let target = self.resolve(operator, key, function, args, synchronous).map_err(|abort| self.doom(abort))?;
        self.issue(&target)?;
        let frame = self.frame_mut();
        frame.issued += 1;
        frame.synchronous += u32::from(synchronous);
        Ok(target)
    }

    fn resolve(
        &self,
        operator: &str,
        key: &str,
        function: &str,
        args: &[u8],
        synchronous: bool,
    ) -> Result<Target, Abort> {
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
        let (place, path) = caller.next_call(synchronous);
        Ok(Target {
            entity: Entity::new(&self.layout, found.id, found.composite, Key::from(key)),
            function: index,
            args: args.into(),
            read_only: read_only || found.function(index).read_only,
            depth: caller.depth + 1,
            place,
            path,
        })
    }

    /// Counts and records a call, and compares it with the cached call graph.
    fn issue(&mut self, target: &Target) -> Result<(), Abort> {
        if target.depth >= self.limits.call_depth {
            let message = format!("calls are nested deeper than {} (limits.call_depth)", self.limits.call_depth);
            return Err(self.doom(Abort::new(Code::LimitExceeded, message)));
        }
        if self.usage.calls >= self.limits.calls {
            let message = format!("the transaction makes more than {} calls (limits.calls)", self.limits.calls);
            return Err(self.doom(Abort::new(Code::LimitExceeded, message)));
        }
        self.charge(Usage { calls: 1, ..Usage::default() });
        let record = CallRecord::of(target);
        let mut cursor = self.cursors.0;
        let same = self.admits(|cached| cached.has_issued(&mut cursor, &record));
        self.cursors.0 = cursor;
        if !same {
            return Err(rescheduled());
        }
        append(&mut self.calls, 2, record);
        Ok(())
    }
}

fn rescheduled() -> Abort {
    Abort::new(Code::Aborted, "the transaction is rescheduled")
}
