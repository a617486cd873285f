//! Progress: how far a partition of requests has been answered.

use std::collections::BTreeSet;

/// Records of one partition, by what has become of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Taken and not answered.
    open: BTreeSet<i64>,
    /// Offset after the last taken.
    next: i64,
    /// Answered by an earlier front, and not met yet.
    answered: BTreeSet<i64>,
    /// How far apart the first and the last taken may lie.
    window: i64,
}

/// Decision about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is a new request.
    Taken,
    /// It has its reply.
    Answered,
    /// Later: it is too far ahead of one that has no reply yet.
    Held,
}

impl Progress {
    /// Everything below `watermark` has been answered, and beyond it what `answered` holds.
    pub fn new(watermark: i64, answered: BTreeSet<i64>, window: i64) -> Self {
        Progress { open: BTreeSet::new(), next: watermark, answered, window }
    }

    /// Meets the record at `offset`; they are met in order, though offsets may be missing.
    pub fn meet(&mut self, offset: i64) -> Admission {
        if offset < self.next {
            return Admission::Answered;
        }
        if offset >= self.watermark() + self.window && !self.open.is_empty() {
            return Admission::Held;
        }
        self.next = offset + 1;
        if self.answered.remove(&offset) {
            return Admission::Answered;
        }
        self.open.insert(offset);
        Admission::Taken
    }

    /// The reply to the record at `offset` is durable.
    pub fn done(&mut self, offset: i64) {
        let was_open = self.open.remove(&offset);
        debug_assert!(was_open, "answered once");
    }

    /// Tells whether everything met has been answered.
    pub fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// Records taken and not answered.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Everything below this offset has been answered.
    pub fn watermark(&self) -> i64 {
        self.open.first().copied().unwrap_or(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: i64 = 4096;

    #[test]
    fn the_watermark_is_contiguous_and_passes_over_missing_offsets() {
        let mut progress = Progress::new(10, BTreeSet::from([12]), WINDOW);
        assert_eq!(progress.watermark(), 10);
        for (offset, admission) in
            [(9, Admission::Answered), (10, Admission::Taken), (12, Admission::Answered), (15, Admission::Taken)]
        {
            assert_eq!(progress.meet(offset), admission, "{offset}");
        }
        assert_eq!(progress.watermark(), 10);
        progress.done(15);
        assert_eq!(progress.watermark(), 10, "10 has no reply yet");
        progress.done(10);
        assert_eq!(progress.watermark(), 16);
    }

    #[test]
    fn what_is_too_far_ahead_waits() {
        let mut progress = Progress::new(0, BTreeSet::new(), WINDOW);
        assert_eq!(progress.meet(5), Admission::Taken);
        assert_eq!(progress.meet(5 + WINDOW - 1), Admission::Taken);
        assert_eq!(progress.meet(5 + WINDOW), Admission::Held);
        progress.done(5);
        assert_eq!(progress.meet(5 + WINDOW), Admission::Taken);
        progress.done(5 + WINDOW - 1);
        progress.done(5 + WINDOW);
        // A gap without records holds nobody up.
        assert_eq!(progress.meet(100 * WINDOW), Admission::Taken);
    }

    /// A front that stops anywhere goes on from its replies: everything is answered once.
    #[test]
    fn a_front_that_stops_anywhere_answers_everything_once() {
        for seed in 0..200_u64 {
            let mut random = seed;
            let mut below = |limit: usize| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as usize % limit
            };
            let records = (0..60).filter(|offset| offset % 7 != 3).collect::<Vec<i64>>();
            // Replies as they stand in the topic: the record's offset, and the watermark.
            let mut replies: Vec<(i64, i64)> = Vec::new();
            while replies.len() < records.len() {
                let watermark = replies.iter().map(|(_, watermark)| *watermark).max().unwrap_or(0);
                let answered = replies.iter().map(|(offset, _)| *offset).filter(|offset| *offset >= watermark);
                let mut progress = Progress::new(watermark, answered.collect(), WINDOW);
                let mut coming = records.iter().filter(|offset| **offset >= watermark);
                let (mut open, mut unconfirmed) = (Vec::new(), Vec::new());
                for _ in 0..below(60) {
                    match below(3) {
                        0 => {
                            let met = coming.next().map(|offset| (*offset, progress.meet(*offset)));
                            open.extend(met.filter(|(_, met)| *met == Admission::Taken).map(|(offset, _)| offset));
                        }
                        1 if !open.is_empty() => {
                            let offset = open.swap_remove(below(open.len()));
                            replies.push((offset, progress.watermark()));
                            unconfirmed.push(offset);
                        }
                        2 if !unconfirmed.is_empty() => progress.done(unconfirmed.remove(0)),
                        _ => {}
                    }
                }
            }
            let mut offsets = replies.iter().map(|(offset, _)| *offset).collect::<Vec<_>>();
            offsets.sort();
            assert_eq!(offsets, records, "seed {seed}");
        }
    }
}
