//! One measurement: which system takes which workload's calls, how they come, and what is kept of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use styx_harness::Options;
use styx_protocol::modes::Modes;

use crate::load::{self, Booked, Pace, Ramp, Trial};
use crate::machine::Watch;
use crate::progress::Progress;
use crate::result::{Checked, Outcome, Run, Series};
use crate::system::{
    Disturbance, Driver, Goal, InProcess, InProcessOptions, Mode, Postgres, Styx, StyxOptions, System, TwoPhase,
};
use crate::workload::{self, Call, Choice, Language, Workload};

/// From the loss of a worker to that of the next one, and to its return.
const ROUND: Duration = Duration::from_secs(12);
const AWAY: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
pub enum Kind {
    /// Styx as processes of its own
    Styx,
    /// Styx inside this process: protocol, engine and log, without ingress
    Inprocess,
    /// The same with the functions as host code instead of WebAssembly
    Native,
    /// PostgreSQL: PL/pgSQL functions, serializable, over a Unix socket
    Postgres,
    /// Services with two-phase commit over HTTP, locks that are not waited for
    TwoPhase,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Styx => "styx",
            Kind::Inprocess => "inprocess",
            Kind::Native => "native",
            Kind::Postgres => "postgres",
            Kind::TwoPhase => "two-phase",
        }
    }

    /// Connections, if none are given.
    fn connections(self, driver: Driver) -> usize {
        match (self, driver) {
            (Kind::Styx, Driver::Websocket) => 2,
            (Kind::Styx, Driver::Http) | (Kind::Postgres | Kind::TwoPhase, _) => 64,
            (Kind::Styx, Driver::Kafka) | (Kind::Inprocess | Kind::Native, _) => 1,
        }
    }
}

/// How a measurement is made. All of it may stand before or behind the workload.
#[derive(Clone, Debug, clap::Args, serde::Serialize)]
pub struct Plan {
    /// What takes the calls
    #[arg(long, value_enum, default_value = "styx", global = true)]
    pub system: Kind,
    /// How calls get to a server
    #[arg(long, value_enum, default_value = "websocket", global = true)]
    pub driver: Driver,
    /// What the functions are written in
    #[arg(long, value_enum, default_value = "rust", global = true)]
    pub guest: Language,
    /// Calls per second, instead of looking for the peak
    #[arg(long, global = true, conflicts_with = "closed")]
    pub rate: Option<f64>,
    /// As many calls under way as --window says, always, instead of looking for the peak
    #[arg(long, global = true)]
    pub closed: bool,
    /// Calls under way in a closed loop, over all connections
    #[arg(long, default_value_t = 2000, global = true)]
    pub window: usize,
    /// Seconds that count; at 80 % of the peak, if that is looked for
    #[arg(long, default_value_t = 8.0, global = true)]
    pub seconds: f64,
    /// Seconds that count of each step that looks for the peak
    #[arg(long, default_value_t = 3.0, global = true)]
    pub step: f64,
    /// Connections [default: 2 WebSockets, or 64 that carry one call at a time]
    #[arg(long, global = true)]
    pub connections: Option<usize>,
    /// Worker processes of a cluster; 0 for one server that is everything
    #[arg(long, default_value_t = 0, global = true)]
    pub workers: usize,
    /// Threads that execute [default: all cores]
    #[arg(long, global = true)]
    pub threads: Option<usize>,
    /// Most transactions of an epoch [default: the server's; 2000 in process]
    #[arg(long, global = true)]
    pub epoch: Option<usize>,
    /// Which parts of the protocol of Styx are on: aria, reordering, fallback or caching
    #[arg(long, default_value_t, global = true)]
    #[serde(skip)]
    pub modes: Modes,
    /// Where requests are made durable: `memory`, or `embedded` with fsync
    #[arg(long, default_value = "embedded", global = true)]
    pub log: String,
    /// Time between snapshots, such as 1s, or `none` [default: the server's]
    #[arg(long, global = true)]
    pub snapshots: Option<String>,
    /// In a cluster: when messages are compressed: `auto`, `always` or `never`
    #[arg(long, global = true)]
    pub compress: Option<String>,
    /// Calls come over TLS
    #[arg(long, global = true)]
    pub tls: bool,
    /// In a cluster: processes speak TLS with each other, and show certificates
    #[arg(long, global = true)]
    pub cluster_tls: bool,
    /// In a cluster: seconds after which a worker is killed, of those that count; calls have idempotency keys then
    #[arg(long, global = true)]
    pub kill: Option<f64>,
    /// With --kill: lose a worker so many times, one after the other every 12 s, and start each again 4 s later
    #[arg(long, requires = "kill", global = true)]
    pub losses: Option<usize>,
    /// With --kill: tell the worker to leave instead (SIGTERM), so that it hands over
    #[arg(long, requires = "kill", global = true)]
    pub gracefully: bool,
    /// In a cluster: seconds after which partitions migrate, of those that count, so that the first --to workers have all
    #[arg(long, global = true, conflicts_with = "kill")]
    pub migrate: Option<f64>,
    /// With --migrate: workers that have all at first [default: all workers]
    #[arg(long, requires = "migrate", global = true)]
    pub from: Option<usize>,
    /// With --migrate: workers that are to have all
    #[arg(long, requires = "migrate", global = true)]
    pub to: Option<usize>,
    /// With --migrate: there are to be so many partitions, instead
    #[arg(long, requires = "migrate", conflicts_with = "to", global = true)]
    pub partitions: Option<u32>,
    /// With --migrate: how
    #[arg(long, value_enum, default_value = "online", global = true)]
    pub mode: Mode,
    /// People who look at the console meanwhile: half of them at the overview, half at the cluster
    #[arg(long, default_value_t = 0, global = true)]
    pub viewers: usize,
    /// Further flags for the server, or the workers
    #[arg(long, value_delimiter = ' ', allow_hyphen_values = true, global = true)]
    pub server: Vec<String>,
    /// Seed of the calls
    #[arg(long, default_value_t = 1, global = true)]
    pub seed: u64,
    /// The server's binary
    #[arg(long, default_value = "target/release/styx", global = true)]
    pub styx: PathBuf,
    /// Directory of the scripts that start other servers
    #[arg(long, default_value = "scripts/servers", global = true)]
    pub scripts: PathBuf,
    /// Directory of the guests' sources
    #[arg(long, default_value = "guests", global = true)]
    pub guests: PathBuf,
}

