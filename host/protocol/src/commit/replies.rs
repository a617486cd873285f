//! Replies that must be remembered: of requests with an idempotency key, and of sends.
//!
//! Part of the replicated state: filled and trimmed by the log alone, so that every replay holds
//! the same. Everything else deduplicates by its place in the log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use styx_planted::{Bug, planted};

use crate::abort::Abort;
use crate::ids::{Epoch, PartitionId, RequestId, Tid, Timestamp};
use crate::sequence::route::partition_of;
use crate::state::entity::{Layout, Payload, Value};

/// The end of a request, as its client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub id: RequestId,
    pub tid: Tid,
    /// The epoch in which it ended.
    pub epoch: Epoch,
    /// The result, or why there is none.
    pub outcome: Result<Value, Abort>,
}

/// How long replies are remembered: until one of the bounds is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Retention {
    /// Age in microseconds of logged time.
    pub age_us: u64,
    /// Number of replies.
    pub count: usize,
    /// Bytes of results.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { age_us: 24 * 3600 * 1_000_000, count: 1_000_000, bytes: 256 << 20 }
    }
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Sequenced, not ended.
    Pending,
    /// Ended.
    Done(Reply),
}

#[derive(Debug)]
struct Entry {
    body: u64,
    known: Known,
    /// The logged time at which it ended, if it has.
    ended: Timestamp,
}

impl Entry {
    fn kept(&self) -> Option<Kept> {
        match &self.known {
            Known::Done(reply) => Some(Kept::new(reply, self.body, self.ended)),
            Known::Pending => None,
        }
    }

    /// When it ended, if it has.
    fn end(&self) -> Option<End> {
        if let Known::Done(reply) = &self.known { Some(End::of(reply)) } else { None }
    }

    /// What it takes of the bounds.
    fn size(&self) -> Option<u64> {
        if let Known::Done(reply) = &self.known { Some(size(reply.outcome.as_ref())) } else { None }
    }
}

/// Where a request ended. Older ones are forgotten first; of one epoch, those with smaller TIDs: a snapshot knows no other
/// order, and whoever begins with it forgets what everybody else forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    epoch: Epoch,
    tid: Tid,
    id: RequestId,
}

impl End {
    fn of(&Reply { id, tid, epoch, .. }: &Reply) -> Self {
        End { epoch, tid, id }
    }
}

/// A reply as it stands in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Kept {
    pub id: RequestId,
    /// Hash of what was asked.
    pub body: u64,
    pub tid: Tid,
    /// The epoch in which it ended.
    pub epoch: Epoch,
    /// The logged time of that.
    pub ended: Timestamp,
    /// The result, or why there is none.
    pub outcome: Result<Payload, Abort>,
}

/// What has become of a remembered reply since the last snapshot.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum ReplyChange {
    Kept(
        /// It is remembered.
        Kept,
    ),
    Forgotten(
        /// It is not.
        RequestId,
    ),
}

impl ReplyChange {
    pub fn id(&self) -> RequestId {
        match self {
            ReplyChange::Kept(kept) => kept.id,
            ReplyChange::Forgotten(id) => *id,
        }
    }

    /// About as many bytes as it takes.
    pub fn weight(&self) -> usize {
        match self {
            ReplyChange::Kept(kept) => kept.weight(),
            ReplyChange::Forgotten(_) => ENTRY_BYTES as usize,
        }
    }
}

/// Replies by request id, those of each partition apart: what is remembered goes where its partition goes.
#[derive(Debug)]
pub struct ReplyTable {
    retention: Retention,
    layout: Layout,
    partitions: Vec<PartitionReplies>,
    /// Ended requests, oldest first. What left with its partition is still named.
    ended: VecDeque<End>,
    /// So many of these, the last ones, have yet to be brought into their order.
    unordered: usize,
    /// The same, of what came with a partition.
    adopted: Vec<BTreeSet<End>>,
    /// Replies that are remembered, and their bytes.
    totals: Totals,
    /// So many were forgotten for their number or their bytes.
    forgotten_early: u64,
    /// Since the last snapshot, oldest first; `None` while changes are not tracked.
    changes: Option<Vec<ReplyChange>>,
    /// Partitions of which changes are told to another worker, and those changes.
    followed: BTreeSet<PartitionId>,
    told: Vec<ReplyChange>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    count: usize,
    bytes: u64,
}

