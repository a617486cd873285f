//! Nodes with an inbox, and a hand-made peer that may send anything.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crossbeam_channel::{Receiver, unbounded};
use styx_transport::frame::{self, Frame, FrameDecoder, Header, Kind};
use styx_transport::{Hello, Incoming, Network, NodeId, NodeKind, Options, same_build};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::codec::Decoder;

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The engine hash of all nodes here.
pub const ENGINE: u64 = 0xe1;

pub fn hello(id: u64) -> Hello {
    Hello::new(NodeKind::Worker, NodeId(id), format!("node-{id}"), ENGINE)
}

pub fn options() -> Options {
    Options { listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), body_bytes_max: 1 << 20, ..Options::default() }
}

/// A network and what it has delivered.
pub struct Node {
    pub id: NodeId,
    pub network: Network,
    pub inbox: Receiver<Incoming>,
}

impl Node {
    pub async fn start(id: u64) -> Node {
        Node::with(hello(id), options()).await
    }

    pub async fn with(hello: Hello, options: Options) -> Node {
        let (sender, inbox) = unbounded();
        let id = hello.node;
        let deliver = move |incoming| {
            let _ = sender.send(incoming);
        };
        let network = Network::start(hello, options, same_build, deliver).await.unwrap();
        Node { id, network, inbox }
    }

    pub fn address(&self) -> String {
        self.network.address().unwrap().to_string()
    }

    pub fn dial(&self, other: &Node) {
        self.network.connect(other.id, other.address());
    }

    /// The next thing that `wanted` makes something of; what comes before is passed over.
    pub async fn until<R>(&self, what: &str, mut wanted: impl FnMut(Incoming) -> Option<R>) -> R {
        let mut passed = Vec::new();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match self.inbox.try_recv() {
                Ok(incoming) => match wanted(incoming.clone()) {
                    Some(found) => return found,
                    None => passed.push(incoming),
                },
                Err(_) => {
                    let last = &passed[passed.len().saturating_sub(5)..];
                    assert!(tokio::time::Instant::now() < deadline, "no {what}; instead at last {last:?}");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }

    pub async fn message(&self) -> Bytes {
        self.until("message", |incoming| match incoming {
            Incoming::Message { body, .. } => Some(body),
            _ => None,
        })
        .await
    }

    pub async fn connected(&self) -> bool {
        self.until("connection", |incoming| match incoming {
            Incoming::Connected { restarted, .. } => Some(restarted),
            _ => None,
        })
        .await
    }

    pub async fn lost(&self) -> String {
        self.until("loss", |incoming| match incoming {
            Incoming::Lost { why, .. } => Some(why),
            _ => None,
        })
        .await
    }

    pub async fn refused(&self) -> (String, String) {
        self.until("refusal", |incoming| match incoming {
            Incoming::Refused { reason, message, .. } => Some((reason, message)),
            _ => None,
        })
        .await
    }
}

/// Both are in generation 1 and connected; the first has dialed.
pub async fn pair(a: &Node, b: &Node) {
    a.network.set_generation(1);
    b.network.set_generation(1);
    a.dial(b);
    a.connected().await;
    b.connected().await;
}

/// Waits until something is so.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "never {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The other end of a connection, byte by byte.
pub struct Raw {
    pub stream: TcpStream,
    pub id: NodeId,
    decoder: FrameDecoder,
    unread: BytesMut,
}

impl Raw {
    pub async fn connect(node: &Node, id: u64) -> Raw {
        Raw::on(TcpStream::connect(node.address()).await.unwrap(), id)
    }

    pub fn on(stream: TcpStream, id: u64) -> Raw {
        Raw {
            stream,
            id: NodeId(id),
            decoder: FrameDecoder::new(256 << 20, Default::default()),
            unread: BytesMut::new(),
        }
    }

    /// Connected, greeted, and both sides have said that they are in this generation.
    pub async fn greeted(node: &Node, id: u64, generation: u64) -> Raw {
        let mut raw = Raw::connect(node, id).await;
        raw.greet().await;
        raw.write(&raw.frame(Kind::Resume, generation, 0, 0, b"")).await;
        raw.until(Kind::Resume).await;
        raw
    }

    /// Greets and reads the other's greeting.
    pub async fn greet(&mut self) -> Hello {
        let body = serde_json::to_vec(&hello(self.id.0)).unwrap();
        self.write(&self.frame(Kind::Hello, 0, 0, 0, &body)).await;
        serde_json::from_slice(&self.until(Kind::Hello).await.body).unwrap()
    }

    pub fn frame(&self, kind: Kind, generation: u64, number: u64, ack: u64, body: &[u8]) -> Vec<u8> {
        frame::encode(&Header { kind, flags: 0, generation, number, ack }, body)
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frame; none when the connection has ended.
    pub async fn read(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.unread).expect("nodes send what they may") {
                return Some(frame);
            }
            let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.unread)).await;
            if read.expect("an answer in time").unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    pub async fn until(&mut self, kind: Kind) -> Frame {
        loop {
            let frame = self.read().await.unwrap_or_else(|| panic!("the connection ended before a {kind:?}"));
            if frame.header.kind == kind {
                return frame;
            }
        }
    }

    /// All refusals that come until the connection ends or is quiet: reasons and messages.
    pub async fn refusals(&mut self, quiet: Duration) -> Vec<(String, String)> {
        let mut refusals = Vec::new();
        while let Ok(Some(frame)) = tokio::time::timeout(quiet, self.read()).await {
            if frame.header.kind == Kind::Refused {
                refusals.push(refusal(&frame));
            }
        }
        refusals
    }
}

pub fn refusal(frame: &Frame) -> (String, String) {
    let notice: serde_json::Value = serde_json::from_slice(&frame.body).unwrap();
    (notice["reason"].as_str().unwrap().into(), notice["message"].as_str().unwrap().into())
}
