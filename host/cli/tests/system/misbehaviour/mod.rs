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

use crate::process::{Endpoints, Process, Told};

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
