//! Marks: a thread that ends the process says so in its slot.

use std::cell::Cell;
use std::sync::Once;

use super::slots::Address;
use crate::single::RECOVERY;

thread_local! {
    /// The slot of what this thread executes.
    static SLOT: Cell<Option<Address>> = const { Cell::new(None) };
}

/// This thread executes something, or nothing any more.
#[inline]
pub(super) fn executes(slot: Option<Address>) {
    SLOT.set(slot);
}

/// A slot is gone.
pub(super) fn forget(slot: Option<Address>) {
    // A thread that ends may have dropped its own already.
    let _ = SLOT.try_with(|own| {
        if own.get() == slot {
            own.set(None);
        }
    });
}

/// Marks what this thread executes, if it executes anything.
pub(super) fn mark(said: &str) {
    if let Ok(Some(slot)) = SLOT.try_with(Cell::get) {
        slot.mark(said.as_bytes());
    }
}

/// Has threads mark what they execute when they panic, or abort: for want of memory, or of stack.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let said = panic.payload_as_str().unwrap_or("no message");
            match panic.location() {
                Some(at) => mark(&format!("{said} ({}:{})", at.file(), at.line())),
                None => mark(said),
            }
            match std::thread::current().name() {
                Some(RECOVERY) => tracing::debug!("{panic}"),
                _ => before(panic),
            }
        }));
        // SAFETY: the handler does nothing but stores, to a mapping and to this thread's own memory; it returns, and
        // `abort` goes on to end the process.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = aborted as *const () as usize;
            // The stack may be what there was too little of.
            action.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGABRT, &action, std::ptr::null_mut());
        }
    });
}

extern "C" fn aborted(_: libc::c_int) {
    mark("it aborted: no memory, no stack, or a panic within a panic");
}
