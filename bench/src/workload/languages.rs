//! Every workload's Rust app and Python app beside each other on one server: the same calls, one
//! after the other, must have the same replies and lead to the same state; and what the workload
//! promises must hold.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use futures_util::{SinkExt, StreamExt};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::{Call, Choice, Language, Workload};
use crate::process::{self, Process};

/// The workloads as they are compared: small, with every function in use.
pub const WORKLOADS: [&str; 7] = [
    "ycsb-t --accounts 100 --theta 0.9 --reads 20 --updates 20",
    "ycsb-t --accounts 100 --groups 5 --composite --reads 20 --updates 20",
    "ycsb-records --records 50 --theta 0.5",
    "tpcc --warehouses 2 --mix full --scale-down 100",
    "deathstar-movie --users 20 --titles 20",
    "deathstar-travel --capacity 2 --reservations 500",
    "shopping-cart --users 50 --stock 30 --credit 5000 --theta 0.5",
];

/// How the comparison runs.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/styx")]
    styx: PathBuf,
    /// Directory of the apps
    #[arg(long, default_value = "guests")]
    guests: PathBuf,
    /// Where compiled apps are kept, so that they are compiled once
    #[arg(long, default_value = "target/compiled-apps")]
    cache_dir: PathBuf,
    /// Calls to each workload's apps
    #[arg(long, default_value_t = 300)]
    calls: usize,
    /// Seed of the calls
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the comparison and prints one JSON line; an error means that the apps differ or break a promise.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let directory = tempfile::tempdir()?;
    let at = |path: &Path| path.to_string_lossy().into_owned();
    let (data, cache) = (at(directory.path()), at(&options.cache_dir));
    let free = "127.0.0.1:0";
    let flags = ["--ingress-addr", free, "--admin-addr", free, "--data-dir", &data, "--cache-dir", &cache];
    let server = runtime.block_on(Process::start(&options.styx, &flags.map(str::to_owned)))?;
    let (ingress, admin) = (server.ready("ingress"), server.ready("admin"));
    let mut deployed = BTreeSet::new();
    let (mut calls, mut aborted) = (0, 0);
    for line in WORKLOADS {
        let workload = workload(line)?;
        for language in Language::value_variants() {
            let guest = workload.guest(*language);
            if deployed.insert(guest) {
                process::deploy(&options.styx, admin, ingress, &options.guests.join(guest))?;
            }
        }
        runtime.block_on(same_functions(admin, &*workload))?;
        let pair = runtime.block_on(Pair::connect(ingress, &*workload))?;
        let mut compared = Comparison { workload: &*workload, runtime: &runtime, pair, calls: 0, aborted: 0 };
        compared.run(options).with_context(|| format!("{line}, seed {}", options.seed))?;
        println!(
            "  ✓ {line}: {} calls, {} of them aborted, the same in both languages",
            compared.calls, compared.aborted
        );
        (calls, aborted) = (calls + compared.calls, aborted + compared.aborted);
    }
    runtime.block_on(server.stop())?;
    println!(
        "{}",
        json!({"languages": 2, "workloads": WORKLOADS.len(), "calls": calls, "aborted": aborted, "seed": options.seed, "consistent": true})
    );
    Ok(())
}

/// The workload that a command line names.
pub fn workload(line: &str) -> anyhow::Result<Box<dyn Workload>> {
    Line::try_parse_from(line.split(' '))?.choice.workload()
}

/// A workload as it is given on a command line, without the program's name.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    choice: Choice,
}

/// Both apps must have the same functions, with parameters of the same names.
async fn same_functions(admin: &str, workload: &dyn Workload) -> anyhow::Result<()> {
    let [rust, python] = [workload.guest(Language::Rust), workload.guest(Language::Python)];
    let (rust, python) = (functions(admin, rust).await?, functions(admin, python).await?);
    let differs = rust.symmetric_difference(&python).next();
    ensure!(differs.is_none(), "only one language's app has {}", differs.map_or("", String::as_str));
    Ok(())
}

async fn functions(admin: &str, app: &str) -> anyhow::Result<BTreeSet<String>> {
    let described = process::admin_get(admin, &format!("/v1/apps/{app}")).await?;
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let mut functions = BTreeSet::new();
    for operator in list(&described, "operators") {
        for function in list(&operator, "functions") {
            let names: Vec<_> = list(&function, "parameters").iter().map(|each| each["name"].to_string()).collect();
            let reads = if function["read_only"] == true { "reads" } else { "writes" };
            let (operator, function) = (&operator["name"], &function["name"]);
            functions.insert(format!("{operator}.{function}({}), which {reads}", names.join(", ")));
        }
    }
    ensure!(!functions.is_empty(), "the server knows no functions of {app}");
    Ok(functions)
}

struct Comparison<'a> {
    workload: &'a dyn Workload,
    runtime: &'a tokio::runtime::Runtime,
    pair: Pair,
    calls: usize,
    aborted: usize,
}

