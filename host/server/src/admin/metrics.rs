//! `GET /metrics`: counters, latencies and the process, in the text format of Prometheus.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use styx_engine::FunctionUse;

use super::Admin;
use crate::http::{ApiError, OUTCOMES};
use crate::nodes::resident_bytes;

/// Figures for Prometheus
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String, content_type = "application/openmetrics-text")))]
pub async fn metrics(State(admin): State<Admin>) -> Result<Response, ApiError> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Everything(admin)));
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|error| {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "HOST_FAILURE",
            format!("the metrics cannot be written: {error}"),
        )
    })?;
    Ok((
        [(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        )],
        text,
    )
        .into_response())
}

const PEER_ERRORS: &str = "Messages of other processes that could not be read, or were not for this one";
const UNWRITTEN: &str = "Lines of the server that are missing, because standard error did not take them";
const LINES_LEFT_OUT: &str = "Log lines of apps that are missing in the server's log, because of --app-log-rate";
const QUEUE: &str =
    "Time that requests have waited for their epoch, of all together, where one process is all of the system";
const WAITING: &str = "Apps of which requests waited for an epoch when the last one ended: they share the next ones";
const FORGOTTEN: &str = "Replies forgotten before --reply-retention, because of --reply-max or --reply-bytes-max; its worker's, since it joined";
const STATE_FULL: &str = "Whether a worker has as much state as it may, so that nothing that may write is taken";
const FULL_APPS: &str = "Apps that have as much state as they may, so that nothing of them that may write is taken";
const DISK_FULL: &str =
    "Whether the disk of the log is nearly full: 1, and nothing that may write is taken; otherwise 0";
const QUARANTINED: &str = "Requests and apps that are set aside and not executed: each needs attention";
const LOG_STALLED: &str = "Whether the log waits for its Kafka brokers: 1, and nothing is taken; otherwise 0";

/// Collector of all figures, read when asked.
struct Everything(Admin);

impl fmt::Debug for Everything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Everything")
    }
}

