//! Why a transaction ended without effect: a stable code and one line for the caller.

use std::fmt;

/// Stable codes of everything that a client can be told instead of a result.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub enum Code {
    /// The function raised an error: a logic abort.
    Aborted,
    /// The function could not take its arguments.
    BadArguments,
    GuestTrap,
    /// The invocation or the transaction used up its fuel.
    OutOfFuel,
    /// A limit on memory, depth, calls, RW set or payload was hit.
    LimitExceeded,
    /// A read-only function wrote.
    ReadOnly,
    /// No such app.
    UnknownApp,
    /// No such operator in the app.
    UnknownOperator,
    /// No such function of the operator.
    UnknownFunction,
    /// A fresh instance gave another result than a warm one.
    NonDeterministic,
    /// The idempotency key was used before with another body.
    IdempotencyMismatch,
    /// Too much is waiting.
    Overloaded,
    /// It does not fit into a record of the log.
    TooLarge,
    /// It was executed, and its reply is not kept any more.
    ReplyForgotten,
    /// It ended without effect because its server stops.
    Interrupted,
    /// It, or its app, is set aside and is not executed.
    Quarantined,
    /// The function ended by an exception that is not the app's own: a bug of the app.
    GuestException,
    /// A function called one of another app that its own app does not import.
    NotImported,
    /// A function called one of another app that this one does not export to it.
    NotExported,
}

impl Code {
    /// The code as it appears in replies and documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Aborted => "ABORTED",
            Code::BadArguments => "BAD_ARGUMENTS",
            Code::GuestTrap => "GUEST_TRAP",
            Code::OutOfFuel => "OUT_OF_FUEL",
            Code::LimitExceeded => "LIMIT_EXCEEDED",
            Code::ReadOnly => "READ_ONLY",
            Code::UnknownApp => "UNKNOWN_APP",
            Code::UnknownOperator => "UNKNOWN_OPERATOR",
            Code::UnknownFunction => "UNKNOWN_FUNCTION",
            Code::NonDeterministic => "NON_DETERMINISTIC",
            Code::IdempotencyMismatch => "IDEMPOTENCY_MISMATCH",
            Code::Overloaded => "OVERLOADED",
            Code::TooLarge => "TOO_LARGE",
            Code::ReplyForgotten => "REPLY_FORGOTTEN",
            Code::Interrupted => "INTERRUPTED",
            Code::Quarantined => "QUARANTINED",
            Code::GuestException => "GUEST_EXCEPTION",
            Code::NotImported => "NOT_IMPORTED",
            Code::NotExported => "NOT_EXPORTED",
        }
    }

    /// Whether it says that the app is wrong, and its developer should know of it.
    pub fn is_bug(self) -> bool {
        matches!(self, Code::GuestException | Code::GuestTrap | Code::NotImported | Code::NotExported)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An end without effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[error("{code}: {message}")]
pub struct Abort {
    /// What kind of end.
    pub code: Code,
    /// One line for the person who called.
    pub message: String,
    /// The app's own code for what it refused, of an [`Code::Aborted`] only. Thin: few have one, and all are moved often.
    pub app_code: Option<Box<AppCode>>,
}

/// An app's own code for an error of its own.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct AppCode(Box<str>);

impl AppCode {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const BACKLOG_FULL: &str = "too many requests are waiting; try again in a moment";

impl Abort {
    /// Longest message kept, in bytes.
    pub const MESSAGE_MAX: usize = 4096;
    /// Longest code of an app.
    pub const APP_CODE_MAX: usize = 64;

    /// An abort whose message is cut at [`Abort::MESSAGE_MAX`] and is one line, whatever a guest
    /// put into it: line breaks and control characters become a space.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > Self::MESSAGE_MAX {
            let mut end = Self::MESSAGE_MAX;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
        }
        if message.contains(breaks_line) {
            let parts = message.split(breaks_line).map(str::trim).filter(|part| !part.is_empty());
            message = parts.collect::<Vec<_>>().join(" ");
        }
        Abort { code, message, app_code: None }
    }

    /// Refuses what came when as many requests waited as may. Nothing happened, and there may be room in a moment.
    pub fn backlog_full() -> Self {
        Abort::new(Code::Overloaded, BACKLOG_FULL)
    }

    /// Whether it is [`Abort::backlog_full`].
    pub fn is_backlog_full(&self) -> bool {
        self.code == Code::Overloaded && self.message == BACKLOG_FULL
    }

    /// Adds the app's own code; one that is none ([`is_app_code`]) is left out.
    #[must_use]
    pub fn with_app_code(mut self, app_code: &str) -> Self {
        self.app_code = is_app_code(app_code).then(|| Box::new(AppCode(app_code.into())));
        self
    }

    /// The app's own code, if there is one.
    pub fn app_code(&self) -> Option<&str> {
        self.app_code.as_ref().map(|code| code.as_str())
    }

    /// Its bytes in memory, but for what every abort has.
    pub fn size(&self) -> usize {
        self.message.len() + self.app_code().map_or(0, str::len)
    }
}

/// Whether an app may call an error of its own so: a capital letter, then capital letters, digits and `_`.
pub fn is_app_code(text: &str) -> bool {
    text.len() <= Abort::APP_CODE_MAX
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Whether a character would end a line or steer a terminal.
fn breaks_line(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_apps_are_bounded_words() {
        let longest = "A".repeat(Abort::APP_CODE_MAX);
        for code in ["A", "SOLD_OUT", "E2_", &longest] {
            assert_eq!(Abort::new(Code::Aborted, "no").with_app_code(code).app_code(), Some(code));
        }
        for code in ["", "a", "1A", "_A", "A-B", "A B", "Ä", "A\n", &format!("{longest}A")] {
            assert_eq!(Abort::new(Code::Aborted, "no").with_app_code(code).app_code(), None, "{code:?}");
        }
    }

    #[test]
    fn messages_are_one_bounded_line() {
        for (given, expect) in [
            ("not enough", "not enough"),
            ("  kept  as it is ", "  kept  as it is "),
            ("first\r\n  second\n", "first second"),
            ("\0\u{1b}[31mred\u{2028}next\u{85}", "[31mred next"),
            ("\n", ""),
            (&"é".repeat(Abort::MESSAGE_MAX), &"é".repeat(Abort::MESSAGE_MAX / 2)),
            (&format!("x{}", "é".repeat(Abort::MESSAGE_MAX)), &format!("x{}", "é".repeat(Abort::MESSAGE_MAX / 2 - 1))),
        ] {
            assert_eq!(Abort::new(Code::Aborted, given).message, expect);
        }
    }
}
