//! Snapshots as people and programs see them.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use styx_storage::snapshot::{Listing, PartKind};
use utoipa::ToSchema;

/// One snapshot in a list.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum SnapshotView {
    Readable {
        sequence: u64,
        epoch: u64,
        generation: u64,
        created: String,
        /// Bytes in the store, of all that it consists of.
        bytes: u64,
        parts: usize,
        deltas: usize,
        log_position: u64,
        state_hash: String,
        chain: String,
    },
    Damaged {
        sequence: u64,
        problem: String,
    },
}

impl From<&Listing> for SnapshotView {
    fn from(listing: &Listing) -> Self {
        let manifest = match &listing.manifest {
            Ok(manifest) => manifest,
            Err(problem) => {
                return SnapshotView::Damaged { sequence: listing.sequence, problem: problem.to_string() };
            }
        };
        let created = UNIX_EPOCH + Duration::from_micros(manifest.created_us);
        SnapshotView::Readable {
            sequence: manifest.sequence,
            epoch: manifest.epoch,
            generation: manifest.generation,
            created: humantime::format_rfc3339_seconds(created).to_string(),
            bytes: manifest.bytes(),
            parts: manifest.parts().count(),
            deltas: manifest.parts().filter(|part| part.kind == PartKind::Delta).count(),
            log_position: manifest.log_position,
            state_hash: format!("{:032x}", manifest.state_hash),
            chain: format!("{:032x}", manifest.chain_hash),
        }
    }
}
