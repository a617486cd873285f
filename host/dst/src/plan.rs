//! Plan of a world: every seed draws its own mix of sizes, speeds, modes and faults, so that rare
//! combinations meet (swarm testing).

use std::time::Duration;

use styx_driver::coordinator::{MigrationMode, Timing};
use styx_driver::kafka::FrontLimits;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{EngineHash, Generation};
use styx_protocol::machine::Config;
use styx_protocol::membership::Patience;
use styx_protocol::modes::Modes;
use styx_protocol::replies::Retention;
pub use styx_sim::toy::Workload;
use styx_storage::log::EmbeddedOptions;
use styx_storage::snapshot::Retention as KeptSnapshots;

use crate::network::Limits;
use crate::poison::PoisonPlan;
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
    /// Numbers of partitions that there may be; the first is that at the beginning.
    pub repartitions: Vec<u32>,
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
    /// Looks at the state, in a thousand requests.
    pub looks: u32,
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
    /// Attempts that use up their slice, in a thousand.
    pub long: u32,
    /// The log is a topic of brokers, not on a disk.
    pub shared_log: bool,
    /// One fsync, or one way to the brokers and back.
    pub sync: Delay,
    /// One thing that a driver's thread takes.
    pub step: Delay,
    /// One entity that a worker's thread changes.
    pub change: u64,
    /// How long an epoch may fill while earlier ones are not yet durable.
    pub epoch_max_wait: Duration,
    /// The most that one sync of the log writes, in bytes.
    pub group_bytes_max: u32,
    /// Room on a disk below which nothing that writes is taken, in bytes.
    pub disk_reserve: u64,
    /// Space of a segment of the log, in bytes.
    pub segment_bytes: u64,
    /// Fsyncs that fail, in a thousand.
    pub sync_failures: u32,
    /// The snapshots that restarts begin with.
    pub snapshotting: SnapshotPlan,
    /// Requests that come as records, if some do.
    pub records: Option<RecordsPlan>,
    /// On how many workers the log is replayed at the end: 1 to 4, each or not.
    pub verified: [bool; 4],
    /// Mean time between faults of each [kind](Fault); 0: never.
    pub faults: [u64; FAULTS],
    /// Requests that end whoever executes them, if there are some.
    pub poison: Option<PoisonPlan>,
    /// Processes that die while partitions migrate, or entities are placed anew, if some do.
    pub amid: Option<Amid>,
    /// How partitions migrate; none leaves it to chance.
    pub migrates: Option<MigrationMode>,
    /// Most faults of each kind: every crash costs a replay, and enough is enough.
    pub faults_max: [u32; FAULTS],
}

/// When snapshots are taken, if the configuration says so, and what the store of them is like.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPlan {
    /// Between snapshots.
    pub interval: Duration,
    /// Which old ones are kept.
    pub retention: KeptSnapshots,
    /// To write something into the store, or to read it.
    pub store: Delay,
    /// Requests that fail or of which nobody knows, in a thousand.
    pub failures: u32,
}

/// Processes that die so many events after somebody has wanted partitions to migrate, or an app with other key prefixes.
#[derive(Clone, Debug)]
pub struct Amid {
    /// [`Fault::Migration`], or [`Fault::Deployment`], which then brings other key prefixes.
    pub of: Fault,
    pub events: u64,
    pub victims: Vec<usize>,
}

impl Amid {
    fn draw(random: &mut Random, nodes: usize) -> Option<Self> {
        if !random.chance(400) {
            return None;
        }
        let victims = match random.below(4) {
            0 => vec![0],
            1 => (0..nodes).collect(),
            _ => vec![random.below(nodes as u64) as usize],
        };
        Some(Amid { of: Fault::Migration, events: random.between(0, 600), victims })
    }
}

