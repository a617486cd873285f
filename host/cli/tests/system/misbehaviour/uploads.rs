//! Uploads of every wrong kind: refused with a code and a hint, and nothing has changed.

use std::time::Instant;

use reqwest::{Body, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::bundles::{bundle, component, composite, describing, encoded, schema, uncompilable, zip};
use super::neighbour::{self, Neighbours};
use super::{Expect, fails, is_unharmed, nothing_is};
use crate::process::{Endpoints, Process, told};

const WASM: &str = "application/wasm";
const ZIP: &str = "application/zip";

/// One of each code: what else is wrong with components and bundles, the engine's and the builder's own tests know.
fn components() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let is = |code, says| fails(400, code, says);
    let in_module = |code: &str| encoded(&format!("(component (core module {code}))"));
    vec![
        ("garbage", vec![0xa5; 100_000], is("NOT_A_COMPONENT", "not a WebAssembly component")),
        ("a bundle", bundle(""), is("NOT_A_COMPONENT", "zip")),
        ("a core module", encoded("(module)"), is("CORE_MODULE", "core WebAssembly module")),
        ("no exports", encoded("(component)"), is("MISSING_EXPORT", "`invoke` and `describe`")),
        (
            "a foreign import",
            encoded("(component (import \"wasi:nn/graph@0.2.0\" (instance)))"),
            is("FOREIGN_IMPORT", "wasi:nn/graph@0.2.0"),
        ),
        ("shared memory", in_module("(memory 1 1 shared)"), is("COMPILE_FAILED", "threads")),
        ("an operator that does not compile", uncompilable(), is("COMPILE_FAILED", "")),
        (
            "locals in loops",
            in_module(&format!("(func (local {}) {}{})", "i64 ".repeat(1000), "(loop ".repeat(100), ")".repeat(100))),
            is("TOO_COMPLEX", "nested loops"),
        ),
        ("a description without end", describing("(loop $l (br $l)) (unreachable)"), is("DESCRIBE_FAILED", "fuel")),
        (
            "a description that hoards",
            describing("(loop $l (br_if $l (i32.ne (memory.grow (i32.const 64)) (i32.const -1)))) (unreachable)"),
            is("DESCRIBE_FAILED", "memory"),
        ),
        ("a schema that nobody can check", schema(r#"{"pattern":"(?=x)"}"#), is("BAD_SCHEMA", "")),
        (
            "another key prefix",
            composite(),
            fails(409, "KEY_PREFIX_CHANGED", "operator \"item\" exists without a key prefix"),
        ),
    ]
}

fn bundles() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let (item, other) = (component("item"), component("other"));
    let bad = |says| fails(400, "BAD_BUNDLE", says);
    let two = |a: &[u8], b: &[u8]| zip(&[("styx.toml", b""), ("a.wasm", a), ("b.wasm", b)]);
    let limits = |text: &str| bundle(&format!("[limits]\n{text}"));
    vec![
        ("garbage", vec![0xa5; 100_000], bad("not a zip archive")),
        ("a zip bomb", zip(&[("styx.toml", b""), ("item.wasm", &vec![0; 200 << 20])]), bad("makes it too large")),
        ("no TOML", bundle("[limits\n"), fails(400, "BAD_MANIFEST", "styx.toml, line 1: ")),
        (
            "an unknown operator",
            bundle("[operator.itme]\nisolation = \"fresh\""),
            bad("operator \"itme\", which no component implements"),
        ),
        ("two of a name", two(&item, &item), bad("operator \"item\" is in component \"a\" and in \"b\"")),
        ("a bad one of two", two(&other, b"\0asm\x01\0\0\0"), fails(400, "CORE_MODULE", "component \"b\": ")),
        (
            "much payload",
            limits("payload = \"9MiB\""),
            bad("limits.payload is 9437184, and this server allows at most 8388608"),
        ),
        (
            "much memory",
            limits("memory = \"2GiB\""),
            bad("limits.memory is 2147483648, and this server allows at most 1073741824"),
        ),
        ("much depth", limits("call_depth = 65"), bad("limits.call_depth is 65, and this server allows at most 64")),
        (
            "little memory",
            limits("memory = \"192KiB\""),
            bad("limits.memory is 196608 bytes, and component \"item\" takes 262144 before"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_uploads_are_refused_and_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &["--threads", "2"]).await;
    let deployed =
        server.deploy("app", ZIP, bundle("[limits]\nmemory = \"256KiB\"\npayload = \"8MiB\"\ncall_depth = 64")).await;
    assert_eq!(deployed.status, 201, "limits at their bounds are taken: {}", deployed.body);
    let neighbours = Neighbours::move_in(&server).await;
    let (apps, memory) = (server.get("/v1/apps").await, server.memory());

    let mut wrong = Vec::new();
    for (kind, cases) in [(WASM, components()), (ZIP, bundles())] {
        for (what, bytes, expect) in cases {
            let started = Instant::now();
            let told = server.deploy("app", kind, bytes).await;
            wrong.extend(expect.wrong(&format!("{kind}: {what}"), &told));
            assert!(started.elapsed().as_secs() < 20, "{what} took {:?}", started.elapsed());
        }
    }
    nothing_is(&wrong);
    let told = server.deploy("app", "text/plain", component("item")).await;
    told.is_error("text", 415, "UNSUPPORTED_MEDIA_TYPE", "text/plain");
    let told = server.deploy("1st", WASM, component("item")).await;
    told.is_error("a name", 400, "BAD_MANIFEST", "\"1st\"");
    too_large(&server).await;

    assert_eq!(server.get("/v1/apps").await, apps, "nothing has changed");
    assert_eq!(server.call("app/item/k/get", "[1]").await.status, 200);
    neighbours.are_content().await;
    is_unharmed(server, &["app/item", neighbour::OPERATORS[0], neighbour::OPERATORS[1]], memory).await;
}

/// More bytes than are taken: streamed without a length, and claimed.
async fn too_large(server: &Process) {
    let deployments = "/v1/apps/app/deployments";
    let stream = futures_util::stream::iter((0..65).map(|_| Ok::<_, std::io::Error>(vec![0u8; 1 << 20])));
    let request = server.to_admin(Method::POST, deployments).header("content-type", WASM);
    let answer = told(request.body(Body::wrap_stream(stream))).await;
    answer.is_error("streamed", 413, "TOO_LARGE", "at most 67108864 bytes");

    let mut socket = tokio::net::TcpStream::connect(server.admin()).await.unwrap();
    let head = format!(
        "POST {deployments} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {WASM}\r\ncontent-length: 999999999999\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("\"TOO_LARGE\""), "{answer}");
}
