//! From what a client sent to a validated request of the protocol.

use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use styx_protocol::attempt::KEY_BYTES_MAX;
use styx_protocol::entity::Value;
use styx_protocol::ids::{OperatorId, RequestId};
use styx_protocol::transaction::Request;

use super::arguments::normalise;
use super::directory::Target;
use crate::http::ApiError;

/// Longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Parts of a request besides its target.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub key: &'a str,
    /// Arguments as JSON.
    pub args: &'a [u8],
    /// Makes the request exactly-once for the client too.
    pub idempotency_key: Option<&'a str>,
    /// The reply is kept even without an idempotency key: somebody will ask for it.
    pub retained: bool,
}

/// Validates a call. `scratch` is memory to be used again; what it held is lost.
///
/// # Errors
/// 400 or 413, with the reason.
pub fn prepare(target: Target<'_>, call: Call<'_>, scratch: &mut Vec<u8>) -> Result<Request, ApiError> {
    check_key(call.key)?;
    let payload = u64::from(target.operator.payload);
    if call.args.len() as u64 > payload {
        return Err(ApiError::too_large("the arguments", payload)
            .hint("send less, or raise `payload` in [limits] of styx.toml"));
    }
    let id = request_id(target.app, &call)?;
    scratch.clear();
    normalise(target.function, call.args, scratch)?;
    Ok(call.request(id, target.operator.id, Arc::clone(&target.function.name), scratch.as_slice().into()))
}

impl Call<'_> {
    /// The request of a call that was validated.
    pub(super) fn request(&self, id: RequestId, operator: OperatorId, function: Arc<str>, args: Value) -> Request {
        let retained = self.retained || self.idempotency_key.is_some();
        Request { id, operator, function, key: self.key.into(), args, retained, origin: None }
    }
}

/// The id of a request: always the same one under an idempotency key.
///
/// # Errors
/// 400, if that is none.
pub(super) fn request_id(app: &str, call: &Call<'_>) -> Result<RequestId, ApiError> {
    call.idempotency_key.map_or_else(|| Ok(fresh_id()), |key| Ok(derived_id(app, check_idempotency_key(key)?)))
}

/// # Errors
/// 400: no entity can have this key.
pub(super) fn check_key(key: &str) -> Result<(), ApiError> {
    match key.len() {
        0 => Err(ApiError::bad_arguments("the key is empty")
            .hint("every entity has a key: /v1/call/{app}/{operator}/{key}/{function}")),
        1..=KEY_BYTES_MAX => Ok(()),
        length => {
            Err(ApiError::bad_arguments(format!("the key has {length} bytes; at most {KEY_BYTES_MAX} are allowed"))
                .hint("use a shorter key, and put the rest into the entity's value"))
        }
    }
}

/// The key, if it can be one.
///
/// # Errors
/// 400 if it is empty or too long.
pub fn check_idempotency_key(key: &str) -> Result<&str, ApiError> {
    match key.len() {
        1..=IDEMPOTENCY_KEY_BYTES_MAX => Ok(key),
        length => Err(ApiError::bad_request(format!(
            "the idempotency key has {length} bytes; it may have 1 to {IDEMPOTENCY_KEY_BYTES_MAX}"
        ))),
    }
}

/// The id of every request of an app under one idempotency key.
pub fn derived_id(app: &str, idempotency_key: &str) -> RequestId {
    let mut hasher = Sha256::new();
    hasher.update((app.len() as u64).to_le_bytes());
    hasher.update(app);
    hasher.update(idempotency_key);
    let digest = hasher.finalize();
    RequestId(u128::from_be_bytes(digest[..16].try_into().expect("SHA-256 has 32 bytes")))
}

/// The id of a request that nobody will send twice: random, ordered by time.
pub fn fresh_id() -> RequestId {
    let millis = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    RequestId(uuid::Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid().as_u128())
}

/// Reads a request id as replies print it, or as a UUID.
///
/// # Errors
/// 400 if it is neither.
pub fn parse_id(text: &str) -> Result<RequestId, ApiError> {
    uuid::Uuid::try_parse(text).map(|id| RequestId(id.as_u128())).map_err(|_| {
        ApiError::bad_request(format!("\"{}\" is no request id", crate::http::shorten(text)))
            .hint("a request id is 32 hexadecimal digits, as in the header styx-request-id")
    })
}
