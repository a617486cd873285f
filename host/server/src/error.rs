//! Why a server cannot start, or has ended: one line, a code, what to do.

use std::fmt;

/// What kind of mistake an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    Failure,
    /// Something was asked for wrongly.
    Usage,
}

/// An error for a person.
#[derive(Debug)]
pub struct ServerError {
    pub kind: ErrorKind,
    /// Stable code.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// Advice; may be empty.
    pub hint: String,
}

impl ServerError {
    /// Something failed.
    pub fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        ServerError { kind: ErrorKind::Failure, code, message: message.into(), hint: hint.into() }
    }

    /// Something was asked for wrongly.
    pub fn usage(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        ServerError { kind: ErrorKind::Usage, ..ServerError::new(code, message, hint) }
    }

    /// Another process refuses this worker. On the wire its advice stands behind a semicolon.
    pub fn refused(by: &str, told: &str) -> Self {
        let (why, hint) = told.split_once("; ").unwrap_or((told, ""));
        ServerError::new("REFUSED", format!("{by} refuses this worker, and says: {why}"), hint)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for ServerError {}
