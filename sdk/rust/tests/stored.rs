//! Types of state: what is described of them, and how values of earlier ones become such of the present one.

use serde_json::{Value, json};
use styx_sdk::prelude::*;
use styx_sdk::testing::App;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
struct Item {
    cents: u64,
    #[serde(default)]
    tags: Vec<String>,
}

/// The types before.
#[derive(Deserialize)]
#[serde(untagged)]
enum Earlier {
    Euros { euros: u64 },
    Name(String),
}

fn from_earlier(old: Earlier) -> Result<Item> {
    match old {
        Earlier::Euros { euros } => Ok(Item { cents: euros * 100, tags: Vec::new() }),
        Earlier::Name(name) => bail!("{name} has no price"),
    }
}

struct Stock;

#[operator(name = "stock", state = Item, migrate = from_earlier)]
impl Stock {
    pub fn look(ctx: &mut Context) -> Result<u64> {
        Ok(ctx.state.require::<Item>()?.cents)
    }

    #[function(read_only)]
    pub fn peek(ctx: &Context) -> Result<u64> {
        Ok(ctx.state.require::<Item>()?.cents)
    }

    pub fn look_at(ctx: &mut Context, key: String) -> Result<Option<Item>> {
        ctx.state.get_at(&key)
    }

    pub fn total(ctx: &mut Context) -> Result<u64> {
        Ok(ctx.state.scan().entries::<Item>()?.iter().map(|(_, item)| item.cents).sum())
    }

    pub fn wrongly(ctx: &mut Context) -> Result<Option<u8>> {
        ctx.state.get()
    }

    pub fn call_it(ctx: &mut Context) -> Result<bool> {
        ctx.call("stock", "b", "styx.migrate", ())
    }
}

/// Has a type, and nothing for what is not of it.
struct Shelf;

#[operator(state = Vec<String>)]
impl Shelf {
    pub fn list(ctx: &mut Context) -> Result<Vec<String>> {
        ctx.state.require()
    }
}

fn app() -> App {
    let mut app = App::new().with::<Stock>().with::<Shelf>();
    for key in ["a", "b", "c"] {
        app.set_state("stock", key, &json!({ "euros": 3 })).unwrap();
    }
    app
}

fn stored(app: &App, key: &str) -> Value {
    app.state("stock", key).unwrap().unwrap()
}

#[test]
fn an_operator_tells_of_what_type_its_values_are() {
    let of = |functions: Vec<styx_sdk::FunctionDescription>| -> Vec<(&'static str, Value)> {
        let known = functions.into_iter().filter(|function| function.name.starts_with("styx."));
        known
            .map(|function| {
                assert!(function.parameters.is_empty());
                (function.name, serde_json::from_str(&function.returns).unwrap())
            })
            .collect()
    };
    let schema: Value = serde_json::from_str(&styx_sdk::Schemas::of::<Item>()).unwrap();
    assert_eq!(
        of(Stock::describe().functions),
        [("styx.state", schema), ("styx.migrate", json!({ "type": "boolean" }))]
    );
    let list = json!({ "type": "array", "items": { "type": "string" } });
    assert_eq!(of(Shelf::describe().functions), [("styx.state", list)]);
}

#[test]
fn what_is_of_an_earlier_type_is_migrated_when_it_is_read() {
    let mut app = app();
    let old = json!({ "euros": 3 });
    let new = json!({ "cents": 300, "tags": [] });
    assert_eq!(app.call::<u64>("stock", "a", "peek", ()).unwrap(), 300);
    assert_eq!(app.call::<u64>("stock", "a", "total", ()).unwrap(), 900);
    assert_eq!(stored(&app, "a"), old, "who only reads or scans writes nothing");
    assert_eq!(app.call::<u64>("stock", "a", "look", ()).unwrap(), 300);
    assert_eq!((stored(&app, "a"), stored(&app, "b")), (new.clone(), old.clone()));
    let found: Option<Item> = app.call("stock", "a", "look_at", ("b",)).unwrap();
    assert_eq!(found.unwrap().cents, 300);
    assert_eq!((stored(&app, "b"), stored(&app, "c")), (new, old));
    let wrong = app.call::<Option<u8>>("stock", "a", "wrongly", ()).unwrap_err();
    assert_eq!(wrong.code(), "GUEST_EXCEPTION", "what is of the type is not migrated: {wrong}");
}

#[test]
fn the_host_has_it_migrated_and_no_function() {
    let mut app = app();
    let refused = app.call::<bool>("stock", "a", "call_it", ()).unwrap_err();
    assert!(refused.message().contains("operator stock has no function styx.migrate"), "{refused}");
    assert!(app.call::<bool>("stock", "a", "styx.migrate", ()).unwrap());
    assert!(!app.call::<bool>("stock", "a", "styx.migrate", ()).unwrap(), "it is of the type now");
    assert!(!app.call::<bool>("stock", "absent", "styx.migrate", ()).unwrap());
    assert_eq!(app.state::<Value>("stock", "absent").unwrap(), None);
    assert_eq!(stored(&app, "a"), json!({ "cents": 300, "tags": [] }));

    app.set_state("stock", "pen", &"pen").unwrap();
    let refused = app.call::<bool>("stock", "pen", "styx.migrate", ()).unwrap_err();
    assert_eq!((refused.code(), refused.message()), ("ABORTED", "pen has no price"));
    app.set_state("stock", "odd", &7).unwrap();
    let bug = app.call::<u64>("stock", "odd", "look", ()).unwrap_err();
    assert!(bug.code() == "GUEST_EXCEPTION" && bug.message().contains("to be migrated"), "{bug}");

    app.set_state("shelf", "s", &7).unwrap();
    assert_eq!(app.call::<Vec<String>>("shelf", "s", "list", ()).unwrap_err().code(), "GUEST_EXCEPTION");
    assert_eq!(app.call::<bool>("shelf", "s", "styx.migrate", ()).unwrap_err().code(), "UNKNOWN_FUNCTION");
}