impl Plan {
    /// Starts the system, fills the app, measures, checks the state and stops the system.
    pub fn measure(&self, choice: &Choice, series: Option<Series>) -> anyhow::Result<Outcome> {
        let client = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        client.block_on(self.measured(choice, series))
    }

    async fn measured(&self, choice: &Choice, series: Option<Series>) -> anyhow::Result<Outcome> {
        let booked = Arc::new(Booked::new(choice.workload()?));
        let workload = &*booked.workload;
        let title = [workload.name(), self.language(), self.system.name()].into_iter().chain(self.driver_name());
        let title = title.collect::<Vec<_>>().join(" ");
        let progress = Progress::new(&title);
        let watch = Watch::begin();
        progress.stage("starting");
        let system = self.start(workload).await?;
        if let Some(workers) = self.from.filter(|workers| *workers < self.workers) {
            system.place(workers).await?;
        }
        progress.stage("filling");
        load::fill(&*system, workload, &progress).await?;
        if self.migrate.is_some() && self.snapshots.as_deref() != Some("none") {
            progress.stage("taking a snapshot");
            system.keep().await?;
        }
        let seen = self.loaded(&*system, &booked, &progress).await;
        let checks = match &seen {
            Ok(_) => {
                progress.stage("checking");
                check(&*system, &booked).await
            }
            Err(_) => Ok(Vec::new()),
        };
        system.stop().await?;
        let (runs, peak, usual) = seen?;
        let driver = self.driver_name().unwrap_or("direct");
        let mut outcome = Outcome::new(self.system.name(), driver, workload.name(), self.language());
        outcome.configuration = self.configuration(choice)?;
        outcome.surroundings = Some(watch.end());
        (outcome.series, outcome.runs, outcome.peak, outcome.usual) = (series, runs, peak, usual);
        outcome.checks = checks?;
        Ok(outcome)
    }

    async fn loaded(
        &self,
        system: &dyn System,
        booked: &Arc<Booked>,
        progress: &Progress,
    ) -> anyhow::Result<(Vec<Run>, Option<usize>, usize)> {
        let measured = Duration::from_secs_f64(self.seconds);
        let pace = match (self.rate, self.closed) {
            (Some(rate), _) => Pace::Open { rate },
            (None, true) => Pace::Closed { window: self.window },
            (None, false) => {
                let step = Duration::from_secs_f64(self.step);
                let ramp = Ramp { window: self.window, step, measured, seed: self.seed };
                let found = ramp.run(system, booked, progress).await?;
                let runs: Vec<Run> = found.trials.iter().map(Run::from).collect();
                // A system that bears no rate at all is told of by its closed loop.
                return Ok((runs, found.peak, found.usual.unwrap_or(0)));
            }
        };
        let lag_max = Duration::from_secs(3600);
        progress.stage("measuring");
        let (disturbances, warm_up) = (self.disturbances(), measured / 4);
        let trial = Trial { pace, warm_up, measured, lag_max, disturbances, seed: self.seed };
        let seen = trial.run(system, booked, progress).await?;
        Ok((vec![Run::from(&seen)], None, 0))
    }

