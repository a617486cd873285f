//! What is generated for every kind of type. That it compiles and calls is tested with the clients, on a real server.

use serde_json::{Value, json};

use super::app::{App, class, identifier};
use super::schema::Type;
use super::{python, typescript};

fn app(parameters: Value, returns: Value) -> App {
    App::read(&json!({
        "name": "shop", "active": "dp_1", "operators": [{
            "name": "line-item", "doc": "Lines.\n\nOf \"orders\" */", "functions": [
                {"name": "from", "doc": "Ends with \"", "parameters": parameters, "returns": returns},
            ],
        }],
    }))
    .unwrap()
}

#[test]
fn types_are_written_in_both_languages() {
    let record = json!({"type": "object", "properties": {"a-b": {"type": "integer"}, "c": {"type": "null"}}, "required": ["a-b"]});
    let tree = json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "array", "items": {"$ref": "#/$defs/T"}}}});
    for (schema, in_typescript, in_python) in [
        (json!({"type": "integer", "minimum": 0}), "number | bigint", "int"),
        (json!({"type": "number"}), "number", "float"),
        (json!({"type": ["string", "null"]}), "string | null", "str | None"),
        (json!({"anyOf": [{"type": "boolean"}, {"type": "boolean"}]}), "boolean", "bool"),
        (json!({"anyOf": [{"type": "boolean"}, {}]}), "unknown", "Any"),
        (json!({"enum": ["a", 1, null, true]}), r#""a" | 1 | null | true"#, r#"Literal["a", 1, None, True]"#),
        (json!({"const": "x\"y"}), r#""x\"y""#, r#"Literal["x\"y"]"#),
        (json!({"enum": [1.5]}), "1.5", "Any"),
        (json!({"type": "array", "items": {"type": "string"}}), "Array<string>", "list[str]"),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}),
            "[string, number]",
            "list[str | float]",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "number"}}),
            "Record<string, number>",
            "dict[str, float]",
        ),
        (json!({"type": "object"}), "Record<string, unknown>", "dict[str, Any]"),
        (record, r#"{ "a-b": number | bigint; "c"?: null }"#, "LineItemFromP"),
        (json!(true), "unknown", "Any"),
        (json!({"$ref": "https://elsewhere/x"}), "unknown", "Any"),
    ] {
        let app = app(json!([{"name": "p", "required": true, "schema": schema}]), json!({"type": "null"}));
        let text = typescript::module(&app);
        assert!(
            text.contains(&format!("from(p: {in_typescript}, options?: CallOptions): Promise<null>")),
            "{schema}:\n{text}"
        );
        let text = python::module(&app, false);
        assert!(text.contains(&format!("def from_(self, p: {in_python}) -> None:")), "{schema}:\n{text}");
    }
    let mut of = &Type::of(&tree);
    let mut depth = 0;
    while let Type::List(item) = of {
        (of, depth) = (item, depth + 1);
    }
    assert_eq!((of, depth > 2), (&Type::Any, true), "definitions that contain themselves end somewhere");
}

#[test]
fn properties_are_declared_where_python_needs_a_name_for_them() {
    let schema = json!({"type": "object", "properties": {"a-b": {"type": "integer"}, "c": {"type": "string"}}, "required": ["a-b"]});
    let text = python::module(&app(json!([]), schema), true);
    let declared = r#"LineItemFromResult = TypedDict("LineItemFromResult", {"a-b": "int", "c": "NotRequired[str]"})"#;
    assert!(text.contains(declared), "{text}");
    assert!(text.contains("    async def from_(self) -> LineItemFromResult:"), "{text}");
    assert!(
        text.contains(r#"reply = await self._client.request(self._app, "line-item", self.key, "from", [])"#),
        "{text}"
    );
}

#[test]
fn what_may_be_left_out_is_given_by_name_and_comes_last() {
    let optional = json!([
        {"name": "in", "required": false, "schema": {"type": "string"}},
        {"name": "limit", "required": true, "schema": {"type": "integer"}},
    ]);
    let app = app(optional, json!({}));
    let text = typescript::module(&app);
    assert!(
        text.contains("from(limit: number | bigint, in_?: string, options?: CallOptions): Promise<unknown>"),
        "{text}"
    );
    assert!(text.contains(r#"'from', { "in": in_, "limit": limit }, options)"#), "{text}");
    let text = python::module(&app, false);
    assert!(text.contains("def from_(self, limit: int, in_: str = _MISSING) -> Any:"), "{text}");
    assert!(text.contains(r#"_named(**{"in": in_, "limit": limit})"#), "{text}");
}

#[test]
fn documentation_ends_no_comment_and_no_string() {
    let app = app(json!([]), json!({}));
    assert!(
        typescript::module(&app).contains("/**\n * Lines.\n *\n * Of \"orders\" * /\n */\nexport class LineItem {")
    );
    let text = python::module(&app, false);
    assert!(text.contains("        \"\"\"Ends with \" \"\"\"\n"), "{text}");
    assert!(text.contains("class LineItem:\n    \"\"\"Lines.\n\n    Of \"orders\" */\n    \"\"\"\n"), "{text}");
}

#[test]
fn names_are_what_languages_take() {
    for (name, expected) in [("shop", "Shop"), ("line-item_2", "LineItem2"), ("2nd", "_2nd"), ("Ok", "Ok")] {
        assert_eq!(class(name), expected);
    }
    for (name, expected) in [("a-b", "a_b"), ("class", "class_"), ("2x", "_2x"), ("ok", "ok")] {
        assert_eq!(identifier(name, &["class"]), expected);
    }
}
