// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers in JSON. Those that change something take a session, and a page of ours.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response, Sse, sse};
use futures_util::stream;
use makeway_core::sched::Discipline;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use utoipa::ToSchema;

use crate::history::{Answer as History, Span};
use crate::live::Live;
use crate::measurement::{Measurement, Wanted};
use crate::sampler::now_ms;
use crate::server::Shared;
use crate::session::is_same_origin;
use crate::{Change, Request};

/// Most pages that are open at a time, and as many more of visitors with a session: pages of strangers keep no operator out.
const MOST_PAGES: (usize, usize) = (32, 8);
/// Time for which an answer of the history is given again.
const FRESH: Duration = Duration::from_secs(10);
/// Delay after a wrong token.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time of a change: it may wait for an instance that stands still until it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

type State_ = State<Arc<Shared>>;
type Answer = Result<Response, Refusal>;

/// The service refuses, or cannot.
pub struct Refusal(StatusCode, String);

/// Answer with a status of 4xx or 5xx.
#[derive(Serialize, ToSchema)]
pub struct Error {
    /// One line for people.
    error: String,
}

/// Empty answer: the request was done.
#[derive(Serialize, ToSchema)]
pub struct Done {}

/// Service and visitor.
#[derive(Serialize, ToSchema)]
pub struct About {
    version: &'static str,
    /// Whether this session may change what runs.
    may_change: bool,
    /// File with the token, on the machine itself.
    token_file: String,
    disciplines: Vec<OneDiscipline>,
    /// Server of measurements, if the file names one.
    line_server: Option<String>,
}

/// A discipline that an interface can have.
#[derive(Serialize, ToSchema)]
#[schema(as = Discipline)]
struct OneDiscipline {
    name: &'static str,
    about: &'static str,
    /// Whether it takes shares of users.
    weights: bool,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, in_json(&Error { error: self.1 })).into_response()
    }
}

/// One of the pages that are open.
struct OpenPage {
    shared: Arc<Shared>,
    /// Whether its visitor has a session.
    is_known: bool,
}

impl OpenPage {
    /// An `EventSource` sends no headers of its own: the cookie is enough, since it is needed for this place alone.
    fn new(shared: &Arc<Shared>, headers: &HeaderMap) -> Option<Self> {
        let is_known = shared.sessions.is_known(headers);
        // Counted again when this is dropped, also if there are too many.
        let page = Self {
            shared: Arc::clone(shared),
            is_known,
        };
        let before = page.count().fetch_add(1, Ordering::Relaxed);
        let most = if is_known { MOST_PAGES.1 } else { MOST_PAGES.0 };
        (before < most).then_some(page)
    }

    fn count(&self) -> &AtomicUsize {
        let (strangers, known) = &self.shared.pages;
        if self.is_known { known } else { strangers }
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state now and each time that it changes, as server-sent events.
#[utoipa::path(get, path = "/api/live", operation_id = "live", responses(
    (status = 200, body = Live, content_type = "text/event-stream", description = "Each event's `data` is one state in JSON"),
    (status = 503, body = Error, description = "Too many pages are open"),
))]
pub async fn live(State(shared): State_, headers: HeaderMap) -> Answer {
    let page = OpenPage::new(&shared, &headers).ok_or(Refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many pages are open: close one".into(),
    ))?;
    let mut latest = shared.latest.clone();
    latest.mark_changed();
    let events = stream::unfold((latest, page), |(mut latest, page)| async {
        loop {
            latest.changed().await.ok()?;
            let live = latest.borrow_and_update().live.clone();
            // Before the first round there is no state.
            if !live.is_empty() {
                let event = sse::Event::default().data(live);
                return Some((Ok::<_, Infallible>(event), (latest, page)));
            }
        }
    });
    Ok(Sse::new(events).into_response())
}

/// Version and disciplines, and whether this session may change what runs.
#[utoipa::path(get, path = "/api/about", operation_id = "about", responses((status = 200, body = About, description = "Version and disciplines")))]
pub async fn about(State(shared): State_, headers: HeaderMap) -> Response {
    let disciplines = Discipline::ALL.map(|one| OneDiscipline {
        name: one.name(),
        about: one.about(),
        weights: one.spec().needs().weights,
    });
    in_json(&About {
        version: env!("CARGO_PKG_VERSION"),
        may_change: shared.sessions.is_open(&headers),
        token_file: shared.token_file.clone(),
        disciplines: disciplines.into(),
        line_server: shared.measurements.host().map(Into::into),
    })
}

