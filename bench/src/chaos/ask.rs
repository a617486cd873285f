//! One call over HTTP, and what its caller knows afterwards.

use std::time::Duration;

use serde_json::Value;
use styx_client::{Client, Error, Request, Retry};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It happened, and this is the result.
    Done(Value),
    /// The function refused; nothing happened.
    Refused,
    /// It happened or it did not, and nobody says more for as long as anybody waits.
    Unknown,
    /// An answer that nobody should be given.
    Odd(String),
}

/// Asks until it is known what happened; a call without a key is asked again only where nothing can have happened.
pub(super) async fn insist(client: &Client, call: Request, patience: Duration) -> Told {
    let retry = Retry::default().patience(patience).pauses(Duration::from_millis(2), Duration::from_millis(50));
    match client.request(call).retry(retry.impatient()).await {
        Ok(result) => Told::Done(result),
        Err(error) => told(&error),
    }
}

fn told(error: &Error) -> Told {
    if error.is_aborted() {
        Told::Refused
    } else if error.is_transient() {
        Told::Unknown
    } else {
        Told::Odd(error.to_string())
    }
}
