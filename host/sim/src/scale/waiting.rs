//! Clients of the model: when their requests came, and how long they waited.

use std::collections::VecDeque;

/// Requests that came to a worker over some time, evenly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub from: f64,
    pub until: f64,
    pub count: f64,
}

/// Takes at most so many requests from the front.
pub(super) fn take(queue: &mut VecDeque<Arrived>, most: f64) -> Vec<Arrived> {
    let mut left = most;
    let mut taken = Vec::new();
    while left > 0.0
        && let Some(first) = queue.pop_front()
    {
        let count = first.count.min(left);
        left -= count;
        let middle = match first.count > 0.0 {
            true => first.from + (first.until - first.from) * count / first.count,
            false => first.until,
        };
        taken.push(Arrived { from: first.from, until: middle, count });
        if count < first.count {
            queue.push_front(Arrived { from: middle, until: first.until, count: first.count - count });
        }
    }
    taken
}

/// How long clients waited, each length as often as it is weighed.
#[derive(Debug, Default)]
pub(super) struct Waits(Vec<(f64, f64)>);

impl Waits {
    /// Those that came with these were answered then.
    pub fn answered(&mut self, arrived: &Arrived, at: f64) {
        const PARTS: u32 = 10;
        for part in 0..PARTS {
            let came = arrived.from + (arrived.until - arrived.from) * (f64::from(part) + 0.5) / f64::from(PARTS);
            self.0.push((at - came, arrived.count / f64::from(PARTS)));
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What such a part of them waited at most.
    pub fn quantile(&mut self, part: f64) -> f64 {
        self.0.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let total: f64 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut left = total * part;
        for (value, weight) in &self.0 {
            left -= weight;
            if left <= 0.0 {
                return *value;
            }
        }
        self.0.last().map_or(0.0, |(value, _)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_in_order_and_wait_from_when_they_came() {
        let mut queue: VecDeque<Arrived> =
            [(0.0, 10.0), (10.0, 20.0)].map(|(from, until)| Arrived { from, until, count: 100.0 }).into();
        let first = take(&mut queue, 150.0);
        assert_eq!(first.iter().map(|arrived| arrived.count).sum::<f64>(), 150.0);
        assert_eq!(first.last().unwrap().until, 15.0);
        let rest = take(&mut queue, 150.0);
        assert_eq!((rest.len(), rest[0].from, rest[0].count), (1, 15.0, 50.0));
        let mut waits = Waits::default();
        first.iter().for_each(|arrived| waits.answered(arrived, 20.0));
        assert!((waits.quantile(0.5) - 12.5).abs() < 1.0, "{}", waits.quantile(0.5));
        assert!((waits.quantile(0.99) - 20.0).abs() < 1.0, "{}", waits.quantile(0.99));
    }
}
