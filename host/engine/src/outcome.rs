//! Outcome of an invocation, in the protocol's words.

use styx_protocol::abort::{Abort, Code};
use wasmtime::Trap;
use wasmtime::component::{ComponentType, Lift, Lower};

use crate::guest::Denied;
use crate::limits::TABLE_ELEMENTS_MAX;

/// `styx:guest/types.failure`.
#[derive(Clone, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(crate) struct Failure {
    pub code: String,
    pub message: String,
}

/// Abort that a guest returned in good order. It speaks for itself only: most codes are the
/// host's, and that it ran out of memory counts only if it was denied some.
pub(crate) fn of_failure(failure: Failure, denied: bool) -> Abort {
    let says = |code: Code| failure.code == code.as_str();
    let code = match () {
        () if says(Code::BadArguments) => Code::BadArguments,
        () if says(Code::LimitExceeded) && denied => Code::LimitExceeded,
        () => Code::Aborted,
    };
    let mut abort = Abort::new(code, failure.message);
    if abort.message.is_empty() {
        abort.message = "the function gave no reason".into();
    }
    abort
}

impl From<Abort> for Failure {
    fn from(abort: Abort) -> Self {
        Failure { code: abort.code.as_str().to_owned(), message: abort.message }
    }
}

/// What a guest was bounded by when it trapped.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub denied: Option<Denied>,
    /// Bytes of linear memory.
    pub memory_max: usize,
    pub fuel: FuelBound,
}

/// Where a guest's fuel comes from, and how much that is.
#[derive(Clone, Copy)]
pub(crate) enum FuelBound {
    /// The host gives it, alike to all apps.
    Host(u64),
    /// `limits.fuel` of its app.
    Invocation(u64),
    /// `limits.transaction_fuel` of its app, for all invocations of the transaction together.
    Transaction(u64),
}

/// Abort for the caller of a guest that trapped. `running` is the function, as `operator.function`.
pub(crate) fn of_trap(error: &wasmtime::Error, running: &str, bounds: Bounds) -> Abort {
    match bounds.denied {
        Some(Denied::Memory) => {
            let most = bounds.memory_max >> 20;
            return Abort::new(
                Code::LimitExceeded,
                format!("{running} needs more memory than {most} MiB (limits.memory)"),
            );
        }
        Some(Denied::Together) => {
            let message = format!(
                "{running} and what calls it need more memory together than a transaction may have (--guest-memory)"
            );
            return Abort::new(Code::LimitExceeded, message);
        }
        // Nobody is told: what is stopped for it runs again, beside the epochs.
        Some(Denied::Now) => return Abort::new(Code::Overloaded, format!("{running} waits for memory")),
        Some(Denied::Table) => {
            let message = format!("{running} needs a table of more than {TABLE_ELEMENTS_MAX} elements");
            return Abort::new(Code::LimitExceeded, message);
        }
        None => {}
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => {
            let why = match bounds.fuel {
                FuelBound::Host(fuel) => format!("{fuel} units, as many as every app has"),
                FuelBound::Invocation(fuel) => format!("{fuel} units (limits.fuel)"),
                FuelBound::Transaction(fuel) => {
                    format!("what was left of {fuel} units for the transaction (limits.transaction_fuel)")
                }
            };
            Abort::new(Code::OutOfFuel, format!("{running} used up its fuel: {why}"))
        }
        Some(trap) => Abort::new(Code::GuestTrap, format!("{running} trapped: {}", reason(*trap))),
        None => {
            // One line; the root says most ("invalid utf-8", "exit", "hostcall").
            let root = error.root_cause().to_string();
            let line = root.lines().next().unwrap_or("unknown error");
            Abort::new(Code::GuestTrap, format!("{running} trapped: {line}"))
        }
    }
}

/// Whether a guest was stopped for want of fuel.
pub(crate) fn is_out_of_fuel(error: &wasmtime::Error) -> bool {
    error.downcast_ref::<Trap>() == Some(&Trap::OutOfFuel)
}

/// A trap in a few words: ours where the reader is an app's developer, wasmtime's otherwise.
fn reason(trap: Trap) -> String {
    match trap {
        Trap::StackOverflow => "stack overflow".into(),
        Trap::MemoryOutOfBounds => "memory access out of bounds".into(),
        Trap::IndirectCallToNull => "call through a null pointer".into(),
        Trap::BadSignature => "call through a pointer to another type".into(),
        Trap::UnreachableCodeReached => "unreachable code (the guest panicked or aborted)".into(),
        other => other.to_string().trim_start_matches("wasm trap: ").to_owned(),
    }
}
