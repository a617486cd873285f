//! JSON Schemas of guests, compiled so that a check takes a bounded amount of work.
//!
//! A schema of a few lines can ask for 2^40 steps: each definition refers to the next one twice. So every subschema gets
//! one more, with a keyword of ours that counts and ends the check when it has taken more than a value of its size may.
//! It stands in `allOf`, which is checked before everything that leads to other subschemas for the same value.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// Keywords that a check may compare with values, however short the value is…
const STEPS: u64 = 100_000;
/// …and for each of its bytes.
const STEPS_PER_BYTE: u64 = 16;
/// The keyword that counts.
const COUNTED: &str = "styx:steps";

/// Compiled schema.
#[derive(Debug)]
pub struct Schema(Validator);

thread_local! {
    /// Steps left of the check under way on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// What a check unwinds with when it has no steps left: nothing else ends a check from within.
struct TooMuchWork;

impl Schema {
    /// Compiles a schema that a guest sent.
    ///
    /// # Errors
    /// It is none, or refers to something that is no part of it.
    pub fn compile(schema: &Value) -> Result<Schema, String> {
        let mut counting = schema.clone();
        let mut walk = Walk::default();
        walk.schema(&mut counting, String::from("#"));
        if let Some(reference) = walk.references.iter().find(|reference| !walk.places.contains(&decoded(reference))) {
            return Err(format!("\"{}\" refers to no schema within it", crate::http::shorten(reference)));
        }
        let patterns = PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20);
        let compiled = jsonschema::options().with_pattern_options(patterns).with_keyword(COUNTED, counter);
        compiled.build(&counting).map(Schema).map_err(|error| shorten(&error.to_string()))
    }

    /// Checks a value of so many bytes.
    ///
    /// # Errors
    /// It is not of the schema, or the check takes too long; the text says where and why.
    pub fn check(&self, value: &Value, bytes: usize) -> Result<(), String> {
        LEFT.set(STEPS + STEPS_PER_BYTE * bytes as u64);
        let checked = catch_unwind(AssertUnwindSafe(|| self.0.validate(value).map_err(|error| described(&error))));
        checked.unwrap_or_else(|panic| match panic.downcast::<TooMuchWork>() {
            Ok(_) => Err(String::from("cannot be checked: its schema asks for too much work")),
            Err(panic) => resume_unwind(panic),
        })
    }
}

fn described(error: &ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { String::new() } else { format!("at {}: ", crate::http::shorten(&place)) };
    // The offending value is quoted unless it is long.
    let why = error.to_string();
    let why = if why.len() <= 256 { why } else { error.masked().to_string() };
    format!("is not taken: {place}{}", shorten(&why))
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 512;
    text.chars().take(SHOWN).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// A fragment as the pointer that it stands for.
fn decoded(reference: &str) -> String {
    percent_decode_str(reference).decode_utf8_lossy().into_owned()
}

/// Counts the steps of one subschema: everything in it may be compared with each element of a value.
struct Counter(u64);

#[expect(clippy::unnecessary_wraps, reason = "the type of a factory")]
fn counter<'a>(
    _: &'a Map<String, Value>,
    keywords: &'a Value,
    _: jsonschema::paths::Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(Counter(keywords.as_u64().unwrap_or(1))))
}

/// How many values a schema consists of, without its definitions.
fn size(schema: &Value) -> u64 {
    match schema {
        Value::Array(values) => 1 + values.iter().map(size).sum::<u64>(),
        Value::Object(keywords) => {
            let defines = |keyword: &str| matches!(keyword, "$defs" | "definitions");
            1 + keywords.iter().filter(|(keyword, _)| !defines(keyword)).map(|(_, value)| size(value)).sum::<u64>()
        }
        _ => 1,
    }
}

impl<'i> Keyword<'i> for Counter {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        self.is_valid(instance);
        Ok(())
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let elements = instance.as_array().map_or(0, Vec::len) + instance.as_object().map_or(0, Map::len);
        let Some(left) = LEFT.get().checked_sub(self.0 * (1 + elements as u64)) else {
            resume_unwind(Box::new(TooMuchWork))
        };
        LEFT.set(left);
        true
    }
}

