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
