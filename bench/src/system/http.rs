//! Sessions over HTTP: one call after the other on a connection that is kept alive.

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::load::{End, Session};
use crate::workload::Call;

/// A connection that is kept alive.
pub struct Exchange {
    requests: SendRequest<Full<Bytes>>,
    host: String,
}

impl Exchange {
    pub async fn open(host: &str) -> anyhow::Result<Exchange> {
        let stream = TcpStream::connect(host).await.with_context(|| format!("nobody listens at {host}"))?;
        stream.set_nodelay(true)?;
        let (requests, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends with the last sender of requests; what it has to say, the sender hears as well.
        tokio::spawn(connection);
        Ok(Exchange { requests, host: host.to_owned() })
    }

    /// Posts JSON, and reads the answer to its end.
    pub async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?;
        self.requests.ready().await?;
        let response = self.requests.send_request(request).await?;
        Ok((response.status(), response.into_body().collect().await?.to_bytes()))
    }
}

pub struct HttpConnection {
    pub exchange: Exchange,
    pub app: String,
    pub results: bool,
}

#[derive(Deserialize)]
struct Refusal {
    error: Failure,
}

/// An error as a server writes it.
#[derive(Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

impl Session for HttpConnection {
    async fn ask(&mut self, call: &Call) -> anyhow::Result<(End, u32)> {
        let path = format!(
            "/v1/call/{}/{}/{}/{}",
            self.app,
            call.operator,
            utf8_percent_encode(&call.key, ENCODED),
            call.function
        );
        let (status, body) = self.exchange.post(&path, &call.arguments).await?;
        if status.is_success() {
            return Ok((End::Done(if self.results { body } else { Bytes::new() }), 0));
        }
        let refusal: Refusal = serde_json::from_slice(&body)
            .with_context(|| format!("not an answer: {}", String::from_utf8_lossy(&body)))?;
        Ok((End::failed(refusal.error.code, refusal.error.message), 0))
    }
}

/// What of a key needs encoding as a part of a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
