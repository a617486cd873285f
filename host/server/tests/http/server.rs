//! A server in this process on free ports, with guests of WebAssembly text.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use styx_engine::{Compiler, Determinism, EXECUTION_STACK_BYTES, Engine, EngineOptions};
use styx_harness::{TimeLimit, waits_for};
use styx_protocol::deployment::Limits;
use styx_server::admin::{self, Admin, Deploys};
use styx_server::components::ComponentStore;
use styx_server::gateway::{self, Ingress};
use styx_server::handle::Handle;
use styx_server::http::{Addresses, ConnectionLimits, HttpOptions, Memory, Shutdown, serve};
use styx_server::nodes::{NodeRole, Own};
use styx_server::observe::{Recorder, Traced};
use styx_server::single::{SingleNode, SingleOptions};
use styx_storage::log::MemoryDisk;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::{Guest, invoke};

/// A running server. Stops when told to; dropped, it stops by itself, for its engine takes terabytes of address space.
pub struct Server {
    pub ingress: SocketAddr,
    pub admin: SocketAddr,
    pub client: Client,
    pub shutdown: Shutdown,
    pub memory: Memory,
    worker: Option<SingleNode>,
    serving: Vec<JoinHandle<()>>,
    directory: tempfile::TempDir,
    _limit: TimeLimit,
}

/// A reply, read to its end.
#[derive(Debug)]
pub struct Told {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Told {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
    /// Status and code; every error has a message, and a hint if only an empty one.
    pub fn error(&self) -> (u16, String) {
        let error = &self.json()["error"];
        assert!(
            error["message"].as_str().is_some_and(|message| !message.is_empty() && !message.contains('\n')),
            "{}",
            self.text()
        );
        assert!(error["hint"].is_string(), "{}", self.text());
        assert_eq!(self.header("content-type"), "application/json");
        (self.status, error["code"].as_str().unwrap_or_default().to_owned())
    }
}

impl Server {
    pub async fn start() -> Server {
        Server::with(HttpOptions::default()).await
    }

    pub async fn with(options: HttpOptions) -> Server {
        Server::with_backlog(options, SingleOptions::default().backlog_max).await
    }

    /// A server where so many requests may wait.
    pub async fn with_backlog(options: HttpOptions, backlog_max: usize) -> Server {
        let (directory, limit) = (tempfile::tempdir().unwrap(), TimeLimit::of_test());
        let engine = Engine::new(EngineOptions {
            cache_dir: directory.path().join("cache"),
            determinism: Determinism::Off,
            executors: 3,
            compiler: Compiler::InProcess,
            cluster: None,
            long: None,
            guest_memory: usize::MAX,
        })
        .unwrap();
        let components = ComponentStore::open(directory.path().join("components")).unwrap();
        // Nobody is watched who does not ask for it.
        let recorder = Arc::new(Recorder::sampling(0));
        let worker_options = SingleOptions {
            threads: 2,
            stack_bytes: EXECUTION_STACK_BYTES,
            partitions: Some(8),
            engine: engine.engine_hash(),
            recorder: recorder.clone(),
            backlog_max,
            ..SingleOptions::default()
        };
        let prepare = {
            let (engine, components) = (engine.clone(), components.clone());
            Box::new(move |catalog: &Arc<styx_protocol::catalog::Catalog>| {
                catalog
                    .operators()
                    .try_for_each(|operator| Ok(engine.load(operator.component, &components.path(operator.component))?))
            })
        };
        let log = Box::new(MemoryDisk::default().open().unwrap());
        let make = engine.clone();
        let worker = SingleNode::start(
            worker_options,
            log,
            move || Traced::new(make.executor(), recorder.clone()),
            prepare,
            &|_, _| (),
        )
        .unwrap();
        let (shutdown, memory) = (Shutdown::default(), options.memory.clone());
        let options = Arc::new(options);
        let (ingress, ingress_addr) = listen().await;
        let (admin, admin_addr) = listen().await;
        let beside = Some(format!("http://{admin_addr}"));
        let calls = Ingress::beside(beside, worker.handle().clone(), options.clone(), shutdown.clone());
        let own = Own::new(NodeRole::Single, "styx".into()).with_data(directory.path().to_owned());
        let own = own.with_tallies(engine.tallies().clone()).with_ingress(format!("http://{ingress_addr}"));
        let api = Admin::new(worker.handle().clone(), options, shutdown.clone(), own)
            .with_deploys(Deploys { engine, components })
            .with_calls(calls.clone(), Some(ingress_addr));
        let serving = vec![
            tokio::spawn(serve(ingress, gateway::router(calls), shutdown.clone(), limits(), None)),
            tokio::spawn(serve(admin, admin::router(api), shutdown.clone(), limits(), None)),
        ];
        let client = Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        Server {
            ingress: ingress_addr,
            admin: admin_addr,
            client,
            shutdown,
            memory,
            worker: Some(worker),
            serving,
            directory,
            _limit: limit,
        }
    }

