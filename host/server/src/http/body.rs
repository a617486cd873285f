//! Reading request bodies, in bounded memory and with a time limit on silence.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::{Account, ApiError, Memory};

/// Bounds on reading a body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    pub bytes: u64,
    /// How long the client may be silent in the middle of it.
    pub silence: Duration,
}

/// How long whoever asks the administrative side may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// A body in memory.
#[derive(Debug)]
pub struct Held {
    pub bytes: Bytes,
    /// What it is on, if it came in several pieces.
    pub account: Option<Account>,
}

/// Reads a whole body. `what` names it in the error.
///
/// # Errors
/// It is too long, there is no room for it, the client stalls, or the connection breaks.
pub async fn read_body(
    headers: &HeaderMap,
    body: Body,
    what: &str,
    limits: BodyLimits,
    memory: &Memory,
) -> Result<Held, ApiError> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > limits.bytes) {
        return Err(refuse(ApiError::too_large(what, limits.bytes), headers, body).await);
    }
    let mut frames = Frames::new(body, limits.silence);
    let Some(first) = frames.next().await? else { return Ok(Held { bytes: Bytes::new(), account: None }) };
    let mut length = first.len() as u64;
    // Small bodies come in one piece, and are neither copied nor counted.
    let mut more: Option<(BytesMut, Account)> = None;
    while length <= limits.bytes {
        let Some(frame) = frames.next().await? else {
            return Ok(match more {
                Some((bytes, account)) => Held { bytes: bytes.freeze(), account: Some(account) },
                None => Held { bytes: first, account: None },
            });
        };
        length += frame.len() as u64;
        let (bytes, account) = more.get_or_insert_with(|| (BytesMut::from(&first[..]), memory.account()));
        if !account.grow(frame.len()) {
            return Err(frames.refuse(ApiError::no_room()).await);
        }
        bytes.extend_from_slice(&frame);
    }
    Err(frames.refuse(ApiError::too_large(what, limits.bytes)).await)
}

/// Reads what the administrative side is asked in JSON, of at most so many bytes. `what` names it in the error.
///
/// # Errors
/// Those of [`read_body`], and it is not what the description of the API says.
pub async fn read_request<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
    what: &str,
    bytes: u64,
    memory: &Memory,
) -> Result<T, ApiError> {
    let limits = BodyLimits { bytes, silence: SILENCE };
    let body = read_body(headers, body, "the request", limits, memory).await?;
    serde_json::from_slice(&body.bytes)
        .map_err(|error| ApiError::bad_request(format!("this asks for no {what}: {error}")).hint("see /openapi.json"))
}

/// Refuses a request whose body is not wanted. What the client still sends is taken in, within
/// bounds, so that it gets to read the answer and may use the connection again.
pub async fn refuse(error: ApiError, headers: &HeaderMap, body: Body) -> ApiError {
    if headers.contains_key(header::EXPECT) {
        // The client asks before it sends; this is the answer.
        return error.closing();
    }
    Frames::new(body, DISCARD_TIME_MAX).refuse(error).await
}

/// Most bytes and most time for a body that is not wanted.
const DISCARD_BYTES_MAX: usize = 8 << 20;
const DISCARD_TIME_MAX: Duration = Duration::from_secs(1);

/// The pieces of a body as they arrive.
pub struct Frames {
    stream: BodyDataStream,
    silence: Duration,
}

impl Frames {
    /// The pieces of `body`.
    pub fn new(body: Body, silence: Duration) -> Self {
        Frames { stream: body.into_data_stream(), silence }
    }

    /// The next piece, or `None` at the end.
    ///
    /// # Errors
    /// The client stalls or the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        match tokio::time::timeout(self.silence, self.stream.next()).await {
            Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => Err(ApiError::bad_request(format!("the body broke off: {error}")).closing()),
            Err(_) => Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "TIMEOUT",
                format!("no byte of the body came for {} s", self.silence.as_secs()),
            )
            .hint("send the body without pauses")
            .closing()),
        }
    }

    async fn refuse(mut self, error: ApiError) -> ApiError {
        let ended = async {
            let mut bytes = 0;
            while bytes <= DISCARD_BYTES_MAX {
                match self.next().await {
                    Ok(Some(frame)) => bytes += frame.len(),
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
            false
        };
        match tokio::time::timeout(DISCARD_TIME_MAX, ended).await {
            Ok(true) => error,
            _ => error.closing(),
        }
    }
}
