//! Wakes a task at a moment, to the tenth of a millisecond: the runtime's own timer counts whole
//! milliseconds, which would be a good part of the latencies that are measured.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Instant;

/// A thread that sleeps until the next moment somebody asked for. Ends with this value.
pub struct Timer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: Option<(Instant, Waker)>,
    ended: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        while !state.ended {
            let Some((at, waker)) = state.due.take() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                waker.wake();
                continue;
            }
            state.due = Some((at, waker));
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Timer {
    pub fn new() -> std::io::Result<Timer> {
        let shared = Arc::<Shared>::default();
        let seen = shared.clone();
        let thread = std::thread::Builder::new().name("timer".into()).spawn(move || seen.run())?;
        Ok(Timer { shared, thread: Some(thread) })
    }

    /// Wakes this task then, and not at any moment asked for before.
    pub fn set(&self, at: Instant, waker: &Waker) {
        let mut state = self.shared.state();
        let sooner = state.due.as_ref().is_none_or(|(before, _)| at < *before);
        match &mut state.due {
            Some(due) => {
                due.0 = at;
                due.1.clone_from(waker);
            }
            none => *none = Some((at, waker.clone())),
        }
        if sooner {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    struct Waiting(Sender<Instant>);

    impl Wake for Waiting {
        fn wake(self: Arc<Self>) {
            self.0.send(Instant::now()).unwrap();
        }
    }

    #[test]
    fn only_the_last_moment_asked_for_wakes() {
        let timer = Timer::new().unwrap();
        let (to, wakes) = channel();
        let waker = Waker::from(Arc::new(Waiting(to)));
        let start = Instant::now();
        timer.set(start + Duration::from_millis(5), &waker);
        let at = start + Duration::from_millis(20);
        timer.set(at, &waker);
        let woken = wakes.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(woken >= at, "{:?} early", at - woken);
        assert!(wakes.recv_timeout(Duration::from_millis(20)).is_err(), "it woken twice");
    }
}
