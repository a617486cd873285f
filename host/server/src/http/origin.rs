//! Which web pages may call.
//!
//! A browser lets any page send simple requests and open WebSockets to any address, the
//! loopback's included. So a request that names an `Origin` is refused unless the page came from
//! this very address or from an origin that the configuration allows; clients that are no
//! browsers send none.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{ApiError, refuse};

/// Origins of pages that may call, such as `http://127.0.0.1:9070`. Empty: those of this address only.
#[derive(Clone, Debug, Default)]
pub struct Origins(pub Arc<[String]>);

impl Origins {
    fn allow(&self, origin: &HeaderValue) -> bool {
        self.0.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
    }
}

/// Refuses requests of pages from elsewhere, and answers the questions that browsers ask first.
pub async fn check_origin(State(origins): State<Origins>, request: Request, next: Next) -> Response {
    let Some(origin) = request.headers().get(header::ORIGIN).cloned() else { return next.run(request).await };
    if is_same(&origin, request.headers()) {
        return next.run(request).await;
    }
    if !origins.allow(&origin) {
        let name = String::from_utf8_lossy(origin.as_bytes());
        let error = ApiError::new(
            StatusCode::FORBIDDEN,
            "FORBIDDEN_ORIGIN",
            format!("pages from {} may not call this server", super::shorten(&name)),
        )
        .hint("serve the page from this address, or start the server with --allow-origin and the page's origin");
        let (parts, body) = request.into_parts();
        return refuse(error, &parts.headers, body).await.into_response();
    }
    let preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if preflight {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, content-type, idempotency-key"),
        );
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    } else {
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("styx-tid, styx-epoch, styx-request-id, idempotent-replayed, retry-after"),
        );
    }
    response
}

fn is_same(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else { return false };
    let origin = origin.as_bytes();
    let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_bytes()))
}
