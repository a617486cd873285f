//! What the command line says when something is wrong: one line, a code, what to do.

use std::fmt;

use styx_server::error::{ErrorKind, ServerError};

/// An error for a person.
#[derive(Debug)]
pub(crate) struct CliError {
    /// Stable code.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Advice; may be empty.
    pub(crate) hint: String,
    /// Output of a tool that failed, for people; may be empty.
    pub(crate) detail: String,
    /// The app's own code, of what a function refused.
    pub(crate) app_code: Option<String>,
    /// Exit status: 1 when something failed, 2 when it was asked for wrongly.
    pub(crate) status: u8,
}

impl CliError {
    /// Something failed.
    pub(crate) fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        CliError { code, message: message.into(), hint: hint.into(), detail: String::new(), app_code: None, status: 1 }
    }

    /// Something was asked for wrongly.
    pub(crate) fn usage(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        CliError { status: 2, ..CliError::new(code, message, hint) }
    }
}

impl From<ServerError> for CliError {
    fn from(error: ServerError) -> Self {
        let of_kind = match error.kind {
            ErrorKind::Failure => CliError::new,
            ErrorKind::Usage => CliError::usage,
        };
        of_kind(error.code, error.message, error.hint)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.app_code {
            Some(app_code) => write!(f, "{} ({app_code}): {}", self.code, self.message)?,
            None => write!(f, "{}: {}", self.code, self.message)?,
        }
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}
