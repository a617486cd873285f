//! Waiting for brokers that do not answer: limits, a flag for those who would rather refuse than wait.
//!
//! Reads the clock of this process, for timeouts only.

use std::time::{Duration, Instant};

use super::{KafkaOptions, KafkaProblem, Stall};

/// Interval of the reports of a wait.
const REMINDER: Duration = Duration::from_secs(10);

/// One wait. Over when it is dropped.
pub(super) struct BrokerWait<'a> {
    stall: &'a Stall,
    topic: &'a str,
    stalled_after: Duration,
    most: Duration,
    since: Instant,
    reminded: Instant,
}

impl<'a> BrokerWait<'a> {
    /// For `most` without progress.
    pub fn new(stall: &'a Stall, options: &'a KafkaOptions, most: Duration) -> Self {
        let now = Instant::now();
        let KafkaOptions { topic, stalled_after, .. } = options;
        BrokerWait { stall, topic, stalled_after: *stalled_after, most, since: now, reminded: now - REMINDER }
    }

    /// Something has come.
    pub fn progress(&mut self) {
        self.since = Instant::now();
        self.end();
    }

    /// Nothing has come yet.
    pub fn no_progress(&mut self) -> Result<(), KafkaProblem> {
        let waited = self.since.elapsed();
        if waited >= self.most {
            return Err(KafkaProblem::Stalled { topic: self.topic.to_owned(), waited });
        }
        if waited >= self.stalled_after {
            self.stall.set(true);
            if self.reminded.elapsed() >= REMINDER {
                self.reminded = Instant::now();
                let (topic, seconds) = (self.topic, waited.as_secs());
                tracing::warn!(topic, seconds, "the Kafka brokers do not answer; waiting for them");
            }
        }
        Ok(())
    }

    fn end(&self) {
        if self.stall.set(false) {
            tracing::info!(topic = self.topic, "the Kafka brokers answer again");
        }
    }
}

impl Drop for BrokerWait<'_> {
    fn drop(&mut self) {
        self.stall.set(false);
    }
}
