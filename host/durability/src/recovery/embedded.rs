//! An embedded log that may be damaged.

use styx_storage::log::{EmbeddedLog, LogError};
use styx_storage::snapshot::{Runtime, SnapshotError, SnapshotStore, StoreLocation};

/// Opens an embedded log with `open`, which is told from which record on it is needed. Damage is passed over if replay
/// after the newest snapshot begins behind it.
///
/// # Errors
/// Those of `open`. A log that is damaged stays as it is while the store cannot be asked.
pub fn open_embedded(
    open: &mut dyn FnMut(u64) -> Result<EmbeddedLog, LogError>,
    store: Option<(&StoreLocation, &Runtime)>,
) -> Result<EmbeddedLog, LogError> {
    let damaged = match open(0) {
        Err(damaged @ LogError::Corrupt { .. }) => damaged,
        result => return result,
    };
    let Some((place, runtime)) = store else { return Err(damaged) };
    match replay_position(place, runtime) {
        Ok(Some(position)) => open(position),
        Ok(None) => Err(damaged),
        Err(error) => {
            tracing::warn!(
                "the log is damaged, and the store of snapshots cannot be asked whether that is covered: {error}"
            );
            Err(damaged)
        }
    }
}

/// Position from which the log is replayed after the newest snapshot.
fn replay_position(place: &StoreLocation, runtime: &Runtime) -> Result<Option<u64>, SnapshotError> {
    let Some(identity) = SnapshotStore::identify(place, runtime)? else { return Ok(None) };
    let newest = SnapshotStore::open(place, identity, runtime)?.newest_complete(None)?;
    Ok(newest.map(|(manifest, _)| manifest.log_position))
}
