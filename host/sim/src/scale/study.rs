//! What is counted, measured and played for `docs/scaling.md`.

use std::collections::BTreeMap;

use super::Load;
use super::cluster::Cluster;
use super::cost::{Costs, Sample};
use super::load::{Kind, Traffic};
use super::machines::{Design, Machines};
use super::model::{Outcome, Plan, play};

/// Percentages of transactions that several workers share.
pub const SHARED: [usize; 3] = [0, 20, 100];

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// Sizes of clusters that are played.
    pub workers: &'static [u16],
    /// Sizes of clusters whose machines run.
    pub run: &'static [u16],
    /// Most transactions of each of their workers in an epoch.
    pub transactions: usize,
    /// Epochs, more or fewer, in all that is played.
    pub epochs: usize,
    /// What it is played on.
    pub machines: Machines,
}

/// A cluster, the most that it does, and how it is at four fifths of that.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The cluster.
    pub plan: Plan,
    /// With as much as it takes.
    pub peak: Outcome,
    /// At four fifths of the peak.
    pub below: Outcome,
}

/// What a cluster's machines tell each other in one epoch.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The cluster.
    pub load: Load,
    /// Its messages.
    pub traffic: BTreeMap<Kind, Traffic>,
}

/// Workers whose steps are timed: more of them in one process push each other out of the caches, as
/// they do not on machines of their own.
const TIMED_MAX: u16 = 2;

/// The load of the study: transfers between two accounts, one in a hundred of which conflicts.
pub fn load(workers: u16, shared: usize) -> Load {
    Load { workers, transactions: 1000, parts: 2, shared, conflicts: 1 }
}

impl Study {
    /// All that the document shows.
    pub const WHOLE: Study = Study {
        workers: &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
        run: &[1, 2, 4, 8, 16, 32, 64],
        transactions: 1000,
        epochs: 60_000,
        machines: Machines::ZONE,
    };

    /// As little as shows that it works.
    pub const QUICK: Study =
        Study { workers: &[1, 10, 100], run: &[1, 4], transactions: 40, epochs: 500, machines: Machines::ZONE };

    /// Measures what steps cost.
    pub fn measure(&self) -> Costs {
        let mut samples: Vec<Sample> = Vec::new();
        for &workers in self.run {
            for transactions in [self.transactions / 20, self.transactions / 3, self.transactions] {
                for (shared, conflicts) in [(0, 0), (0, 10), (20, 0), (100, 0), (100, 10)] {
                    let mut cluster = Cluster::new(Load { workers, transactions, parts: 2, shared, conflicts });
                    for _ in 0..7 {
                        cluster.epoch();
                        let timed = cluster.samples.drain(..);
                        samples.extend(timed.filter(|sample| workers <= TIMED_MAX || !sample.op.is_of_worker()));
                    }
                }
            }
        }
        Costs::fit(&samples)
    }

    /// Counts messages, in epochs without conflicts.
    pub fn count(&self) -> Vec<Counted> {
        let mut counted = Vec::new();
        for shared in SHARED {
            for &workers in self.run {
                let load = Load { workers, transactions: self.transactions, parts: 2, shared, conflicts: 0 };
                let mut cluster = Cluster::new(load);
                cluster.epoch();
                counted.push(Counted { load, traffic: std::mem::take(&mut cluster.traffic) });
            }
        }
        counted
    }

    /// Plays one cluster.
    pub fn point(&self, load: Load, machines: Machines, design: Design, costs: &Costs) -> Point {
        // The more workers, the more chances in each epoch.
        let epochs = self.epochs / usize::from(load.workers);
        let few = (self.epochs / 1000, self.epochs / 150);
        let many = (self.epochs / 400, self.epochs / 20);
        let plan = Plan { load, machines, design, rate: None, epochs: epochs.clamp(few.0.max(3), few.1.max(3)) };
        let peak = play(&plan, costs, 1);
        let epochs = epochs.clamp(many.0.max(3), many.1.max(3));
        let below = play(&Plan { rate: Some(0.8 * peak.rate), epochs, ..plan }, costs, 2);
        Point { plan, peak, below }
    }

    /// Plays all sizes in all arrangements.
    pub fn play(&self, costs: &Costs) -> Vec<Point> {
        let mut points = Vec::new();
        for design in Design::ALL {
            for shared in SHARED {
                let point = |&workers| self.point(load(workers, shared), self.machines, design, costs);
                points.extend(self.workers.iter().map(point));
            }
        }
        points
    }
}
