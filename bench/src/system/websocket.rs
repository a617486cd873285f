//! A lane over a WebSocket: calls as lines of a message, answers as lines of a message, as many as
//! there are at a time.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::{Sink, Stream};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::load::{Answered, End, Lane};
use crate::workload::Call;

/// Calls that the server takes from one connection before it stops reading.
const CAPACITY: usize = 4096;

/// A connection.
pub struct Socket {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    app: String,
    out: Vec<u8>,
    results: bool,
}

/// An answer, read to its end.
#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    ok: Option<&'a RawValue>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    code: String,
    message: String,
}

impl Socket {
    /// Connects to `host:port`.
    pub async fn open(ingress: &str, app: &str, results: bool) -> anyhow::Result<Socket> {
        let (socket, _) = connect_async(format!("ws://{ingress}/v1/ws?batch=true")).await?;
        Ok(Socket { socket, app: app.to_owned(), out: Vec::new(), results })
    }

    fn take(&self, lines: &str, answers: &mut Vec<Answered>) -> anyhow::Result<()> {
        for line in lines.split('\n') {
            let (ticket, rest) = ticket(line).with_context(|| format!("an answer without id: {line}"))?;
            let end = match !self.results && rest.starts_with(",\"ok") {
                // Nobody wants to know the result.
                true => End::Done(Bytes::new()),
                false => end(line)?,
            };
            answers.push(Answered { ticket, end, retries: 0 });
        }
        Ok(())
    }
}

/// The id at the beginning of an answer, and what follows.
fn ticket(line: &str) -> Option<(u64, &str)> {
    let digits = line.strip_prefix("{\"id\":")?;
    let end = digits.find(|char: char| !char.is_ascii_digit())?;
    Some((digits[..end].parse().ok()?, &digits[end..]))
}

/// How the call of an answer ended.
fn end(line: &str) -> anyhow::Result<End> {
    let reply: Reply<'_> = serde_json::from_str(line).with_context(|| format!("not an answer: {line}"))?;
    Ok(match reply {
        Reply { error: Some(Failure { code, message }), .. } => End::Failed { code, message },
        Reply { ok, error: None } => End::Done(Bytes::copy_from_slice(ok.map_or("null", RawValue::get).as_bytes())),
    })
}

impl Lane for Socket {
    fn capacity(&self) -> usize {
        CAPACITY
    }

    fn send(&mut self, ticket: u64, call: &Call) -> anyhow::Result<()> {
        if !self.out.is_empty() {
            self.out.push(b'\n');
        }
        write!(self.out, "{{\"id\":{ticket},\"app\":\"{}\",\"operator\":\"{}\",\"key\":", self.app, call.operator)?;
        serde_json::to_writer(&mut self.out, &call.key)?;
        write!(self.out, ",\"function\":\"{}\",\"args\":{}}}", call.function, call.arguments)?;
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answered>) -> Poll<anyhow::Result<()>> {
        let mut socket = Pin::new(&mut self.socket);
        if !self.out.is_empty()
            && let Poll::Ready(ready) = socket.as_mut().poll_ready(context)
        {
            ready?;
            let lines = Bytes::from(std::mem::take(&mut self.out));
            socket.as_mut().start_send(Message::Text(Utf8Bytes::try_from(lines)?))?;
        }
        // What cannot be written yet is written when the socket wakes this task.
        if let Poll::Ready(flushed) = socket.as_mut().poll_flush(context) {
            flushed?;
        }
        let before = answers.len();
        while let Poll::Ready(message) = Pin::new(&mut self.socket).poll_next(context) {
            match message.context("the server closed the connection")?? {
                Message::Text(lines) => self.take(&lines, answers)?,
                Message::Close(frame) => {
                    let why = frame.map(|frame| frame.reason.to_string()).unwrap_or_default();
                    return Poll::Ready(Err(anyhow::anyhow!("the server closed the connection: {why}")));
                }
                _ => {}
            }
        }
        match answers.len() > before {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        assert_eq!(ticket(r#"{"id":17,"ok":5}"#), Some((17, r#","ok":5}"#)));
        assert_eq!(ticket(r#"{"id":null,"error":{}}"#), None);
        let done = end(r#"{"id":17,"ok":[1, 2],"tid":3,"epoch":4}"#).unwrap();
        assert_eq!(done, End::Done(Bytes::from_static(b"[1, 2]")));
        let failed = end(r#"{"id":1,"error":{"code":"ABORTED","message":"sold out","hint":""}}"#).unwrap();
        assert_eq!(failed, End::failed("ABORTED", "sold out"));
        assert!(end("{").is_err());
    }
}
