//! The environment of the process: nothing else of a server reads it.

/// All variables, with their values.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(super) fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars()
}

/// A variable; none if it is not set, or no text.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
