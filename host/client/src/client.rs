//! The client: calls, results, state and deployments over HTTP.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::connection::RawReply;
use crate::error::{Refusal, refusal};
use crate::reply::parse;
use crate::request::encode;
use crate::tls::{self, Credentials, bearer, is_https};
use crate::{Connection, Entity, Error, Page, Pipeline, Reply, Request, Retry};

/// A client of one server or cluster; cheap to clone. Connections are kept alive and shared by clones.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    ingress: String,
    admin: String,
    retry: Retry,
    credentials: Credentials,
}

/// Settings of a [`Client`].
#[derive(Clone)]
pub struct Builder {
    ingress: String,
    admin: Option<String>,
    timeout: Duration,
    retry: Retry,
    token: Option<String>,
    ca: Option<Bytes>,
}

impl Builder {
    /// Sets where state, deployments and the cluster are asked for; by default the port above the ingress's.
    #[must_use]
    pub fn admin_url(mut self, url: &str) -> Builder {
        self.admin = Some(base(url));
        self
    }

    /// Sets how long one attempt may take; a minute by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Builder {
        self.timeout = timeout;
        self
    }

    /// Sets how requests are repeated.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Builder {
        self.retry = retry;
        self
    }

    /// Sets the token that is shown with every request; none by default.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Builder {
        self.token = Some(token.into());
        self
    }

    /// Sets the authorities, as PEM, whose certificates are believed at `https` addresses; the system's by default.
    #[must_use]
    pub fn ca(mut self, pem: impl Into<Bytes>) -> Builder {
        self.ca = Some(pem.into());
        self
    }

    /// Makes the client; nothing is sent yet.
    ///
    /// # Errors
    /// An address, a token or a certificate is none.
    pub fn build(self) -> Result<Client, Error> {
        let bad = |url: &str| Error::new("BAD_URL", format!("\"{url}\" is no address")).hint("give http://host:port");
        let ingress = reqwest::Url::parse(&self.ingress).map_err(|_| bad(&self.ingress))?;
        let admin = match self.admin {
            Some(admin) => reqwest::Url::parse(&admin).map_err(|_| bad(&admin))?,
            None => {
                let (mut admin, port) = (ingress.clone(), ingress.port_or_known_default().unwrap_or(80));
                admin.set_port(Some(port.saturating_add(1))).map_err(|()| bad(&self.ingress))?;
                admin
            }
        };
        let http = reqwest::Client::builder().connect_timeout(self.timeout.min(Duration::from_secs(5)));
        let is_used = is_https(ingress.as_str()) || is_https(admin.as_str());
        let tls = tls::config(self.ca.as_deref(), is_used)?;
        let mut http = http.timeout(self.timeout).tcp_nodelay(true).tls_backend_preconfigured(tls.clone());
        if let Some(token) = &self.token {
            http = http.default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer(token)?)]));
        }
        let text = |url: reqwest::Url| url.as_str().trim_end_matches('/').to_owned();
        let credentials = Credentials { token: self.token, tls: Arc::new(tls) };
        Ok(Client { http: http.build()?, ingress: text(ingress), admin: text(admin), retry: self.retry, credentials })
    }
}

