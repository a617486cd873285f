//! `GET /v1/attention`: what somebody should see to, and how; the worst first.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use styx_driver::wire::PartitionStats;
use utoipa::ToSchema;

use super::Admin;
use super::cluster::number;
use super::queries::Queries;
use crate::clock::now;
use crate::handle::Handle;
use crate::http::ApiError;
use crate::nodes::{Disk, KnownNode, NodeReport, NodeRole, TrafficReport};

/// A snapshot may be so many intervals old.
const INTERVALS: u32 = 6;
/// And so old at least: a store may be slow for a while.
const SNAPSHOT_AGE: Duration = Duration::from_secs(60);
/// A disk of which less than a tenth is free is nearly full; a large one only below this.
const DISK_FREE: u64 = 20 << 30;
/// Partitions are looked at once in so long, by whoever asks first; a look that is older than `WINDOW_MAX` says nothing of now.
const WINDOW: Duration = Duration::from_secs(5);
const WINDOW_MAX: Duration = Duration::from_secs(60);
/// With fewer calls a second in all, no partition is hot.
const CALLS_MIN: u64 = 200;
/// A hot partition has a quarter of the load at least, and eight times what each would have if all had the same.
const SHARE_MIN: u64 = 4;
const TIMES_MEAN: u64 = 8;

#[derive(Serialize, ToSchema)]
pub struct AttentionList {
    attention: Vec<Attention>,
}

/// Something that somebody should see to.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Attention {
    kind: AttentionKind,
    /// Calls fail, or will.
    urgent: bool,
    title: String,
    detail: String,
    /// What to do.
    action: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionKind {
    WorkerLost,
    GatewayLost,
    StandbyLost,
    DiskNearlyFull,
    SnapshotOld,
    HotPartition,
}

/// What somebody should see to
///
/// Processes that are gone though nobody has told them to end, disks that are nearly full, a newest snapshot that is older than it should
/// be, a partition that has most of the load. What stops calls is in the event `status`.
#[utoipa::path(get, path = "/v1/attention", responses((status = 200, body = AttentionList)))]
pub async fn attention(
    State(admin): State<Admin>,
    State(queries): State<Queries>,
) -> Result<Json<AttentionList>, ApiError> {
    let overview = queries.overview().await?;
    let known = admin.handle.stats().nodes.known();
    let mut found: Vec<Attention> = known.iter().filter_map(|node| lost(node, overview.live)).collect();
    let own = admin.own.report();
    found.extend(std::iter::once(&own).chain(known.iter().map(|node| &node.report)).filter_map(nearly_full));
    found.extend(old_snapshot(&admin.handle));
    if overview.live {
        found.extend(hot(&admin, &queries).await?);
    }
    found.sort_by_key(|one| !one.urgent);
    Ok(Json(AttentionList { attention: found }))
}

fn lost(node: &KnownNode, live: bool) -> Option<Attention> {
    if !node.is_lost() {
        return None;
    }
    let (name, ago) = (&node.report.name, seconds(node.age));
    match node.report.role {
        NodeRole::Worker => Some(Attention {
            kind: AttentionKind::WorkerLost,
            urgent: !live,
            title: format!("{name} is lost"),
            detail: if live {
                format!("This worker said that it is there {ago} ago for the last time. Others serve its partitions.")
            } else {
                format!("This worker said that it is there {ago} ago for the last time. Its partitions are not served.")
            },
            action: "Start it again with its data directory, or start another worker: partitions follow by themselves."
                .into(),
        }),
        NodeRole::Gateway => Some(Attention {
            kind: AttentionKind::GatewayLost,
            urgent: false,
            title: format!("{name} is lost"),
            detail: format!("This gateway said that it is there {ago} ago for the last time."),
            action: "Start it again; until then its clients have to call another one.".into(),
        }),
        NodeRole::Coordinator => Some(Attention {
            kind: AttentionKind::StandbyLost,
            urgent: false,
            title: format!("{name} is lost"),
            detail: format!("This coordinator, which stood by, said that it is there {ago} ago for the last time."),
            action:
                "Start it again: until then nobody takes over from the one that leads, unless another one stands by."
                    .into(),
        }),
        NodeRole::Single => None,
    }
}

fn nearly_full(report: &NodeReport) -> Option<Attention> {
    let Disk { free, total } = report.disk?;
    (free < (total / 10).min(DISK_FREE)).then(|| Attention {
        kind: AttentionKind::DiskNearlyFull,
        urgent: false,
        title: format!("The disk of {} is nearly full", report.name),
        detail: format!("{} of {} are free where its data directory is.", bytes(free), bytes(total)),
        action: "Free some space, or give it a larger disk: once --disk-reserve is all that is left, nothing that may \
                 write is taken."
            .into(),
    })
}

