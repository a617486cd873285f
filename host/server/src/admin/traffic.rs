//! `GET /v1/traffic`: how many requests have been answered, how, and how long they took: here, or by all gateways
//! together.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::Admin;
use crate::http::{BUCKETS_US, OUTCOMES, Outcome};
use crate::nodes::{FunctionCounts, Latency};

#[derive(Serialize, ToSchema)]
pub struct Traffic {
    outcomes: Vec<OutcomeView>,
    /// Requests that ended in an error, by its code.
    errors: Vec<ErrorView>,
    /// Functions that were called, also by others, the first thousand that were deployed; all others are one, `other`.
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
    /// How often it was run, for requests and for other functions, also where that had no effect and was made again.
    invocations: u64,
    /// Fuel of all invocations, without that of what they called.
    fuel: u64,
}

impl FunctionTraffic {
    fn of(counts: FunctionCounts) -> Self {
        use Outcome::{Aborted, Accepted, Answered, Committed, Failed, Overloaded, Refused};
        let sum = |outcomes: &[Outcome]| -> u64 {
            outcomes.iter().filter_map(|outcome| counts.outcomes.get(*outcome as usize)).sum()
        };
        FunctionTraffic {
            succeeded: sum(&[Committed, Answered, Accepted]),
            aborted: sum(&[Aborted]),
            failed: sum(&[Refused, Failed, Overloaded]),
            seconds: seconds(&counts.duration),
            buckets: buckets(&counts.duration),
            invocations: counts.invocations,
            fuel: counts.fuel,
            app: counts.app,
            operator: counts.operator,
            function: counts.function,
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
    code: String,
    count: u64,
}

fn seconds(latency: &Latency) -> f64 {
    latency.sum_us as f64 / 1e6
}

fn buckets(latency: &Latency) -> Vec<BucketView> {
    let ends = BUCKETS_US.iter().map(|&us| Some(us as f64 / 1e6)).chain([None]);
    let counts = latency.buckets.iter().copied().chain(std::iter::repeat(0));
    ends.zip(counts).map(|(seconds_max, count)| BucketView { seconds_max, count }).collect()
}

impl OutcomeView {
    fn of(outcome: &'static str, latency: &Latency) -> Self {
        OutcomeView { outcome, count: latency.count(), seconds: seconds(latency), buckets: buckets(latency) }
    }
}

/// How many requests were answered, how, and how long they took
///
/// Sums since the process began. In a cluster: of all gateways and workers together, as each has reported it within the last two seconds, and
/// with the figures of those that are no more; each has its own at `/metrics`.
#[utoipa::path(get, path = "/v1/traffic", responses((status = 200, body = Traffic)))]
pub async fn traffic(State(admin): State<Admin>) -> Json<Traffic> {
    let sum = admin.all_traffic();
    let outcomes = OUTCOMES.iter().zip(&sum.outcomes).map(|((_, name), latency)| OutcomeView::of(name, latency));
    Json(Traffic {
        outcomes: outcomes.collect(),
        errors: sum.errors.into_iter().map(|(code, count)| ErrorView { code, count }).collect(),
        functions: sum.functions.into_iter().map(FunctionTraffic::of).collect(),
    })
}
