//! People who look at the console while a system works: what their pages read, as often as they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use styx_client::{Client, Method};
use tokio::task::JoinSet;

/// Paths that a page reads again and again, and how often: the overview, and the page of the cluster.
const PAGES: [&[(&str, Duration)]; 2] = [
    &[
        ("/v1/traffic", Duration::from_secs(2)),
        ("/v1/requests?kind=recent&limit=100", Duration::from_secs(2)),
        ("/v1/cluster", Duration::from_secs(5)),
        // What needs attention is looked for when somebody asks: all partitions, and all that processes report.
        ("/v1/attention", Duration::from_secs(5)),
        ("/v1/snapshots", Duration::from_secs(15)),
    ],
    &[
        ("/v1/workers", Duration::from_secs(2)),
        // Reads what gateways and workers have reported since: the reports come whether anybody looks or not.
        ("/v1/nodes", Duration::from_secs(2)),
        ("/v1/partitions?limit=65536", Duration::from_secs(2)),
        ("/v1/migrations", Duration::from_secs(5)),
        ("/v1/cluster", Duration::from_secs(5)),
    ],
];

/// What all of them have been shown.
#[derive(Debug, Default)]
struct Shown {
    /// Pages, or parts of them.
    pages: AtomicU64,
    /// Pieces of what is told as it happens.
    events: AtomicU64,
    bytes: AtomicU64,
    /// Answers that were errors, or none.
    failed: AtomicU64,
}

/// They look until this value ends.
#[derive(Debug)]
pub struct Viewers {
    shown: Arc<Shown>,
    _looking: JoinSet<()>,
}

impl Viewers {
    /// So many people look at an admin address, half of them at each of two pages.
    pub fn begin(count: usize, client: &Client) -> Self {
        let shown = Arc::<Shown>::default();
        let mut looking = JoinSet::new();
        for viewer in 0..count {
            let (follower, seen) = (client.clone(), shown.clone());
            looking.spawn(async move { follow(&follower, &seen).await });
            for (path, every) in PAGES[viewer % PAGES.len()] {
                let (client, seen) = (client.clone(), shown.clone());
                // Not all at the same moment.
                let first = every.mul_f64(viewer as f64 / count as f64);
                looking.spawn(async move { look(&client, path, first, *every, &seen).await });
            }
        }
        Viewers { shown, _looking: looking }
    }

    /// What all of them have been shown so far.
    pub fn shown(&self) -> [(String, f64); 4] {
        let Shown { pages, events, bytes, failed } = &*self.shown;
        [("viewed_pages", pages), ("viewed_events", events), ("viewed_bytes", bytes), ("viewed_failed", failed)]
            .map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed) as f64))
    }
}

/// Reads a page again and again.
async fn look(client: &Client, path: &str, first: Duration, every: Duration, seen: &Shown) {
    let mut times = tokio::time::interval_at(tokio::time::Instant::now() + first, every);
    loop {
        times.tick().await;
        match read(client, path).await {
            Ok(bytes) => {
                seen.pages.fetch_add(1, Ordering::Relaxed);
                seen.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Err(_) => drop(seen.failed.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

async fn read(client: &Client, path: &str) -> anyhow::Result<u64> {
    let response = client.admin_request(Method::GET, path).send().await?.error_for_status()?;
    Ok(response.bytes().await?.len() as u64)
}

/// Reads what is told as it happens; connects again when that is lost.
async fn follow(client: &Client, seen: &Shown) {
    loop {
        let answer = client.admin_request(Method::GET, "/v1/events").send().await;
        if let Ok(mut answer) = answer.and_then(|answer| answer.error_for_status()) {
            while let Ok(Some(piece)) = answer.chunk().await {
                seen.events.fetch_add(1, Ordering::Relaxed);
                seen.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
        }
        seen.failed.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
