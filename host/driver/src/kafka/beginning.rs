//! Beginning of a front: it takes the right to answer, and then finds out where to go on, so that nothing is added to
//! what it reads but by itself.

use std::collections::{BTreeMap, BTreeSet};

use styx_planted::{Bug, planted};

use super::progress::Progress;
use super::recovery::{ReplyMark, egress_of, first_span, resume, wider_span};

/// A right to write replies. Whoever takes one makes whoever had it before harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// To the records of all partitions: a front that serves all of them writes under this, in fewer and longer transactions.
    All,
    /// To the records of one partition.
    Of(i32),
}

/// What a front asks of the brokers before it begins. Each call waits for the answer.
pub trait Brokers {
    /// Writes replies under a right.
    type Writer;
    type Error;

    /// Takes rights, in their order: what others sent before under them is there, or never will be.
    ///
    /// # Errors
    /// The brokers do not answer.
    fn take(&self, rights: &[Right]) -> Result<Vec<Self::Writer>, Self::Error>;

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

/// What a front begins with.
#[derive(Debug)]
pub struct Begun<W> {
    /// How far each partition of requests that it serves has come.
    pub progress: BTreeMap<i32, Progress>,
    pub writers: Writers<W>,
}

/// Who writes replies, by right: one for all partitions, or one for each.
#[derive(Debug)]
pub struct Writers<W>(BTreeMap<Right, W>);

impl<W> Writers<W> {
    /// The one that writes replies to the records of a partition that is served.
    pub fn of(&self, partition: i32) -> Option<&W> {
        self.0.get(&Right::All).or_else(|| self.0.get(&Right::Of(partition)))
    }

    pub fn into_values(self) -> impl Iterator<Item = W> {
        self.0.into_values()
    }

