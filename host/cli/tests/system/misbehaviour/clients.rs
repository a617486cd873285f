//! Clients that send by halves and read nothing, all at once: the server holds a bounded number of bytes for them.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::neighbour::Neighbours;
use crate::process::{Endpoints, Process};

/// Opens a WebSocket.
const UPGRADE: &str = "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A frame of a client, masked with zeros; of a message that goes on, unless it is the `last`.
fn frame(text: &str, last: bool) -> Vec<u8> {
    let mut frame = vec![if last { 0x81 } else { 0x01 }, 0x80 | 127];
    frame.extend((text.len() as u64).to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}

/// Opens connections that send this, for as long as it is taken, and read nothing.
async fn greedy(server: &Process, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(server.ingress()).await.unwrap();
        // An error is a refusal.
        let _ = timeout(Duration::from_millis(200), stream.write_all(bytes)).await;
        open.push(stream);
    }
    open
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_greedy_take_no_more_memory_than_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let more = ["--client-memory", "64MiB", "--determinism-check", "off", "--connections-per-address", "600"];
    let server = Process::with_testkit(&directory.path().join("data"), &more).await;
    let neighbours = Neighbours::move_in(&server).await;
    let before = server.memory_peak();

    let head = |path: &str| format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n");
    let spaces = " ".repeat(950_000);
    let body = [head("/v1/call/testkit/a/k/put"), spaces.clone()].concat();
    let line = [head("/v1/batch"), spaces.clone()].concat();
    let message = [UPGRADE.as_bytes(), &frame(&" ".repeat(30 << 20), false)].concat();
    let giant =
        json!({"id": 1, "app": "testkit", "operator": "a", "key": "k", "function": "giant_result", "args": [900_000]});
    let giants = [UPGRADE.as_bytes(), &frame(&giant.to_string(), true).repeat(64)].concat();

    let mut open = Vec::new();
    for (what, count, bytes) in [
        ("bodies", 200, body.as_bytes()),
        ("lines", 100, line.as_bytes()),
        ("a message in fragments", 10, &message),
        ("results", 30, &giants),
    ] {
        open.extend(greedy(&server, count, bytes).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
        println!("{what}: grown by {} MiB at most", server.memory_peak() - before);
    }

    neighbours.are_content().await;
    let grown = server.memory_peak() - before;
    // Without a bound it is two gigabytes; beside what is held there are copies that are being made, and an epoch's results.
    assert!(grown < 400, "the server has grown by {grown} MiB");
    open.extend(greedy(&server, 600, b"G").await);
    let mut late = TcpStream::connect(server.ingress()).await.unwrap();
    let ended = timeout(Duration::from_secs(5), late.read(&mut [0])).await;
    assert!(ended.is_ok(), "one address has no more than its connections");
    drop(open);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.call("testkit/a/k/put", "[[1]]").await.status, 200);
}
