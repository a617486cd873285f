//! What people and programs are told of a snapshot.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use styx_storage::snapshot::{Listing, PartKind};

/// One snapshot in a list.
pub fn describe(listing: &Listing) -> Value {
    match &listing.manifest {
        Ok(manifest) => {
            let created = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_micros(manifest.created_us));
            let deltas = manifest.parts().filter(|part| part.kind == PartKind::Delta).count();
            json!({
                "sequence": manifest.sequence,
                "epoch": manifest.epoch,
                "generation": manifest.generation,
                "created": created.to_string(),
                "bytes": manifest.bytes(),
                "parts": manifest.parts().count(),
                "deltas": deltas,
                "log_position": manifest.log_position,
                "state_hash": format!("{:032x}", manifest.state_hash),
                "chain": format!("{:032x}", manifest.chain_hash),
            })
        }
        Err(problem) => json!({ "sequence": listing.sequence, "problem": problem.to_string() }),
    }
}
