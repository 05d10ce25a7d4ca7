// SPDX-License-Identifier: MIT OR Apache-2.0
//! Server of a live video over WebTransport datagrams, by our sender or by quinn's own queue: `make webtransport` runs it. It plays an IVF
//! file in a loop, at its frame rate, until the one session or its standard input ends.
//!
//!     webtransport --sender makeway|plain --clip FILE --listen ADDRESS:PORT
//!
//! Standard output: `{"hash": ...}` of the certificate when it listens, and counts at the end.
//!
//! A datagram there: a byte 0, then in network byte order its layer (1 byte), its number in that layer (4), how many datagrams each of the three
//! layers had before it (4 each), the number of its frame (4), of the frame it refers to (4; its own: a keyframe), part (1), parts (1), capture (8, us
//! since 1970), and a part of the frame. A lower layer may overtake a higher one, so what is missing below tells of a loss. A datagram back: 1 and
//! pairs of layer (1) and number (4) that did not come, which are sent again if they are of use; or 2 and a frame (4), instead of which a keyframe
//! is asked for.

use std::collections::VecDeque;
use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use makeway_quinn::send::sbpn2::Sbpn2;
use makeway_quinn::send::{Config, Event, Frame, FrameId, Outcome};
use makeway_quinn::units::Instant;
use makeway_quinn::{AHEAD, Sender};
use makeway_testing::camera::Camera;
use tokio::io::{AsyncReadExt, Stdin};
use tokio::time::{MissedTickBehavior, interval};
use wtransport::quinn::{self, TransportConfig};
use wtransport::tls::Sha256DigestFmt;
use wtransport::{Connection, Endpoint, Identity, ServerConfig};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A frame is shown this long after its capture.
const PATIENCE: Duration = Duration::from_millis(200);
/// A frame that others refer to is of use for longer: they can be shown.
const OF_USE: Duration = Duration::from_millis(400);
/// Datagrams that may be asked for again.
const KEPT: usize = 512;
/// Payload of a datagram, without what is in front of it. All paths of QUIC carry 1200 B packets (RFC 9000 §14).
const PART: usize = 1100;
const HEADER: usize = 36;

/// A datagram that left, or will.
struct Sent {
    number: u32,
    frame: u32,
    layer: u8,
    capture: Instant,
    datagram: Bytes,
}

#[derive(Default)]
struct Counts {
    frames: u64,
    dropped: u64,
    datagrams: u64,
    again: u64,
    asked: u64,
    refreshes: u64,
}

/// Our sender, or the connection as it is.
enum Way {
    Makeway(Sender<Sbpn2>, VecDeque<(u32, FrameId, Option<Outcome>)>),
    Plain(quinn::Connection),
}

struct Server {
    way: Way,
    camera: Camera,
    /// In front of each datagram: the session (RFC 9297 §2.1).
    session: Bytes,
    zero: std::time::Instant,
    sent: VecDeque<Sent>,
    /// Datagrams of each layer so far.
    next: [u32; 3],
    counts: Counts,
}

impl Server {
    fn now(&self) -> Instant {
        match &self.way {
            Way::Makeway(sender, _) => sender.now(),
            Way::Plain(_) => Instant::from_nanos(self.zero.elapsed().as_nanos() as u64),
        }
    }

