//! What clients send with a call, and what components say of their arguments.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use serde_json::value::RawValue;
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::{self, Component, Deployment, Digest, Function, Isolation, Limits, OperatorSpec};
use styx_protocol::ids::Timestamp;
use styx_server::gateway::{Call, Directories, Directory, Parameter, prepare};

/// A schema, a zero, and a value that is checked against it.
pub fn schema(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let (schema, value) = text.split_once('\0').unwrap_or((text, "null"));
    let declared = deployment::Parameter { name: "p".into(), schema: schema.into(), required: true };
    let Ok(parameter) = Parameter::compile(&declared) else { return false };
    if let Ok(raw) = serde_json::from_str::<&RawValue>(value) {
        let mut taken = Vec::new();
        if parameter.take(raw.get(), &mut taken).is_ok() {
            same(raw.get().as_bytes(), &taken);
        }
    }
    true
}

/// Whether two texts are the same JSON.
fn same(given: &[u8], taken: &[u8]) {
    let [given, taken] = [given, taken].map(|text| serde_json::from_slice::<Value>(text).expect("it was taken"));
    assert_eq!(given, taken);
}

pub fn schemas() -> Vec<Vec<u8>> {
    [
        ("true", "1"),
        (r#"{"type":"integer","minimum":0,"maximum":255}"#, "255"),
        (r#"{"type":"string","pattern":"^(a+)+$","maxLength":9}"#, r#""aab""#),
        (r#"{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}"#, "null"),
        (r##"{"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}}}"##, "[[], [[]]]"),
        (r#"{"properties":{"a":{"enum":[1,"x"]}},"required":["a"],"additionalProperties":false}"#, r#"{"a":1}"#),
        (r#"{"prefixItems":[{"const":1}],"items":false,"uniqueItems":true,"contains":{"not":{}}}"#, "[1]"),
        (r#"{"if":{"multipleOf":0.5},"then":{"exclusiveMaximum":3},"else":{"format":"date-time"}}"#, "2.5"),
        (r#"{"patternProperties":{"^x":{"type":["integer","null"]}},"dependentRequired":{"x":["y"]}}"#, r#"{"x":1}"#),
        (r##"{"$dynamicRef":"#","propertyNames":{"maxLength":1},"unevaluatedProperties":false}"##, "{}"),
    ]
    .map(|(schema, value)| [schema.as_bytes(), b"\0", value.as_bytes()].concat())
    .into()
}

static SHOP: LazyLock<Arc<Directory>> = LazyLock::new(|| {
    let parameter = |name: &str, schema: &str, required| deployment::Parameter {
        name: name.into(),
        schema: schema.into(),
        required,
    };
    let function = Function {
        name: "option".into(),
        parameters: vec![
            parameter("a", r#"{"type":"integer"}"#, true),
            parameter("b", r#"{"type":"string","default":"x"}"#, false),
            parameter("c", r#"{"anyOf":[{"type":"number"},{"type":"null"}]}"#, false),
            parameter("d", r#"{"type":"array","items":{"type":"integer"},"maxItems":3}"#, false),
            parameter("e", "{}", false),
        ],
        returns: "{}".into(),
        read_only: false,
        consistency: Default::default(),
        doc: String::new(),
    };
    let operator = OperatorSpec {
        name: "stock".into(),
        component: 0,
        key_prefix: None,
        isolation: Isolation::Warm,
        doc: String::new(),
        state: Default::default(),
        functions: vec![function],
    };
    let mut catalog = Catalog::default();
    catalog.apply(&Control::Deploy(Deployment {
        id: "dp_1".into(),
        app: "shop".into(),
        created: Timestamp(0),
        components: vec![Component { name: "c".into(), digest: Digest([0; 32]), size: 1, sdk: "test".into() }],
        operators: vec![operator],
        limits: Limits { payload: 1 << 16, ..Limits::default() },
        interface: Default::default(),
    }));
    Directories::default().of(Arc::new(catalog))
});

/// The body of a call. What is taken has one form.
pub fn arguments(bytes: &[u8]) -> bool {
    let target = SHOP.resolve("shop", "stock", "option").expect("it is deployed");
    let normal = |args: &[u8]| {
        let call = Call { key: "k", args, idempotency_key: Some("once"), retained: false };
        prepare(target, call, &mut Vec::new()).map(|request| request.args.to_vec())
    };
    let Ok(taken) = normal(bytes) else { return false };
    assert!(serde_json::from_slice::<Vec<Value>>(&taken).is_ok(), "it is an array");
    assert_eq!(normal(&taken).expect("what was taken is taken again"), taken);
    true
}

pub fn bodies() -> Vec<Vec<u8>> {
    [
        r#" [ 1 , "a\n" , 2.50e3 , [1, 2 ] , { "k" : [ null , true ] } ] "#,
        r#"{"e": "\ud83d\ude00", "a" : -0 , "d":[]}"#,
        "[123456789012345678901234567890]",
        "{\"a\":1,\"c\":null}",
        "null",
        "",
    ]
    .map(Into::into)
    .into()
}
