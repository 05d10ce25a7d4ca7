// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths, and headers against other sites.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::Mutex;

use crate::document;
use crate::measurement::Measurements;
use crate::metrics::{self, Format};
use crate::sampler::{Latest, SharedHistory};
use crate::session::Sessions;

/// Headers of every answer: nothing of another site is loaded, and none may show or read it.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-cache"),
];

/// The page, as `dashboard/build.js` makes it: path, type, content.
const ASSETS: [(&str, &str, &[u8]); 4] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_bytes!("../assets/index.html"),
    ),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/app.js"),
    ),
    (
        "/app.css",
        "text/css; charset=utf-8",
        include_bytes!("../assets/app.css"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_bytes!("../assets/icon.svg"),
    ),
];

/// State of the answers.
pub struct Shared {
    /// Name by which requests may ask for the page.
    pub host: Option<String>,
    pub latest: Latest,
    pub history: SharedHistory,
    pub sessions: Sessions,
    pub commands: Box<dyn Fn(crate::Request) + Send + Sync>,
    /// File of the token.
    pub token_file: String,
    /// Open pages, without a session and with one.
    pub pages: (AtomicUsize, AtomicUsize),
    /// Last answer of the history for each span, and its time.
    pub told: [Mutex<Option<(Instant, Bytes)>>; 3],
    pub measurements: Measurements,
}

/// Paths, without the layers around them.
pub fn paths() -> Router<Arc<Shared>> {
    let (mut router, _) = document::routes().split_for_parts();
    for (path, kind, content) in ASSETS {
        router = router.route(path, get(([(header::CONTENT_TYPE, kind)], content)));
    }
    router
}

/// The service.
pub fn router(shared: Arc<Shared>) -> Router {
    let guard = middleware::from_fn_with_state(Arc::clone(&shared), guard);
    paths().layer(guard).with_state(shared)
}

/// The last counters of each interface, as OpenMetrics where the request accepts it.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", responses(
    (status = 200, description = "All counters", content((String = "text/plain"), (String = "application/openmetrics-text"))),
))]
pub async fn scrape(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|one| one.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let round = Arc::clone(&shared.latest.borrow());
    let told = metrics::encode(round, format);
    ([(header::CONTENT_TYPE, format.content_type())], told)
}

/// Refuses requests that another site has led here by a name of its own (DNS rebinding), and adds the headers.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    let is_known = |host: &str| is_ours(host, shared.host.as_deref());
    let is_ours = host.is_none_or(|host| host.to_str().is_ok_and(is_known));
    let mut response = match is_ours {
        true => next.run(request).await,
        false => {
            let why = "ask by address, like http://127.0.0.1:8480, or by the name localhost; `host` in [web] of the file allows another\n";
            (StatusCode::MISDIRECTED_REQUEST, why).into_response()
        }
    };
    for (name, value) in HEADERS {
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a `Host` is an address, or `localhost`: no site can have either for its own; or the `name` of the file.
fn is_ours(host: &str, name: Option<&str>) -> bool {
    let bare = match host.rsplit_once(':') {
        // Not within `[::1]`.
        Some((bare, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => bare,
        _ => host,
    };
    let inner = bare.strip_prefix('[').and_then(|one| one.strip_suffix(']'));
    bare == "localhost"
        || name.is_some_and(|name| bare.eq_ignore_ascii_case(name))
        || inner.unwrap_or(bare).parse::<IpAddr>().is_ok()
}

/// Paths of the page's files.
#[cfg(test)]
pub fn files() -> [&'static str; ASSETS.len()] {
    ASSETS.map(|(path, _, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_hosts_of_ours() {
        for host in [
            "127.0.0.1:8480",
            "[::1]:80",
            "[::1]",
            "192.168.1.1",
            "localhost:8480",
        ] {
            assert!(is_ours(host, None), "{host}");
        }
        for host in [
            "evil.example:8480",
            "127.0.0.1.evil.example",
            "",
            "localhost.evil",
            "gateway.example.evil",
            "evil.gateway.example",
        ] {
            assert!(!is_ours(host, Some("gateway.example")), "{host}");
        }
        for host in ["gateway.example", "Gateway.Example:443"] {
            assert!(is_ours(host, Some("gateway.example")), "{host}");
            assert!(!is_ours(host, None), "{host}");
        }
    }
}
