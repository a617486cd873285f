//! The accounts of YCSB-T as host code: what the same transactions cost without WebAssembly, the
//! upper limit of any guest. Same functions, same state, same replies as the guest in Rust.

use std::ops::Bound;
use std::sync::Arc;

use serde::Deserialize;
use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Attempt, Execution, Functions, Overlay, Reader, call, run};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::{Key, Value};
use styx_protocol::executor::Executor;
use styx_protocol::state::State;
use styx_protocol::task::{LocalView, LongTask, Started, Task, TaskExecutor, TaskProgress};
use styx_protocol::transaction::Transaction;

/// Runs the accounts' functions on the thread that owns it, in a process that is all of the system.
pub struct Native;

impl Executor for Native {
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution {
        through(Attempt::begin(transaction.clone(), state.clone(), catalog.clone())).0
    }

    fn fall_back(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        overlay: Box<Overlay>,
        cached: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>) {
        let attempt = Attempt::begin(transaction.clone(), state.clone(), catalog.clone());
        let (execution, overlay) = through(attempt.fall_back(overlay, cached.clone()));
        (execution, overlay.expect("an attempt of the fallback has an overlay"))
    }

    fn run_long(&mut self, _: &LongTask, _: Box<dyn Reader>) -> Execution {
        unreachable!("native code is never postponed")
    }
}

fn through(attempt: Attempt) -> (Execution, Option<Box<Overlay>>) {
    let mut account = Account(Box::new(attempt));
    let outcome = run(&mut account);
    account.0.finish(outcome)
}

impl TaskExecutor for Native {
    fn start(&mut self, _: &Transaction, _: &Arc<State>, _: &Arc<Catalog>, _: &LocalView) -> Started {
        unreachable!("one process is all of it")
    }
    fn advance(&mut self, _: Task) -> TaskProgress {
        unreachable!("one process is all of it")
    }
    fn forget(&mut self) {}
}

struct Account(Box<Attempt>);

impl Functions for Account {
    fn attempt(&mut self) -> &mut Attempt {
        &mut self.0
    }

    fn invoke(&mut self) -> Result<Value, Abort> {
        let frame = self.0.frame();
        let (key, args, function) = (frame.entity.key().clone(), frame.args.clone(), frame.function);
        let operator = self.0.operator().clone();
        match &*operator.function(function).name {
            "insert" => {
                let [balance] = arguments(&args)?;
                self.store(balance);
                Ok(Value::from(&b"null"[..]))
            }
            "read" => self.load(&key).map(number),
            "update" => self.add(&key).map(number),
            "credit" => self.add(&key).map(|_| Value::from(&b"null"[..])),
            "transfer" => self.transfer(&key, &args),
            "sum" => self.sum(&args),
            other => Err(refused(format!("the accounts in host code have no function {other}"))),
        }
    }
}

impl Account {
    fn transfer(&mut self, key: &str, args: &[u8]) -> Result<Value, Abort> {
        let [to]: [&str; 1] = arguments(args)?;
        if to == key {
            return Err(refused("a transfer needs two accounts".into()));
        }
        let balance = self.load(key)?;
        call(self, "account", to, "credit", b"[]")?;
        if balance <= 0 {
            return Err(refused(format!("account {key} has nothing left")));
        }
        self.store(balance - 1);
        Ok(number(balance - 1))
    }

    fn add(&mut self, key: &str) -> Result<i64, Abort> {
        let Some(balance) = self.load(key)?.checked_add(1) else {
            return Err(refused(format!("account {key} is full")));
        };
        self.store(balance);
        Ok(balance)
    }

    /// Accounts and balances of one page, and its last key.
    fn sum(&mut self, args: &[u8]) -> Result<Value, Abort> {
        let (after, limit): (Option<&str>, u32) = arguments(args)?;
        let lower = after.map_or(Bound::Unbounded, |after| Bound::Excluded(Key::from(after)));
        let entries = self.0.scan("", lower, Bound::Unbounded, limit, false).here();
        let mut sum = 0;
        for (key, value) in &entries {
            sum += balance(key, value)?;
        }
        let last = entries.last().filter(|_| entries.len() == limit as usize).map(|(key, _)| &**key);
        Ok(Value::from(serde_json::json!([entries.len(), sum, last]).to_string().as_bytes()))
    }

    fn load(&mut self, key: &str) -> Result<i64, Abort> {
        match self.0.get_own() {
            Some(value) => balance(key, &value),
            None => Err(refused(format!("there is no account {key}"))),
        }
    }

    fn store(&mut self, balance: i64) {
        self.0.put_own(&balance.to_le_bytes());
    }
}

fn balance(key: &str, value: &[u8]) -> Result<i64, Abort> {
    let bytes = value.try_into().map_err(|_| refused(format!("account {key} does not hold a balance")))?;
    Ok(i64::from_le_bytes(bytes))
}

fn arguments<'a, T: Deserialize<'a>>(args: &'a [u8]) -> Result<T, Abort> {
    serde_json::from_slice(args).map_err(|error| refused(format!("the arguments do not fit: {error}")))
}

fn number(number: i64) -> Value {
    Value::from(number.to_string().as_bytes())
}

fn refused(message: String) -> Abort {
    Abort::new(Code::Aborted, message)
}
