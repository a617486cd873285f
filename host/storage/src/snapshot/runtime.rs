//! Where requests to a store run, and where the names of objects and pauses come from.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

/// Where the requests to a store run.
#[derive(Clone, Debug)]
pub enum Runtime {
    /// On the threads of a Tokio runtime (which must have some of its own), while the caller waits. Names are random.
    Tokio(Handle),
    /// On the thread that calls, each to its end before the call returns, with nothing under way in between. For
    /// stores that need no Tokio, which are directories and memory, and for code that is alone on its thread: where a
    /// call takes `threads`, ask for one.
    Inline(Arc<dyn Environment>),
}

/// What a store takes from outside besides its objects.
pub trait Environment: Debug + Send + Sync {
    /// A number that no other call has had, in this process or another: it makes a name unique.
    fn nonce(&self) -> u128;

    /// Returns after `duration`.
    fn pause(&self, duration: Duration);
}

/// An environment of tests: names are numbered, through all of the process, and nobody waits.
#[derive(Clone, Copy, Debug)]
pub struct Numbered;

impl Environment for Numbered {
    fn nonce(&self) -> u128 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        LAST.fetch_add(1, Ordering::Relaxed).into()
    }

    fn pause(&self, _: Duration) {}
}

impl Runtime {
    pub(crate) fn nonce(&self) -> u128 {
        match self {
            Self::Tokio(_) => rand::random(),
            Self::Inline(environment) => environment.nonce(),
        }
    }

    pub(crate) fn is_inline(&self) -> bool {
        matches!(self, Self::Inline(_))
    }

    pub(crate) fn pause(&self, duration: Duration) {
        match self {
            Self::Tokio(_) => std::thread::sleep(duration),
            Self::Inline(environment) => environment.pause(duration),
        }
    }
}

impl From<Handle> for Runtime {
    fn from(handle: Handle) -> Self {
        Self::Tokio(handle)
    }
}

impl From<&Handle> for Runtime {
    fn from(handle: &Handle) -> Self {
        Self::Tokio(handle.clone())
    }
}

impl From<&Runtime> for Runtime {
    fn from(runtime: &Runtime) -> Self {
        runtime.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn whoever_pauses_with_tokio_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let begun = Instant::now();
        Runtime::from(runtime.handle()).pause(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }
}
