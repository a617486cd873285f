//! What is measured and what is played for the figures of `docs/scaling.md`.

use super::cluster::Cluster;
use super::cost::{Costs, Sample};
use super::machines::{Design, Machines};
use super::model::{Outcome, Plan, play};
use super::Load;

/// Sizes of clusters that are played.
pub const WORKERS: [u16; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// Percentages of transactions that several workers share.
pub const SHARED: [usize; 3] = [0, 20, 100];

/// Workers whose steps are timed: more of them in one process push each other out of the caches, as
/// they do not on machines of their own.
const TIMED_MAX: u16 = 2;

/// Measures what steps cost, with clusters of these sizes, so many epochs each.
pub fn measure(workers: &[u16], sizes: &[usize], epochs: usize) -> Costs {
    let mut samples: Vec<Sample> = Vec::new();
    for &workers in workers {
        for &transactions in sizes {
            for (shared, conflicts) in [(0, 0), (0, 10), (20, 0), (100, 0), (100, 10)] {
                let mut cluster = Cluster::new(Load { workers, transactions, parts: 2, shared, conflicts });
                for _ in 0..epochs {
                    cluster.epoch();
                    let timed = cluster.samples.drain(..);
                    samples.extend(timed.filter(|sample| workers <= TIMED_MAX || !sample.op.is_of_worker()));
                }
            }
        }
    }
    Costs::fit(&samples)
}

/// The load of the study: transfers between two accounts, one in a hundred of which conflicts.
pub fn load(workers: u16, shared: usize) -> Load {
    Load { workers, transactions: 1000, parts: 2, shared, conflicts: 1 }
}

/// The most that a cluster does, and how it is at four fifths of that.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Point {
    /// The cluster.
    pub plan: Plan,
    /// With as much as it takes.
    pub peak: Outcome,
    /// At four fifths of the peak.
    pub below: Outcome,
}

/// Plays one cluster.
pub fn point(load: Load, machines: Machines, design: Design, costs: &Costs) -> Point {
    // The more workers, the more chances in each epoch.
    let epochs = |most: usize, least: usize| (60_000 / usize::from(load.workers)).clamp(least, most);
    let plan = Plan { load, machines, design, rate: None, epochs: epochs(400, 60) };
    let peak = play(&plan, costs, 1);
    let below = play(&Plan { rate: Some(0.8 * peak.rate), epochs: epochs(3000, 150), ..plan }, costs, 2);
    Point { plan, peak, below }
}
