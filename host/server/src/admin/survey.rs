//! Survey of state: whether entities that are there are what a version of their app says that they are. It is taken of a sample,
//! before the version takes effect, and is advice to whoever deploys: what functions make of an entity is theirs to say.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde::Serialize;
use styx_protocol::attempt::Entry;
use styx_protocol::deployment::{Deployment, OperatorSpec};
use styx_protocol::entity::Key;
use utoipa::ToSchema;

use super::queries::Queries;
use crate::gateway::StateSchema;
use crate::http::{ApiError, shorten};

/// Entities that are looked at, of an operator, and bytes of them from each worker.
const ENTITIES_MAX: u32 = 1000;
const BYTES_MAX: u64 = 16 << 20;
/// How long those of an app are compared with their schemas.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Those that are told of.
const EXAMPLES_MAX: usize = 3;

/// What was found of an operator's entities.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StateSurvey {
    operator: String,
    /// How many there are.
    entities: u64,
    /// How many of them were looked at.
    checked: u64,
    /// How many of those are not of the type that the version says.
    unfit: u64,
    /// Whether the version brings a migration for them.
    migrates: bool,
    examples: Vec<UnfitEntity>,
}

/// An entity that is not of the type that a version says.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UnfitEntity {
    #[schema(value_type = String)]
    key: Key,
    reason: String,
}

/// Looks at entities of all operators of a version that say of what type they are.
///
/// # Errors
/// Nobody can say what is there.
pub(super) async fn of(queries: &Queries, deployment: &Deployment) -> Result<Vec<StateSurvey>, ApiError> {
    let catalog = queries.handle.catalog();
    let mut samples = Vec::new();
    for spec in deployment.operators.iter().filter(|spec| spec.state.schema.is_some()) {
        let Some(id) = catalog.operator_id(&deployment.app, &spec.name) else { continue };
        let (entries, entities) = queries.sample(id, ENTITIES_MAX, BYTES_MAX).await?;
        if entities > 0 {
            samples.push((spec.clone(), entries, entities));
        }
    }
    super::deploy::blocking(move || {
        let end = Instant::now() + TIME_MAX;
        Ok(samples.into_iter().map(|(spec, entries, entities)| compare(&spec, &entries, entities, end)).collect())
    })
    .await
}

fn compare(spec: &OperatorSpec, entries: &[Entry], entities: u64, end: Instant) -> StateSurvey {
    let mut survey = StateSurvey {
        operator: spec.name.clone(),
        entities,
        checked: 0,
        unfit: 0,
        migrates: spec.state.migrates,
        examples: Vec::new(),
    };
    // A version of before this one may have had its schemas checked by another release.
    let Ok(schema) = StateSchema::of(spec) else { return survey };
    for Entry(key, value) in entries.iter().take_while(|_| Instant::now() < end) {
        survey.checked += 1;
        if let Err(reason) = schema.check(value) {
            survey.unfit += 1;
            if survey.examples.len() < EXAMPLES_MAX {
                survey.examples.push(UnfitEntity { key: key.clone(), reason });
            }
        }
    }
    survey
}

/// Whether the version copes with all that was found.
///
/// # Errors
/// 409: an operator would meet entities that are not what it says, and has no migration.
pub(super) fn check(surveys: &[StateSurvey]) -> Result<(), ApiError> {
    let mut unfit = surveys.iter().filter(|survey| survey.unfit > 0 && !survey.migrates);
    let Some(StateSurvey { operator, entities, checked, unfit: count, examples, .. }) = unfit.next() else {
        return Ok(());
    };
    let of = if checked == entities { format!("{entities}") } else { format!("{checked} looked at, of {entities},") };
    let example = examples
        .first()
        .map_or_else(String::new, |UnfitEntity { key, reason }| format!(", \"{}\" for one: {reason}", shorten(key)));
    let more = match unfit.count() {
        0 => String::new(),
        more => format!("; and there are such of {more} more"),
    };
    let message =
        format!("operator \"{operator}\": {count} of {of} entities are not of the type of its state{example}{more}");
    Err(ApiError::new(StatusCode::CONFLICT, "STATE_INCOMPATIBLE", message).hint(
        "bring a migration that makes such values of them (docs/concepts/apps.md), or correct the type; with force (`--force`, `?force=true`) functions meet them as they are",
    ))
}
