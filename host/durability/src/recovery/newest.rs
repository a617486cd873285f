//! The newest snapshot that is whole: to begin with, or to build on.

use styx_driver::snapshots::StoreFailure;
use styx_protocol::ids::{Epoch, Generation, Timestamp};
use styx_storage::snapshot::{Manifest, SnapshotStore};

use super::found::Found;
use crate::failure::{failure, is_damage};

/// The newest snapshot of an epoch before `before` that `attempt` finds no damage in, if there are
/// any; the next one will continue it.
///
/// # Errors
/// None is whole, or the store does not answer.
pub fn newest(
    store: &SnapshotStore,
    before: Option<Epoch>,
    attempt: &mut dyn FnMut(&SnapshotStore, &Found) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Found>> {
    let (mut older_than, mut first) = (None, None);
    loop {
        let Some((manifest, _)) = store.newest_complete(older_than)? else {
            return first.map_or(Ok(None), Err);
        };
        let sequence = manifest.sequence;
        older_than = Some(sequence);
        if before.is_some_and(|before| manifest.epoch >= before.0) {
            continue;
        }
        let found = Found::read(store, manifest).and_then(|found| attempt(store, &found).map(|()| found));
        match found {
            Ok(found) => {
                store.continue_from(&found.manifest)?;
                return Ok(Some(found));
            }
            Err(error) if is_damage(&error) => {
                tracing::error!(code = "SNAPSHOT_DAMAGED", sequence, "{error:#}; the snapshot before is taken");
                first = first.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Takes the store over for a generation, with the newest snapshot of an epoch before `before` that can be read. From
/// then on no earlier generation writes any, or deletes one that workers read.
///
/// # Errors
/// None is whole, or the store does not answer.
pub fn take_over(
    store: &SnapshotStore,
    before: Option<Epoch>,
    generation: Generation,
    now: Timestamp,
) -> Result<Option<Found>, StoreFailure> {
    let take_over = || {
        let Some(found) = newest(store, before, &mut |_, _| Ok(()))? else { return Ok(None) };
        let Manifest { sequence, log_position, .. } = found.manifest;
        let manifest = store.reinstate(sequence, generation.0, log_position, now.0)?;
        Ok(Some(Found { manifest, ..found }))
    };
    take_over().map_err(|error: anyhow::Error| match error.downcast_ref() {
        Some(error) => failure(error),
        None => StoreFailure::Unavailable(format!("{error:#}")),
    })
}
