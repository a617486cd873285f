//! Who is let in: tokens, what they cover, and how long they are worth something.

use std::path::Path;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use styx_server::auth::Access;
use styx_server::http::HttpOptions;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::server::{Server, Told, envelope, item, told};

const OPERATOR: &str = "the-operators-own-token";

/// A kind of request, how it is made, and what it comes to with each token.
type Case<'a> = (&'a str, &'a dyn Fn() -> RequestBuilder, &'a [(&'a str, u16)]);

/// A server that asks for tokens, with the guest `item` deployed as `app`.
async fn locked() -> Server {
    locked_by(Access::configured(None::<&Path>, Some(OPERATOR.into()), false, false).unwrap()).await
}

async fn locked_by(access: Access) -> Server {
    let server = Server::with(HttpOptions { access, ..HttpOptions::default() }).await;
    let deploy = server.to_admin(Method::POST, "/v1/apps/app/deployments").header("content-type", "application/wasm");
    assert_eq!(as_whom(OPERATOR, deploy.body(item().bytes())).await.status, 201);
    server
}

async fn as_whom(token: &str, request: RequestBuilder) -> Told {
    told(request.bearer_auth(token)).await
}

/// Has the operator issue a token; its text and its id.
async fn issue(server: &Server, request: Value) -> (String, String) {
    let issued = as_whom(OPERATOR, server.to_admin(Method::POST, "/v1/tokens").json(&request)).await;
    assert_eq!(issued.status, 201, "{}", issued.text());
    let text = |key: &str| issued.json()[key].as_str().unwrap().to_owned();
    (text("token"), text("id"))
}

fn call(server: &Server, app: &str) -> RequestBuilder {
    server.to_ingress(Method::POST, &format!("/v1/call/{app}/item/a/store")).body("[1]")
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_comes_in_without_a_token_that_covers_what_they_want() {
    let server = locked().await;
    let get = |path: &str| server.to_admin(Method::GET, path);
    let (invoke, _) = issue(&server, json!({ "name": "till", "scopes": ["invoke"], "apps": ["app"] })).await;
    let (read, _) = issue(&server, json!({ "name": "report", "scopes": ["read"], "apps": ["app"] })).await;
    let (watch, _) = issue(&server, json!({ "name": "metrics", "scopes": ["read"] })).await;
    let (deploy, _) = issue(&server, json!({ "name": "ci", "scopes": ["deploy"], "apps": ["app"] })).await;
    let secret = |token: &str| token.splitn(3, '_').nth(2).unwrap().to_owned();
    let stolen = invoke.replace(&secret(&invoke), &secret(&read));
    let system = |app: &str| server.to_ingress(Method::POST, &format!("/v1/call/{app}/item/a/styx.put")).body("[1]");
    let requests: [Case<'_>; 11] = [
        ("write", &|| system("app"), &[(&deploy, 200), (OPERATOR, 200), (&invoke, 403), (&read, 403)]),
        ("write into another app", &|| system("other"), &[(&deploy, 403), (OPERATOR, 404)]),
        ("call", &|| call(&server, "app"), &[(&invoke, 200), (OPERATOR, 200), (&read, 403), (&deploy, 403)]),
        ("call of another app", &|| call(&server, "other"), &[(&invoke, 403), (OPERATOR, 404)]),
        ("result", &|| server.to_ingress(Method::GET, "/v1/requests/00"), &[(&invoke, 403), (OPERATOR, 400)]),
        ("state", &|| get("/v1/state/app/item/a"), &[(&read, 200), (&watch, 200), (&invoke, 403)]),
        ("state of another app", &|| get("/v1/state/other/item/a"), &[(&read, 403), (&watch, 404)]),
        ("metrics", &|| get("/metrics"), &[(&watch, 200), (&read, 403), (&invoke, 403)]),
        (
            "snapshot",
            &|| server.to_admin(Method::POST, "/v1/snapshots"),
            &[(&watch, 403), (&deploy, 403), (OPERATOR, 409)],
        ),
        ("tokens", &|| get("/v1/tokens"), &[(&watch, 403), (OPERATOR, 200)]),
        (
            "removal",
            &|| server.to_admin(Method::DELETE, "/v1/apps/app"),
            &[(&invoke, 403), (&read, 403), (&deploy, 200)],
        ),
    ];
    for (what, request, answers) in requests {
        let nobody = told(request()).await;
        assert_eq!(nobody.error(), (401, "UNAUTHENTICATED".to_owned()), "{what}");
        assert_eq!(nobody.header("www-authenticate"), "Bearer");
        for wrong in [stolen.as_str(), "styx_", "styx_0_0", "the-operators-own-toke"] {
            assert_eq!(as_whom(wrong, request()).await.error(), (401, "UNAUTHENTICATED".to_owned()), "{what}: {wrong}");
        }
        for (token, status) in answers {
            let answer = as_whom(token, request()).await;
            assert_eq!(answer.status, *status, "{what}: {}", answer.text());
            assert!(*status != 403 || answer.error().1 == "FORBIDDEN", "{what}");
            assert!(!answer.text().contains(*token), "{what}");
        }
    }
    for path in ["/", "/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(told(get(path)).await.status, 200, "{path}");
    }
    let two = call(&server, "app").header("authorization", "Basic eA==").bearer_auth(OPERATOR);
    assert_eq!(told(two).await.status, 401, "what is shown twice is not shown");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_once_and_ends_when_it_is_revoked_or_expires() {
    let server = locked().await;
    let (token, id) = issue(&server, json!({ "name": "till", "scopes": ["invoke"] })).await;
    let (brief, _) = issue(&server, json!({ "name": "brief", "scopes": ["invoke"], "expires_in": "700ms" })).await;
    assert_eq!(as_whom(&token, call(&server, "app")).await.status, 200);
    assert_eq!(as_whom(&brief, call(&server, "app")).await.status, 200);

    let connect = async |token: &str| {
        let mut upgrade = format!("ws://{}/v1/ws", server.ingress).into_client_request().unwrap();
        upgrade.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        connect_async(upgrade).await.map(|(socket, _)| socket)
    };
    assert!(connect("styx_0_0").await.is_err());
    let (mut socket, mut brief_socket) = (connect(&token).await.unwrap(), connect(&brief).await.unwrap());
    async fn ask(
        socket: &mut (
                 impl SinkExt<Message, Error: std::fmt::Debug>
                 + StreamExt<Item = Result<Message, tokio_tungstenite::tungstenite::Error>>
                 + Unpin
             ),
    ) -> Value {
        let request = envelope(json!(1), "a", "store", json!([1])).to_string();
        socket.send(Message::Text(request.into())).await.unwrap();
        serde_json::from_str(socket.next().await.unwrap().unwrap().to_text().unwrap()).unwrap()
    }
    assert_eq!(ask(&mut socket).await["ok"], json!([1]));

    let (watch, watch_id) = issue(&server, json!({ "name": "watch", "scopes": ["read"] })).await;
    let mut watching = server.to_admin(Method::GET, "/v1/events").bearer_auth(&watch).send().await.unwrap();
    assert_eq!(watching.status(), 200);
    let first = watching.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: status"), "{first:?}");

    let list = as_whom(OPERATOR, server.to_admin(Method::GET, "/v1/tokens")).await;
    // A secret may have `_` in it, too.
    assert!(!list.text().contains(token.splitn(3, '_').nth(2).unwrap()), "{}", list.text());
    assert_eq!(list.json()["tokens"].as_array().unwrap().len(), 3);

    let revoke = |id: &str| server.to_admin(Method::DELETE, &format!("/v1/tokens/{id}"));
    assert_eq!(as_whom(OPERATOR, revoke(&id)).await.status, 200);
    assert_eq!(as_whom(&token, call(&server, "app")).await.error().0, 401);
    assert_eq!(ask(&mut socket).await["error"]["code"], "UNAUTHENTICATED", "a connection does not outlive its token");
    assert_eq!(as_whom(OPERATOR, revoke(&id)).await.error(), (404, "UNKNOWN_TOKEN".to_owned()));

    assert_eq!(as_whom(OPERATOR, revoke(&watch_id)).await.status, 200);
    let watched = tokio::time::timeout(Duration::from_secs(20), watching.text()).await;
    watched.expect("what is watched ends with its token").unwrap();

    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(as_whom(&brief, call(&server, "app")).await.error().0, 401);
    assert_eq!(ask(&mut brief_socket).await["error"]["code"], "UNAUTHENTICATED");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_token_and_each_address_has_its_own_rate() {
    // As many as even a slow machine answers, one after the other.
    const RATE: u32 = 5;
    let rate = RATE.try_into().unwrap();
    let open =
        Server::with_item(HttpOptions { access: Access::default().limited(rate), ..HttpOptions::default() }).await;
    let access = Access::configured(None::<&Path>, Some(OPERATOR.into()), false, false).unwrap().limited(rate);
    let server = locked_by(access).await;
    let (one, _) = issue(&server, json!({ "name": "one", "scopes": ["invoke"] })).await;
    let (other, _) = issue(&server, json!({ "name": "other", "scopes": ["invoke"] })).await;
    // Whoever asks for much more than they may in a second is told so, and has what they may.
    let burst = async |request: &dyn Fn() -> RequestBuilder| {
        let (started, mut done) = (std::time::Instant::now(), 0);
        loop {
            let answer = told(request()).await;
            if answer.status == 429 {
                assert_eq!((answer.error().1.as_str(), answer.header("retry-after")), ("RATE_LIMITED", "1"));
                return;
            }
            assert_eq!(answer.status, 200, "{}", answer.text());
            done += 1;
            assert!(f64::from(done) <= f64::from(RATE) * (started.elapsed().as_secs_f64() + 1.0) + 1.0, "{done}");
        }
    };
    burst(&|| call(&server, "app").bearer_auth(&one)).await;
    assert_eq!(as_whom(&other, call(&server, "app")).await.status, 200, "another token has its own");
    burst(&|| call(&open, "app")).await;
    assert_eq!(told(open.to_admin(Method::GET, "/healthz")).await.status, 200);

    // Lines of a batch count one by one.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let line = envelope(json!(1), "a", "store", json!([1])).to_string() + "\n";
    let batch = server.to_ingress(Method::POST, "/v1/batch").bearer_auth(&one).body(line.repeat(3 * RATE as usize));
    // More are read as their turn comes.
    let started = std::time::Instant::now();
    let answers = told(batch).await.text();
    let done = answers.lines().filter(|line| line.contains("\"ok\":")).count();
    assert_eq!(done, 3 * RATE as usize, "{answers}");
    assert!(started.elapsed() > Duration::from_millis(1500), "{:?}", started.elapsed());

    // Who shows nothing that is worth something is counted by address, and keeps nobody out who shows more.
    for worthless in [None, Some("styx_0_0")] {
        let mut refused = Vec::new();
        while refused.last() != Some(&429) && refused.len() < 1000 {
            let request = call(&server, "app");
            refused.push(told(worthless.iter().fold(request, RequestBuilder::bearer_auth)).await.status);
        }
        assert!(refused.last() == Some(&429) && refused[..refused.len() - 1].iter().all(|status| *status == 401));
    }
    assert_eq!(as_whom(&other, call(&server, "app")).await.status, 200);
    server.stop().await;
    open.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_would_be_good_for_nothing_are_not_issued() {
    let server = locked().await;
    for request in [
        json!({ "name": "x", "scopes": [] }),
        json!({ "name": "", "scopes": ["read"] }),
        json!({ "name": "a\nb", "scopes": ["read"] }),
        json!({ "name": "x", "scopes": ["all"] }),
        json!({ "name": "x", "scopes": ["read"], "apps": [] }),
        json!({ "name": "x", "scopes": ["operate"], "apps": ["app"] }),
        json!({ "name": "x", "scopes": ["read"], "expires_in": "soon" }),
        json!({ "name": "x", "scopes": ["read"], "expires_in": "101years" }),
    ] {
        let refused = as_whom(OPERATOR, server.to_admin(Method::POST, "/v1/tokens").json(&request)).await;
        assert_eq!(refused.error(), (400, "BAD_REQUEST".to_owned()), "{request}");
    }
    server.stop().await;
    // The first one would lock out whoever asks for it.
    let open = Server::start().await;
    let refused =
        told(open.to_admin(Method::POST, "/v1/tokens").json(&json!({ "name": "x", "scopes": ["read"] }))).await;
    assert_eq!(refused.error(), (403, "FORBIDDEN".to_owned()));
    open.stop().await;
}