/// Records of a topic that fronts take as requests.
#[derive(Clone, Copy, Debug)]
pub struct RecordsPlan {
    /// How many there are.
    pub count: u64,
    /// Those that are no requests, and those that ask again for what another one asks, in a thousand.
    pub nonsense: u32,
    pub repeated: u32,
    /// Replies and dead letters that are longer than their topics take, in a thousand.
    pub long: u32,
    /// Between records.
    pub pause: Delay,
    /// Partitions of requests and of replies, and how many of requests there are in the end.
    pub partitions: usize,
    pub egress: usize,
    pub partitions_max: usize,
    pub limits: FrontLimits,
    /// To the brokers, or back.
    pub delay: Delay,
    /// Calls that are lost on their way there or back, in a thousand.
    pub failures: u32,
    /// How long a front is not heard of until others serve its partitions, and how often that is looked at.
    pub silence: u64,
    pub review: u64,
}

impl RecordsPlan {
    fn draw(random: &mut Random) -> Option<Self> {
        if !random.chance(250) {
            return None;
        }
        let partitions = random.between(1, 4) as usize;
        let silence = random.pick(&[60_000, 200_000, 1_000_000]);
        Some(RecordsPlan {
            count: random.between(10, 150),
            nonsense: random.pick(&[0, 30, 200]),
            repeated: random.pick(&[0, 50, 300]),
            long: random.pick(&[0, 0, 100]),
            pause: random.pick(&[(0, 100), (0, 2_000), (0, 20_000)]),
            partitions,
            egress: random.between(1, partitions as u64) as usize,
            partitions_max: partitions + random.pick(&[0, 0, 2]),
            limits: FrontLimits {
                window: random.pick(&[2, 8, 40, 4096]),
                in_flight_max: random.pick(&[1, 10, 4096]),
                ..FrontLimits::default()
            },
            delay: random.pick(&[(10, 100), (100, 3_000), (1_000, 20_000)]),
            failures: random.pick(&[0, 10, 50]),
            silence,
            review: silence / 4,
        })
    }
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process dies.
    Crash,
    /// A machine loses power: of what was not synced, something may survive.
    PowerFailure,
    /// A process stands still.
    Pause,
    /// A machine is suspended: it does nothing, and its clocks go on.
    Suspend,
    /// A clock on the wall jumps.
    ClockJump,
    SlowDisk,
    /// The administrator changes something.
    Deployment,
    /// Nodes do not reach each other.
    Cut,
    /// A connection breaks.
    Reset,
    /// A worker is asked to end, and starts again.
    Retire,
    /// Something of the newest snapshot is damaged.
    Damage,
    /// A machine does not reach the store, or the brokers.
    Isolation,
    /// The disk of a log fills, and is emptied again.
    FullDisk,
    /// The administrator has partitions change their owners.
    Migration,
}

pub const ALL_FAULTS: [Fault; FAULTS] = [
    Fault::Crash,
    Fault::PowerFailure,
    Fault::Pause,
    Fault::Suspend,
    Fault::ClockJump,
    Fault::SlowDisk,
    Fault::Deployment,
    Fault::Cut,
    Fault::Reset,
    Fault::Retire,
    Fault::Damage,
    Fault::Isolation,
    Fault::FullDisk,
    Fault::Migration,
];

/// Number of kinds of faults.
pub const FAULTS: usize = 14;

/// The nodes of a world and what is between them.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// Worker processes; 0: one process is everything.
    pub workers: usize,
    /// A worker that runs another engine, and so must not take part.
    pub foreign_engine: bool,
    /// Processes that can coordinate; of several, one leads.
    pub coordinators: usize,
    /// Term of the lease that they share.
    pub lease_term: Duration,
    /// Gateway processes.
    pub gateways: usize,
    /// Between nodes.
    pub network: Delay,
    /// Frames that take much longer, in a thousand.
    pub spikes: u32,
    /// How long a connection that carries nothing is believed in.
    pub silence: u64,
    /// Limits of connections.
    pub limits: Limits,
    /// Bytes of mail and of answers that travel together.
    pub frame_bytes: usize,
    /// When a worker is taken for lost, and how long newcomers are looked at.
    pub patience: Patience,
    /// How long things take that a coordinator waits for.
    pub timing: Timing,
    /// Most requests that a gateway has under way.
    pub gateway_backlog_max: usize,
    /// Most bytes of state of a worker, and of an app.
    pub state_max: u64,
    pub app_state_max: u64,
}

