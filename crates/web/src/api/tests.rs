// SPDX-License-Identifier: MIT OR Apache-2.0

use std::sync::Mutex;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use tokio::sync::watch;

use super::*;
use crate::history::History;
use crate::measurement::Measurements;
use crate::session::{KEY, Sessions};

fn shared() -> Arc<Shared> {
    let (_, latest) = watch::channel(Arc::default());
    Arc::new(Shared {
        host: None,
        latest,
        history: Arc::new(Mutex::new(History::open(None).unwrap())),
        sessions: Sessions::new("token".into(), 1),
        commands: Box::new(drop),
        token_file: String::new(),
        pages: Default::default(),
        told: Default::default(),
        measurements: Measurements::new(None),
    })
}

/// Headers of an open session.
fn session(shared: &Shared) -> HeaderMap {
    let opened = shared.sessions.open("token", &HeaderMap::new()).unwrap();
    let pair = opened.cookie.split(';').next().unwrap();
    let pairs = [(header::COOKIE.as_str(), pair), (KEY, &*opened.key)];
    let pairs = pairs.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    pairs.into_iter().collect::<HeaderMap>()
}

#[test]
fn strangers_pages_leave_room_for_those_of_a_session() {
    let shared = shared();
    let ours = session(&shared);
    let none = HeaderMap::new();
    let strangers: Vec<_> = (0..100)
        .filter_map(|_| OpenPage::new(&shared, &none))
        .collect();
    assert_eq!(strangers.len(), MOST_PAGES.0);
    let own: Vec<_> = (0..100)
        .filter_map(|_| OpenPage::new(&shared, &ours))
        .collect();
    assert_eq!(own.len(), MOST_PAGES.1);
    drop(strangers);
    assert!(OpenPage::new(&shared, &none).is_some() && OpenPage::new(&shared, &ours).is_none());
}

#[test]
fn a_flood_of_questions_asks_the_history_once() {
    let shared = shared();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ask = |span: &str| {
        let asked = history(State(Arc::clone(&shared)), Path(span.into()));
        let answer = runtime.block_on(async { timeout(Duration::from_secs(5), asked).await });
        answer.is_ok_and(|answer| answer.is_ok())
    };
    assert!(ask("month"));
    // As while the sampler writes, or another visitor asks.
    let held = shared.history.lock().unwrap();
    for _ in 0..1000 {
        assert!(ask("month"), "it waits for the database");
    }
    drop(held);
    assert!(ask("hour"));
}

#[test]
fn a_history_that_is_being_opened_is_asked_again() {
    let shared = shared();
    *shared.history.lock().unwrap() = History::opening().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let is_kept = || {
        let asked = history(State(Arc::clone(&shared)), Path("hour".into()));
        assert!(runtime.block_on(asked).is_ok());
        runtime
            .block_on(shared.told[Span::Hour as usize].lock())
            .is_some()
    };
    assert!(!is_kept());
    shared.history.lock().unwrap().opened(None);
    assert!(is_kept());
}
