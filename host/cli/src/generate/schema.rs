//! Types as JSON Schema says them, in a form that languages can write. What a schema demands beyond a type (bounds, patterns) is
//! the server's to check.

use serde_json::Value;

/// Definitions that refer to each other end here: deeper down anything goes.
const DEPTH_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Any,
    Null,
    Boolean,
    Integer,
    Number,
    Text,
    /// One of these values, as JSON.
    Literals(Vec<Value>),
    List(Box<Type>),
    Tuple(Vec<Type>),
    Map(Box<Type>),
    /// Name, whether it must be there, and type of each property.
    Record(Vec<(String, bool, Type)>),
    Union(Vec<Type>),
}

impl Type {
    pub(super) fn of(schema: &Value) -> Type {
        read(schema, schema, 0)
    }
}

fn read(schema: &Value, root: &Value, depth: usize) -> Type {
    let Some(object) = schema.as_object().filter(|_| depth < DEPTH_MAX) else { return Type::Any };
    let inner = |schema: &Value| read(schema, root, depth + 1);
    if let Some(path) = object.get("$ref").and_then(Value::as_str) {
        let found = path.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.map_or(Type::Any, inner);
    }
    if let Some(value) = object.get("const") {
        return Type::Literals(vec![value.clone()]);
    }
    if let Some(values) = object.get("enum").and_then(Value::as_array) {
        return Type::Literals(values.clone());
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = object.get(key).and_then(Value::as_array) {
            return union(choices.iter().map(inner).collect());
        }
    }
    match object.get("type") {
        Some(Value::String(name)) => named(name, schema, &inner),
        Some(Value::Array(names)) => {
            union(names.iter().filter_map(Value::as_str).map(|name| named(name, schema, &inner)).collect())
        }
        _ => Type::Any,
    }
}

fn named(name: &str, schema: &Value, inner: &dyn Fn(&Value) -> Type) -> Type {
    match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "string" => Type::Text,
        "array" => match schema["prefixItems"].as_array() {
            Some(items) => Type::Tuple(items.iter().map(inner).collect()),
            None => Type::List(Box::new(inner(&schema["items"]))),
        },
        "object" => match schema["properties"].as_object() {
            Some(properties) if !properties.is_empty() => {
                let required = schema["required"].as_array();
                let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|found| found == name));
                let property = |(name, schema): (&String, &Value)| (name.clone(), is_required(name), inner(schema));
                Type::Record(properties.iter().map(property).collect())
            }
            _ => Type::Map(Box::new(inner(&schema["additionalProperties"]))),
        },
        _ => Type::Any,
    }
}

/// One of several; the same is said once.
fn union(choices: Vec<Type>) -> Type {
    let mut different: Vec<Type> = Vec::new();
    for choice in choices {
        let parts = match choice {
            Type::Any => return Type::Any,
            Type::Union(parts) => parts,
            other => vec![other],
        };
        for part in parts {
            if !different.contains(&part) {
                different.push(part);
            }
        }
    }
    match different.len() {
        0 => Type::Any,
        1 => different.remove(0),
        _ => Type::Union(different),
    }
}
