//! Replies: results of transactions that have happened.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The function's result: JSON text, unless the app returns something else.
    pub bytes: Bytes,
    /// The transaction's place in the order of all transactions; reads have none.
    pub tid: Option<u64>,
    /// The epoch in which it was committed.
    pub epoch: Option<u64>,
    /// The request's id, over HTTP.
    pub request_id: Option<String>,
    /// Another request was under its idempotency key before, and this is that one's answer.
    pub replayed: bool,
}

impl Reply {
    pub(crate) fn new(bytes: Bytes, tid: Option<u64>, epoch: Option<u64>) -> Reply {
        Reply { bytes, tid, epoch, request_id: None, replayed: false }
    }

    /// The result as JSON.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn value(&self) -> Result<Value, Error> {
        self.read()
    }

    /// The result as a type of the caller's.
    ///
    /// # Errors
    /// It is something else.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        serde_json::from_slice(&self.bytes).map_err(|error| bad_reply(&error, &self.bytes))
    }
}

/// JSON that must be of some form.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| bad_reply(&error, bytes))
}

fn bad_reply(error: &serde_json::Error, bytes: &[u8]) -> Error {
    let text: String = String::from_utf8_lossy(bytes).chars().take(200).collect();
    Error::new("BAD_REPLY", format!("{error}: {text}"))
}
