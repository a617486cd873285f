//! Traces of watched requests, sent to whoever collects them: OTLP over HTTP, in its binary form.
//!
//! Who takes calls (a single process, a gateway) notes the requests that are watched, asks the workers what they saw of each
//! when it should have ended, and sends that as spans. Nothing waits for it: what cannot be sent is counted, and left out.

mod context;
mod spans;

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use styx_protocol::ids::RequestId;
use tokio::sync::mpsc;

pub use context::SpanContext;
use spans::{spans, text};

use crate::admin::Queries;
use crate::error::ServerError;
use crate::http::outgoing;

/// Requests that wait to be asked about; others are left out.
const WAITING_MAX: usize = 1024;
/// How long after it came a request is asked about, again and again until it has ended.
const SETTLED: Duration = Duration::from_secs(1);
/// How long it is asked about.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at those that wait.
const PAUSE: Duration = Duration::from_millis(200);
/// Most spans of a message.
const BATCH: usize = 4096;
/// How long a collector may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// A request that is watched has come.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub id: RequestId,
    /// The span that it belongs to, if its client has said so.
    pub parent: Option<SpanContext>,
}

struct Waiting {
    received: Received,
    since: Instant,
    due: Instant,
}

/// Sends traces.
pub struct Exporter {
    received: mpsc::Receiver<Received>,
    queries: Queries,
    client: Client,
    url: Url,
    headers: HeaderMap,
    resource: Resource,
    /// The last time, spans could not be sent.
    failing: bool,
}

impl Exporter {
    /// One that sends to a collector, such as `http://127.0.0.1:4318`, with these headers what this process says of itself by
    /// `name`.
    ///
    /// # Errors
    /// This is no place to send to.
    pub fn new(endpoint: &str, headers: HeaderMap, name: &str, queries: Queries) -> Result<Exporter, ServerError> {
        let refused = |error: &dyn std::fmt::Display| {
            let message = format!("traces cannot be sent to {endpoint}: {error}");
            ServerError::usage("CONFIG_INVALID", message, "give --otlp-endpoint as http://host:4318")
        };
        let mut url = Url::parse(endpoint).map_err(|error| refused(&error))?;
        if !url.path().ends_with("/v1/traces") {
            let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        let client = outgoing(&url, ANSWER).map_err(|error| refused(&error))?;
        let (sender, received) = mpsc::channel(WAITING_MAX);
        queries.handle.stats().observed.export(sender);
        let attributes = vec![
            text("service.name", "styx"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", name),
        ];
        let resource = Resource { attributes, ..Resource::default() };
        Ok(Exporter { received, queries, client, url, headers, resource, failing: false })
    }

    /// Sends until the process ends.
    pub async fn run(mut self) {
        let shutdown = self.queries.shutdown.clone();
        tokio::select! {
            () = shutdown.wait() => {}
            () = self.send_all() => {}
        }
    }

    async fn send_all(&mut self) {
        let mut waiting: VecDeque<Waiting> = VecDeque::new();
        loop {
            tokio::select! {
                received = self.received.recv(), if waiting.len() < WAITING_MAX => {
                    let Some(received) = received else { break };
                    let since = Instant::now();
                    waiting.push_back(Waiting { received, since, due: since + SETTLED });
                }
                () = tokio::time::sleep(PAUSE) => {}
            }
            let (mut batch, mut of) = (Vec::new(), 0);
            while batch.len() < BATCH
                && let Some(one) = waiting.pop_front_if(|one| one.due <= Instant::now())
            {
                let Received { id, parent } = one.received;
                let given_up = one.since.elapsed() >= PATIENCE;
                // Workers that cannot answer now may do so later.
                match self.queries.trace(id).await.ok().flatten() {
                    Some(trace) if trace.ended_us.is_some() || given_up => {
                        batch.extend(spans(id, parent, &trace));
                        of += 1;
                    }
                    _ if given_up => self.lost(1),
                    _ => waiting.push_back(Waiting { due: Instant::now() + SETTLED, ..one }),
                }
            }
            if !batch.is_empty() {
                self.send(batch, of).await;
            }
        }
    }

    async fn send(&mut self, spans: Vec<Span>, of: u64) {
        let scope = InstrumentationScope { name: "styx".into(), ..InstrumentationScope::default() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        let resource = Some(self.resource.clone());
        let resource_spans = vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }];
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let post = || async {
            let request = self.client.post(self.url.clone()).headers(self.headers.clone());
            let request = request.header(CONTENT_TYPE, "application/x-protobuf");
            request.body(body.clone()).send().await?.error_for_status().map(drop)
        };
        match post.retry(ExponentialBuilder::default().with_max_times(2)).sleep(tokio::time::sleep).await {
            Ok(()) => {
                self.failing = false;
                self.queries.handle.stats().observed.traces_sent(of);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!("traces are left out until they can be sent again: {error}");
                }
                self.lost(of);
            }
        }
    }

    fn lost(&self, traces: u64) {
        self.queries.handle.stats().observed.traces_lost(traces);
    }
}

/// The headers of a file: `name: value` on each line; lines that are empty or begin with `#` say nothing.
///
/// # Errors
/// It cannot be read, or a line is no header.
pub fn headers(path: &Path) -> Result<HeaderMap, ServerError> {
    let refused = |what: String| {
        let message = format!("{}: {what}", path.display());
        ServerError::usage(
            "CONFIG_INVALID",
            message,
            "write what the collector asks for as `name: value`, a header on each line",
        )
    };
    let text = std::fs::read_to_string(path).map_err(|error| refused(format!("cannot be read: {error}")))?;
    let mut headers = HeaderMap::new();
    let lines = (1..).zip(text.lines().map(str::trim));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let header = line.split_once(':').and_then(|(name, value)| {
            let name: HeaderName = name.trim().parse().ok()?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        // What it says may be a secret.
        let (name, value) = header.ok_or_else(|| refused(format!("line {number} is no header")))?;
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_from_lines_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("headers");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            headers(&path)
        };
        let found = read("# of the collector\nauthorization: Bearer a:b\n\n X-Scope : team \n").unwrap();
        assert_eq!(
            (&found["authorization"], &found["x-scope"]),
            (&"Bearer a:b".parse().unwrap(), &"team".parse().unwrap())
        );
        assert!(!format!("{found:?}").contains("Bearer"));
        for text in ["a: b\nsecret", "b\u{7}c: d", ": d"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("is no header") && !error.contains("secret"), "{error}");
        }
        assert!(headers(&directory.path().join("none")).unwrap_err().to_string().contains("cannot be read"));
    }
}
