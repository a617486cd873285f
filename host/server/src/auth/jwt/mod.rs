//! Tokens that an identity provider issues (JSON Web Tokens), for front ends whose users it knows.

mod keys;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use styx_protocol::ids::Timestamp;
use styx_protocol::token::{Grant, Scope};

use self::keys::Keys;
use super::visitor::{Identity, unauthenticated};
use crate::clock::now;
use crate::error::ServerError;
use crate::http::{ApiError, shorten};

/// A longer text is no token: it is read before anybody knows who sends it.
const LENGTH_MAX: usize = 16 << 10;
/// By how much the provider's clock may differ.
const LEEWAY: Duration = Duration::from_secs(30);
/// How often the keys are read again, so that one that the provider has withdrawn is not believed for ever.
const READ_AGAIN: Duration = Duration::from_secs(600);
/// Before the name of a scope, in a claim.
const PREFIX: &str = "styx:";

/// An identity provider that is believed.
#[derive(Debug)]
pub struct Provider {
    issuer: String,
    audience: String,
    keys: Keys,
}

/// How a token is signed, as it says itself.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// What a token says (RFC 7519), times in seconds since 1970.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: Names,
    sub: String,
    exp: f64,
    nbf: Option<f64>,
    /// Scopes, as OAuth has them, and as other providers do.
    #[serde(default)]
    scope: Names,
    #[serde(default)]
    scp: Names,
    styx_apps: Option<Vec<String>>,
}

/// Names with spaces between them, or a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    Text(String),
    List(Vec<String>),
}

impl Default for Names {
    fn default() -> Self {
        Names::List(Vec::new())
    }
}

impl Names {
    fn all(&self) -> Vec<&str> {
        match self {
            Names::Text(text) => text.split(' ').collect(),
            Names::List(list) => list.iter().map(String::as_str).collect(),
        }
    }

    fn is_or_has(&self, name: &str) -> bool {
        match self {
            Names::Text(text) => text == name,
            Names::List(list) => list.iter().any(|known| known == name),
        }
    }
}

impl Provider {
    /// The provider that names itself `issuer` and signs for `audience` with keys at a place, a file or a URL.
    ///
    /// # Errors
    /// The place is none that keys are read from.
    pub fn new(issuer: &str, audience: &str, keys: &str) -> Result<Self, ServerError> {
        Ok(Provider { issuer: issuer.into(), audience: audience.into(), keys: Keys::at(keys)? })
    }

    /// Reads the keys, now and for as long as the provider is believed.
    pub async fn open(self: &Arc<Self>) -> Result<(), ServerError> {
        self.keys.read().await.map_err(|why| {
            let message = format!("the keys at {} cannot be read: {why}", self.keys);
            ServerError::new("JWT_KEYS", message, "--jwt-keys is a JSON Web Key Set, a file or a URL")
        })?;
        let provider = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(READ_AGAIN).await;
                let Some(provider) = provider.upgrade() else { return };
                provider.keys.read_again().await;
            }
        });
        Ok(())
    }

    /// Whether a text may be such a token.
    pub(super) fn issues(text: &str) -> bool {
        text.len() <= LENGTH_MAX && text.split('.').count() == 3
    }

    /// Asks for the key of a token, if it is not known and nobody has asked a moment ago.
    pub(super) async fn learn(&self, token: &str) {
        let header =
            token.split('.').next().filter(|_| Self::issues(token)).and_then(|part| part_of::<Header>(part).ok());
        if let Some(Header { kid, .. }) = header
            && self.keys.find(kid.as_deref()).is_none()
        {
            self.keys.look_for(kid.as_deref()).await;
        }
    }

    /// Who shows a token.
    ///
    /// # Errors
    /// 401: it is not the provider's, or is not good here and now.
    pub(super) fn identify(&self, token: &str) -> Result<Identity, ApiError> {
        let Claims { iss, aud, sub, exp, nbf, scope, scp, styx_apps } = self.signed(token)?;
        let (now, leeway) = (now().0 as f64 / 1e6, LEEWAY.as_secs_f64());
        let wrong = [
            (iss != self.issuer, "the token is from another issuer"),
            (!aud.is_or_has(&self.audience), "the token is meant for somebody else"),
            (exp + leeway <= now, "the token has expired"),
            (nbf.is_some_and(|begins| begins - leeway > now), "the token is not good yet"),
        ];
        if let Some((_, why)) = wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            return Err(unauthenticated(why));
        }
        let named: Vec<&str> = [scope.all(), scp.all()].concat();
        let has = |scope: &Scope| named.iter().any(|name| name.strip_prefix(PREFIX) == Some(scope.name()));
        let scopes = Scope::ALL.into_iter().filter(has).collect();
        let name = format!("{} (jwt)", shorten(&sub).escape_debug());
        let expires = Some(Timestamp(((exp + leeway) * 1e6) as u64));
        Ok(Identity { name, is_known: true, grant: Grant { scopes, apps: styx_apps }, expires })
    }

    /// What the provider has signed.
    fn signed(&self, token: &str) -> Result<Claims, ApiError> {
        let unreadable = |error: &dyn std::fmt::Display| unauthenticated(&format!("the token cannot be read: {error}"));
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else { return Err(unreadable(&"it has not three parts")) };
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|error| unreadable(&error))?;
        let Header { alg, kid, crit } = part_of(header).map_err(|error| unreadable(&error))?;
        if crit.is_some() {
            return Err(unauthenticated("the token asks for more than is understood here (crit)"));
        }
        let key = self.keys.find(kid.as_deref());
        let key = key.ok_or_else(|| unauthenticated("the token names no key of the provider's"))?;
        let message = token.rsplit_once('.').map_or("", |(message, _)| message);
        if alg != key.algorithm() || !key.signed(message.as_bytes(), &signature) {
            return Err(unauthenticated("the token is not signed by the provider"));
        }
        part_of(claims).map_err(|error| unreadable(&error))
    }
}

/// A part of a token.
fn part_of<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text)?)?)
}
