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

/// Between the code of a logic abort and the app's own code for it, both ways.
const APP_CODE: &str = "ABORTED:";

/// Abort that a guest returned in good order. `running` is the function, as `operator.function`. It speaks for itself
/// only: most codes are the host's, and that it ran out of memory counts only if it was denied some.
pub(crate) fn of_failure(failure: Failure, denied: bool, running: &str, key: &str) -> Abort {
    let says = |code: Code| failure.code == code.as_str();
    let mut message = failure.message;
    if message.is_empty() {
        message = "the function gave no reason".into();
    }
    let code = match () {
        () if says(Code::BadArguments) => Code::BadArguments,
        () if says(Code::LimitExceeded) && denied => Code::LimitExceeded,
        () if says(Code::GuestException) => {
            message = format!("{running} on {key:?}: {message}");
            Code::GuestException
        }
        () => Code::Aborted,
    };
    let abort = Abort::new(code, message);
    match failure.code.strip_prefix(APP_CODE) {
        Some(app_code) => abort.with_app_code(app_code),
        None => abort,
    }
}

impl From<Abort> for Failure {
    fn from(abort: Abort) -> Self {
        let code = match abort.app_code() {
            Some(app_code) => format!("{APP_CODE}{app_code}"),
            None => abort.code.as_str().to_owned(),
        };
        Failure { code, message: abort.message }
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

/// Abort for the caller of a guest that trapped. `running` is the function, as `operator.function`. A trap carries no
/// message: if the guest has logged one before, that is why.
pub(crate) fn of_trap_on(
    error: &wasmtime::Error,
    running: &str,
    key: &str,
    last_words: Option<&str>,
    bounds: Bounds,
) -> Abort {
    let abort = of_trap(error, running, bounds);
    if abort.code != Code::GuestTrap {
        return abort;
    }
    let why = match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => last_words,
        _ => None,
    };
    Abort::new(
        Code::GuestTrap,
        format!("{running} on {key:?} trapped: {}", why.map_or_else(|| said(error), str::to_owned)),
    )
}

/// As [`of_trap_on`], of what runs on no entity.
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
    if is_out_of_fuel(error) {
        let why = match bounds.fuel {
            FuelBound::Host(fuel) => format!("{fuel} units, as many as every app has"),
            FuelBound::Invocation(fuel) => format!("{fuel} units (limits.fuel)"),
            FuelBound::Transaction(fuel) => {
                format!("what was left of {fuel} units for the transaction (limits.transaction_fuel)")
            }
        };
        return Abort::new(Code::OutOfFuel, format!("{running} used up its fuel: {why}"));
    }
    Abort::new(Code::GuestTrap, format!("{running} trapped: {}", said(error)))
}

/// What the engine says of a trap, in one line.
fn said(error: &wasmtime::Error) -> String {
    match error.downcast_ref::<Trap>() {
        Some(trap) => reason(*trap),
        // The root says most ("invalid utf-8", "exit", "hostcall").
        None => error.root_cause().to_string().lines().next().unwrap_or("unknown error").to_owned(),
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
        Trap::UnreachableCodeReached => "unreachable code (the guest aborted)".into(),
        other => other.to_string().trim_start_matches("wasm trap: ").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_speaks_for_itself_only() {
        let of = |code: &str, message: &str| {
            let abort = of_failure(Failure { code: code.into(), message: message.into() }, false, "o.f", "k");
            (abort.code, abort.message.clone(), abort.app_code().map(str::to_owned))
        };
        let sold_out = Some("SOLD_OUT".to_owned());
        for (code, expected) in [
            ("ABORTED", (Code::Aborted, "no".to_owned(), None)),
            ("ABORTED:SOLD_OUT", (Code::Aborted, "no".to_owned(), sold_out)),
            ("ABORTED:sold out", (Code::Aborted, "no".to_owned(), None)),
            ("SOLD_OUT", (Code::Aborted, "no".to_owned(), None)),
            ("OUT_OF_FUEL", (Code::Aborted, "no".to_owned(), None)),
            ("LIMIT_EXCEEDED", (Code::Aborted, "no".to_owned(), None)),
            ("BAD_ARGUMENTS", (Code::BadArguments, "no".to_owned(), None)),
            ("GUEST_EXCEPTION", (Code::GuestException, "o.f on \"k\": no".to_owned(), None)),
        ] {
            assert_eq!(of(code, "no"), expected, "{code}");
        }
        assert_eq!(of("ABORTED", "").1, "the function gave no reason");
    }

    #[test]
    fn a_caller_is_told_the_code_of_the_app() {
        let code = |abort: Abort| Failure::from(abort).code;
        assert_eq!(code(Abort::new(Code::Aborted, "no").with_app_code("SOLD_OUT")), "ABORTED:SOLD_OUT");
        assert_eq!(code(Abort::new(Code::Aborted, "no")), "ABORTED");
        assert_eq!(code(Abort::new(Code::GuestException, "no")), "GUEST_EXCEPTION");
    }
}
