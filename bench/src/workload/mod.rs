//! The workloads: the calls that fill it, an endless stream of calls from a
//! seed, and what must hold of its state afterwards, whatever was called.
//!
//! A workload knows the app's functions and nothing of servers, connections or time: whoever drives
//! it sends the calls. It keeps no record of what was called either, so any number of connections
//! may share one, each with random numbers of its own. Each app exists in Rust and in Python, some in
//! every language, with the same functions and replies.

mod cart;
mod chance;
mod conformance;
pub mod languages;
mod movie;
mod records;
mod tpcc;
mod travel;
pub mod ycsb;

use std::{iter, slice};

use anyhow::{Context, ensure};
use rand::RngCore;
use serde_json::{Value, json};

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
}

impl Call {
    /// A call that may write.
    fn write(operator: &'static str, key: impl Into<String>, function: &'static str, arguments: String) -> Self {
        Call { operator, key: key.into(), function, arguments, read_only: false }
    }

    /// A call that only reads.
    fn read(operator: &'static str, key: impl Into<String>, function: &'static str, arguments: String) -> Self {
        Call { operator, key: key.into(), function, arguments, read_only: true }
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

/// Makes a call and gives its result; an abort is an error.
pub type Read<'a> = dyn FnMut(&Call) -> anyhow::Result<Value> + 'a;

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

    /// Calls that read the entities one by one, where what is checked does not tell them apart.
    fn entities(&self) -> Box<dyn Iterator<Item = Call> + '_> {
        Box::new(iter::empty())
    }

    /// Reads the state and says what holds. Nothing else may run meanwhile.
    fn check(&self, read: &mut Read<'_>) -> Vec<Check>;
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

/// Reads all pages of a function that replies with figures and the last key of the page, or null
/// behind the last page, and hands the figures to `each`.
fn pages(
    read: &mut Read<'_>,
    page: impl Fn(Option<&str>) -> Call,
    mut each: impl FnMut(&[Value]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut after: Option<String> = None;
    loop {
        let reply = read(&page(after.as_deref()))?;
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
    read: &mut Read<'_>,
    operator: &'static str,
    key: &str,
    function: &'static str,
) -> anyhow::Result<[i64; N]> {
    let mut sums = [0; N];
    let page = |after: Option<&str>| Call::read(operator, key, function, json!([after, PAGE]).to_string());
    pages(read, page, |figures| {
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
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::languages::{self, WORKLOADS};
    use super::*;

    fn some(workload: &dyn Workload, seed: u64) -> Vec<Call> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        (0..200).map(|_| workload.next(&mut random)).collect()
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

    #[test]
    fn entities_are_those_that_were_filled_in() {
        for line in WORKLOADS.iter().filter(|line| line.starts_with("ycsb")) {
            let workload = languages::workload(line).unwrap();
            let filled = workload.fill().map(|call| (call.operator, call.key));
            let read =
                workload.entities().inspect(|call| assert!(call.read_only)).map(|call| (call.operator, call.key));
            assert_eq!(read.collect::<Vec<_>>(), filled.collect::<Vec<_>>(), "{line}");
        }
    }

    #[test]
    fn a_check_finds_what_is_missing() {
        let workload = languages::workload("ycsb-t --accounts 3").unwrap();
        let mut pages = vec![Ok(serde_json::json!([2, 2_000_000, "1"])), Ok(serde_json::json!([1, 1_000_000, null]))];
        let mut whole = pages.drain(..);
        let checks = workload.check(&mut |_| whole.next().unwrap());
        assert!(checks[0].result.is_ok(), "{checks:?}");
        let checks = workload.check(&mut |_| Ok(serde_json::json!([3, 2_999_999, null])));
        let error = checks[0].result.as_ref().unwrap_err();
        assert_eq!(error.to_string(), "the balances come to 2999999, not 3000000");
    }
}
