//! Calls between apps: what two manifests say together, from deployments that are refused to calls that are made.

use reqwest::Method;
use serde_json::{Value, json};

use crate::deployments::bundle;
use crate::server::{Server, Told, item, item_as, told};
use crate::support::{Guest, invoke};

/// Calls `store` of `billing/account`, on its own key and with its own arguments.
fn order() -> Guest {
    let body = "
      (call $call (i32.const 1024) (i32.const 15) (local.get $k) (local.get $kl) (i32.const 1039) (i32.const 5)
        (local.get $a) (local.get $al) (i32.const 128))
      (call $ok (i32.load (i32.const 132)) (i32.load (i32.const 136)))";
    Guest::new("order", &["pay"], format!("(data (i32.const 1024) \"billing/accountstore\"){}", invoke(body)))
}

fn shop(manifest: &str) -> Vec<u8> {
    bundle(manifest, &[("order", order())])
}

/// The app that is called, whose functions take `schema`.
fn billing(manifest: &str, schema: &'static str) -> Vec<u8> {
    bundle(manifest, &[("account", item_as("account", schema))])
}

const IMPORT: &str = "[import]\n\"billing/account\" = [\"store\"]";
const EXPORT: &str = "[export.account]\nfunctions = [\"store\"]\nto = [\"shop\"]";
const INT: &str = r#"{"type":"integer"}"#;
const TITLED: &str = r#"{"type":"integer","title":"Cents"}"#;
const STRING: &str = r#"{"type":"string"}"#;

async fn deploy(server: &Server, app: &str, options: &str, bundle: Vec<u8>) -> Told {
    server.deploy(app, options, "application/zip", bundle).await
}

async fn pay(server: &Server, key: &str, cents: i64) -> Told {
    let path = format!("/v1/call/shop/order/{key}/pay");
    told(server.to_ingress(Method::POST, &path).body(format!("[{cents}]"))).await
}

/// Asserts that it is refused, by a message that says this, with a way out.
#[track_caller]
fn is_refused(told: &Told, code: &str, says: &str) {
    assert_eq!(told.error(), (409, code.into()));
    let error = &told.json()["error"];
    assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--force"), "{error}");
}