impl Totals {
    fn add(&mut self, size: u64) {
        *self = Totals { count: self.count + 1, bytes: self.bytes + size };
    }

    fn remove(&mut self, size: u64) {
        *self = Totals { count: self.count - 1, bytes: self.bytes - size };
    }
}

/// What is known of the requests of one partition.
#[derive(Debug, Default)]
pub struct PartitionReplies {
    entries: BTreeMap<RequestId, Entry>,
    totals: Totals,
}

/// The same, on its way to another worker.
#[derive(Debug, Default)]
pub struct FollowedReplies {
    replies: PartitionReplies,
    ended: BTreeSet<End>,
}

/// Replies of a snapshot, each in its place. To put them there takes as long as there are many, and a worker that begins with
/// them owes heartbeats: it is done before.
#[derive(Debug)]
pub struct RestoredReplies(ReplyTable);

impl RestoredReplies {
    /// Replies in any order.
    pub fn new(mut kept: Vec<Kept>, layout: Layout) -> Self {
        kept.sort_unstable_by_key(|kept| (kept.epoch, kept.tid));
        let mut table = ReplyTable::new(Retention::default(), layout);
        for kept in kept {
            let (id, entry) = (kept.id, kept.into_entry());
            table.ended.extend(entry.end());
            table.set(id, Some(entry));
        }
        RestoredReplies(table)
    }

    /// The next snapshot builds on none: all of them are changes for it.
    #[must_use]
    pub fn as_changes(mut self) -> Self {
        self.0.changes = Some(self.0.kept().map(ReplyChange::Kept).collect());
        self
    }

    /// The replies again.
    pub fn into_kept(self) -> Vec<Kept> {
        self.0.into_kept()
    }
}

/// Overhead counted per reply, so that empty results are bounded too.
const ENTRY_BYTES: u64 = 128;

impl ReplyTable {
    /// An empty table.
    pub fn new(retention: Retention, layout: Layout) -> Self {
        ReplyTable {
            retention,
            layout,
            partitions: (0..layout.partitions).map(|_| PartitionReplies::default()).collect(),
            ended: VecDeque::new(),
            unordered: 0,
            adopted: Vec::new(),
            totals: Totals::default(),
            forgotten_early: 0,
            changes: None,
            followed: BTreeSet::new(),
            told: Vec::new(),
        }
    }

    fn partition(&self, id: RequestId) -> PartitionId {
        partition_of(id, &self.layout)
    }

    fn entry(&self, id: RequestId) -> Option<&Entry> {
        self.partitions[usize::from(self.partition(id).0)].entries.get(&id)
    }

    /// What is known of a request is another thing from now on; gives what it was.
    fn set(&mut self, id: RequestId, entry: Option<Entry>) -> Option<Entry> {
        let at = usize::from(self.partition(id).0);
        let PartitionReplies { entries, totals } = &mut self.partitions[at];
        if let Some(size) = entry.as_ref().and_then(Entry::size) {
            totals.add(size);
            self.totals.add(size);
        }
        let before = match entry {
            Some(entry) => entries.insert(id, entry),
            None => entries.remove(&id),
        };
        if let Some(size) = before.as_ref().and_then(Entry::size) {
            totals.remove(size);
            self.totals.remove(size);
        }
        before
    }

    /// What is known of a request, and the hash of its body.
    pub fn get(&self, id: RequestId) -> Option<(&Known, u64)> {
        self.entry(id).map(|entry| (&entry.known, entry.body))
    }

