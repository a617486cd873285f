//! Migrations as they are shown.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use styx_driver::coordinator::{MigrationPhase, MigrationReport, MigrationState};
use styx_protocol::ids::Timestamp;
use styx_protocol::machine::worker::CopiedOf;
use utoipa::ToSchema;

use super::Mode;

/// A migration, and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MigrationView {
    /// Its name, for ever.
    pub(super) id: String,
    mode: Mode,
    /// `copying`, `paused`, `flipping` (all is copied, the owners are about to change), `arriving` (they have changed, and
    /// have not got all yet), `done`, `cancelled` or `failed`.
    state: &'static str,
    /// What it has been through up to its end, with the times.
    phases: Vec<PhaseView>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    transfers: Vec<TransferView>,
    /// The number of partitions that it makes, if that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    repartitioned: Option<u32>,
    partitions: Progress,
    entities: Progress,
    /// Of keys and values.
    bytes: Progress,
    /// Most bytes a second that each worker copies, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit: Option<u64>,
    /// Bytes copied a second, of all workers together, on the average since it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<u64>,
    /// An estimate: what is left, at that rate, or as fast as the limit lets workers be.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_seconds_left: Option<f64>,
    /// µs since 1970.
    started: u64,
    /// µs since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<u64>,
    /// How long it has taken so far, or took.
    took_ms: u64,
}

/// A state that a migration was in: until the next one, or its end.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct PhaseView {
    state: &'static str,
    /// When it came to it, ms since it began.
    after_ms: f64,
}

/// Partitions that go from one worker to another.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TransferView {
    /// Number of the worker, from 1, as it was when the migration began.
    from: u32,
    to: u32,
    partitions: u64,
}

/// So much of so much.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct Progress {
    done: u64,
    /// As counted when it began: what is written meanwhile makes it more or less.
    of: u64,
}

impl From<CopiedOf> for Progress {
    fn from(CopiedOf { done, of }: CopiedOf) -> Self {
        Progress { done, of }
    }
}

fn named(state: &MigrationState) -> &'static str {
    match state {
        MigrationState::Copying => "copying",
        MigrationState::Paused => "paused",
        MigrationState::Flipping => "flipping",
        MigrationState::Arriving => "arriving",
        MigrationState::Done => "done",
        MigrationState::Cancelled => "cancelled",
        MigrationState::Failed(_) => "failed",
    }
}

impl MigrationView {
    /// As it is at some time: while it copies slowly, there may be nothing new of it for long.
    pub(super) fn at(now: Timestamp, report: &MigrationReport) -> Self {
        let reason = match &report.state {
            MigrationState::Failed(why) => Some(why.clone()),
            _ => None,
        };
        let so_far = Duration::from_micros(now.0.saturating_sub(report.began.0));
        let took = if report.ended.is_some() { report.took } else { report.took.max(so_far) };
        let rate = bytes_per_second(report.bytes.done, took);
        let left = report.bytes.of.saturating_sub(report.bytes.done);
        let is_copying = matches!(report.state, MigrationState::Copying | MigrationState::Arriving);
        let givers = report.transfers.iter().map(|transfer| transfer.from).collect::<BTreeSet<_>>().len() as u64;
        // The first pieces may come faster than the limit, and whole ones later than it would let them.
        let limit = report.rate.filter(|limit| *limit > 0).map(|limit| limit.saturating_mul(givers.max(1)));
        let expected = limit.or(rate).filter(|_| is_copying);
        MigrationView {
            id: report.id.to_string(),
            mode: report.mode.into(),
            state: named(&report.state),
            phases: report.phases.iter().map(phase).collect(),
            reason,
            repartitioned: report.repartitioned,
            transfers: report
                .transfers
                .iter()
                .map(|transfer| TransferView {
                    from: u32::from(transfer.from.0) + 1,
                    to: u32::from(transfer.to.0) + 1,
                    partitions: transfer.partitions,
                })
                .collect(),
            partitions: report.partitions.into(),
            entities: report.entities.into(),
            bytes: report.bytes.into(),
            rate_limit: report.rate,
            bytes_per_second: rate,
            estimated_seconds_left: expected.map(|rate| left as f64 / rate as f64),
            started: report.began.0,
            ended: report.ended.map(|ended| ended.0),
            took_ms: took.as_millis() as u64,
        }
    }
}

