//! Clients that append to lists without pause, and what they were told compared with what there is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::process::told;
use crate::support::{Cluster, PATIENCE};

const CLIENTS: u64 = 10;
/// Lists.
pub const KEYS: u64 = 5;

/// What one client did.
#[derive(Default)]
struct Record {
    /// Key, element, and the list after it: acknowledged.
    answered: Vec<(u64, u64, Vec<u64>)>,
    /// Key and element: nobody knows.
    doubtful: Vec<(u64, u64)>,
    /// The longest that it waited for an answer.
    longest: Duration,
}

/// Appends numbers of its own to lists, one after the other. With `keyed`, under an idempotency key:
/// then there is always an answer, sooner or later.
async fn client(number: u64, keyed: bool, ingress: String, stop: Arc<AtomicBool>, count: Arc<AtomicU64>) -> Record {
    let http = Client::builder().timeout(PATIENCE).build().unwrap();
    let mut record = Record::default();
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let element = number * 1_000_000 + next;
        let key = element % KEYS;
        next += 1;
        let mut request =
            http.post(format!("http://{ingress}/v1/call/testkit/a/list-{key}/append")).body(format!("[{element}]"));
        if keyed {
            request = request.header("idempotency-key", format!("e{element}"));
        }
        let asked = Instant::now();
        let answer = told(request).await;
        record.longest = record.longest.max(asked.elapsed());
        match answer.code() {
            "OK" => {
                let list = answer.body.as_array().unwrap().iter().map(|element| element.as_u64().unwrap());
                record.answered.push((key, element, list.collect()));
                count.fetch_add(1, Ordering::Relaxed);
            }
            "OUTCOME_UNKNOWN" if !keyed => record.doubtful.push((key, element)),
            other => panic!("client {number}, with a key: {keyed}, is told {other}: {}", answer.body),
        }
    }
    record
}

/// A cluster under load.
pub struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    clients: Vec<tokio::task::JoinHandle<Record>>,
}

/// What a load came to.
pub struct Outcome {
    pub answered: usize,
    /// Clients were told that nobody knows.
    pub doubtful: usize,
    /// Of these.
    pub happened: usize,
    /// The longest that somebody waited for an answer.
    pub longest: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { answered, doubtful, happened, longest } = self;
        write!(
            f,
            "{answered} answered, {doubtful} doubtful, of which {happened} had happened; longest wait {longest:?}"
        )
    }
}

impl Load {
    pub fn on(cluster: &Cluster) -> Load {
        let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let clients = (1..=CLIENTS).map(|number| {
            let ingress = cluster.gateway.at("ingress").to_owned();
            tokio::spawn(client(number, number % 3 > 0, ingress, stop.clone(), count.clone()))
        });
        Load { clients: clients.collect(), stop, count }
    }

    /// Waits for so many more answers.
    pub async fn goes_on(&self, more: u64) {
        let target = self.count.load(Ordering::Relaxed) + more;
        let wait = async {
            while self.count.load(Ordering::Relaxed) < target {
                if let Some(ended) = self.clients.iter().position(|client| client.is_finished()) {
                    panic!("client {} has ended", ended + 1);
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the cluster goes on answering");
    }

    /// Ends the load and compares what clients were told with what there is.
    pub async fn ends(self, cluster: &Cluster) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let mut records = Vec::new();
        for client in self.clients {
            records.push(client.await.unwrap());
        }
        let mut found = BTreeMap::new();
        for key in 0..KEYS {
            let request = cluster.to_ingress(Method::POST, &format!("/v1/call/testkit/a/list-{key}/list"));
            let list: Vec<u64> = serde_json::from_value(told(request.body("[]")).await.body).unwrap();
            let distinct: std::collections::BTreeSet<u64> = list.iter().copied().collect();
            assert_eq!(distinct.len(), list.len(), "list {key} holds an element twice: {list:?}");
            found.insert(key, list);
        }
        let (mut answered, mut doubtful, mut happened) = (0, 0, 0);
        for record in &records {
            for (key, element, seen) in &record.answered {
                answered += 1;
                // What a client once saw is the beginning of the list for ever, and ends with its own element.
                assert_eq!(seen.last(), Some(element), "list {key}");
                assert_eq!(Some(&seen[..]), found[key].get(..seen.len()), "list {key} changed after it was seen");
            }
            doubtful += record.doubtful.len();
            happened += record.doubtful.iter().filter(|(key, element)| found[key].contains(element)).count();
        }
        let held: usize = found.values().map(Vec::len).sum();
        assert_eq!(held, answered + happened, "the lists hold what was acknowledged, and of the rest what is doubtful");
        // Asked again under its key, each gets the answer that it got.
        for (number, record) in records.iter().enumerate().filter(|(number, _)| (number + 1) % 3 > 0) {
            for (key, element, seen) in record.answered.iter().step_by(17) {
                let request = cluster.to_ingress(Method::POST, &format!("/v1/call/testkit/a/list-{key}/append"));
                let request = request.header("idempotency-key", format!("e{element}")).json(&json!([element]));
                let again: Value = told(request).await.body;
                assert_eq!(again, json!(seen), "client {}", number + 1);
            }
        }
        let longest = records.iter().map(|record| record.longest).max().unwrap_or_default();
        Outcome { answered, doubtful, happened, longest }
    }
}
