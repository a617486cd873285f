//! The command line's client: one attempt at a time, and errors as the command line shows them.

use std::path::Path;
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use styx_client::{Error, Retry};
use tokio::runtime::Runtime;

use crate::Global;
use crate::environment::token;
use crate::error::CliError;

pub(crate) struct Client {
    runtime: Runtime,
    http: styx_client::Client,
    admin: String,
    ingress: String,
}

/// A server's answer, and which transaction it comes from.
pub(crate) struct Response {
    pub(crate) body: Value,
    /// The body as it came: not every number of JSON is one of `Value`'s.
    pub(crate) text: String,
    pub(crate) tid: Option<u64>,
    pub(crate) epoch: Option<u64>,
    pub(crate) request_id: Option<String>,
}

impl Client {
    pub(crate) fn new(global: &Global) -> Result<Self, CliError> {
        let (admin, ingress) = (&with_scheme(&global.admin_url), &with_scheme(&global.ingress_url));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CliError::new("CLIENT", error.to_string(), ""))?;
        let mut http = styx_client::Client::builder(ingress).admin_url(admin).retry(Retry::never());
        let token = global.token_file.as_deref().map(read).transpose()?.or_else(token);
        if let Some(token) = token {
            http = http.token(token);
        }
        if let Some(ca) = &global.ca {
            http = http.ca(read(ca)?);
        }
        let http = http.timeout(Duration::from_secs(300)).build().map_err(shown)?;
        let url = |url: &str| url.trim_end_matches('/').to_owned();
        Ok(Client { runtime, http, admin: url(admin), ingress: url(ingress) })
    }

    pub(crate) fn admin_url(&self) -> &str {
        &self.admin
    }

    pub(crate) fn ingress_url(&self) -> &str {
        &self.ingress
    }

    pub(crate) fn admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.admin_request(method, path)
    }

    pub(crate) fn ingress(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.ingress_request(method, path)
    }

    /// Sends a request; an error reply becomes an error.
    pub(crate) fn send(&self, request: RequestBuilder) -> Result<Response, CliError> {
        let reply = self.runtime.block_on(self.http.execute(request)).map_err(shown)?;
        let text = String::from_utf8_lossy(&reply.bytes).into_owned();
        Ok(Response {
            body: reply.value().unwrap_or_else(|_| Value::String(text.clone())),
            text,
            tid: reply.tid,
            epoch: reply.epoch,
            request_id: reply.request_id.clone(),
        })
    }

    /// Sends a request whose answer goes on, until `each` wants no more of it. Returns the epoch that it is of, if any.
    pub(crate) fn stream(
        &self,
        request: RequestBuilder,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<u64>, CliError> {
        self.runtime.block_on(self.http.stream(request, each)).map_err(shown)
    }
}

/// `localhost:9070` is as good as `http://localhost:9070`.
fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

fn read(file: &Path) -> Result<String, CliError> {
    let read = std::fs::read_to_string(file);
    read.map_err(|error| CliError::usage("IO", format!("{}: {error}", file.display()), "give a file that can be read"))
}

fn shown(error: Error) -> CliError {
    if error.code == "BAD_URL" {
        return CliError::usage("BAD_URL", error.message, "give --admin-url and --ingress-url as http://host:port");
    }
    let hint = hint_of(&error.code, &error.message).map_or(error.hint, str::to_owned);
    // Codes of the server are stable; there is one error in a process of the command line.
    CliError { app_code: error.app_code, ..CliError::new(error.code.leak(), error.message, hint) }
}

/// What to do when a server cannot be spoken to. The server's own errors have their hints.
fn hint_of(code: &str, message: &str) -> Option<&'static str> {
    Some(match code {
        "UNREACHABLE" if message.contains("certificate") => {
            "give --ca FILE with the authority that issued its certificate, and a URL with a name that it is for"
        }
        "UNREACHABLE" => "start a server with `styx server`, or give --admin-url and --ingress-url",
        "TIMEOUT" => "the request may still be carried out; ask again with an idempotency key",
        // How a port with TLS answers a request without.
        "CONNECTION" if message.contains("invalid HTTP version") => "if it speaks TLS, give its URL as https://…",
        "CONNECTION" => "the server closed the connection; look at its log",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::hint_of;

    #[test]
    fn who_does_not_reach_a_server_is_told_why() {
        let says = |code, message| hint_of(code, message).unwrap();
        assert!(says("UNREACHABLE", "https://x: invalid peer certificate: UnknownIssuer").contains("--ca"));
        assert!(says("UNREACHABLE", "http://x: Connection refused").contains("`styx server`"));
        assert!(says("CONNECTION", "http://x: invalid HTTP version parsed").contains("https://"));
        assert_eq!(hint_of("ABORTED", "no certificate"), None);
    }
}
