//! Re-invocation (Styx §6.3): what an attempt of the fallback reads in front of the committed state, and what
//! it is compared with.

use std::sync::Arc;

use super::execution::{Recorded, Returned};
use super::{CallRecord, Execution, Overlay, ScanRecord};

/// The inputs of an attempt of the fallback: whatever leaves the first execution is drift.
#[derive(Debug)]
pub(super) struct Reinvocation {
    /// Writes of those that committed before it in the fallback.
    pub overlay: Box<Overlay>,
    /// What the first execution touched and called.
    pub cached: Arc<Execution>,
    /// Where the next call is looked for.
    calls_at: usize,
    /// Where the next scan is looked for.
    scans_at: usize,
}

impl Reinvocation {
    pub fn new(overlay: Box<Overlay>, cached: Arc<Execution>) -> Self {
        Reinvocation { overlay, cached, calls_at: 0, scans_at: 0 }
    }

    /// Whether the same call was issued in the same place.
    pub fn has_issued(&mut self, call: &CallRecord) -> bool {
        let calls = &self.cached.calls;
        let found = find_from(calls, &mut self.calls_at, |known| known.place == call.place);
        found.is_some_and(|at| calls[at].is_same_call(call))
    }

    /// Whether the same scan had observed as much.
    pub fn has_scanned(&mut self, scan: &ScanRecord) -> bool {
        let scans = &self.cached.scans;
        let same = |known: &ScanRecord| (known.place, known.number) == (scan.place, scan.number);
        let found = find_from(scans, &mut self.scans_at, same);
        found.is_some_and(|at| scans[at].read.covers(&scan.read))
    }

    /// Whether the function in a place had returned, having issued as many calls. It is looked for
    /// where it stands in the attempt of now, first.
    pub fn has_returned(&self, call: Recorded, place: u64, issued: u32) -> bool {
        let cached = &self.cached;
        let returned = match call {
            Recorded::Issued(at) => {
                let mut at = at as usize;
                let found = find_from(&cached.calls, &mut at, |known| known.place == place);
                found.map(|at| cached.calls[at].returned)
            }
            Recorded::Entered(at) => {
                let mut at = at as usize;
                let found = find_from(&cached.entered, &mut at, |known| known.target.place == place);
                found.map(|at| cached.entered[at].returned)
            }
        };
        returned == Some(Returned::after(issued))
    }
}

/// Looks for something in a list that is mostly asked for in its own order.
fn find_from<T>(list: &[T], cursor: &mut usize, wanted: impl Fn(&T) -> bool) -> Option<usize> {
    let start = (*cursor).min(list.len());
    let ahead = list[start..].iter().position(&wanted).map(|at| at + start);
    let found = ahead.or_else(|| list[..start].iter().position(wanted))?;
    *cursor = found + 1;
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use super::*;
    use crate::ids::OperatorId;
    use crate::state::entity::{Entity, Layout};
    use crate::state::range::{KeyRange, RangeRead};

    fn call(place: u64, key: &str, function: u16, args: &[u8]) -> CallRecord {
        let entity = Entity::new(&Layout::new(1, 2), OperatorId(1), false, key.into());
        CallRecord { place, entity, function, args: args.into(), returned: Returned::default() }
    }

    fn scan(place: u64, number: u32, last: &str) -> ScanRecord {
        let range = KeyRange { lower: Bound::Unbounded, upper: Bound::Included(last.into()) };
        ScanRecord { place, number, read: RangeRead { operator: OperatorId(1), range } }
    }

    fn again(cached: &Arc<Execution>) -> Reinvocation {
        Reinvocation::new(Box::default(), Arc::clone(cached))
    }

    #[test]
    fn what_was_done_before_is_no_drift_in_whatever_order_and_all_else_is() {
        let calls = vec![call(1, "a", 0, b"[]"), call(2, "b", 1, b"[1]"), call(3, "a", 0, b"[]")];
        let scans = [scan(1, 1, "k"), scan(1, 2, "m"), scan(2, 1, "z")];
        let mut cached = Execution { calls: calls.clone(), ..Execution::default() };
        scans.iter().for_each(|scan| cached.scans.push(scan.clone()));
        for (issued, place) in [(2, 1), (0, 2)] {
            cached.returned(Recorded::Issued(place - 1), issued);
        }
        let cached = Arc::new(cached);
        let of = |calls: &[CallRecord]| Execution { calls: calls.to_vec(), ..Execution::default() };
        assert!(cached.issued_same_calls(&of(&calls)));
        let swapped = [calls[0].clone(), calls[2].clone(), calls[1].clone()];
        assert!(!cached.issued_same_calls(&of(&calls[..2])) && !cached.issued_same_calls(&of(&swapped)));
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 1]] {
            let mut again = again(&cached);
            assert!(order.into_iter().all(|at| again.has_issued(&calls[at]) && again.has_scanned(&scans[at])));
        }
        let others =
            [call(2, "a", 1, b"[1]"), call(2, "b", 0, b"[1]"), call(2, "b", 1, b"[2]"), call(4, "b", 1, b"[1]")];
        assert!(others.iter().all(|other| !again(&cached).has_issued(other)));
        // Less may be observed than before.
        assert!(again(&cached).has_scanned(&scan(1, 2, "c")));
        let others = [scan(1, 2, "n"), scan(2, 2, "z"), scan(3, 1, "a")];
        assert!(others.iter().all(|other| !again(&cached).has_scanned(other)));
        // In its place or another one; a function that has not returned there is compared with none.
        let returned = |at, place, issued| again(&cached).has_returned(Recorded::Issued(at), place, issued);
        assert!(returned(0, 1, 2) && returned(2, 1, 2) && returned(1, 2, 0));
        assert!(!returned(0, 1, 1) && !returned(0, 2, 2) && !returned(2, 3, 0) && !returned(0, 4, 0));
    }
}
