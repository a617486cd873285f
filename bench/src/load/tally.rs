//! The tally of a run: latencies, ends, and answers over time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::connection::{Answered, End};

/// Answers are counted per so much time.
pub const SLOT: Duration = Duration::from_millis(100);

/// The time that counts: what is due before is warm-up, what is due after is not waited for.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: Instant,
    pub until: Instant,
}

impl Span {
    /// True if a moment lies in it.
    pub fn holds(&self, at: Instant) -> bool {
        self.from <= at && at < self.until
    }

    pub fn seconds(&self) -> f64 {
        (self.until - self.from).as_secs_f64()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    pub committed: u64,
    /// Refused by the function, as the workload has it.
    pub aborted: u64,
    /// Refused by the function though the workload does not say so.
    pub unexpected: u64,
    /// Not taken by the system, or it cannot say what became of it.
    pub refused: u64,
    /// Not answered when the run was over.
    pub unanswered: u64,
    /// Times that the client had to ask again.
    pub retries: u64,
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.committed += more.committed;
        self.aborted += more.aborted;
        self.unexpected += more.unexpected;
        self.refused += more.refused;
        self.unanswered += more.unanswered;
        self.retries += more.retries;
    }
}

/// A latency in µs, up to ten minutes, to three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).expect("the bounds are right")
}

/// The same to two digits: there are many of them.
pub fn coarse() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 2).expect("the bounds are right")
}

/// The tally of one connection, or of all.
#[derive(Clone, Debug)]
pub struct Tally {
    span: Span,
    /// Latencies of calls that were due in the span, from then to the answer, µs.
    pub latency_us: Histogram<u64>,
    /// The same by what was called.
    pub by_function: BTreeMap<String, Histogram<u64>>,
    /// Ends of calls that were due in the span.
    pub counts: Counts,
    /// Answers that came in the span.
    pub answered: u64,
    /// Answers in each [`SLOT`] of the span.
    pub slots: Vec<u32>,
    /// The longest latency of each, µs.
    pub longest_us: Vec<u64>,
    /// Latencies by the second of the span in which calls were due, µs.
    pub seconds_us: Vec<Histogram<u64>>,
    /// Examples of refusals and of aborts that were not expected.
    pub examples: Vec<String>,
}

/// Codes of the system's own refusals.
const REFUSALS: [&str; 4] = ["OVERLOADED", "UNAVAILABLE", "OUTCOME_UNKNOWN", "DISK_FULL"];

const EXAMPLES_MAX: usize = 5;

impl Tally {
    pub fn new(span: Span) -> Tally {
        let slots = (span.seconds() / SLOT.as_secs_f64()).ceil() as usize;
        Tally {
            span,
            latency_us: histogram(),
            by_function: BTreeMap::new(),
            counts: Counts::default(),
            answered: 0,
            slots: vec![0; slots],
            longest_us: vec![0; slots],
            seconds_us: vec![coarse(); span.seconds().ceil() as usize],
            examples: Vec::new(),
        }
    }

    /// A call that was due then has ended now; `expects` knows which failures are the workload's.
    pub fn record(
        &mut self,
        function: &str,
        due: Instant,
        now: Instant,
        answered: &Answered,
        expects: impl Fn(&str, &str) -> bool,
    ) {
        let latency_us = now.saturating_duration_since(due).as_micros() as u64;
        let mut one = Counts { retries: answered.retries.into(), ..Counts::default() };
        match &answered.end {
            End::Done(_) => one.committed = 1,
            End::Failed { code, message } if expects(code, message) => one.aborted = 1,
            End::Failed { code, message } => {
                self.example(&format!("{code}: {message}"));
                *if REFUSALS.contains(&code.as_str()) { &mut one.refused } else { &mut one.unexpected } = 1;
            }
        }
        if self.span.holds(now) && one.refused == 0 {
            self.answered += 1;
            let slot = ((now - self.span.from).as_micros() / SLOT.as_micros()) as usize;
            if let (Some(count), Some(longest)) = (self.slots.get_mut(slot), self.longest_us.get_mut(slot)) {
                *count += 1;
                *longest = latency_us.max(*longest);
            }
        }
        if !self.span.holds(due) {
            return;
        }
        self.latency_us.saturating_record(latency_us);
        self.second(due, latency_us);
        match self.by_function.get_mut(function) {
            Some(histogram) => histogram.saturating_record(latency_us),
            None => {
                let mut first = histogram();
                first.saturating_record(latency_us);
                self.by_function.insert(function.to_owned(), first);
            }
        }
        self.counts.add(one);
    }

