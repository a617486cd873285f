//! Names under which the HTTP ports may be asked for.
//!
//! A page of any site can have its own name resolve to the loopback address and then speak to what listens there as
//! to its own server: browsers see one origin. It cannot do so under an IP address, or under a name that is not its own.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{ApiError, refuse};

/// Host names that are answered, besides IP addresses and `localhost`; `*` for all.
#[derive(Clone, Debug, Default)]
pub struct Hosts(pub Arc<[String]>);

impl Hosts {
    /// Returns true if requests to `host` are answered.
    fn allow(&self, host: &str) -> bool {
        let name = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let local = name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
        let listed = |allowed: &String| allowed == "*" || allowed.eq_ignore_ascii_case(name);
        local || name.parse::<IpAddr>().is_ok() || self.0.iter().any(listed)
    }
}

/// Refuses requests to names that are not this server's.
pub async fn check_host(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    // HTTP/1.0 may come without; browsers never do.
    let named = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?").to_owned());
    let asked = request.uri().authority().map(ToString::to_string).or(named);
    let Some(asked) = asked else { return next.run(request).await };
    let host = asked.parse::<Authority>().map(|authority| authority.host().to_owned());
    if host.is_ok_and(|host| hosts.allow(&host)) {
        return next.run(request).await;
    }
    let message = format!("this server is not asked for as \"{}\"", super::shorten(&asked));
    let error = ApiError::new(StatusCode::MISDIRECTED_REQUEST, "UNKNOWN_HOST", message)
        .hint("use its IP address, or start it with --allow-host NAME");
    let (parts, body) = request.into_parts();
    refuse(error, &parts.headers, body).await.into_response()
}
