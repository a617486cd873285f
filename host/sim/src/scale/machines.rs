//! What the model takes for given: machines, the network between them, and how the protocol is arranged.

/// Machines and the network. Times in µs of one core of the machine that the costs of steps were measured on.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    /// There and back between two machines of a zone, the system's part included. Assumed.
    pub round_trip: f64,
    /// Until a record is durable. Assumed.
    pub sync: f64,
    /// Of each machine's link. Assumed.
    pub gigabits: f64,
    /// Cores of a worker. Assumed.
    pub threads: f64,
    /// Cores of the coordinator for its connections; its machine has one of its own. Assumed.
    pub network_threads: f64,
    /// What a transaction costs its worker besides the steps of its machine: guest, client, memory. Fitted.
    pub execute: f64,
    /// What each part of a shared transaction costs besides, both ends together. Fitted.
    pub part: f64,
    /// What a message costs the thread of the coordinator's machine besides the machine's step. Measured.
    pub driver: f64,
    /// What a message costs the connection's thread. Measured.
    pub network: f64,
    /// What a record costs besides its requests: threads that wake each other. Measured.
    pub record: f64,
    /// What a byte of a message or a record costs, checksum and compression included, in ns. Measured.
    pub byte_nanos: f64,
    /// How much steps and trips vary: sigma of a log-normal distribution with the mean 1. Assumed.
    pub jitter: f64,
    /// Seconds between two pauses of a worker, on average; none at 0. Assumed.
    pub pause_every: f64,
    /// How long a pause lasts. Assumed.
    pub pause: f64,
}

impl Machines {
    /// Workers of one core, as in the measurements, in one zone of a cloud.
    pub const ZONE: Machines = Machines {
        round_trip: 200.0,
        sync: 500.0,
        gigabits: 10.0,
        threads: 1.0,
        network_threads: 4.0,
        execute: 5.2,
        part: 4.4,
        driver: 1.5,
        network: 4.5,
        record: 40.0,
        byte_nanos: 1.2,
        jitter: 0.1,
        pause_every: 60.0,
        pause: 20_000.0,
    };

    /// Processes of one machine, with the log in memory.
    pub const LOOPBACK: Machines = Machines { round_trip: 55.0, sync: 0.0, pause_every: 0.0, ..Machines::ZONE };
}

impl Machines {
    /// What a message costs whoever sends or takes it, the step apart.
    pub fn message(&self) -> f64 {
        self.driver + self.network
    }
}

/// How the protocol is arranged: as it is, and what could be changed, one thing after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Design {
    /// The coordinator hears of everything, and tells everybody of it.
    AsIs,
    /// It tells a worker only of graphs that the worker took part in.
    Addressed,
    /// Besides, it is one of several: each has a part of the TIDs, hears of their ends and conflicts
    /// from all workers, and has a part of the log. One says when a round begins.
    Sharded,
    /// Besides, workers talk to one of these, which sorts what goes to the others.
    Tree,
}

impl Design {
    /// All of them.
    pub const ALL: [Design; 4] = [Design::AsIs, Design::Addressed, Design::Sharded, Design::Tree];

    /// A few words.
    pub fn name(self) -> &'static str {
        match self {
            Design::AsIs => "as it is",
            Design::Addressed => "ends go to participants only",
            Design::Sharded => "and ends and log in shards",
            Design::Tree => "and a tree",
        }
    }

    /// Into how many parts the coordinator's work is divided.
    pub fn shards(self, workers: usize) -> usize {
        if self >= Design::Sharded { workers.div_ceil(SHARE) } else { 1 }
    }
}

/// Workers for each part of the coordinator's work, in [`Design::Sharded`], and for each node of [`Design::Tree`].
pub const SHARE: usize = 32;
