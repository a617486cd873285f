//! JSON that is passed on as it was written: checked strictly, never reformatted.
//!
//! Numbers keep their digits (a tree would round long ones) and objects their order; only white
//! space goes. A key that stands twice in an object is refused, since languages differ on which
//! of the two they take.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads JSON into a tree, refusing duplicate keys.
///
/// # Errors
/// It is not JSON, nests too deeply, or has a key twice.
pub fn strict(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str::<Strict>(text).map(|Strict(value)| value)
}

/// Returns true if bytes are one JSON value.
pub fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok() && std::str::from_utf8(bytes).is_ok()
}

/// Appends valid JSON without the white space between its tokens.
pub fn compact(json: &[u8], out: &mut Vec<u8>) {
    if !json.iter().any(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {
        out.extend_from_slice(json);
        return;
    }
    let (mut inside, mut escaped) = (false, false);
    for &byte in json {
        if inside {
            (inside, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
        } else if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            continue;
        } else {
            inside = byte == b'"';
        }
        out.push(byte);
    }
}

/// Appends text as a JSON string.
pub fn string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("text can be written to memory");
}

/// Appends a number, without the machinery of formatting.
pub fn number(number: u64, out: &mut Vec<u8>) {
    serde_json::to_writer(out, &number).expect("a number can be written to memory");
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tree;
        impl<'de> Visitor<'de> for Tree {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
                let mut array = Vec::new();
                while let Some(Strict(element)) = elements.next_element()? {
                    array.push(element);
                }
                Ok(Value::Array(array))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
                let mut object = Map::new();
                while let Some(key) = entries.next_key::<String>()? {
                    if object.contains_key(&key) {
                        return Err(A::Error::custom(format_args!(
                            "the key {:?} is there twice",
                            crate::http::shorten(&key)
                        )));
                    }
                    let Strict(value) = entries.next_value()?;
                    object.insert(key, value);
                }
                Ok(Value::Object(object))
            }
        }
        deserializer.deserialize_any(Tree).map(Strict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_refused_at_any_depth() {
        for (text, why) in [
            (r#"{"a":1,"a":1}"#, "the key \"a\" is there twice"),
            (r#"[{"b":{"a":1,"\u0061":2}}]"#, "the key \"a\" is there twice"),
            ("[1,]", "trailing comma"),
            ("1e999", "number out of range"),
            (r#""\ud800""#, "unexpected end of hex escape"),
            ("[1] 2", "trailing characters"),
            (&"[".repeat(1000), "recursion limit exceeded"),
        ] {
            let error = strict(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert_eq!(
            strict(r#" {"a" : [1, -2, 0.5, null, true, "x"]} "#).unwrap(),
            serde_json::json!({"a": [1, -2, 0.5, null, true, "x"]})
        );
    }

    #[test]
    fn compacting_leaves_strings_and_digits_alone() {
        for (text, expect) in [
            ("1.00", "1.00"),
            (" [ 1 ,\n\t2 ] ", "[1,2]"),
            (
                r#"{ "a b" : "c \" d\\" , "e" : 123456789012345678901234567890 }"#,
                r#"{"a b":"c \" d\\","e":123456789012345678901234567890}"#,
            ),
            (r#"[ "\\" , " " ]"#, r#"["\\"," "]"#),
        ] {
            let mut out = Vec::new();
            compact(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        }
    }

    proptest::proptest! {
        #[test]
        fn compacting_keeps_the_value(value in crate::gateway::tests::any_json()) {
            let mut out = Vec::new();
            compact(serde_json::to_string_pretty(&value).unwrap().as_bytes(), &mut out);
            assert_eq!(std::str::from_utf8(&out).unwrap(), serde_json::to_string(&value).unwrap());
        }
    }
}
