//! Replies that must be remembered: of requests with an idempotency key, and of sends.
//!
//! Part of the replicated state: filled and trimmed by the log alone, so that every replay holds
//! the same. Everything else deduplicates by its place in the log.

use std::collections::{BTreeMap, VecDeque};

use styx_planted::{Bug, planted};

use crate::abort::Abort;
use crate::ids::{Epoch, RequestId, Tid, Timestamp};
use crate::state::entity::{Payload, Value};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyChange {
    /// It is remembered.
    Kept(Kept),
    Forgotten(RequestId),
}

impl ReplyChange {
    pub fn id(&self) -> RequestId {
        match self {
            ReplyChange::Kept(kept) => kept.id,
            ReplyChange::Forgotten(id) => *id,
        }
    }
}

/// Replies by request id.
#[derive(Debug)]
pub struct ReplyTable {
    retention: Retention,
    entries: BTreeMap<RequestId, Entry>,
    /// Ended requests, oldest first.
    ended: VecDeque<(Timestamp, RequestId)>,
    bytes: u64,
    /// So many were forgotten for their number or their bytes.
    forgotten_early: u64,
    /// Since the last snapshot, oldest first; `None` while changes are not tracked.
    changes: Option<Vec<ReplyChange>>,
}

/// Overhead counted per reply, so that empty results are bounded too.
const ENTRY_BYTES: u64 = 128;

impl ReplyTable {
    /// An empty table.
    pub fn new(retention: Retention) -> Self {
        ReplyTable {
            retention,
            entries: BTreeMap::new(),
            ended: VecDeque::new(),
            bytes: 0,
            forgotten_early: 0,
            changes: None,
        }
    }

    /// What is known of a request, and the hash of its body.
    pub fn get(&self, id: RequestId) -> Option<(&Known, u64)> {
        self.entries.get(&id).map(|entry| (&entry.known, entry.body))
    }

    /// Number of requests known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Replies forgotten before their age was reached.
    pub fn forgotten_early(&self) -> u64 {
        self.forgotten_early
    }

    /// Whether none are known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Notes a request when it is sequenced.
    ///
    /// Its id may be known: in a replay under another membership, whose tables are filled otherwise
    /// and forget later than those of the membership that took the id again.
    pub fn begin(&mut self, id: RequestId, body: u64) {
        let before = self.entries.insert(id, Entry { body, known: Known::Pending });
        if let Some(Entry { known: Known::Done(reply), .. }) = before {
            self.bytes -= size(&reply);
            self.ended.retain(|(_, ended)| *ended != id);
        }
    }

    /// Notes its end at the logged time `now`.
    pub fn end(&mut self, reply: &Reply, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&reply.id) {
            entry.known = Known::Done(reply.clone());
            if let Some(changes) = self.changes.as_mut().filter(|_| !planted(Bug::RepliesNotInSnapshot)) {
                changes.push(ReplyChange::Kept(Kept::new(reply, entry.body, now)));
            }
            self.bytes += size(reply);
            self.ended.push_back((now, reply.id));
        }
    }

    /// Forgets what the bounds allow to forget at the logged time `now`.
    pub fn trim(&mut self, now: Timestamp) {
        while let Some(&(then, id)) = self.ended.front() {
            let old = now.0.saturating_sub(then.0) > self.retention.age_us;
            let kept = self.ended.len();
            let fits = kept <= self.retention.count && self.bytes <= self.retention.bytes;
            if !old && fits {
                break;
            }
            self.ended.pop_front();
            self.forgotten_early += u64::from(!old);
            if let Some(Entry { known: Known::Done(reply), .. }) = self.entries.remove(&id) {
                self.bytes -= size(&reply);
                if let Some(changes) = &mut self.changes {
                    changes.push(ReplyChange::Forgotten(id));
                }
            }
        }
    }

    /// Forgets replies before their time.
    pub fn forget(&mut self, mut is_forgotten: impl FnMut(&Reply) -> bool) {
        let ReplyTable { entries, ended, bytes, changes, .. } = self;
        ended.retain(|(_, id)| {
            let known = entries.get(id).map(|entry| &entry.known);
            let Some(size) = known.and_then(|known| match known {
                Known::Done(reply) => is_forgotten(reply).then(|| size(reply)),
                Known::Pending => None,
            }) else {
                return true;
            };
            entries.remove(id);
            *bytes -= size;
            if let Some(changes) = changes {
                changes.push(ReplyChange::Forgotten(*id));
            }
            false
        });
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
        let ReplyTable { ended, mut entries, .. } = self;
        let kept = ended.into_iter().filter_map(|(ended, id)| match entries.remove(&id)? {
            Entry { body, known: Known::Done(reply) } => Some(Kept::new(&reply, body, ended)),
            Entry { known: Known::Pending, .. } => None,
        });
        kept.collect()
    }

    /// Takes replies from a snapshot, in any order.
    pub fn restore(&mut self, mut kept: Vec<Kept>) {
        kept.sort_unstable_by_key(|kept| (kept.ended, kept.tid));
        for Kept { id, body, tid, epoch, ended, outcome } in kept {
            let reply = Reply { id, tid, epoch, outcome: outcome.map(|Payload(value)| value) };
            self.bytes += size(&reply);
            self.ended.push_back((ended, id));
            self.entries.insert(id, Entry { body, known: Known::Done(reply) });
        }
    }
}

impl Kept {
    fn new(reply: &Reply, body: u64, ended: Timestamp) -> Self {
        let Reply { id, tid, epoch, outcome } = reply.clone();
        Kept { id, body, tid, epoch, ended, outcome: outcome.map(Payload) }
    }
}

fn size(reply: &Reply) -> u64 {
    ENTRY_BYTES + reply.outcome.as_ref().map_or_else(|abort| abort.message.len(), |value| value.len()) as u64
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
            let mut table = ReplyTable::new(retention);
            for number in 0..5 {
                let id = RequestId(number);
                table.begin(id, 0);
                let reply = Reply { id, tid: Tid(1), epoch: Epoch(1), outcome: Ok(b"1"[..].into()) };
                table.end(&reply, Timestamp(0));
            }
            table.trim(Timestamp(100));
            assert_eq!((table.forgotten_early(), table.len() as u64), (early, 5 - early), "{retention:?}");
            table.trim(Timestamp(101));
            assert_eq!((table.forgotten_early(), table.len()), (early, 0), "{retention:?}");
        }
    }

    #[test]
    fn what_is_forgotten_before_its_time_is_gone_from_the_table_its_bounds_and_the_next_snapshot() {
        let mut table = ReplyTable::new(Retention::default());
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
        let bytes = table.bytes;
        table.forget(|reply| reply.outcome.is_err() && reply.id == RequestId(0));
        assert_eq!(table.cut(), [ReplyChange::Forgotten(RequestId(0))]);
        let known = (0..4).map(|number| table.get(RequestId(number)).is_some()).collect::<Vec<_>>();
        assert_eq!(
            (known, table.bytes),
            (vec![false, true, true, true], bytes - ENTRY_BYTES - "set aside".len() as u64)
        );
        // It may come again, and is forgotten once.
        table.begin(RequestId(0), 0);
        table.trim(Timestamp(u64::MAX));
        assert_eq!(table.len(), 2, "those that have not ended");
    }
}
