//! Systems under test, all behind one interface: Styx as processes, Styx inside this process, and
//! what it is compared with. Each is started on free ports and a directory of its own, and ends
//! with its value.

mod http;
mod inprocess;
mod native;
mod styx;
mod usage;
mod websocket;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::load::Lane;

pub use inprocess::{InProcess, InProcessOptions};
pub use styx::{Driver, Styx, StyxOptions};
pub use usage::own_cpu;

/// Something that takes a workload's calls.
pub trait System: Send + Sync {
    /// Opens the ways in that a client uses at once; with `results`, answers carry them.
    fn open(&self, results: bool) -> BoxFuture<'_, anyhow::Result<Vec<Box<dyn Lane>>>>;

    /// What it has used and counted so far.
    fn figures(&self) -> BoxFuture<'_, anyhow::Result<Figures>>;

    /// Ends it in order.
    fn stop(self: Box<Self>) -> BoxFuture<'static, anyhow::Result<()>>;
}

/// What a system has used and counted.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Processor time of its processes; none if it has none of its own.
    pub cpu: Option<Duration>,
    /// Resident memory of its processes, MiB.
    pub rss_mb: u64,
    /// Its counters, by name.
    pub totals: BTreeMap<String, f64>,
}

impl Figures {
    /// What was used and counted since then; memory as it is now.
    pub fn since(mut self, before: &Figures) -> Figures {
        self.cpu = self.cpu.zip(before.cpu).map(|(after, before)| after.saturating_sub(before));
        for (name, total) in &mut self.totals {
            *total -= before.totals.get(name).unwrap_or(&0.0);
        }
        self
    }

    /// A counter; 0 if there is none such.
    pub fn total(&self, name: &str) -> f64 {
        self.totals.get(name).copied().unwrap_or(0.0)
    }
}
