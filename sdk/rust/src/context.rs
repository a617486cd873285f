//! What a function knows and may do: its key, its operator's state, calls, time and chance.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::arguments::Arguments;
use crate::state::State;
use crate::{Abort, Result, host};

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever looks for a fault.
    Debug,
    /// Of interest in normal running.
    Info,
    /// Odd, but dealt with.
    Warn,
    /// Something that a person should look at.
    Error,
}

/// The invocation: first parameter of every function.
///
/// `&mut Context` for functions that write; a function declared `read_only` takes
/// `&Context`, through which nothing can be written.
pub struct Context {
    /// The entities of the function's own operator.
    pub state: State,
    /// In a component it lies where the host has put it.
    key: Cow<'static, str>,
}

impl Context {
    pub(crate) fn new(key: impl Into<Cow<'static, str>>) -> Self {
        Self { state: State::new(), key: key.into() }
    }

    /// Key of the entity for which the function runs.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Runs a function of any operator of the app, whatever its language, inside
    /// this transaction and returns its result. One of another app is named
    /// `app/operator`.
    ///
    /// ```ignore
    /// let cost: u64 = ctx.call("stock", "apple", "take", (2,))?;
    /// ```
    ///
    /// A failure dooms the whole transaction: [`Abort::context`] may add to its
    /// message, but ignoring it saves nothing.
    pub fn call<R: DeserializeOwned>(
        &self,
        operator: &str,
        key: &str,
        function: &str,
        arguments: impl Arguments,
    ) -> Result<R> {
        let reply = self.call_raw(operator, key, function, &arguments.encode()?)?;
        serde_json::from_slice(&reply)
            .map_err(|error| Abort::bug(format_args!("result of {operator}.{function}: {error}")))
    }

    /// [`Context::call`] with the arguments and the result as bytes (JSON, unless both sides agree otherwise).
    pub fn call_raw(&self, operator: &str, key: &str, function: &str, arguments: &[u8]) -> Result<Vec<u8>> {
        host::call(operator, key, function, arguments)
    }

    /// Has a function run after this one has returned, in the order issued and
    /// depth first, inside the same transaction. Its result is dropped; its
    /// failure aborts the transaction.
    pub fn call_async(&self, operator: &str, key: &str, function: &str, arguments: impl Arguments) -> Result<()> {
        host::call_async(operator, key, function, &arguments.encode()?);
        Ok(())
    }

    /// When the transaction was sequenced, since 1970-01-01T00:00Z. The same in every replay.
    pub fn time(&self) -> Duration {
        Duration::from_micros(host::time_us())
    }

    /// The next number of this invocation's generator, uniform over all of `u64`.
    pub fn random(&self) -> u64 {
        host::random()
    }

    /// A random number in `0..bound`, without bias; 0 for a bound of 0.
    pub fn random_below(&self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // Numbers past the last full multiple of `bound` would favour the low ones.
        let rejected = (u64::MAX % bound + 1) % bound;
        loop {
            let number = self.random();
            if number <= u64::MAX - rejected {
                return number % bound;
            }
        }
    }

    /// A random number in `0.0..1.0`, with 53 bits.
    pub fn random_fraction(&self) -> f64 {
        (self.random() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The transaction's id: its rank in the sequence.
    pub fn tid(&self) -> u64 {
        host::tid()
    }

    /// Id of the request, as the client knows it.
    pub fn request_id(&self) -> String {
        host::request_id()
    }

    /// Name of the app.
    pub fn app(&self) -> String {
        host::app()
    }

    /// Name of the operator.
    pub fn operator(&self) -> String {
        host::operator()
    }

    /// Writes a log line, shown once, for the attempt that counted:
    /// `ctx.log(Level::Info, format_args!("{} left", item.stock))`.
    pub fn log(&self, level: Level, message: impl fmt::Display) {
        host::log(level, &message.to_string());
    }
}