/// `host:port` means `http://host:port`.
fn base(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

/// A deployment that is live.
#[derive(Clone, Debug, Deserialize)]
pub struct Deployment {
    /// The app's name.
    pub app: String,
    /// The deployment's id.
    #[serde(rename = "deployment")]
    pub id: String,
    /// Operators, components and digest, as the server shows them.
    #[serde(flatten)]
    pub details: BTreeMap<String, Value>,
}

impl Client {
    /// A client of the server whose ingress is at `url` (`http://host:port`), with default settings.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(url: &str) -> Result<Client, Error> {
        Client::builder(url).build()
    }

    /// Settings for the server whose ingress is at `url`.
    pub fn builder(url: &str) -> Builder {
        let (timeout, retry) = (Duration::from_secs(60), Retry::default());
        Builder { ingress: base(url), admin: None, timeout, retry, token: None, ca: None }
    }

    /// A call of a function of an entity. Awaited, it comes to the result as JSON.
    ///
    /// ```no_run
    /// # use serde_json::json;
    /// # async fn example(client: &styx_client::Client) -> Result<(), styx_client::Error> {
    /// let total = client.call("shop", "order", "o1", "add", json!(["apple", 2])).await?;
    /// let reply = client.call("shop", "order", "o1", "pay", json!([])).idempotency_key("payment-17").reply().await?;
    /// println!("{total}, paid in epoch {:?}", reply.epoch);
    /// # Ok(())
    /// # }
    /// ```
    pub fn call(&self, app: &str, operator: &str, key: &str, function: &str, arguments: Value) -> Call<'_> {
        self.request(Request::new(app, operator, key, function, arguments))
    }

    /// A call from a request.
    pub fn request(&self, request: Request) -> Call<'_> {
        Call { client: self, request, retry: self.retry }
    }

    /// Has a call made without waiting for its result; returns the request's id, for [`Client::result`].
    ///
    /// # Errors
    /// The request is refused, or cannot be delivered in time.
    pub async fn send(&self, request: Request) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Accepted {
            request_id: String,
        }
        let (_, bytes) = self.post(&request, "send", self.retry).await?;
        Ok(parse::<Accepted>(&bytes)?.request_id)
    }

    /// The result of a request by its id, waited for up to `wait`; none while it is pending.
    ///
    /// # Errors
    /// The transaction aborted, or nothing is known of the id.
    pub async fn result(&self, id: &str, wait: Duration) -> Result<Option<Reply>, Error> {
        #[derive(Deserialize)]
        struct Report {
            status: String,
            result: Option<Box<serde_json::value::RawValue>>,
            result_base64: Option<String>,
            error: Option<Refusal>,
            tid: Option<u64>,
            epoch: Option<u64>,
        }
        let url = format!("{}/v1/requests/{}?wait={}ms", self.ingress, encode(id), wait.as_millis());
        let report: Report = parse(&self.fetch(&url).await?)?;
        if report.status == "pending" {
            return Ok(None);
        }
        if let Some(refusal) = report.error {
            return Err(refusal.into());
        }
        let bytes = match (report.result, report.result_base64) {
            (_, Some(text)) => {
                use base64::Engine;
                let decoded = base64::engine::general_purpose::STANDARD.decode(text);
                decoded.map_err(|error| Error::new("BAD_REPLY", error.to_string()))?.into()
            }
            (Some(text), None) => Bytes::from(text.get().to_owned()),
            (None, None) => Bytes::from_static(b"null"),
        };
        Ok(Some(Reply::new(bytes, report.tid, report.epoch)))
    }

    /// Many requests in one exchange; the ends are in the order of the requests. What ended with a transient error is
    /// repeated, as for a single call.
    ///
    /// # Errors
    /// The exchange itself fails for too long.
    pub async fn batch(&self, requests: &[Request]) -> Result<Vec<Result<Reply, Error>>, Error> {
        let mut ends: Vec<Option<Result<Reply, Error>>> = requests.iter().map(|_| None).collect();
        let mut attempts = self.retry.begin();
        loop {
            let due: Vec<usize> = (0..requests.len()).filter(|at| ends[*at].is_none()).collect();
            let exchanged = self.exchange(requests, &due, &mut ends).await;
            let keyed = due.iter().filter(|at| ends[**at].is_none()).all(|at| requests[*at].idempotency_key.is_some());
            if let Err(error) = exchanged {
                let Some(pause) = attempts.pause(&error, keyed) else { return Err(error) };
                tokio::time::sleep(pause).await;
                continue;
            }
            let mut pause = None;
            for at in due {
                if let Some(Err(error)) = &ends[at]
                    && error.is_repeatable(requests[at].idempotency_key.is_some())
                    && let Some(found) = pause.or_else(|| attempts.next())
                {
                    (pause, ends[at]) = (Some(found), None);
                }
            }
            let Some(pause) = pause else { return Ok(ends.into_iter().flatten().collect()) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn exchange(
        &self,
        requests: &[Request],
        due: &[usize],
        ends: &mut [Option<Result<Reply, Error>>],
    ) -> Result<(), Error> {
        let mut lines = String::new();
        for at in due {
            let mut line = json!(requests[*at]);
            // Arguments as they are: a value would lose digits of large numbers.
            line.as_object_mut().expect("a request is an object").remove("args");
            let line = line.to_string();
            let args = requests[*at].args.get();
            lines.push_str(&format!("{{\"id\":{at},\"args\":{args},{}\n", &line[1..]));
        }
        let bytes = read(self.http.post(format!("{}/v1/batch", self.ingress)).body(lines)).await?.1;
        for line in String::from_utf8_lossy(&bytes).lines().filter(|line| !line.is_empty()) {
            let (at, reply) = RawReply::of(line)?;
            let end = ends.get_mut(at as usize).ok_or_else(|| Error::new("BAD_REPLY", line))?;
            *end = Some(reply.parse()?);
        }
        let missing = due.iter().any(|at| ends[*at].is_none());
        if missing { Err(Error::new("CONNECTION", "the batch ended before all replies had come")) } else { Ok(()) }
    }

    /// A pipeline of requests over a WebSocket, with this client's policy of repetition.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new(self.ingress.clone(), self.credentials.clone(), self.retry)
    }

    /// One WebSocket, with this client's token and authorities, and without retries.
    ///
    /// # Errors
    /// Nobody listens there, or no server of Styx, or it refuses.
    pub async fn connect(&self) -> Result<Connection, Error> {
        Connection::open_as(&self.ingress, &self.credentials).await
    }

    /// The value of an entity; none if there is no such entity.
    ///
    /// # Errors
    /// The admin address cannot be asked, or the operator is unknown.
    pub async fn get(&self, app: &str, operator: &str, key: &str) -> Result<Option<Entity>, Error> {
        let path = format!("/v1/state/{}/{}/{}", encode(app), encode(operator), encode(key));
        match self.fetch(&format!("{}{path}", self.admin)).await {
            Ok(bytes) => parse(&bytes).map(Some),
            Err(error) if error.code == "UNKNOWN_ENTITY" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A page of an operator's entities whose keys begin with `prefix`, after the key `after`.
    ///
    /// # Errors
    /// The admin address cannot be asked, or the operator is unknown.
    pub async fn scan_page(&self, app: &str, operator: &str, prefix: &str, after: Option<&str>) -> Result<Page, Error> {
        let after = after.map(|after| format!("&after={}", encode(after))).unwrap_or_default();
        let path =
            format!("/v1/state/{}/{}?limit=1000&prefix={}{after}", encode(app), encode(operator), encode(prefix));
        parse(&self.fetch(&format!("{}{path}", self.admin)).await?)
    }

    /// All entities of an operator whose keys begin with `prefix`. Pages are read one after the other: what commits
    /// meanwhile may be seen in part.
    ///
    /// # Errors
    /// As for [`Client::scan_page`].
    pub async fn scan(&self, app: &str, operator: &str, prefix: &str) -> Result<Vec<Entity>, Error> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.scan_page(app, operator, prefix, after.as_deref()).await?;
            all.extend(page.entries);
            after = page.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Deploys a bundle (`styx build` makes one) or a single component under a name.
    ///
    /// # Errors
    /// The server refuses it; nothing has changed then.
    pub async fn deploy(&self, app: &str, bundle: impl Into<Bytes>) -> Result<Deployment, Error> {
        let bundle = bundle.into();
        let kind = if bundle.starts_with(b"\0asm") { "application/wasm" } else { "application/zip" };
        let url = format!("{}/v1/apps/{}/deployments", self.admin, encode(app));
        let upload = || self.http.post(&url).header("content-type", kind).body(bundle.clone());
        // Compiling takes its time.
        let upload = || upload().timeout(Duration::from_secs(600));
        parse(&repeat(self.retry, true, upload).await?.1)
    }

    /// Reads an admin path, such as `/v1/cluster`, as JSON, with one attempt.
    ///
    /// # Errors
    /// It cannot be asked, or refuses.
    pub async fn admin(&self, path: &str) -> Result<Value, Error> {
        parse(&read(self.http.get(format!("{}{path}", self.admin))).await?.1)
    }

    /// A request to the admin address, for what has no method of its own.
    pub fn admin_request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.admin))
    }

    /// A request to the ingress, for what has no method of its own.
    pub fn ingress_request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.ingress))
    }

    /// Makes such a request once; an error reply becomes an error.
    ///
    /// # Errors
    /// It cannot be delivered, or is refused.
    pub async fn execute(&self, request: RequestBuilder) -> Result<Reply, Error> {
        let (headers, bytes) = read(request).await?;
        Ok(reply(&headers, bytes))
    }

    /// Makes a request whose answer goes on for as long as there is something to say: each piece goes to `each`, until that
    /// wants no more. Returns the epoch that it is of, where that is one.
    ///
    /// # Errors
    /// There is no connection, or none any more, or the server refuses.
    pub async fn stream(
        &self,
        request: RequestBuilder,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<u64>, Error> {
        const AS_LONG_AS_IT_TAKES: Duration = Duration::from_secs(365 * 24 * 3600);
        let mut response = request.timeout(AS_LONG_AS_IT_TAKES).send().await?;
        if !response.status().is_success() {
            return Err(refused(response.status(), &response.headers().clone(), &response.bytes().await?));
        }
        let epoch = response.headers().get("styx-epoch").and_then(|epoch| epoch.to_str().ok()?.parse().ok());
        while let Some(piece) = response.chunk().await? {
            if !each(&piece) {
                break;
            }
        }
        Ok(epoch)
    }

    async fn fetch(&self, url: &str) -> Result<Bytes, Error> {
        Ok(repeat(self.retry, true, || self.http.get(url)).await?.1)
    }

    async fn post(&self, request: &Request, verb: &str, retry: Retry) -> Result<(HeaderMap, Bytes), Error> {
        let url = format!("{}/v1/{verb}/{}", self.ingress, request.path());
        let key = request.idempotency_key.as_deref();
        let build = || {
            let post =
                self.http.post(&url).header("content-type", "application/json").body(request.args.get().to_owned());
            match key {
                Some(key) => post.header("idempotency-key", key),
                None => post,
            }
        };
        repeat(retry, key.is_some(), build).await
    }
}

