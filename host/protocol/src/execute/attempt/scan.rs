//! Scans: committed state, fallback overlay and own writes merged, and the observed range recorded.

use std::collections::BTreeMap;
use std::ops::Bound;

use styx_planted::{Bug, planted};

use super::base::Base;
use super::index::KeyIndex;
use super::site::{Entry, Operation, RemoteRequests, RemoteResponse, Scan, weigh};
use super::{Attempt, Finding, Locality, ScanRecord, Stamp};
use crate::ids::WorkerId;
use crate::state::entity::{Entity, Key, Value};
use crate::state::range::{KeyRange, RangeRead};

/// A scan that waits for other workers.
#[derive(Debug)]
pub(super) struct PendingScan {
    scan: Scan,
    unlimited: bool,
    owners: Vec<WorkerId>,
    /// All entries are here; the owners are being told what was observed.
    found: Option<Vec<(Key, Value)>>,
}

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
    ) -> Locality<Vec<(Key, Value)>> {
        if self.is_doomed() || !self.room_for_access() {
            return Locality::Local(Vec::new());
        }
        let operator = self.operator().clone();
        let most = self.quota.limits.rw_set + 1;
        let scan = Scan {
            operator: operator.id,
            range: KeyRange::new(prefix, lower, upper),
            partition: self.base.layout().partition_of_prefix(prefix, operator.composite),
            limit: if limit == 0 { most } else { limit.min(most) },
            reverse,
        };
        let owners = self.owners(&scan);
        let pending = PendingScan { scan, unlimited: limit == 0, owners, found: None };
        if pending.owners.is_empty() {
            let stamp = self.stamp();
            let found = self.find(&pending.scan, stamp.as_ref());
            return Locality::Local(self.observed(&pending, found).map_or_else(Vec::new, |(found, _)| found));
        }
        if !self.may_reach() {
            return Locality::Local(Vec::new());
        }
        let ask = self.ask_owners(&pending.owners, &Operation::Scan(pending.scan.clone()));
        self.fragment.scan = Some(Box::new(pending));
        Locality::Remote(ask)
    }

    /// Continues [`Attempt::scan`].
    pub fn scanned(&mut self, answers: Vec<RemoteResponse>) -> Locality<Vec<(Key, Value)>> {
        let mut pending = self.fragment.scan.take().expect("a scan is under way");
        let mut elsewhere = Vec::new();
        for answer in answers {
            match answer {
                RemoteResponse::Entries(entries) => {
                    elsewhere.extend(entries.into_iter().map(|Entry(key, value)| (key, value)))
                }
                RemoteResponse::Failed(abort) => drop(self.doom(abort)),
                RemoteResponse::Noted | RemoteResponse::Called(_) | RemoteResponse::Value(_) => {}
            }
        }
        if self.is_doomed() {
            return Locality::Local(Vec::new());
        }
        if let Some(found) = pending.found.take() {
            return Locality::Local(found);
        }
        let stamp = self.stamp();
        let mut found = self.find(&pending.scan, stamp.as_ref());
        found.append(&mut elsewhere);
        sort(&mut found, pending.scan.reverse);
        let Some((found, read)) = self.observed(&pending, found) else { return Locality::Local(Vec::new()) };
        let ask = self.ask_owners(&pending.owners, &Operation::Observe(read));
        pending.found = Some(found);
        self.fragment.scan = Some(pending);
        Locality::Remote(ask)
    }

    /// The other workers that may own keys of a scan.
    fn owners(&self, scan: &Scan) -> Vec<WorkerId> {
        let Some(site) = &self.site else { return Vec::new() };
        match scan.partition {
            Some(partition) => {
                Some(site.placement.owner(partition)).filter(|owner| *owner != site.me).into_iter().collect()
            }
            None => (0..site.placement.workers()).map(WorkerId).filter(|owner| *owner != site.me).collect(),
        }
    }

    fn ask_owners(&mut self, owners: &[WorkerId], operation: &Operation) -> RemoteRequests {
        if let Some(site) = &mut self.site {
            site.report.add(Finding::Reached);
        }
        RemoteRequests { operations: owners.iter().map(|owner| (*owner, self.asked(operation.clone()))).collect() }
    }

    /// Entries that are here, at most as many as the scan wants, with the transaction's own writes.
    pub(super) fn find(&mut self, scan: &Scan, stamp: Option<&Stamp>) -> Vec<(Key, Value)> {
        if let (Some(site), Some(stamp)) = (&mut self.site, stamp) {
            let read = RangeRead { operator: scan.operator, range: scan.range.clone() };
            site.scanned(read, stamp, &self.execution.footprint.accesses);
        }
        if matches!(&self.base, Base::State(state) if state.lacking(scan.operator, scan.partition).next().is_some())
            && !planted(Bug::ScansMissWhatIsElsewhere)
        {
            self.postpone();
            return Vec::new();
        }
        let composite = self.catalog.operator(scan.operator).is_some_and(|operator| operator.composite);
        // What stands between this transaction and the committed state, by key.
        let mut pending: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        let layout = self.base.layout();
        if let Some(reinvocation) = &mut self.reinvocation {
            pending.extend(reinvocation.overlay.in_range(&layout, scan.operator, composite, &scan.range));
        }
        let accesses = &self.execution.footprint.accesses;
        let index = self.written.get_or_insert_with(|| {
            let written = accesses.iter().filter(|(_, access)| access.is_write());
            Box::new(KeyIndex::of(written.map(|(entity, _)| entity)))
        });
        debug_assert_eq!(index.len(), accesses.iter().filter(|(_, access)| access.is_write()).count());
        for key in index.in_range(scan.operator, &scan.range) {
            let entity = Entity::new(&layout, scan.operator, composite, key.clone());
            if let Some(written) = accesses.get(&entity).and_then(|access| access.write()) {
                pending.insert(key.clone(), written.cloned());
            }
        }
        // A pending delete may hide a committed entry each, so ask for that many more.
        let hidden = pending.values().filter(|value| value.is_none()).count();
        let wanted = scan.limit as usize;
        let asked = wanted.saturating_add(hidden);
        let committed = match self.base.scan(scan, asked) {
            Ok(committed) => committed,
            Err(abort) => {
                self.doom(abort);
                return Vec::new();
            }
        };
        let mut found = merge(committed, pending, scan.reverse);
        debug_assert!(found.is_sorted_by(|(a, _), (b, _)| if scan.reverse { a > b } else { a < b }), "each key once");
        found.truncate(wanted);
        found.truncate(self.count_telling(&found));
        found
    }

    /// How many of these entries tell the one who scans all that it needs: it fails at the first that is over the bytes
    /// that it may find.
    fn count_telling(&self, found: &[(Key, Value)]) -> usize {
        let mut room = Some(self.quota.scan_bytes_max());
        let told = found.iter().take_while(|(key, value)| match room {
            Some(left) => {
                room = left.checked_sub(weigh(key, value));
                true
            }
            None => false,
        });
        told.count()
    }

    /// Cuts what all owners have found to what the scan wants, and records what it has observed:
    /// one that stopped at its limit, or at a bound of its app, has not seen what lies beyond.
    ///
    /// In the fallback, what no lock covers may hold anything: whether a bound is met is asked of what is covered only.
    fn observed(
        &mut self,
        pending: &PendingScan,
        mut found: Vec<(Key, Value)>,
    ) -> Option<(Vec<(Key, Value)>, RangeRead)> {
        let scan = &pending.scan;
        let cut = found.len() >= scan.limit as usize;
        found.truncate(scan.limit as usize);
        found.truncate(self.count_telling(&found));
        let bytes = found.iter().map(|(key, value)| weigh(key, value)).sum();
        let admitted = self.quota.admit_entries(found.len(), bytes);
        let last = found.last().filter(|_| (cut && !pending.unlimited) || admitted.is_err());
        let read = scan.observed(last.map(|(key, _)| key));
        // Compared scan by scan: which ranges other functions have observed, others may know.
        let frame = self.frame_mut();
        frame.scans += 1;
        let scan = ScanRecord { place: frame.place, number: frame.scans, read: read.clone() };
        if !self.admits(|first| first.has_scanned(&scan)) || !self.bounded(admitted) {
            return None;
        }
        self.execution.scans.push(scan);
        self.observe(read.clone());
        Some((found, read))
    }
}

/// Entries with what stands in front of them, in order.
pub(crate) fn merge(
    committed: Vec<(Key, Value)>,
    pending: BTreeMap<Key, Option<Value>>,
    reverse: bool,
) -> Vec<(Key, Value)> {
    if pending.is_empty() {
        return committed;
    }
    let mut merged: Vec<(Key, Value)> = committed.into_iter().filter(|(key, _)| !pending.contains_key(key)).collect();
    merged.extend(pending.into_iter().filter_map(|(key, value)| Some((key, value?))));
    sort(&mut merged, reverse);
    merged
}

fn sort(entries: &mut [(Key, Value)], reverse: bool) {
    if reverse {
        entries.sort_unstable_by(|(a, _), (b, _)| b.cmp(a))
    } else {
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b))
    }
}
