//! Traces as a collector is sent them: of a single process, and of a cluster's gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use reqwest::Method;
use serde_json::json;
use styx_harness::{TimeLimit, waits_for};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::process::cluster::{Cluster, options};
use crate::process::{Endpoints, FREE, Process};

/// Takes spans, as a collector does.
struct Collector {
    url: String,
    batches: mpsc::UnboundedReceiver<Vec<Span>>,
}

impl Collector {
    async fn start() -> Collector {
        let listener = TcpListener::bind(FREE).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (to, batches) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let to = to.clone();
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some((authorization, body)) = request(&mut stream).await {
                        if authorization != "Bearer styx" {
                            stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                            continue;
                        }
                        let export = ExportTraceServiceRequest::decode(&body[..]).unwrap();
                        let scopes = export.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
                        to.send(scopes.flat_map(|scope| scope.spans).collect()).unwrap();
                        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                    }
                });
            }
        });
        Collector { url, batches }
    }

    /// The spans of a trace, by id: those of a request come together.
    async fn trace(&mut self, id: &str) -> BTreeMap<String, Span> {
        waits_for(format!("the spans of trace {id}"));
        loop {
            let batch = self.batches.recv().await.unwrap();
            let of = batch.into_iter().filter(|span| hex(&span.trace_id) == id);
            let of: BTreeMap<_, _> = of.map(|span| (hex(&span.span_id), span)).collect();
            if !of.is_empty() {
                return of;
            }
        }
    }
}

/// Who sends the next request, and its body, if there is one.
async fn request(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<(String, Vec<u8>)> {
    let (mut length, mut authorization) = (0, String::new());
    for at in 0.. {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if at == 0 {
            assert_eq!(line.trim_end(), "POST /v1/traces HTTP/1.1");
        }
        if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        if let Some(value) = line.strip_prefix("authorization:") {
            authorization = value.trim().to_owned();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((authorization, body))
}

/// A file that says who sends.
fn headers(directory: &Path) -> String {
    let path = directory.join("headers");
    std::fs::write(&path, "authorization: Bearer styx\n").unwrap();
    path.to_str().unwrap().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, key: &str) -> Option<Value> {
    span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value
}

/// The calls of a trace, by key of their entities: the key of whoever called each. All but the root have their parent there.
fn graph(spans: &BTreeMap<String, Span>, root: &Span) -> BTreeMap<String, Option<String>> {
    let key = |span: &Span| match attribute(span, "styx.key") {
        Some(Value::StringValue(key)) if attribute(span, "styx.asynchronous").is_some() => Some(key),
        _ => None,
    };
    let calls = spans.values().filter(|span| *span != root).filter_map(|span| {
        let parent = spans.get(&hex(&span.parent_span_id)).expect("its parent is there");
        Some((key(span)?, key(parent)))
    });
    calls.collect()
}

async fn call(server: &impl Endpoints, target: &str, arguments: serde_json::Value, header: (&str, &str)) -> String {
    let request = server.to_ingress(Method::POST, &format!("/v1/call/{target}"));
    let answer = request.header(header.0, header.1).body(arguments.to_string()).send().await.unwrap();
    answer.headers()["styx-request-id"].to_str().unwrap().to_owned()
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_is_that_of_the_clients_span_or_the_requests_own() {
    let _limit = TimeLimit::of_test();
    let directory = tempfile::tempdir().unwrap();
    let mut collector = Collector::start().await;
    let headers = headers(directory.path());
    let flags = ["--otlp-endpoint", &*collector.url, "--otlp-headers", &headers, "--trace-sample", "off"];
    let server = Process::with_testkit(directory.path(), &flags).await;

    let id = call(&server, "testkit/a/one/append_all", json!([["two", "three"], 7]), ("styx-trace", "1")).await;
    let spans = collector.trace(&id.replace('-', "")).await;
    let root = spans.values().find(|span| span.parent_span_id.is_empty()).unwrap();
    assert_eq!(root.name, "testkit/a.append_all");
    assert_eq!(attribute(root, "styx.request_id"), Some(Value::StringValue(id)));
    assert!(root.end_time_unix_nano > root.start_time_unix_nano && root.status.is_none(), "{root:?}");
    let expected = [("one", None), ("two", Some("one")), ("three", Some("one"))];
    let expected = expected.map(|(key, parent)| (key.to_owned(), parent.map(str::to_owned)));
    assert!(spans.values().any(|span| span.name == "execute"), "{spans:?}");
    assert_eq!(graph(&spans, root), BTreeMap::from(expected), "{spans:?}");

    call(&server, "testkit/a/one/fail", json!(["no"]), ("traceparent", PARENT)).await;
    let spans = collector.trace("4bf92f3577b34da6a3ce929d0e0e4736").await;
    let root = spans.values().find(|span| hex(&span.parent_span_id) == "00f067aa0ba902b7").unwrap();
    let status = root.status.as_ref().unwrap();
    assert!(status.message.starts_with("ABORTED: "), "{status:?}");
    waits_for("two traces to be counted");
    while !server.metrics().await.contains(r#"styx_traces_total{end="sent"} 2"#) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_sends_what_all_workers_have_seen() {
    let _limit = TimeLimit::of_test();
    let mut collector = Collector::start().await;
    let directory = tempfile::tempdir().unwrap();
    let headers = headers(directory.path());
    let flags = ["--otlp-endpoint", &*collector.url, "--otlp-headers", &headers].map(str::to_owned).to_vec();
    let options = styx_harness::Options { gateway_flags: flags, ..options(2, &[]) };
    let cluster = Cluster::with_testkit_in(options).await;
    // Nobody knows where a key lives, but that not all of these live at one worker.
    let others: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    call(&cluster, "testkit/a/root/append_all", json!([others, 7]), ("traceparent", PARENT)).await;
    let spans = collector.trace("4bf92f3577b34da6a3ce929d0e0e4736").await;
    let root = spans.values().find(|span| hex(&span.parent_span_id) == "00f067aa0ba902b7").unwrap();
    let calls = graph(&spans, root);
    assert_eq!(calls.len(), 41, "{spans:?}");
    assert!(calls.iter().all(|(key, parent)| (key == "root") == parent.is_none()), "{calls:?}");
    let workers = spans.values().filter_map(|span| match attribute(span, "styx.worker") {
        Some(Value::IntValue(worker)) => Some(worker),
        _ => None,
    });
    assert_eq!(workers.collect::<BTreeSet<_>>(), BTreeSet::from([1, 2]), "{spans:?}");
}
