//! Recovery of a front: where an earlier one stopped, by the replies that it left.

use std::collections::BTreeSet;

use styx_planted::{Bug, planted};

use super::progress::Progress;

/// A reply, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyMark {
    /// The partition of the record that it answers.
    pub partition: i32,
    /// The offset of that record.
    pub offset: i64,
    /// Everything below this offset had been answered when it was written.
    pub watermark: i64,
}

/// The partition for replies to requests of another: always the same, so that they stand together.
pub fn egress_of(ingress: i32, egress: i32) -> i32 {
    ingress % egress
}

/// Replies that are read first, for so many partitions of requests whose replies stand together, and of each of which so
/// many may be under way.
pub fn first_span(partitions: usize, window: i64) -> i64 {
    (enough(window) + window / 4) * partitions.max(1) as i64
}

/// The span to be read instead of `span`, if what was read of it does not tell all. Replies to records beyond
/// the watermark were written while it was at most a window below, so that at most two windows of replies can
/// follow. `reached_first`: there are no earlier replies.
pub fn wider_span(span: i64, reached_first: bool, partitions: &[i32], read: &[ReplyMark], window: i64) -> Option<i64> {
    let of = |partition: i32| read.iter().filter(|mark| mark.partition == partition).count() as i64;
    (!reached_first && partitions.iter().any(|partition| of(*partition) < enough(window))).then_some(span * 4)
}

fn enough(window: i64) -> i64 {
    2 * window
}

/// Progress of a partition whose records stand from `first` to before `end`, or the watermark that lies beyond
/// them: the topic was created anew.
///
/// # Errors
/// The topic ends before what has been answered.
pub fn resume(
    first: i64,
    end: i64,
    marks: impl Iterator<Item = ReplyMark> + Clone,
    window: i64,
) -> Result<Progress, i64> {
    let mut watermark = marks.clone().map(|mark| mark.watermark).max().unwrap_or(0);
    if watermark > end {
        return Err(watermark);
    }
    if planted(Bug::FrontSkipsOne) && watermark > 0 && watermark < end {
        watermark += 1;
    }
    let watermark = watermark.max(first);
    let mut answered: BTreeSet<i64> = marks.map(|mark| mark.offset).filter(|offset| *offset >= watermark).collect();
    if planted(Bug::FrontForgetsAnswered) {
        answered.clear();
    }
    Ok(Progress::new(watermark, answered, window))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::progress::Admission;

    const WINDOW: i64 = 4096;
    const ENOUGH: i64 = 2 * WINDOW;

    fn mark(offset: i64, watermark: i64) -> ReplyMark {
        ReplyMark { partition: 0, offset, watermark }
    }

    #[test]
    fn a_front_goes_on_where_replies_end_and_passes_over_those_that_are_there() {
        let marks = [mark(10, 10), mark(12, 11), mark(14, 11)];
        let mut progress = resume(0, 100, marks.into_iter(), WINDOW).unwrap();
        assert_eq!(progress.watermark(), 11);
        for (offset, admission) in
            [(11, Admission::Taken), (12, Admission::Answered), (13, Admission::Taken), (14, Admission::Answered)]
        {
            assert_eq!(progress.meet(offset), admission, "{offset}");
        }
        let at_watermark = [mark(11, 11)];
        assert_eq!(resume(0, 100, at_watermark.into_iter(), WINDOW).unwrap().meet(11), Admission::Answered);
        assert_eq!(resume(50, 100, marks.into_iter(), WINDOW).unwrap().watermark(), 50, "what was trimmed is over");
        assert_eq!(resume(0, 5, marks.into_iter(), WINDOW), Err(11), "the topic was created anew");
    }

    #[test]
    fn replies_are_read_back_until_every_partition_has_shown_two_windows() {
        let marks: Vec<ReplyMark> = (0..ENOUGH).map(|offset| mark(offset, 0)).collect();
        assert_eq!(wider_span(10, false, &[0], &marks, WINDOW), None);
        assert_eq!(wider_span(10, false, &[0, 1], &marks, WINDOW), Some(40), "nothing is known of the second");
        assert_eq!(wider_span(10, true, &[0, 1], &marks, WINDOW), None, "there is no more");
    }

    #[test]
    fn at_first_enough_is_read_for_every_partition_and_a_little_more() {
        assert!(first_span(1, WINDOW) > ENOUGH && first_span(1, WINDOW) < 2 * ENOUGH);
        assert_eq!((first_span(0, WINDOW), first_span(3, WINDOW)), (first_span(1, WINDOW), 3 * first_span(1, WINDOW)));
    }
}
