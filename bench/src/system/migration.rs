//! Migrations of a cluster under test: what is asked for, and what has come of it.

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum as _;
use serde_json::{Value, json};
use styx_client::{Client, Method};

/// How often one is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How often its course is asked for after its end, and for how long: it is complete some twelve seconds later.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const ASK_MAX: Duration = Duration::from_secs(15);

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

impl Mode {
    /// As it is written after `--migrate`, and asked for.
    pub fn name(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_name().to_owned()
    }
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Migrated {
    /// `done`, or why not.
    pub state: String,
    pub took: Duration,
    pub partitions: u64,
    pub bytes: u64,
    /// Bytes that those who have too many had more than their share when it began.
    pub least_bytes: u64,
    /// The states that it came to before its end, and when, from its beginning.
    pub phases: Vec<(Duration, String)>,
    /// How it went for those who called, from some seconds before it until some after it.
    pub course: Vec<Piece>,
}

impl Migrated {
    /// The longest epochs before it, in the pieces that it touched, and afterwards, ms, if it began then in a span that was
    /// so long: what the system was at before that, and when nothing was asked of it any more, says nothing.
    pub fn longest_epochs(&self, began: Duration, span: Duration) -> [Option<f64>; 3] {
        let ms = |time: Duration| time.as_millis() as i64;
        let mut longest = [None; 3];
        for piece in &self.course {
            let (from, until) = (piece.after_ms, piece.after_ms + piece.ms);
            let part = match (until > 0, from >= ms(self.took)) {
                (false, _) if from >= -ms(began) => 0,
                (true, false) => 1,
                (true, true) if until <= ms(span) - ms(began) => 2,
                _ => continue,
            };
            longest[part] = longest[part].into_iter().chain(piece.longest_epoch_ms).reduce(f64::max);
        }
        longest
    }
}

/// A few seconds of the course of a migration.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub struct Piece {
    /// When it begins, from the beginning of the migration.
    pub after_ms: i64,
    pub ms: i64,
    /// Of the epochs that ended in it, if any did.
    pub longest_epoch_ms: Option<f64>,
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
        return Ok(Migrated { state, least_bytes, ..Migrated::default() });
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
    // Where nothing had to go, as before anything is there, nobody could notice.
    let course =
        if least_bytes > 0 || matches!(goal, Goal::Partitions(_)) { course(client, id).await } else { Vec::new() };
    Ok(Migrated {
        phases: phases(&seen),
        course,
        state: seen["state"].as_str().unwrap_or_default().to_owned(),
        took: Duration::from_millis(number(&seen["took_ms"])),
        partitions: number(&seen["partitions"]["of"]),
        bytes: number(&seen["bytes"]["done"]),
        least_bytes,
    })
}

/// The states that a migration was in after the first one, without that of its end.
fn phases(seen: &Value) -> Vec<(Duration, String)> {
    let all = seen["phases"].as_array().into_iter().flatten().skip(1).filter(|phase| phase["state"] != seen["state"]);
    let phase = |phase: &Value| {
        let after = Duration::try_from_secs_f64(phase["after_ms"].as_f64()? / 1e3).ok()?;
        Some((after, phase["state"].as_str()?.to_owned()))
    };
    all.filter_map(phase).collect()
}

/// The course of a migration that has ended; nothing, of a server that does not keep it.
async fn course(client: &Client, id: &str) -> Vec<Piece> {
    let since = Instant::now();
    while let Ok(mut seen) = client.admin(&format!("/v1/migrations/{id}/course")).await {
        if seen["complete"] == true || since.elapsed() > ASK_MAX {
            return serde_json::from_value(seen["points"].take()).unwrap_or_default();
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
    Vec::new()
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
    fn phases_are_what_comes_between_its_beginning_and_its_end() {
        let phase = |state: &str, after_ms: f64| json!({ "state": state, "after_ms": after_ms });
        let phases_of = |all: Value| phases(&json!({ "state": "done", "phases": all }));
        let all = json!([phase("copying", 0.0), phase("flipping", 1200.5), phase("done", 1500.0)]);
        assert_eq!(phases_of(all), [(Duration::from_micros(1_200_500), "flipping".to_owned())]);
        assert_eq!(phases_of(Value::Null), []);
    }

    #[test]
    fn the_longest_epochs_are_of_what_was_measured_only() {
        let piece = |after_ms, ms| Piece { after_ms, ms: 2000, longest_epoch_ms: Some(ms) };
        let mut migrated = Migrated {
            took: Duration::from_secs(3),
            course: vec![
                piece(-6500, 900.0),
                piece(-4500, 20.0),
                piece(-2500, 10.0),
                piece(-500, 30.0),
                piece(1500, 60.0),
                piece(3500, 15.0),
                Piece { longest_epoch_ms: None, ..piece(5500, 0.0) },
                piece(9500, 800.0),
            ],
            ..Migrated::default()
        };
        let in_span =
            |migrated: &Migrated, span| migrated.longest_epochs(Duration::from_secs(5), Duration::from_secs(span));
        assert_eq!(in_span(&migrated, 16), [Some(20.0), Some(60.0), Some(15.0)]);
        // One that goes on beyond the span is told of to its end.
        migrated.took = Duration::from_secs(10);
        assert_eq!(in_span(&migrated, 6), [Some(20.0), Some(800.0), None]);
        migrated.course.clear();
        assert_eq!(in_span(&migrated, 16), [None; 3]);
    }

    #[test]
    fn what_must_go_at_least_is_what_is_too_much() {
        assert_eq!(least(&[30, 30, 0], 3), 20);
        assert_eq!(least(&[20, 20, 20], 2), 20);
        assert_eq!(least(&[20, 20, 20], 3), 0);
        assert_eq!(least(&[15, 15, 15, 15], 3), 15);
    }
}
