//! Systems under test, all behind one interface: Styx as processes, Styx inside this process, and
//! what it is compared with. Each is started on free ports and a directory of its own, and ends
//! with its value.

mod http;
mod inprocess;
mod kafka;
mod migration;
mod native;
mod postgres;
mod styx;
mod two_phase;
mod usage;
mod viewers;
mod websocket;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;

use crate::load::Connection;

pub use inprocess::{InProcess, InProcessOptions};
pub use migration::{Goal, Migrated, Mode};
pub use native::Native;
pub use postgres::Postgres;
pub use styx::{Driver, Styx, StyxOptions};
pub use two_phase::{Member, TwoPhase, run_member};
pub use usage::own_cpu;

/// Something that takes a workload's calls.
pub trait System: Send + Sync {
    /// Opens the ways in that a client uses at once; with `results`, answers carry them.
    fn open(&self, results: bool) -> BoxFuture<'_, anyhow::Result<Vec<Box<dyn Connection>>>>;

    /// Its figures so far.
    fn figures(&self) -> BoxFuture<'_, anyhow::Result<Figures>>;

    /// True if it runs inside this process, and shares its processor time with the client.
    fn is_here(&self) -> bool {
        false
    }

    /// Does it harm that it should survive.
    fn disturb(&self, _what: Disturbance) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async { anyhow::bail!("this system has no part that may be killed") })
    }

    /// Has the first so many workers have everything.
    fn place(&self, _workers: usize) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async { anyhow::bail!("this system has no partitions that migrate") })
    }

    /// Has what it holds in a snapshot, so that the first one of what was loaded is not in what is measured.
    fn keep(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async { anyhow::bail!("this system has no snapshots") })
    }

    /// What has come of the migrations that it was disturbed by, in order.
    fn migrated(&self) -> BoxFuture<'_, anyhow::Result<Vec<Migrated>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// When the snapshots were taken that it keeps.
    fn snapshots(&self) -> BoxFuture<'_, anyhow::Result<Vec<SystemTime>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, anyhow::Result<()>>;
}

/// Something that happens to the worker with this number, or to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    Kill(usize),
    /// SIGTERM: it hands over and ends.
    Stop(usize),
    /// It is started again, once the others serve.
    Rejoin(usize),
    /// Partitions are to be otherwise; it is not waited for.
    Migrate(Goal, Mode),
}

impl Disturbance {
    /// True if somebody is lost by it.
    pub fn is_loss(self) -> bool {
        matches!(self, Disturbance::Kill(_) | Disturbance::Stop(_))
    }
}

/// The use of resources, and the counters, of a system.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Processor time of its processes; none if it has none of its own.
    pub cpu: Option<Duration>,
    /// Resident memory of its processes, MiB.
    pub rss_mb: u64,
    pub totals: BTreeMap<String, f64>,
}

impl Figures {
    /// The difference to figures from before; memory as it is now.
    pub fn since(mut self, before: &Figures) -> Figures {
        self.cpu = self.cpu.zip(before.cpu).map(|(after, before)| after.saturating_sub(before));
        for (name, total) in &mut self.totals {
            *total -= before.totals.get(name).unwrap_or(&0.0);
        }
        self
    }
}
