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
    /// As the contract has it: `ABORTED:SOLD_OUT` for what has a code of the app.
    code: Cow<'static, str>,
    message: String,
}

/// Between `ABORTED` and the app's own code.
const ABORTED: &str = "ABORTED:";

/// Longest code of an app.
const APP_CODE_MAX: usize = 64;

impl Abort {
    /// An abort raised by the function itself: code `ABORTED`, one line for the caller.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::with_code("ABORTED", message.to_string())
    }

    /// Arguments that the function cannot take: code `BAD_ARGUMENTS`.
    pub fn bad_arguments(message: impl fmt::Display) -> Self {
        Self::with_code("BAD_ARGUMENTS", message.to_string())
    }

    /// The same with a code of the app's own, which clients get as `app_code`, so that nobody has to parse the message:
    /// `Abort::new("nothing is left").with_app_code("SOLD_OUT")`. What is no logic abort keeps its code.
    ///
    /// # Panics
    /// A code is a capital letter, then capital letters, digits and `_`, 64 at most.
    #[must_use]
    pub fn with_app_code(mut self, app_code: &str) -> Self {
        let is_word = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(
            app_code.len() <= APP_CODE_MAX
                && app_code.starts_with(|first: char| first.is_ascii_uppercase())
                && app_code.bytes().all(is_word),
            "the code {app_code:?} is not allowed: begin with a capital letter, then use capital letters, digits and _, at most 64"
        );
        if self.code() == "ABORTED" {
            self.code = format!("{ABORTED}{app_code}").into();
        }
        self
    }

    /// A bug of the app: what it stored or answered is not what it reads.
    pub(crate) fn bug(message: impl fmt::Display) -> Self {
        Self::with_code("GUEST_EXCEPTION", message.to_string())
    }

    pub(crate) fn with_code(code: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self { code: code.into(), message }
    }

    /// The stable code: `ABORTED`, `BAD_ARGUMENTS`, or the host's for a failed call.
    pub fn code(&self) -> &str {
        if self.app_code().is_some() { "ABORTED" } else { &self.code }
    }

    /// The app's own code, if it gave one.
    pub fn app_code(&self) -> Option<&str> {
        self.code.strip_prefix(ABORTED)
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
    pub(crate) fn into_parts(self) -> (Cow<'static, str>, String) {
        (self.code, self.message)
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

/// Gives a failure a code of the app's own on its way out.
pub trait WithAppCode<T> {
    /// See [`Abort::with_app_code`]: `stock.checked_sub(n).ok_or(Abort::new("too few")).with_app_code("SOLD_OUT")?`.
    ///
    /// # Errors
    /// The failure that it was.
    fn with_app_code(self, app_code: &str) -> Result<T>;
}

impl<T, E: Into<Abort>> WithAppCode<T> for Result<T, E> {
    fn with_app_code(self, app_code: &str) -> Result<T> {
        self.map_err(|error| error.into().with_app_code(app_code))
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
