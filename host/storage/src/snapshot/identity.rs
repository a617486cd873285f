//! Id of the cluster that owns the store: one object, put when the store is empty and never changed.

use super::envelope;
use super::error::SnapshotError;
use super::location::StoreLocation;
use super::objects::Objects;

const OBJECT: &str = "cluster";
const MAGIC: &[u8; 8] = b"STYXCLUS";
const VERSION: u16 = 1;

/// Id of the owner; `None` if there is none.
pub(crate) fn read(objects: &Objects) -> Result<Option<u128>, SnapshotError> {
    let Some(found) = objects.get(OBJECT)? else { return Ok(None) };
    let (_, body) = envelope::unwrap(MAGIC, VERSION, OBJECT, &found.bytes)?;
    let body = body.as_slice().try_into();
    let body = body.map_err(|_| SnapshotError::damaged(OBJECT, envelope::HEADER as u64, "it has a wrong length"))?;
    Ok(Some(u128::from_le_bytes(body)))
}

/// Makes an empty store the cluster's, and refuses another cluster's. Shows by the way that the store can be
/// written and that conditional puts hold, on which everything rests: a second put of the same must be refused.
pub(crate) fn claim(objects: &Objects, location: &StoreLocation, identity: u128) -> Result<(), SnapshotError> {
    let bytes = envelope::wrap(MAGIC, VERSION, &identity.to_le_bytes());
    let put = || {
        objects.put_new(OBJECT, bytes.clone()).map_err(|error| match error {
            SnapshotError::Store { reason, .. } => {
                location.unusable(format!("it cannot be written ({reason}): give this user the right to write there"))
            }
            other => other,
        })
    };
    let check = |found: Option<u128>| match found {
        Some(theirs) if theirs != identity => {
            Err(SnapshotError::OtherCluster { location: location.url().to_owned(), ours: identity, theirs })
        }
        found => Ok(found.is_some()),
    };
    if !check(read(objects)?)? {
        // Who comes second of two that claim it at once finds the other's name there.
        put()?;
        check(read(objects)?)?;
    }
    if put()? {
        return Err(location.unusable(
            "it overwrites what a conditional put must not (If-None-Match): two coordinators could both write, \
             use a server that supports conditional writes",
        ));
    }
    Ok(())
}
