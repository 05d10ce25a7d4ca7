// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection (RFC 4340 §8), from Request to Reset, with a [`Sender`] above it.
//!
//! | RFC 4340 §8.5 | here |
//! | --- | --- |
//! | S.ISS, S.ISR, S.OSR | `iss`, `isr`, `osr` |
//! | S.GSS, S.GSR, S.GAR | `gss`, `gsr`, `gar` |
//! | S.SWL to S.SWH, S.AWL to S.AWH | `Connection::sequence_window`, `Connection::ack_window` |
//!
//! Departures: the client stops after [`Config::patience`], not after eight minutes; a server makes no Init Cookies (a client
//! sends them back); data in Request and Response is not read; Data Dropped and ECN nonces are not sent.

mod halves;
mod receive;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::Bytes;
use makeway_core::rate::tfrc::window::WindowCounter;
use makeway_core::rate::{AnyController, RateController};
use makeway_core::send::{self, Datagram, DatagramId, Policy, Sender};
use makeway_core::units::{Duration, Instant};

use super::ack_vector::AckVector;
use super::feature::{self, End, Features};
use super::option::Opt;
use super::wire::{Coverage, Kind, Packet, Pseudo, Reset};
use super::{Ccid, Seq};
use halves::{Receiver, Sent};

/// Configuration of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The application's Service Code (§8.1.2).
    pub service: u32,
    /// Congestion control of what this end sends.
    pub ccid: Ccid,
    /// Congestion control of the other end, if this one insists.
    pub their_ccid: Option<u8>,
    /// How many packets may be under way, 32 at least: five times what is sent in an RTT (§7.5.2).
    pub sequence_window: u64,
    /// The queue above.
    pub sender: send::Config,
    /// For how long an end that does not answer is asked.
    pub patience: Duration,
}

impl Config {
    /// With windows of 1000 packets, three minutes of patience and a queue of 32 packets (chosen by us).
    pub fn new(service: u32, ccid: Ccid) -> Self {
        Self {
            service,
            ccid,
            their_ccid: None,
            sequence_window: 1000,
            sender: send::Config {
                packets: 32,
                ..send::Config::default()
            },
            patience: Duration::from_secs(180),
        }
    }
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The own port.
    pub local: u16,
    /// The other's.
    pub remote: u16,
    /// Pseudo-header of departures: addresses from here to there.
    pub outward: Pseudo,
}

impl Ends {
    /// Pseudo-header of arrivals.
    pub fn inward(&self) -> Pseudo {
        match self.outward {
            Pseudo::V4(from, to) => Pseudo::V4(to, from),
            Pseudo::V6(from, to) => Pseudo::V6(to, from),
            Pseudo::Udp => Pseudo::Udp,
        }
    }
}

/// Events for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Both ends agree: datagrams can be sent.
    Established,
    /// A datagram came.
    Received(Bytes),
    /// Event of the sender.
    Sender(send::Event),
    /// The connection has ended: [`Reset::CLOSED`], or the reason. Nothing follows.
    Ended(Reset),
}

/// There is no connection yet, or no more, that a datagram could be sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is not established")]
pub struct NotEstablished;

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets sent.
    pub sent: u64,
    /// Packets received and taken.
    pub received: u64,
    /// Bytes that are no packet of this connection.
    pub malformed: u64,
    /// Packets whose numbers lie outside of the windows, or that do not belong in the state (§7.5.4).
    pub invalid: u64,
    /// Feedback that the rate controller took.
    pub feedback: u64,
    /// Feedback that it refused: it could not be true.
    pub refused: u64,
    /// Datagrams that came while the application had [`Connection::UNREAD`] events to read.
    pub unread: u64,
}

/// States of §4.3. A listener has no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The client asks.
    Request,
    /// The server has answered.
    Respond,
    /// The client has its answer, and the server may not know.
    PartOpen,
    /// Data flows.
    Open,
    /// The server has asked the client to close.
    CloseReq,
    /// This end has closed.
    Closing,
    /// Ended; the ports stay taken for a while.
    TimeWait,
    /// Ended.
    Closed,
}

/// Packets to be sent next, besides data.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// A Request, Response, CloseReq or Close, by the state.
    handshake: bool,
    ack: bool,
    sync: Option<Seq>,
    sync_ack: Option<Seq>,
    reset: Option<(Reset, [u8; 3])>,
}

