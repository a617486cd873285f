//! Who writes what: a short message leaves on the thread that sends it, a long one and what follows it by the peer's task.

use std::io::Read;
use std::time::Duration;

use styx_transport::NodeId;
use styx_transport::frame::{HEADER_BYTES, Kind};
use tokio::net::TcpStream;

use crate::support::{Node, PATIENCE, Raw};

#[tokio::test]
async fn a_short_message_wakes_nobody() {
    let node = Node::start(1).await;
    node.network.set_generation(1);
    let peer = NodeId(9);
    let mut raw = Raw::greeted(&node, peer.0, 1).await;
    node.network.send(peer, "first").unwrap();
    assert_eq!(raw.until(Kind::Data).await.body, "first");

    // This is the runtime's only thread: until it waits, no task runs.
    let mut stream = raw.stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    node.network.send(peer, "short").unwrap();
    let mut frame = [0; HEADER_BYTES + 5];
    stream.read_exact(&mut frame).unwrap();
    assert!(frame.ends_with(b"short"));

    let long = vec![7; 64 << 10];
    node.network.send(peer, long.clone()).unwrap();
    node.network.send(peer, "after").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(stream.read(&mut [0]).is_err(), "to copy it is the task's, and nothing overtakes it");

    stream.set_nonblocking(true).unwrap();
    let mut raw = Raw::on(TcpStream::from_std(stream).unwrap(), peer.0);
    let mut bodies = Vec::new();
    while bodies.len() < 2 {
        let frame = raw.until(Kind::Data).await;
        // The others acknowledge.
        if frame.header.number > 0 {
            bodies.push(frame.body);
        }
    }
    assert!(bodies[0] == long && bodies[1] == "after");
}
