//! Which entity a call goes to: the distributions that the workloads are defined by.

use rand::distr::Distribution;
use rand::{Rng, RngCore};
use rand_distr::Zipf;

/// Numbers below a bound, low ones more often: the number `k` in proportion to `1 / (k + 1)^exponent`.
#[derive(Clone, Copy, Debug)]
pub struct Skewed(Zipf<f64>);

impl Skewed {
    /// An exponent of 0 makes all numbers alike.
    pub fn new(bound: u64, exponent: f64) -> anyhow::Result<Self> {
        anyhow::ensure!(bound > 0, "there is nothing to choose from");
        Zipf::new(bound as f64, exponent)
            .map(Skewed)
            .map_err(|error| anyhow::anyhow!("{exponent} is no exponent of a Zipf distribution: {error}"))
    }

    pub fn sample(&self, random: &mut dyn RngCore) -> u64 {
        self.0.sample(random) as u64 - 1
    }
}

/// One that is not `taken`, out of at least two.
pub fn another(taken: u64, mut sample: impl FnMut() -> u64) -> u64 {
    loop {
        let number = sample();
        if number != taken {
            return number;
        }
    }
}

/// TPC-C's non-uniform numbers (clause 2.1.6), `constant` being what it calls C.
pub fn non_uniform(random: &mut dyn RngCore, mask: u64, constant: u64, low: u64, high: u64) -> u64 {
    let number = random.random_range(0..=mask) | random.random_range(low..=high);
    (number + constant) % (high - low + 1) + low
}

/// So many letters and digits.
pub fn text(random: &mut dyn RngCore, length: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bits = random.next_u64();
        for _ in 0..(length - text.len()).min(10) {
            text.push(LETTERS[(bits & 63) as usize].into());
            bits >>= 6;
        }
    }
    text
}

/// True in so many of a hundred cases, which may be a fraction.
pub fn percent(random: &mut dyn RngCore, share: f64) -> bool {
    random.random_range(0.0..100.0) < share
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn shares(exponent: f64, bound: u64) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let skewed = Skewed::new(bound, exponent).unwrap();
        let mut counts = vec![0u32; bound as usize];
        for _ in 0..200_000 {
            counts[skewed.sample(&mut random) as usize] += 1;
        }
        counts.iter().map(|count| f64::from(*count) / 200_000.0).collect()
    }

    #[test]
    fn numbers_are_as_frequent_as_their_rank_says() {
        for exponent in [0.0, 0.5, 0.99, 1.5] {
            let norm: f64 = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for (at, share) in shares(exponent, 50).into_iter().enumerate() {
                let due = ((at + 1) as f64).powf(-exponent) / norm;
                assert!((share - due).abs() < 0.004, "{exponent}: number {at} has {share}, not {due}");
            }
        }
    }

    #[test]
    fn non_uniform_numbers_keep_their_bounds_and_prefer_some() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut counts = vec![0u32; 3001];
        for _ in 0..300_000 {
            counts[non_uniform(&mut random, 1023, 259, 1, 3000) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable();
        let top: u32 = counts.iter().rev().take(300).sum();
        assert!((75_000..225_000).contains(&top), "a tenth of the customers has {top} of 300,000");
    }

    #[test]
    fn text_has_its_length() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for length in [0, 1, 9, 10, 11, 100] {
            assert_eq!(text(&mut random, length).len(), length);
        }
    }
}