/// A connection, of one end.
#[derive(Debug)]
pub struct Connection<P> {
    config: Config,
    server: bool,
    ends: Ends,
    state: State,
    features: Features,
    policy: Option<P>,
    sender: Option<Sender<AnyController, P, Bytes>>,
    sent: Sent,
    window: WindowCounter,
    vector: AckVector,
    receiver: Receiver,
    iss: Seq,
    isr: Seq,
    osr: Option<Seq>,
    gss: Seq,
    gsr: Seq,
    gar: Seq,
    /// When the packet `gsr` came.
    gsr_at: Instant,
    pending: Pending,
    /// When what was asked is asked again, how long that takes next time, and since when it is asked.
    again: Option<(Instant, Duration)>,
    asking: Instant,
    /// When the current second of Syncs began, and how many went out in it.
    syncs: (Instant, u32),
    /// A timestamp to send back, and when it came.
    echo: Option<(u32, Instant)>,
    /// Init Cookies of the server's Response, as options.
    cookie: Vec<u8>,
    /// Packets without data since the last with it.
    ndp: u64,
    /// Whether a packet came since this end acknowledged one, and when it did.
    unacknowledged: bool,
    acknowledged_at: Instant,
    /// A Reset that belongs to no connection any more.
    stray: Option<Vec<u8>>,
    options: Vec<u8>,
    events: VecDeque<Event>,
    stats: Stats,
}

impl<P: Policy> Connection<P> {
    /// Events that wait for an application at most; datagrams that come beyond are lost.
    pub const UNREAD: usize = 4096;
    /// First wait for an answer to a Request (§8.1.1), and for other answers (§8.1.5).
    const REQUEST_AGAIN: Duration = Duration::from_secs(1);
    const ACK_AGAIN: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(64);
    /// 2 MSL (§8.3).
    const TIME_WAIT: Duration = Duration::from_secs(240);
    /// Syncs in a second at most (§7.5.4).
    const SYNCS: u32 = 8;
    /// Bytes of Init Cookie options that are sent back, lengths included: one of the longest, or several short ones. A
    /// server that asks for more is refused: with all other options they would not fit a header.
    const MOST_COOKIES: usize = 255;

    /// The client's end: it sends a Request. `iss` should be chosen by chance (§7.2).
    pub fn client(config: Config, policy: P, ends: Ends, iss: u64, now: Instant) -> Self {
        let mut this = Self::new(config, policy, ends, iss, now, false);
        this.pending.handshake = true;
        this.ask(now, Self::REQUEST_AGAIN);
        this
    }

    /// The server's end, of a Request. The error is the Reset to send.
    pub fn accept(
        config: Config,
        policy: P,
        ends: Ends,
        iss: u64,
        now: Instant,
        packet: &[u8],
    ) -> Result<Self, Option<Vec<u8>>> {
        let Ok(request) = Packet::decode(packet, &ends.inward()) else {
            return Err(None);
        };
        let refused = |code| Err(stray(&request, &ends.outward, code, [0; 3]));
        match request.kind {
            Kind::Request { service } if service == config.service => {}
            Kind::Request { .. } => return refused(Reset::BAD_SERVICE_CODE),
            _ => return refused(Reset::NO_CONNECTION),
        }
        let mut this = Self::new(config, policy, ends, iss, now, true);
        // §8.5, step 3.
        this.state = State::Respond;
        (this.isr, this.gsr) = (request.seq, request.seq);
        this.receiver.begin(request.seq);
        this.handle_packet(now, packet);
        Ok(this)
    }

