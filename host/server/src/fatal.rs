//! The end of a process that found something it must not survive.

/// Runs a thread to its end; a panic ends the process. State that may be wrong is worse than none.
pub(crate) fn fatal_on_panic(thread: &str, run: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        fatal(&format!("the {thread} thread found a broken invariant: {}", said.unwrap_or("no message")));
    }
}

/// Ends the process: what is durable is safe, and recovery starts from it.
pub(crate) fn fatal(message: &str) -> ! {
    abort(&format!("{message}. The process ends; nothing acknowledged is lost. Restart it to recover from the log."))
}

/// Ends the process, whose log somebody has taken away: what it has acknowledged is where that is now.
pub(crate) fn without_log(error: &impl std::fmt::Display) -> ! {
    abort(&format!("LOG_REMOVED: {error}. The process ends: what it acknowledged stands in the log that is gone."))
}

/// Says why, if standard error takes it, and ends the process.
fn abort(why: &str) -> ! {
    std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_secs(1));
        std::process::abort()
    });
    eprintln!("FATAL: {why}");
    std::process::abort()
}
