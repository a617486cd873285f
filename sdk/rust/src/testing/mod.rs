//! A host in memory, for a guest's own `cargo test`: no server, no component.
//!
//! ```
//! # use styx_sdk::prelude::*;
//! # struct Counter;
//! # #[operator] impl Counter {
//! #     pub fn add(ctx: &mut Context, n: u64) -> Result<u64> {
//! #         let sum = ctx.state.get::<u64>()?.unwrap_or(0) + n;
//! #         ctx.state.put(&sum)?;
//! #         Ok(sum)
//! #     }
//! # }
//! use styx_sdk::testing::App;
//!
//! let mut app = App::new().with::<Counter>();
//! assert_eq!(app.call::<u64>("counter", "clicks", "add", (2,)).unwrap(), 2);
//! assert_eq!(app.state::<u64>("counter", "clicks").unwrap(), Some(2));
//! ```
//!
//! Each [`App::call`] is one transaction: its writes stay if it succeeds and are
//! gone if it does not. Transactions run one after another, which is what the real
//! system makes it look like. Limits (fuel, memory, call depth) are not enforced here.

mod run;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Abort, Arguments, Context, Level, Operator, OperatorDescription, Result};
pub(crate) use run::{APP, Run};

type Invoke = fn(&str, &mut Context, &[u8]) -> Result<Vec<u8>>;
type States = BTreeMap<(String, String), Vec<u8>>;

/// An operator that the app under test knows.
#[derive(Clone, Copy)]
pub(crate) struct Registered {
    /// Of another app than the one under test.
    app: Option<&'static str>,
    name: &'static str,
    invoke: Invoke,
    describe: fn() -> OperatorDescription,
}

/// An app under test: operators and the state of their entities.
#[derive(Default)]
pub struct App {
    operators: Vec<Registered>,
    states: States,
    logs: Vec<(Level, String)>,
    time_us: u64,
    tid: u64,
}

