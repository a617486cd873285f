//! Runs toy programs through the protocol's attempts.

use std::ops::Bound;
use std::sync::Arc;

use styx_protocol::abort::Abort;
use styx_protocol::attempt::{Attempt, Execution, Functions, Overlay, call, run};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Value;
use styx_protocol::fallback::Executor;
use styx_protocol::state::State;
use styx_protocol::transaction::Transaction;

use super::{World, interpret, keys};

/// An executor; one per thread.
#[derive(Debug, Default)]
pub struct Toy {
    attempt: Option<Attempt>,
}

/// The number that a value stands for.
fn number(value: &Value) -> u64 {
    u64::from_le_bytes(value[..].try_into().expect("toy values have eight bytes"))
}

impl World for Toy {
    fn get(&mut self, key: &str) -> Option<u64> {
        self.attempt().get(key).here().as_ref().map(number)
    }

    fn put(&mut self, key: &str, value: Option<u64>) -> Result<(), Abort> {
        match value {
            Some(value) => self.attempt().put(key, &value.to_le_bytes()).here(),
            None => self.attempt().delete(key).here(),
        }
        Ok(())
    }

    fn scan(
        &mut self,
        prefix: &str,
        lower: Bound<&'static str>,
        upper: Bound<&'static str>,
        limit: u32,
        reverse: bool,
    ) -> Vec<(usize, u64)> {
        let found = self.attempt().scan(prefix, lower.map(Into::into), upper.map(Into::into), limit, reverse).here();
        found.iter().map(|(key, value)| (keys::number(key), number(value))).collect()
    }

    fn call(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<u64, Abort> {
        call(self, operator, key, function, args).map(|value| number(&value))
    }

    fn call_async(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<(), Abort> {
        self.attempt().call_async(operator, key, function, args);
        Ok(())
    }

    fn time(&mut self) -> u64 {
        self.attempt().time().0
    }

    fn random(&mut self) -> u64 {
        self.attempt().random()
    }
}

impl Functions for Toy {
    fn attempt(&mut self) -> &mut Attempt {
        self.attempt.as_mut().expect("an attempt is in progress")
    }

    fn invoke(&mut self) -> Result<Value, Abort> {
        let attempt = self.attempt();
        let version = attempt.operator().component.0[0];
        let (own, args) = (attempt.frame().entity.key().clone(), attempt.frame().args.clone());
        interpret(version, &own, &args, self).map(|acc| Value::from(acc.to_le_bytes()))
    }
}

impl Toy {
    fn run(&mut self, attempt: Attempt) -> (Execution, Option<Box<Overlay>>) {
        self.attempt = Some(attempt);
        let outcome = run(self);
        self.attempt.take().expect("an attempt is in progress").finish(outcome)
    }
}

impl Executor for Toy {
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution {
        self.run(Attempt::begin(transaction.clone(), state.clone(), catalog.clone())).0
    }

    fn fall_back(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        overlay: Box<Overlay>,
        cached: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>) {
        let attempt =
            Attempt::begin(transaction.clone(), state.clone(), catalog.clone()).fall_back(overlay, cached.clone());
        let (execution, overlay) = self.run(attempt);
        (execution, overlay.expect("an attempt of the fallback has an overlay"))
    }
}
