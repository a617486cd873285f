//! The time that a test has: one that waits for ever is named, with what it waits for, and ends its program.

use std::cell::RefCell;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Several times what the longest test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(15 * 60);

thread_local! {
    /// What the test of this thread waits for.
    static WAITS: RefCell<Arc<Mutex<String>>> = RefCell::default();
}

/// Notes what the test of this thread waits for from now on.
pub fn waits_for(what: impl Into<String>) {
    WAITS.with_borrow(|waits| *waits.lock().expect("nobody panics while it is held") = what.into());
}

/// The limit of a test; dropped when that has ended.
#[derive(Debug)]
pub struct TimeLimit(#[allow(dead_code, reason = "its end is what is waited for")] Sender<()>);

impl TimeLimit {
    /// Bounds the test of this thread from now on.
    pub fn of_test() -> TimeLimit {
        TimeLimit::new(LIMIT, |late| {
            // Not a macro, whose output a test keeps for itself.
            let _ = writeln!(std::io::stderr(), "{late}");
            std::process::exit(1)
        })
    }

    /// Tells `late` what is wrong when this thread's test has not ended after `limit`.
    pub fn new(limit: Duration, late: impl FnOnce(String) + Send + 'static) -> TimeLimit {
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        let waits = WAITS.with_borrow(Arc::clone);
        let (running, ended) = channel();
        std::thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let waits = waits.lock().expect("nobody panics while it is held").clone();
                late(format!("{name} has not ended after {limit:?}; it waits for {waits}"));
            }
        });
        TimeLimit(running)
    }
}
