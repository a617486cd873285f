//! The breakdown of a call's time: what the server says of its epochs' phases, and what is left for
//! waiting, and for the way to the client and back.

use super::{Page, chart, label};
use crate::result::{Outcome, Run};

/// Parts of a call's mean latency, in milliseconds.
struct Parts {
    /// Between the client and the server, both ways, with what the client itself takes.
    outside: f64,
    queue: f64,
    /// Phases of an epoch, with the network between workers and the wait for the slowest of them.
    phases: Vec<f64>,
    network: f64,
    /// Waiting for the record to be durable, when all else is done.
    log: f64,
    /// The rest: from the epoch's end to the ingress, and whatever is not told apart.
    reply: f64,
}

/// Phases of an epoch, one after the other: the server's name, and ours.
const PHASES: [(&str, &str); 5] =
    [("cut", "cut"), ("execute", "execute"), ("validate", "validate"), ("commit", "commit"), ("fallback", "fallback")];

impl Parts {
    fn of(run: &Run) -> Option<Parts> {
        let total = |name: &str| run.totals.get(name).copied().unwrap_or(0.0);
        let epochs = total("epochs");
        let phases: Vec<f64> = PHASES
            .iter()
            .map(|(name, _)| total(&format!("phase_seconds{{phase=\"{name}\"}}")) * 1e3 / epochs.max(1.0))
            .collect();
        if phases.iter().sum::<f64>() == 0.0 {
            return None;
        }
        let named = |prefix: &str| {
            let found = run.totals.iter().filter(|(name, _)| name.starts_with(prefix));
            found.map(|(_, total)| total).sum::<f64>()
        };
        let count = named("request_duration_seconds_count");
        let mean = run.latency.mean_ms;
        // Where there is no ingress, the client waits at the worker itself.
        let inside = if count > 0.0 { named("request_duration_seconds_sum") * 1e3 / count } else { mean };
        let busy: f64 = phases.iter().sum();
        // How long a coordinator waits for workers, beyond what they do.
        let network = (named("round_seconds") * 1e3 / epochs.max(1.0) - busy).max(0.0);
        let queue = total("queue_seconds") * 1e3 / (run.tps * run.seconds).max(1.0);
        let log = total("phase_seconds{phase=\"log\"}") * 1e3 / epochs.max(1.0);
        let reply = (inside - queue - busy - network - log).max(0.0);
        Some(Parts { outside: (mean - inside).max(0.0), queue, phases, network, log, reply })
    }

    fn values(&self) -> Vec<f64> {
        [&[self.outside, self.queue][..], &self.phases, &[self.network, self.log, self.reply]].concat()
    }
}

/// The section, if any server told of its phases.
pub(super) fn section(page: &mut Page, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let mut bars = Vec::new();
    let mut rows = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.series.is_none()) {
        let run = outcome.usual();
        let Some(parts) = Parts::of(run) else { continue };
        let total = |name: &str| run.totals.get(name).copied().unwrap_or(0.0);
        let name = format!("{} {}", outcome.workload, label(outcome));
        let epochs = total("epochs").max(1.0);
        let figures = [
            run.tps * run.seconds / epochs,
            total("log_sync_seconds") * 1e3 / total("log_syncs").max(1.0),
            epochs / total("log_syncs").max(1.0),
            total("log_bytes") / (run.tps * run.seconds).max(1.0),
        ];
        let figures = figures.map(|figure| format!("{figure:.2}"));
        rows.push(
            [vec![name.clone()], parts.values().iter().map(|ms| format!("{ms:.3}")).collect(), figures.into()].concat(),
        );
        bars.push((name, parts.values()));
    }
    if bars.is_empty() {
        return Ok(());
    }
    page.section(
        "Where the time goes",
        "Mean latency of a call at 80 % of the peak, or in a closed loop. Phases are means per epoch, and every call of an \
         epoch waits for all of them. The record is made durable meanwhile: log is what is left of that. One process \
         validates as a part of its commit; a cluster's queue and log are a part of its reply.",
    );
    let names = ["way and client", "queue"].into_iter().chain(PHASES.map(|(_, name)| name));
    let names: Vec<String> = names.chain(["network, barriers", "log", "reply"]).map(str::to_owned).collect();
    page.chart(&chart::bars("mean latency, ms", &names, &bars)?);
    let mut head = vec!["what"];
    head.extend(names.iter().map(|name| &**name));
    head.extend(["calls per epoch", "ms per sync", "epochs per sync", "log bytes per call"]);
    page.table(&head, &rows);
    Ok(())
}
