//! The console: pages that show what the cluster does, carried inside the binary as `web-ui/dist` has them.
//!
//! Browsers get its page for every path that is no endpoint, so that each view has an address of its own. What the page
//! loads is compressed when it is built, has a name that its bytes decide, and is kept by browsers for ever. It loads
//! nothing from elsewhere, and the browser is told to let it load nothing.

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use crate::http::{ApiError, not_found, shorten};

#[derive(RustEmbed)]
#[folder = "../../web-ui/dist"]
struct Built;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Where the page's scripts and styles are.
const ASSETS: &str = "/assets/";

/// Whether a request is for the console rather than for an endpoint: nothing of it is a secret.
pub(crate) fn is_for_console(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && (path.starts_with(ASSETS) || is_page(path) && wants_page(headers))
}

/// Endpoints are at `/v1/` and at names that the console has no page for.
fn is_page(path: &str) -> bool {
    !path.starts_with("/v1/") && !["/v1", "/metrics", "/healthz", "/readyz", "/openapi.json"].contains(&path)
}

/// Whether who asks is a browser that opens a page.
pub(super) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim_start().starts_with("text/html"))
}

/// The page.
pub(super) fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::VARY, "accept"),
    ];
    match Built::get("index.html") {
        Some(file) => (headers, SAFE, file.data.into_owned()).into_response(),
        None => missing("index.html").into_response(),
    }
}

const SAFE: [(HeaderName, &str); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// What the page loads.
pub(super) async fn asset(Path(name): Path<String>) -> Result<Response, ApiError> {
    let kind = match name.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => return Err(missing(&name)),
    };
    let file = Built::get(&format!("assets/{name}.gz")).ok_or_else(|| missing(&name))?;
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_ENCODING, "gzip"),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, SAFE, file.data.into_owned()).into_response())
}

fn missing(name: &str) -> ApiError {
    ApiError::not_found(format!("the console of this release has no file {}", shorten(name)))
        .hint("load the page again: the server may have been replaced")
}

/// Answers what no endpoint matches: a browser gets the page, which finds its way by the path.
pub(super) async fn page_or_not_found(method: Method, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    if is_for_console(&method, uri.path(), &headers) {
        page()
    } else {
        not_found(method, uri, headers, body).await.into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(kinds: &'static str) -> HeaderMap {
        [(header::ACCEPT, kinds.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn browsers_that_open_a_page_are_told_from_programs() {
        let browser = accepting("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
        let program = accepting("*/*");
        for (method, path, headers, expect) in [
            (Method::GET, "/", &browser, true),
            (Method::GET, "/", &program, false),
            (Method::GET, "/", &HeaderMap::new(), false),
            (Method::GET, "/apps/shop", &browser, true),
            (Method::GET, "/apps/shop", &program, false),
            (Method::POST, "/apps/shop", &browser, false),
            (Method::GET, "/v1/apps", &browser, false),
            (Method::GET, "/metrics", &browser, false),
            (Method::GET, "/assets/index.js", &program, true),
            (Method::DELETE, "/assets/index.js", &program, false),
        ] {
            assert_eq!(is_for_console(&method, path, headers), expect, "{method} {path}");
        }
    }

    #[test]
    fn everything_that_the_page_loads_is_carried_along() {
        let page = Built::get("index.html").expect("web-ui/dist is built");
        let page = String::from_utf8(page.data.into_owned()).unwrap();
        let named: Vec<&str> = page.split('"').filter(|part| part.starts_with(ASSETS)).collect();
        assert!(named.len() >= 2, "a script and a style: {page}");
        for name in named {
            assert!(Built::get(&format!("{}.gz", &name[1..])).is_some(), "{name}");
        }
        assert!(!page.contains("http:") && !page.contains("https:"), "nothing from elsewhere: {page}");
        assert!(!page.contains("<style") && !page.contains("style="), "nothing that the policy forbids: {page}");
    }

    #[test]
    fn it_is_small() {
        let bytes: usize = Built::iter().map(|name| Built::get(&name).unwrap().data.len()).sum();
        assert!(bytes <= 350_000, "{bytes} bytes");
    }
}
