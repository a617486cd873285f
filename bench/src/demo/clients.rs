//! Pipelined clients that go on after the server was killed: they connect again and repeat what
//! was not answered, under the same idempotency keys.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::{SinkExt, StreamExt};
use hdrhistogram::Histogram;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::proof::Proof;
use super::workload::{Call, Workload};

/// Where the server is; nowhere while it is down.
#[derive(Clone)]
pub(super) struct Address(watch::Sender<Option<String>>);

impl Address {
    pub(super) fn new(ingress: &str) -> Self {
        Address(watch::Sender::new(Some(ingress.into())))
    }
    pub(super) fn down(&self) {
        self.0.send_replace(None);
    }
    pub(super) fn up(&self, ingress: &str) {
        self.0.send_replace(Some(ingress.into()));
    }
    async fn wait(&self) -> String {
        let mut receiver = self.0.subscribe();
        let found = receiver.wait_for(Option::is_some).await.expect("the sender lives in self");
        found.clone().expect("waited for")
    }
}

/// What the clients have seen so far.
pub(super) struct Progress {
    pub(super) started: Instant,
    pub(super) answered: AtomicUsize,
    pub(super) in_flight: AtomicUsize,
    seen: Mutex<Seen>,
}

struct Seen {
    latency_us: Histogram<u64>,
    /// Answers per 20 ms.
    slots: Vec<u32>,
}

const SLOT: Duration = Duration::from_millis(20);

impl Progress {
    pub(super) fn new() -> Arc<Self> {
        let latency_us = Histogram::new_with_bounds(1, 600_000_000, 3).expect("the bounds are right");
        Arc::new(Progress {
            started: Instant::now(),
            answered: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            seen: Mutex::new(Seen { latency_us, slots: Vec::new() }),
        })
    }

    fn answer(&self, sent: Instant) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock().expect("nothing panics while holding this lock");
        seen.latency_us.saturating_record(sent.elapsed().as_micros() as u64);
        let slot = (self.started.elapsed().as_micros() / SLOT.as_micros()) as usize;
        if seen.slots.len() <= slot {
            seen.slots.resize(slot + 1, 0);
        }
        seen.slots[slot] += 1;
    }

    /// Median and 99th percentile, in milliseconds.
    pub(super) fn latency(&self) -> (f64, f64) {
        let seen = self.seen.lock().expect("nothing panics while holding this lock");
        let at = |quantile| seen.latency_us.value_at_quantile(quantile) as f64 / 1e3;
        (at(0.5), at(0.99))
    }

    /// Answers over time, as a line of bars.
    pub(super) fn timeline(&self, elapsed: Duration, recoveries: &[(Duration, Duration)]) -> String {
        const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const WIDTH: usize = 64;
        let seen = self.seen.lock().expect("nothing panics while holding this lock");
        let slots = (elapsed.as_micros() / SLOT.as_micros()) as usize + 1;
        let column = |at: usize| (at * WIDTH / slots).min(WIDTH - 1);
        let mut columns = [0u32; WIDTH];
        for (at, count) in seen.slots.iter().enumerate() {
            columns[column(at)] += count;
        }
        let highest = columns.iter().copied().max().unwrap_or(1).max(1);
        let bars: String =
            columns.iter().map(|count| BARS[(*count as usize * 8).div_ceil(highest as usize).min(8)]).collect();
        let mut marks = vec![' '; WIDTH];
        for (killed, _) in recoveries {
            marks[column((killed.as_micros() / SLOT.as_micros()) as usize)] = '✗';
        }
        let marks: String = marks.into_iter().collect();
        format!("\n  answers over time ({:.1} s; ✗ = kill -9)\n  {bars}\n  {marks}", elapsed.as_secs_f64())
    }
}

/// The end of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed(String),
    Aborted { code: String, message: String },
}

/// Ends of all calls, by index.
pub(super) struct Outcomes(pub(super) Vec<Outcome>);

impl Outcomes {
    pub(super) fn committed(&self) -> usize {
        self.0.iter().filter(|outcome| matches!(outcome, Outcome::Committed(_))).count()
    }
    pub(super) fn aborted(&self) -> usize {
        self.0.len() - self.committed()
    }

    /// How many ended in which way; names in messages are left out.
    pub(super) fn reasons(&self) -> Vec<(String, usize)> {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in &self.0 {
            let reason = match outcome {
                Outcome::Committed(_) => "committed".to_string(),
                Outcome::Aborted { code, message } => {
                    let words = message
                        .split(' ')
                        .map(|word| if word.bytes().any(|byte| byte.is_ascii_digit()) { "…" } else { word });
                    format!("{code}: {}", words.collect::<Vec<_>>().join(" "))
                }
            };
            *reasons.entry(reason).or_default() += 1;
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }
}

#[derive(Deserialize)]
struct Answer<'a> {
    id: Option<usize>,
    #[serde(borrow)]
    ok: Option<&'a RawValue>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    code: String,
    message: String,
}

