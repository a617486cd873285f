//! Migrations of a cluster under test: what is asked for, and what has come of it.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use styx_client::{Client, Method};

/// How often one is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How partitions get to their new owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// When the new owners have followed them, while everything goes on
    Online,
    /// At once, and what is in them afterwards
    Immediate,
    /// Everything rests, and they are read from a snapshot
    StopAndRestart,
}

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The first so many workers have everything.
    Workers(usize),
    /// There are so many partitions.
    Partitions(u32),
}

/// What has come of a migration, or of its beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Migrated {
    /// `done`, or why not.
    pub state: String,
    pub took: Duration,
    pub partitions: u64,
    pub bytes: u64,
    /// Bytes that those who have too many had more than their share when it began.
    pub least_bytes: u64,
}

/// Owners tell with their heartbeats how much they have copied: after the end as well, if that came first.
const TOLD_LATE: Duration = Duration::from_secs(2);

/// Has partitions be as they are wanted, and waits for it.
pub async fn migrate(client: &Client, goal: Goal, mode: Mode) -> anyhow::Result<Migrated> {
    let (least_bytes, request) = match goal {
        Goal::Workers(workers) => {
            (least(&held(client).await?, workers), json!({ "workers": workers, "mode": mode, "wait": false }))
        }
        Goal::Partitions(partitions) => (0, json!({ "partitions": partitions, "mode": mode, "wait": false })),
    };
    let answer = client.admin_request(Method::POST, "/v1/migrations").json(&request).send().await?;
    let (status, answer) = (answer.status(), answer.json::<Value>().await?);
    if !status.is_success() {
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        let state = format!("refused: {message}");
        return Ok(Migrated { state, took: Duration::ZERO, partitions: 0, bytes: 0, least_bytes });
    }
    let id = answer["id"].as_str().context("a migration has an id")?;
    let number = |of: &Value| of.as_u64().unwrap_or_default();
    let mut ended = None;
    let seen = loop {
        let seen = client.admin(&format!("/v1/migrations/{id}")).await?;
        if ["done", "cancelled", "failed"].iter().any(|end| seen["state"] == *end) {
            let ended = ended.get_or_insert_with(Instant::now);
            let (done, of) = (number(&seen["bytes"]["done"]), number(&seen["bytes"]["of"]));
            if (done > 0 && done >= of) || ended.elapsed() > TOLD_LATE {
                break seen;
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    };
    Ok(Migrated {
        state: seen["state"].as_str().unwrap_or_default().to_owned(),
        took: Duration::from_millis(number(&seen["took_ms"])),
        partitions: number(&seen["partitions"]["of"]),
        bytes: number(&seen["bytes"]["done"]),
        least_bytes,
    })
}

/// Bytes that each worker has.
async fn held(client: &Client) -> anyhow::Result<Vec<u64>> {
    let workers = client.admin("/v1/workers").await?;
    let all = workers["workers"].as_array().context("workers are an array")?;
    let mut held: Vec<(u64, u64)> = all
        .iter()
        .map(|worker| Some((worker["worker"].as_u64()?, worker["bytes"].as_u64()?)))
        .collect::<Option<_>>()
        .context("a worker has a number and bytes")?;
    held.sort_unstable();
    Ok(held.into_iter().map(|(_, bytes)| bytes).collect())
}

/// What must go at least, so that the first `workers` have all, and each as much as any other.
fn least(held: &[u64], workers: usize) -> u64 {
    let share = held.iter().sum::<u64>().div_ceil(workers.max(1) as u64);
    let goes = |(at, bytes): (usize, &u64)| if at < workers { bytes.saturating_sub(share) } else { *bytes };
    held.iter().enumerate().map(goes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_go_at_least_is_what_is_too_much() {
        assert_eq!(least(&[30, 30, 0], 3), 20);
        assert_eq!(least(&[20, 20, 20], 2), 20);
        assert_eq!(least(&[20, 20, 20], 3), 0);
        assert_eq!(least(&[15, 15, 15, 15], 3), 15);
    }
}