/// All directions over `hour`, `day` or `month`.
#[utoipa::path(get, path = "/api/history/{span}", operation_id = "history", params(("span" = Span, Path)), responses(
    (status = 200, body = History, description = "A point is as long as `step_s`"),
    (status = 404, body = Error, description = "No such span"),
    (status = 500, body = Error, description = "The database fails"),
))]
pub async fn history(State(shared): State_, Path(span): Path<String>) -> Answer {
    let span = Span::named(&span).ok_or(Refusal(
        StatusCode::NOT_FOUND,
        "ask for hour, day or month".into(),
    ))?;
    // The lock is held while the database is asked, so that any number of visitors cost it one question.
    let mut last = shared.told[span as usize].lock().await;
    let is_fresh = |last: &&(Instant, Bytes)| last.0.elapsed() < FRESH;
    if let Some((_, told)) = last.as_ref().filter(is_fresh) {
        return Ok(json(told.clone()));
    }
    let history = Arc::clone(&shared.history);
    let asked = spawn_blocking(move || {
        let history = history.lock();
        let history = history.unwrap_or_else(PoisonError::into_inner);
        let told = history.ask(span, now_ms() / 1000)?;
        Ok::<_, rusqlite::Error>((told, history.is_opening()))
    });
    let failed = |why: String| Refusal(StatusCode::INTERNAL_SERVER_ERROR, why);
    let told = asked.await.map_err(|error| failed(error.to_string()))?;
    let (told, is_opening) = told.map_err(|error| failed(error.to_string()))?;
    let told = serde_json::to_vec(&told).map_err(|error| failed(error.to_string()))?;
    let told = Bytes::from(told);
    // An answer without the rows of the file would hide them for as long as it is given again.
    if !is_opening {
        *last = Some((Instant::now(), told.clone()));
    }
    Ok(json(told))
}

/// Opens a session.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// Content of the `token_file` of `/api/about`.
    token: String,
}

/// A session is open.
#[derive(Serialize, ToSchema)]
pub struct Opened {
    /// Value of the header `X-Makeway-Session`, which later requests take beside the cookie.
    key: String,
}

/// Opens a session, which may change what runs.
#[utoipa::path(post, path = "/api/session", operation_id = "openSession", request_body = SignIn, responses(
    (status = 200, body = Opened, description = "Sets the cookie of the session, and tells its key"),
    (status = 400, body = Error, description = "Not such a request"),
    (status = 401, body = Error, description = "Not the token"),
    (status = 403, body = Error, description = "Another site has sent it"),
))]
pub async fn open(State(shared): State_, headers: HeaderMap, body: Bytes) -> Answer {
    is_ours(&headers)?;
    let asked: SignIn = parsed(&body)?;
    let Some(opened) = shared.sessions.open(&asked.token, &headers) else {
        // 128 bits are not guessed; this keeps the log of a proxy short.
        sleep(PAUSE).await;
        let why = format!("that is not the token: `sudo cat {}`", shared.token_file);
        return Err(Refusal(StatusCode::UNAUTHORIZED, why));
    };
    let told = Opened { key: opened.key };
    Ok(with_cookie(&opened.cookie, in_json(&told)))
}

/// Ends the session.
#[utoipa::path(delete, path = "/api/session", operation_id = "closeSession", security(("session" = [], "key" = [])), responses(
    (status = 200, body = Done, description = "Takes the cookie away"),
    (status = 403, body = Error, description = "Another site has sent it"),
))]
pub async fn close(State(shared): State_, headers: HeaderMap) -> Answer {
    is_ours(&headers)?;
    let cookie = shared.sessions.close(&headers);
    Ok(with_cookie(&cookie, in_json(&Done {})))
}

