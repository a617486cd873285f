//! Aborts: the one way for a function to fail.
//!
//! Like `anyhow::Error`, [`Abort`] takes any standard error by `?` and therefore
//! does not implement [`std::error::Error`] itself.

use std::borrow::Cow;
use std::fmt;

/// The result of a function and of everything that can end one.
pub type Result<T, E = Abort> = std::result::Result<T, E>;

/// Why the transaction is undone: returned from a function, it drops every write
/// of the whole call graph and reaches the caller as the reply.
#[derive(Clone, PartialEq, Eq)]
pub struct Abort {
    code: Cow<'static, str>,
    message: String,
}

impl Abort {
    /// An abort raised by the function itself: code `ABORTED`, one line for the caller.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::with_code("ABORTED", message.to_string())
    }

    /// Arguments that the function cannot take: code `BAD_ARGUMENTS`.
    pub fn bad_arguments(message: impl fmt::Display) -> Self {
        Self::with_code("BAD_ARGUMENTS", message.to_string())
    }

    pub(crate) fn with_code(code: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self { code: code.into(), message }
    }

    /// The stable code: `ABORTED`, `BAD_ARGUMENTS`, or the host's for a failed call.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The line that the caller gets to read.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same failure with a word before the message that says what was being done.
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    #[cfg(target_arch = "wasm32")]
    pub(crate) fn into_parts(self) -> (String, String) {
        (self.code.into_owned(), self.message)
    }
}

impl<E: std::error::Error> From<E> for Abort {
    /// Takes the error's message and those of its sources, outermost first.
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let text = inner.to_string();
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = inner.source();
        }
        Self::new(message)
    }
}

impl fmt::Display for Abort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl fmt::Debug for Abort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code, self.message)
    }
}

/// Ends the function with an abort: `bail!("not enough {}", ctx.key())`.
#[macro_export]
macro_rules! bail {
    ($($message:tt)+) => {
        return ::core::result::Result::Err($crate::Abort::new(::core::format_args!($($message)+)).into())
    };
}

/// Aborts unless the condition holds: `ensure!(stock >= quantity, "not enough")`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            $crate::bail!($($message)+);
        }
    };
}
