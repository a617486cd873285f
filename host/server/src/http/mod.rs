//! What both HTTP surfaces share: errors as JSON, bodies with bounds, connections with time
//! limits, and who may call from a browser.

mod body;
mod error;
mod extract;
mod functions;
mod host;
mod latency;
#[cfg(debug_assertions)]
mod leak;
mod linger;
mod memory;
pub mod nearest;
mod options;
mod origin;
mod outgoing;
mod serve;
mod tls;
mod unread;

pub use body::{BodyLimits, Frames, read_body, read_request, refuse};
pub use error::{ApiError, status_of};
pub use extract::{Options, PathParts};
pub use functions::{FunctionStats, Functions, SERIES_MAX};
pub use host::Hosts;
pub use latency::{BUCKETS_US, Histogram, Latencies, OUTCOMES, Outcome};
pub use memory::{Account, Memory, UNCOUNTED};
pub use options::HttpOptions;
pub use origin::Origins;
pub use outgoing::outgoing;
pub use serve::{ConnectionLimits, Peer, Shutdown, serve};
pub use styx_transport::addresses::{Addresses, machine};
pub use tls::{Tls, TlsFiles};
pub use unread::{Unread, hold_answer};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;

/// Router that answers nobody whom `options` keep out.
pub fn guarded<S: Clone + Send + Sync + 'static>(router: Router<S>, options: &HttpOptions) -> Router<S> {
    router
        .layer(from_fn_with_state(options.origins.clone(), origin::check_origin))
        .layer(from_fn_with_state(options.hosts.clone(), host::check_host))
}

/// Answers what no route matches.
pub async fn not_found(method: Method, uri: Uri, headers: HeaderMap, body: Body) -> ApiError {
    let error = ApiError::not_found(format!("there is nothing at {method} {}", shorten(uri.path())))
        .hint("see /openapi.json on the admin port for what there is");
    refuse(error, &headers, body).await
}

/// Answers a known path with a method that it does not have. The router adds `Allow`.
pub async fn method_not_allowed(method: Method, uri: Uri, headers: HeaderMap, body: Body) -> ApiError {
    let message = format!("{} does not take {method}", shorten(uri.path()));
    let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
        .hint("the Allow header names the methods that it takes");
    refuse(error, &headers, body).await
}

/// At most 128 characters of what a client sent, for messages.
pub fn shorten(text: &str) -> std::borrow::Cow<'_, str> {
    const SHOWN: usize = 128;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
