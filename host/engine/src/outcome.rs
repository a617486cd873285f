//! Outcome of an invocation, in the protocol's words.

use styx_protocol::abort::{Abort, Code};
use wasmtime::Trap;
use wasmtime::component::{ComponentType, Lift, Lower};

/// `styx:guest/types.failure`.
#[derive(Clone, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(crate) struct Failure {
    pub code: String,
    pub message: String,
}

/// Abort that a guest returned in good order. It speaks for itself only: most codes are the
/// host's, and that it ran out of memory counts only if it was denied some.
pub(crate) fn of_failure(failure: Failure, memory_denied: bool) -> Abort {
    let says = |code: Code| failure.code == code.as_str();
    let code = match () {
        () if says(Code::BadArguments) => Code::BadArguments,
        () if says(Code::LimitExceeded) && memory_denied => Code::LimitExceeded,
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

/// Abort for the caller of a guest that trapped. `running` is the function, as `operator.function`.
pub(crate) fn of_trap(error: &wasmtime::Error, running: &str, memory_denied: bool, memory_max: usize) -> Abort {
    if memory_denied {
        return Abort::new(
            Code::LimitExceeded,
            format!("{running} needs more memory than {} MiB (limits.memory)", memory_max >> 20),
        );
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => {
            Abort::new(Code::OutOfFuel, format!("{running} used up its fuel (limits.fuel, limits.transaction_fuel)"))
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
