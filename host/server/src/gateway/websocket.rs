//! `GET /v1/ws`: pipelined calls over a WebSocket.
//!
//! One task per connection. It takes whatever has arrived, gives it to the worker, takes whatever
//! replies have come, writes them into one buffer and flushes once. When as many requests are
//! under way as are allowed, or the client does not read, it stops reading.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{FutureExt, Sink, SinkExt, Stream};
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use utoipa::IntoParams;

use super::Ingress;
use super::metered::Metered;
use super::pipeline::Pipeline;
use crate::auth::Visitor;
use crate::http::{ApiError, Options};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct UpgradeQuery {
    /// True if several replies may stand in one message, a line each.
    #[serde(default)]
    #[param(required = false)]
    batch: bool,
}

/// Bytes of a message beyond the arguments of one call.
const ENVELOPE_BYTES_MAX: usize = 1 << 20;
/// Bytes read at once: each connection has so many, whether it says anything or not.
const READ_BYTES: usize = 16 << 10;
/// Messages taken before replies are looked after.
const MESSAGES_MAX: usize = 256;
/// How long a client may leave replies unread.
const UNREAD_MAX: Duration = Duration::from_secs(60);
/// A client that says nothing is asked for a sign of life this often…
const PING_EVERY: Duration = Duration::from_secs(30);
/// …and is given up after this long.
const SILENT_MAX: Duration = Duration::from_secs(100);

/// Pipelined calls over a WebSocket
#[utoipa::path(get, path = "/v1/ws", params(UpgradeQuery), responses((status = 101)))]
pub async fn upgrade(
    State(ingress): State<Arc<Ingress>>,
    visitor: Visitor,
    Options(query): Options<UpgradeQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    let response = create_response_with_body(&request, Body::empty).map_err(|error| {
        ApiError::bad_request(format!("this is no way to open a WebSocket: {error}"))
            .hint("this path speaks WebSocket: connect with a WebSocket client")
    })?;
    let size = usize::try_from(ingress.options.body_bytes_max).unwrap_or(usize::MAX).saturating_add(ENVELOPE_BYTES_MAX);
    let config = WebSocketConfig::default().read_buffer_size(READ_BYTES).write_buffer_size(64 << 10);
    let config = config.max_message_size(Some(size)).max_frame_size(Some(size));
    let (open, upgrade) = (ingress.shutdown.count(), hyper::upgrade::on(request));
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let pipeline = Pipeline::new(ingress.clone(), visitor);
        let metered = Metered::new(upgraded, pipeline.answers());
        Connection {
            pipeline,
            ingress,
            socket: WebSocketStream::from_raw_socket(metered, Role::Server, Some(config)).await,
            out: Vec::new(),
            batch: query.batch,
            pong: false,
            reading: true,
            heard: Instant::now(),
        }
        .run()
        .await;
        drop(open);
    });
    Ok(response)
}

struct Connection {
    ingress: Arc<Ingress>,
    socket: WebSocketStream<Metered>,
    pipeline: Pipeline,
    /// Replies, a line each.
    out: Vec<u8>,
    batch: bool,
    /// An answer to a ping waits to be sent: until it is, nothing else is read.
    pong: bool,
    /// Until the client closes or the server ends.
    reading: bool,
    heard: Instant,
}

