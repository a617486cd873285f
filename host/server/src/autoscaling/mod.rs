//! Autoscaling: looks at the workers at intervals, has the [policy](styx_driver::autoscale) say how many there should be,
//! and has a command start or stop them, if there is one; otherwise it only proposes.

mod command;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use styx_driver::autoscale::{AutoscaleConfig, Autoscaler, Decision, Wish, WorkerCounts};
use styx_driver::wire::{AdminQuery, Overview, Response, WorkerStatus};
use tokio::time::{MissedTickBehavior, interval, timeout};

use self::command::Order;
use crate::autoscale_stats::{Decided, Ran};
use crate::clock;
use crate::cluster::coordinator::shares;
use crate::handle::Handle;

/// How long workers may take to say what they have counted.
const ASK_MAX: Duration = Duration::from_secs(2);
/// A command that failed is run again after this pause, and then after ever longer ones.
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_MAX: Duration = Duration::from_secs(300);

/// How workers are looked at, and what is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoscaleOptions {
    pub policy: AutoscaleConfig,
    /// Time between two looks.
    pub interval: Duration,
    /// A program that starts and stops workers.
    pub command: Option<PathBuf>,
    /// How long it may take.
    pub command_max: Duration,
    /// A balance is begun when it is wanted, which no command is needed for.
    pub balances: bool,
}

/// A change that is to be made, or made again.
struct Pending {
    order: Order,
    workers: u32,
    due: Instant,
    pause: Duration,
    tries: u32,
}

/// Looks for as long as the process lives.
pub(crate) async fn run(handle: Handle, options: AutoscaleOptions) {
    let started = Instant::now();
    let mut scaler = Autoscaler::new(options.policy);
    let shown = handle.stats().autoscaling.clone();
    shown.begin(options.policy, options.command.is_some());
    let mut ticks = interval(options.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pending: Option<Pending> = None;
    loop {
        ticks.tick().await;
        let (overview, statuses) = timeout(ASK_MAX, ask(&handle)).await.ok().flatten().unwrap_or_default();
        let moving = handle.stats().migrations().reports.last().is_some_and(|last| !last.state.has_ended());
        let blocked = match &overview {
            Some(overview) if overview.live && overview.members.len() == statuses.len() => {
                moving.then_some("partitions are on their way")
            }
            _ => Some("the cluster does not serve"),
        };
        let counts: Vec<WorkerCounts> = statuses.iter().map(counts).collect();
        let now = styx_driver::time::Instant(started.elapsed().as_micros() as u64);
        let decision = scaler.look(now, &counts, blocked);
        let decided = Decided { at: clock::now(), decision: decision.clone(), ran: None, balanced: None };
        shown.looked(decided);
        if decision.wish == Wish::Balance {
            tracing::info!("partitions should be balanced: {}", decision.reason);
            if options.balances {
                let begun = shares::balance(&handle, options.interval).await;
                match &begun {
                    Ok(id) => tracing::info!("partitions are balanced by migration {id}"),
                    Err(why) => tracing::info!("partitions are not balanced: {why}"),
                }
                shown.balanced(begun);
            }
        }
        if let (Wish::Out | Wish::In, Some(overview)) = (decision.wish, &overview) {
            let Decision { workers, wanted, reason, .. } = &decision;
            tracing::info!(workers, wanted, "there should be {wanted} workers: {reason}");
            let order = Order::of(&decision, overview, &statuses);
            pending = options.command.is_some().then(|| Pending {
                order,
                workers: *workers,
                due: Instant::now(),
                pause: AGAIN,
                tries: 0,
            });
        }
        // Once members have changed, what was wanted is done, or wrong.
        pending.take_if(|pending| blocked.is_none() && pending.workers != decision.workers);
        let Some(mut order) = pending.take_if(|pending| pending.due <= Instant::now()) else { continue };
        let Some(program) = &options.command else { continue };
        order.tries += 1;
        let ran = command::run(program, &order.order, options.command_max).await;
        if let Ran::Failed(why) = &ran {
            let pause = order.pause;
            tracing::error!(code = "AUTOSCALE_COMMAND", "the autoscaling command failed, again in {pause:?}: {why}");
        }
        let (tries, failed) = (order.tries, matches!(ran, Ran::Failed(_)));
        shown.ran(ran, tries);
        if failed {
            let (due, pause) = (Instant::now() + order.pause, (2 * order.pause).min(AGAIN_MAX));
            pending = Some(Pending { due, pause, ..order });
        }
    }
}

async fn ask(handle: &Handle) -> Option<(Option<Overview>, Vec<WorkerStatus>)> {
    let Some(Response::Cluster(overview)) = handle.read(AdminQuery::Cluster).await else { return None };
    let Some(Response::Workers(statuses)) = handle.read(AdminQuery::Workers).await else {
        return Some((Some(overview), Vec::new()));
    };
    Some((Some(overview), statuses))
}

fn counts(status: &WorkerStatus) -> WorkerCounts {
    let WorkerStatus { worker, calls, busy_us, waiting, .. } = *status;
    WorkerCounts { worker, calls, busy: Duration::from_micros(busy_us), waiting }
}
