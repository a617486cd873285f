//! PostgreSQL as an app's database: each function that a workload calls is one of PL/pgSQL or SQL, called by
//! a prepared statement, serializable, over a Unix socket. What cannot be serialised is tried again
//! by the client, as PostgreSQL demands, and counted.

mod argument;
mod session;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::process::{Child, Command};
use tokio_postgres::Client;

use self::session::{Session, connect};
use super::usage::of_tree;
use super::{Figures, System};
use crate::load::{Connection, Pool};

/// Tables and functions.
const APPS: [&str; 2] = [include_str!("accounts.sql"), include_str!("tpcc.sql")];

/// How long the server may take to start: it writes its files first.
const START_MAX: Duration = Duration::from_secs(60);

/// A server with the apps' functions, and nothing in it.
pub struct Postgres {
    server: Child,
    directory: tempfile::TempDir,
    connections: usize,
}

impl Postgres {
    /// Starts a server in a directory of its own.
    pub async fn start(scripts: &Path, connections: usize) -> anyhow::Result<Postgres> {
        let directory = tempfile::tempdir()?;
        let script = scripts.join("postgres.sh");
        let log = std::fs::File::create(directory.path().join("server.log"))?;
        let server = Command::new(&script)
            .arg("start")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not start", script.display()))?;
        let mut started = Postgres { server, directory, connections };
        let client = started.ready().await?;
        for app in APPS {
            client.batch_execute(app).await.context("making tables and functions")?;
        }
        Ok(started)
    }

    async fn ready(&mut self) -> anyhow::Result<Client> {
        let started = Instant::now();
        loop {
            match connect(self.directory.path()).await {
                Ok(client) => return Ok(client),
                Err(error) => {
                    let ended = self.server.try_wait()?;
                    let said = std::fs::read_to_string(self.log()).unwrap_or_default();
                    let last = said.lines().last().unwrap_or_default().trim();
                    ensure!(ended.is_none(), "PostgreSQL does not start: {last}");
                    ensure!(started.elapsed() < START_MAX, "PostgreSQL cannot be reached: {error:#}: {last}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }
}

impl System for Postgres {
    fn open(&self, _results: bool) -> BoxFuture<'_, anyhow::Result<Vec<Box<dyn Connection>>>> {
        async move {
            let directory = self.directory.path();
            // As one does when tables have been filled: plans are made by what is in them.
            connect(directory).await?.batch_execute("analyze").await?;
            let mut sessions = Vec::new();
            for _ in 0..self.connections {
                sessions.push(Session::open(directory).await?);
            }
            Ok(vec![Box::new(Pool::new(sessions)) as Box<dyn Connection>])
        }
        .boxed()
    }

    fn figures(&self) -> BoxFuture<'_, anyhow::Result<Figures>> {
        let id = self.server.id();
        async move {
            let (cpu, rss_mb) = of_tree(id.context("the server has ended")?);
            Ok(Figures { cpu: Some(cpu), rss_mb, ..Figures::default() })
        }
        .boxed()
    }

    fn stop(mut self: Box<Self>) -> BoxFuture<'static, anyhow::Result<()>> {
        async move {
            let id = self.server.id().context("PostgreSQL has ended by itself")?;
            // SAFETY: sends a signal to a child that has not been waited for, so the id is still its own.
            unsafe { libc::kill(id as libc::pid_t, libc::SIGINT) };
            let ended = tokio::time::timeout(Duration::from_secs(30), self.server.wait()).await;
            ended.context("PostgreSQL does not stop")??;
            Ok(())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;
    use serde_json::Value;

    use super::APPS;
    use crate::workload::languages;

    #[test]
    fn each_call_has_a_function_with_as_many_parameters() {
        let functions = APPS.concat().replace('"', "");
        for line in ["ycsb-t --accounts 2", "tpcc --mix full --scale-down 1000"] {
            let workload = languages::workload(line).unwrap();
            let mut random = Pcg64Mcg::seed_from_u64(1);
            let calls: Vec<_> = (0..500).map(|_| workload.next(&mut random)).collect();
            for call in workload.fill().chain(calls) {
                let begin = format!("create function {}.{}(", call.operator, call.function);
                let (_, rest) = functions.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
                let parameters = rest.split_once(')').unwrap().0.split(',').count();
                let arguments: Vec<Value> = serde_json::from_str(&call.arguments).unwrap();
                assert_eq!(parameters, call.key.split(':').count() + arguments.len(), "{call:?}");
            }
        }
    }
}
