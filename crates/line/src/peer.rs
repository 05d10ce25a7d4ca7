// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address of the server, and the token that both ends know.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use crate::LineError;

/// Default port of the server.
const PORT: u16 = 8482;

/// The first address of `HOST` or `HOST:PORT`.
///
/// # Errors
/// No such host.
pub fn address(host: &str) -> Result<SocketAddr, LineError> {
    let named = host.to_socket_addrs();
    let mut found = named.or_else(|_| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        (bare, PORT).to_socket_addrs()
    });
    let first = found.as_mut().ok().and_then(Iterator::next);
    first.ok_or_else(|| LineError::NoHost(host.into()))
}

/// Content of a token's file.
///
/// # Errors
/// It cannot be read, or has no token.
pub fn token(file: &Path) -> Result<String, LineError> {
    let wrong = |why: String| LineError::Token {
        file: file.display().to_string(),
        why,
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let token = text.trim();
    let is_word = token.bytes().all(|byte| byte.is_ascii_graphic());
    match (16..=64).contains(&token.len()) && is_word {
        true => Ok(token.into()),
        false => Err(wrong(
            "a token is one word of 16 to 64 characters: let `makeway tune --serve` make the file"
                .into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_usual_port_unless_it_names_another() {
        for (host, found) in [
            ("192.0.2.1", "192.0.2.1:8482"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("::1", "[::1]:8482"),
            ("[::1]", "[::1]:8482"),
            ("[::1]:80", "[::1]:80"),
        ] {
            let told = address(host).ok();
            assert_eq!(told, found.parse().ok(), "{host}");
        }
        assert!(matches!(address("a host"), Err(LineError::NoHost(_))));
    }
}
