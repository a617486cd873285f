//! Whether who was deployed against one signature of a function can call another one: by its JSON Schemas, as far as they are
//! understood. What is not understood has to be the same.

use std::cell::RefCell;
use std::collections::HashSet;

use serde_json::{Map, Value};
use styx_protocol::interface::Signature;

use super::openapi::schema;

/// References that lead to each other, and schemas in each other, before it is given up.
const DEPTH_MAX: u32 = 64;

/// Pairs of schemas that are looked at: another app may have been made to be compared for ever.
const PAIRS_MAX: usize = 10_000;

/// Keywords that say nothing about which values there are.
const ANNOTATIONS: [&str; 14] = [
    "title",
    "description",
    "default",
    "examples",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
];

/// Bounds where less is narrower, and where more is.
const MOST: [&str; 5] = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];
const LEAST: [&str; 5] = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"];

/// What a caller that goes by `before` would meet in `after`, if it is not what it goes by.
///
/// # Errors
/// In words, after the function's name.
pub(super) fn check(before: &Signature, after: &Signature) -> Result<(), String> {
    for (at, parameter) in before.parameters.iter().enumerate() {
        let name = &parameter.name;
        let Some(now) = after.parameters.get(at) else { return Err(format!("has no parameter \"{name}\" any more")) };
        if now.name != *name {
            return Err(format!("has \"{}\" in place of parameter \"{name}\"", now.name));
        }
        if now.required && !parameter.required {
            return Err(format!("demands parameter \"{name}\", which could be left out"));
        }
        if !accepts(&schema(&now.schema), &schema(&parameter.schema)) {
            return Err(format!("takes less as parameter \"{name}\" than before"));
        }
    }
    if let Some(new) = after.parameters.iter().skip(before.parameters.len()).find(|parameter| parameter.required) {
        return Err(format!("demands a parameter \"{}\" that was not there", new.name));
    }
    if !accepts(&schema(&before.returns), &schema(&after.returns)) {
        return Err("may return what it did not before".into());
    }
    if before.read_only && !after.read_only {
        return Err("is not read-only any more".into());
    }
    Ok(())
}

/// Whether all that fits `narrow` fits `wide`; false also where that is not known.
fn accepts(wide: &Value, narrow: &Value) -> bool {
    let schemas = Schemas { wide, narrow, known: RefCell::default() };
    schemas.accepts(wide, narrow, 0)
}

/// Two documents, which references are followed in.
struct Schemas<'a> {
    wide: &'a Value,
    narrow: &'a Value,
    known: RefCell<Known>,
}

/// A schema of each document, by where they are.
type Pair = (*const Value, *const Value);

/// What is known of pairs. Types that contain themselves are compared as Amadio and Cardelli do (1993): a pair that is met
/// while it is looked at holds, unless something else of it does not.
#[derive(Default)]
struct Known {
    /// In the order in which they were met.
    assumed: Vec<Pair>,
    refuted: HashSet<Pair>,
    looked: usize,
}

impl<'a> Schemas<'a> {
    fn accepts(&self, wide: &'a Value, narrow: &'a Value, depth: u32) -> bool {
        let (Some(wide), Some(narrow)) = (follow(self.wide, wide), follow(self.narrow, narrow)) else { return false };
        let pair: Pair = (wide, narrow);
        let mark = {
            let mut known = self.known.borrow_mut();
            if known.assumed.contains(&pair) {
                return true;
            }
            known.looked += 1;
            if known.refuted.contains(&pair) || known.looked > PAIRS_MAX || depth > DEPTH_MAX {
                return false;
            }
            known.assumed.push(pair);
            known.assumed.len() - 1
        };
        let holds = self.compare(wide, narrow, depth + 1);
        if !holds {
            // So does nothing that was found on the assumption that it does.
            let mut known = self.known.borrow_mut();
            known.assumed.truncate(mark);
            known.refuted.insert(pair);
        }
        holds
    }

    fn compare(&self, wide: &'a Value, narrow: &'a Value, depth: u32) -> bool {
        let (wide_keys, narrow_keys) = match (wide, narrow) {
            (Value::Bool(true), _) | (_, Value::Bool(false)) => return true,
            (Value::Object(wide), Value::Bool(true)) => return wide.keys().all(|key| is_annotation(key)),
            (Value::Object(wide), Value::Object(narrow)) => (wide, narrow),
            _ => return false,
        };
        // Each of what may be has to fit one of what may be: sound, if not all that could be said.
        if let Some(choices) = choices(narrow_keys) {
            return choices.iter().all(|choice| self.accepts(wide, choice, depth));
        }
        if let Some(choices) = choices(wide_keys) {
            return choices.iter().any(|choice| self.accepts(choice, narrow, depth));
        }
        self.fits(wide_keys, narrow_keys, depth)
    }

