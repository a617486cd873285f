//! Every workload's apps in all languages beside each other on one server: the same calls, one after the other, must
//! have the same replies and lead to the same state; and what the workload promises must hold.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use futures_util::future::try_join_all;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use styx_client::{Client, Error, Reply, Request};
use styx_harness::Cluster;

use super::{Answer, Call, Choice, Language, Ledger, Workload, judged};

/// The workloads as they are compared: small, with every function in use.
pub const WORKLOADS: [&str; 7] = [
    "ycsb-t --accounts 100 --theta 0.9 --reads 20 --updates 20",
    "ycsb-t --accounts 100 --groups 5 --composite --reads 20 --updates 20",
    "ycsb-records --records 50 --theta 0.5",
    "tpcc --warehouses 2 --mix full --scale-down 100",
    "deathstar-movie --users 20 --titles 20",
    "deathstar-travel --capacity 2 --reservations 500",
    "shopping-cart --users 50 --stock 30 --credit 5000 --theta 0.5",
];

#[derive(Debug, clap::Args)]
pub struct Options {
    /// The server's binary
    #[arg(long, default_value = "target/release/styx")]
    styx: PathBuf,
    /// Directory of the apps
    #[arg(long, default_value = "guests")]
    guests: PathBuf,
    /// Where compiled apps are kept, so that they are compiled once
    #[arg(long, default_value = "target/compiled-apps")]
    cache_dir: PathBuf,
    /// Calls to each workload's apps
    #[arg(long, default_value_t = 300)]
    calls: usize,
    /// Seed of the calls
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the comparison and prints one JSON line; an error means that the apps differ or break a promise.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let processes = styx_harness::Options {
        cache_dir: Some(options.cache_dir.clone()),
        ..styx_harness::Options::new(&options.styx)
    };
    let server = runtime.block_on(Cluster::start(processes))?;
    let mut deployed = BTreeSet::new();
    let (mut calls, mut aborted) = (0, 0);
    for line in WORKLOADS {
        let workload = workload(line)?;
        let languages = workload.languages();
        for language in languages {
            let guest = workload.guest(*language);
            if deployed.insert(guest.clone()) {
                runtime.block_on(server.deploy(&options.guests.join(guest), None, true))?;
            }
        }
        runtime.block_on(same_functions(server.client(), &*workload))?;
        let apps = languages.iter().map(|language| workload.guest(*language)).collect();
        let (workload, client) = (&*workload, server.client());
        let ledger = Ledger::new(workload.figures());
        let mut compared = Comparison { workload, client, runtime: &runtime, apps, ledger, calls: 0, aborted: 0 };
        compared.run(options).with_context(|| format!("{line}, seed {}", options.seed))?;
        println!(
            "  ✓ {line}: {} calls, {} of them aborted, the same in {}",
            compared.calls,
            compared.aborted,
            if languages.len() == 2 { "both languages".to_owned() } else { format!("{} languages", languages.len()) }
        );
        (calls, aborted) = (calls + compared.calls, aborted + compared.aborted);
    }
    let cases = runtime.block_on(super::conformance::run(&server, &options.guests))?;
    println!("  ✓ conformance: {cases} calls, the same in each language and through all of them");
    runtime.block_on(server.stop())?;
    println!(
        "{}",
        json!({"languages": Language::value_variants().len(), "workloads": WORKLOADS.len(), "calls": calls, "aborted": aborted, "seed": options.seed, "consistent": true})
    );
    Ok(())
}

/// The workload that a command line names.
pub fn workload(line: &str) -> anyhow::Result<Box<dyn Workload>> {
    Line::try_parse_from(line.split(' '))?.choice.workload()
}

/// A workload as it is given on a command line, without the program's name.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    choice: Choice,
}

/// All apps must have the same functions, with parameters of the same names.
async fn same_functions(client: &Client, workload: &dyn Workload) -> anyhow::Result<()> {
    let mut first: Option<BTreeSet<String>> = None;
    for language in workload.languages() {
        let functions = functions(client, &workload.guest(*language)).await?;
        let first = first.get_or_insert_with(|| functions.clone());
        let differs = first.symmetric_difference(&functions).next();
        ensure!(differs.is_none(), "not all languages' apps have {}", differs.map_or("", String::as_str));
    }
    Ok(())
}

async fn functions(client: &Client, app: &str) -> anyhow::Result<BTreeSet<String>> {
    let described = client.admin(&format!("/v1/apps/{app}")).await?;
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let mut functions = BTreeSet::new();
    for operator in list(&described, "operators") {
        for function in list(&operator, "functions") {
            let names: Vec<_> = list(&function, "parameters").iter().map(|each| each["name"].to_string()).collect();
            let reads = if function["read_only"] == true { "reads" } else { "writes" };
            let (operator, function) = (&operator["name"], &function["name"]);
            functions.insert(format!("{operator}.{function}({}), which {reads}", names.join(", ")));
        }
    }
    ensure!(!functions.is_empty(), "the server knows no functions of {app}");
    Ok(functions)
}

