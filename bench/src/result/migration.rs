//! A migration during a run, and what clients noticed of it.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Latency;
use crate::load::{Measured, coarse};
use crate::system::Disturbance;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Migration {
    /// Milliseconds from the beginning of the span, and from then to its end.
    pub at_ms: u64,
    pub took_ms: u64,
    /// `done`, or why not.
    pub state: String,
    pub partitions: u64,
    pub bytes: u64,
    /// Bytes that had to go at least.
    pub least_bytes: u64,
    /// Latency of calls that were due in the seconds before it, in those that it touched, and afterwards.
    pub before: Latency,
    pub during: Latency,
    pub after: Latency,
    /// The longest epoch before it, in the pieces that it touched, and afterwards, ms: where one ended, and the server
    /// said so.
    #[serde(default)]
    pub longest_epoch_ms: [Option<f64>; 3],
}

impl Migration {
    pub fn all(measured: &Measured) -> Vec<Migration> {
        let begun = measured.events.iter().filter(|(_, what)| matches!(what, Disturbance::Migrate(..)));
        let migrations = begun.zip(&measured.migrated).map(|((range, _), migrated)| {
            let at = range.start;
            let seconds = &measured.tally.seconds_us;
            let latency = |range: Range<usize>| {
                let mut all = coarse();
                let range = range.start.min(seconds.len())..range.end.min(seconds.len());
                seconds[range].iter().for_each(|second| all.add(second).expect("the bounds are the same"));
                Latency::of(&all, false)
            };
            let (first, end) = (at.as_secs() as usize, (at + migrated.took).as_secs() as usize + 1);
            Migration {
                at_ms: at.as_millis() as u64,
                took_ms: migrated.took.as_millis() as u64,
                state: migrated.state.clone(),
                partitions: migrated.partitions,
                bytes: migrated.bytes,
                least_bytes: migrated.least_bytes,
                before: latency(0..first),
                during: latency(first..end),
                after: latency(end..seconds.len().max(end)),
                longest_epoch_ms: migrated.longest_epochs(at, Duration::from_secs_f64(measured.seconds)),
            }
        });
        migrations.collect()
    }
}
