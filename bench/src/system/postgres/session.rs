//! A connection to the server, one call at a time.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use serde_json::Value;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use super::argument::Argument;
use crate::load::{self, End};
use crate::workload::Call;

const ATTEMPTS_MAX: u32 = 1000;

/// Operator, function, and how many parameters it has.
const FUNCTIONS: &str = "\
    select nspname::text, proname::text, pronargs::int from pg_proc join pg_namespace on pg_namespace.oid = pronamespace \
    where nspname not in ('pg_catalog', 'information_schema', 'public')";

/// Connects to the server whose socket is in a directory.
pub async fn connect(directory: &Path) -> anyhow::Result<Client> {
    let mut config = tokio_postgres::Config::new();
    // Who scans a table conflicts with whoever changes any of its rows, and of a small table it would be scanned.
    config.host_path(directory).user("styx").dbname("postgres").options("-c enable_seqscan=off");
    let (client, connection) = config.connect(NoTls).await?;
    // Ends with the client; what goes wrong, the client hears as well.
    tokio::spawn(connection);
    Ok(client)
}

/// A session with its statements, by `operator.function`.
pub struct Session {
    client: Client,
    statements: BTreeMap<String, Statement>,
}

impl Session {
    pub async fn open(directory: &Path) -> anyhow::Result<Session> {
        let client = connect(directory).await?;
        let mut statements = BTreeMap::new();
        for row in client.query(FUNCTIONS, &[]).await? {
            let (operator, function, count): (String, String, i32) = (row.get(0), row.get(1), row.get(2));
            let parameters: Vec<String> = (1..=count).map(|number| format!("${number}")).collect();
            let text = format!("select \"{operator}\".\"{function}\"({})::text", parameters.join(", "));
            let statement = client.prepare(&text).await.with_context(|| format!("preparing {operator}.{function}"))?;
            statements.insert(format!("{operator}.{function}"), statement);
        }
        Ok(Session { client, statements })
    }
}

impl load::Session for Session {
    async fn ask(&mut self, call: &Call) -> anyhow::Result<(End, u32)> {
        let name = format!("{}.{}", call.operator, call.function);
        let statement = self.statements.get(&name).with_context(|| format!("PostgreSQL has no function {name}"))?;
        let key = call.key.split(':').map(|part| Argument(Value::from(part)));
        let arguments: Vec<Argument> = serde_json::from_str(&call.arguments)?;
        let arguments: Vec<Argument> = key.chain(arguments).collect();
        let count = statement.params().len();
        ensure!(arguments.len() == count, "{name} of {:?} has {} arguments, not {count}", call.key, arguments.len());
        let arguments: Vec<&(dyn ToSql + Sync)> = arguments.iter().map(|argument| argument as _).collect();
        for retries in 0..ATTEMPTS_MAX {
            let error = match self.client.query_one(statement, &arguments).await {
                Ok(row) => return Ok((End::Done(result(row.get(0))), retries)),
                Err(error) => error,
            };
            let Some(refusal) = error.as_db_error() else { return Err(error.into()) };
            let code = refusal.code();
            if *code == SqlState::RAISE_EXCEPTION {
                return Ok((End::failed("ABORTED", refusal.message()), retries));
            }
            let again = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
            if !again.contains(&code) {
                bail!("PostgreSQL refused {name}: {}", refusal.message());
            }
        }
        Ok((End::failed("OVERLOADED", format!("not serialised in {ATTEMPTS_MAX} attempts")), ATTEMPTS_MAX))
    }
}

/// As JSON; a function that returns nothing gives an empty text.
fn result(text: Option<String>) -> Bytes {
    text.filter(|text| !text.is_empty()).map_or(Bytes::from_static(b"null"), Bytes::from)
}
