//! Plan of a world: every seed draws its own mix of sizes, modes and faults, so that rare
//! combinations meet (swarm testing).

use styx_protocol::entity::Layout;
use styx_protocol::ids::{EngineHash, Generation};
use styx_protocol::machine::Config;
use styx_protocol::machine::worker::HAND_OVER_MAX;
use styx_protocol::modes::Modes;
use styx_protocol::replies::Retention;

use crate::random::Random;
use crate::threads::ThreadPlan;
use crate::toy::Shape;

/// Delays in microseconds, from the shortest to the longest.
pub type Delay = (u64, u64);

/// The parameters of one world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Configuration of the machines.
    pub config: Config,
    /// The nodes and what is between them.
    pub cluster: ClusterPlan,
    /// Shape of programs.
    pub shape: Shape,
    /// Instead, programs whose histories others can judge.
    pub workload: Option<Workload>,
    /// Requests that clients make.
    pub requests: u64,
    /// Requests that may write and ask for snapshot isolation only, in a thousand.
    pub snapshots: u32,
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
    /// Results of functions in distributed graphs that are unconfirmed in warm instances, in a thousand.
    pub unconfirmed: u32,
    /// One share of a batch on one thread.
    pub execution: Delay,
    /// One fsync.
    pub sync: Delay,
    /// From being able to cut an epoch to cutting it.
    pub pace: Delay,
    /// Fsyncs that fail, in a thousand.
    pub sync_failures: u32,
    /// The snapshots that restarts begin with.
    pub snapshotting: SnapshotPlan,
    /// On how many workers the log is replayed at the end: 1 to 4, each or not.
    pub verified: [bool; 4],
    /// Mean time between crashes, pauses, clock jumps, slow times of the disk, deployments, cuts in
    /// the network, changes of the number of members, replaced coordinators, workers that are asked to stop;
    /// 0: never.
    pub faults: [u64; FAULTS],
}

/// When snapshots are taken, if the configuration says so, and what the store of them is like.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPlan {
    /// Between snapshots.
    pub every: Delay,
    /// Changes that a machine hands over at once.
    pub chunk: usize,
    /// To write something into the store, or to read it.
    pub store: Delay,
    /// Writes that fail or of which nobody knows, in a thousand.
    pub failures: u32,
    /// Restarts that find the newest snapshot damaged, in a thousand.
    pub damage: u32,
}

/// Kinds of faults.
pub const FAULTS: usize = 9;

/// The nodes of a world and what is between them.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// Worker processes; 0: one process is everything.
    pub workers: usize,
    /// A worker that runs another engine, and so must not take part.
    pub foreign_engine: bool,
    /// A second coordinator that may replace the first.
    pub standby: bool,
    /// Partitions lie anywhere, not in turn.
    pub scattered: bool,
    /// Messages are written to bytes and read back.
    pub codec: bool,
    /// Between nodes.
    pub network: Delay,
    /// Packets lost, in a thousand.
    pub loss: u32,
    /// Packets that arrive twice, in a thousand.
    pub doubles: u32,
    /// Requests that go to any worker, in a thousand.
    pub misdirected: u32,
    /// Longest time between heartbeats.
    pub heartbeat: u64,
    /// A link repeats what is not acknowledged after this time.
    pub repeat: u64,
    /// A worker complains of another that acknowledges nothing for this time.
    pub stuck: u64,
    /// A worker is lost after this time without a beat that came back.
    pub silent: u64,
    /// Newcomers wait this long.
    pub settle: u64,
    /// A generation is given this long to come to a rest.
    pub rest: u64,
}

impl ClusterPlan {
    fn draw(random: &mut Random) -> Self {
        let workers = if random.chance(300) { 0 } else { random.pick(&[1, 2, 2, 3, 3, 3, 4, 4]) };
        let network: Delay = random.pick(&[(5, 20), (5, 20), (10, 300), (50, 3_000)]);
        let heartbeat = 4_000 + 2 * network.1;
        let silent = 3 * heartbeat + 4 * network.1 + random.pick(&[2_000, 10_000, 40_000]);
        ClusterPlan {
            workers,
            foreign_engine: workers > 0 && random.chance(60),
            standby: workers > 0 && random.chance(200),
            scattered: random.chance(500),
            codec: random.chance(200),
            network,
            loss: random.pick(&[0, 0, 0, 5, 30]),
            doubles: random.pick(&[0, 0, 10, 100]),
            misdirected: random.pick(&[0, 20, 300]),
            heartbeat,
            repeat: 4 * network.1 + heartbeat,
            stuck: 12 * (4 * network.1 + heartbeat),
            silent,
            settle: random.pick(&[1_000, 10_000, 30_000]),
            rest: random.pick(&[1_000, 30_000, 300_000]),
        }
    }

