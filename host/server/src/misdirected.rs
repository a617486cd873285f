//! Requests that have come to the other of the two ports: whoever mixes up their addresses is told so, and where to go.

use std::sync::LazyLock;

use axum::http::StatusCode;
use utoipa::openapi::OpenApi;

use crate::http::{ApiError, shorten};

static OF_ADMIN: LazyLock<Paths> = LazyLock::new(|| Paths::of(&crate::admin::described()));
static OF_INGRESS: LazyLock<Paths> = LazyLock::new(|| Paths::of(&crate::gateway::document()));

/// Paths of a surface, as its description has them.
struct Paths(Vec<String>);

impl Paths {
    fn of(document: &OpenApi) -> Self {
        Paths(document.paths.paths.keys().cloned().collect())
    }

    fn have(&self, path: &str) -> bool {
        let is = |of: &String| {
            let (mut parts, mut of) = (path.split('/'), of.split('/'));
            of.by_ref().all(|of| parts.next().is_some_and(|part| of == part || of.starts_with('{') && !part.is_empty()))
                && parts.next().is_none()
        };
        self.0.iter().any(is)
    }
}

/// Whether the admin port has this path.
pub(crate) fn is_of_admin(path: &str) -> bool {
    OF_ADMIN.have(path)
}

/// Whether the port of calls has this path.
pub(crate) fn is_of_ingress(path: &str) -> bool {
    OF_INGRESS.have(path)
}

/// The error for a path of the admin port that came to the one of calls; `admin` is where it belongs, if that is known.
pub(crate) fn to_ingress(path: &str, admin: Option<&str>) -> ApiError {
    let at = admin.map_or_else(|| "the coordinator's".to_owned(), |admin| format!("it is at {admin}"));
    not_here(format!("this is the port of calls, and {} is at the admin port", shorten(path)))
        .hint(format!("ask the admin port: {at}; `styx` takes it as --admin-url or STYX_ADMIN_URL"))
}

/// The error for a path of the port of calls that came to an admin port; `ingress` is where it belongs, if that is known.
pub(crate) fn to_admin(path: &str, ingress: Option<&str>) -> ApiError {
    let at = ingress.map_or_else(
        || "a gateway's, and /v1/nodes on the coordinator's admin port says where those are".to_owned(),
        |ingress| format!("it is at {ingress}"),
    );
    not_here(format!("this is an admin port, and {} is at the port of calls", shorten(path)))
        .hint(format!("ask the port of calls: {at}; `styx` takes it as --ingress-url or STYX_INGRESS_URL"))
}

fn not_here(message: String) -> ApiError {
    ApiError::new(StatusCode::MISDIRECTED_REQUEST, "NOT_HERE", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_known_by_their_parts() {
        for (path, expect) in [
            ("/v1/apps", true),
            ("/v1/apps/shop/deployments/7", true),
            ("/readyz", true),
            ("/v1/apps/", false),
            ("/v1/app", false),
            ("/v1/call/shop/stock/apple/take", false),
            ("/v1/nothing", false),
        ] {
            assert_eq!(OF_ADMIN.have(path), expect, "{path}");
        }
        for (path, expect) in [
            ("/v1/send/shop/stock/apple/take", true),
            ("/v1/requests/7", true),
            ("/v1/batch", true),
            ("/v1/apps", false),
        ] {
            assert_eq!(OF_INGRESS.have(path), expect, "{path}");
        }
    }
}
