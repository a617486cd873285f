//! Single requests: call and wait, send and go, ask for the end of a send.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use styx_protocol::ids::RequestId;
use styx_protocol::replies::Reply;
use tokio::sync::oneshot;

use super::json::is_json;
use super::latency::Outcome;
use super::path;
use super::request::{Call, check_idempotency_key, parse_id, prepare};
use crate::handle::{Answer, Failure, Waiter};
use crate::http::{ApiError, BodyLimits, Options, PathParts, read_body, refuse};
use crate::services::Services;
use styx_driver::wire::AdminQuery;

const TID: HeaderName = HeaderName::from_static("styx-tid");
const EPOCH: HeaderName = HeaderName::from_static("styx-epoch");
const REQUEST_ID: HeaderName = HeaderName::from_static("styx-request-id");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `POST /v1/call/{app}/{operator}/{key}/{function}`
pub async fn call(State(services): State<Services>, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let started = Instant::now();
    let (outcome, response) = match submit(&services, &uri, "/v1/call/", &headers, body, false).await {
        Ok((Answer::Reply(reply), read_only)) => answer(reply, read_only),
        Ok((Answer::Failed(failure), _)) => failed(failure),
        Ok(_) | Err(None) => (Outcome::Overloaded, ApiError::shutting_down().into_response()),
        Err(Some(error)) => (Outcome::of_error(error.status), error.into_response()),
    };
    services.latencies.record(outcome, started.elapsed());
    response
}

/// `POST /v1/send/{app}/{operator}/{key}/{function}`
pub async fn send(State(services): State<Services>, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let started = Instant::now();
    let (outcome, response) = match submit(&services, &uri, "/v1/send/", &headers, body, true).await {
        Ok((Answer::Accepted(id), _)) => {
            let mut response = (StatusCode::ACCEPTED, Json(json!({ "request_id": id }))).into_response();
            response.headers_mut().insert(REQUEST_ID, number(id));
            (Outcome::Accepted, response)
        }
        // A refusal.
        Ok((Answer::Reply(reply), _)) => answer(reply, false),
        Ok((Answer::Failed(failure), _)) => failed(failure),
        Ok(_) | Err(None) => (Outcome::Overloaded, ApiError::shutting_down().into_response()),
        Err(Some(error)) => (Outcome::of_error(error.status), error.into_response()),
    };
    services.latencies.record(outcome, started.elapsed());
    response
}

/// Validates a request, gives it to the worker and waits for the answer; `Err(None)` if the worker
/// is gone. Also says whether the function is read-only.
async fn submit(
    services: &Services,
    uri: &Uri,
    prefix: &str,
    headers: &HeaderMap,
    body: Body,
    receipt: bool,
) -> Result<(Answer, bool), Option<ApiError>> {
    let directory = services.directories.of(services.handle.catalog());
    let found = path::parse(uri.path(), prefix).and_then(|path| {
        let target = directory.resolve(&path.app, &path.operator, &path.function)?;
        Ok((target, path.key, idempotency_key(headers)?))
    });
    let (target, key, idempotency_key) = match found {
        Ok(found) => found,
        Err(error) => return Err(Some(refuse(error, headers, body).await)),
    };
    let limits = BodyLimits {
        bytes: u64::from(target.operator.payload).min(services.options.body_bytes_max),
        silence: services.options.silence,
    };
    let body = read_body(headers, body, "the arguments", limits).await?;
    let mut scratch = Vec::with_capacity(body.len() + 2);
    let call = Call { key: &key, args: &body, idempotency_key, retained: receipt };
    let request = prepare(target, call, &mut scratch)?;
    let read_only = target.function.read_only;
    let (to, answered) = oneshot::channel();
    if read_only && !receipt {
        services.handle.query(request, Waiter::Once(to));
    } else {
        services.handle.submit(Arc::new(request), Waiter::Once(to), receipt);
    }
    let answer = answered.await.map_err(|_| None)?;
    Ok((answer, read_only))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::bad_request("there is more than one Idempotency-Key header").hint("send one"));
    }
    let key = std::str::from_utf8(value.as_bytes())
        .map_err(|_| ApiError::bad_request("the Idempotency-Key header is not UTF-8"))?;
    check_idempotency_key(key).map(Some)
}

