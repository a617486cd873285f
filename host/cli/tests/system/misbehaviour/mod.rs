//! Functions and uploads that misbehave, against the real server: whoever did it is told
//! what was wrong, nothing of it remains, and nobody else notices.

mod bundles;
mod c;
mod calls;
mod clients;
mod neighbour;
mod python;
#[path = "../../../../engine/tests/support/mod.rs"]
mod support;
mod uploads;

use serde_json::{Value, json};

use crate::process::{Endpoints, Process, Told, build};
use neighbour::Neighbours;

/// What one call is expected to give.
#[derive(Clone, Copy, Debug)]
struct Expect {
    status: u16,
    code: &'static str,
    /// Part of the message.
    says: &'static str,
}

const fn fails(status: u16, code: &'static str, says: &'static str) -> Expect {
    Expect { status, code, says }
}

impl Expect {
    fn wrong(&self, of: &str, told: &Told) -> Option<String> {
        told.wrong(of, self.status, self.code, self.says)
    }
}

/// Nothing was wrong; otherwise tells of all of it.
#[track_caller]
fn nothing_is(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A server with an app `odd` of one source, whose operator `odd` has something under the key `k`, and neighbours.
struct Odd {
    server: Process,
    neighbours: Neighbours,
    state: Vec<Value>,
    /// MiB, before anything has gone wrong.
    memory: u64,
    /// Where the app and the server's data are.
    _directory: tempfile::TempDir,
}

impl Odd {
    async fn start(file: &str, source: &str, manifest: &str) -> Odd {
        let directory = tempfile::tempdir().unwrap();
        let app = directory.path().join("odd");
        std::fs::create_dir(&app).unwrap();
        std::fs::write(app.join(file), source).unwrap();
        std::fs::write(app.join("styx.toml"), manifest).unwrap();
        let bundle = build(app).await;
        let server = Process::start(&directory.path().join("data"), &["--threads", "2"]).await;
        server.deploy("odd", "application/zip", bundle).await.is_deployed();
        let neighbours = Neighbours::move_in(&server).await;
        assert_eq!(server.call("odd/odd/k/put", "[1]").await.body, json!(1));
        let (state, memory) = (server.state(&["odd/odd"]).await, server.memory());
        Odd { server, neighbours, state, memory, _directory: directory }
    }

    async fn call(&self, function: &str, arguments: &'static str) -> Told {
        self.server.call(&format!("odd/odd/k/{function}"), arguments).await
    }

    /// Calls one function after the other: each fails as it is expected to, and leaves nothing behind.
    async fn fails_as(&self, cases: Vec<(&str, Expect)>, arguments: &'static str) {
        let mut wrong = Vec::new();
        for (function, expect) in cases {
            wrong.extend(expect.wrong(function, &self.call(function, arguments).await));
            assert_eq!(self.server.state(&["odd/odd"]).await, self.state, "{function} has left something behind");
        }
        nothing_is(&wrong);
    }

    /// Nobody has been harmed.
    async fn leave(self) {
        self.neighbours.are_content().await;
        let operators = ["odd/odd", neighbour::OPERATORS[0], neighbour::OPERATORS[1]];
        is_unharmed(self.server, &operators, self.memory).await;
    }
}

/// The server after much misbehaviour: it has come to rest, it has not grown, and a replay of its
/// log, with another number of threads, comes to the same state.
async fn is_unharmed(server: Process, operators: &[&str], memory_before: u64) {
    let load = server.load().await;
    assert!(load < 0.3, "an idle server uses {load} of a core");
    let grown = server.memory().saturating_sub(memory_before);
    assert!(grown < 300, "the server has grown by {grown} MiB");
    let (position, state) = (server.position().await, server.state(operators).await);
    let server = server.kill_and_restart(&["--threads", "1"]).await;
    assert_eq!(server.position().await, position, "the replay comes to the same state chain");
    assert_eq!(server.state(operators).await, state, "the replay comes to the same state");
    println!("load {load:.2}, grown by {grown} MiB, {} epochs replayed to {position:?}", server.epochs_replayed);
}
