// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions that may change what runs: opened with the token, known by a cookie.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, header};
use rustix::rand::{GetRandomFlags, getrandom};

/// Most sessions; one more ends the oldest.
const MOST: usize = 32;

/// The open sessions.
#[derive(Debug)]
pub struct Sessions {
    token: String,
    cookie: String,
    open: Mutex<VecDeque<String>>,
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
    /// None yet; `port` distinguishes servers of one host, which share their cookies.
    pub fn new(token: String, port: u16) -> Self {
        Self {
            token,
            cookie: format!("makeway-{port}"),
            open: Mutex::default(),
        }
    }

    /// The `Set-Cookie` of a new session, if that is the token.
    pub fn open(&self, token: &str) -> Option<String> {
        if !is_same(token.trim(), &self.token) {
            return None;
        }
        let session = secret().ok()?;
        let cookie = self.set_cookie(&session, 7 * 86_400);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() == MOST {
            open.pop_front();
        }
        open.push_back(session);
        Some(cookie)
    }

    /// Ends the session of these headers; a `Set-Cookie` that removes its cookie.
    pub fn close(&self, headers: &HeaderMap) -> String {
        if let Some(session) = self.session(headers) {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|one| *one != session);
        }
        self.set_cookie("", 0)
    }

    /// Whether the headers are those of an open session.
    pub fn is_open(&self, headers: &HeaderMap) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.session(headers)
            .is_some_and(|session| open.iter().any(|one| is_same(one, &session)))
    }

    /// No script reads it, and no other site's request carries it.
    fn set_cookie(&self, session: &str, seconds: u32) -> String {
        let name = &self.cookie;
        format!("{name}={session}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}")
    }

    fn session(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|one| one.to_str().ok());
        let mut pairs = cookies.flat_map(|one| one.split(';'));
        pairs.find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then(|| value.to_owned())
        })
    }
}

/// In a time that does not depend on the first difference.
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

    #[test]
    fn a_session_is_opened_by_the_token_alone_and_closed() {
        let sessions = Sessions::new("0123abc".into(), 8480);
        for wrong in ["", "0123abd", "0123abc0", "0123ab"] {
            assert_eq!(sessions.open(wrong), None, "{wrong}");
        }
        let cookie = sessions.open("0123abc\n").unwrap_or_default();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict;"), "{cookie}");
        let pair = cookie.split(';').next().unwrap_or_default();
        let ours = headers(&[("cookie", &format!("other=1; {pair}"))]);
        assert!(sessions.is_open(&ours));
        assert!(!sessions.is_open(&headers(&[("cookie", "makeway-8480=")])));
        assert!(!sessions.is_open(&headers(&[("cookie", &pair.replace("8480", "8481"))])));
        assert!(!sessions.is_open(&headers(&[])));
        sessions.close(&ours);
        assert!(!sessions.is_open(&ours));
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let sessions = Sessions::new("token".into(), 1);
        let open = || {
            let cookie = sessions.open("token").unwrap_or_default();
            headers(&[("cookie", cookie.split(';').next().unwrap_or_default())])
        };
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