fn old_snapshot(handle: &Handle) -> Option<Attention> {
    let stats = handle.stats();
    let interval = *stats.snapshots.interval.get()?;
    let covered = stats.snapshots.covered();
    let newer = stats.recent().into_iter().find(|epoch| epoch.epoch > covered)?;
    // The first epoch that no snapshot has may be older than those that are remembered.
    let since = if newer.epoch == covered + 1 { newer.time } else { stats.snapshots.last_us().unwrap_or(newer.time) };
    let age = Duration::from_micros(now().0.saturating_sub(since));
    (!interval.is_zero() && age > (interval * INTERVALS).max(SNAPSHOT_AGE)).then(|| Attention {
        kind: AttentionKind::SnapshotOld,
        urgent: false,
        title: "The newest snapshot is old".into(),
        detail: format!(
            "What happened in the last {} is in no snapshot, and one is due every {}. The log grows, and a recovery \
             reads all of it.",
            seconds(age),
            seconds(interval)
        ),
        action: "See whether the store answers: the server's log says why none is taken.".into(),
    })
}

/// What partitions had been asked to do when they were looked at last, and what followed from it.
#[derive(Debug, Default)]
pub(super) struct LoadWatch {
    before: Option<(Instant, Vec<u64>, Vec<u64>)>,
    traffic: TrafficReport,
    hot: Option<Hot>,
}

#[derive(Clone, Debug, PartialEq)]
struct Hot {
    partition: u16,
    worker: u32,
    percent: u64,
    calls_per_second: u64,
    /// The operator that had most of all calls meanwhile.
    operator: Option<String>,
}

impl LoadWatch {
    fn is_due(&self, now: Instant) -> bool {
        self.before.as_ref().is_none_or(|(at, ..)| now.duration_since(*at) >= WINDOW)
    }

    /// Compares partitions with what they were at the last look.
    fn look(&mut self, now: Instant, stats: &[PartitionStats], traffic: TrafficReport) {
        let calls: Vec<u64> = stats.iter().map(|one| one.calls).collect();
        let fuel: Vec<u64> = stats.iter().map(|one| one.fuel).collect();
        let before = self.before.replace((now, calls, fuel));
        let earlier = std::mem::replace(&mut self.traffic, traffic);
        self.hot = None;
        let Some((at, calls_before, fuel_before)) = before else { return };
        let took = now.duration_since(at);
        if took > WINDOW_MAX || calls_before.len() != stats.len() {
            return;
        }
        // Counters begin anew where a partition has moved.
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let loads = stats.iter().zip(calls_before.iter().zip(&fuel_before));
        let loads = loads.map(|(one, (calls, fuel))| (one, since(one.calls, *calls), since(one.fuel, *fuel)));
        let (mut all_calls, mut all_fuel, mut most) = (0, 0, None);
        for (one, calls, fuel) in loads {
            (all_calls, all_fuel) = (all_calls + calls, all_fuel + fuel);
            if most.is_none_or(|(_, _, most)| fuel > most) {
                most = Some((one, calls, fuel));
            }
        }
        let per_second = |calls: u64| (calls as f64 / took.as_secs_f64()) as u64;
        let Some((one, calls, fuel)) = most.filter(|_| per_second(all_calls) >= CALLS_MIN) else { return };
        if fuel * SHARE_MIN >= all_fuel && fuel.saturating_mul(stats.len() as u64) >= all_fuel * TIMES_MEAN {
            self.hot = Some(Hot {
                partition: one.partition,
                worker: number(one.worker),
                percent: 100 * fuel / all_fuel.max(1),
                calls_per_second: per_second(calls),
                operator: busiest(&self.traffic, &earlier),
            });
        }
    }
}

/// The operator that has had more than half of the calls since.
fn busiest(now: &TrafficReport, before: &TrafficReport) -> Option<String> {
    let mut operators = std::collections::BTreeMap::<(&str, &str), u64>::new();
    for function in &now.functions {
        let earlier = before.functions.iter().find(|other| {
            (&other.app, &other.operator, &other.function) == (&function.app, &function.operator, &function.function)
        });
        let calls = function.duration.count().saturating_sub(earlier.map_or(0, |earlier| earlier.duration.count()));
        *operators.entry((&function.app, &function.operator)).or_default() += calls;
    }
    let all: u64 = operators.values().sum();
    let ((app, operator), calls) = operators.into_iter().max_by_key(|(_, calls)| *calls)?;
    (2 * calls > all).then(|| format!("{app}/{operator}"))
}

