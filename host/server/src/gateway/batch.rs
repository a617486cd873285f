//! `POST /v1/batch`: requests as lines of JSON in, replies as lines of JSON out, both streamed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::time::{Sleep, sleep};

use super::Ingress;
use super::pipeline::Pipeline;
use crate::auth::Visitor;
use crate::http::ApiError;

/// Bytes of a line beyond the arguments of one call.
const ENVELOPE_BYTES_MAX: usize = 1 << 20;

/// Pipelined calls as lines of JSON
#[utoipa::path(
    post,
    path = "/v1/batch",
    request_body(content = String, content_type = "application/x-ndjson"),
    responses((status = 200, body = String, content_type = "application/x-ndjson"))
)]
pub async fn batch(State(ingress): State<Arc<Ingress>>, visitor: Visitor, body: Body) -> Response {
    let line_bytes_max =
        usize::try_from(ingress.options.body_bytes_max).unwrap_or(usize::MAX).saturating_add(ENVELOPE_BYTES_MAX);
    let replies = Batch {
        pipeline: Pipeline::new(ingress.clone(), visitor),
        ingress,
        body: Some(body.into_data_stream()),
        partial: BytesMut::new(),
        line_bytes_max,
        silence: None,
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))], Body::from_stream(replies))
        .into_response()
}

/// The replies. The response is read and the body is written at the same time, so a client may
/// use a batch as a pipeline.
struct Batch {
    ingress: Arc<Ingress>,
    pipeline: Pipeline,
    /// `None` once it has ended.
    body: Option<BodyDataStream>,
    /// The line that has not ended yet.
    partial: BytesMut,
    line_bytes_max: usize,
    /// How long the client has to send the next line, if it owes one.
    silence: Option<Pin<Box<Sleep>>>,
}

impl Stream for Batch {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        const OUT_BYTES: usize = 64 << 10;
        let this = &mut *self;
        // What was returned before has been taken.
        this.pipeline.sent();
        let mut out = Vec::new();
        loop {
            let replied = this.pipeline.poll_replies(context, &mut out).is_ready();
            let read = this.poll_body(context, &mut out);
            if out.len() >= OUT_BYTES || !out.is_empty() && !replied && !read {
                return Poll::Ready(Some(Ok(out.into())));
            }
            if this.body.is_none() && this.pipeline.is_empty() {
                return Poll::Ready((!out.is_empty()).then(|| Ok(out.into())));
            }
            if !replied && !read {
                return Poll::Pending;
            }
        }
    }
}

impl Batch {
    /// Takes a piece of the body, if there is room; whether there was one, or its end.
    fn poll_body(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>) -> bool {
        if !self.pipeline.poll_room(context, out) {
            return false;
        }
        let Some(body) = &mut self.body else { return false };
        let piece = match Pin::new(body).poll_next(context) {
            Poll::Ready(piece) => piece,
            Poll::Pending => {
                // Only a client that owes the next line is silent.
                let most = self.ingress.options.silence;
                let owes = self.pipeline.in_flight() == 0;
                if owes && self.silence.get_or_insert_with(|| Box::pin(sleep(most))).as_mut().poll(context).is_ready() {
                    self.stop(
                        &ApiError::new(
                            axum::http::StatusCode::REQUEST_TIMEOUT,
                            "TIMEOUT",
                            format!("no line came for {} s", most.as_secs()),
                        ),
                        out,
                    );
                    return true;
                }
                return false;
            }
        };
        self.silence = None;
        match piece {
            Some(Ok(piece)) if !self.pipeline.account().grow(piece.len()) => self.stop(&ApiError::no_room(), out),
            Some(Ok(piece)) => {
                self.partial.extend_from_slice(&piece);
                if let Some(end) = memchr::memrchr(b'\n', &self.partial) {
                    self.take_lines(end + 1, out);
                } else if self.partial.len() > self.line_bytes_max {
                    self.stop(&ApiError::too_large("a line", self.line_bytes_max as u64), out);
                }
            }
            Some(Err(error)) => self.stop(&ApiError::bad_request(format!("the body broke off: {error}")), out),
            None => {
                self.body = None;
                self.take_lines(self.partial.len(), out);
            }
        }
        true
    }

    /// Takes the lines that end there.
    fn take_lines(&mut self, end: usize, out: &mut Vec<u8>) {
        let lines = self.partial.split_to(end).freeze();
        self.pipeline.account().shrink(end);
        self.pipeline.take_lines(lines, out);
    }

    /// Reads no further; what is under way is still answered.
    fn stop(&mut self, why: &ApiError, out: &mut Vec<u8>) {
        self.body = None;
        self.pipeline.account().shrink(self.partial.len());
        self.partial = BytesMut::new();
        self.pipeline.refuse(why, out);
    }
}
