//! Single requests: call and wait, send and go, ask for the end of a send.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use styx_protocol::ids::RequestId;
use styx_protocol::replies::Reply;
use styx_protocol::token::Scope;
use styx_protocol::transaction::Request;
use tokio::sync::oneshot;
use utoipa::{IntoParams, ToSchema};

use super::Ingress;
use super::callee::admit;
use super::json::is_json;
use super::path::{self, CallPath};
use super::request::{Call, check_idempotency_key, derived_id, parse_id};
use super::watching::watch;
use crate::auth::Visitor;
use crate::handle::{Answer, Failure, Waiter, hold_result};
use crate::http::{
    Account, ApiError, BodyLimits, FunctionStats, Latencies, Memory, Options, Outcome, PathParts, UNCOUNTED, Unread,
    read_body, refuse,
};
use crate::observe::SLOW;
use styx_driver::wire::AdminQuery;

const TID: HeaderName = HeaderName::from_static("styx-tid");
const EPOCH: HeaderName = HeaderName::from_static("styx-epoch");
const REQUEST_ID: HeaderName = HeaderName::from_static("styx-request-id");
const TRACE: HeaderName = HeaderName::from_static("styx-trace");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What was answered is what the first request under this key came to.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Calls a function and waits for its transaction to commit
#[utoipa::path(
    post,
    path = "/v1/call/{app}/{operator}/{key}/{function}",
    params(("app" = String, Path), ("operator" = String, Path), ("key" = String, Path), ("function" = String, Path)),
    request_body(content = serde_json::Value, description = "arguments, as an array or by name"),
    responses((status = 200, description = "result of the function", body = serde_json::Value))
)]
pub async fn call(
    State(ingress): State<Arc<Ingress>>,
    visitor: Visitor,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    respond(&ingress, visitor, &uri, "/v1/call/", &headers, body, false).await
}

#[derive(Serialize, ToSchema)]
pub struct Accepted {
    #[schema(value_type = String)]
    request_id: RequestId,
}

/// Sends a call and waits until it is durable
#[utoipa::path(
    post,
    path = "/v1/send/{app}/{operator}/{key}/{function}",
    params(("app" = String, Path), ("operator" = String, Path), ("key" = String, Path), ("function" = String, Path)),
    request_body(content = serde_json::Value, description = "arguments, as an array or by name"),
    responses((status = 202, body = Accepted))
)]
pub async fn send(
    State(ingress): State<Arc<Ingress>>,
    visitor: Visitor,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    respond(&ingress, visitor, &uri, "/v1/send/", &headers, body, true).await
}

async fn respond(
    ingress: &Ingress,
    visitor: Visitor,
    uri: &Uri,
    prefix: &str,
    headers: &HeaderMap,
    body: Body,
    receipt: bool,
) -> Response {
    let started = Instant::now();
    let mut stats = None;
    let submitted = submit(ingress, visitor, uri, prefix, headers, body, receipt, &mut stats).await;
    let (outcome, response) = match submitted {
        Ok((Answer::Accepted(id), _)) => {
            let mut response = (StatusCode::ACCEPTED, Json(Accepted { request_id: id })).into_response();
            response.headers_mut().insert(REQUEST_ID, number(id));
            (Outcome::Accepted, response)
        }
        // To who wants a receipt, a refusal.
        Ok((Answer::Reply(reply), read_only)) => {
            let took = started.elapsed();
            if took >= SLOW {
                ingress.handle.stats().observed.slow(&reply, took, stats);
            }
            answer(reply, read_only && !receipt, ingress)
        }
        Ok((Answer::Replayed(reply), _)) => {
            let (outcome, mut response) = answer(reply, false, ingress);
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
            (outcome, response)
        }
        Ok((Answer::Failed(failure), _)) => failed(failure, &ingress.latencies),
        Ok(_) | Err(None) => refused(ApiError::shutting_down(), &ingress.latencies),
        Err(Some(error)) => refused(error, &ingress.latencies),
    };
    let took = started.elapsed();
    ingress.latencies.record(outcome, took);
    if let Some(stats) = stats {
        stats.record(outcome, took);
    }
    response
}