struct Comparison<'a> {
    workload: &'a dyn Workload,
    client: &'a Client,
    runtime: &'a tokio::runtime::Runtime,
    /// Their names.
    apps: Vec<String>,
    /// What each of them has answered.
    ledger: Ledger,
    calls: usize,
    aborted: usize,
}

fn end(reply: Result<Reply, Error>) -> anyhow::Result<Answer> {
    Ok(match reply {
        Ok(reply) => Ok(reply.value()?),
        Err(error) => Err((error.code, error.message)),
    })
}

impl Comparison<'_> {
    fn run(&mut self, options: &Options) -> anyhow::Result<()> {
        self.runtime.block_on(try_join_all(self.apps.iter().map(|app| self.fill(app))))?;
        let mut random = Pcg64Mcg::seed_from_u64(options.seed);
        for _ in 0..options.calls {
            let call = self.workload.next(&mut random);
            let replies = self.runtime.block_on(try_join_all(self.apps.iter().map(|app| self.call(app, &call))))?;
            let mut replies = replies.into_iter().map(|reply| reply.map(without_accidents));
            let first = replies.next().context("there is a language")?;
            for (app, reply) in self.apps[1..].iter().zip(replies) {
                let one = &self.apps[0];
                ensure!(first == reply, "{call:?} is answered by {first:?} in {one}, by {reply:?} in {app}");
            }
            self.calls += 1;
            self.ledger.answered(&call.amounts, first.as_ref().err().map(|(code, _)| &**code));
            if let Err((code, message)) = first {
                self.aborted += 1;
                ensure!(self.workload.expects(&code, &message), "{call:?} failed with {code}: {message}");
            }
        }
        // Whatever the checks read must be alike, too: it is the whole state.
        let states = self.apps.iter().map(|app| self.check(app)).collect::<anyhow::Result<Vec<_>>>()?;
        for (app, state) in self.apps.iter().zip(&states) {
            for (first, own) in states[0].iter().zip(state) {
                ensure!(first == own, "the state differs: {first} in {}, {own} in {}", self.apps[0], app);
            }
            ensure!(states[0].len() == state.len(), "{} and {} do not hold equally much", self.apps[0], app);
        }
        Ok(())
    }

    /// Checks one app; returns what was read meanwhile.
    fn check(&self, app: &str) -> anyhow::Result<Vec<Value>> {
        let mut seen = Vec::new();
        let mut ask = |calls: &[Call]| {
            let answers = self.runtime.block_on(try_join_all(calls.iter().map(|call| self.call(app, call))))?;
            for (call, answer) in calls.iter().zip(&answers) {
                let arguments: Value = serde_json::from_str(&call.arguments)?;
                let answer = answer.clone().unwrap_or_default();
                seen.push(without_accidents(json!([call.operator, call.key, call.function, arguments, answer])));
            }
            Ok(answers)
        };
        let mut checks = self.workload.check(&mut ask, &self.ledger);
        checks.push(judged(self.workload, &mut ask, &Ledger::new(self.workload.figures())));
        checks.into_iter().try_for_each(|check| check.result.context(check.name))?;
        Ok(seen)
    }

    async fn call(&self, app: &str, call: &Call) -> anyhow::Result<Answer> {
        end(self.client.request(request(app, call)?).reply().await)
    }

    /// Makes all calls that fill an app, many at once.
    async fn fill(&self, app: &str) -> anyhow::Result<()> {
        let calls = self.workload.fill().map(|call| request(app, &call)).collect::<anyhow::Result<Vec<_>>>()?;
        for some in calls.chunks(100) {
            for reply in self.client.batch(some).await? {
                let failed = |(code, message)| anyhow::anyhow!("{app}: filling fails with {code}: {message}");
                end(reply)?.map_err(failed)?;
            }
        }
        Ok(())
    }
}

fn request(app: &str, call: &Call) -> anyhow::Result<Request> {
    let Call { operator, key, function, arguments, .. } = call;
    Ok(Request::new(app, operator, key, function, Value::Null).arguments_text(arguments)?.without_key())
}

/// Two apps' transactions have different ids and happen at different times: both are replaced by a word.
/// Times are in microseconds since 1970, far more than any other figure; ids are parts of keys.
fn without_accidents(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number > 1_000_000_000_000_000) => {
            return "time".into();
        }
        Value::String(text) if text.contains(":t") => {
            let is_id = |part: &&str| part.len() == 17 && part.starts_with('t');
            let parts: Vec<&str> = text.split(':').map(|part| if is_id(&part) { "id" } else { part }).collect();
            return parts.join(":").into();
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = without_accidents(value.take())),
        Value::Object(fields) => fields.values_mut().for_each(|value| *value = without_accidents(value.take())),
        _ => {}
    }
    value
}
