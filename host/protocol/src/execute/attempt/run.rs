//! The order of calls inside a transaction.
//!
//! Defined, and independent of placement and timing: as if every `call-async` ran when its caller
//! had returned, in issue order, depth first. Written as steps, so that whoever runs functions can
//! wait between them for other workers.

use styx_planted::{Bug, planted};

use super::execution::{Recorded, Returned};
use super::fragment::IssuedCall;
use super::frame::mix;
use super::site::{CachedCall, RemoteRequest, RemoteRequests, RemoteResponse};
use super::{Attempt, CallRecord, Finding, Frame, LogLevel, Target, Usage, quota};
use crate::abort::{Abort, Code};
use crate::ids::WorkerId;
use crate::sequence::system::SystemFunction;
use crate::sequence::transaction::Transaction;
use crate::state::entity::{Entity, Key, Payload, Value};

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

    /// Other workers are needed, and these functions cannot wait for them: gives what the call ends with. Whoever can make
    /// the attempt again where they can, [`Attempt::anew`], says here that it has to.
    ///
    /// # Panics
    /// As it stands, for where one worker owns everything.
    fn needs_remote(&mut self) -> Abort {
        panic!("an attempt of a single worker asked another")
    }
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

/// Runs a call, and what it calls, to its end from where [`Attempt::start`] or [`Attempt::serve_call`] has left it.
///
/// # Errors
/// Why the transaction ended without effect.
pub fn finish<F: Functions + ?Sized>(functions: &mut F, mut next: Next) -> Result<Value, Abort> {
    loop {
        next = match next {
            Next::Invoke => {
                let result = functions.invoke();
                functions.attempt().invoked(result)
            }
            Next::Done(result) => return result,
            Next::AwaitRemote(_) => {
                let abort = functions.needs_remote();
                functions.attempt().answered(vec![RemoteResponse::Failed(abort)])
            }
        }
    }
}

impl Attempt {
    /// Begins with the call that the request asks for.
    pub fn start(&mut self) -> Next {
        match self.root() {
            Ok(root) => {
                if self.site.is_some() {
                    self.enter(&root.target, None);
                }
                self.start_call(root)
            }
            Err(abort) => Next::Done(Err(self.doom(abort))),
        }
    }

    /// Begins a call that was issued on another worker.
    pub fn serve_call(&mut self, target: Target, issuer: WorkerId) -> Next {
        let recorded = self.enter(&target, Some(issuer));
        self.start_call(IssuedCall { target, recorded })
    }

    fn enter(&mut self, target: &Target, issuer: Option<WorkerId>) -> Recorded {
        self.execution.enter(CachedCall { target: target.clone(), issuer, returned: Returned::default() })
    }

    fn start_call(&mut self, call: IssuedCall) -> Next {
        self.fragment.open();
        self.go(call, true)
    }

