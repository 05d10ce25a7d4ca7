// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sources of delay of an interface: the tap, and what it sees of TCP, of calls and of reflectors.

use std::io;
use std::os::fd::OwnedFd;

use makeway_core::autorate::MOST_PATHS;
use makeway_core::units::{Duration, Instant};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::Config;
use super::calls::{Calls, MOST_CALLS};
use super::packet::{self, DAY_MS, Seen};
use super::reflectors::{Due, Kind, Reflectors};
use super::tap::{Kind as Tapping, Tap, Tapped};
use super::tcp::Tcp;
use super::time::{now, offset};
use crate::interface::Interface;
use crate::socket;

/// A step of CLOCK_REALTIME; slower changes are of the drift that baselines follow.
const CLOCK_STEP_NS: i64 = 3_000_000;

/// Delays of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of the path: reflectors first, then calls.
    pub path: u16,
    /// One for all paths to one network, if they are not chosen by the operator.
    pub voice: Option<u64>,
    /// Up and down, each up to a constant of the path.
    pub one_way: [Option<Duration>; 2],
    /// There and back.
    pub both: Option<Duration>,
}

/// News of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A delay.
    Sample(Sample),
    /// Former delays of a path mean nothing from now on; `None`: of all.
    Anew(Option<u16>),
    /// A probe could not be sent, and why.
    Refused(String),
}

/// The sources.
#[derive(Debug)]
pub struct Sources {
    /// Apart, so that no flood of segments hides an answer.
    probes: Option<Tap>,
    segments: Option<Tap>,
    media: Option<Tap>,
    pub(super) tcp: Option<Tcp>,
    pub(super) calls: Option<Calls>,
    pub(super) reflectors: Reflectors,
    /// For probes over IPv4, and over IPv6.
    sockets: [Option<OwnedFd>; 2],
    identifier: u16,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC, in ns.
    offset: i64,
}

