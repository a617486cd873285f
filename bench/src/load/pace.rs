//! When calls are due. Latency counts from then, whenever a call is really sent: a system that
//! stalls must not slow down the clock that it is measured by.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many are always under way on each connection.
    Closed { window: usize },
    /// So many a second over all connections, whatever the answers do.
    Open { rate: f64 },
}

/// The calls of one connection.
#[derive(Clone, Debug)]
pub struct Schedule {
    window: usize,
    /// In an open loop: the moment of call 0, and the time between calls.
    open: Option<(Instant, Duration)>,
    sent: u64,
    until: Instant,
}

impl Schedule {
    /// The share of connection `connection` of `connections`, from `start` on.
    pub fn new(pace: Pace, connection: usize, connections: usize, start: Instant, until: Instant) -> Schedule {
        match pace {
            Pace::Closed { window } => Schedule { window: window.max(1), open: None, sent: 0, until },
            Pace::Open { rate } => {
                let gap = Duration::from_secs_f64(connections as f64 / rate);
                // Connections take turns.
                let first = start + gap.mul_f64(connection as f64 / connections as f64);
                Schedule { window: usize::MAX, open: Some((first, gap)), sent: 0, until }
            }
        }
    }

    /// When the next call is due, if there is one; in a closed loop as soon as fewer are under way.
    pub fn next(&self, now: Instant, under_way: usize) -> Option<Instant> {
        match self.open {
            None => (under_way < self.window && now < self.until).then_some(now),
            Some((first, gap)) => {
                let due = first + gap.mul_f64(self.sent as f64);
                (due < self.until).then_some(due)
            }
        }
    }

    /// The next call has been sent.
    pub fn sent(&mut self) {
        self.sent += 1;
    }

    /// True if nothing will be due again.
    pub fn is_over(&self, now: Instant) -> bool {
        match self.open {
            None => now >= self.until,
            Some(_) => self.next(now, 0).is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_share_a_rate_evenly_and_a_late_call_keeps_its_moment() {
        let start = Instant::now();
        let until = start + Duration::from_secs(1);
        let mut moments = Vec::new();
        for connection in 0..4 {
            let mut schedule = Schedule::new(Pace::Open { rate: 1000.0 }, connection, 4, start, until);
            // Asked far too late, each call is still due at its own moment.
            while let Some(due) = schedule.next(until + Duration::from_secs(9), 0) {
                moments.push((due - start).as_micros() as u64);
                schedule.sent();
            }
            assert!(schedule.is_over(start));
        }
        moments.sort_unstable();
        assert_eq!(moments, (0..1000).map(|at| at * 1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_closed_loop_sends_when_there_is_room() {
        let start = Instant::now();
        let until = start + Duration::from_secs(1);
        let schedule = Schedule::new(Pace::Closed { window: 3 }, 0, 1, start, until);
        assert_eq!(schedule.next(start, 2), Some(start));
        assert_eq!(schedule.next(start, 3), None);
        assert_eq!(schedule.next(until, 0), None);
        assert!(schedule.is_over(until));
    }
}
