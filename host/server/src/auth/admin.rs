//! The admin port: which scope a request needs, and the audit log of those that change something.

use std::borrow::Cow;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use percent_encoding::percent_decode_str;
use styx_protocol::token::Scope;

use super::gate::{Gate, is_public, refused};
use crate::admin::is_for_console;
use crate::http::Peer;
use crate::observe::AuditEntry;

/// Lets a request on if whoever sends it may, and notes what it came to if it was to change something.
pub(crate) async fn guard_admin(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if is_public(&method, &path) || is_for_console(&method, &path, request.headers()) {
        return next.run(request).await;
    }
    let (scope, app) = needed(&method, &path);
    let peer = request.extensions().get::<Peer>().copied();
    gate.learn(request.headers()).await;
    let visitor = gate.visit(request.headers(), peer.as_ref());
    let mut who = "nobody".to_owned();
    let admitted = visitor.and_then(|mut visitor| {
        who.clone_from(&visitor.identity().name);
        // What somebody may do, they may know.
        if path != "/v1/identity" {
            visitor.may(scope, app.as_deref(), &gate.catalog())?;
        }
        Ok(visitor)
    });
    let response = match admitted {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Err(error) => refused(error, request).await,
    };
    // Those who look at it change nothing.
    if scope != Scope::Read && path != "/v1/audit" {
        // Who looks at tokens is in the log alone.
        if !looks(&method) {
            gate.note(AuditEntry {
                time_us: crate::clock::now().0,
                identity: who.clone(),
                from: peer.map(|Peer(address)| address.to_string()),
                method: method.to_string(),
                path: path.clone(),
                app: app.as_deref().map(str::to_owned),
                status: response.status().as_u16(),
            });
        }
        let (identity, app, status) = (who, app.as_deref().unwrap_or("-"), response.status().as_u16());
        let from = peer.map(|Peer(address)| tracing::field::display(address));
        tracing::info!(target: "audit", identity, from, %method, path, app, status, "audit");
    }
    response
}

/// Whether a request changes nothing.
fn looks(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The scope that a request needs, and on which app; whatever is not known here needs the widest.
fn needed<'a>(method: &Method, path: &'a str) -> (Scope, Option<Cow<'a, str>>) {
    let looks = looks(method);
    let mut parts = path.strip_prefix("/v1/").unwrap_or_default().split('/');
    let kind = parts.next();
    let app = parts.next().map(|app| percent_decode_str(app).decode_utf8_lossy());
    match (kind, app) {
        (Some("tokens" | "audit"), _) => (Scope::Operate, None),
        // What its handler asks for.
        (Some("call"), Some(app)) => (Scope::Invoke, Some(app)),
        (Some("apps" | "state"), app) if looks => (Scope::Read, app),
        (Some("apps"), Some(app)) => (Scope::Deploy, Some(app)),
        _ if looks => (Scope::Read, None),
        _ => (Scope::Operate, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_something_needs_more_than_what_looks() {
        for (method, path, scope, app) in [
            (Method::GET, "/v1/apps", Scope::Read, None),
            (Method::GET, "/v1/apps/shop", Scope::Read, Some("shop")),
            (Method::HEAD, "/v1/apps/sh%6fp/deployments", Scope::Read, Some("shop")),
            (Method::GET, "/v1/state/shop/order/a%2Fb", Scope::Read, Some("shop")),
            (Method::POST, "/v1/apps/shop/deployments", Scope::Deploy, Some("shop")),
            (Method::DELETE, "/v1/apps/shop", Scope::Deploy, Some("shop")),
            (Method::GET, "/v1/cluster", Scope::Read, None),
            (Method::GET, "/metrics", Scope::Read, None),
            (Method::POST, "/v1/snapshots", Scope::Operate, None),
            (Method::POST, "/v1/snapshots/7/verify", Scope::Operate, None),
            (Method::GET, "/v1/tokens", Scope::Operate, None),
            (Method::DELETE, "/v1/tokens/0a", Scope::Operate, None),
            (Method::GET, "/v1/audit", Scope::Operate, None),
            (Method::GET, "/v1/requests/0a/trace", Scope::Read, None),
            (Method::GET, "/v1/logs", Scope::Read, None),
            (Method::GET, "/v1/quarantine", Scope::Read, None),
            (Method::DELETE, "/v1/quarantine/0a", Scope::Operate, None),
            (Method::POST, "/v1/call/shop/order/a/buy", Scope::Invoke, Some("shop")),
            (Method::GET, "/v1/identity", Scope::Read, None),
            (Method::POST, "/elsewhere", Scope::Operate, None),
        ] {
            let found = needed(&method, path);
            assert_eq!((found.0, found.1.as_deref()), (scope, app), "{method} {path}");
        }
    }
}
