//! A cluster as it stands in a network: certificates between its processes, TLS and tokens before its ports.

use std::path::Path;

use serde_json::{Value, json};
use styx_client::{Client, Retry};
use tokio::process::Command;

use crate::process::cluster::PATIENCE;
use crate::process::{FREE, started, testkit};

const OPERATOR: &str = "the-operators-own-token";

/// Runs a verb; its exit status, and what it said.
async fn styx(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let run =
        Command::new(env!("CARGO_BIN_EXE_styx")).current_dir(directory).args(arguments).kill_on_drop(true).output();
    let output = tokio::time::timeout(PATIENCE, run).await.expect("it ends").unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

/// A certificate of the HTTP ports that is its own authority.
fn certificate(directory: &Path) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(directory.join("http.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(directory.join("http.key"), key.serialize_pem()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_behind_locks_serves_who_has_the_keys_and_nobody_else() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    std::fs::write(path("token"), OPERATOR).unwrap();
    certificate(directory);
    assert_eq!(styx(directory, &["cluster", "init", "ca"]).await.0, 0);
    for (role, name) in [("coordinator", "one"), ("worker", "w1"), ("gateway", "g1")] {
        let made = styx(directory, &["cluster", "certificate", "ca", name, "--role", role]).await;
        assert_eq!(made.0, 0, "{}", made.1);
    }
    let (cert, key, token) = (path("http.pem"), path("http.key"), path("token"));
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let server = async |role: &str, data: &str, more: &[&str]| {
        let (own, data) = (path(data), path(&format!("{data}-data")));
        let flags = ["server", "--json", "--role", role, "--cluster-tls", &own];
        let place: &[&str] = if role == "gateway" { &[] } else { &["--data-dir", &data] };
        started(directory, role, "info", &[&flags[..], place, more].concat()).await
    };
    let front = [&["--admin-addr", FREE][..], &tls].concat();
    let operator = ["--admin-token-file", token.as_str()];
    let coordinator = server("coordinator", "one", &[&front[..], &["--cluster-addr", FREE], &operator].concat()).await;
    let at = coordinator.text("cluster").to_owned();
    let _worker = server("worker", "w1", &["--coordinator", &at, "--threads", "1"]).await;
    let calls = ["--coordinator", &at, "--ingress-addr", FREE, "--require-token"];
    let gateway = server("gateway", "g1", &[&front[..], &calls].concat()).await;

    let (admin, ingress) =
        (format!("https://{}", coordinator.text("admin")), format!("https://{}", gateway.text("ingress")));
    let ca = std::fs::read(&cert).unwrap();
    let client = |token: &str| {
        let client = Client::builder(&ingress).admin_url(&admin).ca(ca.clone()).token(token).retry(Retry::never());
        client.timeout(PATIENCE).build().unwrap()
    };
    client(OPERATOR).deploy("testkit", testkit().await).await.unwrap();
    // Who speaks without TLS, or believes other authorities, is told what is missing.
    for (url, says) in [(admin.replace("https", "http"), "https://…"), (admin.clone(), "--ca FILE")] {
        let (status, told) = styx(directory, &["--admin-url", &url, "apps"]).await;
        assert!(status == 1 && told.contains(says), "{told}");
    }
    let verb = async |more: &[&str]| {
        let flags = ["--json", "--admin-url", &admin, "--ingress-url", &ingress, "--ca", "http.pem"];
        styx(directory, &[&flags[..], more].concat()).await
    };
    let issue = ["tokens", "create", "till", "--scope", "invoke", "--app", "testkit", "--token-file", "token"];
    let issued = verb(&issue).await;
    let issued: Value = serde_json::from_str(&issued.1).unwrap_or_else(|_| panic!("{}", issued.1));
    let text = issued["token"].as_str().unwrap();
    std::fs::write(path("till"), text).unwrap();

    // Known at the gateway as soon as it is issued; over HTTP and over a WebSocket.
    let till = client(text);
    let request = || styx_client::Request::new("testkit", "a", "k", "list", json!([]));
    assert_eq!(till.call("testkit", "a", "k", "append", json!([1])).await.unwrap(), json!([1]));
    assert_eq!(till.pipeline().call(request()).await.unwrap().value().unwrap(), json!([1]));
    let stranger = Client::builder(&ingress).ca(ca.clone()).retry(Retry::never()).build().unwrap();
    assert_eq!(stranger.request(request()).await.unwrap_err().code, "UNAUTHENTICATED");
    assert_eq!(stranger.pipeline().call(request()).await.unwrap_err().code, "UNAUTHENTICATED");
    assert_eq!(till.get("testkit", "a", "k").await.unwrap_err().code, "FORBIDDEN");
    let distrustful = Client::builder(&ingress).ca(std::fs::read(path("ca/ca.pem")).unwrap()).retry(Retry::never());
    assert_eq!(distrustful.build().unwrap().request(request()).await.unwrap_err().code, "UNREACHABLE");

    let (status, said) = verb(&["apps", "--token-file", "till"]).await;
    assert!(status == 1 && said.contains("FORBIDDEN"), "{said}");
    assert_eq!(verb(&["tokens", "revoke", issued["id"].as_str().unwrap(), "--token-file", "token"]).await.0, 0);
    assert_eq!(till.request(request()).await.unwrap_err().code, "UNAUTHENTICATED");

    // Who has no certificate is no part of it.
    let plain = ["--role", "worker", "--coordinator", &at, "--data-dir", "plain"];
    let mut plain = Command::new(env!("CARGO_BIN_EXE_styx"))
        .current_dir(directory)
        .arg("server")
        .args(plain)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let log = || std::fs::read_to_string(directory.join("coordinator.log")).unwrap();
    let told = async {
        while !log().contains("it does not speak TLS") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("the coordinator says so");
    plain.kill().await.unwrap();
    assert_eq!(client(OPERATOR).admin("/v1/cluster").await.unwrap()["workers"], 1);
    let log = log();
    assert!(log.contains("audit") && log.contains("/v1/tokens"), "{log}");
    for secret in [OPERATOR, text.splitn(3, '_').nth(2).unwrap()] {
        assert!(!log.contains(secret));
    }
    let mistaken = styx(
        directory,
        &["server", "--role", "worker", "--coordinator", &at, "--cluster-tls", "g1", "--data-dir", "x"],
    )
    .await;
    assert!(mistaken.0 == 1 && mistaken.1.contains("error TLS") && mistaken.1.lines().count() == 1, "{}", mistaken.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_would_be_open_to_a_network_does_not_start() {
    let place = tempfile::tempdir().unwrap();
    for arguments in [
        &["server", "--ingress-addr", "0.0.0.0:0"][..],
        &["server", "--admin-addr", "0.0.0.0:0"],
        &["server", "--role", "coordinator", "--cluster-addr", "0.0.0.0:0"],
        &["server", "--role", "worker", "--coordinator", "192.0.2.1:7000"],
    ] {
        let (status, said) = styx(place.path(), arguments).await;
        assert!(status == 2 && said.starts_with("error INSECURE"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