fn phase(phase: &MigrationPhase) -> PhaseView {
    PhaseView { state: named(&phase.state), after_ms: phase.after.as_micros() as f64 / 1e3 }
}

/// What was copied a second, if that can be said.
pub(super) fn bytes_per_second(bytes: u64, took: Duration) -> Option<u64> {
    let rate = bytes as f64 / took.as_secs_f64();
    Some(rate).filter(|rate| rate.is_finite() && *rate >= 1.0).map(|rate| rate as u64)
}

#[cfg(test)]
mod tests {
    use styx_driver::coordinator::{MigrationId, MigrationMode, Transfer};
    use styx_protocol::ids::{Generation, PlacementVersion, WorkerId};

    use super::*;

    const BEGAN: Timestamp = Timestamp(1_000_000);

    /// So many seconds after it began.
    fn after(seconds: u64, report: &MigrationReport) -> MigrationView {
        MigrationView::at(Timestamp(BEGAN.0 + seconds * 1_000_000), report)
    }

    fn copying() -> MigrationReport {
        MigrationReport {
            id: MigrationId { generation: Generation(3), number: 2 },
            ticket: 1,
            version: PlacementVersion(4),
            mode: MigrationMode::Online,
            state: MigrationState::Copying,
            phases: vec![MigrationPhase { state: MigrationState::Copying, after: Duration::ZERO }],
            transfers: Vec::new(),
            repartitioned: None,
            partitions: CopiedOf { done: 1, of: 4 },
            entities: CopiedOf::default(),
            bytes: CopiedOf { done: 1000, of: 4000 },
            rate: None,
            began: BEGAN,
            ended: None,
            took: Duration::from_millis(250),
        }
    }

    #[test]
    fn an_estimate_is_made_of_what_was_copied_and_only_while_something_is() {
        let mut report = copying();
        let view = after(2, &report);
        assert_eq!((&*view.id, view.bytes_per_second, view.estimated_seconds_left), ("mg_3_2", Some(500), Some(6.0)));
        assert_eq!((view.took_ms, view.phases), (2000, vec![PhaseView { state: "copying", after_ms: 0.0 }]));
        assert_eq!(after(20, &report).took_ms, 20_000, "though there is nothing new of it");
        report.took = Duration::ZERO;
        assert_eq!(after(0, &report).estimated_seconds_left, None, "nothing is known yet");
        report.state = MigrationState::Paused;
        assert_eq!(after(2, &report).estimated_seconds_left, None);
        report.state = MigrationState::Failed("why".to_owned());
        (report.ended, report.took) = (Some(Timestamp(7_000_000)), Duration::from_secs(6));
        let view = after(20, &report);
        assert_eq!((view.state, view.reason.as_deref(), view.took_ms), ("failed", Some("why"), 6000));
    }

    #[test]
    fn what_is_limited_takes_as_long_as_the_limit_says() {
        let transfer = |from, to| Transfer { from: WorkerId(from), to: WorkerId(to), partitions: 1 };
        let mut report = copying();
        report.rate = Some(100);
        // A first piece has come at once.
        assert_eq!(after(1, &report).estimated_seconds_left, Some(30.0));
        report.transfers = vec![transfer(0, 2), transfer(1, 2), transfer(1, 3)];
        assert_eq!(after(1, &report).estimated_seconds_left, Some(15.0), "two of them give");
        (report.rate, report.state) = (Some(0), MigrationState::Paused);
        assert_eq!(after(1, &report).estimated_seconds_left, None);
    }
}