/// Makes all calls once, over several connections, whatever happens to the server meanwhile.
pub(super) async fn drive(
    calls: Vec<Call>,
    address: Address,
    progress: Arc<Progress>,
    connections: usize,
    window: usize,
) -> anyhow::Result<Outcomes> {
    let calls = Arc::new(calls);
    let mut tasks = Vec::new();
    for connection in 0..connections {
        // Consecutive calls of one order stay on one connection.
        let share = calls.len().div_ceil(connections);
        let mine: VecDeque<usize> = (connection * share..((connection + 1) * share).min(calls.len())).collect();
        tasks.push(tokio::spawn(client(calls.clone(), mine, address.clone(), progress.clone(), window)));
    }
    let mut outcomes: Vec<Option<Outcome>> = vec![None; calls.len()];
    for task in tasks {
        for (index, outcome) in task.await?? {
            ensure!(outcomes[index].replace(outcome).is_none(), "call {index} was answered twice");
        }
    }
    let outcomes: Option<Vec<Outcome>> = outcomes.into_iter().collect();
    Ok(Outcomes(outcomes.context("a call was never answered")?))
}

async fn client(
    calls: Arc<Vec<Call>>,
    mut waiting: VecDeque<usize>,
    address: Address,
    progress: Arc<Progress>,
    window: usize,
) -> anyhow::Result<Vec<(usize, Outcome)>> {
    let mut outcomes = Vec::new();
    let mut sent: BTreeMap<usize, Instant> = BTreeMap::new();
    while !waiting.is_empty() {
        let ingress = address.wait().await;
        let Ok((socket, _)) = connect_async(format!("ws://{ingress}/v1/ws")).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let (mut sink, mut stream) = socket.split();
        let mut flying: BTreeMap<usize, ()> = BTreeMap::new();
        // Until all is answered, or the connection breaks.
        'connected: loop {
            while flying.len() < window
                && let Some(index) = waiting.pop_front()
            {
                sent.entry(index).or_insert_with(Instant::now);
                flying.insert(index, ());
                progress.in_flight.fetch_add(1, Ordering::Relaxed);
                if sink.feed(Message::text(encode(index, &calls[index]))).await.is_err() {
                    break 'connected;
                }
            }
            if sink.flush().await.is_err() || flying.is_empty() {
                break;
            }
            let Some(Ok(message)) = stream.next().await else { break };
            let Message::Text(text) = message else { continue };
            let answer: Answer = serde_json::from_str(&text).with_context(|| format!("the server sent {text}"))?;
            let index = answer.id.context("an answer without id")?;
            let outcome = match (answer.ok, answer.error) {
                (Some(ok), _) => Outcome::Committed(ok.get().to_string()),
                (None, Some(error)) if matches!(&*error.code, "OVERLOADED" | "UNAVAILABLE" | "OUTCOME_UNKNOWN") => {
                    waiting.push_back(index);
                    flying.remove(&index);
                    progress.in_flight.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                (None, Some(error)) => Outcome::Aborted { code: error.code, message: error.message },
                (None, None) => Outcome::Committed("null".into()),
            };
            ensure!(flying.remove(&index).is_some(), "call {index} was answered though it was not asked");
            progress.in_flight.fetch_sub(1, Ordering::Relaxed);
            progress.answer(sent[&index]);
            outcomes.push((index, outcome));
        }
        // Not answered is not known: ask again, in the old order.
        progress.in_flight.fetch_sub(flying.len(), Ordering::Relaxed);
        for index in flying.into_keys().rev() {
            waiting.push_front(index);
        }
    }
    Ok(outcomes)
}

fn encode(index: usize, call: &Call) -> String {
    json!({"id": index, "app": call.app, "operator": call.operator, "key": call.key, "function": call.function, "args": call.args, "idempotency_key": format!("demo-{index}")}).to_string()
}

/// Creates what the calls work on.
pub(super) async fn setup(ingress: &str, workload: &Workload) -> anyhow::Result<()> {
    for Call { app, operator, key, function, args } in &workload.setup {
        call(ingress, &format!("{app}/{operator}/{key}/{function}"), args).await?;
    }
    Ok(())
}

/// One call over HTTP.
pub(super) async fn call(ingress: &str, target: &str, args: &Value) -> anyhow::Result<Value> {
    let response = reqwest::Client::new().post(format!("http://{ingress}/v1/call/{target}")).json(args).send().await?;
    let status = response.status();
    let body: Value = response.json().await?;
    ensure!(status.is_success(), "{target} answered {status}: {body}");
    Ok(body)
}

/// Makes every call once more under its old idempotency key: the answers must be the old ones.
pub(super) async fn repeat(ingress: &str, workload: &Workload, outcomes: &Outcomes) -> anyhow::Result<Proof> {
    let again = drive(workload.calls.clone(), Address::new(ingress), Progress::new(), 2, 256).await?;
    let same = again.0.iter().zip(&outcomes.0).filter(|(again, before)| again == before).count();
    Ok(Proof {
        claim: format!(
            "asked again under the same idempotency keys, {same} of {} calls give the same answer",
            outcomes.0.len()
        ),
        holds: same == outcomes.0.len(),
    })
}
