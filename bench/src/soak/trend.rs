//! Whether something grows: the slope of a series by Theil and Sen, the median of the slopes of all pairs. A third of the
//! samples may be anything, such as the moment of a snapshot.
//!
//! What is filled once and stays full grows in the beginning only, and what is emptied now and then goes up and down. So a
//! series counts as growing by the least of three: the slope of all of it, the slope of its second half, and that between the
//! medians of its first and its last third.

/// Most samples that slopes are taken of; of a longer series, means of neighbours.
const SAMPLES_MAX: usize = 400;
/// Fewer say nothing.
pub(super) const SAMPLES_MIN: usize = 8;

/// What a series may grow by over a run: so much, and so much of its median.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Tolerance {
    pub(super) absolute: f64,
    pub(super) share: f64,
}

/// What became of a series.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Trend {
    pub(super) median: f64,
    pub(super) last: f64,
    /// What it grows by in a minute; less than nothing, if it shrinks.
    pub(super) per_minute: f64,
    /// The same over the time that was looked at.
    pub(super) growth: f64,
    pub(super) allowed: f64,
}

impl Trend {
    /// That of samples, each with its second; none if there are too few.
    pub(super) fn of(samples: &[(f64, f64)], tolerance: Tolerance) -> Option<Trend> {
        let (first, last) = (samples.first()?, samples.last()?);
        if samples.len() < SAMPLES_MIN {
            return None;
        }
        let slope = theil_sen(samples).min(theil_sen(&samples[samples.len() / 2..])).min(of_thirds(samples));
        let median = median(samples.iter().map(|sample| sample.1).collect());
        Some(Trend {
            median,
            last: last.1,
            per_minute: slope * 60.0,
            growth: slope * (last.0 - first.0),
            allowed: tolerance.absolute + tolerance.share * median,
        })
    }

    pub(super) fn is_leak(&self) -> bool {
        self.growth > self.allowed
    }
}

/// The median of the slopes of all pairs, per second.
fn theil_sen(samples: &[(f64, f64)]) -> f64 {
    let together = samples.len().div_ceil(SAMPLES_MAX);
    let mean = |chunk: &[(f64, f64)]| {
        let count = chunk.len() as f64;
        (chunk.iter().map(|it| it.0).sum::<f64>() / count, chunk.iter().map(|it| it.1).sum::<f64>() / count)
    };
    let points: Vec<(f64, f64)> = samples.chunks(together).map(mean).collect();
    let pairs = points.iter().enumerate().flat_map(|(at, one)| points[at + 1..].iter().map(move |other| (one, other)));
    let slopes = pairs.filter(|(one, other)| other.0 > one.0).map(|(one, other)| (other.1 - one.1) / (other.0 - one.0));
    median(slopes.collect())
}

/// The slope between the medians of the first and the last third, per second.
fn of_thirds(samples: &[(f64, f64)]) -> f64 {
    let third = samples.len() / 3;
    let middle = |samples: &[(f64, f64)]| {
        let (times, values) = samples.iter().copied().unzip();
        [median(times), median(values)]
    };
    let ([from, before], [to, after]) = (middle(&samples[..third]), middle(&samples[samples.len() - third..]));
    (after - before) / (to - from)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => f64::midpoint(values[count / 2 - 1], values[count / 2]),
        count => values[count / 2],
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const MEMORY: Tolerance = Tolerance { absolute: 16.0, share: 0.05 };

    /// A sample each second of what is made of its second and of noise between -1 and 1.
    fn growth(seconds: usize, value: impl Fn(f64, f64) -> f64) -> Trend {
        let mut random = StdRng::seed_from_u64(7);
        let samples: Vec<(f64, f64)> =
            (0..seconds).map(|second| (second as f64, value(second as f64, random.random_range(-1.0..1.0)))).collect();
        Trend::of(&samples, MEMORY).expect("there are enough")
    }

    #[test]
    fn what_leaks_is_found() {
        let leaks: [(&str, Trend); 5] = [
            ("steadily", growth(600, |at, noise| 100.0 + 0.1 * at + 5.0 * noise)),
            ("slowly, for an hour", growth(3600, |at, noise| 100.0 + 0.01 * at + 5.0 * noise)),
            ("under a saw", growth(600, |at, noise| 100.0 + 0.1 * at + at % 30.0 + noise)),
            ("in steps", growth(600, |at, noise| 100.0 + 6.0 * (at / 60.0).floor() + noise)),
            ("with spikes", growth(600, |at, noise| 100.0 + 0.1 * at + if noise > 0.7 { 500.0 } else { 0.0 })),
        ];
        for (name, trend) in leaks {
            assert!(trend.is_leak(), "{name}: {trend:?}");
        }
    }

    #[test]
    fn what_does_not_leak_is_not() {
        let sound: [(&str, Trend); 6] = [
            ("nothing", growth(600, |_, _| 0.0)),
            ("noise", growth(600, |_, noise| 100.0 + 30.0 * noise)),
            ("a saw", growth(600, |at, _| 100.0 + at % 100.0)),
            ("what is filled once", growth(600, |at, noise| 100.0 + (0.5 * at).min(80.0) + noise)),
            ("one step", growth(600, |at, noise| if at < 200.0 { 100.0 } else { 150.0 } + noise)),
            ("what shrinks", growth(600, |at, noise| 200.0 - 0.1 * at + noise)),
        ];
        for (name, trend) in sound {
            assert!(!trend.is_leak(), "{name}: {trend:?}");
        }
    }

    #[test]
    fn the_slope_is_that_of_the_line_under_the_noise() {
        let trend = growth(1000, |at, noise| 50.0 + 0.2 * at + noise);
        assert!((trend.per_minute - 12.0).abs() < 0.2, "{trend:?}");
        assert!((trend.growth - 200.0).abs() < 4.0, "{trend:?}");
        assert!(Trend::of(&[(0.0, 1.0); 3], MEMORY).is_none());
    }
}
