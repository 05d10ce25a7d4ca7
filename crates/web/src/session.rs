// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions that may change what runs: opened with the token, known by a cookie and a key.
//!
//! Browsers send a cookie to every port of a host (RFC 6265, section 8.5), so that the server of another local user receives ours. The key
//! goes in a header that the page alone sets.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use rustix::rand::{GetRandomFlags, getrandom};

/// Most sessions; one more ends the oldest.
const MOST: usize = 32;
/// Longest time of a session.
const LASTS: Duration = Duration::from_secs(7 * 86_400);
/// Header of the key.
pub const KEY: &str = "x-makeway-session";

/// The open sessions.
#[derive(Debug)]
pub struct Sessions {
    token: String,
    cookie: String,
    open: Mutex<VecDeque<Session>>,
}

#[derive(Debug)]
struct Session {
    /// Value of the cookie.
    name: String,
    /// Value of the header.
    key: String,
    since: Instant,
}

/// A session that was opened.
#[derive(Debug, PartialEq)]
pub struct Opened {
    /// `Set-Cookie` of the answer.
    pub cookie: String,
    /// Value of the header of later requests.
    pub key: String,
}

/// 128 random bits as text.
///
/// # Errors
/// If the system has none.
pub fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    let got = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if got < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Sessions {
    /// Sessions without any yet; `port` distinguishes servers of one host, which share their cookies.
    pub fn new(token: String, port: u16) -> Self {
        Self {
            token,
            cookie: format!("makeway-{port}"),
            open: Mutex::default(),
        }
    }

    /// Opens a session, if that is the token. A session that the cookie names is opened once more: pages of one browser share the cookie.
    pub fn open(&self, token: &str, headers: &HeaderMap) -> Option<Opened> {
        if !is_same(token.trim(), &self.token) {
            return None;
        }
        let mut open = self.open_at(Instant::now());
        let name = self.cookie_of(headers).unwrap_or_default();
        let session = match open.iter().position(|one| is_same(&one.name, &name)) {
            Some(place) => Session {
                since: Instant::now(),
                ..open.remove(place)?
            },
            None => Session {
                name: secret().ok()?,
                key: secret().ok()?,
                since: Instant::now(),
            },
        };
        if open.len() == MOST {
            open.pop_front();
        }
        let opened = Opened {
            cookie: self.set_cookie(&session.name, LASTS.as_secs()),
            key: session.key.clone(),
        };
        open.push_back(session);
        Some(opened)
    }

    /// Ends the session of these headers; returns a `Set-Cookie` that removes its cookie.
    pub fn close(&self, headers: &HeaderMap) -> String {
        self.open_at(Instant::now())
            .retain(|one| !self.is_of(one, headers));
        self.set_cookie("", 0)
    }

    /// Whether the headers are of an open session.
    pub fn is_open(&self, headers: &HeaderMap) -> bool {
        self.is_open_at(headers, Instant::now())
    }

    fn is_open_at(&self, headers: &HeaderMap, now: Instant) -> bool {
        let open = self.open_at(now);
        open.iter().any(|one| self.is_of(one, headers))
    }

    /// Whether there is the cookie of an open session. Other servers of this host may have it too.
    pub fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(name) = self.cookie_of(headers) else {
            return false;
        };
        let open = self.open_at(Instant::now());
        open.iter().any(|one| is_same(&one.name, &name))
    }

    /// Sessions that have not ended by then, the oldest first.
    fn open_at(&self, now: Instant) -> MutexGuard<'_, VecDeque<Session>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|one| now.saturating_duration_since(one.since) < LASTS);
        open
    }

    fn is_of(&self, session: &Session, headers: &HeaderMap) -> bool {
        let name = self.cookie_of(headers).unwrap_or_default();
        let key = headers.get(KEY).and_then(|key| key.to_str().ok());
        // Both are compared, whether or not the first differs.
        is_same(&name, &session.name) & is_same(key.unwrap_or_default(), &session.key)
    }

    /// Cookie that no script reads and that no other site's request carries.
    fn set_cookie(&self, session: &str, seconds: u64) -> String {
        let name = &self.cookie;
        format!("{name}={session}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}")
    }

    fn cookie_of(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|one| one.to_str().ok());
        let mut pairs = cookies.flat_map(|one| one.split(';'));
        pairs.find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then(|| value.to_owned())
        })
    }
}

/// Compares in a time that does not depend on the first difference.
fn is_same(a: &str, b: &str) -> bool {
    let differ = a
        .bytes()
        .zip(b.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differ) == 0
}

