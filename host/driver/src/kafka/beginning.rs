//! Beginning of a front: it takes the right to answer, and then finds out where to go on, so that nothing is added to
//! what it reads but by itself.

use std::collections::{BTreeMap, BTreeSet};

use styx_planted::{Bug, planted};

use super::progress::Progress;
use super::recovery::{ReplyMark, egress_of, first_span, resume, wider_span};

/// What a front asks of the brokers before it begins. Each call waits for the answer.
pub trait Brokers {
    /// The right to write replies to the records of a partition.
    type Writer;
    type Error;

    /// Takes that right for partitions of requests, in their order: what others sent before under it is there, or never will be.
    ///
    /// # Errors
    /// The brokers do not answer.
    fn take(&self, partitions: &[i32]) -> Result<Vec<Self::Writer>, Self::Error>;

    /// The offset behind all that was sent to a partition of replies, whether it is committed or not.
    ///
    /// # Errors
    /// The brokers do not answer.
    fn end_of_sent(&self, egress: i32) -> Result<i64, Self::Error>;

    /// The first offset of a partition of replies, and the one behind what is decided.
    ///
    /// # Errors
    /// The brokers do not answer.
    fn decided(&self, egress: i32) -> Result<(i64, i64), Self::Error>;

    /// Waits a moment for something sent to a partition of replies to be decided.
    ///
    /// # Errors
    /// That takes too long.
    fn wait_for_decision(&self, egress: i32) -> Result<(), Self::Error>;

    /// The committed replies of a stretch of a partition.
    ///
    /// # Errors
    /// The brokers do not answer.
    fn replies(&self, egress: i32, from: i64, until: i64) -> Result<Vec<ReplyMark>, Self::Error>;

    /// The first offset of a partition of requests, and the one behind its last.
    ///
    /// # Errors
    /// The brokers do not answer.
    fn requests(&self, partition: i32) -> Result<(i64, i64), Self::Error>;

    /// Tells people that a partition of requests ends before what has been answered, and is read from its beginning.
    fn was_created_anew(&self, partition: i32, answered: i64, end: i64);
}

/// The partitions that a front serves: the right to answer, and how far each has come.
pub type Begun<W> = BTreeMap<i32, (W, Progress)>;

/// Takes partitions of requests, and finds out where to go on.
///
/// # Errors
/// The brokers do not answer.
pub fn begin<B: Brokers>(
    brokers: &B,
    partitions: &[i32],
    egress: i32,
    window: i64,
) -> Result<Begun<B::Writer>, B::Error> {
    let early = if planted(Bug::FrontReadsFirst) { Some(find(brokers, partitions, egress, window)?) } else { None };
    let writers = brokers.take(partitions)?;
    let mut found = match early {
        Some(found) => found,
        None => find(brokers, partitions, egress, window)?,
    };
    let with_progress = |(partition, writer)| found.remove(partition).map(|progress| (*partition, (writer, progress)));
    Ok(partitions.iter().zip(writers).filter_map(with_progress).collect())
}

fn find<B: Brokers>(
    brokers: &B,
    partitions: &[i32],
    egress: i32,
    window: i64,
) -> Result<BTreeMap<i32, Progress>, B::Error> {
    let mut all = BTreeMap::new();
    for replies in 0..egress {
        let here: Vec<i32> =
            partitions.iter().copied().filter(|ingress| egress_of(*ingress, egress) == replies).collect();
        if here.is_empty() {
            continue;
        }
        // Another partition's replies may be under way before those that are looked for, and nothing behind them can be
        // read.
        let sent = brokers.end_of_sent(replies)?;
        while brokers.decided(replies)?.1 < sent {
            brokers.wait_for_decision(replies)?;
        }
        let marks = marks(brokers, &here, replies, window)?;
        for partition in here {
            let (first, end) = brokers.requests(partition)?;
            let of = marks.iter().copied().filter(|mark| mark.partition == partition);
            let progress = resume(first, end, of, window).unwrap_or_else(|answered| {
                brokers.was_created_anew(partition, answered, end);
                Progress::new(first, BTreeSet::new(), window)
            });
            all.insert(partition, progress);
        }
    }
    Ok(all)
}

/// The last replies of a partition, as many as tell how far those partitions of requests have come.
fn marks<B: Brokers>(brokers: &B, partitions: &[i32], egress: i32, window: i64) -> Result<Vec<ReplyMark>, B::Error> {
    let (low, high) = brokers.decided(egress)?;
    let mut span = first_span(partitions.len(), window);
    loop {
        let from = (high - span).max(low);
        let marks = brokers.replies(egress, from, high)?;
        match wider_span(span, from == low, partitions, &marks, window) {
            Some(wider) => span = wider,
            None => return Ok(marks),
        }
    }
}
