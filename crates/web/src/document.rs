// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP API as an OpenAPI document, of the handlers' own types.
//!
//! A path of the API is added here and nowhere else, together with its part of the document. `openapi.json` beside the sources is the same
//! text, for the build of the page.

use std::sync::{Arc, LazyLock};

use axum::http::header;
use axum::response::IntoResponse;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::server::Shared;
use crate::{api, server};

#[derive(OpenApi)]
#[openapi(
    info(title = "makeway service", description = "State, history and settings of the interfaces that `makeway service` shapes"),
    modifiers(&Session),
)]
struct Frame;

/// The cookie and the key that changes take.
struct Session;

impl Modify for Session {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let about = "Set by `POST /api/session`; the number in its name is the service's port";
        let cookie = ApiKeyValue::with_description("makeway-8480", about);
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
        let about = "The `key` of the answer to `POST /api/session`";
        let key = ApiKeyValue::with_description("X-Makeway-Session", about);
        components.add_security_scheme("key", SecurityScheme::ApiKey(ApiKey::Header(key)));
    }
}

/// All paths but those of the page's files.
pub fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(Frame::openapi())
        .routes(routes!(server::scrape))
        .routes(routes!(document))
        .routes(routes!(api::live))
        .routes(routes!(api::about))
        .routes(routes!(api::history))
        .routes(routes!(api::open, api::close))
        .routes(routes!(api::change))
        .routes(routes!(api::undo))
        .routes(routes!(api::measurement))
        .routes(routes!(api::measure))
}

static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let document = routes().into_openapi().to_pretty_json();
    // Only keys that are no text cannot be written.
    document.unwrap_or_default() + "\n"
});

/// This document.
#[utoipa::path(get, path = "/api/openapi.json", operation_id = "document", responses((status = 200, body = serde_json::Value, description = "OpenAPI 3.1")))]
async fn document() -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, DOCUMENT.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    /// Paths of a router as it writes them for people who debug; it has no other list.
    fn paths(router: &axum::Router<Arc<Shared>>) -> BTreeSet<String> {
        let text = format!("{router:?}");
        let quoted = text.split('"').skip(1).step_by(2);
        // Its own path is where all others end that are none.
        quoted
            .filter(|one| one.starts_with('/') && !one.contains("__private__axum"))
            .map(Into::into)
            .collect()
    }

    #[test]
    fn every_path_of_the_router_is_in_the_document_or_a_file_of_the_page() {
        let (_, document) = routes().split_for_parts();
        let told: BTreeSet<String> = document.paths.paths.keys().cloned().collect();
        assert!(told.contains("/api/interfaces/{name}/undo"), "{told:?}");
        let mut all = paths(&server::paths());
        for file in server::files() {
            assert!(all.remove(file), "{file} is not among {all:?}");
        }
        assert_eq!(all, told);
    }

    #[test]
    fn the_document_beside_the_sources_is_this_one() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
        if env::var_os("MAKEWAY_WRITE_DOCS").is_some() {
            fs::write(&file, &*DOCUMENT).unwrap_or_else(|error| panic!("{error}"));
        }
        let kept = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            kept == *DOCUMENT,
            "crates/web/openapi.json is not of these sources: MAKEWAY_WRITE_DOCS=1 cargo test --workspace --lib -- document"
        );
    }
}