/// Whether a page of ours has sent the request: browsers name the site of the page.
pub fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|one| one.to_str().ok());
    let by_site = text("sec-fetch-site").is_none_or(|site| site == "same-origin");
    let by_origin = text("origin").is_none_or(|origin| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some() && host == text("host")
    });
    by_site && by_origin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let value = value.parse().unwrap_or_else(|_| panic!("{value}"));
            (axum::http::HeaderName::from_static(name), value)
        });
        pairs.collect()
    }

    /// Headers of the session's cookie, and with its key.
    fn both(opened: Option<Opened>) -> (HeaderMap, HeaderMap) {
        let Opened { cookie, key } = opened.unwrap_or_else(|| panic!("not the token"));
        let pair = cookie.split(';').next().unwrap_or_default();
        let pair = format!("other=1; {pair}");
        let alone = headers(&[("cookie", &pair)]);
        (alone, headers(&[("cookie", &pair), (KEY, &key)]))
    }

    #[test]
    fn a_session_is_opened_by_the_token_alone_and_closed() {
        let sessions = Sessions::new("0123abc".into(), 8480);
        let none = HeaderMap::new();
        for wrong in ["", "0123abd", "0123abc0", "0123ab"] {
            assert_eq!(sessions.open(wrong, &none), None, "{wrong}");
        }
        let opened = sessions.open("0123abc\n", &none);
        let cookie = opened
            .as_ref()
            .map(|one| one.cookie.clone())
            .unwrap_or_default();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict;"), "{cookie}");
        let (_, ours) = both(opened);
        assert!(sessions.is_open(&ours));
        assert!(!sessions.is_open(&headers(&[("cookie", "makeway-8480="), (KEY, "")])));
        let mut other = ours.clone();
        let moved = cookie.replace("8480", "8481").parse();
        other.insert("cookie", moved.unwrap_or_else(|_| panic!("{cookie}")));
        assert!(!sessions.is_open(&other));
        assert!(!sessions.is_open(&none));
        sessions.close(&ours);
        assert!(!sessions.is_open(&ours));
    }

    #[test]
    fn a_cookie_without_its_key_is_no_session() {
        let sessions = Sessions::new("token".into(), 8480);
        let (stolen, ours) = both(sessions.open("token", &HeaderMap::new()));
        let (_, another) = both(sessions.open("token", &HeaderMap::new()));
        let key = |of: &HeaderMap| of[KEY].to_str().map(str::to_owned).unwrap_or_default();
        let mut wrong = stolen.clone();
        wrong.insert(KEY, another[KEY].clone());
        let alone = headers(&[(KEY, &key(&ours))]);
        for not in [&stolen, &wrong, &alone] {
            assert!(!sessions.is_open(not), "{not:?}");
            sessions.close(not);
        }
        assert!(sessions.is_open(&ours) && sessions.is_known(&stolen));
        // A second page of the same browser has the cookie, and asks for the key by the token.
        let (_, again) = both(sessions.open("token", &stolen));
        assert_eq!(key(&again), key(&ours));
        assert_eq!(sessions.open("wrong", &stolen), None);
    }

    #[test]
    fn a_session_ends_after_a_week() {
        let sessions = Sessions::new("token".into(), 8480);
        let (_, ours) = both(sessions.open("token", &HeaderMap::new()));
        let now = Instant::now();
        assert!(sessions.is_open_at(&ours, now + LASTS - Duration::from_secs(60)));
        assert!(!sessions.is_open_at(&ours, now + LASTS));
        assert!(!sessions.is_open(&ours), "it is forgotten");
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let sessions = Sessions::new("token".into(), 1);
        let open = || both(sessions.open("token", &HeaderMap::new())).1;
        let first = open();
        let second = open();
        (0..MOST - 1).for_each(|_| drop(open()));
        assert!(!sessions.is_open(&first) && sessions.is_open(&second));
    }

    #[test]
    fn requests_of_other_sites_are_known() {
        for ours in [
            headers(&[]),
            headers(&[
                ("sec-fetch-site", "same-origin"),
                ("origin", "http://[::1]:80"),
                ("host", "[::1]:80"),
            ]),
        ] {
            assert!(is_same_origin(&ours));
        }
        for other in [
            headers(&[("sec-fetch-site", "cross-site")]),
            headers(&[("sec-fetch-site", "same-site")]),
            headers(&[("origin", "http://127.0.0.1:81"), ("host", "127.0.0.1:80")]),
            headers(&[("origin", "null"), ("host", "127.0.0.1:80")]),
        ] {
            assert!(!is_same_origin(&other), "{other:?}");
        }
    }
}
