//! What was measured: the costs of steps on one machine, and clusters of one and two workers there.
//!
//! `styx-scale --measure` measures the costs anew; the clusters, `styx-bench cluster` does.

use super::Load;
use super::cost::Costs;
use super::cost::Op::{Advanced, Commit, Decode, Executed, Follow, Hear, Record, Tell};
use super::load::Kind;
use super::machines::{Design, Machines};
use super::model::{Outcome, Plan, play};

/// Costs of steps, in ns: two virtual cores of an AMD EPYC that had other work, the lower quartile.
pub fn costs() -> Costs {
    Costs::known([
        (Decode(Kind::Begin), [50.0, 0.0, 0.0]),
        (Decode(Kind::Share), [0.0, 0.0, 115.9]),
        (Decode(Kind::Executed), [34.0, 0.0, 2.3]),
        (Decode(Kind::Settle), [47.0, 0.0, 1.9]),
        (Decode(Kind::Bits), [32.7, 0.0, 6.2]),
        (Decode(Kind::Decide), [56.2, 0.0, 2.3]),
        (Decode(Kind::Finished), [41.0, 0.0, 0.0]),
        (Decode(Kind::Durable), [40.0, 0.0, 0.0]),
        (Decode(Kind::Graphs), [299.1, 0.0, 3.7]),
        (Hear(Kind::Share), [83.6, 0.0, 0.7]),
        (Hear(Kind::Executed), [61.7, 0.0, 1.1]),
        (Hear(Kind::Bits), [58.6, 0.0, 53.5]),
        (Hear(Kind::Finished), [70.0, 0.0, 0.0]),
        (Tell(Kind::Begin), [162.8, 0.0, 0.0]),
        (Tell(Kind::Settle), [109.8, 3.5, 12.1]),
        (Tell(Kind::Decide), [127.9, 2.0, 40.4]),
        (Tell(Kind::Durable), [119.9, 0.0, 0.0]),
        (Record, [312.1, 21.8, 0.0]),
        (Follow(Kind::Begin), [715.2, 24.8, 0.0]),
        (Follow(Kind::Settle), [0.0, 100.3, 0.0]),
        (Follow(Kind::Decide), [0.0, 440.4, 0.0]),
        (Follow(Kind::Durable), [50.0, 0.0, 0.0]),
        (Follow(Kind::Graphs), [40.5, 169.8, 0.0]),
        (Commit, [0.0, 453.0, 0.0]),
        (Executed, [541.6, 42.2, 0.0]),
        (Advanced, [454.7, 75.6, 0.0]),
    ])
}

/// A cluster of processes that was measured: one core for each worker's guests, log in memory,
/// everything on the same two cores. Of three runs the best.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Workers.
    pub workers: u16,
    /// Transactions of each in an epoch.
    pub transactions: usize,
    /// Shared ones, in a hundred.
    pub shared: usize,
    /// Transactions per second.
    pub rate: f64,
    /// Processor time of the coordinator's process for each, in µs.
    pub coordinator_cpu: f64,
    /// Processor time of the workers' processes for each, in µs.
    pub worker_cpu: f64,
}

const fn measured(
    workers: u16,
    transactions: usize,
    shared: usize,
    [rate, coordinator_cpu, worker_cpu]: [f64; 3],
) -> Measured {
    Measured { workers, transactions, shared, rate, coordinator_cpu, worker_cpu }
}

/// All of them.
pub const CLUSTERS: [Measured; 12] = [
    measured(1, 1000, 0, [167_898.0, 0.43, 5.84]),
    measured(2, 1000, 0, [235_654.0, 0.51, 6.39]),
    measured(2, 1000, 20, [173_355.0, 0.50, 8.30]),
    measured(2, 1000, 100, [120_202.0, 0.68, 12.44]),
    measured(1, 50, 0, [103_899.0, 2.22, 7.37]),
    measured(2, 50, 0, [131_027.0, 2.23, 9.87]),
    measured(2, 50, 20, [88_035.0, 3.18, 13.14]),
    measured(2, 50, 100, [80_741.0, 3.74, 15.08]),
    measured(1, 1, 0, [6_299.0, 75.6, 82.5]),
    measured(2, 1, 0, [8_413.0, 77.5, 114.5]),
    measured(2, 1, 100, [3_533.0, 160.4, 249.3]),
    measured(4, 1, 0, [9_775.0, 67.2, 122.7]),
];

impl Measured {
    /// What the model says of it.
    pub fn played(&self, costs: &Costs) -> Outcome {
        let Measured { workers, transactions, shared, .. } = *self;
        let load = Load { workers, transactions, parts: 2, shared, conflicts: 1 };
        let plan = Plan { load, machines: Machines::LOOPBACK, design: Design::AsIs, rate: None, epochs: 400 };
        play(&plan, costs, 1)
    }
}
