//! Type of an operator's entities, compiled to check values.

use styx_protocol::deployment::OperatorSpec;

use super::json::strict;
use super::schema::Schema;

/// See the module.
#[derive(Debug)]
pub struct StateSchema(Option<Schema>);

impl StateSchema {
    /// Compiles what an operator says; if that is nothing, every value is of its type.
    ///
    /// # Errors
    /// Its schema is none; the text says why.
    pub fn of(spec: &OperatorSpec) -> Result<Self, String> {
        let Some(text) = &spec.state.schema else { return Ok(StateSchema(None)) };
        let schema = strict(text).map_err(|error| error.to_string()).and_then(|schema| Schema::compile(&schema));
        let schema =
            schema.map_err(|why| format!("{}: the schema of its state is no JSON Schema: {why}", spec.name))?;
        Ok(StateSchema(Some(schema)))
    }

    /// Checks a stored value.
    ///
    /// # Errors
    /// It is not of the type; the text says where and why.
    pub fn check(&self, value: &[u8]) -> Result<(), String> {
        let Some(schema) = &self.0 else { return Ok(()) };
        let text = std::str::from_utf8(value).map_err(|_| "it is no JSON: it is not UTF-8".to_owned())?;
        let parsed = strict(text).map_err(|error| format!("it is no JSON: {error}"))?;
        schema.check(&parsed, value.len()).map_err(|why| match why.strip_prefix("is not taken: ") {
            Some(why) => why.to_owned(),
            None => format!("it {why}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use styx_protocol::deployment::{Isolation, StateSpec};

    use super::*;

    fn compile(schema: Option<&str>) -> Result<StateSchema, String> {
        StateSchema::of(&OperatorSpec {
            name: "stock".into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::Warm,
            doc: String::new(),
            functions: Vec::new(),
            state: StateSpec { schema: schema.map(str::to_owned), migrates: false },
        })
    }

    #[test]
    fn a_value_is_of_the_type_or_told_why_not() {
        let item = r#"{"type":"object","properties":{"price":{"type":"integer"}},"required":["price"]}"#;
        for (schema, value, expected) in [
            (Some(item), &br#"{"price": 3, "more": [1]}"#[..], Ok(())),
            (Some(item), br#"{"price": "3"}"#, Err("at /price: \"3\" is not of type \"integer\"")),
            (Some(item), br#"{}"#, Err("\"price\" is a required property")),
            (Some(item), b"\xff", Err("it is no JSON: it is not UTF-8")),
            (Some(item), b"{", Err("it is no JSON: EOF while parsing an object at line 1 column 1")),
            (Some("{}"), b"null", Ok(())),
            (None, b"\xff", Ok(())),
        ] {
            let checked = compile(schema).unwrap().check(value);
            assert_eq!(checked.as_ref().map_err(String::as_str), expected.as_ref().map_err(|why| *why));
        }
    }

    #[test]
    fn what_is_no_schema_is_told_with_its_operator() {
        for schema in ["{", r#"{"type":"thing"}"#, r#"{"$ref":"http://127.0.0.1/x"}"#] {
            let error = compile(Some(schema)).unwrap_err();
            assert!(error.starts_with("stock: the schema of its state is no JSON Schema: "), "{error}");
        }
    }
}