impl Comparison<'_> {
    fn run(&mut self, options: &Options) -> anyhow::Result<()> {
        self.runtime.block_on(self.pair.fill(self.workload))?;
        let mut random = Pcg64Mcg::seed_from_u64(options.seed);
        for _ in 0..options.calls {
            let call = self.workload.next(&mut random);
            let reply = self.runtime.block_on(self.pair.same(&call))?;
            self.calls += 1;
            if let Err(Failure { code, message }) = reply {
                self.aborted += 1;
                ensure!(self.workload.expects(&code, &message), "{call:?} failed with {code}: {message}");
            }
        }
        // Whatever the checks read must be alike, too: together that is the whole state.
        let rust = self.check(|pair| &mut pair.rust)?;
        let python = self.check(|pair| &mut pair.python)?;
        for (rust, python) in rust.iter().zip(&python) {
            ensure!(rust == python, "the state differs: {rust} in Rust, {python} in Python");
        }
        ensure!(rust.len() == python.len(), "the apps do not hold equally much");
        Ok(())
    }

    /// Checks one app; returns what was read meanwhile.
    fn check(&mut self, app: fn(&mut Pair) -> &mut Client) -> anyhow::Result<Vec<Value>> {
        let (runtime, client) = (self.runtime, app(&mut self.pair));
        let mut seen = Vec::new();
        let checks = self.workload.check(&mut |call| {
            let reply = runtime.block_on(client.call(call))?;
            let reply =
                reply.map_err(|Failure { code, message }| anyhow::anyhow!("{call:?} failed with {code}: {message}"))?;
            let arguments: Value = serde_json::from_str(&call.arguments)?;
            seen.push(without_accidents(json!([call.operator, call.key, call.function, arguments, reply])));
            Ok(reply)
        });
        checks.into_iter().try_for_each(|check| check.result.context(check.name))?;
        Ok(seen)
    }
}

/// A connection for each language's app.
struct Pair {
    rust: Client,
    python: Client,
}

impl Pair {
    async fn connect(ingress: &str, workload: &dyn Workload) -> anyhow::Result<Pair> {
        let rust = Client::connect(ingress, workload.guest(Language::Rust)).await?;
        let python = Client::connect(ingress, workload.guest(Language::Python)).await?;
        Ok(Pair { rust, python })
    }

    async fn fill(&mut self, workload: &dyn Workload) -> anyhow::Result<()> {
        tokio::try_join!(self.rust.fill(workload), self.python.fill(workload))?;
        Ok(())
    }

    /// Makes a call in both languages; the replies must be the same.
    async fn same(&mut self, call: &Call) -> anyhow::Result<Result<Value, Failure>> {
        let (rust, python) = tokio::try_join!(self.rust.call(call), self.python.call(call))?;
        let (rust, python) = (rust.map(without_accidents), python.map(without_accidents));
        ensure!(rust == python, "{call:?} is answered by {rust:?} in Rust, by {python:?} in Python");
        Ok(rust)
    }
}

/// Why a call had no effect.
#[derive(Debug, PartialEq)]
struct Failure {
    code: String,
    message: String,
}

struct Client {
    app: &'static str,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client {
    async fn connect(ingress: &str, app: &'static str) -> anyhow::Result<Client> {
        let (socket, _) = connect_async(format!("ws://{ingress}/v1/ws")).await?;
        Ok(Client { app, socket })
    }

    /// Makes all calls that fill the app, many at once.
    async fn fill(&mut self, workload: &dyn Workload) -> anyhow::Result<()> {
        let mut calls = workload.fill().peekable();
        while calls.peek().is_some() {
            let mut sent = 0;
            for call in calls.by_ref().take(100) {
                self.send(&call).await?;
                sent += 1;
            }
            for _ in 0..sent {
                self.receive().await?.map_err(|Failure { code, message }| {
                    anyhow::anyhow!("{}: filling fails with {code}: {message}", self.app)
                })?;
            }
        }
        Ok(())
    }

    async fn call(&mut self, call: &Call) -> anyhow::Result<Result<Value, Failure>> {
        self.send(call).await?;
        self.receive().await
    }

    async fn send(&mut self, call: &Call) -> anyhow::Result<()> {
        let (app, Call { operator, key, function, arguments, .. }) = (self.app, call);
        let text = format!(
            r#"{{"id":0,"app":"{app}","operator":"{operator}","key":"{key}","function":"{function}","args":{arguments}}}"#
        );
        Ok(self.socket.send(Message::text(text)).await?)
    }

    async fn receive(&mut self) -> anyhow::Result<Result<Value, Failure>> {
        loop {
            let message = self.socket.next().await.context("the connection was closed")??;
            let Message::Text(text) = message else { continue };
            let mut answer: Value = serde_json::from_str(&text)?;
            let word = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
            return Ok(match answer.get("error") {
                Some(_) => Err(Failure { code: word("code"), message: word("message") }),
                None => Ok(answer["ok"].take()),
            });
        }
    }
}

/// Two apps' transactions have different ids and happen at different times: both are replaced by a word.
/// Times are in microseconds since 1970, far more than any other figure; ids are parts of keys.
fn without_accidents(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number > 1_000_000_000_000_000) => {
            return "time".into();
        }
        Value::String(text) if text.contains(":t") => {
            let is_id = |part: &&str| part.len() == 17 && part.starts_with('t');
            let parts: Vec<&str> = text.split(':').map(|part| if is_id(&part) { "id" } else { part }).collect();
            return parts.join(":").into();
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = without_accidents(value.take())),
        Value::Object(fields) => fields.values_mut().for_each(|value| *value = without_accidents(value.take())),
        _ => {}
    }
    value
}
