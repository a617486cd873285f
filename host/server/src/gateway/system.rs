//! System functions: what can be asked of any entity, besides what its app declares.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use styx_protocol::system::SystemFunction;

use super::json::{compact, strict};
use crate::http::{ApiError, shorten};

/// Arguments of `styx.put` by name: a value, or bytes that are no JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    base64: Option<Cow<'a, str>>,
}

/// `null` is a value.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The arguments of a system function, as the protocol takes them.
///
/// # Errors
/// 400 `BAD_ARGUMENTS`.
pub fn arguments(function: SystemFunction, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    match function {
        SystemFunction::Put => value(body),
        SystemFunction::Delete => no_arguments(function, body).map(|()| Vec::new()),
        SystemFunction::Migrate => no_arguments(function, body).map(|()| b"[]".to_vec()),
    }
}

/// The bytes to be written.
fn value(body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let refused = |why: &dyn std::fmt::Display| {
        ApiError::bad_arguments(format!("{why}")).hint(r#"styx.put takes [value], {"value": …} or {"base64": "…"}"#)
    };
    let text = std::str::from_utf8(body).map_err(|_| refused(&"the arguments are not UTF-8"))?;
    let put = match text.trim_start().as_bytes().first() {
        Some(b'[') => {
            serde_json::from_str(text).map(|[value]: [&RawValue; 1]| Put { value: Some(value), base64: None })
        }
        _ => serde_json::from_str(text),
    };
    let raw = match put.map_err(|error| refused(&format_args!("the arguments are no value: {error}")))? {
        Put { value: Some(value), base64: None } => value,
        Put { value: None, base64: Some(bytes) } => {
            return STANDARD
                .decode(bytes.as_bytes())
                .map_err(|error| refused(&format_args!("\"{}\" is no base64: {error}", shorten(&bytes))));
        }
        _ => return Err(refused(&"there has to be either a value or base64")),
    };
    strict(raw.get()).map_err(|error| refused(&format_args!("the value is no JSON: {error}")))?;
    let mut value = Vec::with_capacity(raw.get().len());
    compact(raw.get().as_bytes(), &mut value);
    Ok(value)
}

fn no_arguments(function: SystemFunction, body: &[u8]) -> Result<(), ApiError> {
    match body.trim_ascii() {
        b"" | b"null" | b"[]" | b"{}" => Ok(()),
        _ => Err(ApiError::bad_arguments(format!("{} takes no arguments", function.name()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_written_as_it_is_without_white_space() {
        let fine: [(&str, &[u8]); 6] = [
            (r#"[{"a": [1, 2.50]}]"#, br#"{"a":[1,2.50]}"#),
            (r#"{"value": null}"#, b"null"),
            (r#" [ "x y" ] "#, br#""x y""#),
            (r#"{"base64": "AAH/"}"#, &[0, 1, 255]),
            (r#"{"base64": ""}"#, b""),
            ("[900719925474099312345]", b"900719925474099312345"),
        ];
        for (body, expected) in fine {
            assert_eq!(value(body.as_bytes()).unwrap(), expected, "{body}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused_with_its_reason() {
        let wrong = [
            ("", "no value"),
            ("1", "no value"),
            ("[]", "no value"),
            ("[1, 2]", "no value"),
            ("{}", "either"),
            (r#"{"value": 1, "base64": "AA=="}"#, "either"),
            (r#"{"values": 1}"#, "values"),
            (r#"{"base64": "%"}"#, "base64"),
            (r#"[{"a": 1, "a": 2}]"#, "no JSON"),
            ("[nan]", "no value"),
        ];
        for (body, why) in wrong {
            let error = value(body.as_bytes()).unwrap_err();
            assert_eq!(error.code, "BAD_ARGUMENTS", "{body}");
            assert!(error.message.contains(why), "{body}: {}", error.message);
        }
        assert!(value(b"[\"\xff\"]").unwrap_err().message.contains("UTF-8"));
    }

    #[test]
    fn a_removal_and_a_migration_take_nothing() {
        for (function, passed) in [(SystemFunction::Delete, ""), (SystemFunction::Migrate, "[]")] {
            for body in ["", "null", "[]", "{}", " [] "] {
                assert_eq!(arguments(function, body.as_bytes()).unwrap(), passed.as_bytes());
            }
            let error = arguments(function, b"[1]").unwrap_err();
            assert!(error.code == "BAD_ARGUMENTS" && error.message.starts_with(function.name()), "{}", error.message);
        }
    }
}