impl ClusterPlan {
    fn draw(random: &mut Random) -> Self {
        let workers = if random.chance(300) { 0 } else { random.pick(&[1, 2, 2, 3, 3, 3, 4, 4]) };
        let network: Delay = random.pick(&[(5, 20), (5, 20), (10, 300), (50, 3_000)]);
        let wide = random.chance(700);
        ClusterPlan {
            workers,
            foreign_engine: workers > 0 && random.chance(100),
            coordinators: random.pick(&[1, 1, 1, 2, 3]),
            lease_term: Duration::from_millis(random.pick(&[300, 1_000, 2_000])),
            gateways: random.pick(&[1, 1, 2, 3]),
            network,
            spikes: random.pick(&[0, 0, 5, 30]),
            silence: random.pick(&[300_000, 1_000_000, 10_000_000]),
            limits: Limits {
                // Never less than what gathers for one message: a mebibyte of arguments, and what goes with them.
                body_bytes_max: random.pick(&[256 << 20, 4 << 20]),
                outstanding_bytes_max: if wide { 1 << 30 } else { random.pick(&[1 << 20, 100 << 10, 32 << 10]) },
            },
            frame_bytes: random.pick(&[200, 4 << 10, 1 << 20, 1 << 20]),
            patience: Patience {
                silent_us: random.pick(&[400_000, 1_000_000]),
                settle_us: random.pick(&[10_000, 100_000, 500_000]),
                drain_us: random.pick(&[10_000, 500_000, 5_000_000]),
            },
            timing: Timing { tick: Duration::from_millis(random.pick(&[20, 20, 5])), ..Timing::default() },
            gateway_backlog_max: random.seldom(125, &[3, 20], 100_000),
            state_max: u64::MAX,
            app_state_max: u64::MAX,
        }
    }

    /// The engine of a node: one of the workers may run another.
    pub fn engine_of(&self, node: usize) -> EngineHash {
        EngineHash(u64::from(self.foreign_engine && node == self.workers + 1))
    }
}

impl Plan {
    /// Attempts that use up their slice, in a thousand; none among several workers.
    pub fn long(&self) -> u32 {
        self.long
    }

    /// After how many events some die, amid such a change that somebody wants now.
    pub fn dies_amid(&self, change: Fault) -> Option<u64> {
        self.amid.as_ref().filter(|amid| amid.of == change).map(|amid| amid.events)
    }

    /// The execution threads of a process.
    pub fn threads(&self) -> ThreadPlan {
        ThreadPlan { count: self.threads, unconfirmed: self.unconfirmed, long: self.long() }
    }
}

impl Plan {
    /// A plan for a workload, with all faults but those that take state away.
    pub fn draw_for(random: &mut Random, workload: Workload) -> Self {
        let mut plan = Plan::draw(random);
        plan.workload = Some(workload);
        // Histories know of no request that was forgotten and executed again, as after a jump of the clock by days.
        plan.config.retention = Retention { age_us: 1 << 50, ..Retention::default() };
        plan.mix = [10, 6, 4, 5, 2, 0, 0];
        plan.slots = plan.slots.max(12);
        plan.snapshots = 0;
        plan.records = None;
        plan.poison = None;
        plan.faults[Fault::Deployment as usize] = 0;
        plan.cluster.foreign_engine = false;
        plan
    }

    /// Nodes that coordinate.
    pub fn coordinators(&self) -> impl Iterator<Item = usize> + use<> {
        let ClusterPlan { workers, foreign_engine, gateways, coordinators, .. } = self.cluster;
        let standbys = 1 + workers + usize::from(foreign_engine) + gateways;
        std::iter::once(0).chain(standbys..standbys + coordinators - 1)
    }

