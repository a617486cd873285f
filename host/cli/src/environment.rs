//! The environment of the command line. Flags that are variables too stand beside their flags; everything else
//! that is read from the environment is read here.

use tracing_subscriber::EnvFilter;

use crate::error::CliError;

/// Says which lines of the log are shown, as `tracing` writes filters.
pub const LOG_FILTER: &str = "STYX_LOG";

/// Holds the token to show, if no file does.
pub const TOKEN: &str = "STYX_TOKEN";

/// Who says at the levels below `info` how WebAssembly is compiled and laid out, which is nobody's question about a server.
const COMPILER: [&str; 3] = ["wasmtime=info", "cranelift=info", "regalloc2=info"];

/// The filter of the log: what the flag says, or the variable, or information and worse. A level by itself is not the
/// compiler's.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn log_filter(flag: Option<&str>) -> Result<EnvFilter, CliError> {
    let Some(level) = flag else {
        let said = std::env::var(LOG_FILTER).unwrap_or_default();
        return Ok(EnvFilter::try_new(of_level(&said)).unwrap_or_else(|_| EnvFilter::new("info")));
    };
    // A word that is no level would be the name of a module, of which every line is shown.
    let known = ["error", "warn", "info", "debug", "trace", "off"];
    let refused = || {
        let message = format!("--log-level {level} is neither a level nor a filter");
        CliError::usage("CONFIG_INVALID", message, "levels are error, warn, info, debug and trace")
    };
    if !level.contains(['=', ',']) && !known.contains(&level) {
        return Err(refused());
    }
    EnvFilter::try_new(of_level(level)).map_err(|_| refused())
}

fn of_level(said: &str) -> String {
    match said {
        "" => "info".to_owned(),
        "debug" | "trace" => format!("{said},{}", COMPILER.join(",")),
        filter => filter.to_owned(),
    }
}

/// The filter of the log of an app's own server, which whoever writes the app reads: what the variable says, or what functions
/// say and what goes wrong, but not who has asked for what.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn log_filter_of_dev() -> String {
    std::env::var(LOG_FILTER).unwrap_or_else(|_| "info,audit=warn".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_by_itself_is_not_the_compilers() {
        let filter = |level| log_filter(Some(level)).unwrap().to_string();
        assert_eq!(filter("info"), "info");
        for level in ["debug", "trace"] {
            let of_both = filter(level);
            assert!(of_both.contains("wasmtime=info") && of_both.contains(level), "{of_both}");
        }
        assert_eq!(filter("wasmtime=debug"), "wasmtime=debug");
        assert_eq!(log_filter(Some("loud")).unwrap_err().code, "CONFIG_INVALID");
    }
}
