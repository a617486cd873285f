//! The entities of the function's own operator, typed by serde or as raw bytes.
//!
//! Typed values are JSON, so that functions in other languages and people can read
//! them. The `_raw` forms skip that: they cost one copy into the host and no more.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::migration::Migration;
use crate::{Abort, Result, host, json};

/// State of the own operator: the own entity, or by key any other (`_at`).
pub struct State {
    /// For values of earlier types.
    pub(crate) migration: Option<Migration>,
}

impl State {
    pub(crate) fn new() -> Self {
        Self { migration: None }
    }

    /// The own entity, or `None` if it is absent.
    pub fn get<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let read = host::own(|bytes| bytes.map(decode).transpose());
        match (read, self.migration) {
            (Err(unfit), Some(migration)) => migrate(migration, unfit, self.get_raw(), host::put_own),
            (read, _) => read,
        }
    }

    /// The own entity; aborts if it is absent.
    pub fn require<T: DeserializeOwned>(&self) -> Result<T> {
        self.get()?.ok_or_else(|| Abort::new(format_args!("there is no {} {:?}", host::operator(), host::key())))
    }

    /// Writes the own entity.
    pub fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        host::put_own(json::encode(value).map_err(Abort::bug)?);
        Ok(())
    }

    /// Removes the own entity. Removing an absent one is no error.
    pub fn delete(&mut self) {
        host::delete_own();
    }

    /// The own entity as bytes.
    pub fn get_raw(&self) -> Option<Vec<u8>> {
        host::own(|bytes| bytes.map(<[u8]>::to_vec))
    }

    /// Writes the own entity as bytes.
    pub fn put_raw(&mut self, value: &[u8]) {
        host::put_own(value.to_vec());
    }

    /// The entity under another key of the operator.
    pub fn get_at<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let bytes = host::get(key);
        match (bytes.as_deref().map(decode).transpose(), self.migration) {
            (Err(unfit), Some(migration)) => migrate(migration, unfit, bytes, |value| host::put(key, &value)),
            (read, _) => read,
        }
    }

    /// Writes the entity under another key of the operator.
    pub fn put_at<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<()> {
        host::put(key, &json::encode(value).map_err(Abort::bug)?);
        Ok(())
    }

    /// Removes the entity under another key of the operator.
    pub fn delete_at(&mut self, key: &str) {
        host::delete(key);
    }

    /// The entity under another key as bytes.
    pub fn get_raw_at(&self, key: &str) -> Option<Vec<u8>> {
        host::get(key)
    }

    /// Writes the entity under another key as bytes.
    pub fn put_raw_at(&mut self, key: &str, value: &[u8]) {
        host::put(key, value);
    }

    /// A scan over the operator's entities in key order, to be narrowed down:
    /// `ctx.state.scan().prefix("w7:").limit(20).entries::<Item>()?`.
    ///
    /// The range is part of what the transaction has read: no other can slip an
    /// entity into it. With a declared key prefix, a scan of one prefix stays local.
    pub fn scan(&self) -> Scan<'_> {
        Scan { prefix: "", after: None, limit: 0, reverse: false, migration: self.migration }
    }
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Abort::bug(format_args!("state of {:?}: {error}", host::key())))
}

/// Reads a value that is not what was asked for: what is made of it, if it is of an earlier type.
#[cold]
fn migrate<T: DeserializeOwned>(
    migration: Migration,
    unfit: Abort,
    value: Option<Vec<u8>>,
    write: impl FnOnce(Vec<u8>),
) -> Result<Option<T>> {
    let migrated = value.map(|value| (migration.run)(&value)).transpose()?.flatten();
    let Some(migrated) = migrated else { return Err(unfit) };
    let read = decode(&migrated)?;
    if migration.writes {
        write(migrated);
    }
    Ok(Some(read))
}

/// A range of entities; see [`State::scan`].
#[derive(Clone, Copy)]
#[must_use = "a scan reads nothing until `entries` or `entries_raw`"]
pub struct Scan<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) after: Option<&'a str>,
    pub(crate) limit: u32,
    pub(crate) reverse: bool,
    pub(crate) migration: Option<Migration>,
}

impl<'a> Scan<'a> {
    /// Only keys that start so.
    pub fn prefix(mut self, prefix: &'a str) -> Self {
        self.prefix = prefix;
        self
    }

    /// Only keys that come after this one in the direction of the scan: the last
    /// key of a page starts the next.
    pub fn after(mut self, key: &'a str) -> Self {
        self.after = Some(key);
        self
    }

    /// At most so many entries; 0 means as many as the limits of the app allow.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// From the last key to the first.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Reads the entries.
    pub fn entries<T: DeserializeOwned>(self) -> Result<Vec<(String, T)>> {
        let read = |(key, bytes): (String, Vec<u8>)| {
            let unfit = match serde_json::from_slice(&bytes) {
                Ok(value) => return Ok((key, value)),
                Err(error) => Abort::bug(format_args!("state of {key:?}: {error}")),
            };
            // Who scans does not write what it has seen.
            let migrated = self.migration.map(|migration| migrate(migration, unfit.clone(), Some(bytes), drop));
            migrated.unwrap_or(Ok(None))?.map(|value| (key, value)).ok_or(unfit)
        };
        self.entries_raw().into_iter().map(read).collect()
    }

    /// Reads the entries as bytes.
    pub fn entries_raw(self) -> Vec<(String, Vec<u8>)> {
        host::scan(&self)
    }
}