    /// The engine of a node: one of the workers may run another.
    pub fn engine_of(&self, node: usize) -> EngineHash {
        EngineHash(u64::from(self.foreign_engine && node == self.workers + 1))
    }
}

/// Programs whose histories say all: they name the keys that they touch, and show what they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Values are lists that grow.
    Append,
    /// Values are numbers, each written once.
    Register,
}

impl Plan {
    /// The execution threads of a process.
    pub fn threads(&self) -> ThreadPlan {
        ThreadPlan { count: self.threads, unconfirmed: self.unconfirmed }
    }
}

impl Plan {
    /// A plan for a workload, with all faults but those that take state away.
    pub fn draw_for(random: &mut Random, workload: Workload) -> Self {
        let mut plan = Plan::draw(random);
        plan.workload = Some(workload);
        plan.config.retention = Retention::default();
        plan.mix = [10, 6, 4, 5, 2, 0, 0];
        plan.slots = plan.slots.max(12);
        plan.snapshots = 0;
        plan.faults[4] = 0;
        plan.cluster.foreign_engine = false;
        plan
    }

    /// Nodes that coordinate.
    pub fn coordinators(&self) -> impl Iterator<Item = usize> + use<> {
        let standby = self.cluster.standby.then_some(self.standby());
        std::iter::once(0).chain(standby)
    }

    /// The node that may replace the coordinator.
    pub fn standby(&self) -> usize {
        self.cluster.workers + 1 + usize::from(self.cluster.foreign_engine)
    }
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
            modes: Modes { reordering: random.chance(800), fallback: random.chance(800), caching: random.chance(700) },
            epoch_size_max: if small { random.between(1, 6) } else { random.between(8, 64) } as usize,
            record_bytes_max: 32 << 20,
            backlog_max: random.pick(&[2, 10, 1000, 1000, 1000, 1000, 1000, 1000]),
            suspended_max: random.pick(&[1, 3, 1000, 1000]),
            retention,
            engine: EngineHash(0),
            generation: Generation(1),
            snapshots: false,
            hand_over_max: HAND_OVER_MAX,
            claim_order: true,
        };
        let mut mix = [10, 5, 3, 3, 2, 1, 2];
        for weight in &mut mix {
            *weight *= random.pick(&[0, 1, 1, 1, 4]);
        }
        mix[0] += 1;
        let cluster = ClusterPlan::draw(random);
        let mut config = config;
        if cluster.network.1 > 1_000 {
            // One function at a time over a slow network tells nothing new and takes for ever.
            config.suspended_max = config.suspended_max.max(3);
        }
        let mut fault = |times: &[u64]| if random.chance(500) { random.pick(times) } else { 0 };
        let faults = [
            fault(&[5_000, 20_000, 60_000]),
            fault(&[5_000, 30_000]),
            fault(&[3_000, 30_000]),
            fault(&[10_000, 50_000]),
            fault(&[4_000, 20_000, 60_000]),
            fault(&[10_000, 40_000]),
            fault(&[20_000, 80_000]),
            fault(&[40_000, 100_000]),
            fault(&[20_000, 60_000]),
        ];
        config.snapshots = random.chance(750);
        let snapshotting = SnapshotPlan {
            every: random.pick(&[(500, 5_000), (5_000, 20_000), (30_000, 100_000)]),
            chunk: random.pick(&[3, 20, 1000]),
            store: random.pick(&[(10, 100), (100, 3_000), (1_000, 20_000)]),
            failures: random.pick(&[0, 0, 20, 200]),
            damage: random.pick(&[0, 50, 300]),
        };
        let mut verified = [100, 350, 350, 350].map(|share| random.chance(share));
        verified[random.between(1, 3) as usize] = true;
        Plan {
            config,
            cluster,
            shape: Shape::draw(random),
            workload: None,
            snapshotting,
            snapshots: random.pick(&[0, 0, 100, 500]),
            requests: random.between(100, 900),
            slots: random.pick(&[1, 12, 40, 80, 120, 160, 160]),
            mix,
            timeout: random.pick(&[(3_000, 20_000), (20_000, 60_000), (100_000, 200_000)]),
            think: random.pick(&[(0, 0), (0, 0), (0, 200), (0, 5_000)]),
            network: random.pick(&[(10, 50), (10, 50), (20, 1_000), (100, 5_000)]),
            loss: random.pick(&[0, 0, 5, 50]),
            threads: random.between(1, 4),
            unconfirmed: random.pick(&[0, 0, 0, 5, 50]),
            execution: random.pick(&[(1, 10), (5, 300), (100, 2_000)]),
            sync: random.pick(&[(10, 50), (100, 2_000), (1_000, 8_000)]),
            pace: random.pick(&[(0, 0), (0, 2_000), (2_000, 6_000), (2_000, 10_000)]),
            sync_failures: random.pick(&[0, 0, 0, 5]),
            verified,
            faults,
        }
    }
}
