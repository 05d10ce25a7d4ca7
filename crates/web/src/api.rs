// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers in JSON. Those that change something take a session, and a page of ours.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response, Sse, sse};
use futures_util::stream;
use makeway_core::sched::Discipline;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::history::Span;
use crate::sampler::now_ms;
use crate::server::Shared;
use crate::session::is_same_origin;
use crate::{Change, Request};

/// Most pages that are open at a time.
const MOST_PAGES: usize = 32;
/// After a wrong token.
const PAUSE: Duration = Duration::from_secs(1);
/// A change may wait for an instance that stands still until it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

type State_ = State<Arc<Shared>>;
type Answer = Result<Response, Refusal>;

/// `{"error": "..."}`.
pub struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, in_json(&json!({ "error": self.1 }))).into_response()
    }
}

/// One of the pages that are open.
struct OpenPage(Arc<Shared>);

impl OpenPage {
    fn new(shared: &Arc<Shared>) -> Option<Self> {
        // Counted again when this is dropped, also if there are too many.
        let page = Self(Arc::clone(shared));
        let before = shared.pages.fetch_add(1, Ordering::Relaxed);
        (before < MOST_PAGES).then_some(page)
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.pages.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state now and each time that it changes, as server-sent events.
pub async fn live(State(shared): State_) -> Answer {
    let page = OpenPage::new(&shared).ok_or(Refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many pages are open: close one".into(),
    ))?;
    let mut latest = shared.latest.clone();
    latest.mark_changed();
    let events = stream::unfold((latest, page), |(mut latest, page)| async {
        loop {
            latest.changed().await.ok()?;
            let live = latest.borrow_and_update().live.clone();
            // Before the first round there is nothing.
            if !live.is_empty() {
                let event = sse::Event::default().data(live);
                return Some((Ok::<_, Infallible>(event), (latest, page)));
            }
        }
    });
    Ok(Sse::new(events).into_response())
}

/// Version and disciplines, and whether this session may change what runs.
pub async fn about(State(shared): State_, headers: HeaderMap) -> Response {
    let disciplines = Discipline::ALL.map(|one| {
        json!({ "name": one.name(), "about": one.about(), "weights": one.spec().needs().weights })
    });
    in_json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "may_change": shared.sessions.is_open(&headers),
        "token_file": shared.token_file,
        "disciplines": disciplines,
    }))
}

/// All directions over `hour`, `day` or `month`.
pub async fn history(State(shared): State_, Path(span): Path<String>) -> Answer {
    let span = Span::named(&span).ok_or(Refusal(
        StatusCode::NOT_FOUND,
        "ask for hour, day or month".into(),
    ))?;
    let asked = spawn_blocking(move || {
        let history = shared.history.lock();
        let history = history.unwrap_or_else(PoisonError::into_inner);
        history.ask(span, now_ms() / 1000)
    });
    let failed = |why: String| Refusal(StatusCode::INTERNAL_SERVER_ERROR, why);
    let told = asked.await.map_err(|error| failed(error.to_string()))?;
    Ok(in_json(&json!(
        told.map_err(|error| failed(error.to_string()))?
    )))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    token: String,
}

/// Opens a session.
pub async fn open(State(shared): State_, headers: HeaderMap, body: Bytes) -> Answer {
    is_ours(&headers)?;
    let asked: SignIn = parsed(&body)?;
    let Some(cookie) = shared.sessions.open(&asked.token) else {
        // 128 bits are not guessed; this keeps the log of a proxy short.
        sleep(PAUSE).await;
        let why = format!("that is not the token: `sudo cat {}`", shared.token_file);
        return Err(Refusal(StatusCode::UNAUTHORIZED, why));
    };
    Ok(with_cookie(&cookie))
}

/// Ends it.
pub async fn close(State(shared): State_, headers: HeaderMap) -> Answer {
    is_ours(&headers)?;
    Ok(with_cookie(&shared.sessions.close(&headers)))
}

/// Changes an interface.
pub async fn change(
    State(shared): State_,
    Path(interface): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    may_change(&shared, &headers)?;
    ask(&shared, interface, Some(parsed(&body)?)).await
}

/// Takes the last change of an interface back.
pub async fn undo(
    State(shared): State_,
    Path(interface): Path<String>,
    headers: HeaderMap,
) -> Answer {
    may_change(&shared, &headers)?;
    ask(&shared, interface, None).await
}

async fn ask(shared: &Shared, interface: String, change: Option<Change>) -> Answer {
    let (tell, told) = oneshot::channel();
    (shared.commands)(Request {
        interface,
        change,
        answer: tell,
    });
    match timeout(PATIENCE, told).await {
        Ok(Ok(Ok(()))) => Ok(in_json(&json!({}))),
        Ok(Ok(Err(why))) => Err(Refusal(StatusCode::UNPROCESSABLE_ENTITY, why)),
        Ok(Err(_)) | Err(_) => Err(Refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "the service does not answer".into(),
        )),
    }
}

fn is_ours(headers: &HeaderMap) -> Result<(), Refusal> {
    match is_same_origin(headers) {
        true => Ok(()),
        false => Err(Refusal(
            StatusCode::FORBIDDEN,
            "another site has sent this".into(),
        )),
    }
}

fn may_change(shared: &Shared, headers: &HeaderMap) -> Result<(), Refusal> {
    is_ours(headers)?;
    match shared.sessions.is_open(headers) {
        true => Ok(()),
        false => Err(Refusal(
            StatusCode::UNAUTHORIZED,
            "unlock changes with the token first".into(),
        )),
    }
}

fn parsed<T: for<'de> Deserialize<'de>>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal(StatusCode::BAD_REQUEST, format!("the request: {error}")))
}

fn in_json(value: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, Body::from(value.to_string())).into_response()
}

fn with_cookie(cookie: &str) -> Response {
    let mut response = in_json(&json!({}));
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}
