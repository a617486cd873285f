//! Ack shares: how a root knows that its call graph is complete without knowing the graph
//! (Styx §5.3).
//!
//! The root holds 1. Whoever calls passes a part of its share on; what needs no part any more goes
//! back to the root; when the root's parts add up to 1 again, nothing is left to run. Shares are
//! dyadic, 2^-n: they split unevenly into any number of parts, add up exactly, and the sum is a
//! binary number, carried like one. No fraction ever grows beyond its exponent.

use styx_planted::{Bug, planted};

/// A share of 2^-n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Share(pub u32);

impl Share {
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
    /// The sum of those down to 2^-63, in multiples of that. Graphs seldom split deeper, and this
    /// takes no memory of its own.
    high: u64,
    /// Exponents beyond, ascending, each once.
    deep: Vec<u32>,
}

/// The largest exponent in [`Shares::high`].
const HIGH: u32 = 63;

/// The whole, in multiples of 2^-63.
const WHOLE: u64 = 1 << HIGH;

/// No share that comes from elsewhere is smaller: there is room for all that it may be split into.
const DEEPEST: u32 = 1 << 30;

impl Shares {
    pub fn of(share: Share) -> Self {
        let mut shares = Shares::default();
        shares.add(share);
        shares
    }

    /// Adds a share.
    ///
    /// # Panics
    /// The sum is more than the whole: shares were made up.
    pub fn add(&mut self, share: Share) {
        assert!(self.admit(share), "ack shares never exceed the whole");
    }

    /// Adds a share of which it is not known that it is one; false, and no sum any more, if it is none.
    #[must_use]
    pub fn admit(&mut self, share: Share) -> bool {
        let mut exponent = share.0;
        if exponent > DEEPEST {
            return false;
        }
        while exponent > HIGH {
            match self.deep.binary_search(&exponent) {
                Err(at) => {
                    self.deep.insert(at, exponent);
                    break;
                }
                Ok(at) => {
                    self.deep.remove(at);
                    exponent -= 1;
                }
            }
        }
        if exponent <= HIGH {
            self.high = self.high.saturating_add(WHOLE >> exponent);
        }
        let most = if self.deep.is_empty() { WHOLE } else { WHOLE - 1 };
        self.high <= most
    }

    pub fn is_whole(&self) -> bool {
        self.high == WHOLE
    }

    /// Gives half of the smallest share away.
    ///
    /// # Panics
    /// There is none.
    pub fn halve(&mut self) -> Share {
        let exponent = match self.deep.pop() {
            Some(exponent) => exponent,
            None => {
                assert!(self.high != 0, "who runs holds a share");
                let exponent = HIGH - self.high.trailing_zeros();
                self.high &= self.high - 1;
                exponent
            }
        };
        self.add(Share(if planted(Bug::ShareTwice) { exponent } else { exponent + 1 }));
        Share(exponent + 1)
    }

    /// Takes everything out, the largest first.
    pub fn take(&mut self) -> impl Iterator<Item = Share> + use<> {
        let Shares { mut high, deep } = std::mem::take(self);
        let high = std::iter::from_fn(move || {
            let exponent = high.leading_zeros();
            (high != 0).then(|| {
                high &= !(WHOLE >> exponent);
                Share(exponent)
            })
        });
        high.chain(deep.into_iter().map(Share))
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
        for halves in [10, 62, 63, 64, 65, 200] {
            let mut held = Shares::of(Share::WHOLE);
            let given: Vec<Share> = (0..halves).map(|_| held.halve()).collect();
            assert!(given.iter().map(|share| share.0).eq(1..=halves));
            assert!(!held.is_whole());
            given.into_iter().for_each(|share| held.add(share));
            assert!(held.is_whole());
        }
    }

    #[test]
    fn what_is_taken_out_is_what_was_put_in() {
        let exponents = [1, 3, 62, 63, 64, 70, 90];
        let mut held = Shares::default();
        exponents.iter().rev().for_each(|exponent| held.add(Share(*exponent)));
        assert!(held.take().map(|share| share.0).eq(exponents));
        assert_eq!(held, Shares::default());
    }

    #[test]
    #[should_panic(expected = "never exceed the whole")]
    fn more_than_the_whole_is_noticed() {
        let mut held = Shares::of(Share::WHOLE);
        held.add(Share(100));
    }

    #[test]
    fn what_is_no_share_is_not_admitted() {
        for (held, share, admitted) in
            [(1, 1, true), (1, 0, false), (64, 0, false), (0, 100, false), (1, u32::MAX, false)]
        {
            assert_eq!(Shares::of(Share(held)).admit(Share(share)), admitted, "{held} {share}");
        }
    }
}