    /// A server with the guest [`item`] deployed as `app`; what takes long takes a fifth of a second.
    pub async fn with_item(options: HttpOptions) -> Server {
        Server::with_item_and_backlog(options, SingleOptions::default().backlog_max).await
    }

    /// The same, where so many requests may wait.
    pub async fn with_item_and_backlog(options: HttpOptions, backlog_max: usize) -> Server {
        let limits_max = Limits { fuel: 100_000_000, ..options.limits_max };
        let options = HttpOptions { limits_max, ..options };
        let server = Server::with_backlog(options, backlog_max).await;
        let told = server.deploy("app", "", "application/wasm", item().bytes()).await;
        assert_eq!(told.status, 201, "{}", told.text());
        server
    }

    pub fn handle(&self) -> &Handle {
        self.worker.as_ref().expect("a server that runs").handle()
    }

    pub async fn deploy(&self, app: &str, options: &str, kind: &str, bytes: Vec<u8>) -> Told {
        let path = format!("/v1/apps/{app}/deployments{options}");
        told(self.to_admin(Method::POST, &path).header("content-type", kind).body(bytes)).await
    }

    pub fn to_ingress(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.ingress))
    }

    pub fn to_admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.admin))
    }

    /// Calls a function of `app/item`.
    pub async fn call(&self, key: &str, function: &str, args: impl Into<reqwest::Body>) -> Told {
        told(self.to_ingress(Method::POST, &format!("/v1/call/app/item/{key}/{function}")).body(args)).await
    }

    pub async fn get(&self, path: &str) -> Told {
        told(self.to_admin(Method::GET, path)).await
    }

    /// Names of the files that hold components.
    pub fn stored(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path().join("components")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Lets everything come to its end.
    pub async fn stop(mut self) {
        self.shutdown.begin();
        for serving in self.serving.drain(..) {
            serving.await.unwrap();
        }
        let worker = self.worker.take().expect("a server that runs");
        tokio::task::spawn_blocking(move || worker.stop()).await.unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
        if let Some(worker) = self.worker.take() {
            std::thread::spawn(move || worker.stop());
        }
    }
}

/// Connections that a client may open.
pub const CONNECTIONS_MAX: usize = 50;

fn limits() -> ConnectionLimits {
    ConnectionLimits { addresses: Addresses::new(CONNECTIONS_MAX), ..ConnectionLimits::default() }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Sends a request and reads the reply.
pub async fn told(request: RequestBuilder) -> Told {
    let (http, request) = request.build_split();
    let request = request.unwrap();
    waits_for(format!("the answer to {} {}", request.method(), request.url()));
    let response = http.execute(request).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.bytes().await.unwrap().to_vec();
    waits_for("something after the last answer");
    Told { status, headers, body }
}

/// A request to `app/item` for pipelines.
pub fn envelope(id: Value, key: &str, function: &str, args: Value) -> Value {
    json!({ "id": id, "app": "app", "operator": "item", "key": key, "function": function, "args": args })
}

/// An operator `item` with one function for every kind of end; all take one parameter `n` of any
/// type. Told apart by the last letter of their names.
pub fn item() -> Guest {
    let case =
        |letter: char, body: &str| format!("(if (i32.eq (local.get $j) (i32.const {})) (then {body}))", letter as u32);
    let body = [
        "(local.set $j (call $letter (local.get $f) (local.get $fl)))".to_owned(),
        case('e', "(call $put-own (local.get $a) (local.get $al)) (return (call $ok (local.get $a) (local.get $al)))"),
        case(
            'd',
            "(call $get-own (i32.const 128))
             (if (i32.load8_u (i32.const 128)) (then (return (call $ok (i32.load (i32.const 132)) (i32.load (i32.const 136))))))
             (return (call $ok (i32.const 0) (i32.const 0)))",
        ),
        case('l', "(call $put-own (local.get $a) (local.get $al)) (return (call $err (i32.const 1024) (i32.const 7) (local.get $a) (local.get $al)))"),
        case('n', "(loop $forever (br $forever))"),
        case('w', "(i32.store (i32.const 128) (i32.const 0x7bff)) (return (call $ok (i32.const 128) (i32.const 2)))"),
        case('k', "(call $put-own (local.get $a) (local.get $al)) (return (call $ok (local.get $a) (local.get $al)))"),
        case('b', "(i32.store (i32.const 128) (i32.const 0x7bff)) (call $put-own (i32.const 128) (i32.const 2)) (return (call $ok (i32.const 0) (i32.const 0)))"),
        "(unreachable)".to_owned(),
    ]
    .join("\n");
    let functions = ["store", "load", "fail", "spin", "raw", "sneak", "blob", "trap"];
    let mut guest = Guest::new("item", &functions, format!("(data (i32.const 1024) \"ABORTED\"){}", invoke(&body)));
    guest.read_only = vec!["load", "sneak"];
    guest
}

/// The same with `operator` instead of `item`, and another schema for the parameter.
pub fn item_as(operator: &'static str, schema: &'static str) -> Guest {
    Guest { operator, schema, ..item() }
}