impl Collector for Everything {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.handle.stats();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let transactions = [("lock_free", &stats.committed), ("fallback", &stats.fell_back)];
        let transactions = transactions.map(|(phase, counter)| (phase, counter.load(Ordering::Relaxed)));
        counters(
            &mut encoder,
            "styx_transactions",
            "Transactions committed, by the phase that they committed in",
            "phase",
            &transactions,
        )?;
        let seconds = Some(&Unit::Seconds);
        for (name, help, unit, value) in [
            ("styx_epochs", "Epochs ended", None, of(&stats.epochs)),
            ("styx_aborted", "Transactions that ended without effect", None, of(&stats.aborted)),
            ("styx_rescheduled", "Times that a transaction was moved to the next epoch", None, of(&stats.rescheduled)),
            ("styx_queries", "Read-only requests answered", None, of(&stats.queries)),
            ("styx_fuel", "Fuel used by guests", None, of(&stats.fuel)),
            ("styx_peer_errors", PEER_ERRORS, None, of(&stats.peer_errors)),
            ("styx_app_log_lines_left_out", LINES_LEFT_OUT, None, of(&stats.guest_lines_left_out)),
            ("styx_lines_left_out", UNWRITTEN, None, crate::diagnostics::left_out() as f64),
            ("styx_log_records", "Log records made durable", None, of(&stats.log_records)),
            ("styx_log_bytes", "Bytes appended to the log", None, of(&stats.log_bytes)),
            ("styx_log_syncs", "Times that the log was made durable", None, of(&stats.log_syncs)),
            ("styx_snapshots", "Snapshots taken", None, of(&stats.snapshots.taken)),
            ("styx_snapshot_bytes", "Bytes written for snapshots", None, of(&stats.snapshots.written_bytes)),
            ("styx_log_sync", "Time spent making the log durable", seconds, of(&stats.log_sync_us) / 1e6),
            ("styx_queue", QUEUE, seconds, of(&stats.queue) / 1e9),
            ("styx_replies_forgotten_early", FORGOTTEN, None, of(&stats.replies_forgotten_early)),
        ] {
            counter(&mut encoder, name, help, unit, value)?;
        }
        if let Some([sent, lost]) = stats.observed.traces() {
            let counted = [("sent", sent), ("lost", lost)];
            counters(&mut encoder, "styx_traces", "Traces that a collector was sent, or not", "end", &counted)?;
        }
        let totals = self.0.handle.stats().migrations().totals;
        let ended = [("done", totals.done), ("cancelled", totals.cancelled), ("failed", totals.failed)];
        counters(&mut encoder, "styx_migrations", "Migrations that ended, by how", "end", &ended)?;
        let help = "Bytes of keys and values copied by migrations, as far as owners have said so";
        counter(&mut encoder, "styx_migration_bytes", help, None, totals.bytes as f64)?;
        let help = "Time spent in the phases of epochs, one after the other, as the worker of this process sees them";
        times(&mut encoder, "styx_phase", help, "phase", &stats.phases.all())?;
        let help = "Time that the coordinator waited for its workers, by the stages of a round";
        times(&mut encoder, "styx_round", help, "stage", &stats.rounds.all())?;
        let scaling = stats.autoscaling.known();
        if let Some(last) = scaling.last.as_ref().filter(|_| scaling.bounds.is_some()) {
            let decision = &last.decision;
            let mean = decision.busy.iter().sum::<u32>() as f64 / decision.busy.len().max(1) as f64 / 100.0;
            for (name, help, value) in [
                ("styx_workers", "Workers, as the autoscaler saw them last", f64::from(decision.workers)),
                ("styx_workers_wanted", "Workers that there should be", f64::from(decision.wanted)),
                ("styx_workers_busy", "Part of the time that workers execute, on average", mean),
            ] {
                gauge(&mut encoder, name, help, None, value)?;
            }
        }
        let (admission, condition) = (self.0.handle.admission(), self.0.handle.admission().condition());
        let bytes = Some(&Unit::Bytes);
        let full = admission.full_state();
        for (name, help, unit, value) in [
            ("styx_entities", "Entities in the committed state", None, of(&stats.entities)),
            ("styx_state", "Keys and values in the committed state", bytes, of(&stats.state_bytes)),
            ("styx_waiting_apps", WAITING, None, of(&stats.waiting_apps)),
            ("styx_state_full", STATE_FULL, None, f64::from(u8::from(full.all))),
            ("styx_full_apps", FULL_APPS, None, full.apps.len() as f64),
            ("styx_disk_full", DISK_FULL, None, f64::from(u8::from(condition.full))),
            ("styx_log_stalled", LOG_STALLED, None, f64::from(u8::from(condition.stalled))),
        ] {
            gauge(&mut encoder, name, help, unit, value)?;
        }
        if let Some(free) = admission.free() {
            let help = "Free space on the disk of the log";
            gauge(&mut encoder, "styx_disk_free", help, bytes, free as f64)?;
        }
        if let Some(taken) = stats.snapshots.last() {
            gauge(&mut encoder, "styx_snapshot_epoch", "Epoch of the last snapshot", None, taken.epoch as f64)?;
            let help = "How long the last snapshot took, in the background";
            gauge(&mut encoder, "styx_snapshot_duration", help, seconds, taken.duration_us as f64 / 1e6)?;
        }
        let quarantined = self.0.handle.catalog().quarantine().len();
        gauge(&mut encoder, "styx_quarantined", QUARANTINED, None, quarantined as f64)?;
        gauge(&mut encoder, "styx_apps", "Apps deployed", None, self.0.handle.catalog().apps().count() as f64)?;
        self.latencies(&mut encoder)?;
        self.functions(&mut encoder)?;
        process(&mut encoder)
    }
}