    async fn start(&self, workload: &dyn Workload) -> anyhow::Result<Box<dyn System>> {
        ensure!(self.seconds > 0.0 && self.step > 0.0, "--seconds and --step are more than nothing");
        ensure!(self.rate.is_none_or(|rate| rate > 0.0), "--rate is more than nothing");
        ensure!(
            self.compress.is_none() || self.workers > 0,
            "--compress needs --workers: a single server has nobody to send messages to"
        );
        ensure!(
            self.kill.is_none() || self.workers > 1 && (self.rate.is_some() || self.closed),
            "--kill needs --workers 2 or more, and --rate or --closed"
        );
        let some_of_them = |workers: Option<usize>| workers.is_none_or(|workers| (1..=self.workers).contains(&workers));
        ensure!(
            self.migrate.is_none()
                || (self.to.is_some() || self.partitions.is_some())
                    && some_of_them(self.from)
                    && some_of_them(self.to)
                    && (self.rate.is_some() || self.closed),
            "--migrate needs --from and --to of at least 1 and at most --workers, or --partitions, and --rate or --closed"
        );
        ensure!(
            !self.tls || self.system == Kind::Styx && self.driver == Driver::Websocket,
            "--tls is for --system styx with --driver websocket"
        );
        ensure!(!self.cluster_tls || self.workers > 0, "--cluster-tls needs --workers: a single server has no other");
        let least = self.disturbances().last().map_or(0, |(at, _)| at.as_secs() + 4);
        ensure!(
            self.losses.is_none() || self.seconds >= least as f64,
            "so many --losses take longer: give --seconds {least}"
        );
        let known: &[&str] = match self.system {
            Kind::Styx | Kind::Inprocess => &[],
            Kind::Postgres => &["ycsb-t", "transfer", "tpcc", "tpcc-full"],
            Kind::Native | Kind::TwoPhase => &["ycsb-t", "transfer"],
        };
        ensure!(
            known.is_empty() || known.contains(&workload.name()),
            "--system {} has {}, not {}",
            self.system.name(),
            known.join(", "),
            workload.name()
        );
        ensure!(workload.languages().contains(&self.guest), "there is no app of {} in this language", workload.name());
        let guest = self.guests.join(workload.guest(self.guest));
        Ok(match self.system {
            Kind::Styx => Box::new(Styx::start(self.styx_options(guest)).await?),
            Kind::Postgres => Box::new(Postgres::start(&self.scripts, self.connections()).await?),
            Kind::TwoPhase => Box::new(TwoPhase::start(self.connections()).await?),
            Kind::Inprocess | Kind::Native => {
                let native = self.system == Kind::Native;
                ensure!(
                    ["memory", "embedded"].contains(&&*self.log),
                    "--log is memory or embedded in process, not {}",
                    self.log
                );
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                let options = InProcessOptions {
                    guest,
                    native,
                    threads: self.threads.unwrap_or(cores),
                    epoch: self.epoch.unwrap_or(2000),
                    modes: self.modes,
                    durable: self.log == "embedded",
                    backlog: self.window.max(8192),
                };
                Box::new(InProcess::start(options).await?)
            }
        })
    }

