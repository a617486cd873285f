//! Clients of another app, which must not notice what goes on beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::process::{Endpoints, Process, testkit};

/// The app that the neighbours use.
pub const APP: &str = "calm";
pub const OPERATORS: [&str; 2] = ["calm/a", "calm/b"];

const CLIENTS: u64 = 2;
/// Longest that a single answer may take: transactions of an epoch wait for each other, and the
/// worst of them burns all of its fuel, twice, on a machine that may be busy otherwise.
const LATENCY_MAX: Duration = Duration::from_secs(15);
const MEDIAN_MAX: Duration = Duration::from_secs(1);

pub struct Neighbours {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Duration>>>,
}

impl Neighbours {
    /// Deploys the app and starts its clients.
    pub async fn move_in(server: &Process) -> Neighbours {
        server.deploy(APP, "application/zip", testkit().await).await.is_deployed();
        let stop = Arc::new(AtomicBool::new(false));
        let clients = (0..CLIENTS)
            .map(|number| {
                tokio::spawn(client(number, server.ingress().to_owned(), server.http().clone(), stop.clone()))
            })
            .collect();
        Neighbours { stop, clients }
    }

    /// Stops them; every one of their calls has succeeded, in time and with the right result.
    pub async fn are_content(self) {
        self.stop.store(true, Ordering::Relaxed);
        let mut latencies = Vec::new();
        for client in self.clients {
            latencies.extend(client.await.unwrap());
        }
        latencies.sort();
        let (calls, median, longest) =
            (latencies.len(), latencies[latencies.len() / 2], latencies[latencies.len() - 1]);
        println!("neighbours: {calls} calls, median {median:?}, longest {longest:?}");
        assert!(calls >= 20, "{calls} calls");
        assert!(median < MEDIAN_MAX && longest < LATENCY_MAX, "median {median:?}, longest {longest:?}");
    }
}

/// Grows a list and removes it again, through two operators, and knows what each answer must be.
async fn client(number: u64, ingress: String, http: reqwest::Client, stop: Arc<AtomicBool>) -> Vec<Duration> {
    let mut latencies = Vec::new();
    let mut call = async |path: String, arguments: Value, expect: Value| {
        let started = Instant::now();
        let sent = http.post(format!("http://{ingress}/v1/call/{APP}/{path}")).json(&arguments).send().await.unwrap();
        let (status, told) = (sent.status(), sent.json::<Value>().await.unwrap());
        latencies.push(started.elapsed());
        assert_eq!((status.as_u16(), told), (200, expect), "{path}");
    };
    while !stop.load(Ordering::Relaxed) {
        let mut list = Vec::new();
        for element in 0..5 {
            list.push(element);
            call(format!("a/n{number}/append"), json!([element]), json!(list)).await;
        }
        call(format!("a/n{number}/list"), json!([]), json!(list)).await;
        call(format!("b/m{number}/ping_pong"), json!([1]), json!([1, 1])).await;
        for key in [format!("a/n{number}"), format!("a/m{number}"), format!("b/m{number}")] {
            call(format!("{key}/delete"), json!([]), json!(true)).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    latencies
}
