//! Committed state, as the admin address shows it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::Error;

/// An entity's value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Entity {
    /// The entity's key.
    pub key: String,
    /// The value: JSON if its bytes are JSON, else a string in base64.
    pub value: Value,
    encoding: String,
}

impl Entity {
    /// True if the value is JSON.
    pub fn is_json(&self) -> bool {
        self.encoding == "json"
    }

    /// The bytes of a value that is not JSON.
    ///
    /// # Errors
    /// They happen to be JSON.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        let text = self.value.as_str().filter(|_| !self.is_json());
        let bytes = text.and_then(|text| STANDARD.decode(text).ok());
        bytes.ok_or_else(|| Error::new("BAD_REPLY", format!("the value of {} is JSON: {}", self.key, self.value)))
    }
}

/// Some entities of an operator, in the order of their keys.
#[derive(Clone, Debug, Deserialize)]
pub struct Page {
    /// The entities.
    pub entries: Vec<Entity>,
    /// The key after which the next page begins; none if this is the last.
    pub next: Option<String>,
    /// The epoch as of which the page was read.
    pub epoch: u64,
}
