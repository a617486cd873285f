//! Expected fuel: what functions that use much have used lately when a request called them. A hint for how many an
//! epoch takes: what it has taken stands in the log, and no recovery asks again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::OperatorId;
use crate::sequence::transaction::Request;

#[derive(Debug)]
pub(super) struct ExpectedFuel {
    /// So much is not much: as many as an epoch takes may use it.
    little: u64,
    /// The most that was used, which fades with each that uses less; nothing of functions that use little.
    functions: BTreeMap<(OperatorId, Arc<str>), u64>,
}

/// What is expected fades by one such part of what it was too much.
const FADES: u64 = 16;

impl ExpectedFuel {
    /// Nothing has run yet, of which an epoch takes so many that use so much.
    pub fn new(epoch_size_max: usize, epoch_fuel_max: u64) -> Self {
        ExpectedFuel { little: epoch_fuel_max / epoch_size_max.max(1) as u64, functions: BTreeMap::new() }
    }

    /// What a request is expected to use, unless it is little.
    #[inline]
    pub fn of(&self, request: &Request) -> u64 {
        if self.functions.is_empty() {
            return 0;
        }
        self.functions.get(&(request.operator, request.function.clone())).copied().unwrap_or(0)
    }

    /// Of whom it must be known what they use: of those that use more than this.
    pub fn noted_above(&self) -> Option<u64> {
        self.functions.is_empty().then_some(self.little)
    }

    /// A request has used so much.
    pub fn learn(&mut self, request: &Request, used: u64) {
        let function = (request.operator, request.function.clone());
        let before = self.functions.get(&function).copied().unwrap_or(0);
        let expected = used.max(before - before.saturating_sub(used).div_ceil(FADES));
        if expected > self.little {
            self.functions.insert(function, expected);
        } else {
            self.functions.remove(&function);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;

    fn request(function: &str) -> Request {
        let (id, operator, args) = (RequestId(1), OperatorId(1), [].into());
        Request { id, operator, function: function.into(), key: "k".into(), args, retained: false, origin: None }
    }

    #[test]
    fn what_uses_much_is_expected_to_until_it_no_longer_does() {
        let mut expected = ExpectedFuel::new(10, 1000);
        let (much, little) = (request("much"), request("little"));
        expected.learn(&little, 100);
        assert_eq!((expected.of(&little), expected.noted_above()), (0, Some(100)));
        expected.learn(&much, 700);
        assert_eq!((expected.of(&much), expected.of(&little), expected.noted_above()), (700, 0, None));
        expected.learn(&much, 60);
        assert_eq!(expected.of(&much), 660, "once less is no reason to expect less the next time");
        expected.learn(&much, 900);
        assert_eq!(expected.of(&much), 900);
        assert_eq!(ExpectedFuel::new(1, 1000).noted_above(), Some(1000), "an epoch of one may use all of it");
        (0..100).for_each(|_| expected.learn(&much, 60));
        assert_eq!((expected.of(&much), expected.noted_above()), (0, Some(100)));
    }
}
