//! The workers of the model: how long they take, and when they pause.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp, LogNormal};
use rand_pcg::Pcg64Mcg;

use super::machines::Machines;

/// See the module.
#[derive(Debug)]
pub(super) struct Crew {
    random: Pcg64Mcg,
    varies: LogNormal<f64>,
    pauses: Option<Exp<f64>>,
    pause: f64,
    /// When each pauses next.
    next_pause: Vec<f64>,
    /// Time that all of them worked.
    pub busy: f64,
}

impl Crew {
    /// So many of them, all with work to do from the start.
    pub fn new(machines: &Machines, count: usize, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let sigma = machines.jitter;
        let varies = LogNormal::new(-sigma * sigma / 2.0, sigma).expect("sigma is a number");
        let every = machines.pause_every * 1e6;
        let pauses = (every > 0.0).then(|| Exp::new(1.0 / every).expect("pauses come now and then"));
        let next_pause = (0..count).map(|_| pauses.map_or(f64::MAX, |pauses| pauses.sample(&mut random))).collect();
        Crew { random, varies, pauses, pause: machines.pause, next_pause, busy: 0.0 }
    }

    /// About so much time.
    pub fn vary(&mut self, time: f64) -> f64 {
        time * self.varies.sample(&mut self.random)
    }

    /// A worker has something to do; when it is done.
    pub fn work(&mut self, worker: usize, from: f64, time: f64) -> f64 {
        let time = self.vary(time);
        self.busy += time;
        let mut end = from + time;
        while let (Some(pauses), true) = (self.pauses, self.next_pause[worker] < end) {
            let begins = self.next_pause[worker];
            end += (begins + self.pause - begins.max(from)).max(0.0);
            self.next_pause[worker] = begins + self.pause + pauses.sample(&mut self.random);
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_its_time_and_pauses_add_to_it() {
        let calm = Machines { jitter: 0.3, pause_every: 0.0, ..Machines::ZONE };
        let mut crew = Crew::new(&calm, 1, 1);
        let mut at = 0.0;
        for _ in 0..10_000 {
            at = crew.work(0, at, 100.0);
        }
        assert!((at / 1e6 - 1.0).abs() < 0.02, "the mean is what was asked for: {at}");
        assert!((crew.busy - at).abs() < 1e-3);
        // A tenth of a second in each second.
        let pausing = Machines { jitter: 0.0, pause_every: 1.0, pause: 100_000.0, ..Machines::ZONE };
        let mut crew = Crew::new(&pausing, 1, 1);
        let mut at = 0.0;
        for _ in 0..1000 {
            at = crew.work(0, at, 100_000.0);
        }
        assert!((1.07..1.13).contains(&(at / 1e8)), "{at}");
    }
}
