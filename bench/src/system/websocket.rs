//! A connection over a WebSocket: the client's own, without anything around it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::load::{Answered, Connection, End};
use crate::workload::Call;

/// Sockets of this process so far: idempotency keys are told apart by them.
static SOCKETS: AtomicU64 = AtomicU64::new(0);

pub struct Socket {
    connection: styx_client::Connection,
    app: String,
    results: bool,
    /// The beginning of the idempotency keys, and how many there were; none if calls have none.
    keys: Option<(String, u64)>,
}

impl Socket {
    pub async fn open(client: &styx_client::Client, app: &str, results: bool, keyed: bool) -> anyhow::Result<Socket> {
        let socket = SOCKETS.fetch_add(1, Ordering::Relaxed);
        let keys = keyed.then(|| (format!("{}-{socket}", std::process::id()), 0));
        let connection = client.connect().await?;
        Ok(Socket { connection, app: app.to_owned(), results, keys })
    }
}

impl Connection for Socket {
    fn capacity(&self) -> usize {
        styx_client::Connection::CAPACITY
    }

    fn send(&mut self, ticket: u64, call: &Call) -> anyhow::Result<()> {
        let key = self.keys.as_mut().map(|(prefix, count)| {
            *count += 1;
            format!("{prefix}-{count}")
        });
        let Call { operator, function, arguments, .. } = call;
        self.connection.send_parts(ticket, &self.app, operator, &call.key, function, arguments, key.as_deref());
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answered>) -> Poll<anyhow::Result<()>> {
        let results = self.results;
        let polled = self.connection.poll(context, |ticket, reply| {
            let end = if !results && reply.is_ok() {
                // Nobody wants to know the result.
                End::Done(Bytes::new())
            } else {
                match reply.parse()? {
                    Ok(reply) => End::Done(reply.bytes),
                    Err(error) => End::failed(error.code, error.message),
                }
            };
            answers.push(Answered { ticket, end, retries: 0 });
            Ok(())
        });
        polled.map(|polled| Ok(polled?))
    }
}