    /// A call that was due then has no answer, and nobody waits for it: its latency is at least this.
    pub fn give_up(&mut self, due: Instant, now: Instant) {
        if self.span.holds(due) {
            let latency_us = now.saturating_duration_since(due).as_micros() as u64;
            self.latency_us.saturating_record(latency_us);
            self.second(due, latency_us);
            self.counts.unanswered += 1;
        }
    }

    fn second(&mut self, due: Instant, latency_us: u64) {
        if let Some(second) = self.seconds_us.get_mut((due - self.span.from).as_secs() as usize) {
            second.saturating_record(latency_us);
        }
    }

    fn example(&mut self, text: &str) {
        if self.examples.len() < EXAMPLES_MAX && !self.examples.iter().any(|known| known == text) {
            self.examples.push(text.chars().take(200).collect());
        }
    }

    /// Adds what another connection saw.
    pub fn merge(&mut self, other: Tally) {
        self.latency_us.add(&other.latency_us).expect("the bounds are the same");
        for (function, histogram) in other.by_function {
            let own = self.by_function.entry(function).or_insert_with(self::histogram);
            own.add(&histogram).expect("the bounds are the same");
        }
        self.counts.add(other.counts);
        self.answered += other.answered;
        for (own, more) in self.slots.iter_mut().zip(other.slots) {
            *own += more;
        }
        for (own, more) in self.seconds_us.iter_mut().zip(other.seconds_us) {
            own.add(&more).expect("the bounds are the same");
        }
        for (own, more) in self.longest_us.iter_mut().zip(other.longest_us) {
            *own = more.max(*own);
        }
        other.examples.iter().for_each(|example| self.example(example));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn warm_up_is_cut_off_and_what_is_not_answered_counts() {
        let from = Instant::now();
        let at = |ms: u64| from + Duration::from_millis(ms);
        let mut tally = Tally::new(Span { from, until: at(1000) });
        let mut record = |due: Instant, now: u64, end: End, retries: u32| {
            tally.record("f", due, at(now), &Answered { ticket: 0, end, retries }, |_, message| message == "sold out");
        };
        let done = End::Done(Bytes::new());
        record(from.checked_sub(Duration::from_millis(50)).unwrap(), 50, done.clone(), 0);
        record(at(10), 30, done.clone(), 2);
        record(at(990), 1500, done, 0);
        record(at(100), 120, End::failed("ABORTED", "sold out"), 0);
        record(at(100), 120, End::failed("ABORTED", "a surprise"), 0);
        record(at(200), 201, End::failed("OVERLOADED", "later"), 0);
        tally.give_up(at(900), at(3900));
        tally.give_up(at(1100), at(3900));
        let expected = Counts { committed: 2, aborted: 1, unexpected: 1, refused: 1, unanswered: 1, retries: 2 };
        assert_eq!(tally.counts, expected);
        // The answer to a call of the warm-up came in the span; the refusal is no service.
        assert_eq!(tally.answered, 4);
        assert_eq!(tally.slots[..3], [2, 2, 0]);
        assert_eq!(tally.latency_us.len(), 6);
        assert_eq!(tally.seconds_us.iter().map(Histogram::len).collect::<Vec<_>>(), [6]);
        assert!(tally.latency_us.max() >= 3_000_000);
        assert_eq!(tally.examples, ["ABORTED: a surprise", "OVERLOADED: later"]);
    }
}
