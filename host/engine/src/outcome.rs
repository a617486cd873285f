//! How an invocation ended, in the protocol's words.

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

impl From<Failure> for Abort {
    fn from(failure: Failure) -> Self {
        // A guest speaks for itself only: the other codes are the host's.
        let code = if failure.code == Code::BadArguments.as_str() { Code::BadArguments } else { Code::Aborted };
        Abort::new(code, failure.message)
    }
}

impl From<Abort> for Failure {
    fn from(abort: Abort) -> Self {
        Failure { code: abort.code.as_str().to_owned(), message: abort.message }
    }
}

/// What a trapped guest's caller is told. `running` is the function, as `operator.function`.
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
