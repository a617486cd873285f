//! Sessions over HTTP: one call after the other on a connection that is kept alive.

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::load::{End, Session};
use crate::workload::Call;

pub struct HttpConnection {
    requests: SendRequest<Full<Bytes>>,
    host: String,
    app: String,
    results: bool,
}

#[derive(Deserialize)]
struct Refusal {
    error: Failure,
}

#[derive(Deserialize)]
struct Failure {
    code: String,
    message: String,
}

impl HttpConnection {
    pub async fn open(ingress: &str, app: &str, results: bool) -> anyhow::Result<HttpConnection> {
        let stream = TcpStream::connect(ingress).await.with_context(|| format!("nobody listens at {ingress}"))?;
        stream.set_nodelay(true)?;
        let (requests, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends with the last sender of requests; what it has to say, the sender hears as well.
        tokio::spawn(connection);
        Ok(HttpConnection { requests, host: ingress.to_owned(), app: app.to_owned(), results })
    }
}

impl Session for HttpConnection {
    async fn ask(&mut self, call: &Call) -> anyhow::Result<(End, u32)> {
        let path = format!("/v1/call/{}/{}/{}/{}", self.app, call.operator, encoded(&call.key), call.function);
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, &self.host)
            .body(Full::new(Bytes::copy_from_slice(call.arguments.as_bytes())))?;
        self.requests.ready().await?;
        let response = self.requests.send_request(request).await?;
        let ok = response.status().is_success();
        let body = response.into_body().collect().await?.to_bytes();
        if ok {
            return Ok((End::Done(if self.results { body } else { Bytes::new() }), 0));
        }
        let refusal: Refusal = serde_json::from_slice(&body)
            .with_context(|| format!("not an answer: {}", String::from_utf8_lossy(&body)))?;
        Ok((End::failed(refusal.error.code, refusal.error.message), 0))
    }
}

/// A key as a part of a path.
fn encoded(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_parts_of_paths() {
        for (key, expected) in [("17", "17"), ("w:1/d 2", "w%3A1%2Fd%202"), ("ü", "%C3%BC")] {
            assert_eq!(encoded(key), expected);
        }
    }
}
