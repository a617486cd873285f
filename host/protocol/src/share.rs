//! Ack shares: how a root knows that its call graph is complete without knowing the graph
//! (Styx §5.3).
//!
//! The root holds 1. Whoever calls passes a part of its share on; what needs no part any more goes
//! back to the root; when the root's parts add up to 1 again, nothing is left to run. Shares are
//! dyadic, 2^-n: they split unevenly into any number of parts, add up exactly, and the sum is a
//! binary number, carried like one. No fraction ever grows beyond its exponent.

use crate::mutants::{Bug, planted};

/// A share of 2^-n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Share(pub u32);

impl Share {
    /// All of it.
    pub const WHOLE: Share = Share(0);

    /// `parts` shares that add up to this one.
    ///
    /// # Panics
    /// There are no parts.
    pub fn split(self, parts: usize) -> impl Iterator<Item = Share> {
        assert!(parts > 0, "a share is split into some parts");
        let levels = parts.next_power_of_two().trailing_zeros();
        // So many are half as deep; the others make up the number.
        let shallow = (1usize << levels) - parts;
        (0..parts).map(move |part| Share(self.0 + levels - u32::from(part < shallow)))
    }
}

/// Shares that lie together: their sum, as a binary fraction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Exponents, ascending, each once.
    exponents: Vec<u32>,
}

impl Shares {
    /// One share.
    pub fn of(share: Share) -> Self {
        Shares { exponents: vec![share.0] }
    }

    /// Adds a share.
    ///
    /// # Panics
    /// The sum is more than the whole: shares were made up.
    pub fn add(&mut self, share: Share) {
        let mut exponent = share.0;
        loop {
            match self.exponents.binary_search(&exponent) {
                Err(at) => {
                    self.exponents.insert(at, exponent);
                    break;
                }
                Ok(at) => {
                    self.exponents.remove(at);
                    exponent = exponent.checked_sub(1).expect("ack shares never exceed the whole");
                }
            }
        }
        assert!(self.exponents.first() != Some(&0) || self.exponents.len() == 1, "ack shares never exceed the whole");
    }

    /// Whether this is all of it.
    pub fn is_whole(&self) -> bool {
        self.exponents == [0]
    }

    /// Gives half of the smallest share away.
    ///
    /// # Panics
    /// There is none.
    pub fn halve(&mut self) -> Share {
        let last = self.exponents.last_mut().expect("who runs holds a share");
        *last += 1;
        let half = Share(*last);
        if planted(Bug::ShareTwice) {
            *last -= 1;
        }
        half
    }

    /// Takes everything out, the largest first.
    pub fn take(&mut self) -> impl Iterator<Item = Share> + use<> {
        std::mem::take(&mut self.exponents).into_iter().map(Share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole() {
        for parts in 1..200 {
            for nested in [1, 2, 3, 7, 64, 100] {
                let mut sum = Shares::default();
                let mut split: Vec<Share> = Share::WHOLE.split(parts).collect();
                let last = split.pop().unwrap();
                split.extend(last.split(nested));
                assert_eq!(split.len(), parts - 1 + nested);
                split.reverse();
                for (at, share) in split.iter().enumerate() {
                    assert!(!sum.is_whole(), "whole after {at} of {} parts", split.len());
                    sum.add(*share);
                }
                assert!(sum.is_whole());
            }
        }
    }

    #[test]
    fn half_goes_and_comes_back() {
        let mut held = Shares::of(Share::WHOLE);
        let given: Vec<Share> = (0..10).map(|_| held.halve()).collect();
        assert!(!held.is_whole());
        given.into_iter().for_each(|share| held.add(share));
        assert!(held.is_whole());
    }
}
