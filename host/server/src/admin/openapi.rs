//! An app as an OpenAPI 3.1 document, so that any tool can call its functions.

use serde_json::{Map, Value, json};
use styx_protocol::catalog::App;
use styx_protocol::deployment::{Function, OperatorSpec};

/// The document of an app's live deployment: one path per function.
pub fn document(app: &App) -> Value {
    let live = app.live();
    let (mut paths, mut schemas, mut tags) = (Map::new(), Map::new(), Vec::new());
    for operator in &live.operators {
        tags.push(json!({ "name": operator.name, "description": operator.doc }));
        for function in &operator.functions {
            let path = format!("/v1/call/{}/{}/{{key}}/{}", app.name, operator.name, function.name);
            paths.insert(path, json!({ "post": operation(operator, function, &mut schemas) }));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": app.name, "version": app.active, "description": "Every call is one strictly serializable transaction. An error means that none of its writes happened." },
        "servers": [{ "url": "http://127.0.0.1:8080", "description": "the ingress, at its default address" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.into_iter().chain([(String::from("Error"), error_schema())]).collect::<Map<_, _>>(),
            "responses": responses(),
            "parameters": {
                "IdempotencyKey": {
                    "name": "Idempotency-Key", "in": "header", "required": false,
                    "description": "Makes the call exactly-once: a retry with the same key gets the first one's reply.",
                    "schema": { "type": "string", "minLength": 1, "maxLength": crate::gateway::IDEMPOTENCY_KEY_BYTES_MAX },
                },
            },
            "headers": {
                "Tid": { "description": "The transaction's rank in the serial order.", "schema": { "type": "integer" } },
                "Epoch": { "description": "The epoch in which it ended.", "schema": { "type": "integer" } },
                "RequestId": { "description": "The request's id.", "schema": { "type": "string" } },
                "Replayed": { "description": "`true`: another request was under this key before, and this is its answer.", "schema": { "type": "boolean" } },
            },
        },
    })
}

fn operation(operator: &OperatorSpec, function: &Function, schemas: &mut Map<String, Value>) -> Value {
    let name = format!("{}.{}", operator.name, function.name);
    let mut hoist = |part: &str, text: &str| {
        let at = format!("{name}.{part}");
        let mut schema = schema(text);
        relocate(&mut schema, &format!("#/components/schemas/{at}"));
        schemas.insert(at.clone(), schema);
        json!({ "$ref": format!("#/components/schemas/{at}") })
    };
    let parameters: Vec<(&str, bool, Value)> = function
        .parameters
        .iter()
        .map(|parameter| {
            (parameter.name.as_str(), parameter.required, hoist(&component_name(&parameter.name), &parameter.schema))
        })
        .collect();
    let returns = hoist("result", &function.returns);
    let required: Vec<&str> = parameters.iter().filter(|(_, required, _)| *required).map(|(name, ..)| *name).collect();
    let least = parameters.iter().rposition(|(_, required, _)| *required).map_or(0, |at| at + 1);
    let named = json!({
        "title": "by name",
        "type": "object",
        "properties": parameters.iter().map(|(name, _, schema)| ((*name).to_owned(), schema.clone())).collect::<Map<_, _>>(),
        "required": required,
        "additionalProperties": false,
    });
    let mut positional = json!({ "title": "by position", "type": "array", "items": false, "minItems": least, "maxItems": parameters.len() });
    if !parameters.is_empty() {
        positional["prefixItems"] = parameters.iter().map(|(_, _, schema)| schema.clone()).collect();
    }
    let key = match &operator.key_prefix {
        Some(prefix) => {
            json!({ "name": "key", "in": "path", "required": true, "schema": { "type": "string" }, "description": format!("`{prefix}:rest`; all keys of one {prefix} live together") })
        }
        None => {
            json!({ "name": "key", "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 }, "description": "The entity's key." })
        }
    };
    let mut operation = json!({
        "operationId": name,
        "tags": [operator.name],
        "summary": function.doc.lines().next().unwrap_or_default(),
        "description": function.doc,
        "x-styx-read-only": function.read_only,
        "parameters": [key, { "$ref": "#/components/parameters/IdempotencyKey" }],
        "requestBody": { "required": least > 0, "content": { "application/json": { "schema": { "oneOf": [named, positional] } } } },
        "responses": { "200": {
            "description": "The transaction committed.",
            "headers": {
                "styx-tid": { "$ref": "#/components/headers/Tid" },
                "styx-epoch": { "$ref": "#/components/headers/Epoch" },
                "styx-request-id": { "$ref": "#/components/headers/RequestId" },
                "idempotent-replayed": { "$ref": "#/components/headers/Replayed" },
            },
            "content": { "application/json": { "schema": returns } },
        } },
    });
    for (status, _) in ERRORS {
        operation["responses"][status] = json!({ "$ref": format!("#/components/responses/{status}") });
    }
    operation
}

const ERRORS: [(&str, &str); 7] = [
    ("400", "BAD_ARGUMENTS: the key or the arguments cannot be taken."),
    ("404", "UNKNOWN_APP, UNKNOWN_OPERATOR or UNKNOWN_FUNCTION."),
    ("409", "IDEMPOTENCY_MISMATCH: the key was used before with another request."),
    ("413", "TOO_LARGE: the arguments have too many bytes."),
    ("422", "ABORTED: the function refused; its message, and its own code as app_code if it gave one."),
    (
        "500",
        "GUEST_EXCEPTION, GUEST_TRAP, NOT_IMPORTED, NOT_EXPORTED, OUT_OF_FUEL, LIMIT_EXCEEDED, READ_ONLY or NON_DETERMINISTIC.",
    ),
    ("503", "OVERLOADED: try again after the seconds in Retry-After."),
];

fn responses() -> Value {
    let one = |(status, description): &(&str, &str)| {
        (
            (*status).to_owned(),
            json!({ "description": description, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } } }),
        )
    };
    Value::Object(ERRORS.iter().map(one).collect())
}

/// The schema of every error.
pub fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": { "code": { "type": "string" }, "message": { "type": "string" }, "hint": { "type": "string" }, "app_code": { "type": "string" } },
        } },
    })
}

/// A schema that was checked at upload; one that this version cannot read says nothing.
pub(super) fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!({}))
}

/// Names of components take few characters; parameters may have any.
fn component_name(name: &str) -> String {
    name.chars()
        .map(|char| if char.is_ascii_alphanumeric() || char == '_' || char == '-' { char } else { '_' })
        .collect()
}

/// Points the references inside a schema to where it stands in the document.
fn relocate(schema: &mut Value, place: &str) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value {
                    Value::String(target) if key == "$ref" => {
                        if let Some(rest) = target.strip_prefix('#') {
                            *target = format!("{place}{rest}");
                        }
                    }
                    // What stands here is data, not a schema.
                    _ if matches!(key.as_str(), "const" | "enum" | "default" | "examples") => {}
                    _ => relocate(value, place),
                }
            }
        }
        Value::Array(array) => array.iter_mut().for_each(|value| relocate(value, place)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_move_with_their_schema() {
        let mut given = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#" }, "const": { "$ref": "#" } } }, "anyOf": [{ "$ref": "#/$defs/a" }] });
        relocate(&mut given, "#/x");
        assert_eq!(
            given,
            json!({ "$ref": "#/x/$defs/a", "$defs": { "a": { "items": { "$ref": "#/x" }, "const": { "$ref": "#" } } }, "anyOf": [{ "$ref": "#/x/$defs/a" }] })
        );
    }
}
