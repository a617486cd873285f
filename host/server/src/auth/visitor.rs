//! Whoever asks: what is known of them, and whether they may.

use std::sync::{Arc, LazyLock};

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::Timestamp;
use styx_protocol::token::{Grant, Scope};

use super::gate::Gate;
use crate::clock::now;
use crate::http::{ApiError, shorten};

/// Somebody who has shown who they are, or need not.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name for people and the audit log.
    pub name: String,
    /// False where everybody is let in.
    pub is_known: bool,
    pub(super) grant: Grant,
    pub(super) expires: Option<Timestamp>,
}

impl Identity {
    /// Anybody, where nobody is asked: the same for all, since most requests there have no time for more.
    pub(super) fn anybody() -> Arc<Self> {
        static ANYBODY: LazyLock<Arc<Identity>> = LazyLock::new(|| {
            Arc::new(Identity { name: "anybody".into(), is_known: false, grant: Grant::all(), expires: None })
        });
        ANYBODY.clone()
    }

    /// The operator who started the server.
    pub(super) fn operator() -> Self {
        Identity { name: "admin".into(), is_known: true, grant: Grant::all(), expires: None }
    }
}

/// Whoever sent a request, for as long as its connection lasts: a token that is revoked or expires meanwhile is worth nothing.
#[derive(Clone)]
pub struct Visitor {
    pub(super) gate: Gate,
    pub(super) shown: Option<Arc<str>>,
    pub(super) identity: Arc<Identity>,
    /// Whose requests these are counted as, if they are.
    pub(super) counted: Option<Arc<str>>,
    /// Of the catalog by which the identity was found.
    pub(super) version: u64,
    /// The app whose entities it has changed last beside its functions: said once in the audit log, not for each.
    pub(super) changes: Option<Arc<str>>,
}

impl Identity {
    /// What they may do.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }
}

impl Visitor {
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Counts another request.
    ///
    /// # Errors
    /// 429.
    pub fn admit(&self) -> Result<(), ApiError> {
        match (&self.counted, self.gate.rates()) {
            (Some(who), Some(rates)) => rates.admit(who),
            _ => Ok(()),
        }
    }

    /// Checks that a request may be made that concerns an app, or no single one.
    ///
    /// # Errors
    /// 401 or 403.
    #[inline]
    pub fn may(&mut self, scope: Scope, app: Option<&str>, catalog: &Catalog) -> Result<(), ApiError> {
        if !self.identity.is_known && catalog.version() == self.version {
            Ok(())
        } else {
            self.examine(scope, app, catalog)
        }
    }

    /// Checks that entities of an app may be changed beside its functions, and says in the audit log who does. Whoever may deploy the
    /// app may: its functions do what they like with them.
    ///
    /// # Errors
    /// 401 or 403.
    pub fn may_change(&mut self, app: &str, catalog: &Catalog) -> Result<(), ApiError> {
        self.may(Scope::Deploy, Some(app), catalog)?;
        if self.changes.as_deref() != Some(app) {
            self.changes = Some(app.into());
            self.gate.note_changes(&self.identity.name, app);
        }
        Ok(())
    }

    #[inline(never)]
    fn examine(&mut self, scope: Scope, app: Option<&str>, catalog: &Catalog) -> Result<(), ApiError> {
        if catalog.version() != self.version {
            self.identity = self.gate.identify(self.shown.as_deref(), catalog)?;
            self.version = catalog.version();
        }
        if self.identity.expires.is_some_and(|expires| expires <= now()) {
            return Err(unauthenticated("the token has expired"));
        }
        if self.identity.grant.covers(scope, app) {
            return Ok(());
        }
        let on = match app {
            Some(app) => format!("app \"{}\"", shorten(app)),
            None => "what concerns all apps".to_owned(),
        };
        let message = format!("\"{}\" has no scope \"{}\" on {on}", self.identity.name, scope.name());
        Err(ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", message)
            .hint("an operator can issue a token that has: styx tokens create --help"))
    }
}

/// 401: nobody knows who asks.
pub(super) fn unauthenticated(message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", message)
        .hint("send `Authorization: Bearer TOKEN`; to `styx` give --token-file FILE or STYX_TOKEN")
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(parts.extensions.get::<Visitor>().expect("every port has a gate").clone())
    }
}
