//! Parameter of a function, compiled to check arguments.
//!
//! The common schemas (a plain string, an integer with bounds) are checked on the text itself;
//! everything else, and everything that such a check does not settle at a glance, by a compiled
//! JSON Schema.

use serde_json::Value;
use styx_protocol::deployment;

use super::json;
use super::schema::Schema;
use crate::http::shorten;

const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// Compiled parameter of a function.
#[derive(Debug)]
pub struct Parameter {
    pub name: String,
    pub required: bool,
    /// The schema's default as compact JSON.
    pub default: Option<Vec<u8>>,
    /// A word for its type, in messages.
    pub kind: String,
    fast_path: FastPath,
    /// `None`: anything.
    checker: Option<Schema>,
}

/// Check of the text itself, which often settles the matter.
#[derive(Debug, PartialEq)]
enum FastPath {
    Never,
    Any,
    Integer { minimum: i64, maximum: i64 },
    Number,
    String,
    Boolean,
}

impl Parameter {
    /// Compiles a declared parameter.
    ///
    /// # Errors
    /// Its schema is none; the text says why.
    pub fn compile(declared: &deployment::Parameter) -> Result<Self, String> {
        let wrong =
            |why: &dyn std::fmt::Display| format!("the schema of parameter `{}` {why}", shorten(&declared.name));
        if declared.schema.len() > SCHEMA_BYTES_MAX {
            return Err(wrong(&format_args!("has more than {SCHEMA_BYTES_MAX} bytes")));
        }
        let schema = json::strict(&declared.schema).map_err(|error| wrong(&format_args!("is not JSON: {error}")))?;
        let fast_path = FastPath::of(&schema);
        let checker = match fast_path {
            FastPath::Any => None,
            _ => Some(Schema::compile(&schema).map_err(|why| wrong(&format_args!("is no JSON Schema: {why}")))?),
        };
        let default = schema.get("default").map(|default| default.to_string().into_bytes());
        Ok(Parameter {
            name: declared.name.clone(),
            required: declared.required,
            default,
            kind: kind(&schema),
            fast_path,
            checker,
        })
    }

    /// A parameter whose schema this version cannot compile: the function checks it itself.
    pub fn unchecked(declared: &deployment::Parameter) -> Self {
        Parameter {
            name: declared.name.clone(),
            required: declared.required,
            default: None,
            kind: String::from("any"),
            fast_path: FastPath::Any,
            checker: None,
        }
    }

    /// Checks JSON text without white space around it, and appends it compacted. Says what is wrong.
    pub fn take(&self, raw: &str, out: &mut Vec<u8>) -> Result<(), String> {
        if self.fast_path.accepts(raw) {
            out.extend_from_slice(raw.as_bytes());
            return Ok(());
        }
        let value = json::strict(raw).map_err(|error| format!("is not taken: {error}"))?;
        if let Some(schema) = &self.checker {
            schema.check(&value, raw.len())?;
        }
        json::compact(raw.as_bytes(), out);
        Ok(())
    }
}

impl FastPath {
    fn of(schema: &Value) -> FastPath {
        let object = match schema {
            Value::Bool(true) => return FastPath::Any,
            Value::Object(object) => object,
            _ => return FastPath::Never,
        };
        let mut asserting = object
            .keys()
            .filter(|key| !matches!(key.as_str(), "title" | "description" | "default" | "examples" | "$comment"));
        if asserting.clone().next().is_none() {
            return FastPath::Any;
        }
        match object.get("type").and_then(Value::as_str) {
            Some("integer") if asserting.all(|key| matches!(key.as_str(), "type" | "minimum" | "maximum")) => {
                let bound = |key: &str, otherwise| object.get(key).map_or(Some(otherwise), Value::as_i64);
                match (bound("minimum", i64::MIN), bound("maximum", i64::MAX)) {
                    (Some(minimum), Some(maximum)) => FastPath::Integer { minimum, maximum },
                    _ => FastPath::Never,
                }
            }
            Some(kind) if asserting.all(|key| key == "type") => match kind {
                "number" => FastPath::Number,
                "string" => FastPath::String,
                "boolean" => FastPath::Boolean,
                _ => FastPath::Never,
            },
            _ => FastPath::Never,
        }
    }

    /// Returns true if the text is certainly of the schema. `false` decides nothing.
    fn accepts(&self, raw: &str) -> bool {
        /// Digits that fit an `i64` and, as a float, lose nothing.
        const DIGITS: usize = 15;
        let first = raw.as_bytes().first().copied().unwrap_or_default();
        match self {
            FastPath::Never => false,
            // What has an inside needs a look at it; scalars without escapes do not.
            FastPath::Any => match first {
                b'"' => memchr::memchr(b'\\', raw.as_bytes()).is_none(),
                b'[' | b'{' => false,
                _ => raw.len() <= DIGITS && !raw.contains(['e', 'E']) || matches!(raw, "true" | "false"),
            },
            FastPath::Integer { minimum, maximum } => {
                let digits = raw.strip_prefix('-').unwrap_or(raw);
                digits.len() <= DIGITS
                    && digits.bytes().all(|byte| byte.is_ascii_digit())
                    && raw.parse::<i64>().is_ok_and(|value| (*minimum..=*maximum).contains(&value))
            }
            FastPath::Number => {
                raw.len() <= DIGITS && (first == b'-' || first.is_ascii_digit()) && !raw.contains(['e', 'E'])
            }
            FastPath::String => first == b'"' && memchr::memchr(b'\\', raw.as_bytes()).is_none(),
            FastPath::Boolean => matches!(raw, "true" | "false"),
        }
    }
}

