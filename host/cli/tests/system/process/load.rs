//! Clients that append to lists without pause, and what they were told compared with what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use styx_client::{Call, Client};

const CLIENTS: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(60);
/// Lists that are appended to at a time.
pub const KEYS: u64 = 5;
/// Elements of each client until others take their place: an answer is the whole list, and is remembered.
const TURN: u64 = 200;
/// The numbers of a client begin with a multiple of this.
const CLIENT: u64 = 1_000_000;

/// The list that an element belongs to.
pub fn list(element: u64) -> u64 {
    element % CLIENT / TURN * KEYS + element % KEYS
}

/// What one client did.
#[derive(Default)]
struct Record {
    /// An element, and the list after it: acknowledged.
    answered: Vec<(u64, Value)>,
    /// Elements of requests whose end is unknown.
    unknown: Vec<u64>,
    codes: BTreeSet<String>,
    /// The longest wait for an answer.
    longest: Duration,
}

fn append(client: &Client, element: u64) -> Call<'_> {
    client.call("testkit", "a", &format!("list-{}", list(element)), "append", json!([element]))
}

/// Appends numbers of its own to lists, one after the other. With `keyed`, under an idempotency key:
/// then there is always an answer, sooner or later.
async fn appends(number: u64, keyed: bool, client: Client, stop: Arc<AtomicBool>, count: Arc<AtomicU64>) -> Record {
    let mut record = Record::default();
    let mut next = number * CLIENT;
    while !stop.load(Ordering::Relaxed) {
        let element = next;
        next += 1;
        let call = append(&client, element);
        let call = if keyed { call.idempotency_key(format!("e{element}")) } else { call.without_key() };
        let asked = Instant::now();
        let answer = call.await;
        record.longest = record.longest.max(asked.elapsed());
        match answer {
            Ok(list) => {
                record.answered.push((element, list));
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.outcome_unknown() && !keyed => {
                record.codes.insert(error.code);
                record.unknown.push(element);
            }
            Err(error) => panic!("client {number}, with a key: {keyed}, is told {error}"),
        }
    }
    record
}

/// Clients under way.
pub struct Load {
    client: Client,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    clients: Vec<tokio::task::JoinHandle<Record>>,
}

/// What a load came to.
pub struct Outcome {
    pub answered: usize,
    /// Requests whose end is unknown.
    pub unknown: usize,
    /// How many of these had happened.
    pub happened: usize,
    /// The codes of these.
    pub codes: BTreeSet<String>,
    /// The longest wait for an answer.
    pub longest: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { answered, unknown, happened, longest, .. } = self;
        write!(f, "{answered} answered, {unknown} unknown, of which {happened} had happened; longest wait {longest:?}")
    }
}

impl Outcome {
    /// Asserts that whoever was not told an end was told so, by the gateway.
    pub fn told_by_gateway(self) -> Outcome {
        assert!(self.codes.iter().all(|code| code == "OUTCOME_UNKNOWN"), "{:?}", self.codes);
        self
    }
}

impl Load {
    /// Two of three clients have idempotency keys. Whether they ask again is up to `client`.
    pub fn on(client: &Client) -> Load {
        let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let clients = (1..=CLIENTS)
            .map(|number| tokio::spawn(appends(number, number % 3 > 0, client.clone(), stop.clone(), count.clone())));
        Load { client: client.clone(), clients: clients.collect(), stop, count }
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
        tokio::time::timeout(PATIENCE, wait).await.expect("requests go on being answered");
    }

    /// Ends the load and compares what clients were told with what there is.
    pub async fn ends(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let mut records = Vec::new();
        for client in self.clients {
            records.push(client.await.unwrap());
        }
        let told = records.iter().flat_map(|record| record.answered.iter().map(|(element, _)| element));
        let elements = told.chain(records.iter().flat_map(|record| &record.unknown));
        let keys: BTreeSet<u64> = elements.map(|element| list(*element)).collect();
        let mut found = BTreeMap::new();
        for key in keys {
            let list = self.client.call("testkit", "a", &format!("list-{key}"), "list", json!([])).await.unwrap();
            let list: Vec<u64> = serde_json::from_value(list).unwrap();
            let distinct: BTreeSet<u64> = list.iter().copied().collect();
            assert_eq!(distinct.len(), list.len(), "list {key} holds an element twice: {list:?}");
            found.insert(key, list);
        }
        let (mut answered, mut unknown, mut happened) = (0, 0, 0);
        for record in &records {
            for (element, seen) in &record.answered {
                let key = list(*element);
                answered += 1;
                // What a client once saw is the beginning of the list for ever, and ends with its own element.
                let seen: Vec<u64> = serde_json::from_value(seen.clone()).unwrap();
                assert_eq!(seen.last(), Some(element), "list {key}");
                assert_eq!(Some(&seen[..]), found[&key].get(..seen.len()), "list {key} changed after it was seen");
            }
            unknown += record.unknown.len();
            happened += record.unknown.iter().filter(|element| found[&list(**element)].contains(element)).count();
        }
        let held: usize = found.values().map(Vec::len).sum();
        assert_eq!(held, answered + happened, "the lists hold what was acknowledged, and some of what is unknown");
        // Asked again under its key, each gets the answer that it got.
        for (number, record) in records.iter().enumerate().filter(|(number, _)| (number + 1) % 3 > 0) {
            for (element, seen) in record.answered.iter().step_by(17) {
                let again = append(&self.client, *element).idempotency_key(format!("e{element}")).await.unwrap();
                assert_eq!(again, *seen, "client {}", number + 1);
            }
        }
        let longest = records.iter().map(|record| record.longest).max().unwrap_or_default();
        let codes = records.into_iter().flat_map(|record| record.codes).collect();
        Outcome { answered, unknown, happened, codes, longest }
    }
}