    /// # Errors
    /// The first of those of `change`.
    pub fn try_map<T, E>(self, change: impl FnMut(W) -> Result<T, E>) -> Result<Writers<T>, E> {
        let mut change = change;
        let changed = self.0.into_iter().map(|(right, writer)| Ok((right, change(writer)?)));
        changed.collect::<Result<_, E>>().map(Writers)
    }
}

/// Takes partitions of requests, of so many, and finds out where to go on.
///
/// Whoever had one of them before wrote under its right or under [`Right::All`]: both are taken.
///
/// # Errors
/// The brokers do not answer.
pub fn begin<B: Brokers>(
    brokers: &B,
    partitions: &[i32],
    of: i32,
    egress: i32,
    window: i64,
) -> Result<Begun<B::Writer>, B::Error> {
    let early = if planted(Bug::FrontReadsFirst) { Some(find(brokers, partitions, egress, window)?) } else { None };
    let has_all = (0..of).all(|partition| partitions.contains(&partition));
    let used = |right: &Right| (*right == Right::All) == has_all;
    let mut rights: Vec<Right> = partitions.iter().map(|partition| Right::Of(*partition)).collect();
    rights.push(Right::All);
    if planted(Bug::FrontTakesWhatItUses) {
        rights.retain(used);
    }
    let taken = rights.iter().copied().zip(brokers.take(&rights)?);
    let writers = Writers(taken.filter(|(right, _)| used(right)).collect());
    let progress = match early {
        Some(found) => found,
        None => find(brokers, partitions, egress, window)?,
    };
    Ok(Begun { progress, writers })
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use styx_transcript::{did, scenario};

    use super::super::progress::Admission;
    use super::*;

    const WINDOW: i64 = 4;

    /// A call, as brokers see it.
    #[derive(Debug)]
    #[expect(dead_code, reason = "what they say stands in a transcript")]
    enum Call<'a> {
        Take(&'a [Right]),
        EndOfSent(i32),
        Decided(i32),
        Wait(i32),
        Replies { egress: i32, from: i64, until: i64 },
        Requests(i32),
        CreatedAnew { partition: i32, answered: i64, end: i64 },
    }

    /// Replies in two partitions, of which the last was sent by somebody else and is not decided at first.
    struct Topics {
        replies: [Vec<ReplyMark>; 2],
        /// How many of each partition are decided.
        decided: [Cell<i64>; 2],
        requests: Vec<(i64, i64)>,
        taken: RefCell<Vec<Right>>,
    }

    impl Brokers for Topics {
        type Writer = char;
        type Error = &'static str;

        fn take(&self, rights: &[Right]) -> Result<Vec<char>, Self::Error> {
            did(&Call::Take(rights));
            self.taken.borrow_mut().extend(rights);
            let writer = |right: &Right| match right {
                Right::All => '*',
                Right::Of(partition) => (b'a' + *partition as u8) as char,
            };
            Ok(rights.iter().map(writer).collect())
        }

        fn end_of_sent(&self, egress: i32) -> Result<i64, Self::Error> {
            did(&Call::EndOfSent(egress));
            Ok(self.replies[egress as usize].len() as i64)
        }

        fn decided(&self, egress: i32) -> Result<(i64, i64), Self::Error> {
            did(&Call::Decided(egress));
            Ok((0, self.decided[egress as usize].get()))
        }

        fn wait_for_decision(&self, egress: i32) -> Result<(), Self::Error> {
            did(&Call::Wait(egress));
            let decided = &self.decided[egress as usize];
            decided.set(decided.get() + 1);
            Ok(())
        }

        fn replies(&self, egress: i32, from: i64, until: i64) -> Result<Vec<ReplyMark>, Self::Error> {
            did(&Call::Replies { egress, from, until });
            assert!(until <= self.decided[egress as usize].get(), "nothing behind what is undecided can be read");
            Ok(self.replies[egress as usize][from as usize..until as usize].to_vec())
        }

        fn requests(&self, partition: i32) -> Result<(i64, i64), Self::Error> {
            did(&Call::Requests(partition));
            self.requests.get(partition as usize).copied().ok_or("there is no such partition")
        }

        fn was_created_anew(&self, partition: i32, answered: i64, end: i64) {
            did(&Call::CreatedAnew { partition, answered, end });
        }
    }

    /// Two partitions of replies to the requests of three, of which each has been answered up to a watermark of 2.
    fn topics(undecided: i64) -> Topics {
        let mark = |partition, offset: i64| ReplyMark { partition, offset, watermark: offset.min(2) };
        let even: Vec<ReplyMark> = (0..3).flat_map(|offset| [mark(0, offset), mark(2, offset)]).collect();
        let odd: Vec<ReplyMark> = (0..3).map(|offset| mark(1, offset)).collect();
        let decided = [Cell::new(even.len() as i64 - undecided), Cell::new(odd.len() as i64)];
        Topics { replies: [even, odd], decided, requests: vec![(0, 10); 3], taken: RefCell::default() }
    }

    #[test]
    fn the_right_to_answer_is_taken_first_and_what_others_have_sent_is_decided_before_replies_are_read() {
        let _transcript = scenario!("front");
        let topics = topics(2);
        let mut begun = begin(&topics, &[0, 1, 2], 4, 2, WINDOW).unwrap();
        assert_eq!(*topics.taken.borrow(), [Right::Of(0), Right::Of(1), Right::Of(2), Right::All]);
        let writers: String = (0..4).filter_map(|partition| begun.writers.of(partition)).collect();
        assert_eq!(writers, "abc", "each partition has its own");
        for (partition, progress) in &mut begun.progress {
            assert_eq!(progress.watermark(), 2, "{partition}");
            assert_eq!(progress.meet(2), Admission::Answered, "by a reply that was undecided at first: {partition}");
            assert_eq!(progress.meet(3), Admission::Taken, "{partition}");
        }
    }

    #[test]
    fn who_serves_all_partitions_writes_under_one_right_and_takes_those_of_all_others() {
        let _transcript = scenario!("front");
        let topics = topics(0);
        let begun = begin(&topics, &[2, 0, 1], 3, 2, WINDOW).unwrap();
        assert_eq!(topics.taken.borrow().len(), 4);
        let writers: String = (0..3).filter_map(|partition| begun.writers.of(partition)).collect();
        assert_eq!(writers, "***");
        assert_eq!(begun.writers.into_values().count(), 1);
    }

    #[test]
    fn replies_are_read_back_as_far_as_they_tell_of_each_partition() {
        let _transcript = scenario!("front");
        let mut topics = topics(0);
        // The replies to the requests of partition 0 stand before many to those of partition 2.
        let of_another = (3..60).map(|offset| ReplyMark { partition: 2, offset, watermark: offset });
        topics.replies[0].extend(of_another);
        topics.decided[0].set(topics.replies[0].len() as i64);
        topics.requests[2] = (0, 60);
        let begun = begin(&topics, &[0, 2], 3, 2, WINDOW).unwrap();
        assert_eq!((begun.progress[&0].watermark(), begun.progress[&2].watermark()), (2, 59));
    }

    #[test]
    fn a_topic_that_was_created_anew_is_read_from_its_beginning() {
        let _transcript = scenario!("front");
        let mut topics = topics(0);
        topics.requests[1] = (0, 1);
        let begun = begin(&topics, &[0, 1], 3, 2, WINDOW).unwrap();
        assert_eq!((begun.progress[&0].watermark(), begun.progress[&1].watermark()), (2, 0));
    }

    #[test]
    fn a_front_does_not_begin_without_an_answer() {
        assert_eq!(begin(&topics(0), &[0, 1, 2, 3], 4, 2, WINDOW).err(), Some("there is no such partition"));
    }
}