/// The response to the end of a request.
fn answer(reply: Reply, read_only: bool) -> (Outcome, Response) {
    let (id, tid, epoch) = (reply.id, reply.tid, reply.epoch);
    let (outcome, mut response) = match reply.outcome {
        Ok(value) => {
            let (kind, bytes) = if value.is_empty() {
                ("application/json", Bytes::from_static(b"null"))
            } else {
                // Functions may return anything; SDKs return JSON.
                let kind = if is_json(&value) { "application/json" } else { "application/octet-stream" };
                (kind, Bytes::from_owner(value))
            };
            let response = ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], bytes).into_response();
            (if read_only { Outcome::Answered } else { Outcome::Committed }, response)
        }
        Err(abort) => {
            let error = ApiError::from(abort);
            (Outcome::of_error(error.status), error.into_response())
        }
    };
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, number(id));
    // What was refused before it was sequenced has neither.
    if epoch.0 > 0 {
        headers.insert(TID, tid.0.into());
        headers.insert(EPOCH, epoch.0.into());
    }
    (outcome, response)
}

/// The response when the cluster cannot say what became of a request.
fn failed(failure: Failure) -> (Outcome, Response) {
    let error = ApiError::from(failure);
    (Outcome::of_error(error.status), error.into_response())
}

fn number(id: RequestId) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(id.to_string())).expect("hexadecimal digits may stand in a header")
}

/// Options of `GET /v1/requests/{id}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestQuery {
    wait: Option<String>,
}

/// `GET /v1/requests/{id}?wait=10s`
pub async fn request(
    State(services): State<Services>,
    PathParts(id): PathParts<String>,
    Options(RequestQuery { wait }): Options<RequestQuery>,
) -> Result<Response, ApiError> {
    let id = parse_id(&id)?;
    let wait = match wait {
        None => Duration::ZERO,
        Some(text) => humantime::parse_duration(&text)
            .map_err(|error| {
                ApiError::bad_request(format!("wait=\"{}\" is no time: {error}", crate::http::shorten(&text)))
                    .hint("write it as 500ms or 10s")
            })?
            .min(services.options.wait_max),
    };
    let ended = services.handle.wait_for(id);
    tokio::pin!(ended);
    // Workers take messages in order: once they have said how they are after the question, an
    // answer that does not need waiting for has been given.
    let asked = async {
        services.handle.read(AdminQuery::Workers).await;
        tokio::time::sleep(wait).await;
    };
    let answer = tokio::select! {
        biased;
        answer = &mut ended => answer,
        () = asked => match futures_util::FutureExt::now_or_never(&mut ended) {
            Some(answer) => answer,
            None => return Ok(Json(json!({ "request_id": id, "status": "pending" })).into_response()),
        },
        () = services.shutdown.wait() => None,
    };
    match answer {
        Some(Answer::Reply(reply)) => Ok(report(reply)),
        Some(Answer::Unknown) => {
            Err(ApiError::new(StatusCode::NOT_FOUND, "UNKNOWN_REQUEST", format!("nothing is known of request {id}"))
                .hint("replies are kept for sends and for calls with an Idempotency-Key, and not for ever"))
        }
        Some(Answer::Failed(failure)) => Err(failure.into()),
        _ => Err(ApiError::shutting_down()),
    }
}

/// The end of a request as an object.
fn report(reply: Reply) -> Response {
    let status = if reply.outcome.is_ok() { "committed" } else { "aborted" };
    let mut body = format!("{{\"request_id\":\"{}\",\"status\":\"{status}\",", reply.id).into_bytes();
    super::reply::outcome(reply.outcome, "result", &mut body);
    body.extend_from_slice(format!(",\"tid\":{},\"epoch\":{}}}", reply.tid, reply.epoch).as_bytes());
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
