//! Schemas describe exactly what serde reads and writes.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use styx_sdk::prelude::*;
use styx_sdk::{Schema, Schemas};

fn check<T: Schema>(expected: Value) {
    let text = Schemas::of::<T>();
    let parsed: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(parsed, expected);
}

/// Has no schema.
#[derive(Serialize, Deserialize)]
struct Opaque;

#[derive(Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Customer {
    /// First and "last".
    full_name: String,
    #[serde(rename = "e-mail")]
    mail: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(skip)]
    _cache: u8,
    opaque: Opaque,
    r#type: bool,
}

#[derive(Serialize, Deserialize, Schema)]
struct Tree {
    children: Vec<Tree>,
}

#[derive(Serialize, Deserialize, Schema)]
struct Pair<T>(T, u8);

#[derive(Serialize, Deserialize, Schema)]
#[serde(transparent)]
struct Id {
    id: u16,
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(rename_all = "kebab-case")]
enum Colour {
    Red,
    DarkBlue,
}

#[derive(Serialize, Deserialize, Schema)]
enum Shape {
    Empty,
    Circle(f64),
    Square { side: f64 },
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Event {
    Started,
    Moved { x: i32 },
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(untagged)]
enum Either {
    Text(String),
    Number(f64),
}

#[test]
fn standard_types() {
    check::<u8>(json!({"type": "integer", "minimum": 0, "maximum": 255}));
    check::<Option<bool>>(json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}));
    check::<BTreeMap<String, Vec<f64>>>(
        json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}}),
    );
    check::<[String; 2]>(json!({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}));
    check::<(String, bool)>(
        json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "minItems": 2, "maxItems": 2}),
    );
}

#[test]
fn structs() {
    check::<Customer>(json!({
        "type": "object",
        "properties": {
            "fullName": {"description": "First and \"last\".", "allOf": [{"type": "string"}]},
            "e-mail": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "opaque": {},
            "type": {"type": "boolean"},
        },
        "required": ["fullName", "opaque", "type"],
        "additionalProperties": false,
    }));
    check::<Tree>(
        json!({"type": "object", "properties": {"children": {"type": "array", "items": {}}}, "required": ["children"]}),
    );
    check::<Pair<bool>>(json!({
        "type": "array",
        "prefixItems": [{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 255}],
        "minItems": 2, "maxItems": 2,
    }));
    check::<Id>(json!({"type": "integer", "minimum": 0, "maximum": 65535}));
}

#[test]
fn enums() {
    check::<Colour>(json!({"type": "string", "enum": ["red", "dark-blue"]}));
    check::<Shape>(json!({"anyOf": [
        {"const": "Empty"},
        {"type": "object", "properties": {"Circle": {"type": "number"}}, "required": ["Circle"], "additionalProperties": false},
        {
            "type": "object",
            "properties": {"Square": {"type": "object", "properties": {"side": {"type": "number"}}, "required": ["side"]}},
            "required": ["Square"], "additionalProperties": false,
        },
    ]}));
    check::<Event>(json!({"anyOf": [
        {"type": "object", "properties": {"kind": {"const": "started"}}, "required": ["kind"], "additionalProperties": false},
        {
            "type": "object",
            "properties": {"kind": {"const": "moved"}, "x": {"type": "integer", "minimum": -2147483648i64, "maximum": 2147483647}},
            "required": ["kind", "x"],
        },
    ]}));
    check::<Either>(json!({"anyOf": [{"type": "string"}, {"type": "number"}]}));
}
