//! Linear memory that guests get while they run, beyond what their instances had before: one bound for all of an engine's,
//! divided so that no app takes all of it.
//!
//! An app holds no more than is left free (the dynamic threshold of Choudhury and Hahne, 1998): one alone gets half. Who
//! does not get what it needs inside an epoch is postponed, to run beside the epochs; there it waits. One run at a time may
//! go beyond the bound, up to what a single one may ever have, so that somebody always comes to an end.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::limits::START_BYTES_FREE;

/// The bound, which all executors of an engine share.
#[derive(Debug)]
pub(crate) struct GuestMemory {
    total: usize,
    held: Mutex<Held>,
    freed: Condvar,
}

/// Bytes that are held.
#[derive(Debug, Default)]
struct Held {
    all: usize,
    apps: BTreeMap<Arc<str>, usize>,
    /// By the executor that runs the guests: one transaction at a time.
    executors: BTreeMap<u64, usize>,
    /// The executor that may go beyond the bound.
    beyond: Option<u64>,
}

/// Why there is no more for a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Others have it, and there is no time to wait for them.
    Now,
    /// No transaction may have so much.
    Ever,
}

impl GuestMemory {
    pub fn new(total: usize) -> Self {
        GuestMemory { total, held: Mutex::default(), freed: Condvar::new() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Most that all guests of a transaction may hold together, where each may have so much.
    fn most(&self, each: usize) -> usize {
        each.max(self.total / 2)
    }
}

/// What one instance has got since its call began. Dropped, it has nothing.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    memory: Arc<GuestMemory>,
    app: Arc<str>,
    executor: u64,
    bytes: usize,
    /// Whether it may wait for others: no epoch waits for it.
    pub patient: bool,
}

impl MemoryShare {
    pub fn new(memory: Arc<GuestMemory>, app: Arc<str>, executor: u64, patient: bool) -> Self {
        MemoryShare { memory, app, executor, bytes: 0, patient }
    }

    /// Takes so many bytes more for an instance that may have `each`.
    pub fn grow(&mut self, bytes: usize, each: usize) -> Result<(), Refused> {
        let GuestMemory { total, freed, .. } = &*self.memory;
        if bytes == 0 || *total == usize::MAX {
            return Ok(());
        }
        let mut held = self.memory.held();
        loop {
            let app = held.apps.get(&self.app).map_or(0, |bytes| *bytes) + bytes;
            let mine = held.executors.get(&self.executor).map_or(0, |bytes| *bytes) + bytes;
            if app > total.saturating_sub(held.all + bytes) {
                if mine > self.memory.most(each) {
                    return Err(Refused::Ever);
                }
                if !self.patient {
                    return Err(Refused::Now);
                }
                if *held.beyond.get_or_insert(self.executor) != self.executor {
                    held = freed.wait(held).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            }
            held.all += bytes;
            *held.apps.entry(self.app.clone()).or_default() += bytes;
            *held.executors.entry(self.executor).or_default() += bytes;
            self.bytes += bytes;
            return Ok(());
        }
    }

    /// Takes what an instance has from its start, `before` of it already.
    pub fn start(&mut self, before: usize, after: usize, each: usize) -> Result<(), Refused> {
        let counted = |bytes: usize| bytes.saturating_sub(START_BYTES_FREE);
        self.grow(counted(after) - counted(before), each)
    }

    /// Its call is over.
    pub fn release(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut guard = self.memory.held();
        let held = &mut *guard;
        held.all -= self.bytes;
        let less = |bytes: &mut usize| {
            *bytes -= self.bytes;
            *bytes == 0
        };
        if held.apps.get_mut(&self.app).is_some_and(less) {
            held.apps.remove(&self.app);
        }
        if held.executors.get_mut(&self.executor).is_some_and(less) {
            held.executors.remove(&self.executor);
            held.beyond.take_if(|beyond| *beyond == self.executor);
        }
        self.bytes = 0;
        drop(guard);
        self.memory.freed.notify_all();
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const EACH: usize = 60;

    fn share(memory: &Arc<GuestMemory>, app: &str, executor: u64, patient: bool) -> MemoryShare {
        MemoryShare::new(memory.clone(), app.into(), executor, patient)
    }

    #[test]
    fn an_app_alone_gets_half_and_others_find_room() {
        let memory = Arc::new(GuestMemory::new(200));
        let mut greedy = [0, 1].map(|executor| share(&memory, "greedy", executor, false));
        assert_eq!((greedy[0].grow(60, EACH), greedy[1].grow(40, EACH)), (Ok(()), Ok(())));
        assert_eq!(greedy[1].grow(1, EACH), Err(Refused::Now));
        assert_eq!(greedy[0].grow(41, EACH), Err(Refused::Ever), "one transaction never gets more than half");
        let mut other = share(&memory, "other", 2, false);
        assert_eq!((other.grow(50, EACH), other.grow(1, EACH)), (Ok(()), Err(Refused::Now)));
        greedy[1].release();
        assert_eq!(other.grow(20, EACH), Ok(()));
        drop((greedy, other));
        let held = memory.held();
        assert!(held.all == 0 && held.apps.is_empty() && held.executors.is_empty(), "{held:?}");
    }

    #[test]
    fn whoever_waits_for_others_comes_to_its_end() {
        let memory = Arc::new(GuestMemory::new(100));
        let mut first = share(&memory, "app", 0, true);
        first.grow(40, EACH).unwrap();
        // One goes beyond the bound, as far as one may; what it needs further it gets as well.
        let mut second = share(&memory, "app", 1, true);
        assert_eq!((second.grow(40, EACH), second.grow(20, EACH)), (Ok(()), Ok(())));
        assert_eq!(second.grow(1, EACH), Err(Refused::Ever));
        // Everybody else waits, though they hold something, until it has ended.
        let (send, ended) = channel();
        std::thread::scope(|scope| {
            let memory = &memory;
            for executor in 2..6 {
                let send = send.clone();
                scope.spawn(move || {
                    let mut share = share(memory, "app", executor, true);
                    for _ in 0..6 {
                        share.grow(10, EACH).unwrap();
                        std::thread::yield_now();
                    }
                    send.send(executor).unwrap();
                });
            }
            assert!(ended.recv_timeout(Duration::from_millis(50)).is_err(), "none has got all that it needs");
            drop(second);
            drop(first);
            for _ in 2..6 {
                ended.recv_timeout(Duration::from_secs(20)).expect("each gets what it needs");
            }
        });
        assert_eq!(memory.held().all, 0);
    }

    #[test]
    fn what_an_instance_has_from_its_start_counts_where_it_is_much() {
        let memory = Arc::new(GuestMemory::new(10));
        let mut share = share(&memory, "app", 0, false);
        assert_eq!(share.start(0, START_BYTES_FREE, EACH), Ok(()));
        assert_eq!(share.start(START_BYTES_FREE, START_BYTES_FREE + 5, EACH), Ok(()));
        assert_eq!(share.start(START_BYTES_FREE + 5, START_BYTES_FREE + 6, EACH), Err(Refused::Now));
    }
}
