//! What clients send that no library would, byte by byte.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use styx_server::http::{ConnectionLimits, HttpOptions, Shutdown, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::server::Server;

/// Sends bytes, ends the sending side if told to, and gives what comes back until it ends or nothing more comes.
async fn exchange(server: &Server, bytes: &[u8], end: bool) -> String {
    let mut stream = TcpStream::connect(server.ingress).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    if end {
        stream.shutdown().await.unwrap();
    }
    let mut answers = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Ok(read @ 1..)) = timeout(Duration::from_secs(2), stream.read(&mut buffer)).await {
        answers.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8(answers).unwrap()
}

/// A call that stores `n`.
fn call(n: u8) -> Vec<u8> {
    format!("POST /v1/call/app/item/a/store HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\n[{n}]").into_bytes()
}

/// Opens a WebSocket.
pub const UPGRADE: &[u8] = b"GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn statuses(answers: &str) -> Vec<&str> {
    answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_request_is_answered_whatever_follows_it() {
    let server = Server::with_item(HttpOptions::default()).await;
    for (what, follows, end, expect) in [
        ("nothing", b"".to_vec(), false, &["200"][..]),
        ("the end", b"".to_vec(), true, &["200"]),
        ("the first byte of the next one", b"P".to_vec(), false, &["200"]),
        ("the next one", call(2), false, &["200", "200"]),
        ("the next one and the end", call(2), true, &["200", "200"]),
        ("half of the next one", call(2)[..30].to_vec(), true, &["200"]),
        ("garbage", b"\x00\x01\x02 nonsense\r\n\r\n".to_vec(), false, &["200", "400"]),
    ] {
        let answers = exchange(&server, &[call(1), follows].concat(), end).await;
        assert_eq!(statuses(&answers), expect, "{what}: {answers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_malformed_is_told_so() {
    let server = Server::with_item(HttpOptions::default()).await;
    let many: String = (0..500).map(|n| format!("x-{n}: 1\r\n")).collect();
    for (bytes, expect) in [
        ("nonsense\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.1\r\nhost: localhost\r\na b: c\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n".to_owned(), "400"),
        (format!("GET / HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"), "431"),
        (format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(80_000)), "414"),
    ] {
        let answers = exchange(&server, bytes.as_bytes(), false).await;
        assert_eq!(statuses(&answers), [expect], "{bytes:.60}: {answers}");
    }
}

/// More than is taken in before the answer, all of it before anything is read.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_refused_in_the_middle_of_a_body_gets_to_read_why() {
    let server = Server::with_item(HttpOptions::default()).await;
    let length = 24 << 20;
    for (path, expect) in [("/v1/call/app/item/a/store", "413"), ("/v1/nowhere", "404")] {
        let mut stream = TcpStream::connect(server.ingress).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let spaces = vec![b' '; 1 << 20];
        for sent in 0..length >> 20 {
            if let Err(error) = stream.write_all(&spaces).await {
                panic!("{path}: {error} after {sent} MiB");
            }
        }
        let mut answer = Vec::new();
        timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(statuses(&answer), [expect], "{path}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_lengths_of_one_body_end_the_connection() {
    let server = Server::with_item(HttpOptions::default()).await;
    let (length, chunked) = ("content-length: 3\r\n", "transfer-encoding: chunked\r\n");
    for headers in [[length, chunked], [chunked, length]] {
        let request = format!("POST /v1/call/app/item/a/store HTTP/1.1\r\nhost: localhost\r\n{}\r\n", headers.concat());
        let body = b"3\r\n[1]\r\n0\r\n\r\n";
        let answers = exchange(&server, &[request.as_bytes(), body, &call(2)].concat(), false).await;
        assert_eq!(statuses(&answers), ["200"], "{answers}");
        assert!(answers.contains("connection: close"), "{answers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_pings_and_does_not_read_is_not_read_either() {
    let server = Server::with_item(HttpOptions::default()).await;
    let mut stream = TcpStream::connect(server.ingress).await.unwrap();
    stream.write_all(UPGRADE).await.unwrap();
    // Masked with zeros.
    let ping: Vec<u8> = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[7; 125]].concat();
    let pings = ping.repeat(1000);
    let mut sent = 0;
    while let Ok(Ok(())) = timeout(Duration::from_secs(3), stream.write_all(&pings)).await {
        sent += pings.len();
        assert!(sent < 64 << 20, "{sent} bytes of pings were taken, and none of the answers was read");
    }
    // Whoever reads goes on.
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while read < sent / 2 {
        read += timeout(Duration::from_secs(20), stream.read(&mut buffer)).await.unwrap().unwrap();
    }
}

/// They were told that they are connected, and may have sent a request, before anybody here has looked.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_to_be_accepted_when_a_shutdown_begins_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, shutdown) = (listener.local_addr().unwrap(), Shutdown::default());
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        clients.push(stream);
    }
    shutdown.begin();
    let router = Router::new().route("/", get(async || "yes"));
    serve(listener, router, shutdown, ConnectionLimits::default(), None).await;
    for mut client in clients {
        let mut answer = String::new();
        timeout(Duration::from_secs(10), client.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    }
    assert!(TcpStream::connect(address).await.is_err());
}
