//! The environment of the command line. Flags that are variables too stand beside their flags; everything else
//! that is read from the environment is read here.

use tracing_subscriber::EnvFilter;

/// Says which lines of the log are shown, as `tracing` writes filters.
pub const LOG_FILTER: &str = "STYX_LOG";

/// Holds the token to show, if no file does.
pub const TOKEN: &str = "STYX_TOKEN";

/// The filter of the log: what the variable says, or information and worse.
pub(crate) fn log_filter() -> EnvFilter {
    EnvFilter::try_from_env(LOG_FILTER).unwrap_or_else(|_| EnvFilter::new("info"))
}

/// Returns true unless the user asks for plain text: see <https://no-color.org>.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn allows_color() -> bool {
    std::env::var_os("NO_COLOR").is_none()
}

/// The token to show; none if the variable is empty.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn token() -> Option<String> {
    std::env::var(TOKEN).ok().filter(|token| !token.trim().is_empty())
}
