//! Types of state: a version that cannot read what is there is refused, one that brings a migration is deployed, and entities
//! are migrated when they are read, and all of them when somebody says so.

use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::cluster::{Cluster, options};
use crate::process::{Endpoints, Process, build_python};
use crate::verbs::{asked, styx};

/// A class of entities, and an operator with a type; prices are in euros.
const EUROS: &str = "
from dataclasses import dataclass

from styx import Context, Entity, Operator, method


class Item(Entity):
    euros: int

    @method(read_only=True)
    def look(self) -> int:
        return self.euros

    def raise_by(self, euros: int) -> int:
        self.euros += euros
        return self.euros


@dataclass
class Shelf:
    euros: int


shelf = Operator(\"shelf\", state=Shelf)


@shelf.register
def fill(ctx: Context, euros: int) -> None:
    ctx.state.put(Shelf(euros))


@shelf.register
def value(ctx: Context) -> int:
    return ctx.state.get().euros
";

const ITEM_MIGRATES: &str = "
    @classmethod
    def migrate(cls, old):
        return cls(cents=old[\"euros\"] * 100)
";

const SHELF_MIGRATES: &str = "

@shelf.migrate
def in_cents(old):
    if old[\"euros\"] < 0:
        raise ValueError(f\"{old['euros']} is less than nothing\")
    return Shelf(old[\"euros\"] * 100)
";

/// The next version: prices are in cents.
fn cents(migrates: bool) -> String {
    let next = EUROS.replace("euros", "cents");
    if !migrates {
        return next;
    }
    next.replace("    cents: int\n\n    @method", &format!("    cents: int\n{ITEM_MIGRATES}\n    @method"))
        + SHELF_MIGRATES
}

/// A bundle of each version.
async fn bundles<const N: usize>(directory: &Path, versions: [(&str, String); N]) -> [PathBuf; N] {
    std::fs::create_dir_all(directory).unwrap();
    let mut bundles = Vec::new();
    for (name, text) in versions {
        bundles.push(directory.join(format!("{name}.zip")));
        std::fs::write(&bundles[bundles.len() - 1], build_python(name, "shop.py", &text).await).unwrap();
    }
    bundles.try_into().unwrap()
}

const ITEMS: usize = 40;
const SHELVES: usize = 25;

async fn batch(server: &impl Endpoints, calls: impl Iterator<Item = Value>) {
    let lines: String = calls.map(|call| format!("{call}\n")).collect();
    let request = server.to_ingress(Method::POST, "/v1/batch").header("content-type", "application/x-ndjson");
    let answers = request.body(lines).send().await.unwrap().text().await.unwrap();
    assert!(!answers.contains("\"error\""), "{answers}");
}

fn call(operator: &str, number: usize, function: &str) -> Value {
    let key = format!("{operator}-{number:02}");
    json!({ "id": key, "app": "shop", "operator": operator, "key": key, "function": function, "args": [number] })
}

fn verb(server: &impl Endpoints, arguments: &[&str]) -> (i32, Value) {
    tokio::task::block_in_place(|| asked(server, arguments))
}

fn deploy(server: &impl Endpoints, bundle: &Path, options: &[&str]) -> (i32, Value) {
    verb(server, &[&["deploy", bundle.to_str().unwrap(), "--app", "shop"], options].concat())
}

/// How many entities there are, of how many that were looked at are of another type.
fn surveyed(told: &Value) -> Vec<(String, u64, u64, u64)> {
    let number = |one: &Value, name: &str| one[name].as_u64().unwrap();
    let operators = told["state"].as_array().unwrap().iter();
    operators
        .map(|one| {
            let name = one["operator"].as_str().unwrap().to_owned();
            (name, number(one, "entities"), number(one, "checked"), number(one, "unfit"))
        })
        .collect()
}

async fn stored(server: &impl Endpoints, entity: &str) -> Value {
    server.get(&format!("/v1/state/shop/{entity}")).await["value"].clone()
}

async fn active(server: &impl Endpoints) -> Value {
    server.get("/v1/apps/shop").await["active"].clone()
}

/// Up to where some entities are migrated and some are not.
async fn begun(server: &impl Endpoints, [euros, cents, migrating]: &[PathBuf; 3]) {
    assert_eq!(deploy(server, euros, &[]).0, 0);
    batch(server, (0..ITEMS).map(|number| call("item", number, "create"))).await;
    batch(server, (0..SHELVES).map(|number| call("shelf", number, "fill"))).await;
    let before = active(server).await;

    // It says what is wrong, and changes nothing.
    for options in [&["--dry-run"][..], &[]] {
        let (status, told) = deploy(server, cents, options);
        let error = &told["error"];
        assert_eq!((status, &error["code"]), (1, &json!("STATE_INCOMPATIBLE")), "{told}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with("operator \"item\": 40 of 40 entities are not of the type of its state, \"item-")
                && message.contains("\"cents\" is a required property")
                && message.ends_with("; and there are such of 1 more"),
            "{message}"
        );
        assert!(error["hint"].as_str().unwrap().contains("migration"), "{error}");
    }
    assert_eq!(active(server).await, before);
    assert_eq!(server.call("shop/item/item-07/raise_by", "[0]").await.body, json!(7));
    let (status, forced) = deploy(server, cents, &["--dry-run", "--force"]);
    let all = vec![("item".to_owned(), 40, 40, 40), ("shelf".to_owned(), 25, 25, 25)];
    assert_eq!((status, surveyed(&forced)), (0, all.clone()));

    // With a migration it is deployed, and people are told what to do.
    let arguments =
        ["--admin-url", server.admin(), "deploy", "--dry-run", "--app", "shop", migrating.to_str().unwrap()];
    let (status, table, _) = tokio::task::block_in_place(|| styx(Path::new("/"), &arguments));
    assert!(status == 0 && table.contains("of another type") && table.contains("migrated"), "{table}");
    let (status, told) = deploy(server, migrating, &[]);
    assert_eq!((status, surveyed(&told)), (0, all));
    let shown = server.get("/v1/apps/shop").await;
    assert_eq!(shown["operators"][0]["migrates"], json!(true));
    assert_eq!(shown["operators"][0]["state"]["required"], json!(["cents"]));

    // Who only reads one writes nothing; a touch migrates it.
    assert_eq!(server.call("shop/item/item-07/look", "[]").await.body, json!(700));
    assert_eq!(stored(server, "item/item-07").await, json!({ "euros": 7 }));
    assert_eq!(server.call("shop/item/item-07/raise_by", "[5]").await.body, json!(705));
    assert_eq!(stored(server, "item/item-07").await, json!({ "cents": 705 }));
    assert_eq!(server.call("shop/shelf/shelf-03/value", "[]").await.body, json!(300));
    assert_eq!(stored(server, "shelf/shelf-03").await, json!({ "cents": 300 }));
}

/// What `styx state migrate` says: of each operator, how many there are, and how many were migrated.
fn report(operators: &[(&str, u64, u64)]) -> Value {
    let of = |&(operator, entities, migrated): &(&str, u64, u64)| json!({ "operator": operator, "entities": entities, "migrated": migrated, "failed": 0 });
    json!({ "app": "shop", "operators": operators.iter().map(of).collect::<Vec<_>>() })
}

/// From there to where all are, and back and forth.
async fn ended(server: &impl Endpoints, [euros, cents, migrating]: &[PathBuf; 3]) {
    let report = |operators: &[(&str, u64, u64)]| {
        let of = |&(operator, entities, migrated): &(&str, u64, u64)| json!({ "operator": operator, "entities": entities, "migrated": migrated, "failed": 0 });
        json!({ "app": "shop", "operators": operators.iter().map(of).collect::<Vec<_>>() })
    };
    assert_eq!(verb(server, &["state", "migrate", "shop/shelf"]), (0, report(&[("shelf", 25, 24)])));
    let all = [("item", 40, 39), ("shelf", 25, 0)];
    assert_eq!(verb(server, &["state", "migrate", "shop"]), (0, report(&all)));
    assert_eq!(verb(server, &["state", "migrate", "shop"]), (0, report(&[("item", 40, 0), ("shelf", 25, 0)])));
    whole(server).await;
    let (status, told) = deploy(server, cents, &["--dry-run"]);
    let none = vec![("item".to_owned(), 40, 40, 0), ("shelf".to_owned(), 25, 25, 0)];
    assert_eq!((status, surveyed(&told)), (0, none), "nobody needs the migration any more");

    // The version before cannot read them.
    let before = active(server).await;
    let (status, told) = verb(server, &["apps", "rollback", "shop"]);
    assert_eq!((status, &told["error"]["code"]), (1, &json!("STATE_INCOMPATIBLE")), "{told}");
    assert_eq!(active(server).await, before);
    assert_eq!(deploy(server, euros, &["--force"]).0, 0);
    assert_eq!(deploy(server, cents, &[]).0, 0);
    let (status, told) = verb(server, &["state", "migrate", "shop"]);
    assert_eq!((status, &told["error"]["code"]), (2, &json!("NO_MIGRATION")), "{told}");

    // Some come from outside; one of them cannot be migrated, and the others are.
    for (entity, value) in [("item/late", json!(8)), ("shelf/late", json!(9)), ("shelf/bad", json!(-1))] {
        let value = json!({ "euros": value }).to_string();
        assert_eq!(verb(server, &["state", "put", &format!("shop/{entity}"), &value]).0, 0);
    }
    let (status, told) = deploy(server, migrating, &["--migrate-state"]);
    let error = &told["error"];
    assert_eq!((status, &error["code"]), (1, &json!("ABORTED")), "{told}");
    let says = "shop is live, and 1 entities could not be migrated, which are as they were: shelf/bad: -1 is less than nothing";
    assert_eq!(error["message"], json!(says));
    assert_eq!(stored(server, "shelf/late").await, json!({ "cents": 900 }));
    assert_eq!(verb(server, &["state", "delete", "shop/shelf/bad"]).0, 0);
    assert_eq!(verb(server, &["state", "put", "shop/shelf/late", "{\"euros\": 9}"]).0, 0);
    let (status, told) = deploy(server, migrating, &["--migrate-state"]);
    assert_eq!((status, &told["migrated"]), (0, &report(&[("item", 41, 0), ("shelf", 26, 1)])), "{told}");
    for entity in ["item/late", "shelf/late"] {
        assert_eq!(verb(server, &["state", "delete", &format!("shop/{entity}")]).0, 0);
    }
}

/// All entities are of the type of now.
async fn whole(server: &impl Endpoints) {
    let state = server.state(&["shop/item", "shop/shelf"]).await;
    for (entries, count) in state.iter().zip([ITEMS, SHELVES]) {
        let entries = entries.as_array().unwrap();
        assert_eq!(entries.len(), count);
        for entry in entries {
            let key = entry["key"].as_str().unwrap();
            let number: u64 = key.rsplit('-').next().unwrap().parse().unwrap();
            let cents = if key == "item-07" { 705 } else { number * 100 };
            assert_eq!(entry["value"], json!({ "cents": cents }), "{key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entities_become_what_a_version_says_that_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let versions = [("euros", EUROS.to_owned()), ("cents", cents(false)), ("migrating", cents(true))];
    let bundles = bundles(&directory.path().join("sources"), versions).await;
    let server = Process::start(&directory.path().join("data"), &[]).await;
    begun(&server, &bundles).await;
    let server = server.kill_and_restart(&[]).await;
    assert_eq!(stored(&server, "item/item-07").await, json!({ "cents": 705 }));
    assert_eq!(stored(&server, "item/item-08").await, json!({ "euros": 8 }));
    ended(&server, &bundles).await;
    let server = server.kill_and_restart(&[]).await;
    whole(&server).await;
    assert_eq!(server.call("shop/item/item-08/look", "[]").await.body, json!(800));
}

/// What is looked at is of all workers, and so is what is migrated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_workers_they_do_too() {
    let directory = tempfile::tempdir().unwrap();
    let [migrating] = bundles(directory.path(), [("migrating", cents(true))]).await;
    let cluster = Cluster::start(options(2, &[])).await;
    assert_eq!(deploy(&cluster, &migrating, &[]).0, 0);
    let put = |operator: &str, number: usize| {
        let put = json!([{ "euros": number }]);
        let mut call = call(operator, number, "styx.put");
        call["args"] = put;
        call
    };
    batch(&cluster, (0..ITEMS).map(|number| put("item", number))).await;
    batch(&cluster, (0..SHELVES).map(|number| put("shelf", number))).await;
    let (status, told) = deploy(&cluster, &migrating, &["--dry-run"]);
    let all = vec![("item".to_owned(), 40, 40, 40), ("shelf".to_owned(), 25, 25, 25)];
    assert_eq!((status, surveyed(&told)), (0, all));
    assert_eq!(cluster.call("shop/item/item-07/raise_by", "[5]").await.body, json!(705));
    let report = report(&[("item", 40, 39), ("shelf", 25, 25)]);
    assert_eq!(verb(&cluster, &["state", "migrate", "shop"]), (0, report));
    whole(&cluster).await;
}