thread_local! {
    /// The transaction that runs on this thread. Never borrowed while guest code runs.
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

impl App {
    /// An app without operators; time stands at 2026-01-01.
    pub fn new() -> Self {
        Self { time_us: 1_767_225_600_000_000, ..Self::default() }
    }

    /// Adds an operator.
    #[must_use]
    pub fn with<O: Operator>(self) -> Self {
        self.with_registered::<O>(None)
    }

    /// Adds an operator of another app, or one that plays its part. It is called `app/operator`, here too.
    ///
    /// ```
    /// # use styx_sdk::prelude::*;
    /// # struct Account;
    /// # #[operator] impl Account { pub fn charge(_ctx: &mut Context, cents: u64) -> u64 { cents } }
    /// # struct Order;
    /// # #[operator] impl Order {
    /// #     pub fn pay(ctx: &mut Context) -> Result<u64> { ctx.call("billing/account", "ann", "charge", (5,)) }
    /// # }
    /// # use styx_sdk::testing::App;
    /// let mut app = App::new().with::<Order>().with_other::<Account>("billing");
    /// assert_eq!(app.call::<u64>("order", "o", "pay", ()).unwrap(), 5);
    /// ```
    #[must_use]
    pub fn with_other<O: Operator>(self, app: &'static str) -> Self {
        self.with_registered::<O>(Some(app))
    }

    fn with_registered<O: Operator>(mut self, app: Option<&'static str>) -> Self {
        self.operators.push(Registered { app, name: O::NAME, invoke: O::invoke, describe: O::describe });
        self
    }

    /// Runs a function as one transaction.
    pub fn call<R: DeserializeOwned>(
        &mut self,
        operator: &str,
        key: &str,
        function: &str,
        arguments: impl Arguments,
    ) -> Result<R> {
        let reply = self.call_raw(operator, key, function, &arguments.encode()?)?;
        Ok(serde_json::from_slice(&reply)?)
    }

    /// [`App::call`] with arguments and result as JSON text.
    pub fn call_raw(&mut self, operator: &str, key: &str, function: &str, arguments: &[u8]) -> Result<Vec<u8>> {
        self.tid += 1;
        let run = Run::new(self.operators.clone(), std::mem::take(&mut self.states), self.time_us, self.tid);
        let nested = RUN.with_borrow_mut(|slot| slot.replace(run));
        assert!(nested.is_none(), "a function of the app calls App::call; use ctx.call");
        let result = call(operator, key, function, arguments);
        let run = RUN.with_borrow_mut(Option::take).expect("the transaction is still there");
        let (states, logs, doomed) = run.finish(result.is_ok());
        self.states = states;
        self.logs.extend(logs);
        match doomed {
            Some(abort) if result.is_ok() => Err(abort),
            _ => result,
        }
    }

    /// Makes calls, one after the other: operator, key, function, arguments as JSON text, and what must come of it, a
    /// reply as JSON text or `CODE: message`.
    ///
    /// # Panics
    /// Something else comes of one.
    #[track_caller]
    pub fn check(&mut self, calls: &[(&str, &str, &str, &str, &str)]) {
        for (operator, key, function, arguments, expected) in calls {
            let end = match self.call_raw(operator, key, function, arguments.as_bytes()) {
                Ok(reply) => String::from_utf8_lossy(&reply).into_owned(),
                Err(abort) => format!("{abort:?}"),
            };
            assert_eq!(end, *expected, "{operator}/{key}.{function}{arguments}");
        }
    }

    /// State of an entity.
    pub fn state<T: DeserializeOwned>(&self, operator: &str, key: &str) -> Result<Option<T>> {
        let value = self.states.get(&(operator.to_owned(), key.to_owned()));
        value.map(|bytes| serde_json::from_slice(bytes).map_err(Abort::from)).transpose()
    }

    /// State of an entity as bytes.
    pub fn state_raw(&self, operator: &str, key: &str) -> Option<&[u8]> {
        self.states.get(&(operator.to_owned(), key.to_owned())).map(Vec::as_slice)
    }

    /// Sets the state of an entity without a transaction.
    pub fn set_state<T: Serialize>(&mut self, operator: &str, key: &str, value: &T) -> Result<()> {
        self.states.insert((operator.to_owned(), key.to_owned()), serde_json::to_vec(value)?);
        Ok(())
    }

    /// Sets the time of the transactions to come, in microseconds since 1970-01-01T00:00Z.
    pub fn set_time_us(&mut self, time_us: u64) {
        self.time_us = time_us;
    }

    /// Log lines of all transactions so far, also of those that aborted.
    pub fn logs(&self) -> &[(Level, String)] {
        &self.logs
    }

    /// What the app would describe at upload.
    pub fn describe(&self) -> Vec<OperatorDescription> {
        self.operators.iter().filter(|operator| operator.app.is_none()).map(|operator| (operator.describe)()).collect()
    }
}

/// Does something with the running transaction.
///
/// # Panics
/// Outside of a transaction, because a function was called directly.
pub(crate) fn running<R>(does: impl FnOnce(&mut Run) -> R) -> R {
    RUN.with_borrow_mut(|run| {
        does(run.as_mut().expect("no transaction is running: call functions through styx_sdk::testing::App"))
    })
}

/// Runs a function of the running transaction, then what it called asynchronously.
pub(crate) fn call(operator: &str, key: &str, function: &str, arguments: &[u8]) -> Result<Vec<u8>> {
    let (read_only, operator) = running(|run| (run.is_read_only(), run.qualified(operator)));
    call_from(read_only, &operator, key, function, arguments)
}

/// [`call`], for a caller that may already have returned, of an operator as it is known here.
fn call_from(read_only: bool, operator: &str, key: &str, function: &str, arguments: &[u8]) -> Result<Vec<u8>> {
    let result = match running(|run| run.enter(operator, key, function, read_only)) {
        Err(abort) => Err(running(|run| run.called_nobody(abort))),
        Ok(invoke) => {
            let mut context = Context::new(key.to_owned());
            let returned = catch_unwind(AssertUnwindSafe(|| invoke(function, &mut context, arguments)));
            let later = running(Run::leave);
            match returned {
                Err(panic) => Err(Abort::with_code("GUEST_TRAP", run::panic_message(&*panic))),
                Ok(Err(abort)) => Err(running(|run| run.own_fault(abort, operator, key, function))),
                Ok(Ok(reply)) => later
                    .into_iter()
                    .try_for_each(|next| {
                        call_from(next.read_only, &next.operator, &next.key, &next.function, &next.arguments).map(drop)
                    })
                    .map(|()| reply),
            }
        }
    };
    // A failure cannot be undone by a caller that ignores it. What a function may
    // not do at all comes to light when it returns.
    match (result, running(|run| run.doomed.clone())) {
        (Ok(_), Some(abort)) => Err(abort),
        (Err(abort), None) => {
            running(|run| run.doomed = Some(abort.clone()));
            Err(abort)
        }
        (result, _) => result,
    }
}
