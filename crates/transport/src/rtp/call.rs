// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender's side of a call, on a socket.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use bytes::Bytes;
use makeway_core::measure::Histogram;
use makeway_core::rate::tfrc::TfrcParams;
use makeway_core::rate::{self, AnyController, AnyReporter};
use makeway_core::sched::Backlog;
use makeway_core::send::{self, AnyPolicy, DatagramId, Event, FrameId};
use makeway_core::units::{Duration, Instant, Rate};
use makeway_log::Log;
use thiserror::Error;
use tokio::sync::mpsc;

use super::driver::{Clock, Driver, Session};
use super::log::Record;
use super::rtx::RtxConfig;
use super::sending::{
    ConfigError, Frame, PacketFrame, PacketFrameError, Request, Sending, SendingConfig, Stats,
    Stream,
};
use crate::network::{self, Ecn};

/// Events that wait for the application; more are dropped and counted.
const EVENTS: usize = 1024;

/// Configuration of a [`Call`].
#[derive(Clone, Debug)]
pub struct CallConfig {
    /// 1 to 31, each with a class of its own.
    pub streams: Vec<Stream>,
    /// Bounds of the queue.
    pub queue: send::Config,
    /// Which packet leaves next.
    pub policy: AnyPolicy,
    /// How fast they may leave.
    pub rate: rate::Config,
    /// Retransmission of lost packets; the default sends nothing again.
    pub rtx: RtxConfig,
    /// Canonical name, `user@host`, at most 255 bytes (RFC 3550 §6.5.1).
    pub cname: String,
    /// Seed of first sequence numbers and time stamps: another for each call.
    pub seed: u64,
    /// ECN bits of its packets. Marks are reported by RFC 8888 alone, and only a path that both ends have agreed on may be asked for
    /// them (RFC 6679).
    pub ecn: Ecn,
}

/// TFRC for calls over RTP. Its nofeedback timer waits for receivers that report by RTCP's clock and not each RTT: GStreamer's are up to
/// half a second late when a call begins.
pub fn tfrc() -> TfrcParams {
    TfrcParams {
        least_timeout: Duration::from_secs(1),
        ..TfrcParams::default()
    }
}

/// Why there is no call.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The configuration cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The socket or its thread cannot be.
    #[error("to {to}: {why}")]
    Socket {
        /// Address of the receiver.
        to: SocketAddr,
        /// The system's error.
        why: io::Error,
    },
}

/// How a call stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallStats {
    /// Its counters.
    pub session: Stats,
    /// Rate allowed now, in payload.
    pub rate: Rate,
    /// The controller's round-trip time, once there is one.
    pub rtt: Option<Duration>,
    /// The backlog, payload.
    pub backlog: Backlog,
    /// How long after it could leave each datagram left.
    pub pacing: Histogram,
    /// Events that the application did not read in time.
    pub missed_events: u64,
    /// Datagrams that the system did not send: no room, no route, a packet filter. They are lost as others are on the path.
    pub refused: u64,
}

/// Sends media to one receiver until it is closed or dropped. Its methods may be called with or without tokio.
#[derive(Debug)]
pub struct Call {
    driver: Driver<Driven>,
    events: mpsc::Receiver<Event>,
}

struct Driven {
    sending: Sending<AnyController, AnyReporter, AnyPolicy>,
    events: mpsc::Sender<Event>,
    missed_events: u64,
    refused: u64,
    pacing: Histogram,
    log: Option<Box<dyn Log<Record>>>,
}

impl std::fmt::Debug for Driven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driven")
            .field("sending", &self.sending)
            .field("has_log", &self.log.is_some())
            .finish_non_exhaustive()
    }
}

impl Driven {
    /// Tells the application and the log of events.
    fn tell(&mut self, now: Instant) {
        self.sending.record_events(now);
        while let Some(event) = self.sending.poll_event() {
            if self.events.try_send(event).is_err() {
                self.missed_events += 1;
            }
        }
        if let Some(log) = &mut self.log {
            while let Some(record) = self.sending.poll_record(now) {
                log.record(&record);
            }
        }
    }

    /// Keeps few events in memory where there is a log.
    fn log_new_events(&mut self, now: Instant) {
        if self.log.is_some() {
            self.tell(now);
        }
    }
}

impl Session for Driven {
    fn handle(&mut self, now: Instant, datagram: &[u8], _ecn: u8, _is_peers: bool) -> bool {
        self.sending.handle(now, datagram);
        false // it sends to whom it was told
    }

    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Instant> {
        let due = self.sending.poll_transmit(now, out);
        self.log_new_events(now); // a packet is logged as sent before a report on it comes
        due
    }

    fn timeout(&self) -> Option<Instant> {
        self.sending.poll_timeout()
    }

    fn turn(&mut self, now: Instant) {
        self.sending.handle_timeout(now);
        self.tell(now);
    }

    fn follow_mtu(&mut self, payload: u32) {
        self.sending.follow_mtu(payload);
    }

    fn on_refused(&mut self) {
        self.refused += 1;
    }

    fn pacing(&mut self) -> &mut Histogram {
        &mut self.pacing
    }
}