    fn styx_options(&self, guest: PathBuf) -> StyxOptions {
        let mut flags = self.server.clone();
        let mut flag = |name: &str, value: Option<String>| {
            flags.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        flag("--threads", self.threads.map(|threads| threads.to_string()));
        flag("--epoch-max-size", self.epoch.map(|epoch| epoch.to_string()));
        flag("--compress", self.compress.clone());
        flag("--modes", Some(self.modes.to_string()));
        let mut log_flags = vec!["--log".to_owned(), self.log.clone()];
        if self.workers > 0 {
            log_flags.extend(["--modes".to_owned(), self.modes.to_string()]);
        }
        log_flags.extend(self.compress.iter().flat_map(|when| ["--compress".to_owned(), when.clone()]));
        match self.snapshots.as_deref() {
            None => {}
            Some("none") => log_flags.extend(["--store", "none"].map(str::to_owned)),
            Some(interval) => log_flags.extend(["--snapshot-interval", interval].map(str::to_owned)),
        }
        let processes = Options {
            workers: self.workers,
            kafka: self.driver == Driver::Kafka,
            worker_flags: flags,
            log_flags,
            tls: self.tls,
            cluster_tls: self.cluster_tls,
            scripts: self.scripts.clone(),
            log_level: std::env::var("STYX_LOG").unwrap_or_else(|_| "error".into()),
            ..Options::new(&self.styx)
        };
        let (keyed, prompt) = (self.kill.is_some(), self.rate.is_some());
        let (driver, connections, viewers) = (self.driver, self.connections(), self.viewers);
        StyxOptions { processes, guest, driver, connections, keyed, prompt, viewers }
    }

    /// The disturbances of the workers, and their times.
    fn disturbances(&self) -> Vec<(Duration, Disturbance)> {
        let goal = self.to.map(Goal::Workers).or(self.partitions.map(Goal::Partitions));
        if let (Some(at), Some(goal)) = (self.migrate, goal) {
            return vec![(Duration::from_secs_f64(at), Disturbance::Migrate(goal, self.mode))];
        }
        let Some(first) = self.kill.map(Duration::from_secs_f64) else { return Vec::new() };
        let lose = if self.gracefully { Disturbance::Stop } else { Disturbance::Kill };
        let Some(losses) = self.losses else { return vec![(first, lose(0))] };
        let round = |number: usize| {
            let at = first + ROUND * number as u32;
            let worker = number % self.workers.max(1);
            [(at, lose(worker)), (at + AWAY, Disturbance::Rejoin(worker))]
        };
        (0..losses).flat_map(round).collect()
    }

    fn connections(&self) -> usize {
        self.connections.unwrap_or(self.system.connections(self.driver))
    }

    /// True if it needs a server that is not a part of this project.
    pub fn needs_others(&self) -> bool {
        self.system == Kind::Postgres || self.driver == Driver::Kafka
    }

    fn language(&self) -> &'static str {
        match (self.system, self.guest) {
            (Kind::Native, _) => "host",
            (Kind::Postgres, _) => "plpgsql",
            (Kind::TwoPhase, _) => "services",
            (_, Language::Rust) => "rust",
            (_, Language::Python) => "python",
            (_, Language::Go) => "go",
            (_, Language::C) => "c",
            (_, Language::TypeScript) => "typescript",
        }
    }

    /// How calls get there, where there are several ways.
    fn driver_name(&self) -> Option<&'static str> {
        (self.system == Kind::Styx).then_some(match self.driver {
            Driver::Websocket => "websocket",
            Driver::Http => "http",
            Driver::Kafka => "kafka",
        })
    }

    /// The choices, beyond what results name anyway.
    fn configuration(&self, choice: &Choice) -> anyhow::Result<std::collections::BTreeMap<String, Value>> {
        let pace = match (self.rate, self.closed) {
            (Some(rate), _) => json!({ "rate": rate }),
            (None, true) => json!({ "window": self.window }),
            (None, false) => json!("ramp"),
        };
        let more = [
            ("workload", json!(format!("{choice:?}"))),
            ("pace", pace),
            ("connections", json!(self.connections())),
            ("modes", json!(self.modes.to_string())),
        ];
        let mut all: std::collections::BTreeMap<String, Value> = serde_json::from_value(json!(self))?;
        all.extend(more.map(|(name, value)| (name.to_owned(), value)));
        Ok(all)
    }
}

/// Makes some calls one at a time, then reads the state, and says what holds.
async fn check(system: &dyn System, booked: &Arc<Booked>) -> anyhow::Result<Vec<Checked>> {
    let mut connection = system.open(true).await?.into_iter().next().expect("a system has a connection");
    let (booked, runtime) = (booked.clone(), tokio::runtime::Handle::current());
    let checks = tokio::task::spawn_blocking(move || {
        let mut ask = |calls: &[Call]| runtime.block_on(load::ask(&mut *connection, calls));
        let Booked { workload, ledger } = &*booked;
        let judged = workload::judged(&**workload, &mut ask, ledger);
        let mut checks = workload.check(&mut ask, ledger);
        checks.push(judged);
        checks
    });
    let checks = checks.await?.into_iter().map(|check| Checked {
        name: check.name.to_owned(),
        error: check.result.err().map(|error| format!("{error:#}")),
    });
    Ok(checks.collect())
}