async fn hot(admin: &Admin, queries: &Queries) -> Result<Option<Attention>, ApiError> {
    let mut load = admin.load.lock().await;
    let at = Instant::now();
    if load.is_due(at) {
        let stats = queries.partition_stats().await?;
        load.look(Instant::now(), &stats, admin.all_traffic());
    }
    Ok(load.hot.as_ref().map(|hot| Attention {
        kind: AttentionKind::HotPartition,
        urgent: false,
        title: format!("Partition {} has {} % of the load", hot.partition, hot.percent),
        detail: format!(
            "Worker {} executes it, {} calls a second; more workers take nothing off it.{}",
            hot.worker,
            hot.calls_per_second,
            match &hot.operator {
                Some(operator) => format!(" Most calls of that time were to {operator}."),
                None => String::new(),
            }
        ),
        action:
            "Spread what is asked of one entity over several keys; of keys with one prefix, choose a longer prefix."
                .into(),
    }))
}

fn seconds(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
}

fn bytes(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use styx_protocol::ids::{NodeId, WorkerId};

    use super::*;
    use crate::nodes::{FunctionCounts, Latency, SILENT};

    fn node(role: NodeRole, age: Duration) -> KnownNode {
        let report = NodeReport { role, name: "w".into(), ..crate::nodes::Own::new(role, "w".into()).report() };
        KnownNode { node: NodeId(4), age, report }
    }

    #[test]
    fn who_is_silent_is_lost_and_urgent_if_its_partitions_are_not_served() {
        let of = |role, seconds, live| lost(&node(role, Duration::from_secs(seconds)), live);
        assert_eq!(of(NodeRole::Worker, 2, true), None);
        assert!(of(NodeRole::Worker, 4, true).is_some_and(|one| !one.urgent && one.detail.contains("4s ago")));
        assert!(of(NodeRole::Worker, 4, false).is_some_and(|one| one.urgent));
        assert!(of(NodeRole::Gateway, 4, true).is_some_and(|one| one.kind == AttentionKind::GatewayLost));
        assert_eq!(of(NodeRole::Coordinator, 15, true), None);
        assert!(of(NodeRole::Coordinator, 17, true).is_some_and(|one| one.kind == AttentionKind::StandbyLost));
    }

    #[test]
    fn a_disk_is_nearly_full_below_a_tenth_but_a_large_one_later() {
        let of = |free, total| {
            nearly_full(&NodeReport { disk: Some(Disk { free, total }), ..node(NodeRole::Worker, SILENT).report })
        };
        assert_eq!(of(10 << 30, 100 << 30), None);
        assert!(of((10 << 30) - 1, 100 << 30).is_some_and(|one| one.detail.contains("of 100.0 GiB")));
        assert_eq!(of(DISK_FREE, 10_000 << 30), None);
        assert!(of(DISK_FREE - 1, 10_000 << 30).is_some());
    }

    fn partitions(loads: &[u64]) -> Vec<PartitionStats> {
        let one = |(at, calls): (usize, &u64)| PartitionStats {
            partition: at as u16,
            worker: WorkerId(1),
            entities: 1,
            bytes: 1,
            calls: *calls,
            fuel: calls * 1000,
            moves_to: None,
        };
        loads.iter().enumerate().map(one).collect()
    }

    fn traffic(operator: &str, calls: u64) -> TrafficReport {
        let function = FunctionCounts {
            app: "shop".into(),
            operator: operator.into(),
            function: "f".into(),
            duration: Latency { buckets: vec![calls], sum_us: 0 },
            ..FunctionCounts::default()
        };
        TrafficReport { functions: vec![function], ..TrafficReport::default() }
    }

    #[test]
    fn a_partition_is_hot_that_has_far_more_than_others_of_a_load_that_matters() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let looked = |before: &[u64], now: &[u64], seconds| {
            let mut watch = LoadWatch::default();
            assert!(watch.is_due(start));
            watch.look(start, &partitions(before), TrafficReport::default());
            assert!(!watch.is_due(after(4)) && watch.is_due(after(5)));
            watch.look(after(seconds), &partitions(now), traffic("stock", 5000));
            watch.hot
        };
        let before = [10; 32];
        let mut now = [110; 32];
        assert_eq!(looked(&before, &now, 5), None, "all have the same");
        now[7] = 5010;
        let hot = looked(&before, &now, 5).expect("one has nearly all");
        assert_eq!((hot.partition, hot.worker, hot.percent, hot.calls_per_second), (7, 2, 61, 1000));
        assert_eq!(hot.operator.as_deref(), Some("shop/stock"));
        assert_eq!(looked(&before, &now, 61), None, "that is long ago");
        assert_eq!(looked(&before, &[110, 5010], 5), None, "there were others");
        let mut few = before;
        few[7] += 4 * CALLS_MIN;
        assert_eq!(looked(&before, &few, 5), None, "hardly anything is called");
        // It moved: its counters have begun anew.
        let mut earlier = before;
        earlier[7] = 9000;
        assert!(looked(&earlier, &now, 5).is_some_and(|hot| hot.partition == 7));
    }
}
