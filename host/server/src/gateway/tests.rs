//! From what clients send to requests, on a catalog made by hand.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::{self, Component, Deployment, Digest, Isolation, Limits, OperatorSpec};
use styx_protocol::ids::Timestamp;

use super::directory::{Directories, Directory, check_schemas};
use super::request::{Call, derived_id, fresh_id, parse_id, prepare};
use crate::http::ApiError;

/// Any JSON, a few levels deep.
pub fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f32>().prop_filter("JSON has no NaN", |float| float.is_finite()).prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!("\"\\\n \u{0} \u{1f4a5}")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,4}", inner, 0..4).prop_map(|map| json!(map))
        ]
    })
}

fn parameter(name: &str, schema: &str, required: bool) -> deployment::Parameter {
    deployment::Parameter { name: name.into(), schema: schema.into(), required }
}

fn function(name: &str, read_only: bool, parameters: Vec<deployment::Parameter>) -> deployment::Function {
    deployment::Function {
        name: name.into(),
        parameters,
        returns: "{}".into(),
        read_only,
        consistency: Default::default(),
        doc: String::new(),
    }
}

fn operator(functions: Vec<deployment::Function>) -> OperatorSpec {
    OperatorSpec {
        name: "stock".into(),
        component: 0,
        key_prefix: None,
        isolation: Isolation::Warm,
        doc: String::new(),
        state: Default::default(),
        functions,
    }
}

fn deployment(id: &str, app: &str, operators: Vec<OperatorSpec>) -> Deployment {
    let component = Component { name: "c".into(), digest: Digest([0; 32]), size: 1, sdk: "test".into() };
    Deployment {
        id: id.into(),
        app: app.into(),
        created: Timestamp(0),
        components: vec![component],
        operators,
        limits: Limits { payload: 256, ..Limits::default() },
        interface: Default::default(),
    }
}

