//! The workloads: the calls that fill it, an endless stream of calls from a
//! seed, and what must hold of its state afterwards, after what was answered.
//!
//! A workload knows the app's functions and nothing of servers, connections or time: whoever drives
//! it sends the calls. It keeps no record of what was called either, so any number of connections
//! may share one, each with random numbers of its own; what was answered is in a [`Ledger`]. Each app
//! exists in Rust and in Python, some in every language, with the same functions and replies.

mod cart;
mod chance;
mod conformance;
pub mod languages;
mod ledger;
#[cfg(test)]
pub mod model;
mod movie;
mod records;
mod sample;
mod tpcc;
mod travel;
pub mod ycsb;

use std::slice;

use anyhow::{Context, ensure};
use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

pub use ledger::{Amounts, Ledger};
pub use sample::{Seen, judged};

/// One call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub operator: &'static str,
    pub key: String,
    pub function: &'static str,
    /// Its arguments, a JSON array.
    pub arguments: String,
    /// True if the function is declared as one that only reads.
    pub read_only: bool,
    /// What it adds to the figures of the workload if it commits.
    pub amounts: Amounts,
}

impl Call {
    /// A call that may write.
    fn write(operator: &'static str, key: impl Into<String>, function: &'static str, arguments: String) -> Self {
        Call { operator, key: key.into(), function, arguments, read_only: false, amounts: Amounts::new() }
    }

    /// The same, adding this to figures.
    fn adding(mut self, amounts: impl IntoIterator<Item = (u32, i64)>) -> Self {
        self.amounts.extend(amounts);
        self
    }

    /// A call that only reads.
    fn read(operator: &'static str, key: impl Into<String>, function: &'static str, arguments: String) -> Self {
        Call { operator, key: key.into(), function, arguments, read_only: true, amounts: Amounts::new() }
    }
}

/// What an app is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
pub enum Language {
    Rust,
    Python,
    Go,
    C,
    #[value(name = "typescript")]
    TypeScript,
}

/// A result, or the code and the message of a failure.
pub type Answer = Result<Value, (String, String)>;

/// Makes calls, all at once, and gives their answers in the same order.
pub type Ask<'a> = dyn FnMut(&[Call]) -> anyhow::Result<Vec<Answer>> + 'a;

/// Something that must hold, and whether it did.
#[derive(Debug)]
pub struct Check {
    /// The claim, in a few words.
    pub name: &'static str,
    /// An error says what was found instead.
    pub result: anyhow::Result<()>,
}

impl Check {
    fn new(name: &'static str, result: anyhow::Result<()>) -> Self {
        Check { name, result }
    }
}

/// A benchmark's calls and promises.
pub trait Workload: Send + Sync {
    fn name(&self) -> &'static str;