fn id(told: &Told) -> String {
    assert_eq!(told.status, 201, "{}", told.text());
    told.json()["deployment"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_app_imports_is_there_when_it_is_deployed_unless_that_is_forced() {
    let server = Server::start().await;
    is_refused(
        &deploy(&server, "shop", "", shop(IMPORT)).await,
        "UNMET_IMPORT",
        "app \"shop\" imports what is not there: no app \"billing\"",
    );
    is_refused(&deploy(&server, "shop", "?dry_run=true", shop(IMPORT)).await, "UNMET_IMPORT", "no app \"billing\"");
    let other = "[import]\n\"billing/acount\" = [\"store\", \"load\"]";
    assert_eq!(deploy(&server, "billing", "", billing("", INT)).await.status, 201);
    for (manifest, says) in [
        (other, "app \"billing\" has no operator \"acount\"; and 1 more"),
        ("[import]\n\"billing/account\" = [\"stroe\"]", "operator \"billing/account\" has no function \"stroe\""),
        (IMPORT, "does not export account.store to app \"shop\": add [export.account] with functions = [\"store\"]"),
    ] {
        is_refused(&deploy(&server, "shop", "", shop(manifest)).await, "UNMET_IMPORT", says);
    }
    // The manifest alone says as much, before there is anything to upload.
    let check = async |options, manifest: &str| {
        server.deploy("shop", options, "application/toml", manifest.as_bytes().to_vec()).await
    };
    is_refused(&check("?dry_run=true", IMPORT).await, "UNMET_IMPORT", "does not export account.store to app \"shop\"");
    assert_eq!(check("?dry_run=true&force=true", IMPORT).await.json(), json!({"app": "shop", "dry_run": true}));
    assert_eq!(check("?dry_run=true", "[app]\nname = \"shop\"").await.status, 200);
    assert_eq!(check("?dry_run=true", "[app]\nnmae = \"shop\"").await.error(), (400, "BAD_MANIFEST".into()));
    let greedy = check("?dry_run=true", "[limits]\nmemory = \"900GiB\"").await;
    assert_eq!(greedy.error(), (400, "BAD_BUNDLE".into()), "{}", greedy.text());
    assert_eq!(check("", "").await.error(), (400, "BAD_BUNDLE".into()));
    // By force it is deployed, and told at each call.
    id(&deploy(&server, "shop", "?force=true", shop(IMPORT)).await);
    let refused = pay(&server, "a", 1).await;
    assert_eq!(refused.error(), (500, "NOT_EXPORTED".into()));
    // What is exported then can be called, without another deployment of the caller.
    id(&deploy(&server, "billing", "", billing(EXPORT, INT)).await);
    assert_eq!(pay(&server, "a", 2).await.text(), "[2]");
    assert_eq!(server.get("/v1/state/billing/account/a").await.json()["value"], json!([2]));
    id(&deploy(&server, "shop", "", shop(IMPORT)).await);

    // Who does not say that it calls another does not.
    id(&deploy(&server, "shop", "", shop("")).await);
    assert_eq!(pay(&server, "a", 3).await.error(), (500, "NOT_IMPORTED".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_import_is_not_taken_away_unless_that_is_forced() {
    let server = Server::start().await;
    let first = id(&deploy(&server, "billing", "", billing(EXPORT, INT)).await);
    let bare = id(&deploy(&server, "billing", "", billing("", INT)).await);
    let good = id(&deploy(&server, "billing", "", billing("[export.account]", INT)).await);
    id(&deploy(&server, "shop", "", shop(IMPORT)).await);

    let shown = |app: &'static str| {
        let server = &server;
        async move {
            let shown = server.get(&format!("/v1/apps/{app}")).await.json();
            ["exports", "imports", "imported_by"].map(|name| shown[name].clone())
        }
    };
    assert_eq!(shown("billing").await, [json!([{ "operator": "account" }]), json!([]), json!(["shop"])]);
    let imports = json!([{ "operator": "billing/account", "functions": ["store"] }]);
    assert_eq!(shown("shop").await, [json!([]), imports, json!([])]);

    let activate = |id: &str, force: &str| {
        let path = format!("/v1/apps/billing/deployments/{id}/activate{force}");
        told(server.to_admin(Method::POST, &path))
    };
    let delete = |force: &str| told(server.to_admin(Method::DELETE, &format!("/v1/apps/billing{force}")));
    // What is the same for the caller may change.
    let titled = id(&deploy(&server, "billing", "", billing(EXPORT, TITLED)).await);
    assert_eq!(pay(&server, "a", 1).await.text(), "[1]");

    let taken = "app \"shop\" imports what this takes away: ";
    let narrower = deploy(&server, "billing", "", billing(EXPORT, STRING)).await;
    is_refused(
        &narrower,
        "BROKEN_IMPORT",
        &format!("{taken}billing/account.store takes less as parameter \"n\" than before"),
    );
    let renamed = deploy(&server, "billing", "", bundle("", &[("item", item())])).await;
    is_refused(&renamed, "BROKEN_IMPORT", &format!("{taken}app \"billing\" has no operator \"account\""));
    let away = deploy(&server, "billing", "", billing("[export.account]\nto = [\"mill\"]", INT)).await;
    is_refused(&away, "BROKEN_IMPORT", "add \"shop\" to `to` of [export.account]");
    is_refused(&activate(&bare, "").await, "BROKEN_IMPORT", "does not export account.store");
    is_refused(&delete("").await, "BROKEN_IMPORT", "no app \"billing\"");
    assert_eq!(server.get("/v1/apps/billing").await.json()["active"], json!(titled), "nothing was changed");
    assert_eq!(activate(&first, "").await.status, 200);
    assert_eq!(activate(&good, "").await.status, 200);

    // By force, each call says what is wrong; what was broken by force is no reason against anything else.
    assert_eq!(activate(&bare, "?force=true").await.status, 200);
    assert_eq!(pay(&server, "b", 1).await.error(), (500, "NOT_EXPORTED".into()));
    id(&deploy(&server, "billing", "", billing("", INT)).await);
    assert_eq!(activate(&good, "").await.status, 200);
    assert_eq!(pay(&server, "b", 1).await.text(), "[1]");
    id(&deploy(&server, "billing", "?force=true", billing(EXPORT, STRING)).await);
    // Arguments of calls inside of a transaction are checked by the guest that takes them: this one takes all.
    assert_eq!(pay(&server, "b", 2).await.text(), "[2]");
    assert_eq!(delete("?force=true").await.status, 200);
    let nobody = pay(&server, "b", 1).await;
    assert_eq!(nobody.error(), (500, "GUEST_EXCEPTION".into()));
    assert_eq!(nobody.json()["error"]["message"], json!("order.pay called nobody: no app \"billing\""));
    assert_eq!(delete("?force=1").await.error(), (400, "BAD_REQUEST".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_exports_what_it_has() {
    let server = Server::start().await;
    for (manifest, says, hint) in [
        (
            "[export.acount]",
            "styx.toml exports operator \"acount\", which no component implements",
            "did you mean `account`?",
        ),
        (
            "[export.account]\nfunctions = [\"stor\"]",
            "styx.toml: export.account.functions names \"stor\", which is no function of it",
            "did you mean `store`?",
        ),
    ] {
        let refused = deploy(&server, "billing", "", billing(manifest, INT)).await;
        assert_eq!(refused.error(), (400, "BAD_BUNDLE".into()));
        let error = &refused.json()["error"];
        assert_eq!((&error["message"], &error["hint"]), (&json!(says), &json!(hint)));
    }
}

/// What is told of a request names apps where they are not the request's.
#[tokio::test(flavor = "multi_thread")]
async fn a_trace_names_the_other_app() {
    let server = Server::start().await;
    id(&deploy(&server, "billing", "", billing(EXPORT, INT)).await);
    id(&deploy(&server, "shop", "", shop(IMPORT)).await);
    let path = "/v1/call/shop/order/a/pay";
    let called = told(server.to_ingress(Method::POST, path).header("styx-trace", "1").body("[1]")).await;
    assert_eq!(called.status, 200, "{}", called.text());
    let trace = server.get(&format!("/v1/requests/{}/trace", called.header("styx-request-id"))).await.json();
    let attempt = &trace["attempts"][0];
    let of = |what: &str| -> Vec<Value> {
        attempt[what].as_array().unwrap().iter().map(|one| one["operator"].clone()).collect()
    };
    assert_eq!((trace["app"].clone(), trace["operator"].clone()), (json!("shop"), json!("order")));
    assert_eq!(of("calls"), [json!("order"), json!("billing/account")], "{trace}");
    assert_eq!(of("accesses"), [json!("billing/account")], "{trace}");
}