    /// A frame leaves, cut into datagrams.
    fn shoot(&mut self) -> Fallible<()> {
        let picture = self.camera.shoot();
        let capture = self.now();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64;
        let layer = picture.layer;
        let first = self.next[usize::from(layer)];
        let patience = if layer == 2 { PATIENCE } else { OF_USE };
        let parts: Vec<Bytes> = {
            let count = picture.data.len().div_ceil(PART);
            let part = |(at, data): (usize, &[u8])| {
                let mut datagram =
                    BytesMut::with_capacity(self.session.len() + HEADER + data.len());
                datagram.put(&self.session[..]);
                datagram.put_u8(0);
                datagram.put_u8(picture.layer);
                datagram.put_u32(first + at as u32);
                for before in self.next {
                    datagram.put_u32(before);
                }
                datagram.put_u32(picture.number);
                datagram.put_u32(picture.refers_to);
                datagram.put_slice(&[at as u8, count as u8]);
                datagram.put_u64(since_1970);
                datagram.put_slice(data);
                datagram.freeze()
            };
            picture.data.chunks(PART).enumerate().map(part).collect()
        };
        self.counts.frames += 1;
        match &mut self.way {
            Way::Makeway(sender, frames) => {
                let known = |(number, id, _): &(u32, FrameId, _)| {
                    (*number == picture.refers_to).then_some(*id)
                };
                let refers_to = frames.iter().find_map(known);
                let frame = Frame {
                    class: picture.layer,
                    deadline: capture + nanos(patience),
                    depends_on: refers_to.as_slice(),
                };
                let (id, _) = sender.send_frame(&frame, &parts)?;
                frames.push_back((picture.number, id, None));
                if frames.len() > KEPT {
                    frames.pop_front();
                }
            }
            Way::Plain(connection) => {
                for datagram in &parts {
                    connection.send_datagram(datagram.clone())?;
                }
            }
        }
        for (number, datagram) in (first..).zip(parts) {
            self.sent.push_back(Sent {
                number,
                frame: picture.number,
                layer,
                capture,
                datagram,
            });
            self.next[usize::from(layer)] += 1;
            self.counts.datagrams += 1;
        }
        while self.sent.len() > KEPT {
            self.sent.pop_front();
        }
        Ok(())
    }

    /// The encoder makes a keyframe, unless the latest one is newer than the frame that was lost.
    fn refresh(&mut self, lost: u32) {
        self.counts.refreshes += u64::from(self.camera.refresh(lost));
    }

    /// A datagram did not come: it is sent again if it is of use.
    fn again(&mut self, layer: u8, number: u32) -> Fallible<()> {
        self.counts.asked += 1;
        let now = self.now();
        let Some(sent) =
            (self.sent.iter()).find(|sent| (sent.layer, sent.number) == (layer, number))
        else {
            return Ok(());
        };
        let patience = if sent.layer == 2 { PATIENCE } else { OF_USE };
        let deadline = sent.capture + nanos(patience);
        match &mut self.way {
            Way::Makeway(sender, frames) => {
                // Those that it dropped did not get lost.
                let outcome = |(frame, _, outcome): &(u32, _, Option<Outcome>)| {
                    (*frame == sent.frame).then_some(*outcome)
                };
                if let Some(Some(Outcome::Sent { .. })) = frames.iter().find_map(outcome) {
                    sender.send(sent.layer, deadline, None, sent.datagram.clone())?;
                    self.counts.again += 1;
                }
            }
            Way::Plain(connection) if now < deadline => {
                connection.send_datagram(sent.datagram.clone())?;
                self.counts.again += 1;
            }
            Way::Plain(_) => {}
        }
        Ok(())
    }

    fn heard(&mut self, message: &[u8]) -> Fallible<()> {
        match message {
            [1, numbers @ ..] => {
                for pair in numbers.chunks_exact(5).take(64) {
                    let number = u32::from_be_bytes([pair[1], pair[2], pair[3], pair[4]]);
                    self.again(pair[0], number)?;
                }
            }
            [2, n3, n2, n1, n0] => self.refresh(u32::from_be_bytes([*n3, *n2, *n1, *n0])),
            _ => {}
        }
        Ok(())
    }

    fn happened(&mut self, event: Event) {
        let Way::Makeway(_, frames) = &mut self.way else {
            return;
        };
        let Event::Frame(id, outcome) = event else {
            return;
        };
        let Some(frame) = frames.iter_mut().find(|(_, of, _)| *of == id) else {
            return;
        };
        frame.2 = Some(outcome);
        if !matches!(outcome, Outcome::Sent { .. }) {
            self.counts.dropped += 1;
            let lost = frame.0;
            // Nothing refers to the highest layer.
            let is_base = self
                .sent
                .iter()
                .any(|sent| sent.frame == lost && sent.layer == 0);
            if is_base {
                self.refresh(lost);
            }
        }
    }

