//! `GET /openapi.json`: both surfaces described, from one table.

use axum::Json;
use serde_json::{Map, Value, json};

/// One endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Whether it is on the admin port; otherwise on the ingress port.
    pub admin: bool,
    /// Lower case.
    pub method: &'static str,
    /// With `{parts}`.
    pub path: &'static str,
    /// Options behind the `?`.
    pub options: &'static [&'static str],
    /// Media type of the request's body; empty if it has none.
    pub takes: &'static [&'static str],
    /// Status and media type of success.
    pub gives: (u16, &'static str),
    /// One line.
    pub summary: &'static str,
}

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

const fn admin(
    method: &'static str,
    path: &'static str,
    options: &'static [&'static str],
    takes: &'static [&'static str],
    gives: (u16, &'static str),
    summary: &'static str,
) -> Endpoint {
    Endpoint { admin: true, method, path, options, takes, gives, summary }
}

const fn ingress(
    method: &'static str,
    path: &'static str,
    options: &'static [&'static str],
    takes: &'static [&'static str],
    gives: (u16, &'static str),
    summary: &'static str,
) -> Endpoint {
    Endpoint { admin: false, method, path, options, takes, gives, summary }
}

/// All endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    ingress(
        "post",
        "/v1/call/{app}/{operator}/{key}/{function}",
        &[],
        &[JSON],
        (200, JSON),
        "Calls a function and waits for its transaction to commit",
    ),
    ingress(
        "post",
        "/v1/send/{app}/{operator}/{key}/{function}",
        &[],
        &[JSON],
        (202, JSON),
        "Sends a call and waits until it is durable",
    ),
    ingress("get", "/v1/requests/{id}", &["wait"], &[], (200, JSON), "What became of a send"),
    ingress("get", "/v1/ws", &["batch"], &[], (101, ""), "Pipelined calls over a WebSocket"),
    ingress("post", "/v1/batch", &[], &[NDJSON], (200, NDJSON), "Pipelined calls as lines of JSON"),
    admin("get", "/v1/apps", &[], &[], (200, JSON), "What is deployed"),
    admin("get", "/v1/apps/{app}", &[], &[], (200, JSON), "An app: operators, functions, deployments"),
    admin("delete", "/v1/apps/{app}", &[], &[], (200, JSON), "Removes an app and its state"),
    admin("get", "/v1/apps/{app}/openapi.json", &[], &[], (200, JSON), "The app's functions as an OpenAPI document"),
    admin("get", "/v1/apps/{app}/deployments", &[], &[], (200, JSON), "Versions of an app, newest first"),
    admin(
        "post",
        "/v1/apps/{app}/deployments",
        &["dry_run"],
        &["application/wasm", "application/zip"],
        (201, JSON),
        "Deploys a component or a bundle",
    ),
    admin("get", "/v1/apps/{app}/deployments/{id}", &[], &[], (200, JSON), "One version of an app"),
    admin("post", "/v1/apps/{app}/deployments/{id}/activate", &[], &[], (200, JSON), "Rolls an app back or forward"),
    admin(
        "get",
        "/v1/state/{app}/{operator}",
        &["prefix", "after", "limit"],
        &[],
        (200, JSON),
        "A page of entities in key order",
    ),
    admin("get", "/v1/state/{app}/{operator}/{key}", &[], &[], (200, JSON), "One entity"),
    admin("get", "/v1/cluster", &[], &[], (200, JSON), "The cluster at a glance"),
    admin("get", "/v1/workers", &[], &[], (200, JSON), "The workers"),
    admin("get", "/v1/partitions", &[], &[], (200, JSON), "The partitions, where they are and what they hold"),
    admin("get", "/v1/epochs", &[], &[], (200, JSON), "The latest epochs, newest first"),
    admin("get", "/v1/requests", &[], &[], (200, JSON), "How many requests wait and how many replies are remembered"),
    admin("get", "/v1/snapshots", &[], &[], (200, JSON), "Snapshots, oldest first"),
    admin("post", "/v1/snapshots", &[], &[], (201, JSON), "Takes a snapshot and waits until it exists"),
    admin("get", "/v1/events", &[], &[], (200, "text/event-stream"), "What the system does, as server-sent events"),
    admin("get", "/metrics", &[], &[], (200, "application/openmetrics-text"), "Figures for Prometheus"),
    admin("get", "/healthz", &[], &[], (200, JSON), "Whether the process lives"),
    admin("get", "/readyz", &[], &[], (200, JSON), "Whether it serves"),
    admin("get", "/openapi.json", &[], &[], (200, JSON), "This document"),
];

/// `GET /openapi.json`
pub async fn document() -> Json<Value> {
    let mut paths = Map::new();
    for endpoint in ENDPOINTS {
        let parts = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters =
            parts
                .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
                .chain(endpoint.options.iter().map(
                    |name| json!({ "name": name, "in": "query", "required": false, "schema": { "type": "string" } }),
                ));
        let (status, media) = endpoint.gives;
        let mut success = json!({ "description": "done" });
        if !media.is_empty() {
            success["content"] = json!({ media: {} });
        }
        let mut operation = json!({
            "summary": endpoint.summary,
            "parameters": parameters.collect::<Vec<_>>(),
            "responses": { status.to_string(): success, "default": { "$ref": "#/components/responses/Error" } },
        });
        if !endpoint.takes.is_empty() {
            let content: Map<String, Value> =
                endpoint.takes.iter().map(|media| ((*media).to_owned(), json!({}))).collect();
            operation["requestBody"] = json!({ "content": content });
        }
        if !endpoint.admin {
            operation["servers"] =
                json!([{ "url": "http://127.0.0.1:8080", "description": "the ingress, at its default address" }]);
        }
        let entry = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        entry[endpoint.method] = operation;
    }
    Json(json!({
        "openapi": "3.1.0",
        "info": { "title": "Styx", "version": env!("CARGO_PKG_VERSION"), "description": "Transactional stateful functions. Each app has a document of its own: /v1/apps/{app}/openapi.json" },
        "servers": [{ "url": "http://127.0.0.1:9070", "description": "the admin port, at its default address" }],
        "paths": paths,
        "components": {
            "schemas": { "Error": super::openapi::error_schema() },
            "responses": { "Error": { "description": "what is wrong and what to do", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } } } },
        },
    }))
}
