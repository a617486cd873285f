//! Scans: committed state, fallback overlay and own writes merged, and the observed range recorded.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::Attempt;
use crate::abort::{Abort, Code};
use crate::entity::{Key, Value};
use crate::mutants::{Bug, planted};
use crate::range::{KeyRange, RangeRead};

impl Attempt {
    /// Up to `limit` entries (0: as many as the RW-set limit allows) of the running function's
    /// operator that start with `prefix` and lie between the bounds, in key order or in reverse.
    pub fn scan(
        &mut self,
        prefix: &str,
        lower: Bound<Key>,
        upper: Bound<Key>,
        limit: u32,
        reverse: bool,
    ) -> Vec<(Key, Value)> {
        let operator = self.operator().clone();
        let asked = KeyRange::new(prefix, lower, upper);
        let most = self.limits.rw_set as usize + 1;
        let wanted = if limit == 0 { most } else { (limit as usize).min(most) };

        // What stands between this transaction and the committed state, by key.
        let mut pending: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        if let Some(overlay) = &self.overlay
            && !planted(Bug::OverlayScans)
        {
            pending.extend(overlay.in_range(operator.id, &asked).map(|(key, value)| (key.clone(), value.clone())));
        }
        for (entity, access) in self.footprint.accesses.iter() {
            if let Some(written) = access.write()
                && entity.operator() == operator.id
                && asked.contains(entity.key())
                && !planted(Bug::OwnScans)
            {
                pending.insert(entity.key().clone(), written.cloned());
            }
        }

        // A pending delete may hide a committed entry each, so ask for that many more.
        let hidden = pending.values().filter(|value| value.is_none()).count();
        let partition = self.layout.partition_of_prefix(prefix, operator.composite);
        let committed = self.state.scan(operator.id, &asked, partition, wanted.saturating_add(hidden), reverse);
        let mut found = merge(committed, pending, reverse);
        let cut = found.len() > wanted || (limit != 0 && found.len() == wanted);
        found.truncate(wanted);

        if found.len() == most {
            self.doom(Abort::new(
                Code::LimitExceeded,
                format!("a scan found more than {} entries (limits.rw_set); give it a limit", most - 1),
            ));
            return Vec::new();
        }
        let reverse = reverse != planted(Bug::ReverseScan);
        let range = match (cut, found.last(), reverse) {
            (true, Some((last, _)), false) if planted(Bug::LimitedScan) => {
                KeyRange { lower: asked.lower, upper: Bound::Excluded(last.clone()) }
            }
            (true, Some((last, _)), false) => KeyRange { lower: asked.lower, upper: Bound::Included(last.clone()) },
            (true, Some((last, _)), true) => KeyRange { lower: Bound::Included(last.clone()), upper: asked.upper },
            _ => asked,
        };
        if self.range_read(RangeRead { operator: operator.id, range }) { found } else { Vec::new() }
    }
}

fn merge(committed: Vec<(Key, Value)>, pending: BTreeMap<Key, Option<Value>>, reverse: bool) -> Vec<(Key, Value)> {
    if pending.is_empty() {
        return committed;
    }
    let mut merged: Vec<(Key, Value)> = committed.into_iter().filter(|(key, _)| !pending.contains_key(key)).collect();
    merged.extend(pending.into_iter().filter_map(|(key, value)| Some((key, value?))));
    match reverse {
        false => merged.sort_unstable_by(|(a, _), (b, _)| a.cmp(b)),
        true => merged.sort_unstable_by(|(a, _), (b, _)| b.cmp(a)),
    }
    merged
}
