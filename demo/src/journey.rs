//! One transaction through five languages: a journey whose legs are sold by companies, each of which writes in another.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use styx_client::{Client, Method};
use styx_harness::Cluster;
use tokio::process::Command;

use crate::picture;
use crate::workload::Proof;

/// A leg, and who sells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub(super) operator: &'static str,
    pub(super) language: &'static str,
    directory: &'static str,
}

impl Leg {
    /// File of its component.
    fn component(&self) -> String {
        format!("{}.wasm", self.directory)
    }
}

/// In the order of the journey.
pub(super) const LEGS: [Leg; 5] = [
    Leg { operator: "train", language: "Rust", directory: "rust" },
    Leg { operator: "bus", language: "Python", directory: "python" },
    Leg { operator: "ferry", language: "Go", directory: "go" },
    Leg { operator: "tram", language: "TypeScript", directory: "typescript" },
    Leg { operator: "lift", language: "C", directory: "c" },
];

const APP: &str = "journey";
/// Key of every leg.
const DAY: &str = "friday";
/// Seats that are booked each time: the last leg has them once.
const SEATS: u64 = 2;
const FREE: u64 = 10;
const FREE_AT_THE_END: u64 = 3;

/// Builds and deploys what can be built here, books a journey, and another for which there is no room at its end.
pub(super) async fn show(cluster: &Cluster, styx: &Path, guests: &Path) -> anyhow::Result<(Vec<Leg>, Vec<Proof>)> {
    let directory = tempfile::tempdir()?;
    let mut legs = Vec::new();
    for leg in LEGS {
        if build(leg, styx, guests, directory.path()).await? {
            legs.push(leg);
        }
    }
    let Some(last) = legs.last().copied() else { return Ok((legs, Vec::new())) };
    deploy(cluster, &legs, directory.path()).await?;
    let client = cluster.client();
    let seats = |at| if at + 1 == legs.len() { FREE_AT_THE_END } else { FREE };
    for (at, leg) in legs.iter().enumerate() {
        client.call(APP, leg.operator, DAY, "create", json!([seats(at), price(at)])).await?;
    }

    let booked = book(client, &legs).await?;
    let languages = count(legs.len());
    println!("\n  {SEATS} seats on {DAY}: one transaction through {languages}, {} in all", booked.result);
    println!("{}", picture::lines(&booked.trace, &legs).join("\n"));
    let after = free(client, &legs).await?;
    let expected: u64 = (0..legs.len()).map(|at| SEATS * price(at)).sum();
    let taken = after.iter().enumerate().all(|(at, left)| left + SEATS == seats(at));

    let refused = book(client, &legs).await?;
    println!("\n  {SEATS} more, and the {} has no room: {}", last.operator, refused.result);
    println!("{}\n", picture::lines(&refused.trace, &legs).join("\n"));
    let proofs = vec![
        Proof {
            claim: format!("one journey through {languages} took {SEATS} seats on each leg, and costs {expected}"),
            holds: taken && booked.result == expected.to_string(),
        },
        Proof {
            claim: format!(
                "the next was refused by its last leg, in {}: nothing of any leg has changed",
                last.language
            ),
            holds: refused.result.starts_with("FULL: ") && free(client, &legs).await? == after,
        },
    ];
    Ok((legs, proofs))
}

