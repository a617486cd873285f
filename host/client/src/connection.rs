//! One WebSocket with many requests under way, without retries and without a task of its own.

use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{Sink, Stream as _};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::error::{Refusal, refusal};
use crate::tls::{self, Credentials, bearer, is_https};
use crate::{Error, Reply, Request};

/// TCP, or TLS over it.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A WebSocket to the ingress. Requests go out together at the next [`Connection::poll`], a line each; replies come
/// in the order in which transactions end, told apart by the caller's numbers.
pub struct Connection {
    socket: WebSocketStream<Box<dyn Stream>>,
    out: Vec<u8>,
}

/// A reply, not parsed yet.
#[derive(Clone, Copy, Debug)]
pub struct RawReply<'a> {
    line: &'a str,
    /// What follows the id.
    rest: &'a str,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    ok: Option<&'a RawValue>,
    ok_base64: Option<String>,
    error: Option<Refusal>,
    tid: Option<u64>,
    epoch: Option<u64>,
    #[serde(default)]
    replayed: bool,
}

impl Connection {
    /// Requests that a server takes from one connection before it stops reading, by default.
    pub const CAPACITY: usize = 4096;

    /// Connects to an ingress that asks for no token, given as `http://host:port` or `host:port`.
    ///
    /// # Errors
    /// Nobody listens there, or no server of Styx.
    pub async fn open(ingress: &str) -> Result<Connection, Error> {
        let credentials = Credentials { token: None, tls: Arc::new(tls::config(None, is_https(ingress))?) };
        Connection::open_as(ingress, &credentials).await
    }

