//! Migrations as they are shown.

use serde::Serialize;
use styx_driver::coordinator::{MigrationId, MigrationReport, MigrationState};
use styx_protocol::machine::worker::CopiedOf;
use utoipa::ToSchema;

/// A migration, and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MigrationView {
    /// Its name, for ever.
    pub(super) id: String,
    /// `copying`, `paused`, `flipping` (all is copied, the owners are about to change), `done`, `cancelled` or `failed`.
    state: &'static str,
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
    /// An estimate: what is left, at that rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_seconds_left: Option<f64>,
    /// µs since 1970.
    started: u64,
    /// µs since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<u64>,
    /// How long it has taken so far, as of the last report, or took.
    took_ms: u64,
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

impl From<&MigrationReport> for MigrationView {
    fn from(report: &MigrationReport) -> Self {
        let (state, reason) = match &report.state {
            MigrationState::Copying => ("copying", None),
            MigrationState::Paused => ("paused", None),
            MigrationState::Flipping => ("flipping", None),
            MigrationState::Arriving => ("arriving", None),
            MigrationState::Done => ("done", None),
            MigrationState::Cancelled => ("cancelled", None),
            MigrationState::Failed(why) => ("failed", Some(why.clone())),
        };
        let rate = bytes_per_second(report);
        let left = report.bytes.of.saturating_sub(report.bytes.done);
        let is_copying = report.state == MigrationState::Copying;
        MigrationView {
            id: name(report.id),
            state,
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
            estimated_seconds_left: rate.filter(|_| is_copying).map(|rate| left as f64 / rate as f64),
            started: report.began.0,
            ended: report.ended.map(|ended| ended.0),
            took_ms: report.took.as_millis() as u64,
        }
    }
}

/// What was copied a second so far, if that can be said.
pub(super) fn bytes_per_second(report: &MigrationReport) -> Option<u64> {
    let rate = report.bytes.done as f64 / report.took.as_secs_f64();
    Some(rate).filter(|rate| rate.is_finite() && *rate >= 1.0).map(|rate| rate as u64)
}

/// The name of a migration.
pub(super) fn name(id: MigrationId) -> String {
    format!("mg_{}_{}", id.generation.0, id.number)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use styx_protocol::ids::{Generation, PlacementVersion, Timestamp};

    use super::*;

    #[test]
    fn an_estimate_is_made_of_what_was_copied_and_only_while_something_is() {
        let mut report = MigrationReport {
            id: MigrationId { generation: Generation(3), number: 2 },
            ticket: 1,
            version: PlacementVersion(4),
            state: MigrationState::Copying,
            transfers: Vec::new(),
            repartitioned: None,
            partitions: CopiedOf { done: 1, of: 4 },
            entities: CopiedOf::default(),
            bytes: CopiedOf { done: 1000, of: 4000 },
            rate: None,
            began: Timestamp(5),
            ended: None,
            took: Duration::from_secs(2),
        };
        let view = MigrationView::from(&report);
        assert_eq!((&*view.id, view.bytes_per_second, view.estimated_seconds_left), ("mg_3_2", Some(500), Some(6.0)));
        report.took = Duration::ZERO;
        assert_eq!(MigrationView::from(&report).estimated_seconds_left, None, "nothing is known yet");
        (report.took, report.state) = (Duration::from_secs(2), MigrationState::Paused);
        assert_eq!(MigrationView::from(&report).estimated_seconds_left, None);
        report.state = MigrationState::Failed("why".to_owned());
        let view = MigrationView::from(&report);
        assert_eq!((view.state, view.reason.as_deref()), ("failed", Some("why")));
    }
}
