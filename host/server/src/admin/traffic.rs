//! `GET /v1/traffic`: how many requests this process's ingress has answered, how, and how long they took.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::{FunctionStats, Latencies, OUTCOMES, Outcome, Reading};

#[derive(Serialize, ToSchema)]
pub struct Traffic {
    outcomes: Vec<OutcomeView>,
    /// Requests that ended in an error, by its code.
    errors: Vec<ErrorView>,
    /// Functions that were called, the first thousand that were deployed; all others are one, `other`.
    functions: Vec<FunctionTraffic>,
}

/// Calls of one function.
#[derive(Serialize, ToSchema)]
pub struct FunctionTraffic {
    app: String,
    operator: String,
    function: String,
    /// Calls that had an answer, a commit or a receipt.
    succeeded: u64,
    aborted: u64,
    /// Calls that were refused, failed, or found no room.
    failed: u64,
    /// Of all together.
    seconds: f64,
    buckets: Vec<BucketView>,
}

impl FunctionTraffic {
    fn of(stats: &FunctionStats) -> Self {
        use Outcome::{Aborted, Accepted, Answered, Committed, Failed, Overloaded, Refused};
        let sum = |outcomes: &[Outcome]| -> u64 { outcomes.iter().map(|outcome| stats.ended(*outcome)).sum() };
        let reading = stats.duration.read();
        FunctionTraffic {
            app: stats.app.clone(),
            operator: stats.operator.clone(),
            function: stats.function.clone(),
            succeeded: sum(&[Committed, Answered, Accepted]),
            aborted: sum(&[Aborted]),
            failed: sum(&[Refused, Failed, Overloaded]),
            seconds: reading.sum,
            buckets: buckets(&reading),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct OutcomeView {
    /// `committed`, `answered`, `accepted`, `aborted`, `refused`, `failed` or `overloaded`.
    outcome: &'static str,
    count: u64,
    /// Of all together.
    seconds: f64,
    buckets: Vec<BucketView>,
}

/// Requests that took longer than the bucket before, and no longer than this.
#[derive(Serialize, ToSchema)]
pub struct BucketView {
    /// Null for the last one, which is open.
    seconds_max: Option<f64>,
    count: u64,
}

#[derive(Serialize, ToSchema)]
pub struct ErrorView {
    code: &'static str,
    count: u64,
}

fn buckets(reading: &Reading) -> Vec<BucketView> {
    let bucket =
        |(end, count): &(f64, u64)| BucketView { seconds_max: Some(*end).filter(|end| end.is_finite()), count: *count };
    reading.buckets.iter().map(bucket).collect()
}

impl OutcomeView {
    fn of(outcome: &'static str, reading: &Reading) -> Self {
        OutcomeView { outcome, count: reading.count, seconds: reading.sum, buckets: buckets(reading) }
    }
}

/// How many requests were answered here, how, and how long they took
///
/// Sums since the process began. In a cluster calls go to gateways, each of which has its own at `/metrics`.
#[utoipa::path(get, path = "/v1/traffic", responses((status = 200, body = Traffic)))]
pub async fn traffic(State(latencies): State<Arc<Latencies>>) -> Json<Traffic> {
    Json(Traffic {
        outcomes: OUTCOMES
            .iter()
            .map(|(outcome, name)| OutcomeView::of(name, &latencies.of(*outcome).read()))
            .collect(),
        errors: latencies.errors().into_iter().map(|(code, count)| ErrorView { code, count }).collect(),
        functions: latencies.functions.called().into_iter().map(FunctionTraffic::of).collect(),
    })
}
