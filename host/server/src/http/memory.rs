//! One bound for all bytes that are held for clients: what they have sent and is not done yet, and what they have not read.
//!
//! Whoever holds some of it may hold no more than is left free (the dynamic threshold of Choudhury and Hahne, 1998): somebody
//! alone gets half, many get even parts, and who comes last still finds room.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

/// The bound. Clones are the same.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Bound>);

#[derive(Debug)]
struct Bound {
    total: usize,
    /// Below 0 for a moment, if one thread gives back what another has taken and not counted yet.
    used: AtomicIsize,
}

impl Memory {
    /// At most so many bytes.
    pub fn new(total: usize) -> Self {
        let total = total.min(isize::MAX.cast_unsigned());
        Memory(Arc::new(Bound { total, used: AtomicIsize::new(0) }))
    }

    /// An account for somebody who holds nothing yet.
    pub fn account(&self) -> Account {
        Account { memory: self.clone(), bytes: AtomicUsize::new(0) }
    }

    /// Bytes that are held.
    pub fn used(&self) -> usize {
        usize::try_from(self.0.used.load(Relaxed)).unwrap_or(0)
    }

    fn free(&self) -> usize {
        self.0.total.saturating_sub(self.used())
    }
}

/// What one client holds. Dropped, it holds nothing.
#[derive(Debug)]
pub struct Account {
    memory: Memory,
    bytes: AtomicUsize,
}

/// Held by each without being counted, so that most never touch the counter that all share…
pub const UNCOUNTED: usize = 16 << 10;
/// …and the rest do so seldom.
const STEP: usize = 64 << 10;

/// What is counted of so many bytes.
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(UNCOUNTED).next_multiple_of(STEP)
}

impl Account {
    /// Holds so many bytes more, if there is room for them.
    #[must_use]
    pub fn grow(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Relaxed);
        let after = counted(before + bytes);
        let more = after - counted(before);
        let Memory(bound) = &self.memory;
        // No allocation is larger than what an `isize` holds.
        let used = || bound.used.fetch_add(more.cast_signed(), Relaxed).saturating_add_unsigned(more);
        let fits = more == 0 || used().saturating_add_unsigned(after) <= bound.total.cast_signed();
        if !fits {
            self.shrink(bytes);
        }
        fits
    }

    /// Holds so many bytes less.
    pub fn shrink(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Relaxed);
        let less = counted(before) - counted(before - bytes);
        if less > 0 {
            self.memory.0.used.fetch_sub(less.cast_signed(), Relaxed);
        }
    }

    /// How many bytes more it may come to hold.
    pub fn room(&self) -> usize {
        self.memory.free().saturating_sub(self.bytes.load(Relaxed)) / 2
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.shrink(self.bytes.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// How much an account comes to hold that takes all it can.
    fn fill(account: &Account) -> usize {
        (0..).take_while(|_| account.grow(STEP)).count() * STEP
    }

    #[test]
    fn nobody_holds_more_than_is_left_free() {
        let memory = Memory::new(64 * MIB);
        let greedy: Vec<Account> = (0..100).map(|_| memory.account()).collect();
        assert_eq!(fill(&greedy[0]), 32 * MIB);
        let rest: Vec<usize> = greedy[1..].iter().map(fill).collect();
        assert!(rest.is_sorted_by(|one, other| one >= other) && rest[0] == 16 * MIB, "{rest:?}");
        assert!(memory.used() <= 64 * MIB && memory.free() >= greedy[99].room());
        // What is uncounted is always there, and what was refused is not held.
        let late = memory.account();
        assert!(late.grow(UNCOUNTED) && !late.grow(64 * MIB) && !late.grow(memory.free()));
        assert_eq!(late.bytes.load(Relaxed), UNCOUNTED);
        drop((greedy, late));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn room_is_what_may_be_held_besides() {
        let memory = Memory::new(64 * MIB);
        let (one, other) = (memory.account(), memory.account());
        assert!(one.grow(8 * MIB) && other.grow(4 * MIB));
        let room = one.room();
        assert!(!one.grow(room + STEP) && one.grow(room - STEP));
        one.shrink(room + 8 * MIB - STEP);
        assert!(one.bytes.load(Relaxed) == 0 && memory.used() == counted(4 * MIB));
    }

    #[test]
    fn threads_that_share_an_account_leave_nothing_behind() {
        let memory = Memory::new(4 * MIB);
        let account = memory.account();
        std::thread::scope(|scope| {
            for bytes in [5_000, 70_000, 700_000] {
                let (account, memory) = (&account, &memory);
                scope.spawn(move || {
                    for _ in 0..100_000 {
                        if account.grow(bytes) {
                            account.shrink(bytes);
                        }
                        assert!(memory.used() <= 4 * MIB, "whatever one gives back that another has not counted yet");
                    }
                });
            }
        });
        assert!(memory.used() == 0 && account.bytes.load(Relaxed) == 0);
    }
}
