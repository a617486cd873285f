//! What one world is like: every seed draws its own mix of sizes, modes and faults, so that rare
//! combinations meet (swarm testing).

use styx_protocol::entity::Layout;
use styx_protocol::machine::Config;
use styx_protocol::modes::Modes;
use styx_protocol::replies::Retention;

use crate::random::Random;
use crate::toy::Shape;

/// Delays in microseconds, from the shortest to the longest.
pub type Delay = (u64, u64);

/// The parameters of one world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the machine is told.
    pub config: Config,
    /// Nodes. The protocol knows one so far.
    pub nodes: usize,
    /// What programs look like.
    pub shape: Shape,
    /// Requests that clients make.
    pub requests: u64,
    /// Requests in flight at once, over all clients.
    pub slots: usize,
    /// Weights of: request without key, with key, send, query, an earlier request again, an earlier
    /// key with another body, the question for an earlier end.
    pub mix: [u32; 7],
    /// Client patience.
    pub timeout: Delay,
    /// Between an answer and the next request.
    pub think: Delay,
    /// Between client and node.
    pub network: Delay,
    /// Messages lost, in a thousand.
    pub loss: u32,
    /// Execution threads.
    pub threads: u64,
    /// One share of a batch on one thread.
    pub execution: Delay,
    /// One fsync.
    pub sync: Delay,
    /// From being able to cut an epoch to cutting it.
    pub pace: Delay,
    /// Fsyncs that fail, in a thousand.
    pub sync_failures: u32,
    /// Mean time between crashes, pauses, clock jumps, slow times of the disk, deployments; 0: never.
    pub faults: [u64; 5],
}

impl Plan {
    /// Draws a plan.
    pub fn draw(random: &mut Random) -> Self {
        let small = random.chance(250);
        let retention = Retention {
            age_us: random.pick(&[5_000, 50_000, 1 << 40, 1 << 40]),
            count: random.pick(&[1, 10, 1000, 1 << 20, 1 << 20]),
            bytes: random.pick(&[300, 5_000, 1 << 30, 1 << 30]),
        };
        let config = Config {
            layout: Layout { seed: random.number(), partitions: random.pick(&[1, 2, 5, 16]) },
            modes: Modes {
                reordering: random.chance(800),
                fallback: random.chance(800),
                caching: random.chance(700),
            },
            epoch_size_max: if small { random.between(1, 6) } else { random.between(8, 64) } as usize,
            epoch_bytes_max: random.pick(&[64, 1024, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20]),
            backlog_max: random.pick(&[2, 10, 1000, 1000, 1000, 1000, 1000, 1000]),
            suspended_max: random.pick(&[1, 3, 1000, 1000]),
            retention,
            engine: 0,
            generation: 1,
            claim_order: true,
        };
        let mut mix = [10, 5, 3, 3, 2, 1, 2];
        for weight in &mut mix {
            *weight *= random.pick(&[0, 1, 1, 1, 4]);
        }
        mix[0] += 1;
        let mut fault = |times: &[u64]| if random.chance(500) { random.pick(times) } else { 0 };
        let faults = [
            fault(&[5_000, 20_000, 60_000]),
            fault(&[5_000, 30_000]),
            fault(&[3_000, 30_000]),
            fault(&[10_000, 50_000]),
            fault(&[4_000, 20_000, 60_000]),
        ];
        Plan {
            config,
            nodes: 1,
            shape: Shape::draw(random),
            requests: random.between(100, 900),
            slots: random.pick(&[1, 10, 40, 80, 120]),
            mix,
            timeout: random.pick(&[(3_000, 20_000), (20_000, 60_000), (100_000, 200_000)]),
            think: random.pick(&[(0, 0), (0, 0), (0, 200), (0, 5_000)]),
            network: random.pick(&[(10, 50), (20, 1_000), (100, 5_000)]),
            loss: random.pick(&[0, 0, 5, 50]),
            threads: random.between(1, 4),
            execution: random.pick(&[(1, 10), (5, 300), (100, 2_000)]),
            sync: random.pick(&[(10, 50), (100, 2_000), (1_000, 8_000)]),
            pace: random.pick(&[(0, 0), (0, 2_000), (2_000, 6_000), (2_000, 10_000)]),
            sync_failures: random.pick(&[0, 0, 0, 5]),
            faults,
        }
    }
}
