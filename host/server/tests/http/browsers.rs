//! What web pages may do.

use reqwest::Method;
use styx_server::http::{Hosts, HttpOptions, Origins};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::server::{Server, told};

#[tokio::test(flavor = "multi_thread")]
async fn pages_from_elsewhere_may_not_call() {
    let friend = "http://console.example";
    let server =
        Server::with_item(HttpOptions { origins: Origins(vec![friend.to_owned()].into()), ..HttpOptions::default() })
            .await;
    let own = format!("http://{}", server.ingress);
    for (origin, status, allowed) in
        [("http://evil.example", 403, ""), ("null", 403, ""), (friend, 200, friend), (own.as_str(), 200, "")]
    {
        let call = server.to_ingress(Method::POST, "/v1/call/app/item/a/store").header("origin", origin).body("[1]");
        let told = told(call).await;
        assert_eq!((told.status, told.header("access-control-allow-origin")), (status, allowed), "{origin}");
        if status == 403 {
            assert_eq!(told.error().1, "FORBIDDEN_ORIGIN");
            let hint = told.json()["error"]["hint"].to_string();
            assert!(hint.contains("--allow-origin"), "{hint}");
        }
        let mut upgrade = format!("ws://{}/v1/ws", server.ingress).into_client_request().unwrap();
        upgrade.headers_mut().insert("origin", origin.parse().unwrap());
        assert_eq!(connect_async(upgrade).await.is_ok(), status == 200, "{origin}");
        let admin = server.to_admin(Method::DELETE, "/v1/apps/absent").header("origin", origin);
        assert_eq!(crate::server::told(admin).await.status, if origin == friend { 404 } else { 403 }, "{origin}");
    }
    // What browsers ask first.
    for (origin, status) in [("http://evil.example", 403), (friend, 204)] {
        let ask = server
            .to_ingress(Method::OPTIONS, "/v1/call/app/item/a/store")
            .header("origin", origin)
            .header("access-control-request-method", "POST");
        let told = told(ask).await;
        assert_eq!(told.status, status, "{origin}");
        assert_eq!(
            told.header("access-control-allow-headers"),
            if status == 204 { "authorization, content-type, idempotency-key" } else { "" }
        );
    }
    assert_eq!(told(server.to_ingress(Method::OPTIONS, "/v1/batch")).await.error(), (405, "METHOD_NOT_ALLOWED".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_somebody_else_resolves_is_not_answered() {
    let hosts = Hosts(vec!["styx.example".to_owned()].into());
    let server = Server::with_item(HttpOptions { hosts, ..HttpOptions::default() }).await;
    for (host, status) in [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("localhost", 200),
        ("app.localhost:1", 200),
        ("STYX.example:8080", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8080", 421),
        ("localhost.evil.example", 421),
    ] {
        // As a page sends it whose own name has been made to resolve to this address.
        let origin = format!("http://{host}");
        let call = server.to_ingress(Method::POST, "/v1/call/app/item/a/store").header("host", host);
        let answer = told(call.header("origin", &origin).body("[1]")).await;
        assert_eq!(answer.status, status, "{host}: {}", answer.text());
        let admin = told(server.to_admin(Method::GET, "/v1/apps").header("host", host)).await;
        assert_eq!(admin.status, status, "{host}");
        if status == 421 {
            assert_eq!(answer.error().1, "UNKNOWN_HOST");
        }
    }
}