    /// Number of requests known.
    pub fn len(&self) -> usize {
        self.partitions.iter().map(|partition| partition.entries.len()).sum()
    }

    /// Replies forgotten before their age was reached.
    pub fn forgotten_early(&self) -> u64 {
        self.forgotten_early
    }

    /// Whether none are known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes a request when it is sequenced.
    ///
    /// Its id may be known: in a replay under another membership, whose tables are filled otherwise
    /// and forget later than those of the membership that took the id again.
    pub fn begin(&mut self, id: RequestId, body: u64) {
        self.set(id, Some(Entry { body, known: Known::Pending, ended: Timestamp(0) }));
    }

    /// Notes its end at the logged time `now`.
    pub fn end(&mut self, reply: &Reply, now: Timestamp) {
        let Some(body) = self.entry(reply.id).map(|entry| entry.body) else { return };
        self.set(reply.id, Some(Entry { body, known: Known::Done(reply.clone()), ended: now }));
        if !planted(Bug::RepliesNotInSnapshot) {
            self.changed(reply.id, || ReplyChange::Kept(Kept::new(reply, body, now)));
        }
        self.ended.push_back(End::of(reply));
        self.unordered += 1;
    }

    fn changed(&mut self, id: RequestId, change: impl Fn() -> ReplyChange) {
        if let Some(changes) = &mut self.changes {
            changes.push(change());
        }
        if !self.followed.is_empty() && self.followed.contains(&self.partition(id)) {
            self.told.push(change());
        }
    }

    /// Forgets what the bounds allow to forget at the logged time `now`.
    pub fn trim(&mut self, now: Timestamp) {
        self.order();
        while let Some((end, adopted)) = self.oldest() {
            let id = end.id;
            // Otherwise it has left, or is under way again.
            let ended = self.entry(id).filter(|entry| entry.end() == Some(end)).map(|entry| entry.ended);
            let is_here = ended.is_some();
            let old = ended.is_some_and(|then| now.0.saturating_sub(then.0) > self.retention.age_us);
            let Totals { count, bytes } = self.totals;
            let fits = count <= self.retention.count && bytes <= self.retention.bytes;
            if is_here && !old && fits {
                break;
            }
            match adopted {
                Some(at) => drop(self.adopted[at].pop_first()),
                None => drop(self.ended.pop_front()),
            }
            if is_here {
                self.set(id, None);
                self.forgotten_early += u64::from(!old);
                self.changed(id, || ReplyChange::Forgotten(id));
            }
        }
        self.adopted.retain(|adopted| !adopted.is_empty());
    }

    /// Brings what has ended lately into the order of its ends: what fell back comes behind the rest of its epoch.
    fn order(&mut self) {
        let from = self.ended.len() - std::mem::take(&mut self.unordered);
        if !self.ended.range(from..).is_sorted() {
            let mut last = self.ended.split_off(from);
            last.make_contiguous().sort();
            self.ended.append(&mut last);
        }
    }

    /// What ended first, and among which of those that were adopted it is, if it was.
    fn oldest(&self) -> Option<(End, Option<usize>)> {
        let own = self.ended.front().map(|end| (*end, None));
        let adopted = self.adopted.iter().enumerate();
        let adopted = adopted.filter_map(|(at, ended)| ended.first().map(|end| (*end, Some(at))));
        own.into_iter().chain(adopted).min_by_key(|(end, _)| *end)
    }

    /// Forgets replies before their time.
    pub fn forget(&mut self, is_forgotten: impl Fn(&Reply) -> bool) {
        let entries = self.partitions.iter().flat_map(|partition| &partition.entries);
        let forgotten: Vec<RequestId> = entries
            .filter(|(_, entry)| matches!(&entry.known, Known::Done(reply) if is_forgotten(reply)))
            .map(|(id, _)| *id)
            .collect();
        for id in forgotten {
            self.set(id, None);
            self.changed(id, || ReplyChange::Forgotten(id));
        }
    }

