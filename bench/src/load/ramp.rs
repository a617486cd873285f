//! Looks for the highest rate that a system bears, and for its latency below that.

use std::sync::Arc;
use std::time::Duration;

use super::booked::Booked;
use super::pace::Pace;
use super::trial::{Measured, Trial};
use crate::progress::Progress;
use crate::system::System;

/// A rate is borne if the 99th percentile stays below this…
const P99_MS_MAX: f64 = 1000.0;
/// …and so much of what is offered is answered.
const ACHIEVED_MIN: f64 = 0.99;
/// The search ends when the highest rate borne and the lowest not borne are as close as this.
const CLOSE: f64 = 1.05;
/// Steps up or down until both are known.
const STRIDE: f64 = 1.25;
/// Trials of the search, whatever comes.
const TRIALS_MAX: usize = 20;
/// The part of the peak at which latency is told…
const USUAL: f64 = 0.8;
/// …and those at which it is measured besides.
const PARTS: [f64; 3] = [0.1, 0.3, 0.55];

#[derive(Clone, Copy, Debug)]
pub struct Ramp {
    /// Calls under way in the first trial, which finds the magnitude.
    pub window: usize,
    /// Time that counts, in each trial of the search.
    pub step: Duration,
    /// Time that counts, at 80 % of the peak.
    pub measured: Duration,
    /// Decides which calls are made.
    pub seed: u64,
}

#[derive(Debug)]
pub struct Peak {
    /// All trials, in order: the closed loop, the search, 80 % of the peak, other parts of it.
    pub trials: Vec<Measured>,
    /// The trial of the peak, if any rate was borne, and 80 % of it for longer.
    pub peak: Option<usize>,
    /// The trial at 80 % of it.
    pub usual: Option<usize>,
}

/// Judges whether a system bears what was offered.
fn is_borne(trial: &Measured) -> bool {
    let achieved = trial.offered().is_none_or(|rate| trial.tps() >= rate * ACHIEVED_MIN);
    let counts = trial.tally.counts;
    achieved && !trial.early && counts.refused == 0 && counts.unanswered == 0 && trial.latency_ms(0.99) < P99_MS_MAX
}

/// A search between a rate that is borne and one that is not.
#[derive(Clone, Copy, Debug, Default)]
struct Bracket {
    borne: Option<f64>,
    over: Option<f64>,
}

impl Bracket {
    /// The rate to try next, starting at `guess`; nothing if it is known well enough.
    fn next(&self, guess: f64) -> Option<f64> {
        match (self.borne, self.over) {
            (None, None) => Some(guess),
            (Some(borne), None) => Some(borne * STRIDE),
            // A system that bears nothing at all is not asked for ever.
            (None, Some(over)) => (over > guess / 100.0 && over > 2.0).then_some(over / STRIDE),
            (Some(borne), Some(over)) => (over / borne > CLOSE).then_some((borne * over).sqrt()),
        }
    }

    fn learn(&mut self, rate: f64, is_borne: bool) {
        if is_borne {
            self.borne = Some(self.borne.map_or(rate, |known| known.max(rate)))
        } else {
            self.over = Some(self.over.map_or(rate, |known| known.min(rate)))
        }
    }
}

impl Ramp {
    /// Looks for the peak, then measures below it.
    pub async fn run(&self, system: &dyn System, booked: &Arc<Booked>, progress: &Progress) -> anyhow::Result<Peak> {
        let trial = |pace, measured: Duration, seed| Trial {
            pace,
            warm_up: self.step / 3,
            measured,
            lag_max: Duration::from_millis(2 * P99_MS_MAX as u64),
            disturbances: Vec::new(),
            seed,
        };
        progress.stage("closed loop");
        let closed = trial(Pace::Closed { window: self.window }, self.step, self.seed);
        let closed = closed.run(system, booked, progress).await?;
        let guess = (closed.tps() * 0.95).max(1.0);
        let (mut trials, mut bracket) = (vec![closed], Bracket::default());
        let (mut peak, mut usual) = (None, None);
        loop {
            while let Some(rate) = bracket.next(guess)
                && trials.len() < TRIALS_MAX
            {
                progress.stage(&format!("searching the peak: {rate:.0}/s"));
                let next = trial(Pace::Open { rate }, self.step, self.seed + trials.len() as u64);
                let seen = next.run(system, booked, progress).await?;
                let is_borne = is_borne(&seen);
                bracket.learn(rate, is_borne);
                if is_borne && bracket.borne == Some(rate) {
                    peak = Some(trials.len());
                }
                trials.push(seen);
            }
            let Some(highest) = bracket.borne else { break };
            let rate = highest * USUAL;
            progress.stage(&format!("{:.0} % of the peak: {rate:.0}/s", USUAL * 100.0));
            let next = trial(Pace::Open { rate }, self.measured, self.seed + trials.len() as u64);
            trials.push(next.run(system, booked, progress).await?);
            usual = Some(trials.len() - 1);
            if is_borne(&trials[trials.len() - 1]) {
                break;
            }
            // What was borne for a moment is not borne for longer: a peak is looked for below.
            peak = None;
            if trials.len() >= TRIALS_MAX {
                break;
            }
            bracket = Bracket { borne: None, over: Some(rate) };
        }
        if let Some(highest) = bracket.borne.filter(|_| peak.is_some()) {
            for part in PARTS {
                let rate = highest * part;
                progress.stage(&format!("{:.0} % of the peak: {rate:.0}/s", part * 100.0));
                let next = trial(Pace::Open { rate }, self.step, self.seed + trials.len() as u64);
                trials.push(next.run(system, booked, progress).await?);
            }
        }
        Ok(Peak { trials, peak, usual })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate that the search settles on, for a system that bears rates up to `peak`.
    fn found(guess: f64, peak: f64) -> (Option<f64>, usize) {
        let (mut bracket, mut trials) = (Bracket::default(), 0);
        while let Some(rate) = bracket.next(guess) {
            bracket.learn(rate, rate <= peak);
            trials += 1;
            assert!(trials < 50, "the search does not end");
        }
        (bracket.borne, trials)
    }

    #[test]
    fn the_search_ends_close_below_the_peak() {
        for (guess, peak) in [(100_000.0, 100_000.0), (100_000.0, 70_000.0), (1_000.0, 9_000.0), (50.0, 49.0)] {
            let (rate, trials) = found(guess, peak);
            let rate = rate.unwrap();
            assert!(rate <= peak && rate * CLOSE >= peak, "{rate} for {peak}");
            assert!(trials <= 14, "{trials} trials for {peak}");
        }
    }

    #[test]
    fn a_system_that_bears_nothing_is_given_up() {
        assert_eq!(found(1_000.0, 0.0).0, None);
    }
}
