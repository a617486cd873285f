//! Reading request bodies, in bounded memory and with a time limit on silence.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use super::ApiError;

/// What a body may cost.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Bytes.
    pub bytes: u64,
    /// How long the client may be silent in the middle of it.
    pub silence: Duration,
}

/// Reads a whole body. `what` names it in the error.
///
/// # Errors
/// It is too long, the client stalls, or the connection breaks.
pub async fn read_body(headers: &HeaderMap, body: Body, what: &str, limits: BodyLimits) -> Result<Bytes, ApiError> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > limits.bytes) {
        return Err(ApiError::too_large(what, limits.bytes));
    }
    let mut frames = Frames::new(body, limits.silence);
    let Some(first) = frames.next().await? else { return Ok(Bytes::new()) };
    if first.len() as u64 > limits.bytes {
        return Err(ApiError::too_large(what, limits.bytes));
    }
    // Small bodies come in one piece and are not copied.
    let Some(second) = frames.next().await? else { return Ok(first) };
    let mut whole = BytesMut::from(first);
    let mut next = Some(second);
    while let Some(frame) = next {
        if (whole.len() + frame.len()) as u64 > limits.bytes {
            return Err(ApiError::too_large(what, limits.bytes));
        }
        whole.extend_from_slice(&frame);
        next = frames.next().await?;
    }
    Ok(whole.freeze())
}

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
            Ok(Some(Err(error))) => Err(ApiError::bad_request(format!("the body broke off: {error}"))),
            Err(_) => Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "TIMEOUT",
                format!("no byte of the body came for {} s", self.silence.as_secs()),
            )
            .hint("send the body without pauses")),
        }
    }
}