    /// Tracks changes from now on, for snapshots.
    pub fn track(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// Cuts off what has changed since the last time. Of several changes of one reply the last counts.
    pub fn cut(&mut self) -> Vec<ReplyChange> {
        self.changes.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Whether nothing has changed since the last time.
    pub fn is_cut(&self) -> bool {
        self.changes.as_ref().is_none_or(Vec::is_empty)
    }

    /// All replies, as a snapshot holds them.
    pub fn into_kept(self) -> Vec<Kept> {
        self.kept().collect()
    }

    fn kept(&self) -> impl Iterator<Item = Kept> {
        self.partitions.iter().flat_map(|partition| partition.entries.values()).filter_map(Entry::kept)
    }

    /// An empty table takes replies from a snapshot.
    ///
    /// # Panics
    /// They were put into the places of another layout.
    pub fn restore(&mut self, RestoredReplies(restored): RestoredReplies) {
        assert_eq!(self.layout, restored.layout, "there are as many partitions as there were");
        let ReplyTable { partitions, ended, totals, changes, .. } = restored;
        (self.partitions, self.ended, self.unordered, self.totals) = (partitions, ended, 0, totals);
        if let Some(changes) = changes {
            self.changes = Some(changes);
        }
    }

    /// There are other partitions; the next snapshot, if such are taken, builds on none.
    pub fn repartition(&mut self, layout: Layout) {
        let before = std::mem::replace(&mut self.layout, layout);
        let mut partitions: Vec<_> = (0..layout.partitions).map(|_| PartitionReplies::default()).collect();
        for (memory, at) in (0..before.created).map(|memory| (memory, before.of_memory(memory))) {
            let of = std::mem::take(&mut self.partitions[usize::from(at.0)]);
            partitions[usize::from(layout.of_memory(memory).0)] = of;
        }
        self.partitions = partitions;
        if self.changes.is_some() {
            self.changes = Some(self.kept().map(ReplyChange::Kept).collect());
        }
    }

    // Migration.

    /// From now on, changes of a partition are told to whoever is to have it.
    pub fn follow(&mut self, partition: PartitionId) {
        self.followed.insert(partition);
    }

    /// Nobody follows any more.
    pub fn unfollow(&mut self) {
        self.followed.clear();
        self.told.clear();
    }

    /// Changes of followed partitions since the last time, in order.
    pub fn take_told(&mut self) -> Vec<ReplyChange> {
        std::mem::take(&mut self.told)
    }

    /// Replies of a partition behind an id, in the order of ids, as many as weigh `bytes`, one at least; and whether
    /// those were the last.
    pub fn copy(&self, partition: PartitionId, after: Option<RequestId>, bytes: usize) -> (Vec<Kept>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = self.partitions[usize::from(partition.0)].entries.range((from, Bound::Unbounded));
        let (mut copied, mut weight) = (Vec::new(), 0);
        for (_, entry) in entries.by_ref() {
            copied.extend(entry.kept());
            weight += entry.size().unwrap_or(0) as usize;
            if weight >= bytes {
                break;
            }
        }
        (copied, entries.next().is_none())
    }

    /// A partition leaves, with all that is known of its requests.
    pub fn take(&mut self, partition: PartitionId) -> PartitionReplies {
        self.followed.remove(&partition);
        let taken = std::mem::take(&mut self.partitions[usize::from(partition.0)]);
        self.totals.count -= taken.totals.count;
        self.totals.bytes -= taken.totals.bytes;
        taken
    }

    /// A partition comes, with all that is known of its requests.
    pub fn adopt(&mut self, partition: PartitionId, followed: FollowedReplies) {
        let FollowedReplies { replies, ended } = followed;
        self.totals.count += replies.totals.count;
        self.totals.bytes += replies.totals.bytes;
        self.partitions[usize::from(partition.0)] = replies;
        self.adopted.push(ended);
    }
}

impl FollowedReplies {
    /// Follows what becomes of a reply; what is known already changes nothing.
    pub fn apply(&mut self, change: ReplyChange) {
        let PartitionReplies { entries, totals } = &mut self.replies;
        if let Some(before) = entries.remove(&change.id()) {
            if let Some(end) = before.end() {
                self.ended.remove(&end);
            }
            totals.remove(before.size().unwrap_or(0));
        }
        if let ReplyChange::Kept(kept) = change {
            let (id, entry) = (kept.id, kept.into_entry());
            self.ended.extend(entry.end());
            totals.add(entry.size().unwrap_or(0));
            entries.insert(id, entry);
        }
    }
}

impl Kept {
    fn new(reply: &Reply, body: u64, ended: Timestamp) -> Self {
        let Reply { id, tid, epoch, outcome } = reply.clone();
        Kept { id, body, tid, epoch, ended, outcome: outcome.map(Payload) }
    }

    fn into_entry(self) -> Entry {
        let Kept { id, body, tid, epoch, ended, outcome } = self;
        let reply = Reply { id, tid, epoch, outcome: outcome.map(|Payload(value)| value) };
        Entry { body, known: Known::Done(reply), ended }
    }

    /// About as many bytes as it takes.
    pub fn weight(&self) -> usize {
        size(self.outcome.as_ref().map(|Payload(value)| value)) as usize
    }
}

fn size(outcome: Result<&Value, &Abort>) -> u64 {
    ENTRY_BYTES + outcome.map_or_else(Abort::size, |value| value.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_for_lack_of_room_is_counted_and_what_is_old_is_not() {
        let roomy = Retention { age_us: 100, count: 10, bytes: 1 << 20 };
        for (retention, early) in
            [(roomy, 0), (Retention { count: 2, ..roomy }, 3), (Retention { bytes: 4 * (ENTRY_BYTES + 1), ..roomy }, 1)]
        {
            let mut table = ReplyTable::new(retention, Layout::new(1, 3));
            for number in 0..5 {
                let id = RequestId(number);
                table.begin(id, 0);
                let reply = Reply { id, tid: Tid(1), epoch: Epoch(1), outcome: Ok(b"1"[..].into()) };
                table.end(&reply, Timestamp(0));
            }
            table.trim(Timestamp(100));
            assert_eq!((table.forgotten_early(), table.len() as u64), (early, 5 - early), "{retention:?}");
            assert!(!table.is_empty());
            table.trim(Timestamp(101));
            assert_eq!((table.forgotten_early(), table.len()), (early, 0), "{retention:?}");
            assert!(table.is_empty());
        }
    }

    #[test]
    fn what_is_forgotten_before_its_time_is_gone_from_the_table_its_bounds_and_the_next_snapshot() {
        let mut table = ReplyTable::new(Retention::default(), Layout::new(1, 3));
        table.track();
        for number in 0..4 {
            let id = RequestId(number);
            table.begin(id, 0);
            let refused = Err(Abort::new(crate::abort::Code::Quarantined, "set aside"));
            let outcome = if number % 2 == 0 { refused } else { Ok(b"1"[..].into()) };
            if number < 3 {
                table.end(&Reply { id, tid: Tid(1), epoch: Epoch(1), outcome }, Timestamp(0));
            }
        }
        table.cut();
        let bytes = table.totals.bytes;
        table.forget(|reply| reply.outcome.is_err() && reply.id == RequestId(0));
        assert_eq!(table.cut(), [ReplyChange::Forgotten(RequestId(0))]);
        let known = (0..4).map(|number| table.get(RequestId(number)).is_some()).collect::<Vec<_>>();
        assert_eq!(
            (known, table.totals.bytes),
            (vec![false, true, true, true], bytes - ENTRY_BYTES - "set aside".len() as u64)
        );
        // It may come again, and is forgotten once.
        table.begin(RequestId(0), 0);
        table.trim(Timestamp(u64::MAX));
        assert_eq!(table.len(), 2, "those that have not ended");
    }

    #[test]
    fn what_becomes_of_a_partition_that_left_is_told_to_nobody() {
        let mut table = ReplyTable::new(Retention::default(), Layout::new(1, 1));
        let end = |table: &mut ReplyTable, number| {
            table.begin(RequestId(number), 0);
            let outcome = Ok(b"1"[..].into());
            table.end(&Reply { id: RequestId(number), tid: Tid(1), epoch: Epoch(1), outcome }, Timestamp(0));
        };
        table.follow(PartitionId(0));
        end(&mut table, 1);
        assert_eq!(table.take_told().len(), 1);
        let gone = table.take(PartitionId(0));
        table.adopt(PartitionId(0), FollowedReplies { replies: gone, ..FollowedReplies::default() });
        end(&mut table, 2);
        assert!(table.take_told().is_empty());
    }

    #[test]
    fn replies_are_copied_in_pieces_of_so_many_bytes_and_one_at_least() {
        let mut table = ReplyTable::new(Retention::default(), Layout::new(1, 1));
        // The first has not ended: there is nothing to be copied of it.
        table.begin(RequestId(0), 0);
        for number in 1..6 {
            let id = RequestId(number);
            table.begin(id, 0);
            table.end(&Reply { id, tid: Tid(1), epoch: Epoch(1), outcome: Ok(b"1"[..].into()) }, Timestamp(0));
        }
        let each = ENTRY_BYTES as usize + 1;
        for (bytes, expected) in [(1, 1), (each, 1), (each + 1, 2), (2 * each, 2), (4 * each, 4), (4 * each + 1, 5)] {
            let (copied, last) = table.copy(PartitionId(0), None, bytes);
            assert!(copied.iter().map(|kept| kept.id.0).eq(1..=expected), "{bytes}: {copied:?}");
            assert_eq!(last, expected == 5);
        }
        let (copied, last) = table.copy(PartitionId(0), Some(RequestId(2)), 9 * each);
        assert!(copied.iter().map(|kept| kept.id.0).eq(3..6) && last);
    }

    #[test]
    fn whoever_begins_with_a_snapshot_forgets_what_everybody_forgets() {
        let retention = Retention { count: 2, ..Retention::default() };
        let mut table = ReplyTable::new(retention, Layout::new(1, 3));
        // Number 0 fell back.
        for number in [1, 2, 3, 0] {
            let id = RequestId(number);
            table.begin(id, 0);
            let tid = Tid(number as u64);
            table.end(&Reply { id, tid, epoch: Epoch(1), outcome: Ok(b"1"[..].into()) }, Timestamp(5));
        }
        let all = || (0..4).map(RequestId);
        let kept = all().filter_map(|id| table.entry(id)?.kept()).collect();
        let mut restored = ReplyTable::new(retention, Layout::new(1, 3));
        restored.restore(RestoredReplies::new(kept, Layout::new(1, 3)));
        for table in [&mut table, &mut restored] {
            table.trim(Timestamp(6));
            assert_eq!(all().filter(|id| table.get(*id).is_some()).map(|id| id.0).collect::<Vec<_>>(), [2, 3]);
        }
    }

    #[test]
    fn what_nobody_follows_any_more_is_told_to_nobody() {
        let mut table = ReplyTable::new(Retention::default(), Layout::new(1, 1));
        let end = |table: &mut ReplyTable, number| {
            let id = RequestId(number);
            table.begin(id, 0);
            table.end(&Reply { id, tid: Tid(1), epoch: Epoch(1), outcome: Ok(b"1"[..].into()) }, Timestamp(0));
        };
        end(&mut table, 1);
        table.follow(PartitionId(0));
        end(&mut table, 2);
        let told = table.take_told();
        assert!(!told.is_empty() && told.iter().all(|change| change.id() == RequestId(2)), "{told:?}");
        end(&mut table, 3);
        table.unfollow();
        end(&mut table, 4);
        assert_eq!(table.take_told(), []);
    }
}