impl Everything {
    fn latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "styx_request_duration",
            "From the arrival of a request to its reply, by outcome",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (outcome, name) in OUTCOMES {
            let reading = self.0.latencies.of(outcome).read();
            family.encode_family(&[("outcome", name)])?.encode_histogram::<NoLabelSet>(
                reading.sum,
                reading.count,
                &reading.buckets,
                None,
            )?;
        }
        Ok(())
    }
}

impl Everything {
    /// Of each function by itself, as far as their number is bounded.
    fn functions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let called = self.0.latencies.functions.called();
        let help = "Calls that this process's ingress has answered, by function and outcome";
        let mut family = encoder.encode_descriptor("styx_function_calls", help, None, MetricType::Counter)?;
        for stats in &called {
            for (outcome, name) in OUTCOMES {
                let calls = stats.ended(outcome);
                if calls > 0 {
                    let labels = [
                        ("app", &*stats.app),
                        ("operator", &*stats.operator),
                        ("function", &*stats.function),
                        ("outcome", name),
                    ];
                    family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&calls, None)?;
                }
            }
        }
        let help = "From the arrival of a call to its reply, by function";
        let (name, seconds) = ("styx_function_duration", Some(&Unit::Seconds));
        let mut family = encoder.encode_descriptor(name, help, seconds, MetricType::Histogram)?;
        for stats in &called {
            let reading = stats.duration.read();
            let labels = [("app", &*stats.app), ("operator", &*stats.operator), ("function", &*stats.function)];
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                reading.sum,
                reading.count,
                &reading.buckets,
                None,
            )?;
        }
        let used = self.0.own.used();
        let invocations = "Times that guests have run a function, for requests and other functions, also in vain";
        let fuel = "Fuel used by a function itself, without what it called, also in vain";
        let values: [fn(&FunctionUse) -> u64; 2] = [|function| function.invocations, |function| function.fuel];
        let families = [("styx_function_invocations", invocations), ("styx_function_fuel", fuel)];
        for ((name, help), value) in families.into_iter().zip(values) {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for one in &used {
                let labels = [("app", &*one.app), ("operator", &*one.operator), ("function", &*one.function)];
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value(one), None)?;
            }
        }
        let watched = self.0.handle.stats().observed.watched.load(Ordering::Relaxed);
        counter(encoder, "styx_requests_watched", "Requests that were watched, as they came", None, watched as f64)
    }
}

/// Times so far, told apart by a label.
fn times(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    times: &[(&'static str, Duration)],
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
    times.iter().try_for_each(|(at, spent)| {
        family.encode_family(&[(label, *at)])?.encode_counter::<NoLabelSet, _, f64>(&spent.as_secs_f64(), None)
    })
}

fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: &[(&str, u64)],
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    values.iter().try_for_each(|(text, value)| {
        family.encode_family(&[(label, *text)])?.encode_counter::<NoLabelSet, _, f64>(value, None)
    })
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> fmt::Result {
    encoder.encode_descriptor(name, help, unit, MetricType::Counter)?.encode_counter::<NoLabelSet, _, f64>(&value, None)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, unit: Option<&Unit>, value: f64) -> fmt::Result {
    encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?.encode_gauge(&value)
}

/// Memory and processor time of this process, where the system tells.
fn process(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    if let Some(seconds) = cpu_seconds() {
        counter(encoder, "process_cpu", "Processor time used", Some(&Unit::Seconds), seconds)?;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        status.lines().find_map(|line| {
            line.strip_prefix(name)?.trim_start_matches(':').split_whitespace().next()?.parse::<f64>().ok()
        })
    };
    if let Some(bytes) = resident_bytes() {
        gauge(encoder, "process_resident_memory", "Memory in use", Some(&Unit::Bytes), bytes as f64)?;
    }
    if let Some(threads) = of("Threads") {
        gauge(encoder, "process_threads", "Threads", None, threads)?;
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        gauge(encoder, "process_open_fds", "Open file descriptors", None, open.count() as f64)?;
    }
    Ok(())
}

fn cpu_seconds() -> Option<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, into a local that outlives it.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    (failed == 0).then(|| time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}
