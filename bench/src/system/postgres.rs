//! PostgreSQL as the accounts' database: each function of the workload is one of PL/pgSQL, called by
//! a prepared statement, serializable, over a Unix socket. What cannot be serialised is tried again
//! by the client, as PostgreSQL demands, and counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, Statement};

use super::usage::of_tree;
use super::{Figures, System};
use crate::load::{Connection, End, Pool, Session};
use crate::workload::Call;

/// The accounts. Half of each page is left free, so that updates need not touch the index.
const SCHEMA: &str = r"
create table account (id bigint primary key, balance bigint not null) with (fillfactor = 50);

create function insert_account(account_id bigint, amount bigint) returns bigint language sql as $$
  insert into account values (account_id, amount)
  on conflict (id) do update set balance = excluded.balance returning balance
$$;

create function read_account(account_id bigint) returns bigint language plpgsql stable as $$
declare own bigint;
begin
  select balance into own from account where id = account_id;
  if not found then raise exception 'there is no account %', account_id; end if;
  return own;
end $$;

create function update_account(account_id bigint) returns bigint language plpgsql as $$
declare own bigint;
begin
  update account set balance = balance + 1 where id = account_id returning balance into own;
  if not found then raise exception 'there is no account %', account_id; end if;
  return own;
end $$;

create function transfer(from_id bigint, to_id bigint) returns bigint language plpgsql as $$
declare own bigint;
begin
  if from_id = to_id then raise exception 'a transfer needs two accounts'; end if;
  update account set balance = balance - 1 where id = from_id returning balance into own;
  if not found then raise exception 'there is no account %', from_id; end if;
  if own < 0 then raise exception 'account % has nothing left', from_id; end if;
  update account set balance = balance + 1 where id = to_id;
  if not found then raise exception 'there is no account %', to_id; end if;
  return own;
end $$;
";

/// What each function is called by; the last gives accounts and balances of one page, and its last id.
const STATEMENTS: [(&str, &str); 5] = [
    ("insert", "select insert_account($1, $2)"),
    ("read", "select read_account($1)"),
    ("update", "select update_account($1)"),
    ("transfer", "select transfer($1, $2)"),
    (
        "sum",
        "select count(*), coalesce(sum(balance), 0)::bigint, max(id) from \
         (select id, balance from account where id > $1 order by id limit $2) as page",
    ),
];

/// How long the server may take to start: it writes its files first.
const START_MAX: Duration = Duration::from_secs(60);

const ATTEMPTS_MAX: u32 = 1000;

/// A server with the accounts' functions, and nothing in it.
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
        client.batch_execute(SCHEMA).await.context("making the table and its functions")?;
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

/// Connects to the server whose socket is in a directory.
async fn connect(directory: &Path) -> anyhow::Result<Client> {
    let mut config = tokio_postgres::Config::new();
    config.host_path(directory).user("styx").dbname("postgres");
    let (client, connection) = config.connect(NoTls).await?;
    // Ends with the client; what goes wrong, the client hears as well.
    tokio::spawn(connection);
    Ok(client)
}

impl System for Postgres {
    fn open(&self, _results: bool) -> BoxFuture<'_, anyhow::Result<Vec<Box<dyn Connection>>>> {
        async move {
            let mut sessions = Vec::new();
            for _ in 0..self.connections {
                sessions.push(Prepared::new(connect(self.directory.path()).await?).await?);
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

/// A session with its statements, by function.
struct Prepared {
    client: Client,
    statements: BTreeMap<&'static str, Statement>,
}

impl Prepared {
    async fn new(client: Client) -> anyhow::Result<Prepared> {
        let mut statements = BTreeMap::new();
        for (function, text) in STATEMENTS {
            statements.insert(function, client.prepare(text).await?);
        }
        Ok(Prepared { client, statements })
    }

    /// One attempt: the result as JSON.
    async fn attempt(&self, call: &Call, id: i64, arguments: &[Value]) -> Result<Value, tokio_postgres::Error> {
        let whole = |at: usize| -> i64 {
            let argument = arguments.get(at);
            argument.and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok())).unwrap_or(-1)
        };
        let statement = &self.statements[call.function];
        let row = match call.function {
            "read" | "update" => self.client.query_one(statement, &[&id]).await?,
            "sum" => {
                let limit = whole(1);
                let row = self.client.query_one(statement, &[&whole(0), &limit]).await?;
                let (count, sum, last): (i64, i64, Option<i64>) = (row.get(0), row.get(1), row.get(2));
                let last = last.filter(|_| count == limit).map(|last| last.to_string());
                return Ok(json!([count, sum, last]));
            }
            _ => self.client.query_one(statement, &[&id, &whole(0)]).await?,
        };
        Ok(json!(row.get::<_, i64>(0)))
    }
}

impl Session for Prepared {
    async fn ask(&mut self, call: &Call) -> anyhow::Result<(End, u32)> {
        ensure!(
            self.statements.contains_key(call.function),
            "PostgreSQL has no function {}.{}",
            call.operator,
            call.function
        );
        let id: i64 = call.key.parse().context("accounts are numbers")?;
        let arguments: Vec<Value> = serde_json::from_str(&call.arguments)?;
        for retries in 0..ATTEMPTS_MAX {
            let error = match self.attempt(call, id, &arguments).await {
                Ok(result) => return Ok((End::Done(Bytes::from(result.to_string())), retries)),
                Err(error) => error,
            };
            let Some(refusal) = error.as_db_error() else { return Err(error.into()) };
            let code = refusal.code();
            if *code == SqlState::RAISE_EXCEPTION {
                return Ok((End::failed("ABORTED", refusal.message()), retries));
            }
            let again = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
            if !again.contains(&code) {
                bail!("PostgreSQL refused {}: {}", call.function, refusal.message());
            }
        }
        Ok((End::failed("OVERLOADED", format!("not serialised in {ATTEMPTS_MAX} attempts")), ATTEMPTS_MAX))
    }
}