    fn fits(&self, wide: &'a Map<String, Value>, narrow: &'a Map<String, Value>, depth: u32) -> bool {
        wide.iter().filter(|(key, _)| !is_annotation(key)).all(|(key, value)| {
            let given = narrow.get(key);
            match key.as_str() {
                "type" => types(narrow).is_some_and(|given| given.iter().all(|given| has_type(value, given))),
                "enum" | "const" => values(narrow).is_some_and(|given| {
                    let allowed = values(wide).unwrap_or_default();
                    given.iter().all(|value| allowed.contains(value))
                }),
                "required" => names(value).all(|name| names(given.unwrap_or(&Value::Null)).any(|given| given == name)),
                "properties" => value.as_object().is_some_and(|properties| {
                    properties.iter().all(|(name, property)| {
                        let given = given.and_then(|given| given.get(name));
                        given.is_none_or(|given| self.accepts(property, given, depth))
                    })
                }),
                "additionalProperties" => self.fits_additional(value, wide, narrow, depth),
                "items" => given.is_some_and(|given| self.accepts(value, given, depth)),
                key if MOST.contains(&key) => bound(given).is_some_and(|given| Some(given) <= bound(Some(value))),
                key if LEAST.contains(&key) => bound(given).is_some_and(|given| Some(given) >= bound(Some(value))),
                _ => given == Some(value),
            }
        })
    }

    /// Whether properties that `wide` does not name are allowed to be what `narrow` lets them be.
    fn fits_additional(
        &self,
        additional: &'a Value,
        wide: &'a Map<String, Value>,
        narrow: &'a Map<String, Value>,
        depth: u32,
    ) -> bool {
        let named = |of: &'a Map<String, Value>| of.get("properties").and_then(Value::as_object);
        let known = named(wide);
        let mut new = named(narrow)
            .into_iter()
            .flatten()
            .filter(|(name, _)| !known.is_some_and(|known| known.contains_key(*name)));
        let others = narrow.get("additionalProperties").unwrap_or(&Value::Bool(true));
        new.all(|(_, property)| self.accepts(additional, property, depth)) && self.accepts(additional, others, depth)
    }
}

fn is_annotation(key: &str) -> bool {
    ANNOTATIONS.contains(&key)
}

/// What a schema refers to in its own document, if it is a reference.
fn follow<'a>(document: &'a Value, mut schema: &'a Value) -> Option<&'a Value> {
    for _ in 0..DEPTH_MAX {
        let Some(reference) = schema.get("$ref") else { return Some(schema) };
        schema = document.pointer(reference.as_str()?.strip_prefix('#')?)?;
    }
    None
}

/// The alternatives of a schema that is nothing but those.
fn choices(schema: &Map<String, Value>) -> Option<&Vec<Value>> {
    let mut keys = schema.iter().filter(|(key, _)| !is_annotation(key));
    match (keys.next(), keys.next()) {
        (Some((key, Value::Array(choices))), None) if key == "anyOf" || key == "oneOf" => Some(choices),
        _ => None,
    }
}

/// The types that values of a schema have, if it says so.
fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    match schema.get("type") {
        Some(Value::String(one)) => Some(vec![one]),
        Some(Value::Array(several)) => several.iter().map(Value::as_str).collect(),
        Some(_) => None,
        None => values(schema)?.into_iter().map(|value| Some(type_of(value))).collect(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(allowed: &Value, given: &str) -> bool {
    let is = |allowed: &str| allowed == given || (allowed == "number" && given == "integer");
    match allowed {
        Value::String(one) => is(one),
        Value::Array(several) => several.iter().filter_map(Value::as_str).any(is),
        _ => false,
    }
}

/// The only values of a schema, if it names them.
fn values(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(one), None) => Some(vec![one]),
        (None, Some(Value::Array(several))) => Some(several.iter().collect()),
        _ => None,
    }
}