/// Validates a request, gives it to the worker and waits for the answer; `Err(None)` if the worker
/// is gone. Also says whether the function is read-only. What is no request any more may have been one when it came first:
/// under a key its end is asked for.
#[allow(clippy::too_many_arguments, reason = "parts of one request")]
async fn submit(
    ingress: &Ingress,
    mut visitor: Visitor,
    uri: &Uri,
    prefix: &str,
    headers: &HeaderMap,
    body: Body,
    receipt: bool,
    stats: &mut Option<&'static FunctionStats>,
) -> Result<(Answer, bool), Option<ApiError>> {
    let found = path::parse(uri.path(), prefix).and_then(|path| {
        admit(&mut visitor, &path.app, &path.function, &ingress.handle.catalog())?;
        Ok((path, idempotency_key(headers)?))
    });
    let (path, idempotency_key) = match found {
        Ok(found) => found,
        Err(error) => return Err(Some(refuse(error, headers, body).await)),
    };
    let (to, answered) = oneshot::channel();
    let (refused, read_only, _account) =
        match read(ingress, &path, idempotency_key, headers, body, receipt, stats).await {
            Ok((mut request, read_only, account)) => {
                let parent = headers.get(TRACEPARENT).and_then(|parent| parent.to_str().ok());
                let asked = headers.get(TRACE).is_some_and(|value| value == "1");
                watch(&mut request, asked, parent, idempotency_key.is_some(), ingress);
                if read_only && !receipt {
                    ingress.handle.query(Arc::new(request), Waiter::Once(to));
                } else {
                    ingress.handle.submit(Arc::new(request), Waiter::Once(to), receipt);
                }
                (None, read_only, account)
            }
            Err(error) => {
                let Some(key) = idempotency_key else { return Err(Some(error)) };
                ingress.handle.ask_end(derived_id(&path.app, key), Waiter::Once(to), receipt, Answer::Unknown);
                (Some(error), false, None)
            }
        };
    match (answered.await, refused) {
        (Ok(Answer::Unknown), Some(error)) => Err(Some(error)),
        (Ok(answer), _) => Ok((answer, read_only)),
        (Err(_), _) => Err(None),
    }
}

/// Reads and validates a request; also says whether the function is read-only, and what its arguments are on.
async fn read(
    ingress: &Ingress,
    path: &CallPath<'_>,
    idempotency_key: Option<&str>,
    headers: &HeaderMap,
    body: Body,
    receipt: bool,
    stats: &mut Option<&'static FunctionStats>,
) -> Result<(Request, bool, Option<Account>), ApiError> {
    let directory = ingress.directories.of(ingress.handle.catalog());
    let callee = match directory.callee(&path.app, &path.operator, &path.function) {
        Ok(callee) => callee,
        Err(error) => return Err(refuse(error, headers, body).await),
    };
    *stats = callee.stats();
    let limits = BodyLimits {
        bytes: u64::from(callee.payload()).min(ingress.options.body_bytes_max),
        silence: ingress.options.silence,
    };
    let body = read_body(headers, body, "the arguments", limits, &ingress.options.memory).await?;
    let mut scratch = Vec::with_capacity(body.bytes.len() + 2);
    let call = Call { key: &path.key, args: &body.bytes, idempotency_key, retained: receipt };
    Ok((callee.prepare(call, &mut scratch)?, callee.is_read_only(), body.account))
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

/// Holds the result of a reply until it is read.
fn hold(reply: &mut Reply, memory: &Memory) -> Option<Account> {
    let is_large = reply.outcome.as_ref().is_ok_and(|result| result.len() > UNCOUNTED);
    let account = is_large.then(|| memory.account());
    account.inspect(|account| hold_result(reply, account))
}

/// The response to the end of a request.
fn answer(mut reply: Reply, read_only: bool, ingress: &Ingress) -> (Outcome, Response) {
    let account = hold(&mut reply, &ingress.options.memory);
    let (id, tid, epoch) = (reply.id, reply.tid, reply.epoch);
    let (outcome, mut response) = match reply.outcome {
        Ok(value) => {
            let (kind, bytes) = if value.is_empty() {
                ("application/json", Bytes::from_static(b"null"))
            } else {
                // Functions may return anything; SDKs return JSON.
                let kind = if is_json(&value) { "application/json" } else { "application/octet-stream" };
                (kind, Bytes::from_owner(Unread { bytes: value, account }))
            };
            let response = ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], bytes).into_response();
            (if read_only { Outcome::Answered } else { Outcome::Committed }, response)
        }
        Err(abort) => refused(abort.into(), &ingress.latencies),
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
fn failed(failure: Failure, latencies: &Latencies) -> (Outcome, Response) {
    refused(failure.into(), latencies)
}

/// The response to a request that ended in an error.
fn refused(error: ApiError, latencies: &Latencies) -> (Outcome, Response) {
    (latencies.error(error.status, error.code), error.into_response())
}

fn number(id: RequestId) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(id.to_string())).expect("hexadecimal digits may stand in a header")
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RequestQuery {
    /// How long to wait for the end, such as 10s.
    wait: Option<String>,
}

