//! The rule, for readers and writers alike, that tells which messages of a topic are records of the log.
//!
//! A broker accepts what anybody writes, also what a process writes that was replaced long ago. So each
//! message says which *generation* of writer it comes from, and every reader decides alike, in the
//! order of offsets:
//!
//! - A generation begins with its *fence*. A fence counts if its generation is higher than all before.
//! - A record counts if it comes from the writer whose fence was the last to count, and bears the
//!   next number. What an earlier writer wrote before the fence counts; what arrives after it does not.
//! - Everything else is skipped: late writes, duplicates, foreign messages.
//!
//! A topic that has been trimmed cannot be read from its first message, which may be a late one:
//! a broker that crashes forgets up to where it deleted, and begins somewhere before. So a trim names
//! the message that it keeps, one that was known to count; whoever reads begins there.
//!
//! Nothing here reads a topic or knows what a record holds.

use styx_planted::{Bug, planted};

/// Origin and number of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Whose log it is of.
    pub cluster: u128,
    /// Which writer, counted from 1.
    pub generation: u64,
    /// Tells writers apart that were given the same generation.
    pub writer: u64,
    pub kind: Kind,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A generation begins.
    Fence,
    /// A record of the log.
    Record { sequence: u64 },
    /// Records below `first` are forgotten; the next is number `sequence`. At the offset `from` is a
    /// message that counts, and nothing before it is needed any more.
    Trim {
        /// Number of the next record.
        sequence: u64,
        /// First record that is not forgotten.
        first: u64,
        /// Offset of a message that counts.
        from: i64,
    },
}

impl Kind {
    /// Number of the record, or of the one that comes next.
    fn sequence(self) -> Option<u64> {
        match self {
            Kind::Fence => None,
            Kind::Record { sequence } | Kind::Trim { sequence, .. } => Some(sequence),
        }
    }
}

/// Classification of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Record(u64),
    Fence,
    Trim,
    /// From a writer that had been replaced, or a second fence of one generation.
    Late,
    /// Not of this log: another cluster's, or no message of Styx.
    Foreign,
    /// From the present writer, under a number that is not the next.
    Misnumbered,
}

/// The log, as far as it has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// Owner of the log; the first stamped message decides.
    pub cluster: Option<u128>,
    /// The highest generation whose fence counted; 0 before any.
    pub generation: u64,
    writer: u64,
    /// Number of the next record.
    next: u64,
    /// First number that is not forgotten.
    first: u64,
}

impl Chain {
    /// A topic that is read from its very beginning.
    pub fn new() -> Self {
        Chain { cluster: None, generation: 0, writer: 0, next: 0, first: 0 }
    }

    /// A topic that has been trimmed, and the offset from which it is to be read: the least that a
    /// trim names. `messages` is all that is left, with offsets. `None` if no trim of this cluster
    /// names a message that is there.
    pub fn trimmed(cluster: u128, messages: &[(i64, Option<Stamp>)]) -> Option<(Self, i64)> {
        let low = messages.first()?.0;
        let ours = |stamp: &&Stamp| stamp.cluster == cluster;
        let named = messages.iter().filter_map(|(_, stamp)| match stamp.as_ref().filter(ours)?.kind {
            Kind::Trim { from, .. } if from >= low => Some(from),
            _ => None,
        });
        let from = named.min()?;
        let at = messages.binary_search_by_key(&from, |(offset, _)| *offset).ok()?;
        let Stamp { generation, writer, kind, .. } = messages[at].1.filter(|stamp| stamp.cluster == cluster)?;
        // There are no more records than offsets.
        let next = kind.sequence().filter(|next| *next <= i64::MAX as u64)?;
        Some((Chain { cluster: Some(cluster), generation, writer, next, first: next }, from))
    }

    /// Classifies the next message; those that count advance the chain.
    pub fn accept(&mut self, stamp: Option<&Stamp>) -> Verdict {
        let Some(stamp) = stamp else { return Verdict::Foreign };
        if *self.cluster.get_or_insert(stamp.cluster) != stamp.cluster {
            return Verdict::Foreign;
        }
        let (sequence, first) = match stamp.kind {
            Kind::Fence if stamp.generation > self.generation => {
                (self.generation, self.writer) = (stamp.generation, stamp.writer);
                return Verdict::Fence;
            }
            Kind::Fence => return Verdict::Late,
            Kind::Record { sequence } => (sequence, None),
            Kind::Trim { sequence, first, .. } => (sequence, Some(first)),
        };
        if (stamp.generation, stamp.writer) != (self.generation, self.writer) && !planted(Bug::FenceIgnored) {
            return Verdict::Late;
        }
        // Nobody forgets what is yet to come.
        if self.next != sequence || first > Some(sequence) {
            return Verdict::Misnumbered;
        }
        match first {
            Some(first) => {
                self.first = self.first.max(first);
                Verdict::Trim
            }
            None => {
                self.next = sequence + 1;
                Verdict::Record(sequence)
            }
        }
    }

    /// Number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// First number that is not forgotten.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// True if the writer's fence was the last to count.
    pub fn is_led_by(&self, generation: u64, writer: u64) -> bool {
        (self.generation, self.writer) == (generation, writer) || planted(Bug::FenceIgnored)
    }
}