    /// Sizes of the log.
    pub fn log_options(&self) -> EmbeddedOptions {
        EmbeddedOptions { segment_bytes: self.segment_bytes, group_bytes_max: self.group_bytes_max }
    }
}

impl Plan {
    /// Draws a plan.
    pub fn draw(random: &mut Random) -> Self {
        let small = random.chance(150);
        let retention = Retention {
            age_us: random.pick(&[5_000, 50_000, 1 << 50, 1 << 50]),
            count: random.pick(&[1, 10, 1000, 1 << 20, 1 << 20]),
            bytes: random.pick(&[300, 5_000, 1 << 30, 1 << 30]),
        };
        let mut config = Config {
            layout: Layout::new(random.number(), random.pick(&[1, 2, 5, 16])),
            modes: Modes { reordering: random.chance(800), fallback: random.chance(800), caching: random.chance(700) },
            epoch_size_max: if small { random.between(1, 6) } else { random.between(8, 128) } as usize,
            epoch_fuel_max: random.seldom(125, &[1, 200], 1 << 40),
            record_bytes_max: 0,
            backlog_max: random.seldom(125, &[2, 10], 1000),
            suspended_max: random.pick(&[1, 3, 1000, 1000]),
            long_max: 0,
            retention,
            engine: EngineHash(0),
            generation: Generation(1),
            snapshots: false,
            step_max: 4096,
            piece_bytes: styx_protocol::machine::worker::PIECE_BYTES,
            claim_order: true,
        };
        let group_bytes_max = random.pick(&[4 << 10, 8 << 10, 64 << 10, 32 << 20, 32 << 20]);
        config.record_bytes_max = EmbeddedOptions { group_bytes_max, ..EmbeddedOptions::default() }.record_bytes_max();
        let mut mix = [10, 5, 3, 3, 2, 1, 2];
        for weight in &mut mix {
            *weight *= random.pick(&[0, 1, 1, 1, 4]);
        }
        mix[0] += 1;
        let mut cluster = ClusterPlan::draw(random);
        if cluster.workers == 0 {
            cluster.coordinators = 1;
        }
        let shared_log = cluster.coordinators > 1;
        if cluster.workers > 0 {
            // Which worker forgets what when depends on all memberships before; that is checked without drivers.
            config.retention = Retention { age_us: 1 << 50, count: 1 << 20, bytes: 1 << 30 };
        }
        if cluster.network.1 > 1_000 {
            // One function at a time over a slow network tells nothing new and takes for ever.
            config.suspended_max = config.suspended_max.max(3);
        }
        // The lease is in the store.
        config.snapshots = cluster.coordinators > 1 || random.chance(750);
        config.step_max = random.pick(&[3, 20, 1000]);
        let mut fault = |times: &[u64]| if random.chance(550) { random.pick(times) } else { 0 };
        // Of a generator of its own: other plans stay what they were.
        let mut of_migrations = Random::new(config.layout.seed ^ 0x9d1);
        let migration = of_migrations.pick(&[0, 20_000, 100_000]);
        let nodes = 1 + cluster.workers;
        let faults = [
            fault(&[200_000, 1_000_000]),
            fault(&[200_000, 1_000_000]),
            fault(&[50_000, 300_000]),
            fault(&[300_000]),
            fault(&[50_000, 300_000]),
            fault(&[50_000, 500_000]),
            fault(&[20_000, 100_000, 500_000]),
            fault(&[100_000, 500_000]),
            fault(&[50_000, 300_000]),
            fault(&[300_000, 1_000_000]),
            fault(&[300_000, 1_000_000]),
            fault(&[300_000, 1_000_000]),
            fault(&[100_000, 500_000]),
            migration,
        ];
        if cluster.limits.outstanding_bytes_max < 1 << 20 {
            // What the functions of an epoch ask of another worker at once must fit between the two, as with 1,000
            // functions and a gibibyte.
            config.suspended_max = config.suspended_max.min(100);
        }
        let snapshotting = SnapshotPlan {
            interval: Duration::from_millis(random.pick(&[5, 20, 100, 1_000])),
            retention: KeptSnapshots { epochs_min: random.pick(&[1, 2, 3]), age_us: 0, ..KeptSnapshots::default() },
            store: random.pick(&[(10, 100), (100, 1_000), (500, 10_000)]),
            failures: random.pick(&[0, 0, 5, 50]),
        };
        // Of a generator of its own: other plans stay what they were.
        let mut others = Random::new(config.layout.seed ^ 0x10_46);
        let long = others.pick(&[0, 0, 20, 300]);
        if long > 0 {
            config.long_max = others.pick(&[1, 2, 8]);
        }
        let mut of_partitions = Random::new(config.layout.seed ^ 0x5_911);
        let created = config.layout.partitions;
        let repartitions =
            if of_partitions.chance(300) { vec![created, 2 * created, 3 * created] } else { vec![created] };
        let records = RecordsPlan::draw(&mut Random::new(config.layout.seed ^ 0x5e_c0));
        if records.is_none() {
            // Records wait for room, which nobody may make.
            cluster.state_max = others.seldom(60, &[1_000, 5_000], u64::MAX);
            cluster.app_state_max = others.seldom(60, &[1_000, 5_000], u64::MAX);
        }
        let poison = {
            let random = &mut Random::new(config.layout.seed ^ 0x90_15);
            PoisonPlan::draw(random, cluster.workers, long)
        };
        let mut verified = [50, 50, 50, 50].map(|share| random.chance(share));
        verified[random.between(1, 3) as usize] = true;
        let slots: usize = random.pick(&[1, 12, 40, 80, 160, 160, 160, 240]);
        Plan {
            config,
            repartitions,
            cluster,
            shape: Shape::draw(random),
            workload: None,
            snapshotting,
            snapshots: random.pick(&[0, 0, 100, 500]),
            // Few clients ask one after the other, and each of their requests is an epoch.
            requests: match slots {
                1 => random.between(30, 100),
                slots => random.between(100, 300 + 10 * slots as u64),
            },
            slots,
            mix,
            looks: random.pick(&[0, 20, 100]),
            timeout: random.pick(&[(50_000, 500_000), (1_000_000, 5_000_000), (5_000_000, 30_000_000)]),
            think: random.pick(&[(0, 0), (0, 1_000), (0, 20_000), (0, 200_000)]),
            network: random.pick(&[(10, 50), (10, 50), (20, 1_000), (100, 5_000)]),
            loss: random.pick(&[0, 0, 5, 50]),
            threads: random.between(1, 4),
            unconfirmed: random.pick(&[0, 0, 0, 5, 50]),
            execution: random.pick(&[(1, 10), (5, 300), (100, 2_000)]),
            long,
            shared_log: shared_log || random.chance(200),
            sync: random.pick(&[(10, 50), (100, 2_000), (1_000, 8_000)]),
            step: random.pick(&[(0, 1), (1, 5), (5, 50), (20, 1_000)]),
            // Where steps are short, the whole of what an epoch changes takes longer than a worker may be silent.
            change: random.pick(&[0, 0, 1, 15_000 / config.step_max as u64]),
            epoch_max_wait: Duration::from_micros(random.pick(&[0, 1_000, 5_000, 5_000])),
            group_bytes_max,
            disk_reserve: random.pick(&[0, 256 << 10]),
            segment_bytes: random.pick(&[4 << 10, 64 << 10, 1 << 20]),
            sync_failures: random.pick(&[0, 0, 0, 5]),
            records,
            poison,
            verified,
            migrates: None,
            amid: Amid::draw(&mut of_migrations, nodes).filter(|_| nodes > 1 && migration > 0),
            faults,
            faults_max: [4, 4, 20, 4, 20, 20, 30, 6, 10, 3, 2, 4, 6, 30],
        }
    }
}