/// State of a request: pending, or how it ended. An end is written by [`report`], which keeps the bytes of the result.
#[derive(Serialize, ToSchema)]
pub struct RequestView {
    #[schema(value_type = String)]
    request_id: RequestId,
    /// `pending`, `committed` or `aborted`.
    status: &'static str,
    /// Result of a function that committed, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<serde_json::Value>,
    /// Result of a function that committed, otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    /// Why it aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    error: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
}

impl RequestView {
    fn pending(request_id: RequestId) -> Self {
        RequestView {
            request_id,
            status: "pending",
            result: None,
            result_base64: None,
            error: None,
            tid: None,
            epoch: None,
        }
    }
}

/// What became of a send
#[utoipa::path(
    get,
    path = "/v1/requests/{id}",
    params(("id" = String, Path), RequestQuery),
    responses((status = 200, body = RequestView))
)]
pub async fn request(
    State(ingress): State<Arc<Ingress>>,
    mut visitor: Visitor,
    PathParts(id): PathParts<String>,
    Options(RequestQuery { wait }): Options<RequestQuery>,
) -> Result<Response, ApiError> {
    // A request's id does not tell whose app it is of.
    visitor.may(Scope::Invoke, None, &ingress.handle.catalog())?;
    let id = parse_id(&id)?;
    let wait = match wait {
        None => Duration::ZERO,
        Some(text) => humantime::parse_duration(&text)
            .map_err(|error| {
                ApiError::bad_request(format!("wait=\"{}\" is no time: {error}", crate::http::shorten(&text)))
                    .hint("write it as 500ms or 10s")
            })?
            .min(ingress.options.wait_max),
    };
    let ended = ingress.handle.wait_for(id);
    tokio::pin!(ended);
    // Workers take messages in order: once they have said how they are after the question, an
    // answer that does not need waiting for has been given.
    let asked = async {
        ingress.handle.read(AdminQuery::Workers).await;
        tokio::time::sleep(wait).await;
    };
    let answer = tokio::select! {
        biased;
        answer = &mut ended => answer,
        () = asked => match futures_util::FutureExt::now_or_never(&mut ended) {
            Some(answer) => answer,
            None => return Ok(Json(RequestView::pending(id)).into_response()),
        },
        () = ingress.shutdown.wait() => None,
    };
    match answer {
        Some(Answer::Reply(reply) | Answer::Replayed(reply)) => Ok(report(reply, &ingress.options.memory)),
        Some(Answer::Unknown) => {
            Err(ApiError::new(StatusCode::NOT_FOUND, "UNKNOWN_REQUEST", format!("nothing is known of request {id}"))
                .hint("replies are kept for sends and for calls with an Idempotency-Key, and not for ever"))
        }
        Some(Answer::Failed(failure)) => Err(failure.into()),
        _ => Err(ApiError::shutting_down()),
    }
}

/// The end of a request as an object.
fn report(mut reply: Reply, memory: &Memory) -> Response {
    let account = hold(&mut reply, memory);
    let status = if reply.outcome.is_ok() { "committed" } else { "aborted" };
    let mut body = format!("{{\"request_id\":\"{}\",\"status\":\"{status}\",", reply.id).into_bytes();
    super::reply::outcome(reply.outcome, "result", &mut body);
    body.extend_from_slice(format!(",\"tid\":{},\"epoch\":{}}}", reply.tid, reply.epoch).as_bytes());
    let body = Bytes::from_owner(Unread { bytes: body, account });
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
