//! Errors as clients see them: a status, a stable code, one line, and what to do.

use std::borrow::Cow;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use styx_driver::client::Failure;
use styx_driver::snapshots::NoSnapshot;
use styx_protocol::abort::{Abort, Code};

/// An error reply. None of the request's writes happened, unless it says that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable code.
    pub code: &'static str,
    pub message: String,
    /// Advice; may be empty.
    pub hint: Cow<'static, str>,
    /// The app's own code, of what a function refused.
    pub app_code: Option<Box<str>>,
    /// The connection ends with this answer: there may be more of the request on it.
    pub closes: bool,
}

impl ApiError {
    /// An error without a hint.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        ApiError { status, code, message: message.into(), hint: Cow::Borrowed(""), app_code: None, closes: false }
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Ends the connection.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// 400: the request is not of the form that it should have.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }

    /// 400: key or arguments cannot be taken.
    pub fn bad_arguments(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::BadArguments.as_str(), message)
    }

    /// 404: no such path.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    /// 413: more bytes than allowed.
    pub fn too_large(what: &str, limit: u64) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", format!("{what} may have at most {limit} bytes"))
            .hint("send less; for a call, `payload` in [limits] of styx.toml is the limit")
    }

    /// 503: try again.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded.as_str(), message).hint(hint_of(Code::Overloaded))
    }

    /// 503: there is no room for what a client sends.
    pub fn no_room() -> Self {
        Self::overloaded("too much is held for clients who send slowly or do not read")
    }

    /// 503: the worker no longer answers, because the process ends.
    pub fn shutting_down() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN", "the server is shutting down")
            .hint("send the request again, with the same idempotency key if it had one")
    }

    /// The object that stands under `error`.
    pub fn to_json(&self) -> serde_json::Value {
        let mut error = json!({ "code": self.code, "message": self.message, "hint": self.hint });
        if let Some(app_code) = &self.app_code {
            error["app_code"] = json!(app_code);
        }
        error
    }
}

impl From<Abort> for ApiError {
    fn from(abort: Abort) -> Self {
        let app_code = abort.app_code().map(Into::into);
        ApiError {
            status: status_of(abort.code),
            code: abort.code.as_str(),
            message: abort.message,
            hint: Cow::Borrowed(hint_of(abort.code)),
            app_code,
            closes: false,
        }
    }
}

impl From<NoSnapshot> for ApiError {
    fn from(why: NoSnapshot) -> Self {
        ApiError::new(StatusCode::CONFLICT, "NO_SNAPSHOT", why.to_string()).hint(why.hint())
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let status = match failure {
            // To send it again is of no use before somebody has looked.
            Failure::StateFull | Failure::AppStateFull => StatusCode::INSUFFICIENT_STORAGE,
            Failure::Unavailable | Failure::OutcomeUnknown | Failure::DiskFull | Failure::LogStalled => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        let (code, message, hint) = match failure {
            Failure::Unavailable => (
                "UNAVAILABLE",
                "no worker serves this now, and nothing was done",
                "try again; /v1/cluster on the coordinator's admin port shows who is there",
            ),
            Failure::OutcomeUnknown => (
                "OUTCOME_UNKNOWN",
                "the worker that had the request was lost before it answered: it may or may not have happened",
                "look before you repeat it; a call with an Idempotency-Key is safe to repeat, and gateways do so by themselves",
            ),
            Failure::DiskFull => (
                "DISK_FULL",
                "the disk of the log is nearly full: nothing that may write is taken, and nothing was done",
                "free some space, or lower --disk-reserve; reads go on, and writes do by themselves once there is room",
            ),
            Failure::StateFull => (
                "STATE_FULL",
                "a worker has as much state as it may: nothing that may write is taken, and nothing was done",
                "delete apps that are not needed, add workers, or raise --state-memory; reads go on",
            ),
            Failure::AppStateFull => (
                "APP_STATE_FULL",
                "the app has as much state as it may: nothing of it that may write is taken, and nothing was done",
                "`styx apps usage` shows what it has; its operator can raise --app-state; reads go on",
            ),
            Failure::LogStalled => (
                "LOG_STALLED",
                "the Kafka brokers that keep the log do not answer: nothing is taken meanwhile, and nothing was done",
                "see to the brokers; calls are taken again by themselves once those answer",
            ),
        };
        ApiError::new(status, code, message).hint(hint)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({ "error": self.to_json() }))).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE || self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.closes {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The HTTP status of an end without effect.
pub fn status_of(code: Code) -> StatusCode {
    match code {
        Code::BadArguments => StatusCode::BAD_REQUEST,
        Code::UnknownApp | Code::UnknownOperator | Code::UnknownFunction => StatusCode::NOT_FOUND,
        Code::IdempotencyMismatch | Code::ReplyForgotten => StatusCode::CONFLICT,
        // Not 503: to send it again is of no use before somebody has looked.
        Code::Aborted | Code::Quarantined => StatusCode::UNPROCESSABLE_ENTITY,
        Code::Overloaded | Code::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        // Which are the apps' fault, not the request's.
        Code::GuestException
        | Code::NotImported
        | Code::NotExported
        | Code::GuestTrap
        | Code::OutOfFuel
        | Code::LimitExceeded
        | Code::ReadOnly
        | Code::NonDeterministic => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Advice about an end without effect.
fn hint_of(code: Code) -> &'static str {
    match code {
        Code::Aborted => "the function refused; nothing was written",
        Code::BadArguments => "`styx apps APP` shows what the function takes",
        Code::GuestException => {
            "this is a bug of the app, not of the request; nothing was written; `styx logs APP` shows it with what the function logged, as the server's log does"
        }
        Code::NotImported | Code::NotExported => {
            "one app calls another, and their styx.toml do not say so both; nothing was written"
        }
        Code::GuestTrap => {
            "the function crashed; nothing was written; `styx logs APP` shows what it logged, as the server's log does"
        }
        Code::OutOfFuel => {
            "make the function do less, or raise the limit in [limits] of styx.toml, up to the server's --max-fuel or --max-transaction-fuel"
        }
        Code::LimitExceeded => "make the transaction smaller, or raise the limit in [limits] of styx.toml",
        Code::ReadOnly => "declare the function without read-only, or keep it from writing",
        Code::UnknownApp | Code::UnknownOperator | Code::UnknownFunction => "`styx apps` lists what is deployed",
        Code::NonDeterministic => {
            "keep results free of globals: instances are reused; or set isolation = \"fresh\" for the operator"
        }
        Code::IdempotencyMismatch => "use a new idempotency key for a new request",
        Code::ReplyForgotten => "look at the state; more replies are kept with --reply-max and --reply-bytes-max",
        Code::Overloaded => "wait a moment, then send it again",
        Code::Interrupted => "send it again; with an idempotency key a long call survives a restart",
        Code::Quarantined => {
            "nothing happened; whoever operates the server sees why with `styx requests quarantine list`, and lets it run again \
             with `release`"
        }
        Code::TooLarge => "send less; of a log on Kafka, `max.message.bytes` of its topic is the limit",
    }
}