    fn new(config: Config, policy: P, ends: Ends, iss: u64, now: Instant, server: bool) -> Self {
        let mut features = Features::new(server);
        features.want(feature::CCID, End::Local, config.ccid.number().into());
        if let Some(ccid) = config.their_ccid {
            features.want(feature::CCID, End::Remote, ccid.into());
        }
        match config.ccid {
            // RFC 4341 §4.
            Ccid::Two(_) => features.want(feature::SEND_ACK_VECTOR, End::Remote, 1),
            Ccid::Three(_) => {
                features.want(feature::SEND_LOSS_EVENT_RATE, End::Remote, 1);
                features.want(feature::SEND_NDP_COUNT, End::Local, 1);
            }
        }
        features.want(feature::SEQUENCE_WINDOW, End::Local, config.sequence_window);
        // Marks of ECN do not come up to here.
        features.want(feature::ECN_INCAPABLE, End::Local, 1);
        let iss = Seq::new(iss);
        Self {
            config,
            server,
            ends,
            state: State::Request,
            features,
            policy: Some(policy),
            sender: None,
            sent: Sent::default(),
            window: WindowCounter::default(),
            vector: AckVector::default(),
            receiver: Receiver::default(),
            iss,
            isr: Seq::default(),
            osr: None,
            gss: iss.plus(-1),
            gsr: Seq::default(),
            gar: iss,
            gsr_at: now,
            pending: Pending::default(),
            again: None,
            asking: now,
            syncs: (now, 0),
            echo: None,
            cookie: Vec::new(),
            ndp: 0,
            unacknowledged: false,
            acknowledged_at: now,
            stray: None,
            options: Vec::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Takes a datagram for the queue.
    pub fn enqueue(
        &mut self,
        now: Instant,
        datagram: Datagram,
        payload: Bytes,
    ) -> Result<DatagramId, NotEstablished> {
        let open = matches!(self.state, State::PartOpen | State::Open);
        let sender = self.sender.as_mut().filter(|_| open);
        let sender = sender.ok_or(NotEstablished)?;
        let id = sender.enqueue(now, datagram, payload);
        self.relay();
        Ok(id)
    }

    /// Ends the connection; the backlog is not sent any more.
    pub fn close(&mut self, now: Instant) {
        match self.state {
            State::PartOpen | State::Open => {
                // The end that is asked to close holds the ports: the client (§8.3).
                self.state = if self.server {
                    State::CloseReq
                } else {
                    State::Closing
                };
                self.pending.handshake = true;
                let rtt = self.rtt().unwrap_or(Self::REQUEST_AGAIN / 2);
                self.ask(now, rtt * 2);
            }
            State::Request | State::Respond => self.reset(Reset::ABORTED, [0; 3]),
            _ => {}
        }
    }

    /// Writes the next packet to send into `out`; whether there is one. Called until there is none.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        // The reason of the end goes before answers to what came after it: the other end keeps the first code.
        if let Some((code, data)) = self.pending.reset.take() {
            let ack = self.gsr;
            self.write(now, Kind::Reset { ack, code, data }, 0, &[], out);
            return true;
        }
        if let Some(stray) = self.stray.take() {
            *out = stray;
            return true;
        }
        if matches!(self.state, State::TimeWait | State::Closed) {
            return false;
        }
        let service = self.config.service;
        let ack = self.gsr;
        let control = if std::mem::take(&mut self.pending.handshake) {
            match self.state {
                State::Request => Some(Kind::Request { service }),
                State::Respond => Some(Kind::Response { ack, service }),
                State::CloseReq => Some(Kind::CloseReq { ack }),
                State::Closing => Some(Kind::Close { ack }),
                _ => None,
            }
        } else if let Some(ack) = self.pending.sync_ack.take() {
            Some(Kind::SyncAck { ack })
        } else {
            self.pending.sync.take().map(|ack| Kind::Sync { ack })
        };
        if let Some(kind) = control {
            self.write(now, kind, 0, &[], out);
            return true;
        }
        if !matches!(self.state, State::PartOpen | State::Open) {
            return false;
        }
        self.receiver.poll(now);
        // In PARTOPEN they go along with every packet that leaves.
        let confirms = self.state == State::Open && self.features.has_confirms();
        let due = self.pending.ack || self.receiver.is_due(now) || confirms;
        let transmit = self.sender.as_mut().and_then(|s| s.poll_transmit(now));
        self.relay();
        if let Some(transmit) = transmit {
            // Once in an RTT the other end learns which of its packets came (§11.1).
            let rtt = self.rtt().unwrap_or(Self::ACK_AGAIN);
            let piggyback =
                self.unacknowledged && now.saturating_since(self.acknowledged_at) >= rtt;
            let kind = if due || piggyback || self.state == State::PartOpen {
                Kind::DataAck { ack }
            } else {
                Kind::Data
            };
            let ccval = match self.config.ccid {
                Ccid::Three(_) => {
                    let rtt = self.rtt();
                    self.window.on_sent(now, rtt)
                }
                Ccid::Two(_) => 0,
            };
            self.sent.push(self.gss.plus(1), ccval);
            self.write(now, kind, ccval, &transmit.payload, out);
            return true;
        }
        if due {
            self.write(now, Kind::Ack { ack }, 0, &[], out);
        }
        due
    }

    fn write(&mut self, now: Instant, kind: Kind, ccval: u8, data: &[u8], out: &mut Vec<u8>) {
        self.gss = self.gss.plus(1);
        let seq = self.gss;
        let options = &mut self.options;
        options.clear();
        let acknowledges = matches!(kind, Kind::Ack { .. } | Kind::DataAck { .. });
        if kind != Kind::Data {
            self.features.write(seq, kind.ack().is_some(), options);
            // The server may not have got them until it answers.
            if kind.ack().is_some() && self.state != State::PartOpen {
                self.features.forget_confirms();
            }
        }
        if self.state == State::PartOpen {
            options.extend(&self.cookie);
        }
        if acknowledges {
            if self.features.value(feature::SEND_ACK_VECTOR, End::Local) == 1 {
                self.vector.write(seq, options);
            }
            self.receiver
                .write(now.saturating_since(self.gsr_at), options);
            self.pending.ack = false;
            self.unacknowledged = false;
            self.acknowledged_at = now;
        }
        if matches!(kind, Kind::Request { .. }) {
            Opt::Timestamp((now.as_nanos() / 10_000) as u32).write(options);
        } else if let Some((stamp, came)) = self.echo.take() {
            Opt::TimestampEcho(stamp, now.saturating_since(came)).write(options);
        }
        if self.features.value(feature::SEND_NDP_COUNT, End::Local) == 1 && self.ndp > 0 {
            Opt::NdpCount(self.ndp).write(options);
        }
        self.ndp = if kind.is_data() { 0 } else { self.ndp + 1 };
        self.stats.sent += 1;
        let packet = Packet {
            source: self.ends.local,
            destination: self.ends.remote,
            ccval,
            coverage: Coverage::default(),
            kind,
            seq,
            short: false,
            options: &self.options,
            data,
        };
        packet.encode(&self.ends.outward, out);
    }

    /// When to call [`Connection::handle_timeout`] and [`Connection::poll_transmit`], unless something comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let open = matches!(self.state, State::PartOpen | State::Open);
        let sender = self.sender.as_ref().filter(|_| open);
        [
            self.again.map(|(at, _)| at),
            sender.and_then(Sender::poll_timeout),
            self.receiver.next_timeout().filter(|_| open),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// A timer may have run out.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(sender) = &mut self.sender {
            sender.handle_timeout(now);
        }
        self.relay();
        let Some((_, wait)) = self.again.filter(|(at, _)| *at <= now) else {
            return;
        };
        if self.state == State::TimeWait {
            self.state = State::Closed;
            self.again = None;
            return;
        }
        let unanswered = !matches!(self.state, State::Open);
        if unanswered && now.saturating_since(self.asking) >= self.config.patience {
            return self.reset(Reset::ABORTED, [0; 3]);
        }
        match self.state {
            State::Request | State::CloseReq | State::Closing => self.pending.handshake = true,
            State::PartOpen => self.pending.ack = true,
            State::Open if self.features.is_changing() => self.pending.ack = true,
            // A server waits for its client's Requests.
            State::Respond => {}
            _ => {
                self.again = None;
                return;
            }
        }
        let wait = (wait * 2).min(Self::LONGEST);
        self.again = Some((now + wait, wait));
    }

