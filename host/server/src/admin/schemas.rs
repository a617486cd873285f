//! Schemas of what the protocol's types are as JSON: the protocol knows nothing of documents. A test of the
//! surface checks every response against them.

use utoipa::ToSchema;

#[derive(ToSchema)]
pub struct Limits {
    /// Fuel of one invocation.
    pub fuel: u64,
    /// Fuel of all invocations of a transaction together.
    pub transaction_fuel: u64,
    /// Bytes of an instance's linear memory.
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

#[derive(ToSchema)]
pub struct Component {
    pub name: String,
    /// SHA-256 of the component, in hexadecimal digits.
    pub digest: String,
    /// Bytes.
    pub size: u64,
    /// SDK that built it, as it says itself.
    pub sdk: String,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Scope {
    /// Calls of functions.
    Invoke,
    /// Looks at state, deployments and the cluster.
    Read,
    /// Changes of what is deployed.
    Deploy,
    /// Everything else that changes something, tokens included.
    Operate,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Isolation {
    /// Instances are pooled and used again.
    Warm,
    /// Every call gets an instance of its own.
    Fresh,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Consistency {
    /// Strict serializability: as if transactions ran one after the other.
    Serializable,
    /// Snapshot isolation: reads never conflict, and write skew is possible.
    Snapshot,
}

/// An OpenAPI 3.1 document.
#[derive(ToSchema)]
pub struct Document {
    pub openapi: String,
    #[schema(value_type = Object)]
    pub info: (),
    #[schema(value_type = Object)]
    pub paths: (),
}

/// A snapshot that exists.
#[derive(ToSchema)]
pub struct SnapshotSummary {
    pub sequence: u64,
    /// It is the state of this epoch's end.
    pub epoch: u64,
    /// Bytes in the store, of all that it consists of.
    pub bytes: u64,
    /// Bytes that had to be written for it.
    pub written_bytes: u64,
    /// From its beginning to its end, µs.
    pub duration_us: u64,
}