fn names(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn bound(value: Option<&Value>) -> Option<f64> {
    value.and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use styx_protocol::deployment::Parameter;

    use super::*;

    #[test]
    fn a_wider_schema_takes_what_a_narrower_one_does_and_not_the_other_way_round() {
        let order = |more: Value| {
            let mut schema = json!({
                "type": "object", "title": "Order", "additionalProperties": false,
                "properties": { "id": { "type": "string" } }, "required": ["id"],
            });
            schema["properties"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            schema
        };
        let tree = |leaf: &str| {
            json!({ "$ref": "#/$defs/T", "$defs": { "T": { "type": "object", "properties": {
                "leaf": { "type": leaf }, "left": { "$ref": "#/$defs/T" },
            } } } })
        };
        for (wide, narrow) in [
            (json!({}), json!({ "type": "integer" })),
            (json!(true), json!({ "pattern": "^a" })),
            (json!({ "type": "number" }), json!({ "type": "integer" })),
            (json!({ "type": ["string", "null"] }), json!({ "type": "string" })),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), json!({ "type": "null" })),
            (json!({ "type": "string" }), json!({ "enum": ["a", "b"] })),
            (json!({ "enum": ["a", "b", "c"] }), json!({ "enum": ["c", "a"] })),
            (json!({ "enum": ["a", "b"] }), json!({ "const": "b" })),
            (json!({ "type": "integer", "minimum": 0 }), json!({ "type": "integer", "minimum": 1, "maximum": 5 })),
            (json!({ "type": "string", "maxLength": 9 }), json!({ "type": "string", "maxLength": 3 })),
            (
                json!({ "type": "array", "items": { "type": "number" } }),
                json!({ "type": "array", "items": { "type": "integer" } }),
            ),
            (order(json!({ "note": { "type": "string" } })), order(json!({}))),
            (
                json!({ "type": "object", "additionalProperties": { "type": "number" } }),
                json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
            ),
            (
                json!({ "type": "object", "properties": { "id": { "type": "string" } } }),
                order(json!({ "note": { "type": "string" } })),
            ),
        ] {
            assert!(accepts(&wide, &narrow) && accepts(&wide, &wide) && accepts(&narrow, &narrow), "{wide} {narrow}");
            assert!(!accepts(&narrow, &wide), "{narrow} {wide}");
        }
        // What is only said otherwise is the same.
        let plain = json!({ "type": "string", "pattern": "^a" });
        let told = json!({ "type": "string", "pattern": "^a", "title": "A", "description": "text", "default": "a" });
        let referred = json!({ "$ref": "#/$defs/A", "$defs": { "A": plain } });
        for (one, other) in [(&plain, &told), (&told, &plain), (&plain, &referred), (&referred, &told)] {
            assert!(accepts(one, other), "{one} {other}");
        }
        // What is not understood has to be the same; what refers to itself is no endless loop.
        assert!(!accepts(&json!({ "not": { "type": "null" } }), &json!({ "type": "string" })));
        assert!(!accepts(&json!({ "pattern": "a" }), &json!({ "pattern": "^a" })));
        assert!(!accepts(&tree("string"), &tree("integer")) && !accepts(&tree("integer"), &tree("number")));
        assert!(accepts(&tree("number"), &tree("integer")) && accepts(&tree("string"), &tree("string")));
        let (rounds, start) = (12, std::time::Instant::now());
        let maze = |leaf: &str| {
            let level = |next: usize| {
                let to = |key: &str| json!({ "type": "object", "properties": { key: { "$ref": format!("#/$defs/{next}") } } });
                json!({ "anyOf": [to("a"), to("b"), to("c"), { "type": leaf }] })
            };
            let defs: Map<String, Value> = (0..rounds).map(|at| (at.to_string(), level((at + 1) % rounds))).collect();
            json!({ "$ref": "#/$defs/0", "$defs": defs })
        };
        assert!(accepts(&maze("string"), &maze("string")) && !accepts(&maze("string"), &maze("integer")));
        assert!(start.elapsed().as_secs() < 5, "it does not walk all ways through it");
        let endless = json!({ "$ref": "#" });
        assert!(!accepts(&endless, &endless) && !accepts(&json!({ "$ref": "#/$defs/none" }), &json!({})));
    }

    fn signature(parameters: &[(&str, bool, &str)], returns: &str, read_only: bool) -> Signature {
        let parameter = |&(name, required, schema): &(&str, bool, &str)| Parameter {
            name: name.into(),
            schema: schema.into(),
            required,
        };
        Signature { parameters: parameters.iter().map(parameter).collect(), returns: returns.into(), read_only }
    }

    #[test]
    fn a_caller_is_told_what_a_version_would_take_from_it() {
        let (int, number) = (r#"{"type":"integer"}"#, r#"{"type":"number"}"#);
        let before = signature(&[("cents", true, int), ("note", false, "{}")], number, true);
        for (after, expected) in [
            (before.clone(), Ok(())),
            (signature(&[("cents", true, number), ("note", false, "{}"), ("new", false, int)], int, true), Ok(())),
            (signature(&[("cents", false, int), ("note", false, "{}")], number, true), Ok(())),
            (signature(&[("cents", true, int)], number, true), Err("has no parameter \"note\" any more")),
            (
                signature(&[("note", true, int), ("cents", false, "{}")], number, true),
                Err("has \"note\" in place of parameter \"cents\""),
            ),
            (
                signature(&[("cents", true, int), ("note", true, "{}")], number, true),
                Err("demands parameter \"note\", which could be left out"),
            ),
            (
                signature(&[("cents", true, r#"{"type":"string"}"#), ("note", false, "{}")], number, true),
                Err("takes less as parameter \"cents\" than before"),
            ),
            (
                signature(&[("cents", true, int), ("note", false, "{}"), ("new", true, int)], number, true),
                Err("demands a parameter \"new\" that was not there"),
            ),
            (
                signature(&[("cents", true, int), ("note", false, "{}")], "{}", true),
                Err("may return what it did not before"),
            ),
            (
                signature(&[("cents", true, int), ("note", false, "{}")], number, false),
                Err("is not read-only any more"),
            ),
        ] {
            assert_eq!(check(&before, &after), expected.map_err(str::to_owned));
        }
    }
}
