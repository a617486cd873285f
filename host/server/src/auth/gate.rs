//! The gate before an HTTP port: finds out who asks.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use styx_protocol::catalog::Catalog;

use super::access::Access;
use super::bearer::{Bearer, digest_of, is_same};
use super::jwt::Provider;
use super::rates::Rates;
use super::visitor::{Identity, Visitor, unauthenticated};
use crate::clock::now;
use crate::handle::Handle;
use crate::http::{ApiError, Peer, machine, refuse};
use crate::observe::AuditEntry;

/// See the module. Clones are the same gate.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Parts>);

struct Parts {
    handle: Handle,
    access: Access,
}

impl Gate {
    /// The gate of a process that knows the tokens in `handle`'s catalog.
    pub(crate) fn new(handle: Handle, access: Access) -> Self {
        Gate(Arc::new(Parts { handle, access }))
    }

    /// Asks the identity provider for what a request's token needs to be known, if it is one of those.
    pub(super) async fn learn(&self, headers: &HeaderMap) {
        if let (Some(provider), Some(shown)) = (&self.0.access.provider, shown(headers)) {
            provider.learn(shown).await;
        }
    }

    /// Finds out who has sent a request, and counts it: as one of its address, if it shows nothing that is worth something.
    ///
    /// # Errors
    /// 401: nothing was shown, or it is worth nothing. 429: it is one too many.
    pub(crate) fn visit(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Result<Visitor, ApiError> {
        let catalog = self.0.handle.catalog();
        let shown = shown(headers);
        let rates = self.rates().map(|rates| {
            let address: Option<Arc<str>> = peer.map(|Peer(address)| machine(*address).to_string().into());
            (rates, address)
        });
        if let (Some((rates, Some(address))), Some(shown)) = (&rates, shown)
            && Provider::issues(shown)
        {
            // A signature takes as long to check as dozens of requests, and anybody can make some up.
            rates.has_room(address)?;
        }
        let identity = match (self.identify(shown, &catalog), &rates) {
            (Ok(identity), _) => identity,
            (Err(unknown), Some((rates, Some(address)))) => {
                rates.admit(address)?;
                return Err(unknown);
            }
            (Err(unknown), _) => return Err(unknown),
        };
        let counted = rates.map(|(_, address)| match address {
            Some(address) if !identity.is_known => address,
            _ => identity.name.as_str().into(),
        });
        let visitor = Visitor {
            gate: self.clone(),
            shown: shown.map(Arc::from),
            identity,
            counted,
            version: catalog.version(),
            changes: None,
        };
        visitor.admit()?;
        Ok(visitor)
    }

    /// Keeps what somebody has asked to be changed.
    pub(super) fn note(&self, entry: AuditEntry) {
        self.0.handle.stats().observed.audit.push(entry);
    }

    /// Keeps that somebody changes entities of an app beside its functions.
    pub(super) fn note_changes(&self, identity: &str, app: &str) {
        let path = format!("/v1/call/{app}/…/styx.…");
        tracing::info!(target: "audit", identity, path, app, "audit");
        self.note(AuditEntry {
            time_us: now().0,
            identity: identity.to_owned(),
            from: None,
            method: "POST".to_owned(),
            path,
            app: Some(app.to_owned()),
            status: 200,
        });
    }

    /// How much each client may ask for.
    pub(super) fn rates(&self) -> Option<&Rates> {
        self.0.access.rates.as_ref()
    }

    /// What is deployed, and which tokens there are.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.0.handle.catalog()
    }

    pub(super) fn identify(&self, shown: Option<&str>, catalog: &Catalog) -> Result<Arc<Identity>, ApiError> {
        let Parts { access, .. } = &*self.0;
        if access.lets_anybody_in(catalog) {
            return Ok(Identity::anybody());
        }
        let shown = shown.ok_or_else(|| unauthenticated("a token is needed here"))?;
        if access.operator.is_some_and(|operator| is_same(&digest_of(shown), &operator)) {
            return Ok(Arc::new(Identity::operator()));
        }
        if let Some(provider) = access.provider.as_ref().filter(|_| Provider::issues(shown)) {
            return provider.identify(shown).map(Arc::new);
        }
        let unknown = || unauthenticated("the token is not known here: it may have been revoked");
        let bearer = Bearer::parse(shown).ok_or_else(unknown)?;
        let token = catalog.token(bearer.id).filter(|token| bearer.has(&token.digest)).ok_or_else(unknown)?;
        if token.expires.is_some_and(|expires| expires <= now()) {
            return Err(unauthenticated("the token has expired"));
        }
        let name = format!("{} ({})", token.name, token.id);
        Ok(Arc::new(Identity { name, is_known: true, grant: token.grant.clone(), expires: token.expires }))
    }
}

/// What a request shows: `Authorization: Bearer …`, once.
fn shown(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && values.next().is_none()).then(|| rest.trim())
}

/// What anybody may ask: how the process is, and what can be asked of it.
pub(super) fn is_public(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && matches!(path, "/" | "/healthz" | "/readyz" | "/openapi.json")
}

/// Lets nobody on who is not known; what they may, handlers ask their [`Visitor`].
pub(crate) async fn guard(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if is_public(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    gate.learn(request.headers()).await;
    match gate.visit(request.headers(), request.extensions().get()) {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Err(error) => refused(error, request).await,
    }
}

pub(super) async fn refused(error: ApiError, request: Request) -> Response {
    let (parts, body): (_, Body) = request.into_parts();
    refuse(error, &parts.headers, body).await.into_response()
}