    async fn event(&mut self) -> Option<Event> {
        match &self.way {
            Way::Makeway(sender, _) => sender.clone().event().await,
            Way::Plain(_) => std::future::pending().await,
        }
    }

    async fn run(mut self, connection: Connection, input: &mut Stdin) -> Fallible<Counts> {
        let mut clock = interval(Duration::from_millis(40));
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut byte = [0];
        loop {
            let done = tokio::select! {
                _ = input.read(&mut byte) => break,
                _ = clock.tick() => self.shoot(),
                heard = connection.receive_datagram() => match heard {
                    Ok(datagram) => self.heard(&datagram.payload()),
                    Err(_) => break,
                },
                event = self.event() => match event {
                    Some(event) => {
                        self.happened(event);
                        Ok(())
                    }
                    None => break,
                },
            };
            if let Err(why) = done {
                if connection.quic_connection().close_reason().is_some() {
                    break;
                }
                return Err(why);
            }
        }
        Ok(self.counts)
    }
}

fn nanos(time: Duration) -> makeway_quinn::units::Duration {
    makeway_quinn::units::Duration::from_nanos(time.as_nanos() as u64)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "write --sender makeway|plain --clip FILE --listen ADDRESS:PORT";
    let [s, sender, c, file, l, listen] = &arguments[..] else {
        return Err(usage.into());
    };
    if [s.as_str(), c, l] != ["--sender", "--clip", "--listen"]
        || !["makeway", "plain"].contains(&sender.as_str())
    {
        return Err(usage.into());
    }
    let camera = Camera::open(file)?;
    let address: SocketAddr = listen.parse()?;
    let identity = Identity::self_signed([address.ip().to_string()])?;
    let hash = identity.certificate_chain().as_slice()[0]
        .hash()
        .fmt(Sha256DigestFmt::DottedHex);
    let mut transport = TransportConfig::default();
    if sender == "makeway" {
        transport.datagram_send_buffer_size(AHEAD);
    }
    let config = ServerConfig::builder()
        .with_bind_address(address)
        .with_custom_transport(identity, transport);
    let endpoint = Endpoint::server(config.build())?;
    println!("{{\"hash\": \"{hash}\"}}");

    let mut input = tokio::io::stdin();
    let mut byte = [0];
    let session = tokio::select! {
        session = endpoint.accept() => session,
        _ = input.read(&mut byte) => return Ok(()),
    };
    let connection = session.await?.accept().await?;
    let quic = connection.quic_connection().clone();
    let watched = quic.clone();
    let mut prefix = BytesMut::new();
    prefix.put_u8(u8::try_from(connection.session_id().into_u64() / 4)?);
    let way = match sender.as_str() {
        "makeway" => {
            let sender = Sender::new(quic, Config::default(), Sbpn2::default())?;
            Way::Makeway(sender, VecDeque::new())
        }
        _ => Way::Plain(quic),
    };
    let server = Server {
        way,
        camera,
        session: prefix.freeze(),
        zero: std::time::Instant::now(),
        sent: VecDeque::new(),
        next: [0; 3],
        counts: Counts::default(),
    };
    let counts = server.run(connection, &mut input).await?;
    let path = watched.stats().path;
    let Counts {
        frames,
        dropped,
        datagrams,
        again,
        asked,
        refreshes,
    } = counts;
    println!(
        "{{\"frames\": {frames}, \"dropped\": {dropped}, \"datagrams\": {datagrams}, \"again\": {again}, \"asked\": {asked}, \
         \"refreshes\": {refreshes}, \"packets\": {}, \"lost\": {}, \"events\": {}, \"window\": {}, \"rtt_ms\": {}, \"least_ms\": {}}}",
        path.sent_packets,
        path.lost_packets,
        path.congestion_events,
        path.cwnd,
        path.rtt.as_millis(),
        path.min_rtt.as_millis()
    );
    Ok(())
}
