//! Wakes a task at a moment, to the tenth of a millisecond: the runtime's own timer counts whole
//! milliseconds, which would be a good part of the latencies that are measured.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;

/// A timer of the system's, as a file that can be read once it has run out.
pub struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    pub fn new() -> io::Result<Timer> {
        // SAFETY: it takes numbers only.
        let file = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the file was just opened, and nobody else knows of it; it stays open for as long as it is registered.
        Ok(Timer(unsafe { AsyncFd::register(OwnedFd::from_raw_fd(file)) }?))
    }

    /// Wakes this task then, and not at any moment asked for before.
    pub fn set(&self, at: Instant, context: &mut Context<'_>) {
        // None at all would be no timer.
        let left = at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let value = libc::timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
        let once = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // SAFETY: the file is open, and the call reads one itimerspec, from a local that outlives it.
        let set = unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const once, std::ptr::null_mut()) };
        assert_eq!(set, 0, "a timer takes any time");
        while let Poll::Ready(ready) = self.0.poll_read_ready(context) {
            // It may be ready of a moment asked for before.
            if ready.map_or(true, |mut ready| ready.try_io(|file| has_run_out(file.as_raw_fd())).is_ok()) {
                context.waker().wake_by_ref();
                break;
            }
        }
    }
}

fn has_run_out(file: i32) -> io::Result<()> {
    let mut times = 0u64;
    // SAFETY: the call writes up to eight bytes, into a local that has as many and outlives it.
    let read = unsafe { libc::read(file, (&raw mut times).cast(), 8) };
    if read < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_last_moment_asked_for_wakes() {
        let (timer, start, mut polled) = (Timer::new().unwrap(), Instant::now(), 0);
        let at = start + Duration::from_millis(20);
        std::future::poll_fn(|context| {
            polled += 1;
            if polled == 1 {
                timer.set(start + Duration::from_millis(5), context);
                timer.set(at, context);
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        assert!(Instant::now() >= at && polled == 2, "{:?}, polled {polled} times", start.elapsed());
    }
}