/// Why the connection ends.
enum End {
    /// The client is gone, or has closed.
    Client,
    /// The client broke the rules.
    Refused(CloseCode, &'static str),
    /// The server ends and all is answered.
    Server,
}

impl Connection {
    async fn run(mut self) {
        let shutdown = self.ingress.shutdown.clone();
        let mut stop = pin!(shutdown.wait_owned().fuse());
        let mut ping = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        let end = loop {
            let (mut ended, mut asked) = (None, false);
            poll_fn(|context| {
                if self.reading && stop.as_mut().poll(context).is_ready() {
                    self.reading = false;
                }
                while ping.poll_tick(context).is_ready() {
                    asked = true;
                }
                let replied = self.pipeline.poll_replies(context, &mut self.out).is_ready();
                ended = self.poll_messages(context);
                if !self.out.is_empty()
                    || self.pong
                    || replied
                    || asked
                    || ended.is_some()
                    || !self.reading && self.pipeline.is_empty()
                {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            if ended.is_none() && self.pipeline.in_flight() > 0 && !self.out.is_empty() {
                // An epoch answers many at once: let the worker finish, so that one write carries all.
                tokio::task::yield_now().await;
                poll_fn(|context| Poll::Ready(self.pipeline.poll_replies(context, &mut self.out).is_ready())).await;
            }
            if asked && ended.is_none() {
                if self.heard.elapsed() > SILENT_MAX {
                    break End::Client;
                }
                if self.heard.elapsed() >= PING_EVERY && self.send(Message::Ping(Bytes::new())).await.is_err() {
                    break End::Client;
                }
            }
            if self.flush().await.is_err() {
                break End::Client;
            }
            match ended {
                Some(end) => break end,
                None if !self.reading && self.pipeline.is_empty() => break End::Server,
                None => {}
            }
        };
        let close = match end {
            End::Client => None,
            End::Refused(code, reason) => Some(CloseFrame { code, reason: reason.into() }),
            End::Server => Some(CloseFrame { code: CloseCode::Away, reason: "the server is shutting down".into() }),
        };
        if close.is_some() {
            // A client that is gone does not mind.
            let _ = self.send(Message::Close(close)).await;
            // Until the client agrees, so that nothing that was written is lost.
            let closed = async { while let Some(Ok(_)) = futures_util::StreamExt::next(&mut self.socket).await {} };
            let _ = timeout(Duration::from_secs(1), closed).await;
        }
    }

    /// Takes what has arrived, for as long as there is room.
    fn poll_messages(&mut self, context: &mut Context<'_>) -> Option<End> {
        for _ in 0..MESSAGES_MAX {
            if !self.reading {
                return None;
            }
            if !self.pipeline.poll_room(context, &mut self.out) {
                // Who is not read from is not silent.
                self.heard = Instant::now();
                return None;
            }
            let message = match Pin::new(&mut self.socket).poll_next(context) {
                Poll::Pending => return None,
                Poll::Ready(None) => return Some(End::Client),
                Poll::Ready(Some(Err(error))) => {
                    return Some(match error {
                        Error::Capacity(_) => End::Refused(CloseCode::Size, "the message is too long"),
                        Error::Io(error) if error.kind() == ErrorKind::OutOfMemory => {
                            End::Refused(CloseCode::Again, "too much is held for clients")
                        }
                        _ => End::Client,
                    });
                }
                Poll::Ready(Some(Ok(message))) => message,
            };
            self.heard = Instant::now();
            self.socket.get_mut().taken();
            match message {
                Message::Text(text) => self.pipeline.take_message(text.into(), &mut self.out),
                Message::Binary(_) => {
                    let why = ApiError::bad_request("this is a binary message").hint("send requests as text messages");
                    self.pipeline.refuse(&why, &mut self.out);
                }
                Message::Close(_) => return Some(End::Client),
                // A client that pings and does not read would have its answers pile up here.
                Message::Ping(_) => {
                    self.pong = true;
                    return None;
                }
                Message::Pong(_) | Message::Frame(_) => {}
            }
        }
        // There may be more: come back once replies have been looked after.
        context.waker().wake_by_ref();
        None
    }

    /// Sends the replies written so far.
    async fn flush(&mut self) -> Result<(), ()> {
        if self.out.is_empty() && !std::mem::take(&mut self.pong) {
            return Ok(());
        }
        let lines = Bytes::from(std::mem::replace(&mut self.out, Vec::with_capacity(16 << 10)));
        let text = |line: Bytes| Message::Text(Utf8Bytes::try_from(line).expect("replies are JSON text"));
        let sent = timeout(UNREAD_MAX, async {
            if lines.is_empty() {
                // A ping is answered with whatever is flushed.
            } else if self.batch {
                self.socket.feed(text(lines.slice(..lines.len() - 1))).await?;
            } else {
                let mut start = 0;
                for end in memchr::memchr_iter(b'\n', &lines) {
                    self.socket.feed(text(lines.slice(start..end))).await?;
                    start = end + 1;
                }
            }
            poll_fn(|context| Pin::new(&mut self.socket).poll_flush(context)).await
        });
        match sent.await {
            Ok(Ok(())) => {
                self.pipeline.sent();
                Ok(())
            }
            _ => Err(()),
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), ()> {
        match timeout(UNREAD_MAX, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(()),
        }
    }
}
