//! Types of state: what a version says of entities that are there, from what is looked at to what is made of them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{Server, Told, item, told};
use crate::support::Guest;

const LIST: &str = r#"{"type":"array"}"#;
const TEXTS: &str = r#"{"type":"array","items":{"type":"string"}}"#;
const EMPTY: &str = r#"{"type":"array","maxItems":0}"#;

/// `app/item`, whose entities are of a type.
async fn deploy(server: &Server, options: &str, state: Option<(&'static str, bool)>) -> Told {
    let guest = Guest { state, ..item() };
    server.deploy("app", options, "application/wasm", guest.bytes()).await
}

fn id(told: &Told) -> String {
    assert_eq!(told.status, 201, "{}", told.text());
    told.json()["deployment"].as_str().unwrap().to_owned()
}

/// Asserts that it is refused since entities are of another type, in one line with an example and a way out.
#[track_caller]
fn is_refused(told: &Told, says: &str) {
    assert_eq!(told.error(), (409, "STATE_INCOMPATIBLE".into()));
    let error = &told.json()["error"];
    assert!(error["message"].as_str().unwrap().starts_with(says), "{error}");
    for way in ["migration", "--force"] {
        assert!(error["hint"].as_str().unwrap().contains(way), "{error}");
    }
}

async fn store(server: &Server, key: &str, value: Value) {
    let stored = server.call(key, "store", format!("[{value}]")).await;
    assert_eq!(stored.status, 200, "{}", stored.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_cannot_read_what_is_there_is_refused_unless_it_migrates_or_is_forced() {
    let server = Server::start().await;
    let plain = id(&deploy(&server, "", None).await);
    assert!(deploy(&server, "?dry_run=true", Some((TEXTS, false))).await.json()["state"].is_null(), "nothing is there");
    for key in ["a", "b", "c", "d", "e"] {
        store(&server, key, json!(7)).await;
    }
    store(&server, "text", json!("x")).await;

    let fits = deploy(&server, "?dry_run=true", Some((LIST, false))).await;
    let survey = |unfit: u64, migrates: bool, examples: Value| json!([{ "operator": "item", "entities": 6, "checked": 6, "unfit": unfit, "migrates": migrates, "examples": examples }]);
    assert_eq!((fits.status, &fits.json()["state"]), (200, &survey(0, false, json!([]))));
    let typed = id(&deploy(&server, "", Some((LIST, false))).await);

    let says = "operator \"item\": 5 of 6 entities are not of the type of its state, \"";
    let stored = server.stored();
    for options in ["?dry_run=true", "", "?force=false"] {
        is_refused(&deploy(&server, options, Some((TEXTS, false))).await, says);
    }
    let shown = server.get("/v1/apps/app").await.json();
    assert_eq!((&shown["active"], server.stored()), (&json!(typed), stored), "nothing was changed");
    assert_eq!(shown["operators"][0]["state"], json!({ "type": "array" }));
    assert_eq!(shown["operators"][0]["migrates"], json!(false));

    // By force it goes ahead, and says what it meets; what had no type is not looked at.
    let forced = deploy(&server, "?force=true", Some((TEXTS, false))).await;
    let state = forced.json()["state"][0].clone();
    let texts = id(&forced);
    assert_eq!((&state["unfit"], state["examples"].as_array().unwrap().len()), (&json!(5), 3));
    let reason = state["examples"][0]["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason, "at /0: 7 is not of type \"string\"");
    let activate = |id: &str, force: &str| {
        let path = format!("/v1/apps/app/deployments/{id}/activate{force}");
        told(server.to_admin(Method::POST, &path))
    };
    let back = activate(&typed, "").await;
    assert_eq!((back.status, &back.json()["state"]), (200, &survey(0, false, json!([]))));
    assert_eq!(activate(&plain, "").await.json(), json!({ "app": "app", "deployment": plain, "active": true }));
    is_refused(&activate(&texts, "").await, says);
    assert_eq!(server.get("/v1/apps/app").await.json()["active"], json!(plain));
    assert_eq!(activate(&texts, "?force=true").await.status, 200);

    // With a migration, too; that one empties the list.
    let migrate = |key: &'static str, args: &'static str| server.call(key, "styx.migrate", args);
    let absent = migrate("a", "").await;
    assert_eq!(absent.error(), (404, "UNKNOWN_FUNCTION".into()));
    let migrates = deploy(&server, "", Some((EMPTY, true))).await;
    let state = migrates.json()["state"][0].clone();
    id(&migrates);
    assert_eq!((&state["unfit"], &state["migrates"]), (&json!(6), &json!(true)));
    assert_eq!(migrate("a", "[1]").await.error(), (400, "BAD_ARGUMENTS".into()));
    let called = migrate("a", "").await;
    assert_eq!((called.status, called.json()), (200, json!([])), "{}", called.text());
    assert_eq!(server.get("/v1/state/app/item/a").await.json()["value"], json!([]));
    let left = deploy(&server, "?dry_run=true", Some((EMPTY, true))).await;
    assert_eq!(left.json()["state"][0]["unfit"], json!(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_entities_some_are_looked_at() {
    let server = Server::start().await;
    id(&deploy(&server, "", None).await);
    let lines: String = (0..2500)
        .map(|number| {
            let value = if number < 2400 { json!([]) } else { json!([number]) };
            let line = json!({ "id": number, "app": "app", "operator": "item", "key": format!("k{number:04}"), "function": "styx.put", "args": [value] });
            format!("{line}\n")
        })
        .collect();
    let put = server.to_ingress(Method::POST, "/v1/batch").header("content-type", "application/x-ndjson");
    let answers = told(put.body(lines)).await.text();
    assert!(!answers.contains("error"), "{answers}");
    let refused = deploy(&server, "?dry_run=true", Some((EMPTY, false))).await;
    is_refused(&refused, "operator \"item\": ");
    let told = deploy(&server, "?dry_run=true&force=true", Some((EMPTY, false))).await.json()["state"][0].clone();
    let (checked, unfit) = (told["checked"].as_u64().unwrap(), told["unfit"].as_u64().unwrap());
    assert_eq!(told["entities"], json!(2500));
    assert!(checked > 700 && checked <= 1000, "{told}");
    assert!(unfit > 0 && unfit < 200, "{told}: one in 25 is late among the keys");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_is_none_is_refused() {
    let server = Server::start().await;
    let refused = deploy(&server, "", Some((r#"{"type":"thing"}"#, false))).await;
    assert_eq!(refused.error(), (400, "BAD_SCHEMA".into()));
    let refused = deploy(&server, "", Some(("7", false))).await;
    assert_eq!(refused.error(), (400, "DESCRIBE_FAILED".into()));
}
