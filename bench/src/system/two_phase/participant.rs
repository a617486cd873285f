//! The service of a part of the accounts: prepares, commits and aborts steps under locks that are
//! held from the one to the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::journal::Journal;
use super::{Refusal, Step};

#[derive(Default)]
struct Account {
    balance: i64,
    /// Whose step is prepared, and what it will leave.
    prepared: Option<(u64, i64)>,
}

struct Accounts {
    accounts: Mutex<BTreeMap<u64, Account>>,
    journal: Journal,
}

pub(super) fn router(journal: Journal) -> Router {
    Router::new()
        .route("/prepare", post(prepare))
        .route("/decide/{decision}", post(decide))
        .route("/insert/{account}/{balance}", post(insert))
        .route("/read/{account}", post(read))
        .route("/sum", post(sum))
        .with_state(Arc::new(Accounts { accounts: Mutex::default(), journal }))
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the lock and says what the balance would be.
async fn prepare(State(services): State<Arc<Accounts>>, Json(step): Json<Step>) -> Result<Json<i64>, Refusal> {
    let balance = {
        let mut accounts = services.lock();
        let Some(account) = accounts.get_mut(&step.account) else {
            return Err(Refusal::Aborted(format!("there is no account {}", step.account)));
        };
        if account.prepared.is_some() {
            return Err(Refusal::Conflict);
        }
        let balance = account.balance + step.amount;
        if balance < 0 {
            return Err(Refusal::Aborted(format!("account {} has nothing left", step.account)));
        }
        account.prepared = Some((step.transaction, balance));
        balance
    };
    services.journal.append(&json!({ "prepared": step })).await?;
    Ok(Json(balance))
}

/// Commits a step that is prepared, or aborts it.
async fn decide(
    State(services): State<Arc<Accounts>>,
    Path(decision): Path<String>,
    Json(step): Json<Step>,
) -> Result<(), Refusal> {
    services.journal.note(&json!({ &decision: step.transaction }))?;
    if let Some(account) = services.lock().get_mut(&step.account)
        && let Some((_, balance)) = account.prepared.take_if(|(of, _)| *of == step.transaction)
        && decision == "commit"
    {
        account.balance = balance;
    }
    Ok(())
}

async fn insert(
    State(services): State<Arc<Accounts>>,
    Path((account, balance)): Path<(u64, i64)>,
) -> Result<(), Refusal> {
    services.journal.append(&json!({ "inserted": [account, balance] })).await?;
    services.lock().insert(account, Account { balance, prepared: None });
    Ok(())
}

async fn read(State(services): State<Arc<Accounts>>, Path(account): Path<u64>) -> Result<Json<i64>, Refusal> {
    match services.lock().get(&account) {
        None => Err(Refusal::Aborted(format!("there is no account {account}"))),
        Some(Account { prepared: Some(_), .. }) => Err(Refusal::Conflict),
        Some(Account { balance, .. }) => Ok(Json(*balance)),
    }
}

/// How many accounts there are, and what they hold.
async fn sum(State(services): State<Arc<Accounts>>) -> Result<Json<Value>, Refusal> {
    let accounts = services.lock();
    if accounts.values().any(|account| account.prepared.is_some()) {
        return Err(Refusal::Conflict);
    }
    let sum: i64 = accounts.values().map(|account| account.balance).sum();
    Ok(Json(json!([accounts.len(), sum])))
}
