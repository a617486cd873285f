//! The apps of the workloads in small, for tests: as they should be, or with a fault.

mod accounts;
mod cart;
mod movie;
mod records;
mod tpcc;
mod travel;

use std::collections::BTreeMap;
use std::ops::Bound;

use serde_json::{Value, json};

use super::{Answer, Call, Workload};

/// What is wrong with it, once it is filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Answers as it should, and changes nothing.
    Idle,
    /// Refuses whatever would change something, as the workload expects of some.
    Refuses,
    /// Answers as it should, and changes nothing, once, when this function is called.
    Loses(&'static str),
    /// Does it once more.
    Repeats(&'static str),
}

/// Refusals of which workloads expect some.
const REFUSALS: [&str; 4] =
    ["account 1 has nothing left", "item number is not valid", "hotel 1 is sold out", "not enough of item 1"];

type Function = fn(&mut State, &Call, &[Value]) -> Answer;

pub struct Model {
    state: State,
    function: Function,
    fault: Fault,
    refusal: &'static str,
}

impl Model {
    /// The app of a workload, filled.
    pub fn new(workload: &dyn Workload, fault: Fault) -> Model {
        let function: Function = match workload.name() {
            "ycsb-t" | "transfer" => accounts::call,
            "ycsb-records" => records::call,
            "shopping-cart" => cart::call,
            "deathstar-movie" => movie::call,
            "deathstar-travel" => travel::call,
            _ => tpcc::call,
        };
        let expected = |refusal: &&str| workload.expects("ABORTED", refusal);
        let refusal = REFUSALS.into_iter().find(expected).unwrap_or("no");
        let mut model = Model { state: State::default(), function, fault, refusal };
        for call in workload.fill() {
            model.done(&call).unwrap_or_else(|refusal| panic!("{call:?} is refused: {refusal:?}"));
        }
        model
    }

    pub fn call(&mut self, call: &Call) -> Answer {
        if call.amounts.is_empty() {
            return self.done(call);
        }
        let is_once = |function| call.function == function;
        match self.fault {
            Fault::Idle => self.undone(call),
            Fault::Refuses => Err(("ABORTED".into(), self.refusal.into())),
            Fault::Loses(function) if is_once(function) => {
                let answer = self.undone(call);
                self.is_over(answer.is_ok());
                answer
            }
            Fault::Repeats(function) if is_once(function) => {
                let answer = self.done(call);
                let is_over = answer.is_ok() && self.done(call).is_ok();
                self.is_over(is_over);
                answer
            }
            _ => self.done(call),
        }
    }

    fn done(&mut self, call: &Call) -> Answer {
        let arguments: Vec<Value> = serde_json::from_str(&call.arguments).expect("arguments are an array");
        self.state.before.clear();
        (self.function)(&mut self.state, call, &arguments)
    }

    fn undone(&mut self, call: &Call) -> Answer {
        let answer = self.done(call);
        self.state.undo();
        answer
    }

    fn is_over(&mut self, is_over: bool) {
        if is_over {
            self.fault = Fault::None;
        }
    }
}

/// Operator and key.
type Name = (String, String);

/// Entities, and what they were before the last call.
#[derive(Default)]
pub struct State {
    entities: BTreeMap<Name, Value>,
    before: Vec<(Name, Option<Value>)>,
}

impl State {
    fn get(&self, operator: &str, key: &str) -> Option<&Value> {
        self.entities.get(&(operator.to_owned(), key.to_owned()))
    }

    /// One that is there.
    fn at(&mut self, operator: &str, key: &str) -> &mut Value {
        let name = (operator.to_owned(), key.to_owned());
        let found = self.entities.get_mut(&name).unwrap_or_else(|| panic!("there is no {operator} {key}"));
        self.before.push((name, Some(found.clone())));
        found
    }

    fn put(&mut self, operator: &str, key: impl Into<String>, value: Value) -> Answer {
        let name = (operator.to_owned(), key.into());
        let before = self.entities.insert(name.clone(), value);
        self.before.push((name, before));
        Ok(Value::Null)
    }

    fn remove(&mut self, operator: &str, key: &str) {
        let name = (operator.to_owned(), key.to_owned());
        let before = self.entities.remove(&name);
        self.before.push((name, before));
    }

    fn undo(&mut self) {
        for (name, before) in self.before.drain(..).rev() {
            match before {
                Some(value) => self.entities.insert(name, value),
                None => self.entities.remove(&name),
            };
        }
    }

    /// Those whose keys begin so, in order.
    fn all(&self, operator: &str, prefix: &str) -> Vec<(&str, &Value)> {
        self.behind(operator, prefix, Bound::Included(prefix), usize::MAX)
    }

    /// A page of them, and its last key or null; the arguments are after which key it begins, and how long it is.
    fn page(&self, operator: &str, prefix: &str, arguments: &[Value]) -> (Vec<(&str, &Value)>, Value) {
        let (from, limit) = (arguments[0].as_str(), whole(&arguments[1]) as usize);
        let page = self.behind(operator, prefix, from.map_or(Bound::Included(prefix), Bound::Excluded), limit);
        let last = page.last().filter(|_| page.len() == limit).map(|(key, _)| *key);
        let last = json!(last);
        (page, last)
    }

    fn behind(&self, operator: &str, prefix: &str, from: Bound<&str>, limit: usize) -> Vec<(&str, &Value)> {
        let from = from.map(|key| (operator.to_owned(), key.to_owned()));
        let rest = self.entities.range((from, Bound::Unbounded));
        let all = rest.take_while(|(name, _)| name.0 == operator && name.1.starts_with(prefix)).take(limit);
        all.map(|(name, value)| (&*name.1, value)).collect()
    }
}

fn whole(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn refused(message: &str) -> Answer {
    Err(("ABORTED".into(), message.into()))
}

/// Adds to a number.
fn add(value: &mut Value, amount: i64) {
    *value = json!(whole(value) + amount);
}