    /// Events for the application, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether [`Connection::poll_event`] has something.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The sender, once it is established.
    pub fn sender(&self) -> Option<&Sender<AnyController, P, Bytes>> {
        self.sender.as_ref()
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// A feature's value now.
    pub fn feature(&self, number: u8, end: End) -> u64 {
        self.features.value(number, end)
    }

    fn rtt(&self) -> Option<Duration> {
        self.sender.as_ref().and_then(|sender| sender.rate().rtt())
    }

    /// Asks until there is an answer, for the first time again after `wait`.
    fn ask(&mut self, now: Instant, wait: Duration) {
        let wait = wait.min(Self::LONGEST);
        self.again = Some((now + wait, wait));
        self.asking = now;
    }

    /// Tells the other end that it is over, and the application.
    fn reset(&mut self, code: Reset, data: [u8; 3]) {
        if self.state < State::TimeWait {
            self.pending.reset = Some((code, data));
            self.end(State::Closed, code);
        }
    }

    fn end(&mut self, state: State, code: Reset) {
        self.state = state;
        self.again = None;
        self.events.push_back(Event::Ended(code));
    }

    fn relay(&mut self) {
        if let Some(sender) = &mut self.sender {
            while self.events.len() < Self::UNREAD
                && let Some(event) = sender.poll_event()
            {
                self.events.push_back(Event::Sender(event));
            }
        }
    }
}

/// The Reset that answers a packet of no connection (§8.3.1); a Reset is not answered.
pub fn stray(packet: &Packet<'_>, outward: &Pseudo, code: Reset, data: [u8; 3]) -> Option<Vec<u8>> {
    if matches!(packet.kind, Kind::Reset { .. }) {
        return None;
    }
    let seq = packet.kind.ack().map_or(Seq::default(), |ack| ack.plus(1));
    let ack = packet.seq;
    let mut out = Vec::new();
    Packet {
        source: packet.destination,
        destination: packet.source,
        ccval: 0,
        coverage: Coverage::default(),
        kind: Kind::Reset { ack, code, data },
        seq,
        short: false,
        options: &[],
        data: &[],
    }
    .encode(outward, &mut out);
    Some(out)
}
