//! Rows as bytes: a compact encoding in which strings are borrowed, not copied, when they are read.

use serde::Deserialize;
use styx_sdk::prelude::*;

/// A row's bytes.
pub fn encode<T: Serialize>(row: &T) -> Result<Vec<u8>> {
    Ok(postcard::to_allocvec(row)?)
}

/// The row that was encoded.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    Ok(postcard::from_bytes(bytes)?)
}

/// The bytes under the function's own key; aborts if there are none.
pub fn own(ctx: &Context, what: &str) -> Result<Vec<u8>> {
    match ctx.state.get_raw() {
        Some(bytes) => Ok(bytes),
        None => bail!("there is no {what} {}", ctx.key()),
    }
}

/// The whole number under a key; none is 0.
pub fn number_at(ctx: &Context, key: &str) -> Result<i64> {
    match ctx.state.get_raw_at(key).map(|bytes| bytes.try_into()) {
        None => Ok(0),
        Some(Ok(bytes)) => Ok(i64::from_le_bytes(bytes)),
        Some(Err(_)) => bail!("{key} is no number"),
    }
}

/// Writes a whole number.
pub fn put_number_at(ctx: &mut Context, key: &str, number: i64) {
    ctx.state.put_raw_at(key, &number.to_le_bytes());
}

/// The last key of a full page: with it the next begins. A page that is not full is the last.
pub fn next_page<T>(page: &[(String, T)], limit: u32) -> Option<String> {
    if page.len() < limit as usize { None } else { page.last().map(|(key, _)| key.clone()) }
}

/// A page of the entities whose keys begin so, as bytes.
pub fn page(ctx: &Context, prefix: &str, after: Option<&str>, limit: u32) -> Vec<(String, Vec<u8>)> {
    let scan = ctx.state.scan().prefix(prefix).limit(limit);
    after.map_or(scan, |after| scan.after(after)).entries_raw()
}