/// Puts a leg's component into a directory, if it can be built here. What was built before from the same sources is
/// taken from the user's cache.
async fn build(leg: Leg, styx: &Path, guests: &Path, directory: &Path) -> anyhow::Result<bool> {
    let started = Instant::now();
    let source = guests.join(APP).join(leg.directory);
    let mut command = Command::new(styx);
    let bundle = directory.join(format!("{}.zip", leg.directory));
    command.args(["--json", "build", "--output"]).arg(&bundle).arg(&source).kill_on_drop(true);
    let bar = ProgressBar::new_spinner().with_message(format!("building the {} in {}", leg.operator, leg.language));
    bar.enable_steady_tick(Duration::from_millis(100));
    let output = command.output().await.with_context(|| format!("{} does not start", styx.display()))?;
    bar.finish_and_clear();
    let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let said: Value = serde_json::from_slice(said).unwrap_or_default();
    if output.status.success() {
        let mut bundle = zip::ZipArchive::new(fs::File::open(&bundle)?)?;
        let mut component = bundle.by_name(&leg.component())?;
        io::copy(&mut component, &mut fs::File::create(directory.join(leg.component()))?)?;
        let is_kept = said["components"][0]["cached"] == true;
        let took = format!("{:.1} s", started.elapsed().as_secs_f64());
        let how = if is_kept { "kept from before" } else { &took };
        println!("  ✓ built the {} in {}  {how}", leg.operator, leg.language);
        return Ok(true);
    }
    let error = &said["error"];
    let message = error["message"].as_str().context("styx build does not say why it fails")?;
    let message = message.trim_start_matches(&format!("{}: ", leg.directory));
    // Toolchains that are missing are a newcomer's everyday; anything else is wrong with the demonstration.
    let detail = error["detail"].as_str().unwrap_or_default();
    ensure!(error["code"] == "TOOLCHAIN_MISSING", "styx build {} failed: {message}\n{detail}", source.display());
    let hint = error["hint"].as_str().unwrap_or_default();
    println!("  - no {} in {}: {message} ({hint})", leg.operator, leg.language);
    Ok(false)
}

/// An app of the legs that there are.
async fn deploy(cluster: &Cluster, legs: &[Leg], directory: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    let component = |leg: &Leg| format!("[component.{}]\nfile = \"{}\"\n", leg.directory, leg.component());
    let components: String = legs.iter().map(component).collect();
    fs::write(directory.join("styx.toml"), format!("[app]\nname = \"{APP}\"\n{components}"))?;
    cluster.deploy(directory, None, false).await?;
    println!("  ✓ deployed {APP}  {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// How a booking went.
struct Booking {
    /// What it costs, or the error.
    result: String,
    trace: Value,
}

/// Books the whole journey by its first leg, watched.
async fn book(client: &Client, legs: &[Leg]) -> anyhow::Result<Booking> {
    let (first, onward) = legs.split_first().context("there is a leg")?;
    let onward: Vec<_> = onward.iter().map(|leg| leg.operator).collect();
    let path = format!("/v1/send/{APP}/{}/{DAY}/book", first.operator);
    let request = client.ingress_request(Method::POST, &path).header("styx-trace", "1");
    let sent = client.execute(request.json(&json!([SEATS, onward]))).await?.value()?;
    let id = sent["request_id"].as_str().with_context(|| format!("{sent} names no request"))?;
    let result = match client.result(id, Duration::from_secs(10)).await {
        Ok(reply) => String::from_utf8(reply.context("the booking does not end")?.bytes.to_vec())?,
        Err(error) => format!("{}: {}", error.app_code.as_ref().unwrap_or(&error.code), error.message),
    };
    Ok(Booking { result, trace: trace(client, id, legs.len()).await? })
}

/// What was seen of a request, once all of it has come.
async fn trace(client: &Client, id: &str, calls: usize) -> anyhow::Result<Value> {
    let started = Instant::now();
    loop {
        let trace = client.admin(&format!("/v1/requests/{id}/trace")).await.unwrap_or_default();
        if picture::calls(&trace).len() >= calls || started.elapsed() > Duration::from_secs(5) {
            return Ok(trace);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Seats that are left, by leg.
async fn free(client: &Client, legs: &[Leg]) -> anyhow::Result<Vec<u64>> {
    let mut free = Vec::with_capacity(legs.len());
    for leg in legs {
        let entity = client.get(APP, leg.operator, DAY).await?.with_context(|| format!("no {}", leg.operator))?;
        free.push(entity.value["free"].as_u64().with_context(|| format!("{} has no seats", entity.value))?);
    }
    Ok(free)
}

fn price(at: usize) -> u64 {
    10 * (LEGS.len() - at) as u64
}

fn count(languages: usize) -> String {
    let words = ["", "one language", "two languages", "three languages", "four languages", "five languages"];
    words[languages].to_owned()
}