/// A call that is not made yet: await it.
#[derive(Debug)]
#[must_use = "a call is made when it is awaited"]
pub struct Call<'a> {
    client: &'a Client,
    request: Request,
    retry: Retry,
}

impl<'a> Call<'a> {
    /// Takes this idempotency key instead of a generated one.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.request = self.request.idempotency_key(key);
        self
    }

    /// Takes none: the call is not repeated where it may have happened.
    pub fn without_key(mut self) -> Self {
        self.request = self.request.without_key();
        self
    }

    /// Takes another policy of repetition than the client's.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Makes the call; the reply says what the function returned, and where in the order of transactions it stands.
    ///
    /// # Errors
    /// The function refused, or the call was refused, or nobody could be asked for too long.
    pub async fn reply(self) -> Result<Reply, Error> {
        let (headers, bytes) = self.client.post(&self.request, "call", self.retry).await?;
        Ok(reply(&headers, bytes))
    }
}

impl<'a> IntoFuture for Call<'a> {
    type Output = Result<Value, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.reply().await?.value() })
    }
}

fn reply(headers: &HeaderMap, bytes: Bytes) -> Reply {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse().ok();
    let request_id = headers.get("styx-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let replayed = headers.get("idempotent-replayed").is_some_and(|value| value == "true");
    Reply { request_id, replayed, ..Reply::new(bytes, number("styx-tid"), number("styx-epoch")) }
}

/// Sends a request until it has an answer that is not a transient error.
async fn repeat(retry: Retry, has_key: bool, build: impl Fn() -> RequestBuilder) -> Result<(HeaderMap, Bytes), Error> {
    let mut attempts = retry.begin();
    loop {
        let error = match read(build()).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(pause) = attempts.pause(&error, has_key) else { return Err(error) };
        tokio::time::sleep(pause).await;
    }
}

/// Sends a request once, and reads the answer to its end.
async fn read(request: RequestBuilder) -> Result<(HeaderMap, Bytes), Error> {
    let response = request.send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = response.bytes().await?;
    if status.is_success() {
        return Ok((headers, bytes));
    }
    Err(refused(status, &headers, &bytes))
}

fn refused(status: StatusCode, headers: &HeaderMap, bytes: &Bytes) -> Error {
    // Or of some proxy, perhaps.
    let mut error = refusal(bytes).unwrap_or_else(|| Error::new("HTTP", format!("the server answered {status}")));
    error.status = Some(status.as_u16());
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    error.retry_after = seconds.map(Duration::from_secs);
    error
}
