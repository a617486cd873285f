//! The autoscaler: what it wants, and why.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use styx_driver::autoscale::{Decision, Wish};
use utoipa::ToSchema;

use crate::autoscale_stats::{Decided, Known, Ran};
use crate::handle::Handle;

#[derive(Serialize, ToSchema)]
pub struct AutoscalerView {
    /// `off`, `proposes`, or `performs` where it has a command.
    mode: &'static str,
    /// The fewest workers that it wants, and the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
    /// The last look.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<DecisionView>,
    /// Looks that wanted a change, the newest first. They are forgotten when the coordinator ends.
    decisions: Vec<DecisionView>,
}

/// What was seen, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DecisionView {
    /// µs since 1970.
    at: u64,
    /// `stay`, `out`, `in`, or `balance`: one worker has much more to do than others.
    wish: &'static str,
    /// Workers that there were, and that there should be.
    workers: u32,
    wanted: u32,
    /// How busy each worker was, of a hundred; none if that could not be said.
    busy: Vec<u32>,
    /// Calls of functions a second that came.
    arrives: u64,
    /// Those that the workers could do, as far as they have shown.
    capacity: u64,
    reason: String,
    /// What has become of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<CommandView>,
    /// What has become of a balance.
    #[serde(skip_serializing_if = "Option::is_none")]
    balance: Option<BalanceView>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct BalanceView {
    /// The migration that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    migration: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CommandView {
    /// `done` or `failed`.
    state: &'static str,
    /// How often it was run.
    tries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<&Decided> for DecisionView {
    fn from(Decided { at, decision, ran, balanced }: &Decided) -> Self {
        let Decision { wish, workers, wanted, busy, arrives, capacity, reason } = decision.clone();
        let wish = match wish {
            Wish::Stay => "stay",
            Wish::Out => "out",
            Wish::In => "in",
            Wish::Balance => "balance",
        };
        let command = ran.as_ref().map(|(ran, tries)| match ran {
            Ran::Done => CommandView { state: "done", tries: *tries, reason: None },
            Ran::Failed(why) => CommandView { state: "failed", tries: *tries, reason: Some(why.clone()) },
        });
        let balance = balanced.clone().map(|begun| match begun {
            Ok(id) => BalanceView { migration: Some(id.to_string()), reason: None },
            Err(why) => BalanceView { migration: None, reason: Some(why) },
        });
        DecisionView { at: at.0, wish, workers, wanted, busy, arrives, capacity, reason, command, balance }
    }
}

impl From<&Known> for AutoscalerView {
    fn from(Known { bounds, last, decisions }: &Known) -> Self {
        let mode = match bounds {
            None => "off",
            Some((_, true)) => "performs",
            Some((_, false)) => "proposes",
        };
        AutoscalerView {
            mode,
            min: bounds.map(|(policy, _)| policy.min),
            max: bounds.map(|(policy, _)| policy.max),
            last: last.as_ref().map(DecisionView::from),
            decisions: decisions.iter().rev().map(DecisionView::from).collect(),
        }
    }
}

/// What the autoscaler wants, and why
#[utoipa::path(get, path = "/v1/autoscaler", responses((status = 200, body = AutoscalerView)))]
pub async fn get(State(handle): State<Handle>) -> Json<AutoscalerView> {
    Json(AutoscalerView::from(&*handle.stats().autoscaling.known()))
}
