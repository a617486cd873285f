//! Clients that have much held for them: it is bounded, and others are answered meanwhile.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use styx_server::http::{HttpOptions, Memory};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::raw::UPGRADE;
use crate::server::{CONNECTIONS_MAX, Server, envelope};

const TOTAL: usize = 8 << 20;

async fn small() -> Server {
    Server::with_item(HttpOptions { memory: Memory::new(TOTAL), ..HttpOptions::default() }).await
}

/// Sends a request's head and then this, for as long as it is taken.
async fn pour(server: &Server, head: &[u8], bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.ingress).await.unwrap();
    stream.write_all(head).await.unwrap();
    // An error is a refusal.
    let _ = timeout(Duration::from_millis(300), stream.write_all(bytes)).await;
    stream
}

/// Somebody else is answered, and no more is held than may be.
async fn goes_on(server: &Server, what: &str) {
    assert!(server.memory.used() <= TOTAL, "{what}: {}", server.memory.used());
    let value = json!([vec![7; 4000]]);
    let answer = timeout(Duration::from_secs(10), server.call("other", "store", value.to_string())).await;
    assert_eq!(answer.expect("others are answered").json(), value, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_by_halves_is_bounded() {
    let server = small().await;
    let post = |path: &str| format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900000\r\n\r\n");
    let fragment =
        |opcode: u8| [&[opcode, 0x80 | 127, 0, 0, 0, 0, 0, 0x04, 0, 0, 0, 0, 0, 0][..], &[b' '; 1 << 18]].concat();
    let fragments = [fragment(1), fragment(0).repeat(60)].concat();
    let half = TOTAL / 2;
    for (what, head, bytes, at_least) in [
        ("bodies", post("/v1/call/app/item/a/store").into_bytes(), vec![b' '; 890_000], half),
        ("lines", post("/v1/batch").into_bytes(), vec![b' '; 890_000], half),
        ("fragments of a message", UPGRADE.to_vec(), fragments[..890_000].to_vec(), half),
        // Refused before they end.
        ("fragments without end", UPGRADE.to_vec(), fragments, 0),
    ] {
        let mut greedy = Vec::new();
        let mut held = 0;
        for _ in 0..20 {
            greedy.push(pour(&server, &head, &bytes).await);
            held = held.max(server.memory.used());
            goes_on(&server, what).await;
        }
        assert!(held >= at_least, "{what}: {held} bytes were held");
        drop(greedy);
        let freed = async {
            while server.memory.used() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(20), freed).await.expect("who is gone holds nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_for_which_there_is_no_room_is_refused() {
    let server = small().await;
    let answer = server.call("a", "store", format!("[\"{}\"]", "x".repeat(900_000))).await;
    assert_eq!(answer.status, 200, "{:.200}", answer.text());
    let others: Vec<_> = (0..8).map(|_| server.memory.account()).collect();
    for other in &others {
        while other.grow(64 << 10) {}
    }
    let refused = server.call("a", "store", format!("[\"{}\"]", "x".repeat(900_000))).await;
    assert_eq!(refused.error(), (503, "OVERLOADED".to_owned()));
    assert_eq!(refused.header("retry-after"), "1");
    goes_on(&server, "refused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_are_not_read_are_bounded_and_each_request_is_answered() {
    let server = small().await;
    let value = json!(["x".repeat(200_000)]);
    assert_eq!(server.call("a", "store", value.to_string()).await.status, 200);
    let url = format!("ws://{}/v1/ws", server.ingress);
    let request = |id: u64| Message::Text(envelope(json!(id), "a", "load", json!([0])).to_string().into());
    let mut sockets = Vec::new();
    for _ in 0..10 {
        let (mut socket, _) = connect_async(&url).await.unwrap();
        // One that is small first: what is expected after it is too little.
        socket.send(Message::Text(envelope(json!(0), "b", "load", json!([0])).to_string().into())).await.unwrap();
        socket.next().await.unwrap().unwrap();
        for id in 1..=100 {
            socket.send(request(id)).await.unwrap();
        }
        sockets.push(socket);
        goes_on(&server, "unread").await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    goes_on(&server, "unread").await;
    let (mut whole, mut forgotten) = (0, 0);
    for socket in &mut sockets {
        for _ in 1..=100 {
            let answer = timeout(Duration::from_secs(20), socket.next()).await.unwrap().unwrap().unwrap();
            let answer: Value = serde_json::from_str(answer.to_text().unwrap()).unwrap();
            match answer["error"]["code"].as_str() {
                None => whole += usize::from(answer["ok"] == value),
                Some("REPLY_FORGOTTEN" | "OVERLOADED") => forgotten += 1,
                Some(other) => panic!("{other}"),
            }
        }
    }
    assert_eq!(whole + forgotten, 1000);
    assert!(whole >= 100, "{whole} results were delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_are_not_read_are_bounded() {
    const MOST: usize = 32 << 20;
    let server = Server::with_item(HttpOptions { memory: Memory::new(MOST), ..HttpOptions::default() }).await;
    for key in 0..28 {
        let stored = server.call(&key.to_string(), "store", json!(["x".repeat(250_000)]).to_string()).await;
        assert_eq!(stored.status, 200, "{:.200}", stored.text());
    }
    // More than a socket takes that nobody reads.
    let path = "/v1/state/app/item";
    let page = server.get(path).await;
    assert!(page.status == 200 && page.text().len() > 6_000_000, "{:.200}", page.text());
    let (mut greedy, mut held) = (Vec::new(), 0);
    for _ in 0..12 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(server.admin).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        greedy.push(stream);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let used = server.memory.used();
        assert!(used <= MOST, "{used}");
        held = held.max(used);
        assert_eq!(server.call("other", "store", "[1]").await.status, 200, "others are answered");
    }
    assert!(held >= MOST / 2, "{held} bytes were held");
    assert_eq!(server.get(path).await.error(), (503, "OVERLOADED".to_owned()), "for one more there is no room");
    drop(greedy);
    let answered = async {
        while server.get(path).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), answered).await.expect("who is gone holds nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_takes_only_its_connections() {
    let server = Server::start().await;
    let mut open = Vec::new();
    for number in 0..CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(server.ingress).await.unwrap();
        // WebSockets count as well.
        stream.write_all(if number % 2 == 0 { b"GET /" } else { UPGRADE }).await.unwrap();
        if number % 2 == 1 {
            let read = timeout(Duration::from_secs(20), stream.read(&mut [0; 1024])).await;
            assert!(read.expect("an answer in time").unwrap() > 0);
        }
        open.push(stream);
    }
    let refused = async || {
        let mut stream = TcpStream::connect(server.ingress).await.unwrap();
        timeout(Duration::from_millis(500), stream.read(&mut [0])).await.is_ok()
    };
    assert!(refused().await, "closed at once");
    assert_eq!(server.get("/healthz").await.status, 200, "the other port counts for itself");
    open.truncate(CONNECTIONS_MAX - 5);
    let freed = async { while refused().await {} };
    timeout(Duration::from_secs(20), freed).await.expect("a connection that ends makes room");
}
