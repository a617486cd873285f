//! The only source of chance: a generator with a fixed algorithm, so that a seed means the same for ever.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Seeded random numbers.
#[derive(Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Self {
        Random(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.random()
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end)
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high)
    }

    /// True `permille` times in a thousand.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// One of these, so often in a thousand times; else what is usual.
    pub fn seldom<T: Copy>(&mut self, times: u32, of: &[T], usual: T) -> T {
        if self.chance(times) { self.pick(of) } else { usual }
    }

    /// An index, each as often as its weight says.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.below(weights.iter().map(|weight| u64::from(*weight)).sum());
        for (at, weight) in weights.iter().enumerate() {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return at,
            }
        }
        unreachable!("below the sum")
    }

    /// Puts things into any order.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            things.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}