fn kind(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ => String::from("any"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(schema: &str) -> Result<Parameter, String> {
        Parameter::compile(&deployment::Parameter { name: "p".into(), schema: schema.into(), required: true })
    }

    #[test]
    fn values_are_taken_or_refused_with_a_reason() {
        for (schema, raw, expect) in [
            (r#"{"type":"integer"}"#, "1", Ok("1")),
            (r#"{"type":"integer"}"#, "-0", Ok("-0")),
            (r#"{"type":"integer"}"#, "1.0", Ok("1.0")),
            (r#"{"type":"integer"}"#, "123456789012345678901234567890", Ok("123456789012345678901234567890")),
            (r#"{"type":"integer"}"#, "1.5", Err("is not taken: 1.5 is not of type \"integer\"")),
            (r#"{"type":"integer"}"#, "\"1\"", Err("is not taken: \"1\" is not of type \"integer\"")),
            (r#"{"type":"integer"}"#, "true", Err("is not taken: true is not of type \"integer\"")),
            (r#"{"type":"integer","minimum":0,"maximum":255}"#, "255", Ok("255")),
            (
                r#"{"type":"integer","minimum":0,"maximum":255}"#,
                "256",
                Err("is not taken: 256 is greater than the maximum of 255"),
            ),
            (r#"{"type":"integer","minimum":0}"#, "-1", Err("is not taken: -1 is less than the minimum of 0")),
            (r#"{"type":"number"}"#, "1e3", Ok("1e3")),
            (r#"{"type":"number"}"#, "1e999", Err("is not taken: number out of range at line 1 column 5")),
            (r#"{"type":"string"}"#, r#""a\nb""#, Ok(r#""a\nb""#)),
            (
                r#"{"type":"string"}"#,
                r#""\ud800""#,
                Err("is not taken: unexpected end of hex escape at line 1 column 8"),
            ),
            (r#"{"type":"boolean"}"#, "false", Ok("false")),
            (r#"{"type":"boolean"}"#, "null", Err("is not taken: null is not of type \"boolean\"")),
            ("{}", r#"{"a": [1, {"b" : 2}]}"#, Ok(r#"{"a":[1,{"b":2}]}"#)),
            ("true", r#"[{"a":1,"a":2}]"#, Err("is not taken: the key \"a\" is there twice at line 1 column 11")),
            ("{}", "1e999", Err("is not taken: number out of range at line 1 column 5")),
            (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, "null", Ok("null")),
            (
                r##"{"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}}}"##,
                "[[], [[]]]",
                Ok("[[],[[]]]"),
            ),
            (
                r#"{"type":"array","items":{"type":"integer"}}"#,
                r#"[1,"x"]"#,
                Err("is not taken: at /1: \"x\" is not of type \"integer\""),
            ),
            (
                r#"{"type":"string","pattern":"^(a+)+$"}"#,
                r#""aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab""#,
                Err(
                    "is not taken: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\" does not match \"^(a+)+$\"",
                ),
            ),
        ] {
            let mut out = Vec::new();
            let taken = parameter(schema).unwrap().take(raw, &mut out).map(|()| String::from_utf8(out).unwrap());
            assert_eq!(taken.as_deref().map_err(String::as_str), expect, "{schema} {raw}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused_at_deployment() {
        for (schema, why) in [
            ("{", "the schema of parameter `p` is not JSON: EOF while parsing an object at line 1 column 1"),
            ("3", "the schema of parameter `p` is no JSON Schema: "),
            (r#"{"type":"intger"}"#, "the schema of parameter `p` is no JSON Schema: "),
            (r#"{"$ref":"http://127.0.0.1:1/schema"}"#, "the schema of parameter `p` is no JSON Schema: "),
            (r#"{"$ref":"file:///etc/passwd"}"#, "the schema of parameter `p` is no JSON Schema: "),
            (r#"{"type":"string","pattern":"(?=a)"}"#, "the schema of parameter `p` is no JSON Schema: "),
            (&format!("\"{}\"", "x".repeat(SCHEMA_BYTES_MAX)), "the schema of parameter `p` has more than 65536 bytes"),
        ] {
            let error = parameter(schema).map(|_| ()).expect_err(schema);
            assert!(error.starts_with(why), "{schema}: {error}");
        }
    }

    #[test]
    fn a_fast_yes_is_never_wrong() {
        let schemas = [
            r#"{"type":"integer","minimum":-5,"maximum":5}"#,
            r#"{"type":"integer"}"#,
            r#"{"type":"number"}"#,
            r#"{"type":"string"}"#,
            r#"{"type":"boolean"}"#,
            "{}",
        ];
        let values = [
            "0",
            "-0",
            "6",
            "5",
            "-6",
            "01",
            "1.5",
            "1e3",
            "999999999999999",
            "9999999999999999",
            "\"\"",
            "\"x\"",
            "true",
            "null",
            "[]",
            "{}",
        ];
        for schema in schemas {
            let (compiled, tree) = (parameter(schema).unwrap(), json::strict(schema).unwrap());
            for raw in values {
                if let Ok(value) = json::strict(raw) {
                    let valid = Schema::compile(&tree).unwrap().check(&value, raw.len()).is_ok();
                    assert!(!compiled.fast_path.accepts(raw) || valid, "{schema} {raw}");
                    assert_eq!(compiled.take(raw, &mut Vec::new()).is_ok(), valid, "{schema} {raw}");
                }
            }
        }
    }
}
