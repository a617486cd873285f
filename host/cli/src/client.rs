//! The command line's HTTP client.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use tokio::runtime::Runtime;

use styx_server::error::CliError;

pub(crate) struct Client {
    runtime: Runtime,
    http: reqwest::Client,
    admin: String,
    ingress: String,
}

/// An answer of the server: status, headers worth showing, body.
pub(crate) struct Response {
    pub(crate) body: Value,
    pub(crate) tid: Option<String>,
    pub(crate) epoch: Option<String>,
}

impl Client {
    pub(crate) fn new(admin: &str, ingress: &str) -> Result<Self, CliError> {
        let failed = |error: &dyn std::fmt::Display| CliError::new("CLIENT", error.to_string(), "");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(300))
            .build()
            .map_err(|error| failed(&error))?;
        Ok(Client {
            runtime,
            http,
            admin: admin.trim_end_matches('/').into(),
            ingress: ingress.trim_end_matches('/').into(),
        })
    }

    pub(crate) fn admin_url(&self) -> &str {
        &self.admin
    }

    pub(crate) fn ingress_url(&self) -> &str {
        &self.ingress
    }

    pub(crate) fn admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.admin))
    }

    pub(crate) fn ingress(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.ingress))
    }

    /// Sends a request; an error reply becomes an error.
    pub(crate) fn send(&self, request: RequestBuilder) -> Result<Response, CliError> {
        self.runtime.block_on(async {
            let response = request.send().await.map_err(|error| unreachable_server(&error, &self.admin))?;
            let status = response.status();
            let header =
                |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(String::from);
            let (tid, epoch) = (header("styx-tid"), header("styx-epoch"));
            let text = response.text().await.map_err(|error| {
                CliError::new("CONNECTION", error.to_string(), "the server closed the connection; look at its log")
            })?;
            let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
            if status.is_success() { Ok(Response { body, tid, epoch }) } else { Err(refused(status, &body)) }
        })
    }
}

fn unreachable_server(error: &reqwest::Error, url: &str) -> CliError {
    if error.is_builder() {
        return CliError::usage("BAD_URL", error.to_string(), "give --admin-url and --ingress-url as http://host:port");
    }
    if error.is_timeout() {
        return CliError::new(
            "TIMEOUT",
            format!("no answer from {url}"),
            "the request may still be carried out; ask again with an idempotency key",
        );
    }
    CliError::new(
        "UNREACHABLE",
        format!("no server at {url}"),
        "start one with `styx server`, or give --admin-url and --ingress-url",
    )
}

/// Stable codes of the server, so that the command line's errors carry them on.
fn refused(status: StatusCode, body: &Value) -> CliError {
    let text = |name: &str| body["error"][name].as_str().unwrap_or_default().to_string();
    let code: &'static str = match text("code") {
        code if code.is_empty() => "HTTP",
        code => code.leak(),
    };
    let message = match text("message") {
        message if message.is_empty() => format!("the server answered {status}"),
        message => message,
    };
    CliError::new(code, message, text("hint"))
}
