//! Answers that are held until they are read.

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::{Account, ApiError, Memory, UNCOUNTED};

/// Bytes of a response, on an account until they are sent if they are many.
pub struct Unread<T> {
    pub bytes: T,
    pub account: Option<Account>,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Unread<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Holds answers to questions, if their length is known; there may be no room for a large one.
pub async fn hold_answer(State(memory): State<Memory>, request: Request, next: Next) -> Response {
    let asks = request.method() == Method::GET;
    let response = next.run(request).await;
    let length = response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let Some(length) = length.filter(|length| asks && *length > UNCOUNTED) else { return response };
    let account = memory.account();
    if !account.grow(length) {
        return ApiError::no_room().into_response();
    }
    let (parts, body) = response.into_parts();
    match to_bytes(body, length).await {
        Ok(bytes) => {
            let held = Bytes::from_owner(Unread { bytes, account: Some(account) });
            Response::from_parts(parts, Body::from(held))
        }
        // What is whole breaks off nowhere.
        Err(error) => ApiError::bad_request(format!("the answer broke off: {error}")).into_response(),
    }
}
