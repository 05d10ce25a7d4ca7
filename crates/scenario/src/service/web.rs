// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[web]`: page and metrics.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::error::ScenarioError;
use crate::field::{Field, Values};
use crate::section::Section;

/// Its keys.
#[rustfmt::skip]
pub const WEB: &[Field] = &[
    Field::new("listen", Values::Other("an address with a port: `\"[::1]:8480\"`"), "127.0.0.1:8480", "address of the page and of the metrics; loopback, unless `public` is set"),
    Field::new("public", Values::Flag, "false", "allows another address than loopback; there is no TLS: put a proxy in front of it, or a tunnel"),
    Field::optional("host", Values::Other("a name: `\"gateway.example\"`"), "addresses and `localhost` alone", "name by which requests may ask for the page, as behind a proxy with TLS"),
    Field::optional("line_server", Values::Other("a host, with its port if that is not 8482: `\"198.51.100.7\"`"), "the page measures nothing", "host behind the link that runs `makeway tune --serve`, for *Latency under load*"),
    Field::optional("line_token_file", Values::Other("a path: `\"/etc/makeway/line-token\"`"), "none; `line_server` needs it", "file with that server's token"),
];

/// Page and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    /// A loopback address, unless the file says `public = true`.
    pub listen: SocketAddr,
    /// Name by which requests may ask for it, in lower case.
    pub host: Option<String>,
    /// The other end of measurements.
    pub line: Option<LineServer>,
}

/// A server of `makeway tune`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineServer {
    /// Host, with a port if it has another than usual.
    pub host: String,
    /// File with its token.
    pub token_file: PathBuf,
}

/// Reads the section.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn read(s: &Section<'_>) -> Result<Web, ScenarioError> {
    const EXAMPLE: &str = "write \"127.0.0.1:8480\" or \"[::1]:8480\"";
    let origin = s.at("listen");
    let text = s
        .string("listen")?
        .map_or("127.0.0.1:8480", |(text, _)| text);
    let listen: SocketAddr = text.parse().map_err(|_| {
        origin.error(format!(
            "`web.listen` is \"{text}\", no address with a port: {EXAMPLE}"
        ))
    })?;
    if !listen.ip().is_loopback() && !s.value::<bool>("public")? {
        return Err(origin.error(format!(
            "`web.listen` is {listen}, where other hosts see all flows, and passwords pass unencrypted: {EXAMPLE}, or `public = true` beside it"
        )));
    }
    s.value::<bool>("public")?;
    let host = host(s)?;
    let line = line(s)?;
    Ok(Web { listen, host, line })
}

fn host(s: &Section<'_>) -> Result<Option<String>, ScenarioError> {
    let Some((host, origin)) = s.string("host")? else {
        return Ok(None);
    };
    let is_label = |label: &str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(is_known)
    };
    match host.len() <= 253 && host.split('.').all(is_label) {
        true => Ok(Some(host.to_ascii_lowercase())),
        false => Err(origin.error(format!(
            "`web.host` is \"{host}\", no name of a host: write it without scheme and port, as \"gateway.example\""
        ))),
    }
}

fn line(s: &Section<'_>) -> Result<Option<LineServer>, ScenarioError> {
    const EXAMPLE: &str = "line_token_file = \"/etc/makeway/line-token\"";
    let (server, file) = (s.string("line_server")?, s.string("line_token_file")?);
    match (server, file) {
        (None, None) => Ok(None),
        (Some((_, origin)), None) => Err(origin.error(format!(
            "`web.line_server` needs `web.line_token_file`: write {EXAMPLE}"
        ))),
        (None, Some((_, origin))) => Err(origin.error(
            "`web.line_token_file` needs `web.line_server`: write line_server = \"198.51.100.7\"",
        )),
        (Some((host, _)), Some((file, origin))) => match file.starts_with('/') {
            true => Ok(Some(LineServer {
                host: host.into(),
                token_file: file.into(),
            })),
            // The folder of a service is not that of the file.
            false => Err(origin.error(format!(
                "`web.line_token_file` is \"{file}\", no path from the root on: write {EXAMPLE}"
            ))),
        },
    }
}