impl Sources {
    /// Sources of an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// Without CAP_NET_RAW.
    pub fn new(interface: &Interface, config: &Config) -> io::Result<Self> {
        let reflectors = &config.reflectors[..];
        let identifier = fastrand::u16(1..);
        let refused = |what: &'static str| {
            move |error: io::Error| io::Error::other(format!("{what} needs CAP_NET_RAW: {error}"))
        };
        let socket = |is_v6: bool| -> io::Result<Option<OwnedFd>> {
            let any = reflectors.iter().any(|one| one.is_ipv6() == is_v6);
            any.then(|| prober(is_v6, &interface.name)).transpose()
        };
        let places = usize::from(MOST_PATHS).saturating_sub(reflectors.len());
        let of_calls = if config.calls {
            MOST_CALLS.min(places)
        } else {
            0
        };
        let tap = |kind| {
            let tap = Tap::new(interface.index, kind);
            tap.map_err(refused("a look at the interface"))
        };
        let probes = (!reflectors.is_empty()).then(|| tap(Tapping::Probes(identifier)));
        let segments = config.tcp.then(|| tap(Tapping::Segments));
        let media = config.calls.then(|| tap(Tapping::Media));
        Ok(Self {
            probes: probes.transpose()?,
            segments: segments.transpose()?,
            media: media.transpose()?,
            tcp: config.tcp.then(|| Tcp::new(places - of_calls)),
            calls: config.calls.then(|| Calls::new(of_calls)),
            reflectors: Reflectors::new(now(), reflectors),
            sockets: [
                socket(false).map_err(refused("a probe"))?,
                socket(true).map_err(refused("a probe"))?,
            ],
            identifier,
            offset: offset(),
        })
    }

    /// Reads what has come, and sends the probes that are due. `is_busy`: the link carries traffic.
    pub fn look(&mut self, is_busy: bool, mut each: impl FnMut(News)) {
        let now = now();
        self.follow_clock(&mut each);
        self.listen(now, &mut each);
        for due in self.reflectors.due(now, is_busy) {
            let Err(error) = self.send(due) else { continue };
            each(News::Refused(match error.raw_os_error() {
                // systemd.resource-control(5).
                Some(libc::EPERM) => format!(
                    "probes of {to} are refused: if it runs under systemd, `systemctl edit` its unit, makeway or makeway@INTERFACE, with [Service] and IPAddressAllow={to}",
                    to = due.to
                ),
                _ => format!("probes of {} cannot be sent: {error}", due.to),
            }));
        }
    }

    /// The kernel's stamps are of CLOCK_REALTIME; after a step of it former ones mean nothing.
    fn follow_clock(&mut self, each: &mut impl FnMut(News)) {
        let offset = offset();
        if (offset - self.offset).abs() > CLOCK_STEP_NS {
            if let Some(tcp) = &mut self.tcp {
                tcp.clear();
            }
            if let Some(calls) = &mut self.calls {
                calls.clear();
            }
            each(News::Anew(None));
        }
        self.offset = offset;
    }

    /// Packets that have passed since the last look.
    fn listen(&mut self, now: Instant, each: &mut impl FnMut(News)) {
        let Self {
            probes,
            segments,
            media,
            tcp,
            calls,
            reflectors,
            offset,
            ..
        } = self;
        let first_call = reflectors.all.len() as u16;
        let first_tcp = first_call + calls.as_ref().map_or(0, Calls::places) as u16;
        let mut take = |tapped: Tapped<'_>| {
            let Some(seen) = packet::parse(tapped.bytes, tapped.is_outgoing) else {
                return;
            };
            let at = Instant::from_nanos(u64::try_from(tapped.at - *offset).unwrap_or(0));
            let day_ns = tapped.at.rem_euclid(i64::from(DAY_MS) * 1_000_000);
            match seen {
                Seen::Tcp {
                    connection,
                    value,
                    echo,
                    has_data,
                } => {
                    let Some(tcp) = tcp else { return };
                    match tapped.is_outgoing {
                        true => tcp.departed(at, connection, value),
                        false => tcp.arrived(at, connection, value, echo, has_data),
                    }
                }
                Seen::Udp {
                    connection,
                    payload,
                } => {
                    let Some(calls) = calls else { return };
                    match tapped.is_outgoing {
                        true => calls.departed(at, connection, payload),
                        false => calls.arrived(at, connection, payload),
                    }
                }
                Seen::Probe { to, number } => reflectors.departed(to, number, at, day_ns),
                Seen::Answer {
                    from,
                    number,
                    stamps,
                } => {
                    let told = reflectors.answered(from, number, stamps, at, day_ns);
                    if let Some(sample) = told {
                        each(News::Sample(sample));
                    }
                }
            }
        };
        for tap in [probes, segments, media].into_iter().flatten() {
            tap.read(&mut take);
        }
        let mut gone = Vec::new();
        let mut tell = |first: u16, sample: Sample| {
            each(News::Sample(Sample {
                path: first + sample.path,
                ..sample
            }));
        };
        if let Some(calls) = calls {
            let left = |place: u16| gone.push(first_call + place);
            calls.tick(now, |sample| tell(first_call, sample), left);
        }
        if let Some(tcp) = tcp {
            let left = |place: usize| gone.push(first_tcp + place as u16);
            tcp.tick(now, |sample| tell(first_tcp, sample), left);
        }
        for path in gone {
            each(News::Anew(Some(path)));
        }
    }

    fn send(&self, due: Due) -> io::Result<()> {
        let day_ns =
            (self.offset + now().as_nanos() as i64).rem_euclid(i64::from(DAY_MS) * 1_000_000);
        let stamp = (due.kind == Kind::Timestamp).then_some((day_ns / 1_000_000) as u32);
        let bytes = packet::probe(due.to, self.identifier, due.number, stamp);
        let socket = self.sockets[usize::from(due.to.is_ipv6())].as_ref();
        let socket = socket.ok_or(io::ErrorKind::NotConnected)?;
        let to = std::net::SocketAddr::new(due.to, 0);
        rustix::net::sendto(socket, &bytes, rustix::net::SendFlags::DONTWAIT, &to)?;
        Ok(())
    }
}

/// A raw socket that only sends, by the interface alone.
fn prober(is_v6: bool, interface: &str) -> io::Result<OwnedFd> {
    /// linux/icmp.h, linux/icmpv6.h.
    const FILTER: libc::c_int = 1;
    let (family, protocol) = match is_v6 {
        false => (AddressFamily::INET, ipproto::ICMP),
        true => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::RAW, flags, Some(protocol))?;
    // The tap sees the answers.
    match is_v6 {
        false => socket::set(&socket, libc::SOL_RAW, FILTER, &u32::MAX)?,
        true => socket::set(&socket, libc::SOL_ICMPV6, FILTER, &[u32::MAX; 8])?,
    }
    socket::bind_to_interface(&socket, interface)?;
    Ok(socket)
}