    /// Name of the app, in Rust, and of its source directory among the guests.
    fn app(&self) -> &'static str {
        self.name()
    }

    /// What its app is written in, once in each.
    fn languages(&self) -> &'static [Language] {
        &[Language::Rust, Language::Python]
    }

    /// The same of the app in a language.
    fn guest(&self, language: Language) -> String {
        match language {
            Language::Rust => self.app().to_owned(),
            Language::Python => format!("{}-python", self.app()),
            Language::Go => format!("{}-go", self.app()),
            Language::C => format!("{}-c", self.app()),
            Language::TypeScript => format!("{}-typescript", self.app()),
        }
    }

    /// The calls that fill an empty app, the same each time. They may be made at once and in any
    /// order; all must succeed.
    fn fill(&self) -> Box<dyn Iterator<Item = Call> + Send + '_>;

    /// The next call; it depends on the random numbers alone.
    fn next(&self, random: &mut dyn RngCore) -> Call;

    /// True if a failure with this code and message is a part of the workload, not of the system.
    fn expects(&self, code: &str, message: &str) -> bool {
        let _ = (code, message);
        false
    }

    /// How many figures its calls add to.
    fn figures(&self) -> usize;

    /// Reads the state and says whether it is what the ledger's calls have left of what was filled in.
    /// Nothing else may run meanwhile.
    fn check(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> Vec<Check>;

    /// Calls that read what a call's answer depends on, and what it changes.
    fn witnesses(&self, call: &Call) -> Vec<Call>;

    /// Says whether a call was answered rightly, and did what it should.
    fn judge(&self, seen: &Seen<'_>) -> anyhow::Result<()>;
}

/// Which workload, with its options.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Choice {
    /// Transfers between accounts, the credited ones chosen by a Zipf distribution
    YcsbT(ycsb::Options),
    /// Transfers between 100,000 accounts, both chosen by a Zipf distribution
    Transfer(ycsb::TransferOptions),
    /// Records of a thousand bytes, mostly read
    YcsbRecords(records::Options),
    /// TPC-C: orders and payments, or all five transactions
    Tpcc(tpcc::Options),
    /// Deathstar's movie reviews
    DeathstarMovie(movie::Options),
    /// Deathstar's travel agency: searches, recommendations, logins and reservations
    DeathstarTravel(travel::Options),
    /// Checkouts of shopping carts: stock of every item and credit of the user
    ShoppingCart(cart::Options),
}

impl Choice {
    pub fn workload(&self) -> anyhow::Result<Box<dyn Workload>> {
        Ok(match self {
            Choice::YcsbT(options) => Box::new(ycsb::Accounts::ycsb_t(options)?),
            Choice::Transfer(options) => Box::new(ycsb::Accounts::transfer(options)?),
            Choice::YcsbRecords(options) => Box::new(records::Records::new(options)?),
            Choice::Tpcc(options) => Box::new(tpcc::Tpcc::new(options)?),
            Choice::DeathstarMovie(options) => Box::new(movie::Movie::new(options)?),
            Choice::DeathstarTravel(options) => Box::new(travel::Travel::new(options)?),
            Choice::ShoppingCart(options) => Box::new(cart::Cart::new(options)?),
        })
    }
}

/// Entities of a page: as many as an interpreted guest adds up within its fuel.
const PAGE: u32 = 500;
/// Calls that a check makes at once.
const AT_ONCE: usize = 1000;
/// Entities that a check reads, if there are more…
const READ_MAX: usize = 100_000;
/// …and how many of them are such that no call has changed.
const UNCHANGED: usize = 10_000;

/// The results of calls that may not fail.
fn results(ask: &mut Ask<'_>, calls: &[Call]) -> anyhow::Result<Vec<Value>> {
    let answers = calls.iter().zip(ask(calls)?);
    let result = |(call, answer): (&Call, Answer)| {
        answer
            .map_err(|(code, message)| anyhow::anyhow!("{}.{} failed: {code}: {message}", call.operator, call.function))
    };
    answers.map(result).collect()
}

/// The result of one call that may not fail.
fn result(ask: &mut Ask<'_>, call: Call) -> anyhow::Result<Value> {
    results(ask, &[call])?.pop().context("a call has an answer")
}

