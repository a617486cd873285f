//! Requests: a function of an entity, and what it is called with.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::Error;

/// A call of a function.
#[derive(Clone, Debug, Serialize)]
pub struct Request {
    pub(crate) app: String,
    pub(crate) operator: String,
    pub(crate) key: String,
    pub(crate) function: String,
    pub(crate) args: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
}

impl Request {
    /// A call of `function` of the entity `key` of `app/operator`: arguments in order as an array, or by name as an
    /// object. It has an idempotency key of its own.
    pub fn new(app: &str, operator: &str, key: &str, function: &str, arguments: Value) -> Request {
        let [app, operator, key, function] = [app, operator, key, function].map(str::to_owned);
        let args = to_raw_value(&arguments).expect("a JSON value can be written");
        Request { app, operator, key, function, args, idempotency_key: Some(fresh_key()) }
    }

    /// Takes this idempotency key: whoever asks under it again, from anywhere, gets the same reply.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Request {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Takes none: the request is not repeated where it may have happened.
    #[must_use]
    pub fn without_key(mut self) -> Request {
        self.idempotency_key = None;
        self
    }

    /// Takes arguments as JSON text, so that numbers keep their digits.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn arguments_text(mut self, text: &str) -> Result<Request, Error> {
        let parsed = RawValue::from_string(text.trim().to_owned());
        self.args = parsed.map_err(|error| Error::new("BAD_ARGUMENTS", format!("not JSON: {error}")))?;
        Ok(self)
    }

    /// `app/operator/key/function`, percent-encoded.
    pub(crate) fn path(&self) -> String {
        let parts = [&self.app, &self.operator, &self.key, &self.function];
        parts.map(|part| encode(part)).join("/")
    }
}

fn fresh_key() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as one part of a path.
pub(crate) fn encode(part: &str) -> String {
    utf8_percent_encode(part, PART).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_become_parts_of_paths() {
        for (key, expected) in [("17", "a/b/17/f"), ("w:1/d 2", "a/b/w%3A1%2Fd%202/f"), ("ü", "a/b/%C3%BC/f")] {
            assert_eq!(Request::new("a", "b", key, "f", json!([])).path(), expected);
        }
    }

    #[test]
    fn arguments_keep_their_digits() {
        let request = Request::new("a", "b", "c", "f", json!([])).arguments_text(" [1.10, 12345678901234567890123] ");
        assert_eq!(request.unwrap().args.get(), "[1.10, 12345678901234567890123]");
        assert!(Request::new("a", "b", "c", "f", json!([])).arguments_text("[").is_err());
    }
}