impl Call {
    /// Begins to send to `to`, from a port of the system's choice.
    ///
    /// # Errors
    /// A configuration that cannot be, or the system's error.
    pub fn connect(to: SocketAddr, config: CallConfig) -> Result<Self, CallError> {
        let failed = |why| CallError::Socket { to, why };
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
        };
        let socket = UdpSocket::bind(any).map_err(failed)?;
        // Feedback is believed from the receiver alone.
        socket.connect(to).map_err(failed)?;
        Self::over(socket, config)
    }

    /// Begins to send over a socket of the application's, which is connected to the receiver: one that an ICE agent has found, or with
    /// options of its own. All datagrams of the receiver are read here.
    ///
    /// # Errors
    /// A configuration that cannot be, or the system's error: the socket is not connected.
    pub fn over(socket: UdpSocket, config: CallConfig) -> Result<Self, CallError> {
        let none: SocketAddr = ([0, 0, 0, 0], 0).into();
        let to = socket.peer_addr();
        let to = to.map_err(|why| CallError::Socket { to: none, why })?;
        let failed = |why| CallError::Socket { to, why };
        network::send_ecn(&socket, config.ecn).map_err(failed)?;
        let clock = Clock::start();
        let session = SendingConfig {
            streams: config.streams,
            queue: config.queue,
            cname: config.cname,
            rtx: config.rtx,
            ntp: clock.ntp,
            seed: config.seed,
        };
        let rate = config.rate.with_largest(session.queue.largest);
        rate.check().map_err(ConfigError::from)?;
        let (controller, reporter) = (rate.controller(), rate.reporter());
        let (sender, events) = mpsc::channel(EVENTS);
        let driven = Driven {
            sending: Sending::new(session, controller, reporter, config.policy)?,
            events: sender,
            missed_events: 0,
            refused: 0,
            pacing: Histogram::new(),
            log: None,
        };
        let driver = Driver::start(socket, Some(to), clock, driven).map_err(failed)?;
        Ok(Self { driver, events })
    }

    /// Logs events from now on: begin before the first frame. [`FileLog`](super::FileLog) writes them to a file. A log that was there before
    /// gets nothing more.
    pub fn log_to(&self, log: impl Log<Record> + 'static) {
        self.driver.with(|driven, _| {
            driven.sending.start_recording();
            driven.log = Some(Box::new(log));
        });
    }

    /// Takes a frame of the stream with this index in [`CallConfig::streams`], with the deadline [`Call::within`] `patience`: the number of
    /// its first packet, and their number. The outcome of each is an event. `None`: there is no such stream.
    pub fn send(
        &self,
        stream: usize,
        patience: impl Into<Duration>,
        payload: impl Into<Bytes>,
    ) -> Option<(DatagramId, u64)> {
        let (patience, payload) = (patience.into(), payload.into());
        self.driver.with(|driven, now| {
            let frame = Frame {
                stream,
                deadline: now + patience,
                payload,
            };
            let sent = driven.sending.send(now, &frame);
            driven.log_new_events(now);
            sent
        })
    }

    /// Takes a frame in the packets of the application's packetiser, with times as [`Call::now`] tells them: its number, and that of its
    /// first packet. The outcome of the frame, and of each packet, is an event.
    ///
    /// # Errors
    /// [`PacketFrameError`]; nothing is taken.
    pub fn send_packets(
        &self,
        frame: &PacketFrame,
    ) -> Result<(FrameId, DatagramId), PacketFrameError> {
        self.driver.with(|driven, now| {
            let sent = driven.sending.send_packets(now, frame);
            driven.log_new_events(now);
            sent
        })
    }

    /// The application's estimate of the rate from now on, in payload; whether the call has
    /// [`rate::Config::External`], which alone takes one.
    pub fn set_estimate(&self, rate: Rate, rtt: Option<Duration>) -> bool {
        self.driver.with(|driven, now| {
            driven
                .sending
                .change_rate(now, |controller| controller.set_estimate(rate, rtt))
        })
    }

    /// The longest RTP payload that the path carries now: see [`Sending::largest`].
    pub fn largest(&self) -> usize {
        self.driver.look(|driven| driven.sending.largest())
    }

    /// The time by which frames are told: it counts from the beginning of the call.
    pub fn now(&self) -> Instant {
        self.driver.now()
    }

    /// The deadline of what must arrive within `patience` from now.
    pub fn within(&self, patience: impl Into<Duration>) -> Instant {
        self.now() + patience.into()
    }

    /// The next event; `None` once the call has failed.
    pub async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// The next event, if there is one now.
    pub fn try_event(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// The receiver's next request, if there is one now: for a keyframe, or for a packet that it misses.
    pub fn try_request(&self) -> Option<Request> {
        self.driver.look(|driven| driven.sending.poll_request())
    }

    /// How it stands.
    pub fn stats(&self) -> CallStats {
        self.driver.look(|driven| CallStats {
            session: driven.sending.stats(),
            rate: driven.sending.rate(),
            rtt: driven.sending.rtt(),
            backlog: driven.sending.backlog(),
            pacing: driven.pacing.clone(),
            missed_events: driven.missed_events,
            refused: driven.refused,
        })
    }

    /// Time since it began.
    pub fn elapsed(&self) -> Duration {
        self.driver.now().saturating_since(Instant::ZERO)
    }

    /// Whether the socket has failed: [`Call::close`] says how.
    pub fn has_failed(&self) -> bool {
        self.driver.has_failed()
    }

    /// Says BYE and ends. The backlog is not sent; the figures are the last.
    ///
    /// # Errors
    /// The socket's error, now or before.
    pub fn close(mut self) -> io::Result<CallStats> {
        let ended = self.driver.end(|driven| driven.sending.close());
        self.driver.with(|driven, now| {
            driven.tell(now);
            driven.sending.record_end(now);
            driven.tell(now);
        });
        ended?;
        Ok(self.stats())
    }
}
