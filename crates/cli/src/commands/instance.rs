// SPDX-License-Identifier: MIT OR Apache-2.0
//! An instance in this process, as `makeway up` and `makeway tag` run it: its start, its end, its domain of tickets.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::bail;
use clap::{Args, ValueEnum};
use makeway_core::ticket::{Codec, Scale, TicketRate, Tsw};
use makeway_core::units::Duration;
use makeway_gateway::control::protocol::Status;
use makeway_gateway::control::{Ending, Instance, Outcome, UpConfig};
use makeway_gateway::datapath::TagConfig;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::describe::{carrier, directions, ended, removed};
use crate::text;

/// Settings common to all sources and links of a domain.
#[derive(Args)]
pub struct Domain {
    /// Bits of a tag, 2 to 16: the same all over the domain.
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(2..=16))]
    tag_bits: u32,
    /// Scale of tags over tickets: the same all over the domain.
    #[arg(long, value_name = "SCALE", default_value = "logarithmic")]
    tag_scale: ScaleName,
    /// Time over which rates are estimated, 1ms to 1h.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = window)]
    tag_window: Duration,
    /// Limits sources, or the link, to the tickets issued where tags cannot express them.
    #[arg(long)]
    policing: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScaleName {
    Linear,
    Logarithmic,
}

impl Domain {
    /// Their configuration: tags stay as they are.
    ///
    /// # Errors
    /// None for parsed arguments.
    pub fn config(&self) -> anyhow::Result<TagConfig> {
        let scale = match self.tag_scale {
            ScaleName::Linear => Scale::Linear,
            ScaleName::Logarithmic => Scale::Logarithmic,
        };
        Ok(TagConfig {
            codec: Codec::new(self.tag_bits, scale)?,
            window: self.tag_window,
            policing: self.policing,
            ..TagConfig::default()
        })
    }
}

/// Reads tickets per second.
///
/// # Errors
/// The allowed range.
pub fn tickets(text: &str) -> Result<TicketRate, String> {
    let most = TicketRate::MOST;
    let rate = text.parse().ok().and_then(TicketRate::new);
    rate.ok_or_else(|| {
        format!("`{text}` is not a rate of 1 to {most} tickets per second: write 500")
    })
}

fn window(text: &str) -> Result<Duration, String> {
    let window: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if !(Duration::from_millis(1)..=Tsw::MOST_WINDOW).contains(&window) {
        return Err(format!("{window} is not from 1ms to 1h: write 60s"));
    }
    Ok(window)
}

/// A seed from the system's own randomness, so that strangers cannot aim at one flow's slot.
pub fn secret_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Starts, says so, and stays until it is ended.
///
/// # Errors
/// If it could not start or go on.
pub fn stay(config: UpConfig) -> anyhow::Result<ExitCode> {
    let interface = config.interface.clone();
    let quit = quit()?;
    let instance = Instance::start(config)?;
    let status = match instance.status() {
        Ok(status) => status,
        Err(why) => {
            let outcome = instance.stop();
            bail!("{interface}: {why}; {}", removed(&outcome.status));
        }
    };
    text::say!("{}", started(&status).trim_end());
    notify("READY=1");
    let is_watched = std::env::var_os("WATCHDOG_USEC").is_some();
    let outcome = instance.run(&quit, |events| {
        for event in events {
            text::say!("{interface}: {}", event);
        }
        if is_watched {
            notify("WATCHDOG=1");
        }
    })?;
    notify("STOPPING=1");
    finished(&interface, &outcome)
}

/// The first lines of an instance.
pub fn started(status: &Status) -> String {
    let name = &status.interface;
    // The same user's commands reach it, and nobody else's.
    let sudo = std::env::var_os("SUDO_USER").map_or("", |_| "sudo ");
    let mut said = format!(
        "{name}: {}.\nSee it: `{sudo}makeway watch {name}` or `{sudo}makeway status {name}`. End it: Ctrl-C or `{sudo}makeway down {name}`.\n",
        directions(status)
    );
    said += &format!("Packets wait {}.\n", carrier(status));
    for warning in &status.warnings {
        said += &format!("Warning: {warning}\n");
    }
    said
}

fn finished(name: &str, outcome: &Outcome) -> anyhow::Result<ExitCode> {
    let said = ended(&outcome.status);
    let removed = removed(&outcome.status);
    match &outcome.ending {
        Ending::Quit => text::say!("\n{name}: {removed}; {said}."),
        Ending::Asked => text::say!("{name}: ended by `makeway down`, {removed}; {said}."),
        Ending::InterfaceGone => {
            bail!("the interface {name} is gone, or has another name: {removed}; {said}")
        }
        Ending::Failed(why) => bail!("{name}: {why}; {removed}, traffic passes; {said}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Becomes readable when the user or the system wants the end. Signals that the caller ignores
/// (`nohup`) stay ignored.
fn quit() -> io::Result<UnixStream> {
    let (quit, signal) = UnixStream::pair()?;
    for number in [SIGINT, SIGTERM, SIGHUP] {
        if number == SIGTERM || !ignored(number) {
            signal_hook::low_level::pipe::register(number, signal.try_clone()?)?;
        }
    }
    Ok(quit)
}

fn ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 == 1
}

/// Tells systemd, or the service, where it started us (sd_notify(3)). The socket of the first message is kept: a sign of life takes no
/// descriptor, of which none may be left.
pub fn notify(state: &str) {
    static SOCKET: OnceLock<(UnixDatagram, SocketAddr)> = OnceLock::new();
    if let Some((socket, to)) = SOCKET.get() {
        // A reader that does not read is no reason to stand still too.
        let _ = socket.send_to_addr(state.as_bytes(), to);
        return;
    }
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let first = address.and_then(|to| {
        let socket = UnixDatagram::unbound()?;
        socket.send_to_addr(state.as_bytes(), &to)?;
        socket.set_nonblocking(true)?;
        Ok((socket, to))
    });
    // Without it the service is not seen as started; there is nobody else to tell.
    if let Ok(first) = first {
        let _ = SOCKET.set(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_outside_its_range_is_refused_with_an_example() {
        for text in ["0s", "2h"] {
            assert!(window(text).unwrap_err().contains("60s"), "{text}");
        }
    }
}