/// Walk through a schema that makes every subschema count.
#[derive(Default)]
struct Walk {
    /// JSON pointers of all subschemas.
    places: BTreeSet<String>,
    /// What is referred to.
    references: BTreeSet<String>,
}

impl Walk {
    fn schema(&mut self, schema: &mut Value, place: String) {
        self.places.insert(place.clone());
        let size = size(schema);
        let Value::Object(keywords) = schema else { return };
        for (keyword, value) in keywords.iter_mut() {
            let below = |name: &str| format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    self.references.insert(reference.clone());
                }
                (
                    "$defs" | "definitions" | "properties" | "patternProperties" | "dependentSchemas" | "dependencies",
                    Value::Object(schemas),
                ) => {
                    let place = below(keyword);
                    for (name, schema) in schemas.iter_mut().filter(|(_, schema)| !schema.is_array()) {
                        let name = name.replace('~', "~0").replace('/', "~1");
                        self.schema(schema, format!("{place}/{name}"));
                    }
                }
                ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                    let place = below(keyword);
                    for (at, schema) in schemas.iter_mut().enumerate() {
                        self.schema(schema, format!("{place}/{at}"));
                    }
                }
                (
                    "items"
                    | "additionalItems"
                    | "unevaluatedItems"
                    | "contains"
                    | "additionalProperties"
                    | "unevaluatedProperties"
                    | "propertyNames"
                    | "not"
                    | "if"
                    | "then"
                    | "else"
                    | "contentSchema",
                    schema,
                ) => self.schema(schema, below(keyword)),
                _ => {}
            }
        }
        if let Value::Array(all) = keywords.entry("allOf").or_insert_with(|| Value::Array(Vec::new())) {
            all.push(Value::Object(Map::from_iter([(COUNTED.to_owned(), size.into())])));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_check_that_would_never_end_ends() {
        let twice = |combine: &str, next: usize| {
            let next = json!({ "$ref": format!("#/$defs/{next}") });
            json!({ combine: [next.clone(), next] })
        };
        for combine in ["allOf", "anyOf", "oneOf"] {
            let levels = (0..40).map(|level| (level.to_string(), twice(combine, level + 1)));
            let mut levels: Map<String, Value> = levels.collect();
            levels.insert("40".into(), json!({ "type": "integer", "minimum": 2 }));
            let schema = Schema::compile(&json!({ "$ref": "#/$defs/0", "$defs": levels })).unwrap();
            let error = schema.check(&json!(1), 1).expect_err(combine);
            assert!(error.starts_with("cannot be checked: ") || combine == "allOf", "{combine}: {error}");
        }
        let deep = json!({ "properties": { "a": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] } }, "required": ["b"] });
        let value = (0..100).fold(json!({}), |value, _| json!({ "a": value, "b": 0 }));
        let schema = Schema::compile(&deep).unwrap();
        let error = schema.check(&value, value.to_string().len()).expect_err("its innermost value lacks a property");
        assert!(error.starts_with("cannot be checked: "), "{error}");
        let mut types = vec![json!({ "type": "string" }); 3000];
        types.push(json!({ "type": "integer" }));
        let wide = json!({ "items": { "anyOf": types } });
        let error = Schema::compile(&wide).unwrap().check(&Value::from(vec![7; 500_000]), 1_000_000).unwrap_err();
        assert!(error.starts_with("cannot be checked: "), "{error}");
        let absent = json!({ "allOf": vec![json!({ "not": { "contains": { "type": "string" } } }); 1000] });
        let error = Schema::compile(&absent).unwrap().check(&Value::from(vec![7; 500_000]), 1_000_000).unwrap_err();
        assert!(error.starts_with("cannot be checked: "), "{error}");
        // The thread is as good as before.
        assert_eq!(Schema::compile(&json!({ "type": "integer" })).unwrap().check(&json!(1), 1), Ok(()));
    }

    #[test]
    fn a_long_value_may_take_long() {
        let schema = json!({ "items": { "anyOf": [{ "type": "string" }, { "type": "integer" }] } });
        let value = Value::from(vec![7; 500_000]);
        assert_eq!(Schema::compile(&schema).unwrap().check(&value, 1_000_000), Ok(()));
    }

    /// A hundred and more that ask for what a server must not do, or are none: each is refused, in one line.
    #[test]
    fn hostile_schemas_are_refused() {
        let mut schemas = Vec::new();
        // Whatever leads out of the schema, wherever a schema may stand.
        let elsewhere = [
            "http://127.0.0.1:1/schema",
            "https://json-schema.example/x.json",
            "file:///etc/passwd",
            "other.json",
            "//127.0.0.1/x",
            "urn:uuid:deadbeef-1234-0000-0000-4321feebdaed",
            "#/nowhere",
        ];
        for reference in elsewhere {
            let leads = json!({ "$ref": reference });
            schemas.extend(["allOf", "anyOf", "oneOf", "prefixItems"].map(|all| json!({ all: [leads] })));
            let one =
                ["not", "if", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedProperties"];
            schemas.extend(one.map(|one| json!({ one: leads })));
            let named = ["properties", "patternProperties", "dependentSchemas", "$defs"];
            schemas.extend(named.map(|named| json!({ named: { "a": leads }, "$ref": reference })));
            schemas.push(json!({ "$dynamicRef": reference }));
        }
        // Keywords that are none.
        let numbers = ["minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxProperties"];
        schemas.extend(numbers.map(|keyword| json!({ keyword: "many" })));
        let schemas_wanted = ["items", "not", "if", "contains", "additionalProperties", "propertyNames"];
        schemas.extend(schemas_wanted.map(|keyword| json!({ keyword: 7 })));
        let lists = ["allOf", "anyOf", "oneOf", "required", "enum"];
        schemas.extend(lists.map(|keyword| json!({ keyword: { "a": 1 } })));
        let objects = ["properties", "patternProperties", "$defs", "dependentSchemas"];
        schemas.extend(objects.map(|keyword| json!({ keyword: [1] })));
        schemas.extend([json!({ "type": "anything" }), json!({ "type": ["string", 3] }), json!({ "multipleOf": 0 })]);
        // Patterns that are none, look around, or become too large.
        let patterns =
            ["(", "[z-a]", "a{2,1}", "(?=x)", "(?<!x)y", "(a)\\1", "((a{1000}){1000}){1000}", "\\p{Nothing}"];
        schemas.extend(patterns.map(|pattern| json!({ "pattern": pattern })));
        schemas.extend(patterns.map(|pattern| json!({ "patternProperties": { pattern: {} } })));
        schemas.extend([json!(7), json!("schema"), json!([]), json!(null)]);
        assert!(schemas.len() >= 100, "{}", schemas.len());
        for schema in schemas {
            let error = Schema::compile(&schema).expect_err(&schema.to_string());
            assert!(error.len() <= 2048 && !error.contains(char::is_control), "{schema}: {error:?}");
        }
    }

    #[test]
    fn references_lead_to_subschemas_only() {
        for (schema, good) in [
            (json!({ "properties": { "a/b": { "type": "string" }, "c": { "$ref": "#/properties/a~1b" } } }), true),
            (json!({ "$ref": "#/$defs/a%20b", "$defs": { "a b": true } }), true),
            (json!({ "items": { "$ref": "#" } }), true),
            (json!({ "$ref": "#/default", "default": { "type": "string" } }), false),
            (json!({ "$ref": "#/x/0", "x": [{ "type": "string" }] }), false),
            (json!({ "$ref": "other" }), false),
            (json!({ "$ref": "http://127.0.0.1:1/schema" }), false),
        ] {
            assert_eq!(Schema::compile(&schema).is_ok(), good, "{schema}");
        }
    }
}
