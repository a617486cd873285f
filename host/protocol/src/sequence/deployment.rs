//! A version of an app, as it is uploaded: components, operators, functions, bounds.

use serde::{Deserialize, Serialize};

use crate::ids::Timestamp;
use crate::sequence::interface::Interface;
#[cfg(doc)]
use crate::sequence::system::SystemFunction;

/// SHA-256 of a component. The log carries digests; the bytes live in the object store.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// A digest as it is written; none if it is none.
    pub fn parse(text: &str) -> Option<Digest> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Digest(bytes))
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Bounds on what one transaction of an app may use. Part of the deployment, so that a replay
/// meets the same bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Limits {
    /// Fuel of one invocation (about one unit per WebAssembly instruction).
    pub fuel: u64,
    /// Fuel of all invocations of a transaction together.
    pub transaction_fuel: u64,
    /// Linear memory of one instance, in bytes.
    pub memory: u64,
    /// Calls nested inside each other.
    pub call_depth: u32,
    /// Calls of one transaction, the first included.
    pub calls: u32,
    /// Entities and ranges read or written by one transaction.
    pub rw_set: u32,
    /// Bytes of one value, of the arguments or of the result of one call.
    pub payload: u32,
}

impl Limits {
    /// The most that `payload` can be set to: an epoch's record must fit into the log.
    pub const PAYLOAD_MAX: u32 = 8 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            // Some seconds: what ordinary Python does with some megabytes.
            fuel: 5_000_000_000,
            transaction_fuel: 10_000_000_000,
            memory: 128 << 20,
            call_depth: 64,
            calls: 10_000,
            rw_set: 100_000,
            payload: 1 << 20,
        }
    }
}

/// Whether instances are kept between calls.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Instances are pooled and used again.
    #[default]
    Warm,
    /// Every call gets an instance of its own.
    Fresh,
}

/// What a function's transactions are promised about what they read.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Consistency {
    /// Strict serializability: as if transactions ran one after the other.
    #[default]
    Serializable,
    /// Snapshot isolation, when a request calls the function: all reads are of one state, and two
    /// transactions never overwrite each other unseen; but what was read may have changed by the
    /// time that the writes take effect (write skew). In exchange, reads never conflict.
    Snapshot,
}

/// One declared parameter of a function, after the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Parameter {
    /// Name, for arguments passed as an object.
    pub name: String,
    /// JSON Schema, as text.
    pub schema: String,
    /// Whether it must be given.
    pub required: bool,
}

/// One function of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Function {
    pub name: String,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// JSON Schema of the result, as text.
    pub returns: String,
    /// Neither writes nor calls one that does.
    pub read_only: bool,
    /// What its transactions are promised, when a request calls it.
    pub consistency: Consistency,
    pub doc: String,
}

/// One operator as a deployment declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct OperatorSpec {
    /// Name, unique in the app.
    pub name: String,
    /// Index into [`Deployment::components`].
    pub component: u32,
    /// Name of the composite key's prefix, if keys read `prefix:rest`.
    pub key_prefix: Option<String>,
    /// Instance reuse.
    pub isolation: Isolation,
    pub doc: String,
    pub functions: Vec<Function>,
    pub state: StateSpec,
}

/// What an operator says of the values of its entities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct StateSpec {
    /// JSON Schema of each, as text, if it has one.
    pub schema: Option<String>,
    /// It has a function that makes such a value of an earlier one: [`SystemFunction::Migrate`].
    pub migrates: bool,
}

/// One uploaded component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Component {
    /// Name in the bundle.
    pub name: String,
    /// Content address.
    pub digest: Digest,
    pub size: u64,
    /// SDK that built it, as it says itself.
    pub sdk: String,
}

/// A version of an app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Deployment {
    /// `dp_…`, unique.
    pub id: String,
    pub app: String,
    /// When it was uploaded.
    pub created: Timestamp,
    pub components: Vec<Component>,
    pub operators: Vec<OperatorSpec>,
    /// Bounds.
    pub limits: Limits,
    /// What it has to do with other apps.
    pub interface: Interface,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written_and_nothing_else_is_one() {
        let digest = Digest(std::array::from_fn(|at| at as u8 * 8));
        let text = digest.to_string();
        assert_eq!(Digest::parse(&text), Some(digest));
        assert_eq!(Digest::parse(&text[2..]), None);
        assert_eq!(Digest::parse(&format!("{text}00")), None);
        assert_eq!(Digest::parse(&text.replacen("08", "+8", 1)), None);
        assert_eq!(Digest::parse(&text.replacen("08", "é", 1)), None);
    }
}
