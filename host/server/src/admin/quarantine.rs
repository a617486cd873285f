//! Quarantine: what is set aside and not executed, and its release.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use styx_protocol::control::Control;
use styx_protocol::ids::Tid;
use styx_protocol::quarantine::{Quarantined, Subject};
use utoipa::ToSchema;

use super::apps::instant;
use super::queries::Queries;
use crate::handle::Handle;
use crate::http::{ApiError, PathParts, shorten};

#[derive(Serialize, ToSchema)]
pub struct QuarantineList {
    quarantined: Vec<QuarantinedView>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QuarantinedView {
    /// By which it is released: the id of a request, `tid:` and a transaction's, or `app:` and a name.
    id: String,
    /// `request`, `transaction` or `app`.
    kind: &'static str,
    app: Option<String>,
    /// What the request calls.
    function: Option<String>,
    reason: String,
    since: String,
}

#[derive(Serialize, ToSchema)]
pub struct Released {
    id: String,
    released: bool,
}

impl From<&Quarantined> for QuarantinedView {
    fn from(quarantined: &Quarantined) -> Self {
        let Quarantined { subject, app, function, reason, since } = quarantined.clone();
        let kind = match subject {
            Subject::Request(_) => "request",
            Subject::Transaction(_) => "transaction",
            Subject::App(_) => "app",
        };
        QuarantinedView { id: text(&subject), kind, app, function, reason, since: instant(since) }
    }
}

fn text(subject: &Subject) -> String {
    match subject {
        Subject::Request(id) => id.to_string(),
        Subject::Transaction(tid) => format!("tid:{tid}"),
        Subject::App(app) => format!("app:{app}"),
    }
}

fn read(text: &str) -> Option<Subject> {
    if let Some(app) = text.strip_prefix("app:") {
        return Some(Subject::App(app.to_owned()));
    }
    match text.strip_prefix("tid:") {
        Some(tid) => tid.parse().ok().map(|tid| Subject::Transaction(Tid(tid))),
        None => text.parse().ok().map(Subject::Request),
    }
}

/// Requests, transactions and apps that are set aside
#[utoipa::path(get, path = "/v1/quarantine", responses((status = 200, body = QuarantineList)))]
pub async fn list(State(handle): State<Handle>) -> Json<QuarantineList> {
    Json(QuarantineList { quarantined: handle.catalog().quarantine().iter().map(|one| (&**one).into()).collect() })
}

/// Has what was set aside executed again
#[utoipa::path(delete, path = "/v1/quarantine/{id}", params(("id" = String, Path)), responses((status = 200, body = Released)))]
pub async fn release(
    State(queries): State<Queries>,
    PathParts(id): PathParts<String>,
) -> Result<Json<Released>, ApiError> {
    let known = |subject: &Subject| queries.handle.catalog().quarantine().get(subject).is_some();
    let Some(subject) = read(&id).filter(known) else {
        let message = format!("\"{}\" is not in quarantine", shorten(&id));
        return Err(ApiError::new(StatusCode::NOT_FOUND, "NOT_QUARANTINED", message)
            .hint("`styx requests quarantine list` shows what is"));
    };
    queries.admit_write()?;
    queries.handle.control(Control::Release(subject)).await?;
    Ok(Json(Released { id, released: true }))
}

#[cfg(test)]
mod tests {
    use styx_protocol::ids::RequestId;

    use super::*;

    #[test]
    fn subjects_are_read_as_they_are_written() {
        for subject in [
            Subject::Request(RequestId(7)),
            Subject::Request(RequestId(u128::MAX)),
            Subject::Transaction(Tid(9)),
            Subject::App("shop:eu".into()),
        ] {
            assert_eq!(read(&text(&subject)), Some(subject));
        }
        assert_eq!((read("tid:x"), read("shop"), read("")), (None, None, None));
    }
}
