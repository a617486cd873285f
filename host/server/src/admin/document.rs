//! `GET /openapi.json`: both surfaces described, as their routers have them.

use axum::Json;
use serde_json::{Value, json};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder, ServerBuilder};

use super::schemas;

/// The description of both surfaces
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, body = schemas::Document)))]
pub async fn document() -> Json<Value> {
    Json(build())
}

fn build() -> Value {
    let info = InfoBuilder::new()
        .title("Styx")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Transactional stateful functions. Each app has a document of its own: /v1/apps/{app}/openapi.json",
        ))
        .build();
    let server = |url, description| ServerBuilder::new().url(url).description(Some(description)).build();
    let admin = server("http://127.0.0.1:9070", "the admin port, at its default address");
    let mut document: OpenApi = OpenApiBuilder::new().info(info).servers(Some([admin])).build();
    document.merge(super::described());
    let mut ingress = crate::gateway::document();
    let at_ingress = server("http://127.0.0.1:8080", "the ingress, at its default address");
    for path in ingress.paths.paths.values_mut() {
        path.servers = Some(vec![at_ingress.clone()]);
    }
    document.merge(ingress);
    let mut document = serde_json::to_value(document).expect("a document is plain data");
    // Every endpoint refuses in the same way.
    document["components"]["schemas"]["Error"] = super::openapi::error_schema();
    let content = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } });
    let refusal = json!({ "description": "what is wrong and what to do", "content": content });
    document["components"]["responses"]["Error"] = refusal;
    let paths = document["paths"].as_object_mut().expect("a document has paths").values_mut();
    let operations = paths.flat_map(|path| path.as_object_mut().expect("a path has operations").iter_mut());
    for (_, operation) in operations.filter(|(_, operation)| operation["responses"].is_object()) {
        operation["responses"]["default"] = json!({ "$ref": "#/components/responses/Error" });
    }
    document
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Types of the console are made from it: `npm run types` in web-ui, after UPDATE_DESCRIPTION=1 with this test.
    #[expect(clippy::disallowed_methods, reason = "says whether a test writes what it compares with")]
    #[test]
    fn the_console_knows_this_description() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web-ui/src/api/openapi.json");
        let text = serde_json::to_string_pretty(&build()).unwrap() + "\n";
        if std::env::var_os("UPDATE_DESCRIPTION").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let known = std::fs::read_to_string(&file).unwrap();
        assert!(known == text, "{} is of before: UPDATE_DESCRIPTION=1 writes it anew", file.display());
    }
}