pub fn shop() -> Catalog {
    let mut catalog = Catalog::default();
    let functions = vec![
        function(
            "take",
            false,
            vec![
                parameter("item", r#"{"type":"string"}"#, true),
                parameter("quantity", r#"{"type":"integer","minimum":1}"#, true),
            ],
        ),
        function("read", true, vec![]),
        function(
            "option",
            false,
            vec![
                parameter("a", r#"{"type":"integer"}"#, true),
                parameter("b", r#"{"type":"integer","default":7}"#, false),
                parameter("c", r#"{"anyOf":[{"type":"integer"},{"type":"null"}]}"#, false),
                parameter("d", r#"{"type":"integer"}"#, false),
                parameter("e", "{}", false),
            ],
        ),
    ];
    catalog.apply(&Control::Deploy(deployment("dp_1", "shop", vec![operator(functions)])));
    catalog
}

fn directory() -> Arc<Directory> {
    Directories::default().of(Arc::new(shop()))
}

fn normal(directory: &Directory, function: &str, args: &[u8]) -> Result<String, ApiError> {
    let call = Call { key: "k", args, idempotency_key: None, retained: false };
    let request = prepare(directory.resolve("shop", "stock", function)?, call, &mut Vec::new())?;
    Ok(String::from_utf8(request.args.to_vec()).unwrap())
}

#[test]
fn arguments_are_normalised_or_refused() {
    let directory = directory();
    let ok = |text: &str| Ok(text.to_owned());
    let bad = |text: &str| Err((400, "BAD_ARGUMENTS", text.to_owned()));
    for (function, args, expect) in [
        ("take", &br#"["a",1]"#[..], ok(r#"["a",1]"#)),
        ("take", b" [ \"a b\" ,\n\t1 ] \r\n", ok(r#"["a b",1]"#)),
        ("take", br#"{"quantity":1,"item":"a"}"#, ok(r#"["a",1]"#)),
        ("take", br#"{"qu\u0061ntity":1,"item":"a"}"#, ok(r#"["a",1]"#)),
        ("read", b"", ok("[]")),
        ("read", b"null", ok("[]")),
        ("read", b" \n", ok("[]")),
        ("read", b"[]", ok("[]")),
        ("read", b"{}", ok("[]")),
        ("option", b"[1]", ok("[1]")),
        ("option", b"{\"a\":1}", ok("[1]")),
        ("option", br#"{"a":1,"b":2}"#, ok("[1,2]")),
        ("option", br#"{"a":1,"c":3}"#, ok("[1,7,3]")),
        ("option", br#"{"a":1,"d":4}"#, ok("[1,7,null,4]")),
        ("option", br#"{"a":1,"c":null}"#, ok("[1,7,null]")),
        ("option", br#"{"e":5,"a":1}"#, bad("parameter `d` has no default, so it must be given along with `e`")),
        (
            "option",
            br#"[1,2,3,4,{"x" : [1.50, 10000000000000000000000]}]"#,
            ok(r#"[1,2,3,4,{"x":[1.50,10000000000000000000000]}]"#),
        ),
        ("take", b"", bad("parameter `item` is missing")),
        ("take", b"[]", bad("parameter `item` is missing")),
        ("take", b"{}", bad("parameter `item` is missing")),
        ("take", br#"["a"]"#, bad("parameter `quantity` is missing")),
        ("take", br#"{"item":"a"}"#, bad("parameter `quantity` is missing")),
        ("take", br#"["a",1,2]"#, bad("take takes 2 arguments, and there are more")),
        ("read", b"[1]", bad("read takes 0 arguments, and there are more")),
        ("take", br#"["a","1"]"#, bad("parameter `quantity` is not taken: \"1\" is not of type \"integer\"")),
        ("take", br#"["a",0]"#, bad("parameter `quantity` is not taken: 0 is less than the minimum of 1")),
        ("take", br#"{"item":1,"quantity":1}"#, bad("parameter `item` is not taken: 1 is not of type \"string\"")),
        ("take", br#"{"itm":"a","quantity":1}"#, bad("take has no parameter `itm`; did you mean `item`?")),
        ("take", br#"{"item":"a","item":"b","quantity":1}"#, bad("parameter `item` is given twice")),
        ("read", br#"{"x":1}"#, bad("read has no parameter `x`; it takes none")),
        (
            "option",
            br#"[1,2,3,4,{"x":1,"x":2}]"#,
            bad("parameter `e` is not taken: the key \"x\" is there twice at line 1 column 10"),
        ),
        ("take", b"5", bad("arguments must be a JSON array (by position) or object (by name); for one argument: [5]")),
        ("take", b"item=a", bad("arguments must be a JSON array (by position) or object (by name)")),
        ("take", b"[\"a\",1", bad("arguments are not valid JSON: EOF while parsing a list at line 1 column 6")),
        ("take", b"[\"a\" 1]", bad("arguments are not valid JSON: expected `,` or `]` at line 1 column 6")),
        ("take", b"[\"a\",1] x", bad("arguments are not valid JSON: trailing characters at line 1 column 9")),
        ("take", b"[\"a\",01]", bad("arguments are not valid JSON: invalid number at line 1 column 7")),
        ("take", b"[\"\xff\",1]", bad("arguments are not UTF-8: byte 2 is wrong")),
        (
            "take",
            b"[\"a\nb\",1]",
            bad(
                "arguments are not valid JSON: control character (\\u0000-\\u001F) found while parsing a string at line 1 column 3",
            ),
        ),
    ] {
        let given =
            normal(&directory, function, args).map_err(|error| (error.status.as_u16(), error.code, error.message));
        assert_eq!(given, expect, "{function} {}", String::from_utf8_lossy(args));
    }
    let hint = normal(&directory, "option", b"[]").unwrap_err().hint;
    assert_eq!(hint, "it takes option(a: integer, b?: integer, c?: any, d?: integer, e?: any)");
}

#[test]
fn names_keys_and_sizes_are_checked() {
    let directory = directory();
    let refusal = |app: &str, operator: &str, function: &str, key: &str, args: &[u8], idempotency_key: Option<&str>| {
        let error = directory
            .resolve(app, operator, function)
            .and_then(|target| {
                prepare(target, Call { key, args, idempotency_key, retained: false }, &mut Vec::new()).map(|_| ())
            })
            .unwrap_err();
        (error.status.as_u16(), error.code, error.message, error.hint.into_owned())
    };
    let long = "x".repeat(1025);
    for (given, status, code, message, hint) in [
        (refusal("shp", "stock", "read", "k", b"", None), 404, "UNKNOWN_APP", "no app \"shp\"", "did you mean `shop`?"),
        (
            refusal("shop", "Stock", "read", "k", b"", None),
            404,
            "UNKNOWN_OPERATOR",
            "app \"shop\" has no operator \"Stock\"",
            "did you mean `stock`?",
        ),
        (
            refusal("shop", "stock", "xyz", "k", b"", None),
            404,
            "UNKNOWN_FUNCTION",
            "operator \"stock\" has no function \"xyz\"",
            "known are `option`, `read`, `take`",
        ),
        (
            refusal("shop", "stock", "read", "", b"", None),
            400,
            "BAD_ARGUMENTS",
            "the key is empty",
            "every entity has a key: /v1/call/{app}/{operator}/{key}/{function}",
        ),
        (
            refusal("shop", "stock", "read", &long, b"", None),
            400,
            "BAD_ARGUMENTS",
            "the key has 1025 bytes; at most 1024 are allowed",
            "use a shorter key, and put the rest into the entity's value",
        ),
        (
            refusal("shop", "stock", "read", "k", &[b' '; 257], None),
            413,
            "TOO_LARGE",
            "the arguments may have at most 256 bytes",
            "send less, or raise `payload` in [limits] of styx.toml",
        ),
        (
            refusal("shop", "stock", "read", "k", b"", Some("")),
            400,
            "BAD_REQUEST",
            "the idempotency key has 0 bytes; it may have 1 to 255",
            "",
        ),
        (
            refusal("shop", "stock", "read", "k", b"", Some(&long[..256])),
            400,
            "BAD_REQUEST",
            "the idempotency key has 256 bytes; it may have 1 to 255",
            "",
        ),
    ] {
        assert_eq!(given, (status, code, message.to_owned(), hint.to_owned()));
    }
}

#[test]
fn an_idempotency_key_names_a_request_and_a_send_is_retained() {
    let directory = directory();
    let of = |function, args: &[u8], idempotency_key, retained| {
        prepare(
            directory.resolve("shop", "stock", function).unwrap(),
            Call { key: "k", args, idempotency_key, retained },
            &mut Vec::new(),
        )
        .unwrap()
    };
    let (one, two) =
        (of("take", br#"["a",1]"#, Some("i"), false), of("take", br#"{"quantity": 1, "item": "a"}"#, Some("i"), false));
    assert_eq!(one, two);
    assert_eq!((one.id, one.retained, one.body_hash()), (derived_id("shop", "i"), true, two.body_hash()));
    assert_eq!((&*one.key, &*one.function), ("k", "take"));
    // Neither another app nor a key that runs on where the app's name ends shares the id.
    assert!(derived_id("shop", "i") != derived_id("sho", "pi") && derived_id("shop", "i") != derived_id("shop", "j"));
    let (call, send) = (of("read", b"", None, false), of("read", b"", None, true));
    assert!(!call.retained && send.retained && call.id != send.id);
}

#[test]
fn request_ids_are_read_as_they_are_printed() {
    let id = fresh_id();
    assert_eq!(parse_id(&id.to_string()).unwrap(), id);
    assert_eq!(parse_id(&uuid::Uuid::from_u128(id.0).to_string()).unwrap(), id);
    for wrong in [
        "",
        "1",
        "+0000000000000000000000000000001",
        "0123456789abcdef0123456789abcdeg",
        "0123456789abcdef0123456789abcdef0",
    ] {
        assert_eq!(parse_id(wrong).unwrap_err().status.as_u16(), 400, "{wrong}");
    }
    let many: std::collections::BTreeSet<_> = (0..1000).map(|_| fresh_id()).collect();
    assert_eq!(many.len(), 1000);
}

#[test]
fn a_directory_follows_the_catalog() {
    let directories = Directories::default();
    let mut catalog = shop();
    let first = Arc::new(catalog.clone());
    let before = directories.of(first.clone());
    assert!(Arc::ptr_eq(&before, &directories.of(first.clone())), "built once");

    let more = operator(vec![function("read", false, vec![])]);
    catalog.apply(&Control::Deploy(deployment("dp_2", "shop", vec![more])));
    let second = Arc::new(catalog.clone());
    let after = directories.of(second.clone());
    assert!(before.resolve("shop", "stock", "take").is_ok() && after.resolve("shop", "stock", "take").is_err());
    assert!(!after.resolve("shop", "stock", "read").unwrap().function.read_only);
    // Whoever still holds the old catalog gets its directory, and does not bring it back.
    assert!(directories.of(first).resolve("shop", "stock", "take").is_ok());
    assert!(Arc::ptr_eq(&after, &directories.of(second)));

    // An app removed and deployed again has other operators, even under the same deployment id.
    let old = after.resolve("shop", "stock", "read").unwrap().operator.id;
    catalog.apply(&Control::Remove("shop".into()));
    assert_eq!(
        directories.of(Arc::new(catalog.clone())).resolve("shop", "stock", "read").unwrap_err().code,
        "UNKNOWN_APP"
    );
    catalog.apply(&Control::Deploy(deployment("dp_2", "shop", vec![operator(vec![function("read", false, vec![])])])));
    assert_ne!(directories.of(Arc::new(catalog)).resolve("shop", "stock", "read").unwrap().operator.id, old);
}

#[test]
fn schemas_are_checked_at_upload() {
    assert_eq!(check_schemas(&operator(vec![function("f", false, vec![parameter("p", "{}", true)])])), Ok(()));
    let error = check_schemas(&operator(vec![function("f", false, vec![parameter("p", "{", true)])])).unwrap_err();
    assert!(error.starts_with("stock.f: the schema of parameter `p` is not JSON"), "{error}");
    let mut wrong = function("f", false, vec![]);
    wrong.returns = r#"{"type":3}"#.into();
    let error = check_schemas(&operator(vec![wrong])).unwrap_err();
    assert!(error.starts_with("stock.f: the schema of its result is no JSON Schema"), "{error}");
}

/// Parameters `p0`, `p1`… of which the first `required` must be given, for arguments of any kind.
fn anything(count: usize, required: usize) -> Catalog {
    let parameters = (0..count).map(|at| parameter(&format!("p{at}"), "{}", at < required)).collect();
    let mut catalog = Catalog::default();
    catalog.apply(&Control::Deploy(Deployment {
        limits: Limits::default(),
        ..deployment("dp_1", "shop", vec![operator(vec![function("f", false, parameters)])])
    }));
    catalog
}

proptest! {
    /// By position and by name, in any order and any white space, give the same; what is given
    /// comes through unchanged; and the normal form is its own.
    #[test]
    fn one_normal_form(arguments in prop::collection::vec(any_json(), 0..6), required in 0usize..6, spare in 0usize..3, turn in 0usize..6) {
        let count = arguments.len() + spare;
        let directory = Directories::default().of(Arc::new(anything(count, required.min(arguments.len()))));
        let compact = serde_json::to_string(&arguments).unwrap();
        let pretty = serde_json::to_string_pretty(&arguments).unwrap();
        let mut entries: Vec<String> = arguments.iter().enumerate().map(|(at, value)| format!("\"p{at}\" : {}", serde_json::to_string_pretty(value).unwrap())).collect();
        if !entries.is_empty() {
            let turn = turn % entries.len();
            entries.rotate_left(turn);
        }
        let named = format!("{{{}}}", entries.join(" ,\n"));
        for given in [&compact, &pretty, &named] {
            prop_assert_eq!(&normal(&directory, "f", given.as_bytes()).unwrap(), &compact);
        }
    }

    /// Whatever bytes come, the answer is a refusal or an array of the right length.
    #[test]
    fn any_bytes(bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..32), any_json().prop_map(|value| value.to_string().into_bytes())], count in 0usize..4) {
        let directory = Directories::default().of(Arc::new(anything(count, 0)));
        match normal(&directory, "f", &bytes) {
            Ok(text) => {
                let array: Vec<Value> = serde_json::from_str(&text).unwrap();
                prop_assert!(array.len() <= count);
            }
            Err(error) => prop_assert_eq!((error.status.as_u16(), error.code), (400, "BAD_ARGUMENTS")),
        }
    }
}
