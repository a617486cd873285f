//! The path of a call: `{app}/{operator}/{key}/{function}`, each part percent-encoded.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::http::{ApiError, shorten};

/// Target of a call.
#[derive(Debug, PartialEq, Eq)]
pub struct CallPath<'a> {
    pub app: Cow<'a, str>,
    pub operator: Cow<'a, str>,
    pub key: Cow<'a, str>,
    pub function: Cow<'a, str>,
}

/// Reads the path behind `prefix` (as in `/v1/call/`).
///
/// # Errors
/// 404 if it has another number of parts; 400 if it is not properly encoded.
pub fn parse<'a>(path: &'a str, prefix: &str) -> Result<CallPath<'a>, ApiError> {
    let rest = path.strip_prefix(prefix).unwrap_or(path);
    let mut parts = rest.split('/');
    let (Some(app), Some(operator), Some(key), Some(function), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        let count = rest.split('/').count();
        return Err(ApiError::not_found(format!("{} has {count} parts behind {prefix}, not 4", shorten(path)))
            .hint(format!("{prefix}{{app}}/{{operator}}/{{key}}/{{function}}; a `/` in a key is written %2F")));
    };
    Ok(CallPath {
        app: decode("app", app)?,
        operator: decode("operator", operator)?,
        key: decode("key", key)?,
        function: decode("function", function)?,
    })
}

/// Decodes one part.
///
/// # Errors
/// 400 if what it decodes to is not UTF-8, or a `%` is not followed by two hexadecimal digits.
pub fn decode<'a>(what: &str, part: &'a str) -> Result<Cow<'a, str>, ApiError> {
    let refused = |why: &str| {
        ApiError::bad_arguments(format!("the {what} in the path {why}"))
            .hint("percent-encode the UTF-8 bytes of every character outside A-Z a-z 0-9 - . _ ~")
    };
    for (at, _) in part.match_indices('%') {
        let digits = part.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(refused("has a `%` without two hexadecimal digits behind it"));
        }
    }
    percent_decode_str(part).decode_utf8().map_err(|_| refused("is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (path, expect) in [
            ("/v1/call/a/b/c/d", Ok(["a", "b", "c", "d"])),
            ("/v1/call/a/b/x%2Fy%20%C3%A9/d", Ok(["a", "b", "x/y é", "d"])),
            ("/v1/call/a/b/+/d", Ok(["a", "b", "+", "d"])),
            ("/v1/call/a/b//d", Ok(["a", "b", "", "d"])),
            ("/v1/call/a/b/c", Err((404, "/v1/call/a/b/c has 3 parts behind /v1/call/, not 4"))),
            ("/v1/call/a/b/c/d/e", Err((404, "/v1/call/a/b/c/d/e has 5 parts behind /v1/call/, not 4"))),
            ("/v1/call/a/b/%FF/d", Err((400, "the key in the path is not UTF-8"))),
            ("/v1/call/a/b/%2/d", Err((400, "the key in the path has a `%` without two hexadecimal digits behind it"))),
            (
                "/v1/call/a/b/c/%zz",
                Err((400, "the function in the path has a `%` without two hexadecimal digits behind it")),
            ),
        ] {
            let parsed = parse(path, "/v1/call/");
            let parsed = parsed.as_ref().map(|call| [&*call.app, &*call.operator, &*call.key, &*call.function]);
            assert_eq!(parsed.map_err(|error| (error.status.as_u16(), error.message.as_str())), expect, "{path}");
        }
    }
}
