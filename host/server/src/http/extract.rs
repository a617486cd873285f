//! Parts of a request's path and query, refused with errors like all others.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::Method;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::ApiError;

/// The named parts of the path, percent-decoded.
#[derive(Clone, Copy, Debug)]
pub struct PathParts<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParts<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(value) =
            Path::from_request_parts(parts, state).await.map_err(|error| refusal(parts, error.body_text()))?;
        Ok(PathParts(value))
    }
}

/// Options behind the `?`. Types that deny unknown fields make misspelt options errors.
#[derive(Clone, Copy, Debug)]
pub struct Options<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Options<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(value) =
            Query::from_request_parts(parts, state).await.map_err(|error| refusal(parts, error.body_text()))?;
        Ok(Options(value))
    }
}

fn refusal(parts: &Parts, why: String) -> ApiError {
    let error = ApiError::bad_request(why);
    // Nobody will read the body that may follow.
    if parts.method == Method::GET { error } else { error.closing() }
}
