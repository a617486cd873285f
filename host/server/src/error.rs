//! What the command line says when something is wrong: one line, a code, what to do.

use std::fmt;

/// An error for a person.
#[derive(Debug)]
pub struct CliError {
    /// Stable code.
    pub code: &'static str,
    pub message: String,
    /// Advice; may be empty.
    pub hint: String,
    /// Output of a tool that failed, for people; may be empty.
    pub detail: String,
    /// Exit status: 1 when something failed, 2 when it was asked for wrongly.
    pub status: u8,
}

impl CliError {
    /// Something failed.
    pub fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        CliError { code, message: message.into(), hint: hint.into(), detail: String::new(), status: 1 }
    }

    /// Something was asked for wrongly.
    pub fn usage(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        CliError { status: 2, ..CliError::new(code, message, hint) }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for CliError {}
