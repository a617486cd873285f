//! Errors: what the server refused, or why it could not be asked.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// The end of a request without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// A stable code, such as `ABORTED` or `OVERLOADED`; the server's documentation lists them. The client adds
    /// `UNREACHABLE`, `CONNECTION` (it broke off before the reply), `TIMEOUT`, `HTTP` (a status without a reason),
    /// `BAD_URL`, `BAD_CA`, `BAD_TOKEN`, `BAD_ARGUMENTS` and `BAD_REPLY`.
    pub code: String,
    /// One line that says what is wrong.
    pub message: String,
    /// Advice; may be empty.
    pub hint: String,
    /// The app's own code, if the function gave one.
    pub app_code: Option<String>,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// How long the server asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
}

/// An error as the server writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) hint: String,
    #[serde(default)]
    pub(crate) app_code: Option<String>,
}

impl Error {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Error {
        Error {
            code: code.to_owned(),
            message: message.into(),
            hint: String::new(),
            app_code: None,
            status: None,
            retry_after: None,
        }
    }

    pub(crate) fn hint(mut self, hint: &str) -> Error {
        self.hint = hint.to_owned();
        self
    }

    /// True if the function itself refused: nothing was written, and it would refuse again.
    pub fn is_aborted(&self) -> bool {
        self.code == "ABORTED"
    }

    /// True if nobody can say if the request had an effect. With an idempotency key, asking again tells.
    pub fn outcome_unknown(&self) -> bool {
        matches!(&*self.code, "OUTCOME_UNKNOWN" | "SHUTTING_DOWN" | "TIMEOUT" | "CONNECTION")
    }

    /// True if another attempt may fare better.
    pub fn is_transient(&self) -> bool {
        self.outcome_unknown()
            || matches!(
                &*self.code,
                "OVERLOADED" | "UNAVAILABLE" | "NOT_READY" | "LOG_STALLED" | "DISK_FULL" | "STANDBY" | "UNREACHABLE"
            )
            || matches!(self.status, Some(429 | 503))
    }
}

impl Error {
    /// True if the request may be repeated without happening twice, and should be.
    pub(crate) fn is_repeatable(&self, has_key: bool) -> bool {
        self.is_transient() && (has_key || !self.outcome_unknown())
    }
}

/// The error in the body of an answer, if it is one of a server of Styx.
pub(crate) fn refusal(body: &[u8]) -> Option<Error> {
    #[derive(Deserialize)]
    struct Refused {
        error: Refusal,
    }
    serde_json::from_slice::<Refused>(body).ok().map(|refused| refused.error.into())
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.code, self.message)?;
        if !self.hint.is_empty() {
            write!(to, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<Refusal> for Error {
    fn from(Refusal { code, message, hint, app_code }: Refusal) -> Error {
        Error { app_code, hint, ..Error::new(&code, message) }
    }
}

impl From<reqwest::Error> for Error {
    fn from(error: reqwest::Error) -> Error {
        // Addresses stand in the message; the innermost cause says what happened.
        let mut cause: &dyn std::error::Error = &error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let message = match error.url() {
            Some(url) => format!("{}: {cause}", url.origin().ascii_serialization()),
            None => cause.to_string(),
        };
        if error.is_builder() {
            return Error::new("BAD_URL", message).hint("an address is http://host:port");
        }
        if error.is_connect() {
            return Error::new("UNREACHABLE", message).hint("is the server running?");
        }
        let code = if error.is_timeout() { "TIMEOUT" } else { "CONNECTION" };
        Error::new(code, message).hint("it may have happened; ask again with the same idempotency key")
    }
}
