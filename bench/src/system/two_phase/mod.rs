//! The baseline that a team without a transactional runtime builds: a service for every part of the accounts, a
//! coordinator in front, two-phase commit over HTTP between them. Locks are not waited for: who
//! meets one aborts, and the client tries again. Everything that the protocol says must be on disk
//! is, many records per fsync.
//!
//! It measures the way without failures: the logs are written as a recovery needs them, and there is
//! no recovery.

mod coordinator;
mod journal;
mod participant;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use super::http::Exchange;
use super::usage::of_tree;
use super::{Figures, System};
use crate::load::{Connection, End, Pool, Session};
use crate::workload::Call;

/// One service of the baseline; started by the baseline itself.
#[derive(Debug, clap::Args)]
pub struct Member {
    /// Where its log is
    #[arg(long)]
    directory: PathBuf,
    /// The services of the accounts, if this is the coordinator
    #[arg(long, value_delimiter = ',')]
    participants: Vec<String>,
}

/// A participant's change of one account.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Step {
    transaction: u64,
    account: u64,
    /// The amount that is added to its balance.
    amount: i64,
}

/// Why there is no result.
#[derive(Debug)]
enum Refusal {
    /// Somebody else has a lock: try again.
    Conflict,
    Aborted(String),
    /// The service does not work.
    Broken(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Refusal::Conflict => StatusCode::CONFLICT.into_response(),
            Refusal::Aborted(message) => (StatusCode::UNPROCESSABLE_ENTITY, message).into_response(),
            Refusal::Broken(message) => (StatusCode::INTERNAL_SERVER_ERROR, message).into_response(),
        }
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Refusal::Broken(format!("the log cannot be written: {error}"))
    }
}

/// Runs one service, until whoever started it is gone.
pub fn run_member(member: &Member) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        std::fs::create_dir_all(&member.directory)?;
        let journal = journal::Journal::create(&member.directory.join("log"))?;
        let router = if member.participants.is_empty() {
            participant::router(journal)
        } else {
            coordinator::router(journal, member.participants.clone())
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", json!({ "ready": true, "address": listener.local_addr()?.to_string() }));
        tokio::select! {
            served = axum::serve(listener, router).into_future() => served?,
            // Ends when whoever holds the other end of the pipe has ended.
            ended = async { tokio::io::stdin().read_to_end(&mut Vec::new()).await } => drop(ended?),
        }
        anyhow::Ok(())
    })?;
    // The reader of standard input may not have noticed yet.
    std::process::exit(0);
}

/// A running service; ends with this value.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    async fn start(directory: &Path, participants: &[String]) -> anyhow::Result<Service> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("two-phase-member").arg("--directory").arg(directory);
        if !participants.is_empty() {
            command.args(["--participants", &participants.join(",")]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("standard output is piped")?).lines();
        let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await;
        let line = line.context("a service is not ready after half a minute")??.context("a service has ended")?;
        let ready: Value = serde_json::from_str(&line)?;
        let address = ready["address"].as_str().context("a service says where it is")?.to_owned();
        Ok(Service { child, address })
    }
}

/// A coordinator and the services of the accounts.
pub struct TwoPhase {
    coordinator: Service,
    participants: Vec<Service>,
    connections: usize,
    _directory: tempfile::TempDir,
}

const PARTICIPANTS: usize = 2;

impl TwoPhase {
    pub async fn start(connections: usize) -> anyhow::Result<TwoPhase> {
        let directory = tempfile::tempdir()?;
        let mut participants = Vec::new();
        for number in 0..PARTICIPANTS {
            participants.push(Service::start(&directory.path().join(number.to_string()), &[]).await?);
        }
        let addresses: Vec<String> = participants.iter().map(|service| service.address.clone()).collect();
        let coordinator = Service::start(&directory.path().join("coordinator"), &addresses).await?;
        Ok(TwoPhase { coordinator, participants, connections, _directory: directory })
    }
}

impl System for TwoPhase {
    fn open(&self, _results: bool) -> BoxFuture<'_, anyhow::Result<Vec<Box<dyn Connection>>>> {
        async move {
            let mut sessions = Vec::new();
            for _ in 0..self.connections {
                sessions.push(Client(Exchange::open(&self.coordinator.address).await?));
            }
            Ok(vec![Box::new(Pool::new(sessions)) as Box<dyn Connection>])
        }
        .boxed()
    }

    fn figures(&self) -> BoxFuture<'_, anyhow::Result<Figures>> {
        async move {
            let mut figures = Figures { cpu: Some(Duration::ZERO), ..Figures::default() };
            for service in self.participants.iter().chain([&self.coordinator]) {
                let (cpu, rss_mb) = of_tree(service.child.id().context("a service has ended by itself")?);
                figures.cpu = figures.cpu.map(|sum| sum + cpu);
                figures.rss_mb += rss_mb;
            }
            Ok(figures)
        }
        .boxed()
    }

    fn stop(mut self: Box<Self>) -> BoxFuture<'static, anyhow::Result<()>> {
        async move {
            self.coordinator.child.kill().await?;
            for service in &mut self.participants {
                service.child.kill().await?;
            }
            Ok(())
        }
        .boxed()
    }
}

/// A connection to the coordinator.
struct Client(Exchange);

const ATTEMPTS_MAX: u32 = 1000;

impl Session for Client {
    async fn ask(&mut self, call: &Call) -> anyhow::Result<(End, u32)> {
        ensure!(
            ["insert", "read", "update", "sum", "transfer"].contains(&call.function),
            "the services have no function {}.{}",
            call.operator,
            call.function
        );
        for retries in 0..ATTEMPTS_MAX {
            let path = format!("/{}/{}", call.key, call.function);
            let (status, body) = self.0.post(&path, &call.arguments).await?;
            let text = || String::from_utf8_lossy(&body).into_owned();
            match status {
                StatusCode::OK => return Ok((End::Done(body), retries)),
                StatusCode::UNPROCESSABLE_ENTITY => return Ok((End::failed("ABORTED", text()), retries)),
                StatusCode::CONFLICT => {
                    // Longer the more often it failed, and never in step with others.
                    let most = 1 << retries.min(6);
                    let pause = rand::rng().random_range(0..=most * 100u64);
                    tokio::time::sleep(Duration::from_micros(pause)).await;
                }
                _ => anyhow::bail!("a service answered {status}: {}", text()),
            }
        }
        Ok((End::failed("OVERLOADED", format!("no lock in {ATTEMPTS_MAX} attempts")), ATTEMPTS_MAX))
    }
}
