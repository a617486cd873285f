//! Migration: values of earlier types become such of the type that the operator has now, when they are read, or when the host asks
//! for it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::arguments::reply;
use crate::{Abort, Context, Result, host, json};

/// The name by which the host asks for it.
pub const MIGRATE: &str = "styx.migrate";

/// An operator's migration, as its functions have it at hand.
#[derive(Clone, Copy)]
pub struct Migration {
    /// What is to be stored instead of a value; none if it is of the type.
    pub run: fn(&[u8]) -> Result<Option<Vec<u8>>>,
    /// Whether the function that runs may write that.
    pub writes: bool,
}

/// What `migration` makes of a value that is not a `New`. Any error that it returns aborts the transaction.
pub fn migrated<Old, New, E>(value: &[u8], migration: impl FnOnce(Old) -> Result<New, E>) -> Result<Option<Vec<u8>>>
where
    Old: DeserializeOwned,
    New: DeserializeOwned + Serialize,
    Abort: From<E>,
{
    if serde_json::from_slice::<New>(value).is_ok() {
        return Ok(None);
    }
    let old = serde_json::from_slice(value)
        .map_err(|error| Abort::bug(format_args!("state of {:?}, to be migrated: {error}", host::key())))?;
    json::encode(&migration(old)?).map(Some).map_err(Abort::bug)
}

/// Gives the functions of this invocation a migration.
pub fn set_migration(context: &mut Context, migration: Migration) {
    context.state.migration = Some(migration);
}

/// `styx.migrate`: whether the own entity was of an earlier type.
pub fn migrate_own(context: &mut Context, migration: Migration) -> Result<Vec<u8>> {
    let migrated = match context.state.get_raw() {
        Some(value) => (migration.run)(&value)?,
        None => None,
    };
    if let Some(value) = &migrated {
        context.state.put_raw(value);
    }
    reply(&migrated.is_some())
}