    /// A synchronous call from the running function.
    pub fn call(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Next {
        match self.target(operator, key, function, args, true) {
            Ok(call) => self.start_call(call),
            Err(abort) => Next::Done(Err(abort)),
        }
    }

    /// Issues an asynchronous call: it runs after the running function has returned.
    pub fn call_async(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) {
        if let Ok(call) = self.target(operator, key, function, args, false) {
            self.fragment.queued.push(call);
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

    /// A call of the innermost level is over: the next of its asynchronous calls runs, or the level ends.
    fn returned(&mut self, result: Result<Value, Abort>) -> Next {
        match result {
            Ok(value) => self.fragment.returned(value),
            Err(abort) => return self.fail(abort),
        }
        self.proceed()
    }

    /// The next queued call of the innermost level, or its end.
    fn proceed(&mut self) -> Next {
        while let Some(next) = self.fragment.next() {
            // Strictly, or with what it calls running there already, its turn is waited for.
            let mode = self.mode();
            if let Some(owner) = self.elsewhere(&next.target.entity)
                && !(mode.is_strict() || mode.is_cached())
                && self.doom.is_none()
            {
                let site = self.site.as_mut().expect("there is an elsewhere");
                site.report.add(Finding::Branched);
                site.outgoing.push((owner, next.target));
                continue;
            }
            return self.go(next, false);
        }
        Next::Done(Ok(self.fragment.close().expect("the call itself came first")))
    }

    /// Starts a call, here or elsewhere.
    fn go(&mut self, call: IssuedCall, awaited: bool) -> Next {
        if let Some(doom) = &self.doom {
            let doom = doom.clone();
            return self.fail(doom);
        }
        if self.execution.drifted {
            return self.fail(rescheduled());
        }
        if let Some(owner) = self.elsewhere(&call.target.entity) {
            debug_assert!(awaited || self.mode().is_strict() || self.mode().is_cached());
            let asked = RemoteRequest { used: self.quota.used, ..call.target.asked() };
            return Next::AwaitRemote(RemoteRequests { operations: vec![(owner, asked)] });
        }
        let is_root = call.target.depth == 0;
        self.fragment.frames.push(Frame::new(call));
        // Functions call none of the system's.
        if is_root && let Some(function) = self.operator().function(self.frame().function).system {
            return self.run_system(function);
        }
        Next::Invoke
    }

    /// Runs a function of the system's.
    #[cold]
    fn run_system(&mut self, function: SystemFunction) -> Next {
        match function {
            SystemFunction::Put => self.put_own_shared(self.frame().args.clone()),
            SystemFunction::Delete => self.delete_own(),
            SystemFunction::Migrate => return Next::Invoke,
        }
        self.invoked(Ok(Value::default()))
    }

    fn fail(&mut self, abort: Abort) -> Next {
        self.fragment.close();
        Next::Done(Err(abort))
    }

    fn leave(&mut self, result: Result<Value, Abort>) -> Result<Value, Abort> {
        let result = result.map_err(|abort| self.own_fault(abort));
        let payload_max = self.operator().limits.payload;
        let Frame { recorded, place, issued, .. } = self.fragment.frames.pop().expect("a function was running");
        match result {
            Ok(value) => {
                self.bounded(quota::admit_result(value.len(), payload_max));
                if let Some(doom) = &self.doom {
                    return Err(doom.clone());
                }
                if !self.admits(|first| first.has_returned(recorded, place, issued)) {
                    return Err(rescheduled());
                }
                self.execution.returned(recorded, issued);
                Ok(value)
            }
            Err(abort) => {
                self.reword(&abort);
                Err(self.doom(abort))
            }
        }
    }

    /// The end of the running function, as its caller is told: what a function of the app passes to another is the
    /// app's fault, never the client's. A bug is logged where it happened.
    #[cold]
    fn own_fault(&mut self, mut abort: Abort) -> Abort {
        if abort.code == Code::BadArguments && self.frame().depth > 0 {
            let message =
                format!("{} was called with arguments that it does not take: {}", self.running(), abort.message);
            abort = Abort::new(Code::GuestException, message);
        }
        if abort.code.is_bug() && !self.is_doomed() {
            self.log(LogLevel::Warn, abort.to_string());
        }
        abort
    }

    /// The call that the request asks for.
    fn root(&mut self) -> Result<IssuedCall, Abort> {
        let Transaction { tid, request, .. } = &self.transaction;
        if let Some(abort) = self.catalog.quarantine().refusal(request.id, Some(*tid), &self.app)
            && !planted(Bug::QuarantinedExecuted)
        {
            return Err(abort);
        }
        let Some(operator) = self.catalog.operator(request.operator) else {
            return Err(Abort::new(Code::UnknownOperator, "the operator is no longer deployed"));
        };
        let Some(function) = operator.requested_index(&request.function) else {
            let message = format!("operator \"{}\" has no function \"{}\"", operator.name, request.function);
            return Err(Abort::new(Code::UnknownFunction, message));
        };
        let target = Target {
            entity: Entity::new(&self.base.layout(), operator.id, operator.composite, request.key.clone()),
            function,
            args: request.args.clone(),
            read_only: operator.function(function).read_only || self.transaction.query,
            depth: 0,
            place: mix(self.base.layout().seed ^ mix(self.transaction.tid.0)),
            path: self.site.is_some().then_some(super::Path::ROOT),
        };
        self.issue(target)
    }

    /// Resolves a call from the running function; one that cannot be made dooms the transaction.
    fn target(
        &mut self,
        operator: &str,
        key: &str,
        function: &str,
        args: &[u8],
        synchronous: bool,
    ) -> Result<IssuedCall, Abort> {
        if let Some(doom) = &self.doom {
            return Err(doom.clone());
        }
        if self.execution.drifted {
            return Err(rescheduled());
        }
        if !self.room_for_bytes(args.len()) {
            return Err(self.doom.clone().expect("there was no room"));
        }
        let target = match self.resolve(operator, key, function, args, synchronous) {
            Ok(target) => target,
            Err(abort) => return Err(self.refused(abort)),
        };
        let call = self.issue(target)?;
        let frame = self.frame_mut();
        frame.issued += 1;
        frame.synchronous += u32::from(synchronous);
        Ok(call)
    }

    /// Dooms the transaction for a call that cannot be made. That nobody is called so is a bug of who calls; what two apps
    /// have not agreed upon, their developers should know of.
    #[cold]
    fn refused(&mut self, mut abort: Abort) -> Abort {
        if matches!(abort.code, Code::UnknownApp | Code::UnknownOperator | Code::UnknownFunction) {
            abort = Abort::new(Code::GuestException, format!("{} called nobody: {}", self.running(), abort.message));
        }
        if abort.code.is_bug() && !self.is_doomed() {
            self.log(LogLevel::Warn, abort.to_string());
        }
        self.doom(abort)
    }

    fn resolve(
        &self,
        operator: &str,
        key: &str,
        function: &str,
        args: &[u8],
        synchronous: bool,
    ) -> Result<Target, Abort> {
        let (found, index) = self.catalog.callee(self.operator(), operator, function)?;
        quota::admit_key(key.len())?;
        quota::admit_args(args.len(), found.limits.payload)?;
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
            entity: Entity::new(&self.base.layout(), found.id, found.composite, Key::from(key)),
            function: index,
            args: args.into(),
            read_only: read_only || found.function(index).read_only,
            depth: caller.depth + 1,
            place,
            path,
        })
    }

    /// Counts and records a call, and compares it with the cached call graph.
    fn issue(&mut self, target: Target) -> Result<IssuedCall, Abort> {
        self.quota.admit_call(target.depth).map_err(|abort| self.doom(abort))?;
        self.charge(Usage { calls: 1, ..Usage::default() });
        let record = CallRecord::of(&target);
        if !self.admits(|first| first.has_issued(&record)) {
            return Err(rescheduled());
        }
        let recorded = self.execution.issue(record);
        Ok(IssuedCall { target, recorded })
    }
}

fn rescheduled() -> Abort {
    Abort::new(Code::Aborted, "the transaction is rescheduled")
}