/// Changes an interface.
#[utoipa::path(post, path = "/api/interfaces/{name}", operation_id = "changeInterface", params(("name" = String, Path)),
    request_body = Change, security(("session" = [], "key" = [])), responses(
    (status = 200, body = Done, description = "The change is made"),
    (status = 400, body = Error, description = "Not such a request"),
    (status = 401, body = Error, description = "No session is open"),
    (status = 403, body = Error, description = "Another site has sent it"),
    (status = 409, body = Error, description = "A measurement runs there"),
    (status = 422, body = Error, description = "Not such an interface, or a change that it cannot make"),
    (status = 503, body = Error, description = "The service does not answer"),
))]
pub async fn change(
    State(shared): State_,
    Path(interface): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    may_change(&shared, &headers)?;
    is_quiet(&shared, &interface)?;
    ask(&shared, interface, Some(parsed(&body)?)).await
}

/// Takes the last change of an interface back.
#[utoipa::path(post, path = "/api/interfaces/{name}/undo", operation_id = "undoChange", params(("name" = String, Path)),
    security(("session" = [], "key" = [])), responses(
    (status = 200, body = Done, description = "The change is taken back"),
    (status = 401, body = Error, description = "No session is open"),
    (status = 403, body = Error, description = "Another site has sent it"),
    (status = 409, body = Error, description = "A measurement runs there"),
    (status = 422, body = Error, description = "Not such an interface, or nothing to undo"),
    (status = 503, body = Error, description = "The service does not answer"),
))]
pub async fn undo(
    State(shared): State_,
    Path(interface): Path<String>,
    headers: HeaderMap,
) -> Answer {
    may_change(&shared, &headers)?;
    is_quiet(&shared, &interface)?;
    ask(&shared, interface, None).await
}

/// The measurement that runs, or the last one.
#[utoipa::path(get, path = "/api/measurement", operation_id = "measurement", responses(
    (status = 200, body = Measurement, description = "State and figures"),
))]
pub async fn measurement(State(shared): State_) -> Response {
    in_json(&shared.measurements.now())
}

/// Measures latency under load between an interface and the server that the file names.
#[utoipa::path(post, path = "/api/interfaces/{name}/measurement", operation_id = "measure", params(("name" = String, Path)),
    request_body = Wanted, security(("session" = [], "key" = [])), responses(
    (status = 200, body = Done, description = "It has begun"),
    (status = 400, body = Error, description = "Not such a request"),
    (status = 401, body = Error, description = "No session is open"),
    (status = 403, body = Error, description = "Another site has sent it"),
    (status = 409, body = Error, description = "Another one runs"),
    (status = 422, body = Error, description = "Not such an interface, or the file names no server"),
))]
pub async fn measure(
    State(shared): State_,
    Path(interface): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    may_change(&shared, &headers)?;
    let wanted = parsed(&body)?;
    let cannot = |why: String| Refusal(StatusCode::UNPROCESSABLE_ENTITY, why);
    if shared.measurements.host().is_none() {
        return Err(cannot(
            "the file names no server: write `line_server` and `line_token_file` into [web]".into(),
        ));
    }
    let round = Arc::clone(&shared.latest.borrow());
    let mut all = round.snapshot.interfaces.iter();
    if !all.any(|(one, status)| one.name == interface && status.is_some()) {
        return Err(cannot(format!("{interface} is not shaped now")));
    }
    match shared.measurements.start(&interface, wanted) {
        true => Ok(in_json(&Done {})),
        false => Err(Refusal(
            StatusCode::CONFLICT,
            "a measurement runs: wait for its end".into(),
        )),
    }
}

/// Rates that a measurement has removed are its own to set.
fn is_quiet(shared: &Shared, interface: &str) -> Result<(), Refusal> {
    match shared.measurements.is_on(interface) {
        false => Ok(()),
        true => Err(Refusal(
            StatusCode::CONFLICT,
            "a measurement runs: wait for its end".into(),
        )),
    }
}

async fn ask(shared: &Shared, interface: String, change: Option<Change>) -> Answer {
    let (tell, told) = oneshot::channel();
    (shared.commands)(Request {
        interface,
        change,
        answer: tell,
    });
    match timeout(PATIENCE, told).await {
        Ok(Ok(Ok(()))) => Ok(in_json(&Done {})),
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

fn json(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

pub fn in_json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => json(text.into()),
        // Only keys that are no text cannot be written.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn with_cookie(cookie: &str, mut response: Response) -> Response {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

#[cfg(test)]
mod tests;