/// Makes calls that may not fail, many at once, and hands on each result with what it is of.
fn each<T>(
    ask: &mut Ask<'_>,
    calls: impl IntoIterator<Item = (T, Call)>,
    mut take: impl FnMut(T, Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut calls = calls.into_iter();
    loop {
        let (of, some): (Vec<T>, Vec<Call>) = calls.by_ref().take(AT_ONCE).unzip();
        if some.is_empty() {
            return Ok(());
        }
        of.into_iter().zip(results(ask, &some)?).try_for_each(|(of, result)| take(of, result))?;
    }
}

/// Which of so many entities a check reads: all of them, or a sample, mostly of those that calls have changed.
fn chosen(count: u32, is_changed: impl Fn(u32) -> bool) -> Vec<u32> {
    if count as usize <= READ_MAX {
        return (0..count).collect();
    }
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let (mut changed, mut others): (Vec<u32>, Vec<u32>) = (0..count).partition(|entity| is_changed(*entity));
    let (others, _) = others.partial_shuffle(&mut random, UNCHANGED);
    let (changed, _) = changed.partial_shuffle(&mut random, READ_MAX - UNCHANGED);
    [changed, others].concat()
}

/// Reads all pages of a function that replies with figures and the last key of the page, or null
/// behind the last page, and hands the figures to `each`.
fn pages(
    ask: &mut Ask<'_>,
    page: impl Fn(Option<&str>) -> Call,
    mut each: impl FnMut(&[Value]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut after: Option<String> = None;
    loop {
        let reply = result(ask, page(after.as_deref()))?;
        let (last, figures) = reply.as_array().and_then(|reply| reply.split_last()).context("a page is an array")?;
        each(figures)?;
        match last.as_str() {
            Some(last) => after = Some(last.to_owned()),
            None => return Ok(()),
        }
    }
}

/// The figures of all pages of a function, added up; they stand in arrays or beside each other.
fn sums<const N: usize>(
    ask: &mut Ask<'_>,
    operator: &'static str,
    key: &str,
    function: &'static str,
) -> anyhow::Result<[i64; N]> {
    let mut sums = [0; N];
    let page = |after: Option<&str>| Call::read(operator, key, function, json!([after, PAGE]).to_string());
    pages(ask, page, |figures| {
        let flat = figures.iter().flat_map(|figure| figure.as_array().map_or(slice::from_ref(figure), Vec::as_slice));
        let flat: Vec<i64> = flat.map(number).collect::<anyhow::Result<_>>()?;
        ensure!(flat.len() == N, "a page has {} figures, not {N}", flat.len());
        sums.iter_mut().zip(flat).for_each(|(sum, figure)| *sum += figure);
        Ok(())
    })
    .with_context(|| format!("{operator} {key}"))?;
    Ok(sums)
}

/// A whole number of a reply.
fn number(value: &Value) -> anyhow::Result<i64> {
    value.as_i64().with_context(|| format!("{value} is no whole number"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::languages::{self, WORKLOADS};
    use super::model::{Fault, Model};
    use super::*;

    fn some(workload: &dyn Workload, seed: u64) -> Vec<Call> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        (0..300).map(|_| workload.next(&mut random)).collect()
    }

    #[test]
    fn calls_depend_on_the_seed_alone_and_have_arguments() {
        for line in WORKLOADS {
            let (one, other) = (languages::workload(line).unwrap(), languages::workload(line).unwrap());
            let filling: Vec<Call> = one.fill().collect();
            assert_eq!(filling, other.fill().collect::<Vec<_>>(), "{line}");
            let calls = some(&*one, 7);
            assert_eq!(calls, some(&*other, 7), "{line}");
            assert_ne!(calls, some(&*one, 8), "{line}");
            for call in filling.iter().chain(&calls) {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                assert!(arguments.is_array(), "{line}: {call:?}");
            }
        }
    }

    /// A ledger of some calls, and what has become of the app by them.
    fn called(workload: &dyn Workload, fault: Fault) -> (Model, Ledger) {
        let (mut model, ledger) = (Model::new(workload, fault), Ledger::new(workload.figures()));
        for call in some(workload, 3) {
            let answer = model.call(&call);
            ledger.answered(&call.amounts, answer.as_ref().err().map(|(code, _)| &**code));
        }
        (model, ledger)
    }

    /// What is found: by the check, or by calls one at a time.
    fn found(workload: &dyn Workload, fault: Fault) -> [Option<String>; 2] {
        let (mut model, ledger) = called(workload, fault);
        let mut ask = |calls: &[Call]| Ok(calls.iter().map(|call| model.call(call)).collect());
        let error = |check: Check| Some(format!("{}: {:#}", check.name, check.result.err()?));
        let checked = workload.check(&mut ask, &ledger).into_iter().find_map(error);
        [checked, error(judged(workload, &mut ask, &ledger))]
    }

    #[test]
    fn what_was_answered_and_has_happened_passes() {
        for line in WORKLOADS {
            let workload = languages::workload(line).unwrap();
            assert_eq!(found(&*workload, Fault::None), [None, None], "{line}");
            // The calls that were made one at a time count as well.
            let (mut model, ledger) = called(&*workload, Fault::None);
            let mut ask = |calls: &[Call]| Ok(calls.iter().map(|call| model.call(call)).collect());
            judged(&*workload, &mut ask, &ledger).result.unwrap();
            for check in workload.check(&mut ask, &ledger) {
                check.result.with_context(|| format!("{line}: {}", check.name)).unwrap();
            }
        }
    }

    #[test]
    fn a_system_that_answers_and_does_nothing_is_found_out() {
        for line in WORKLOADS {
            let [checked, judged] = found(&*languages::workload(line).unwrap(), Fault::Idle);
            assert!(checked.is_some() && judged.is_some(), "{line}: {checked:?}, {judged:?}");
        }
    }

    #[test]
    fn a_system_that_refuses_everything_is_found_out() {
        for line in WORKLOADS {
            let [_, judged] = found(&*languages::workload(line).unwrap(), Fault::Refuses);
            assert!(judged.is_some(), "{line}");
        }
    }

    #[test]
    fn one_call_that_is_lost_or_made_twice_is_found_out() {
        for line in WORKLOADS {
            let workload = languages::workload(line).unwrap();
            let functions: BTreeSet<_> = some(&*workload, 3)
                .into_iter()
                .filter(|call| !call.amounts.is_empty())
                .map(|call| call.function)
                .collect();
            for function in functions {
                let [checked, _] = found(&*workload, Fault::Loses(function));
                assert!(checked.is_some(), "{line}: {function} is lost");
                // To write the same once more changes nothing.
                let is_idempotent = ["deathstar-movie", "ycsb-records"].contains(&workload.name());
                let [checked, _] = found(&*workload, Fault::Repeats(function));
                assert_eq!(checked.is_none(), is_idempotent, "{line}: {function} is made twice: {checked:?}");
            }
        }
    }

    #[test]
    fn what_nobody_knows_may_have_happened_or_not() {
        let workload = languages::workload("ycsb-t --accounts 3").unwrap();
        let ledger = Ledger::new(3);
        ledger.answered(&Amounts::from_buf([(0, -1), (1, 1)]), Some("OUTCOME_UNKNOWN"));
        for (balances, holds) in [([0, 0, 0], true), ([-1, 1, 0], true), ([0, -1, 1], false)] {
            let mut model = Model::new(&*workload, Fault::None);
            let add = |(account, amount): (usize, i64)| {
                let call = Call::write("account", account.to_string(), "insert", format!("[{}]", 1_000_000 + amount));
                model.call(&call).unwrap();
            };
            balances.into_iter().enumerate().for_each(add);
            let mut ask = |calls: &[Call]| Ok(calls.iter().map(|call| model.call(call)).collect());
            let checks = workload.check(&mut ask, &ledger);
            assert_eq!(checks.iter().all(|check| check.result.is_ok()), holds, "{balances:?}: {checks:?}");
        }
    }

    #[test]
    fn the_first_that_differs_is_named() {
        let workload = languages::workload("shopping-cart --users 50").unwrap();
        let ledger = Ledger::new(workload.figures());
        ledger.answered(&Amounts::from_iter([(17, 1)]), None);
        let mut model = Model::new(&*workload, Fault::None);
        let mut ask = |calls: &[Call]| Ok(calls.iter().map(|call| model.call(call)).collect());
        let checks = workload.check(&mut ask, &ledger);
        let error = checks.into_iter().find_map(|check| check.result.err()).unwrap();
        assert!(error.to_string().starts_with("the credit of user "), "{error}");
    }
}
