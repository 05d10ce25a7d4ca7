// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiver's side of a call, on a socket.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use makeway_core::measure::Histogram;
use makeway_core::units::{Duration, Instant};
use rtp_types::RtpPacket;

use super::driver::{Clock, Driver, Session};
use super::receiving::{FeedbackKind, Received, Receiving, ReceivingConfig};
use super::rtcp;
use super::rtx::Rtx;

/// Configuration of a [`Receiver`].
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Its own SSRC.
    pub ssrc: u32,
    /// Canonical name, `user@host`, at most 255 bytes (RFC 3550 §6.5.1).
    pub cname: String,
    /// How arrivals are reported.
    pub feedback: FeedbackKind,
    /// RTX streams that the sender has: see [`ReceivingConfig`].
    pub rtx: Vec<Rtx>,
    /// The least time between two reports.
    pub interval: Duration,
    /// Seed of RTCP's intervals.
    pub seed: u64,
}

/// Receives calls on one port, measures them and reports to the last sender, until it is closed or dropped.
#[derive(Debug)]
pub struct Receiver {
    driver: Driver<Driven>,
    address: SocketAddr,
}

struct Driven {
    receiving: Receiving,
    take: Take,
    pacing: Histogram,
}

/// Consumer of packets: called with the stream and a packet of it.
type Take = Box<dyn FnMut(&Received, &RtpPacket<'_>) + Send>;

impl std::fmt::Debug for Driven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.receiving.fmt(f)
    }
}

impl Session for Driven {
    fn handle(&mut self, now: Instant, datagram: &[u8], ecn: u8, is_peers: bool) -> bool {
        // Anybody who knows an SSRC could end a call that goes on.
        if !is_peers && rtcp::has_bye(datagram) {
            return false;
        }
        let taken = self.receiving.handle(now, datagram, ecn);
        if let Some((received, packet)) = &taken {
            (self.take)(received, packet);
        }
        taken.is_some()
    }

    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Instant> {
        self.receiving.poll_transmit(now, out).then_some(now)
    }

    fn timeout(&self) -> Option<Instant> {
        self.receiving.poll_timeout()
    }

    fn turn(&mut self, _now: Instant) {}

    fn pacing(&mut self) -> &mut Histogram {
        &mut self.pacing
    }
}

impl Receiver {
    /// Listens at `address`; `take` is called, from the receiver's own thread, with the payload of each packet that is new.
    ///
    /// # Errors
    /// A CNAME of more than 255 bytes, or the system's error.
    pub fn bind(
        address: SocketAddr,
        config: ReceiverConfig,
        mut take: impl FnMut(&Received, &[u8]) + Send + 'static,
    ) -> io::Result<Self> {
        Self::bind_packets(address, config, move |received, packet| {
            take(received, packet.payload())
        })
    }

    /// As [`Receiver::bind`], with whole packets: a depacketiser needs their numbers, time stamps and markers.
    ///
    /// # Errors
    /// A CNAME of more than 255 bytes, or the system's error.
    pub fn bind_packets(
        address: SocketAddr,
        config: ReceiverConfig,
        take: impl FnMut(&Received, &RtpPacket<'_>) + Send + 'static,
    ) -> io::Result<Self> {
        if config.cname.len() > 255 {
            let why = format!(
                "a CNAME of {} bytes: 255 at most, like user@host",
                config.cname.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let socket = UdpSocket::bind(address)?;
        let address = socket.local_addr()?;
        let clock = Clock::start();
        let driven = Driven {
            receiving: Receiving::new(ReceivingConfig {
                ssrc: config.ssrc,
                cname: config.cname,
                feedback: config.feedback,
                rtx: config.rtx,
                interval: config.interval,
                ntp: clock.ntp,
                seed: config.seed,
            }),
            take: Box::new(take),
            pacing: Histogram::new(),
        };
        let driver = Driver::start(socket, None, clock, driven)?;
        Ok(Self { driver, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Receive counters by stream, in the order of their first packets.
    pub fn streams(&self) -> Vec<Received> {
        self.driver
            .look(|driven| driven.receiving.streams().cloned().collect())
    }

    /// Datagrams that were neither RTP nor RTCP, and others: see [`Receiving::refused`].
    pub fn refused(&self) -> u64 {
        self.driver.look(|driven| driven.receiving.refused())
    }

    /// Whether a sender said BYE.
    pub fn has_ended(&self) -> bool {
        self.driver.look(|driven| driven.receiving.has_ended())
    }

    /// Whether the socket has failed: [`Receiver::close`] says how.
    pub fn has_failed(&self) -> bool {
        self.driver.has_failed()
    }

    /// Says BYE and ends. The figures are the last.
    ///
    /// # Errors
    /// The socket's error, now or before.
    pub fn close(mut self) -> io::Result<Vec<Received>> {
        self.driver.end(|driven| driven.receiving.close())?;
        Ok(self.streams())
    }
}