    /// Connects as somebody.
    pub(crate) async fn open_as(ingress: &str, credentials: &Credentials) -> Result<Connection, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::new("UNREACHABLE", format!("{ingress}: {error}"));
        let secure = is_https(ingress);
        let authority = ingress.split_once("://").map_or(ingress, |(_, rest)| rest).trim_end_matches('/');
        let scheme = if secure { "wss" } else { "ws" };
        let uri: Uri = format!("{scheme}://{authority}/v1/ws?batch=true").parse().map_err(|error| failed(&error))?;
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let stream: Box<dyn Stream> = if secure {
            let name = ServerName::try_from(host).map_err(|error| failed(&error))?;
            let connected = TlsConnector::from(credentials.tls.clone()).connect(name, stream).await;
            Box::new(connected.map_err(|error| failed(&error))?)
        } else {
            Box::new(stream)
        };
        let mut request = uri.into_client_request().map_err(|error| failed(&error))?;
        if let Some(token) = &credentials.token {
            request.headers_mut().insert(AUTHORIZATION, bearer(token)?);
        }
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(Connection { socket, out: Vec::new() }),
            Err(SocketError::Http(response)) => {
                let status = response.status().as_u16();
                let refused = response.body().as_deref().and_then(refusal);
                Err(Error { status: Some(status), ..refused.unwrap_or_else(|| failed(&format!("HTTP {status}"))) })
            }
            Err(error) => Err(failed(&error)),
        }
    }

    /// Appends a request, which the reply names by this number.
    pub fn send(&mut self, number: u64, request: &Request) {
        let Request { app, operator, key, function, args, idempotency_key } = request;
        self.send_parts(number, app, operator, key, function, args.get(), idempotency_key.as_deref());
    }

    /// The same from its parts; `arguments` is JSON. App, operator and function are names, which need no escapes.
    #[expect(clippy::too_many_arguments, reason = "each is a part of a request, and nothing is allocated for them")]
    pub fn send_parts(
        &mut self,
        number: u64,
        app: &str,
        operator: &str,
        key: &str,
        function: &str,
        arguments: &str,
        idempotency_key: Option<&str>,
    ) {
        let out = &mut self.out;
        let write = |out: &mut Vec<u8>| -> std::io::Result<()> {
            if !out.is_empty() {
                out.push(b'\n');
            }
            write!(out, "{{\"id\":{number},\"app\":\"{app}\",\"operator\":\"{operator}\",\"key\":")?;
            serde_json::to_writer(&mut *out, key)?;
            if let Some(idempotency_key) = idempotency_key {
                out.extend_from_slice(b",\"idempotency_key\":");
                serde_json::to_writer(&mut *out, idempotency_key)?;
            }
            write!(out, ",\"function\":\"{function}\",\"args\":{arguments}}}")
        };
        write(out).expect("memory takes all");
    }

    /// Sends what was appended, and takes replies that have come; ready if there were any.
    ///
    /// # Errors
    /// The connection is closed: what is still under way has no reply. Or `take` fails.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        mut take: impl FnMut(u64, RawReply<'_>) -> Result<(), Error>,
    ) -> Poll<Result<(), Error>> {
        let broken = |error: &dyn std::fmt::Display| Error::new("CONNECTION", format!("the connection broke: {error}"));
        let mut socket = Pin::new(&mut self.socket);
        if !self.out.is_empty()
            && let Poll::Ready(ready) = socket.as_mut().poll_ready(context)
        {
            ready.map_err(|error| broken(&error))?;
            let lines = Utf8Bytes::try_from(Bytes::from(std::mem::take(&mut self.out))).expect("JSON is UTF-8");
            socket.as_mut().start_send(Message::Text(lines)).map_err(|error| broken(&error))?;
        }
        // What cannot be written yet is written when the socket wakes this task.
        if let Poll::Ready(flushed) = socket.as_mut().poll_flush(context) {
            flushed.map_err(|error| broken(&error))?;
        }
        let mut taken = false;
        while let Poll::Ready(message) = Pin::new(&mut self.socket).poll_next(context) {
            let Some(message) = message else { return Poll::Ready(Err(broken(&"the server closed it"))) };
            match message.map_err(|error| broken(&error))? {
                Message::Text(lines) => {
                    for line in lines.split('\n') {
                        let (number, reply) = RawReply::of(line)?;
                        take(number, reply)?;
                        taken = true;
                    }
                }
                Message::Close(frame) => {
                    let why = frame.map(|frame| frame.reason.to_string()).unwrap_or_default();
                    return Poll::Ready(Err(broken(&why)));
                }
                _ => {}
            }
        }
        if taken { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl<'a> RawReply<'a> {
    /// A line, and the number of the request that it answers.
    pub(crate) fn of(line: &'a str) -> Result<(u64, RawReply<'a>), Error> {
        let number = |line: &'a str| {
            let digits = line.strip_prefix("{\"id\":")?;
            let end = digits.find(|char: char| !char.is_ascii_digit())?;
            Some((digits[..end].parse().ok()?, &digits[end..]))
        };
        let (number, rest) =
            number(line).ok_or_else(|| Error::new("BAD_REPLY", format!("a reply without id: {line}")))?;
        Ok((number, RawReply { line, rest }))
    }

    /// True if it is a result, as far as can be told without reading it.
    pub fn is_ok(&self) -> bool {
        self.rest.starts_with(",\"ok")
    }

    /// Reads it: the outer error is one of form, the inner one the request's.
    ///
    /// # Errors
    /// It is not a reply.
    pub fn parse(&self) -> Result<Result<Reply, Error>, Error> {
        let refused = |error: &dyn std::fmt::Display| Error::new("BAD_REPLY", format!("{error}: {}", self.line));
        let line: Line<'_> = serde_json::from_str(self.line).map_err(|error| refused(&error))?;
        let bytes = match line {
            Line { error: Some(refusal), .. } => return Ok(Err(refusal.into())),
            Line { ok_base64: Some(text), .. } => STANDARD.decode(text).map_err(|error| refused(&error))?.into(),
            // A result of `null` is read as none.
            Line { ok, .. } => Bytes::copy_from_slice(ok.map_or("null", RawValue::get).as_bytes()),
        };
        Ok(Ok(Reply { replayed: line.replayed, ..Reply::new(bytes, line.tid, line.epoch) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_understood() {
        let read =
            |line: &str| RawReply::of(line).map(|(number, reply)| (number, reply.is_ok(), reply.parse().unwrap()));
        let (number, ok, reply) = read(r#"{"id":17,"ok":[1, 2],"tid":3,"epoch":4}"#).unwrap();
        assert_eq!((number, ok, reply.unwrap()), (17, true, Reply::new("[1, 2]".into(), Some(3), Some(4))));
        let (_, ok, reply) = read(r#"{"id":1,"error":{"code":"ABORTED","message":"sold out","hint":""}}"#).unwrap();
        let error = reply.unwrap_err();
        assert_eq!((ok, &*error.code, &*error.message, error.is_aborted()), (false, "ABORTED", "sold out", true));
        let (_, _, reply) = read(r#"{"id":1,"ok_base64":"/3s="}"#).unwrap();
        assert_eq!(reply.unwrap().bytes, &b"\xff{"[..]);
        let (_, _, reply) = read(r#"{"id":1,"ok":null}"#).unwrap();
        assert_eq!(reply.unwrap().value().unwrap(), serde_json::Value::Null);
        assert!(read(r#"{"id":null,"error":{}}"#).is_err());
        assert!(RawReply::of(r#"{"id":1,"#).unwrap().1.parse().is_err());
    }
}
