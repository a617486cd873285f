//! Tokens: issued, listed, revoked. The log holds them, so that all gateways know them and a restart forgets none.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use styx_protocol::abort::Code;
use styx_protocol::control::Control;
use styx_protocol::ids::Timestamp;
use styx_protocol::token::{Grant, Scope, Token};
use utoipa::ToSchema;

use super::apps::instant;
use super::queries::Queries;
use super::{Uploads, schemas};
use crate::auth::{Visitor, draw};
use crate::clock::now;
use crate::handle::Handle;
use crate::http::{ApiError, PathParts, read_request, shorten};

const BODY_BYTES_MAX: u64 = 64 << 10;
const NAME_BYTES_MAX: usize = 64;
const LIFE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// For people.
    name: String,
    #[schema(value_type = Vec<schemas::Scope>)]
    scopes: Vec<Scope>,
    /// Apps that it is for; all, and what concerns no single app, if this is absent.
    apps: Option<Vec<String>>,
    /// How long it is worth something, such as `30d`; for ever if this is absent.
    expires_in: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct TokenView {
    /// By which it is revoked.
    id: String,
    name: String,
    #[schema(value_type = Vec<schemas::Scope>)]
    scopes: Vec<Scope>,
    /// Null for all.
    apps: Option<Vec<String>>,
    created: String,
    expires: Option<String>,
    expired: bool,
}

impl From<&Token> for TokenView {
    fn from(token: &Token) -> Self {
        TokenView {
            id: token.id.clone(),
            name: token.name.clone(),
            scopes: token.grant.scopes.clone(),
            apps: token.grant.apps.clone(),
            created: instant(token.created),
            expires: token.expires.map(instant),
            expired: token.expires.is_some_and(|expires| expires <= now()),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct TokenList {
    tokens: Vec<TokenView>,
}

#[derive(Serialize, ToSchema)]
pub struct Issued {
    /// What its holder sends. It is shown here, and never again.
    token: String,
    #[serde(flatten)]
    view: TokenView,
}

#[derive(Serialize, ToSchema)]
pub struct Revoked {
    id: String,
    revoked: bool,
}

/// Tokens that were issued and not revoked
#[utoipa::path(get, path = "/v1/tokens", responses((status = 200, body = TokenList)))]
pub async fn list(State(handle): State<Handle>) -> Json<TokenList> {
    Json(TokenList { tokens: handle.catalog().tokens().map(|token| (&**token).into()).collect() })
}

/// Issues a token
#[utoipa::path(
    post,
    path = "/v1/tokens",
    request_body = TokenRequest,
    responses((status = 201, body = Issued))
)]
pub async fn issue(
    State(queries): State<Queries>,
    State(uploads): State<Uploads>,
    visitor: Visitor,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Issued>), ApiError> {
    let request: TokenRequest = read_request(&headers, body, "token", BODY_BYTES_MAX, &uploads.options.memory).await?;
    if !visitor.identity().is_known {
        let message = "nobody is asked for a token here, and with the first one everybody would be, you too";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", message)
            .hint("start the server with --admin-token-file FILE, and ask with that token"));
    }
    queries.admit_write()?;
    let (text, token) = read(request)?;
    let view = TokenView::from(&token);
    queries.handle.control(Control::Issue(token)).await.map_err(|abort| match abort.code {
        Code::LimitExceeded => ApiError::new(StatusCode::CONFLICT, "TOO_MANY_TOKENS", abort.message)
            .hint("revoke those that nobody uses: styx tokens list"),
        _ => abort.into(),
    })?;
    Ok((StatusCode::CREATED, Json(Issued { token: text, view })))
}

/// A new token as it was asked for, and its text.
fn read(request: TokenRequest) -> Result<(String, Token), ApiError> {
    let TokenRequest { name, mut scopes, apps, expires_in } = request;
    let fits = |name: &str| (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    if !fits(&name) || !apps.iter().flatten().all(|app| fits(app)) {
        return Err(ApiError::bad_request(format!("a name has 1 to {NAME_BYTES_MAX} bytes, and no line breaks")));
    }
    scopes.sort_unstable();
    scopes.dedup();
    if scopes.is_empty() || apps.as_ref().is_some_and(Vec::is_empty) {
        return Err(ApiError::bad_request("a token without scopes or apps is good for nothing")
            .hint("scopes are invoke, read, deploy and operate; leave apps out for all"));
    }
    if apps.is_some() && scopes.contains(&Scope::Operate) {
        return Err(
            ApiError::bad_request("what the scope operate allows concerns all apps").hint("leave apps out, or operate")
        );
    }
    let created = now();
    let expires = match expires_in.as_deref().map(humantime::parse_duration) {
        None => None,
        Some(Ok(time)) if time <= LIFE_MAX => Some(Timestamp(created.0 + time.as_micros() as u64)),
        Some(_) => {
            return Err(ApiError::bad_request("expires_in is no time up to 100 years").hint("write it as 12h or 30d"));
        }
    };
    let (text, id, digest) = draw();
    Ok((text, Token { id, name, digest, grant: Grant { scopes, apps }, created, expires }))
}

/// Ends a token
#[utoipa::path(delete, path = "/v1/tokens/{id}", params(("id" = String, Path)), responses((status = 200, body = Revoked)))]
pub async fn revoke(
    State(queries): State<Queries>,
    PathParts(id): PathParts<String>,
) -> Result<Json<Revoked>, ApiError> {
    if queries.handle.catalog().token(&id).is_none() {
        let message = format!("there is no token \"{}\"", shorten(&id));
        return Err(ApiError::new(StatusCode::NOT_FOUND, "UNKNOWN_TOKEN", message)
            .hint("`styx tokens list` shows those there are"));
    }
    queries.admit_write()?;
    queries.handle.control(Control::Revoke(id.clone())).await?;
    Ok(Json(Revoked { id, revoked: true }))
}
